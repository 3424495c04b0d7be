//! A profile's `[env]` settings: the environment variables of a session. Pure: no I/O.

use crate::{
    ProfileError,
    access::Widening,
    document::Document,
    entries::{PathEntry, VariableEntry},
    keys::{Allowing, Last, Restricting, Section as _, section},
};
use std::collections::BTreeMap;

section! {
    /// The environment variables of a session.
    "env." pub(crate) struct EnvironmentSettings, written as EnvironmentText {
        /// the directories of `PATH`; without any, `/usr/bin` and `/bin`. A directory below the
        /// private home or `/tmp` that the host does not have is empty and read-only. The shell of
        /// a command line is looked for in the system's directories first. A program that the
        /// daemon starts by its name is never looked for in a directory that the session may write,
        /// unless the call sets `PATH`
        path: Vec<PathEntry> = Vec::new(), Last;
        /// variables with their values
        set: BTreeMap<VariableEntry, String> = BTreeMap::new(), Last;
        /// variables passed on from the daemon's own environment
        pass: Vec<VariableEntry> = Vec::new(), Allowing("is not passed in");
        /// variables of calls that programs do not get
        deny: Vec<VariableEntry> = Vec::new(), Restricting;
    }
}

impl EnvironmentSettings {
    /// Returns the section without variables that are denied.
    fn consistent(mut self) -> Self {
        self.set.retain(|name, _| !self.deny.contains(name));
        self.pass.retain(|name| !self.deny.contains(name));
        self
    }

    /// Returns the environment of two profiles that are combined.
    pub(crate) fn combined(&self, other: &Self) -> Self {
        self.both(other).consistent()
    }

    /// Returns the section of a file that extends a profile with this one.
    pub(crate) fn resolve(
        &self,
        text: &EnvironmentText,
        document: &Document<'_>,
        widening: Widening,
    ) -> Result<Self, ProfileError> {
        let environment = self.over(text, document, widening)?;
        let pass = text.pass.iter().flatten().map(|said| ("env.pass", said.get_ref(), said.span()));
        let set = text.set.iter().flatten().map(|(name, said)| ("env.set", name, said.span()));
        for (key, name, span) in pass.chain(set) {
            if environment.deny.contains(name) {
                let why = format!("{} is denied by env.deny", name.0);
                return Err(document.wrong_at(span.start, key, why, "leave one of the two out"));
            }
        }
        for (name, value) in text.set.iter().flatten() {
            if value.get_ref().contains('\0') {
                let why = format!("the value of {} has a NUL in it", name.0);
                return Err(document.wrong_at(value.span().start, "env.set", why, ""));
            }
        }
        Ok(environment.consistent())
    }
}
