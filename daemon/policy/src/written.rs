//! A profile file as it is written, key by key, before it is combined with the profiles that it
//! extends. Pure: no I/O.

use crate::{
    access::WorkspaceAccess,
    checkers::Checker,
    entries::{EtcEntry, PathEntry, WritableEntry},
    environment::settings::EnvironmentText,
    handlers::{HandlersText, RememberText},
    jobs::JobsText,
    keys::{noun, text},
    layers::LayersText,
    limits::LimitsText,
    modes::ModesText,
    names::NameLists,
    net::NetText,
    rules::Rule,
    tools::ToolsText,
    transactions::TransactionsText,
    who::Conditions,
};
use palisade_protocol::{Ask, Guard};
use serde::Deserialize;
use toml::Spanned;

/// A list in which each entry has its source position.
pub(crate) type List<T> = Vec<Spanned<T>>;

text! {
    /// A whole profile file.
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    "" pub(crate) struct ProfileText {
        /// the version of this language
        version: Option<Spanned<i64>> ["1"], "must be there";
        /// what the profile is for, in a sentence
        description: Option<String>, "must be there";
        /// the profiles that this one narrows, or widens
        extends: Option<Spanned<Extends>>, "none";
        /// the profile may allow more than what it extends; for root's daemon only in a file that
        /// root owns
        widen: Option<Spanned<bool>>, "`false`";
        /// this profile is [observed and not enforced](#trying-a-profile-out-observe); the named
        /// one is enforced
        observe: Option<Spanned<String>> ["a profile's name"], "none";
        /// examples with their answers
        #[serde(default)]
        tests: List<String>, "none";
        sections {
            ask: Option<Ask>,
            guard: Option<Guard>,
            #[serde(default)]
            fs: Files,
            #[serde(default)]
            net: NetText,
            #[serde(default)]
            env: EnvironmentText,
            #[serde(default)]
            limits: LimitsText,
            #[serde(default)]
            layers: LayersText,
            #[serde(default)]
            tools: ToolsText,
            #[serde(default)]
            rules: List<Rule>,
            #[serde(default)]
            transactions: TransactionsText,
            #[serde(default)]
            jobs: JobsText,
            diagnostics: Option<List<Checker>>,
            #[serde(default)]
            remember: RememberText,
            #[serde(default)]
            handlers: HandlersText,
            who: Option<Conditions>,
        }
    }
}

/// One profile name, or several.
#[derive(Debug, Deserialize)]
#[serde(untagged, expecting = "takes a profile's name, or a list of them")]
pub(crate) enum Extends {
    One(String),
    Several(Vec<String>),
}

noun! { Extends: "name, or list of names", "names"; }

impl Extends {
    fn names(&self) -> &[String] {
        match self {
            Self::One(name) => std::slice::from_ref(name),
            Self::Several(names) => names,
        }
    }
}

impl ProfileText {
    /// Returns the profiles that the file extends.
    pub(crate) fn parents(&self) -> &[String] {
        self.extends.as_ref().map_or(&[], |extends| extends.get_ref().names())
    }

    /// Returns the modes of the file.
    pub(crate) const fn modes(&self) -> ModesText {
        ModesText { ask: self.ask, guard: self.guard }
    }

    /// Returns the profile under which this one is observed, if any.
    pub(crate) fn under(&self) -> Option<&String> {
        self.observe.as_ref().map(Spanned::get_ref)
    }
}

text! {
    /// The profile section `[fs]`.
    #[derive(Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    "fs." pub(crate) struct Files {
        /// access to the workspace; its programs can be run in both cases
        workspace: Option<Spanned<WorkspaceAccess>>, "must be there, or inherited";
        /// whether tools that delete may run at all
        allow_delete: Option<bool>, "`false`";
        /// what can be read and run
        execute: Option<List<PathEntry>>, "must be there, or inherited";
        /// what can be read, but neither run nor loaded into a program
        read: Option<List<PathEntry>>, "none";
        /// what can be read, run and changed; only with `guard = "off"`, since no
        /// [transaction](transactions.md) covers it
        write: Option<List<WritableEntry>>, "none";
        /// what can be read, run and changed, with any guard. Changes there take effect at once, in
        /// no [transaction](transactions.md). Every receipt names these paths in `unguarded`
        unguarded: Option<List<WritableEntry>>, "none";
        /// what can be read in `/etc`
        etc: Option<List<EtcEntry>>, "none";
        /// names inside the workspace that do not exist for the session. See
        /// [below](#names-that-are-hidden-or-protected)
        hide: Option<NameLists>, "none";
        /// names inside the workspace that can be read but not changed
        protect: Option<NameLists>, "none";
    }
}
