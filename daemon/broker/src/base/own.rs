//! The daemon's own directories and sockets, which no session may access, whatever its profile or
//! workspace says. The launcher's ceiling knows the usual paths; these are the configured ones.
//! Runs in the broker.

use crate::base::reach::OpenDirectories;
use palisade_plan::{Access, Bind, LaunchPlan};
use std::path::{Path, PathBuf};

/// The daemon's own paths.
#[derive(Debug, Clone, Default)]
pub(crate) struct DaemonPaths {
    /// State and sockets: invisible to sessions.
    hidden: Vec<PathBuf>,
    /// Configuration and profiles: not writable by sessions.
    kept: Vec<PathBuf>,
}

/// The refusal of a plan whose session would get access to the daemon's own paths.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DaemonPathError {
    #[error("{path:?} overlaps {own:?}, which belongs to the daemon")]
    Workspace { path: PathBuf, own: PathBuf },
    #[error("the profile opens {path:?}, which overlaps {own:?}, which belongs to the daemon")]
    Profile { path: PathBuf, own: PathBuf },
}

impl DaemonPaths {
    /// Resolves the given paths to where they really are.
    pub(crate) fn new(hidden: Vec<PathBuf>, kept: Vec<PathBuf>, reach: &OpenDirectories) -> Self {
        let real = |paths: Vec<PathBuf>| paths.iter().map(|path| real(path, reach)).collect();
        Self { hidden: real(hidden), kept: real(kept) }
    }

    /// Refuses a plan that gives access to one of these paths. Comparing text is enough: the cell
    /// refuses a workspace that is not named by its real path.
    pub(crate) fn check(&self, plan: &LaunchPlan) -> Result<(), DaemonPathError> {
        if let Some((path, own)) = self.touched(&plan.workspace) {
            return Err(DaemonPathError::Workspace { path, own });
        }
        match plan.binds.iter().chain(&plan.sockets).find_map(|bind| self.touched(bind)) {
            Some((path, own)) => Err(DaemonPathError::Profile { path, own }),
            None => Ok(()),
        }
    }

    fn touched(&self, bind: &Bind) -> Option<(PathBuf, PathBuf)> {
        let path = bind.path.as_path();
        let kept = match bind.access {
            Access::Write => self.kept.as_slice(),
            Access::List | Access::Read | Access::Execute | Access::Device => &[],
        };
        let mut own = self.hidden.iter().chain(kept);
        let own = own.find(|own| own.starts_with(path) || path.starts_with(own))?;
        Some((path.to_owned(), own.clone()))
    }
}

/// Resolves the symbolic links of a path, as far as it exists.
fn real(path: &Path, reach: &OpenDirectories) -> PathBuf {
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let there = path.ancestors().find_map(|above| Some((above, reach.real(above)?)));
    match there {
        Some((above, found)) => match path.strip_prefix(above) {
            Ok(rest) if rest.as_os_str().is_empty() => found,
            Ok(rest) => found.join(rest),
            Err(_) => path,
        },
        None => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_policy::{Profile, Scene};

    /// Returns the default profile's plan for a workspace, with one more writable directory.
    fn plan(workspace: &Path, write: &str) -> LaunchPlan {
        let (_, text) = palisade_policy::builtin()[0];
        let text = text.replace("unguarded = []", &format!("unguarded = [{write:?}]"));
        let user = "tester".to_owned();
        let workspace = workspace.to_owned();
        let scene = Scene { workspace, home: None, user, uid: 1000, gid: 1000 };
        Profile::parse("test", &text).unwrap().plan(&scene).unwrap()
    }

    #[test]
    fn neither_a_workspace_nor_a_profile_brings_them_in() {
        let directory = tempfile::tempdir().unwrap();
        let directory = directory.path().canonicalize().unwrap();
        let link = directory.join("link");
        std::fs::create_dir(directory.join("real")).unwrap();
        std::os::unix::fs::symlink("real", &link).unwrap();
        // The path goes through a symbolic link and does not exist yet.
        let state = directory.join("real/state");
        let profiles = directory.join("profiles");
        let kept = vec![profiles.clone(), "/usr/share".into()];
        let own = DaemonPaths::new(vec![link.join("state")], kept, &OpenDirectories::default());
        let elsewhere = directory.join("elsewhere");
        let fine = elsewhere.to_str().unwrap();
        for path in [&state, &state.join("spool"), &directory.join("real"), &directory, &profiles] {
            let error = own.check(&plan(path, fine)).unwrap_err();
            assert!(matches!(error, DaemonPathError::Workspace { .. }), "{error}");
            let error = own.check(&plan(&elsewhere, path.to_str().unwrap())).unwrap_err();
            assert!(matches!(error, DaemonPathError::Profile { .. }), "{error}");
        }
        // Profiles that come with the system may be read.
        assert_eq!(own.check(&plan(&elsewhere, fine)), Ok(()));
        assert_eq!(own.check(&plan(&directory.join("real/other"), fine)), Ok(()));
    }
}
