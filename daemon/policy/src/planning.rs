//! Makes the plan that the launcher receives, from a profile and a scene. Runs in the broker. Pure:
//! no I/O.

pub(crate) mod error;

use crate::{
    Profile,
    entries::{Base, PRIVATE, PathEntry},
    names,
    settings::FileEntry,
};
use error::PlanError;
use palisade_plan::{
    Access, Bind, Grant, LaunchPlan, Limits, MissingPath, Records, SessionUid, Tmpfs, ceiling,
    listeners::INWARD_SOCKETS, names::Names, record::Recording,
};
use std::path::{Path, PathBuf};

/// The user who opens a session, and the workspace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scene {
    /// The workspace: an absolute path, as the kernel names it, with symbolic links resolved.
    pub workspace: PathBuf,
    /// The user's home, if there is one.
    pub home: Option<PathBuf>,
    /// The user's name.
    pub user: String,
    /// The user's id.
    pub uid: u32,
    /// The user's group id.
    pub gid: u32,
}

/// The size of `/run`, which programs only expect to exist.
const RUN_BYTES: u64 = 1 << 20;

impl Scene {
    /// Returns the home if it can be a private directory of the session. Service accounts have
    /// homes such as `/`, `/bin` or `/usr/sbin`, which can not.
    pub(crate) fn private_home(&self) -> Option<&Path> {
        self.home.as_deref().filter(|home| !ceiling::is_system(home) && !home.starts_with("/usr"))
    }

    /// Resolves a path entry of the profile; `None` if it is below the home and there is no home.
    pub(crate) fn resolve(&self, entry: &PathEntry) -> Result<Option<PathBuf>, PlanError> {
        // The home is checked only for entries that need it, because the check is slow.
        let home = (entry.base == Base::Home).then(|| self.private_home()).flatten();
        self.resolve_in(home, entry)
    }

    /// Resolves a path entry, given the private home.
    fn resolve_in(
        &self,
        home: Option<&Path>,
        entry: &PathEntry,
    ) -> Result<Option<PathBuf>, PlanError> {
        let rest = entry.rest.as_str();
        let below = |base: &Path| base.join(rest.strip_prefix('/').unwrap_or(rest));
        match (entry.base, home, entry.missing) {
            (Base::Root, ..) => Ok(Some(PathBuf::from(rest))),
            (Base::Workspace, ..) if rest.is_empty() => Ok(Some(self.workspace.clone())),
            (Base::Workspace, ..) => Ok(Some(below(&self.workspace))),
            (Base::Home, Some(home), _) => Ok(Some(below(home))),
            (Base::Home, None, MissingPath::Skip) => Ok(None),
            (Base::Home, None, MissingPath::Refuse) => Err(PlanError::NoHome(rest.to_owned())),
        }
    }

    fn check(&self) -> Result<(), PlanError> {
        let workspace = &self.workspace;
        let paths = [("the workspace", Some(workspace)), ("the home", self.home.as_ref())];
        for (what, path) in paths {
            if let Some(path) = path.filter(|path| !ceiling::is_plain(path)) {
                return Err(PlanError::NotPlain { what, path: path.clone() });
            }
        }
        if ceiling::is_system(workspace) || ceiling::is_running(workspace) {
            return Err(PlanError::System(workspace.clone()));
        }
        if PRIVATE.iter().any(|private| Path::new(private).starts_with(workspace)) {
            return Err(PlanError::Private(workspace.clone()));
        }
        match self.private_home() {
            Some(home) if home.starts_with(workspace) => {
                Err(PlanError::HoldsHome { workspace: workspace.clone(), home: home.to_owned() })
            }
            Some(_) | None => Ok(()),
        }
    }
}

/// The parts of the file system that a session can reach.
#[derive(Debug)]
pub(crate) struct ReachablePaths<'a> {
    pub(crate) workspace: Bind,
    pub(crate) binds: Vec<Bind>,
    /// The profile entry that each bind comes from.
    pub(crate) entries: Vec<&'a FileEntry>,
    pub(crate) tmpfs: Vec<Tmpfs>,
    pub(crate) empty: Vec<palisade_plan::Path>,
    pub(crate) grants: Vec<Grant>,
}

impl Profile {
    /// Makes the plan for a session.
    ///
    /// # Errors
    /// If the workspace can not be used as one, or the profile requires a path that the scene
    /// lacks.
    pub fn plan(&self, scene: &Scene) -> Result<LaunchPlan, PlanError> {
        let ReachablePaths { workspace, binds, tmpfs, empty, grants, .. } = self.reach(scene)?;
        let sockets = self.sockets(scene, &binds)?;
        let settings = &self.settings;
        let limits = &settings.limits;
        Ok(LaunchPlan {
            workspace,
            binds,
            sockets,
            home: home_of(scene, &tmpfs),
            tmpfs,
            empty,
            grants,
            syscalls: self.syscalls.clone(),
            network: settings.net.planned(),
            inward: if settings.net.publish.is_empty() { 0 } else { INWARD_SOCKETS },
            limits: Limits {
                memory_bytes: limits.memory.bytes(),
                processes: limits.processes.get(),
                cpu_percent: limits.cpu_percent.get(),
                file_bytes: limits.file_size.bytes(),
                open_files: limits.open_files.get(),
                transaction_bytes: limits.transaction.bytes(),
            },
            optional: settings.layers.optional.iter().map(|entry| entry.0).collect(),
            transactions: settings.transactions.kept(),
            recording: Recording::No,
            names: Names {
                hide: names::to_lists(&settings.fs.hide),
                protect: names::to_lists(&settings.fs.protect),
            },
            // The code that opens the session knows whether there are kernel records, and sets
            // this.
            records: Records::Unread,
            // It also knows the user of the session.
            uid: SessionUid::Peer,
            // It makes an authority, if the profile has inspected hosts.
            authority: None,
        })
    }

