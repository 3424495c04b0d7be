//! The daemon's own places on this host, which no session gets, whatever its profile or workspace
//! says. The launcher's ceiling knows the usual ones; these are where this daemon was told to keep
//! its things. Broker.

use crate::reach::Reach;
use palisade_plan::{Access, Bind, LaunchPlan};
use std::path::{Path, PathBuf};

/// The daemon's own places.
#[derive(Debug, Clone, Default)]
pub(crate) struct Own {
    /// State and sockets: a session sees nothing of them.
    hidden: Vec<PathBuf>,
    /// Configuration and profiles: a session does not write them.
    kept: Vec<PathBuf>,
}

/// A session would get something of the daemon's own.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum OwnError {
    #[error("{path:?} is, holds or is inside {own:?}, which is the daemon's own")]
    Workspace { path: PathBuf, own: PathBuf },
    #[error("the profile opens {path:?}, which is, holds or is inside {own:?}, the daemon's own")]
    Profile { path: PathBuf, own: PathBuf },
}

impl Own {
    /// Takes the places as they are named, and looks up where they really are.
    pub(crate) fn new(hidden: Vec<PathBuf>, kept: Vec<PathBuf>, reach: &Reach) -> Self {
        let real = |paths: Vec<PathBuf>| paths.iter().map(|path| real(path, reach)).collect();
        Self { hidden: real(hidden), kept: real(kept) }
    }

    /// Refuses a plan that has any of them in it. A workspace is named by its real path, or the
    /// cell refuses it; so its text can be compared.
    pub(crate) fn check(&self, plan: &LaunchPlan) -> Result<(), OwnError> {
        if let Some((path, own)) = self.touched(&plan.workspace) {
            return Err(OwnError::Workspace { path, own });
        }
        match plan.binds.iter().find_map(|bind| self.touched(bind)) {
            Some((path, own)) => Err(OwnError::Profile { path, own }),
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

/// A path with links resolved as far as it exists.
fn real(path: &Path, reach: &Reach) -> PathBuf {
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

    /// The default profile's plan in a workspace, with one more directory to write.
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
        // Named by a link, and not made yet.
        let state = directory.join("real/state");
        let profiles = directory.join("profiles");
        let kept = vec![profiles.clone(), "/usr/share".into()];
        let own = Own::new(vec![link.join("state")], kept, &Reach::default());
        let elsewhere = directory.join("elsewhere");
        let fine = elsewhere.to_str().unwrap();
        for path in [&state, &state.join("spool"), &directory.join("real"), &directory, &profiles] {
            let error = own.check(&plan(path, fine)).unwrap_err();
            assert!(matches!(error, OwnError::Workspace { .. }), "{error}");
            let error = own.check(&plan(&elsewhere, path.to_str().unwrap())).unwrap_err();
            assert!(matches!(error, OwnError::Profile { .. }), "{error}");
        }
        // Profiles that come with the system are there to be read.
        assert_eq!(own.check(&plan(&elsewhere, fine)), Ok(()));
        assert_eq!(own.check(&plan(&directory.join("real/other"), fine)), Ok(()));
    }
}
