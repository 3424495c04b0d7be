//! Root-owned upper bounds. The launcher checks every plan against them, whoever sent it.

use crate::{Identity, LaunchPlan, Layer, Path, uids::UidRange};

mod calls;
mod error;
mod network;
mod paths;

pub use calls::AcceptedFilters;
pub use error::CeilingError;
pub use network::Reach;
pub use paths::{check_resolved, is_plain, is_running, is_system};

/// The most that a plan may ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ceiling {
    /// Most bytes of memory for one session.
    pub max_memory_bytes: u64,
    /// Most processes and threads of one session.
    pub max_processes: u64,
    /// Most CPU time of one session, in percent of one core.
    pub max_cpu_percent: u64,
    /// Most open descriptors of one process.
    pub max_open_files: u64,
    /// The largest file that a process may write.
    pub max_file_bytes: u64,
    /// Most mounts in a session's root, private file systems included.
    pub max_binds: u64,
    /// Most Landlock rules.
    pub max_grants: u64,
    /// Most bytes of all private file systems of one session together.
    pub max_tmpfs_bytes: u64,
    /// Most bytes that one transaction may write.
    pub max_transaction_bytes: u64,
    /// Most patterns of hidden and protected names together.
    pub max_patterns: u64,
    /// Most sessions at a time.
    pub max_sessions: u64,
    /// The lowest user id, other than 0, that a session may run as.
    pub min_uid: u32,
    /// The permission for sessions to run as user 0.
    pub allow_root: AllowRoot,
    /// Range of uids reserved for sessions, one uid per session. `None`: every session runs with
    /// its peer's uid.
    pub session_uids: Option<UidRange>,
    /// Palisade's own directories. A session never gets them, anything below them, or a directory
    /// above them.
    pub never: Vec<Path>,
    /// Layers that a plan may mark as optional.
    pub may_be_missing: Vec<Layer>,
    /// The ports of the launcher's own network that a session may connect to.
    pub network: Reach,
}

/// The permission to run a session as user 0 (without capabilities, like every session).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowRoot {
    /// A session as user 0 is refused.
    No,
    /// A session may run as user 0.
    Yes,
}

impl Default for Ceiling {
    fn default() -> Self {
        Self {
            // More than one build needs. The host's own memory bounds it anyway.
            max_memory_bytes: 64 << 30,
            // A quarter of the kernel's usual number of process ids.
            max_processes: 8192,
            // 64 cores.
            max_cpu_percent: 6400,
            // Far below the kernel's 2^20, so that one session can not fill its tables.
            max_open_files: 65_536,
            // Large enough for the image of a virtual machine, but not for a file that grows
            // without end.
            max_file_bytes: 1 << 40,
            // Each bind costs one mount when the session is created.
            max_binds: 2048,
            // Each rule costs a quarter of a microsecond per call.
            max_grants: 2048,
            // Private file systems also count against the memory limit, where cgroups are
            // available.
            max_tmpfs_bytes: 64 << 30,
            // A transaction's writes also count against the memory limit, where cgroups are
            // available.
            max_transaction_bytes: 64 << 30,
            // Each pattern costs some nanoseconds for every file of a workspace.
            max_patterns: 4096,
            // Each session takes about a dozen of the launcher's descriptors.
            max_sessions: 2048,
            // Lower uids belong to services.
            min_uid: 1000,
            // Root's files are the system's files. Sessions as root need an explicit decision of
            // whoever configures the launcher.
            allow_root: AllowRoot::No,
            // Only root can say which uids are unused.
            session_uids: None,
            // Configuration, sockets and state.
            never: paths::OWN.map(Path::from).into(),
            // Landlock and seccomp are never optional: what the other layers hold without them is
            // untested.
            may_be_missing: vec![
                Layer::Mount,
                Layer::Pid,
                Layer::Network,
                Layer::Ipc,
                Layer::Uts,
                Layer::Cgroup,
                Layer::Limits,
                Layer::Hide,
                Layer::Protect,
            ],
            // A port rule opens the port at every address, including the host's own loopback.
            network: Reach::Nothing,
        }
    }
}

impl Ceiling {
    /// Checks a plan, and the identity that the session is for, against the ceiling. A filter equal
    /// to one that passed before is not examined again.
    ///
    /// # Errors
    /// Returns the first violation found.
    pub fn check(
        &self,
        plan: &LaunchPlan,
        identity: Identity,
        filters: &mut AcceptedFilters,
    ) -> Result<(), CeilingError> {
        self.check_identity(identity)?;
        self.check_limits(plan)?;
        self.check_paths(plan)?;
        self.network.check(&plan.network)?;
        network::check_inward(&plan.network, plan.inward)?;
        filters.check(&plan.syscalls, &plan.network)?;
        match plan.optional.iter().find(|layer| !self.may_be_missing.contains(layer)) {
            Some(layer) => Err(CeilingError::Layer(*layer)),
            None => Ok(()),
        }
    }

    fn check_identity(&self, identity: Identity) -> Result<(), CeilingError> {
        if let Some(range) = self.session_uids
            && let Some(id) = [identity.uid, identity.gid].into_iter().find(|id| range.has(*id))
        {
            return Err(CeilingError::Throwaway(id, range));
        }
        match (identity.uid, self.allow_root) {
            (0, AllowRoot::No) => Err(CeilingError::Root),
            (0, AllowRoot::Yes) => Ok(()),
            (uid, _) if uid < self.min_uid => Err(CeilingError::Uid { uid, least: self.min_uid }),
            (_, AllowRoot::No | AllowRoot::Yes) => Ok(()),
        }
    }

    fn check_limits(&self, plan: &LaunchPlan) -> Result<(), CeilingError> {
        if plan.grants.is_empty() {
            return Err(CeilingError::Empty("Landlock rules"));
        }
        let limits = &plan.limits;
        let count = |length: usize| u64::try_from(length).unwrap_or(u64::MAX);
        let tmpfs = plan.tmpfs.iter().fold(0_u64, |sum, tmpfs| sum.saturating_add(tmpfs.bytes));
        let smallest = plan.tmpfs.iter().map(|tmpfs| tmpfs.bytes).min().unwrap_or(1);
        let lists = plan.names.hide.iter().chain(&plan.names.protect);
        let patterns = lists.map(|list| count(list.0.len())).fold(0_u64, u64::saturating_add);
        let mounts = [plan.binds.len(), plan.sockets.len(), plan.tmpfs.len()];
        let mounts = mounts.into_iter().map(count).fold(0_u64, u64::saturating_add);
        for (limit, wanted, most) in [
            ("memory_bytes", limits.memory_bytes, self.max_memory_bytes),
            ("processes", limits.processes, self.max_processes),
            ("cpu_percent", limits.cpu_percent, self.max_cpu_percent),
            ("open_files", limits.open_files, self.max_open_files),
            ("file_bytes", limits.file_bytes, self.max_file_bytes),
            ("transaction_bytes", limits.transaction_bytes, self.max_transaction_bytes),
            ("grants", count(plan.grants.len()), self.max_grants),
            ("tmpfs_bytes", if smallest == 0 { 0 } else { tmpfs.max(1) }, self.max_tmpfs_bytes),
            // A plan without patterns is fine; only the upper bound is checked.
            ("patterns", patterns.max(1), self.max_patterns),
            // The workspace is a mount too, so this is never zero.
            ("binds", mounts.saturating_add(1), self.max_binds),
        ] {
            if wanted == 0 {
                return Err(CeilingError::Zero(limit));
            }
            if wanted > most {
                return Err(CeilingError::Over { limit, wanted, most });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
