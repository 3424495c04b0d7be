//! Root-owned bounds that every plan is held against by the launcher, whoever asks.

use crate::{Identity, LaunchPlan, Layer, Path, uids::UidRange};

mod calls;
mod error;
mod network;
mod paths;

pub use error::CeilingError;
pub use network::Reach;
pub use paths::{is_plain, is_system};

/// The most that a plan may ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ceiling {
    /// Memory of a session.
    pub max_memory_bytes: u64,
    /// Processes and threads of a session.
    pub max_processes: u64,
    /// Hundredths of one core.
    pub max_cpu_percent: u64,
    /// Open descriptors of a process.
    pub max_open_files: u64,
    /// The largest file that a process may write.
    pub max_file_bytes: u64,
    /// Mounts of the small root, private file systems among them.
    pub max_binds: u64,
    /// Landlock rules.
    pub max_grants: u64,
    /// All private file systems of a session together.
    pub max_tmpfs_bytes: u64,
    /// What a transaction may write.
    pub max_transaction_bytes: u64,
    /// Patterns of names that are hidden or protected.
    pub max_patterns: u64,
    /// The lowest user id, other than 0, that a session may run as.
    pub min_uid: u32,
    /// Whether a session may run as user 0.
    pub allow_root: AllowRoot,
    /// Uids that are for sessions alone, one each; none: every session has its peer's.
    pub session_uids: Option<UidRange>,
    /// Palisade's own directories: nothing of them, or that holds them, is ever in a session.
    pub never: Vec<Path>,
    /// Layers that a plan may call optional.
    pub may_be_missing: Vec<Layer>,
    /// What a session may reach of the launcher's own network.
    pub network: Reach,
}

/// Whether a session may run as user 0 (without capabilities, like every session).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AllowRoot {
    /// It is refused.
    No,
    /// It may.
    Yes,
}

impl Default for Ceiling {
    fn default() -> Self {
        Self {
            // More than one build needs; what the host really has bounds it anyway.
            max_memory_bytes: 64 << 30,
            // A quarter of the kernel's usual number of process ids.
            max_processes: 8192,
            // 64 cores.
            max_cpu_percent: 6400,
            // Far below the kernel's 2^20, so that one session can not fill its tables.
            max_open_files: 65_536,
            // An image of a virtual machine fits, an endless file does not.
            max_file_bytes: 1 << 40,
            // Each costs a mount when the session is made.
            max_binds: 2048,
            // Each costs a quarter of a microsecond a call.
            max_grants: 2048,
            // It counts against memory too, where there are cgroups.
            max_tmpfs_bytes: 64 << 30,
            // The same, for each transaction.
            max_transaction_bytes: 64 << 30,
            // Each costs some nanoseconds for every file of a workspace.
            max_patterns: 4096,
            // Below are the accounts of services.
            min_uid: 1000,
            // Root's files are the system's; its sessions need the launcher's own decision.
            allow_root: AllowRoot::No,
            // Which uids are nobody's is for root to say.
            session_uids: None,
            // Configuration, sockets and state.
            never: ["/etc/palisade", "/run/palisade", "/var/lib/palisade"].map(Path::from).into(),
            // Never Landlock and seccomp: without either, what the rest holds was not shown.
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
            // A port is open at every address, the host's own loopback among them.
            network: Reach::Nothing,
        }
    }
}

impl Ceiling {
    /// Holds a plan, and whom it is for, against the ceiling.
    ///
    /// # Errors
    /// The first thing that is over it.
    pub fn check(&self, plan: &LaunchPlan, identity: Identity) -> Result<(), CeilingError> {
        self.check_identity(identity)?;
        self.check_limits(plan)?;
        self.check_paths(plan)?;
        self.network.check(&plan.network)?;
        calls::check(&plan.syscalls, &plan.network)?;
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
        let mounts = count(plan.binds.len()).saturating_add(count(plan.tmpfs.len()));
        for (limit, wanted, most) in [
            ("memory_bytes", limits.memory_bytes, self.max_memory_bytes),
            ("processes", limits.processes, self.max_processes),
            ("cpu_percent", limits.cpu_percent, self.max_cpu_percent),
            ("open_files", limits.open_files, self.max_open_files),
            ("file_bytes", limits.file_bytes, self.max_file_bytes),
            ("transaction_bytes", limits.transaction_bytes, self.max_transaction_bytes),
            ("grants", count(plan.grants.len()), self.max_grants),
            ("tmpfs_bytes", if smallest == 0 { 0 } else { tmpfs.max(1) }, self.max_tmpfs_bytes),
            // None is as good as any.
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
