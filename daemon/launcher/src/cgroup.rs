//! Limits for a session as a whole, by cgroup v2 or v1. The directories are named after the
//! launcher's pid, so that the next launcher can find and delete what a killed one left.

use crate::{
    aside::enable_controllers,
    hierarchy::{Parents, hierarchies_v1, hierarchy_v2},
};
use palisade_plan::{CgroupFacts, CgroupVersion, Found, HeldLimit, Limits};
use std::{
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

const PREFIX: &str = "palisade-";
/// The period of the CPU bandwidth limit of cgroup v1 and v2, in microseconds.
const CPU_PERIOD: u64 = 100_000;

/// The place where sessions' cgroups are created.
#[derive(Debug)]
pub(crate) struct Cgroups {
    version: Option<CgroupVersion>,
    /// Each controller, with this launcher's directory in its hierarchy.
    bases: Vec<(&'static str, PathBuf)>,
    why_not: String,
    made: u32,
    /// The user for whom a session was last started. The next one is prepared for the same user.
    last: u32,
}

/// The cgroups of one session. They lie in a group of the session's user, and all of these groups
/// have the same weight: a user with many sessions gets no more CPU time than one with a single
/// session.
#[derive(Debug)]
pub(crate) struct SessionCgroups {
    version: CgroupVersion,
    uid: u32,
    directories: Vec<(&'static str, PathBuf)>,
}

impl Cgroups {
    /// Finds out where sessions' cgroups can be created, and deletes those that earlier launchers
    /// left.
    pub(crate) fn find() -> Self {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let own = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        // This is the pid on the host: inside its own PID namespace every launcher is process 1.
        let pid = fs::read_link("/proc/self").ok();
        let pid = pid.and_then(|pid| pid.to_str()?.parse().ok()).unwrap_or_else(std::process::id);
        let mut reasons = Vec::new();
        for (version, found) in [
            (CgroupVersion::V2, hierarchy_v2(&mounts, &own)),
            (CgroupVersion::V1, hierarchies_v1(&mounts, &own)),
        ] {
            match found.and_then(|parents| prepare(version, &parents, pid)) {
                Ok(bases) => {
                    let (version, why_not) = (Some(version), String::new());
                    return Self { version, bases, why_not, made: 0, last: 0 };
                }
                Err(why) => reasons.push(why),
            }
        }
        Self { version: None, bases: Vec::new(), why_not: reasons.join("; "), made: 0, last: 0 }
    }

    pub(crate) fn facts(&self) -> CgroupFacts {
        CgroupFacts {
            version: self.version,
            controllers: self.bases.iter().map(|(name, _)| (*name).to_owned()).collect(),
        }
    }

    pub(crate) fn found(&self) -> Found {
        let names: Vec<_> = self.bases.iter().map(|(name, _)| *name).collect();
        match self.version {
            Some(CgroupVersion::V2) => Found::Yes(format!("cgroup v2: {}", names.join(", "))),
            Some(CgroupVersion::V1) => Found::Yes(format!("cgroup v1: {}", names.join(", "))),
            None => Found::No(format!(
                "limits apply to each process only, since no cgroup can be used: {}",
                self.why_not
            )),
        }
    }

    /// Creates the cgroups of a future session; `None` if no cgroups can be used.
    pub(crate) fn make(&mut self) -> io::Result<Option<SessionCgroups>> {
        self.make_for(self.last)
    }

    fn make_for(&mut self, uid: u32) -> io::Result<Option<SessionCgroups>> {
        let Some(version) = self.version else { return Ok(None) };
        self.made += 1;
        let mut directories: Vec<(&'static str, PathBuf)> = Vec::new();
        for (controller, base) in &self.bases {
            let user = base.join(format!("user-{uid}"));
            let directory = user.join(format!("session-{}", self.made));
            if !directories.iter().any(|(_, made)| *made == directory) {
                make_group(version, &user)?;
                make_readable(&directory)?;
            }
            directories.push((controller, directory));
        }
        Ok(Some(SessionCgroups { version, uid, directories }))
    }

    /// Moves the processes of a session to cgroups of the session's user, unless they are there.
    pub(crate) fn assign(
        &mut self,
        session: &mut SessionCgroups,
        uid: u32,
        processes: [rustix::process::Pid; 2],
    ) -> io::Result<()> {
        self.last = uid;
        if session.uid == uid {
            return Ok(());
        }
        let Some(own) = self.make_for(uid)? else { return Ok(()) };
        let earlier = std::mem::replace(session, own);
        processes.into_iter().try_for_each(|pid| session.add(pid))?;
        earlier.remove();
        Ok(())
    }

    /// Deletes this launcher's own directories.
    pub(crate) fn remove(&self) {
        for (_, base) in &self.bases {
            remove_tree(base);
        }
    }
}

impl SessionCgroups {
    /// Adds a process. Whatever it starts later is in the cgroups too.
    pub(crate) fn add(&self, pid: rustix::process::Pid) -> io::Result<()> {
        let pid = pid.as_raw_nonzero().to_string();
        let mut done: Vec<&Path> = Vec::new();
        for (_, directory) in &self.directories {
            if !done.contains(&directory.as_path()) {
                fs::write(directory.join("cgroup.procs"), &pid)?;
                done.push(directory);
            }
        }
        Ok(())
    }

    /// Sets the limits, and returns those that are enforced.
    pub(crate) fn limit(&self, limits: &Limits) -> io::Result<Vec<HeldLimit>> {
        let mut held = Vec::new();
        for (controller, directory) in &self.directories {
            let (name, value) = match *controller {
                "memory" => ("memory", limits.memory_bytes),
                "pids" => ("processes", limits.processes),
                _ => ("cpu", limits.cpu_percent),
            };
            for (file, text, optional) in self.files(controller, value) {
                match fs::write(directory.join(file), text) {
                    Ok(()) => {}
                    // Kernels that do not count it have no such file.
                    Err(error) if optional && error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => return Err(error),
                }
            }
            let by = match self.version {
                CgroupVersion::V2 => "cgroup v2",
                CgroupVersion::V1 => "cgroup v1",
            };
            held.push(HeldLimit { name: name.into(), value, by: by.into() });
        }
        Ok(held)
    }

    fn files(&self, controller: &str, value: u64) -> Vec<(&'static str, String, bool)> {
        let quota = value.saturating_mul(CPU_PERIOD / 100);
        match (self.version, controller) {
            (CgroupVersion::V2, "memory") => vec![
                ("memory.max", value.to_string(), false),
                ("memory.swap.max", "0".into(), true),
            ],
            (CgroupVersion::V1, "memory") => vec![
                ("memory.limit_in_bytes", value.to_string(), false),
                ("memory.memsw.limit_in_bytes", value.to_string(), true),
                // Version 1 counts the buffers of TCP sockets apart from other memory.
                ("memory.kmem.tcp.limit_in_bytes", value.to_string(), true),
            ],
            (_, "pids") => vec![("pids.max", value.to_string(), false)],
            (CgroupVersion::V2, _) => vec![("cpu.max", format!("{quota} {CPU_PERIOD}"), false)],
            (CgroupVersion::V1, _) => vec![("cpu.cfs_quota_us", quota.to_string(), false)],
        }
    }

    /// Returns the file whose `oom_kill` line counts processes killed for lack of memory.
    pub(crate) fn oom_file(&self) -> String {
        let file = match self.version {
            CgroupVersion::V2 => "memory.events",
            CgroupVersion::V1 => "memory.oom_control",
        };
        let memory = self.directories.iter().find(|(controller, _)| *controller == "memory");
        memory.map_or_else(String::new, |(_, directory)| directory.join(file).display().to_string())
    }

    /// Deletes the directories. Those that are still busy are deleted by the next launcher.
    pub(crate) fn remove(&self) {
        for (_, directory) in &self.directories {
            remove_tree(directory);
            if let Some(user) = directory.parent() {
                // It is busy while the user has other sessions.
                fs::remove_dir(user).unwrap_or_default();
            }
        }
    }
}

/// Deletes a cgroup and those below it. Only directories can be deleted there.
fn remove_tree(directory: &Path) {
    if let Ok(entries) = fs::read_dir(directory) {
        for entry in entries.flatten().filter(|e| e.file_type().is_ok_and(|t| t.is_dir())) {
            remove_tree(&entry.path());
        }
    }
    // It is busy or already gone; a later launcher tries again.
    fs::remove_dir(directory).unwrap_or_default();
}

/// Creates this launcher's directory in every hierarchy, after deleting leftovers there.
fn prepare(version: CgroupVersion, parents: &Parents, pid: u32) -> Result<Parents, String> {
    let mut bases: Parents = Vec::new();
    for (controller, parent) in parents {
        let base = parent.join(format!("{PREFIX}{pid}"));
        if !bases.iter().any(|(_, made)| *made == base) {
            sweep(parent);
            make_base(version, parent, &base).map_err(|e| format!("{}: {e}", base.display()))?;
        }
        bases.push((controller, base));
    }
    if bases.is_empty() {
        Err(format!("cgroup {version:?} has no usable controller"))
    } else {
        Ok(bases)
    }
}

fn make_base(version: CgroupVersion, parent: &Path, base: &Path) -> io::Result<()> {
    if version == CgroupVersion::V2 {
        enable_controllers(parent)?;
    }
    make_group(version, base)
}

/// Creates a group that has other groups in it, unless it is there.
fn make_group(version: CgroupVersion, group: &Path) -> io::Result<()> {
    if !group.is_dir() {
        make_readable(group)?;
    }
    match version {
        CgroupVersion::V2 => enable_controllers(group),
        CgroupVersion::V1 => Ok(()),
    }
}

/// Creates a directory that the broker may read too, since it reads the count of killed processes.
fn make_readable(directory: &Path) -> io::Result<()> {
    fs::create_dir(directory)?;
    fs::set_permissions(directory, fs::Permissions::from_mode(0o755))
}

/// Deletes the directories of launchers that no longer run.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let pid =
            name.to_str().and_then(|n| n.strip_prefix(PREFIX)).and_then(|n| n.parse::<u32>().ok());
        if pid.is_some_and(|pid| !is_launcher(pid)) {
            remove_tree(&entry.path());
        }
    }
}

/// Returns `true` if a launcher runs under this pid. A killed one may remain a zombie until it is
/// reaped; it no longer needs its directories.
fn is_launcher(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| is_living_launcher(&stat))
}

fn is_living_launcher(stat: &str) -> bool {
    let Some((_, named)) = stat.split_once('(') else { return false };
    let Some((name, rest)) = named.rsplit_once(')') else { return false };
    let state = rest.trim_start().chars().next();
    name.starts_with("palisade-launch") && !matches!(state, Some('Z' | 'X') | None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_the_limits_of_each_version_to_their_files() {
        let limits = Limits {
            memory_bytes: 5000,
            processes: 7,
            cpu_percent: 150,
            file_bytes: 1,
            open_files: 1,
            transaction_bytes: 1,
        };
        for (version, memory, cpu, quota) in [
            (CgroupVersion::V2, "memory.max", "cpu.max", "150000 100000"),
            (CgroupVersion::V1, "memory.limit_in_bytes", "cpu.cfs_quota_us", "150000"),
        ] {
            let directory = tempfile::tempdir().unwrap();
            let at = directory.path().to_owned();
            let session = SessionCgroups {
                version,
                uid: 0,
                directories: vec![
                    ("memory", at.clone()),
                    ("pids", at.clone()),
                    ("cpu", at.clone()),
                ],
            };
            let held = session.limit(&limits).unwrap();
            assert_eq!(held.len(), 3);
            assert_eq!(fs::read_to_string(at.join(memory)).unwrap(), "5000");
            assert_eq!(fs::read_to_string(at.join("pids.max")).unwrap(), "7");
            assert_eq!(fs::read_to_string(at.join(cpu)).unwrap(), quota);
        }
    }

    #[test]
    fn sessions_of_one_user_are_in_one_group_which_goes_with_the_last() {
        let base = tempfile::tempdir().unwrap();
        let bases = vec![("cpu", base.path().to_owned()), ("memory", base.path().to_owned())];
        let version = Some(CgroupVersion::V1);
        let mut all = Cgroups { version, bases, why_not: String::new(), made: 0, last: 0 };
        let pids = [rustix::process::Pid::INIT; 2];
        let [one, two, three] = [7, 7, 8].map(|uid| {
            let mut session = all.make().unwrap().unwrap();
            all.assign(&mut session, uid, pids).unwrap();
            session
        });
        let directory = |session: &SessionCgroups| session.directories[0].1.clone();
        assert_eq!(directory(&one), base.path().join("user-7/session-2"));
        assert_eq!(directory(&two), base.path().join("user-7/session-3"), "prepared for the last");
        assert_eq!(directory(&three), base.path().join("user-8/session-5"));
        let left = |user: &str| base.path().join(user).is_dir();
        assert!(!left("user-0"), "where none is left there is no group");
        for session in [&one, &two, &three] {
            // In a real hierarchy there are no files to delete.
            fs::remove_file(directory(session).join("cgroup.procs")).unwrap_or_default();
        }
        one.remove();
        assert!(left("user-7") && left("user-8"));
        two.remove();
        assert!(!left("user-7") && left("user-8"));
    }

    #[test]
    fn a_zombie_is_no_launcher() {
        assert!(is_living_launcher("7 (palisade-launch) S 1 7 7 0 -1"));
        assert!(!is_living_launcher("7 (palisade-launch) Z 1 7 7 0 -1"));
        assert!(!is_living_launcher("7 (bash (palisade-launch)) S 1 7 7 0 -1"));
        assert!(!is_living_launcher(""));
    }

    #[test]
    fn sweeps_only_what_dead_launchers_left() {
        let parent = tempfile::tempdir().unwrap();
        let (dead, own) = (parent.path().join("palisade-4194999"), parent.path().join("other"));
        fs::create_dir_all(dead.join("session-1")).unwrap();
        fs::create_dir(&own).unwrap();
        sweep(parent.path());
        assert!(!dead.exists());
        assert!(own.exists());
    }
}
