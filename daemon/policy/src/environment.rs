//! The environment of a session's programs. It starts empty, and only allowed variables are added.
//! Pure: no I/O.

mod proxy;
pub(crate) mod settings;
mod trust;

use crate::{
    Profile, Scene,
    access::PathAccess,
    entries::{Base, PRIVATE, PathEntry},
    net::NetMode,
    planning::error::PlanError,
    stack::reach,
    variables::{EnvironmentError, LeftOutVariable, UnwantedVariable, unwanted, variable_name},
};
use palisade_plan::authority::TRUSTED_CERTIFICATES;
use std::{collections::BTreeMap, ffi::OsStr, os::unix::ffi::OsStrExt as _, path::Path};

/// The TCP port of DNS.
const DNS: u16 = 53;

/// The directories in which a program is searched for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Search {
    /// All directories of the profile's `env.path`.
    Whole,
    /// The directories of the profile that the session can not write. Used for programs that are
    /// started by name and not from a shell command.
    Fixed,
    /// System directories only, in which the session can not place a file.
    System,
}

impl Profile {
    /// Builds the whole environment of a program: `NAME=value` each, sorted by name. `path` is its
    /// `PATH`, from [`Self::search_path`], unless the profile or the caller sets another. `extra` has
    /// the variables that the caller sets in addition.
    ///
    /// # Errors
    /// If a variable of `extra` has an invalid name, contains a NUL, is denied by the profile, or
    /// would make programs run other code.
    pub fn environment(
        &self,
        scene: &Scene,
        extra: &BTreeMap<String, String>,
        path: &[u8],
    ) -> Result<Vec<Vec<u8>>, EnvironmentError> {
        let home = scene.private_home().unwrap_or(Path::new("/tmp"));
        let mut variables: BTreeMap<&str, &[u8]> = BTreeMap::from([
            ("HOME", home.as_os_str().as_bytes()),
            // Text is UTF-8, and everything else is as in the C locale. `LANG` would have the same
            // effect, but programs that call `setlocale` would read a dozen files for it.
            ("LC_CTYPE", b"C.UTF-8"),
            ("LOGNAME", scene.user.as_bytes()),
            ("PATH", path),
            ("PWD", scene.workspace.as_os_str().as_bytes()),
            ("SHELL", b"/bin/bash"),
            // With SHLVL of at least 1, bash does not assume that it is a remote shell. It then
            // does not read ~/.bashrc, even if its standard input is a socket.
            ("SHLVL", b"1"),
            ("TERM", b"dumb"),
            ("TMPDIR", b"/tmp"),
            ("USER", scene.user.as_bytes()),
        ]);
        if self.settings.net.port(DNS).is_some() {
            // There is no UDP, so this makes the C library resolve names over TCP.
            variables.insert("RES_OPTIONS", b"use-vc");
        }
        let own = |same: &dyn Fn(&str) -> bool| {
            let set = self.settings.env.set.keys().map(|set| set.0.as_str());
            set.chain(extra.keys().map(String::as_str)).any(same)
        };
        if self.settings.net.mode.value == NetMode::Domains {
            // Programs disagree about which case counts, so one that is set stands for both.
            let proxy = proxy::VARIABLES.iter();
            let proxy = proxy.filter(|(name, _)| !own(&|set| set.eq_ignore_ascii_case(name)));
            variables.extend(proxy.map(|(name, value)| (*name, value.as_bytes())));
        }
        if !self.settings.net.rules.is_empty() {
            let trust = trust::VARIABLES.iter();
            variables.extend(trust.map(|name| (*name, TRUSTED_CERTIFICATES.as_bytes())));
        }
        variables.extend(self.settings.env.set.iter().map(|(k, v)| (k.0.as_str(), v.as_bytes())));
        for (name, value) in extra {
            if let Some(why) = self.left_out(scene, name, value)? {
                return Err(EnvironmentError::Refused { name: name.clone(), why });
            }
            variables.insert(name, value.as_bytes());
        }
        if own(&|set| set == "LANG") && !own(&|set| set == "LC_CTYPE") {
            // A caller that sets the language also chooses the character encoding.
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

    /// Removes the variables that a program may not get from those that its call sets, and returns
    /// them.
    ///
    /// # Errors
    /// If a name is invalid, a value contains a NUL, or the command would act on something else
    /// without a variable that it may not get.
    pub fn screen_variables(
        &self,
        scene: &Scene,
        variables: &mut BTreeMap<String, String>,
    ) -> Result<Vec<LeftOutVariable>, EnvironmentError> {
        let mut left_out = Vec::new();
        for (name, value) in variables.iter() {
            if let Some(why) = self.left_out(scene, name, value)? {
                left_out.push(LeftOutVariable { name: name.clone(), why });
            }
        }
        variables.retain(|name, _| left_out.iter().all(|variable| variable.name != *name));
        Ok(left_out)
    }

    /// Says why a program runs without a variable that its call sets; `None` if it gets it.
    fn left_out(
        &self,
        scene: &Scene,
        name: &str,
        value: &str,
    ) -> Result<Option<String>, EnvironmentError> {
        variable_name(name)?;
        if value.contains('\0') {
            return Err(EnvironmentError::Nul(name.to_owned()));
        }
        if self.settings.env.deny.iter().any(|denied| denied.0 == *name) {
            return Ok(Some(format!("env.deny of profile {:?} names it", self.name())));
        }
        match unwanted(name, value, &scene.workspace)? {
            Some(UnwantedVariable::Refuse(why)) => {
                Err(EnvironmentError::Refused { name: name.to_owned(), why: why.to_owned() })
            }
            Some(UnwantedVariable::LeaveOut(why)) => Ok(Some(why.to_owned())),
            None => Ok(None),
        }
    }

    /// Returns the directories in which programs are searched for, separated by colons. A session
    /// asks once, because every entry is compared with every path of the profile.
    ///
    /// # Errors
    /// If an entry with `!` is below the home and the user has no home.
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

    /// Returns `true` if programs are searched for in the directory of an entry.
    fn searches(&self, entry: &PathEntry, search: Search) -> bool {
        let path = Path::new(&entry.rest);
        let root = entry.base == Base::Root;
        let written = reach(&self.settings.fs, entry) == Some(PathAccess::Write)
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
