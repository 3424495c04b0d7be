//! The environment of a session's programs: built from nothing, by an allow-list.

use crate::{
    Profile, Scene,
    access::Reach,
    entries::{Base, PRIVATE, PathEntry},
    planning::error::PlanError,
    stack::reach,
    variables::{EnvironmentError, refused, variable_name},
};
use std::{collections::BTreeMap, ffi::OsStr, os::unix::ffi::OsStrExt as _, path::Path};

/// The port at which names are asked for.
const DNS: u16 = 53;

/// Where programs are looked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    /// Wherever the profile says.
    Whole,
    /// Wherever the profile says, but for directories that the session may write: for programs
    /// that are started by their name and not by a shell line.
    Fixed,
    /// In directories of the system alone, where nothing of the session's can be.
    System,
}

impl Profile {
    /// All of the environment of a program: `NAME=value` each, sorted by name. `extra` is what
    /// the caller asks for on top.
    ///
    /// # Errors
    /// If a variable of `extra` has no proper name, a NUL, or makes programs run other code.
    pub fn environment(
        &self,
        scene: &Scene,
        extra: &BTreeMap<String, String>,
        search: Search,
    ) -> Result<Vec<Vec<u8>>, EnvironmentError> {
        let home = scene.private_home().unwrap_or(Path::new("/tmp"));
        let path = self.search_path(scene, search)?;
        let mut variables: BTreeMap<&str, &[u8]> = BTreeMap::from([
            ("HOME", home.as_os_str().as_bytes()),
            // Text is UTF-8, and nothing else differs from C: `LANG` would say the same, and have
            // every program that asks read a dozen files for it.
            ("LC_CTYPE", b"C.UTF-8"),
            ("LOGNAME", scene.user.as_bytes()),
            ("PATH", &path),
            ("PWD", scene.workspace.as_os_str().as_bytes()),
            ("SHELL", b"/bin/bash"),
            // From 1 on, bash does not take itself for a remote shell and leaves ~/.bashrc alone,
            // even with a socket as its standard input.
            ("SHLVL", b"1"),
            ("TERM", b"dumb"),
            ("TMPDIR", b"/tmp"),
            ("USER", scene.user.as_bytes()),
        ]);
        if self.settings.net.port(DNS).is_some() {
            // There is no UDP; the C library then asks for names by TCP.
            variables.insert("RES_OPTIONS", b"use-vc");
        }
        variables.extend(self.settings.env.set.iter().map(|(k, v)| (k.0.as_str(), v.as_bytes())));
        match search {
            Search::System => drop(variables.insert("PATH", &path)),
            Search::Whole | Search::Fixed => {}
        }
        for (name, value) in extra {
            variable_name(name)?;
            refused(name)?;
            if self.settings.env.deny.iter().any(|denied| denied.0 == *name) {
                let why = format!("env.deny of profile {:?} names it", self.name());
                return Err(EnvironmentError::Refused { name: name.clone(), why });
            }
            variables.insert(name, value.as_bytes());
        }
        let own = |name: &str| {
            extra.contains_key(name) || self.settings.env.set.keys().any(|set| set.0 == name)
        };
        if own("LANG") && !own("LC_CTYPE") {
            // Whoever chooses a language chooses its characters too.
            variables.remove("LC_CTYPE");
        }
        if let Some((name, _)) = variables.iter().find(|(_, value)| value.contains(&0)) {
            return Err(EnvironmentError::Nul((*name).to_owned()));
        }
        Ok(variables
            .into_iter()
            .map(|(name, value)| [name.as_bytes(), b"=", value].concat())
            .collect())
    }

    /// Where a program is looked for: directories, with colons between them.
    ///
    /// # Errors
    /// If an entry needs a home, must be there, and there is none.
    pub fn search_path(&self, scene: &Scene, search: Search) -> Result<Vec<u8>, PlanError> {
        let mut directories = Vec::new();
        for entry in self.settings.env.path.iter().filter(|entry| self.searches(entry, search)) {
            directories.extend(scene.resolve(entry)?);
        }
        if directories.is_empty() {
            directories = ["/usr/bin", "/bin"].map(Into::into).to_vec();
        }
        let bytes: Vec<_> = directories.iter().map(|d| OsStr::as_bytes(d.as_os_str())).collect();
        Ok(bytes.join(&b':'))
    }

    /// Whether programs are looked for in a directory.
    fn searches(&self, entry: &PathEntry, search: Search) -> bool {
        let path = Path::new(&entry.rest);
        let root = entry.base == Base::Root;
        let written = reach(&self.settings.fs, entry) == Some(Reach::Write)
            || (root && PRIVATE.iter().any(|private| path == Path::new(private)));
        let system = || root && ["/usr", "/bin", "/sbin"].iter().any(|top| path.starts_with(top));
        match search {
            Search::Whole => true,
            Search::Fixed => !written,
            Search::System => !written && system(),
        }
    }
}

#[cfg(test)]
mod tests;