    /// Returns the directories of `fs.unguarded`, for the receipt of a session.
    ///
    /// # Errors
    /// If the profile requires a path that the scene lacks.
    pub fn unguarded(&self, scene: &Scene) -> Result<Vec<PathBuf>, PlanError> {
        let mut paths = Vec::new();
        for entry in self.settings.fs.unguarded() {
            paths.extend(scene.resolve(entry)?);
        }
        Ok(paths)
    }

    /// Returns the parts of the file system that a session can reach: as much of a plan as an
    /// explanation needs.
    pub(crate) fn reach(&self, scene: &Scene) -> Result<ReachablePaths<'_>, PlanError> {
        scene.check()?;
        let settings = &self.settings;
        let access = settings.fs.workspace.value.reach().access();
        let workspace =
            Bind { path: (&scene.workspace).into(), access, missing: MissingPath::Refuse };
        let (binds, entries): (Vec<_>, Vec<_>) = self.placed(scene)?.into_iter().unzip();
        let tmpfs = self.tmpfs(scene);
        let mut grants: Vec<Grant> =
            std::iter::once(&workspace).chain(&binds).map(grant_of).collect();
        grants.push(grant("/proc", Access::Read));
        grants.push(grant("/dev", Access::Device));
        let private = tmpfs.iter().filter(|tmpfs| tmpfs.path.as_path() != Path::new("/run"));
        grants.extend(private.map(|tmpfs| grant(tmpfs.path.as_path(), Access::Write)));
        let empty = self.empty(scene, &tmpfs)?;
        Ok(ReachablePaths { workspace, binds, entries, tmpfs, empty, grants })
    }

    /// Returns the Unix sockets of the host that the session gets, in addition to those that are
    /// visible through its paths.
    fn sockets(&self, scene: &Scene, binds: &[Bind]) -> Result<Vec<Bind>, PlanError> {
        let mut sockets = Vec::new();
        for said in &self.settings.net.host.sockets {
            let (path, missing) = (said.value.path(), said.value.0.missing);
            if path.starts_with(&scene.workspace) {
                return Err(PlanError::SocketInWorkspace(path.to_owned()));
            }
            if !binds.iter().any(|bind| path.starts_with(bind.path.as_path())) {
                sockets.push(Bind { path: path.into(), access: Access::Read, missing });
            }
        }
        Ok(sockets)
    }

    /// Returns the directories of `PATH` that lie below the session's private, writable
    /// directories.
    fn empty(&self, scene: &Scene, tmpfs: &[Tmpfs]) -> Result<Vec<palisade_plan::Path>, PlanError> {
        let mut empty = Vec::new();
        for entry in &self.settings.env.path {
            let Some(path) = scene.resolve(entry)? else { continue };
            let below = |tmpfs: &Tmpfs| {
                path != tmpfs.path.as_path() && path.starts_with(tmpfs.path.as_path())
            };
            if tmpfs.iter().any(below) && !path.starts_with(&scene.workspace) {
                empty.push(path.into());
            }
        }
        Ok(empty)
    }

    /// Returns the host paths that the session sees beside its workspace, each with its profile
    /// entry.
    pub(crate) fn placed(&self, scene: &Scene) -> Result<Vec<(Bind, &FileEntry)>, PlanError> {
        let mut placed = Vec::with_capacity(self.settings.fs.entries.len());
        let home = scene.private_home();
        for entry in &self.settings.fs.entries {
            if let Some(path) = scene.resolve_in(home, &entry.path)? {
                let (access, missing) = (entry.reach.access(), entry.path.missing);
                placed.push((Bind { path: path.into(), access, missing }, entry));
            }
        }
        Ok(placed)
    }

    fn tmpfs(&self, scene: &Scene) -> Vec<Tmpfs> {
        let bytes = self.settings.limits.tmp.bytes();
        let mut tmpfs: Vec<_> =
            PRIVATE.iter().map(|path| Tmpfs { path: path.into(), bytes, mode: 0o1777 }).collect();
        tmpfs.push(Tmpfs { path: "/run".into(), bytes: RUN_BYTES, mode: 0o755 });
        // A home that is one of these directories is private already.
        let home =
            scene.private_home().filter(|home| !PRIVATE.iter().any(|p| *home == Path::new(p)));
        tmpfs.extend(home.map(|home| Tmpfs { path: home.into(), bytes, mode: 0o700 }));
        tmpfs
    }
}

/// Returns the session's home, if it is one of the private file systems.
fn home_of(scene: &Scene, tmpfs: &[Tmpfs]) -> Option<palisade_plan::Path> {
    let home = scene.private_home()?;
    tmpfs.iter().map(|tmpfs| &tmpfs.path).find(|path| path.as_path() == home).cloned()
}

fn grant_of(bind: &Bind) -> Grant {
    Grant { path: bind.path.clone(), access: bind.access, missing: bind.missing }
}

fn grant(path: impl AsRef<Path>, access: Access) -> Grant {
    Grant { path: path.as_ref().into(), access, missing: MissingPath::Refuse }
}

#[cfg(test)]
mod tests;
