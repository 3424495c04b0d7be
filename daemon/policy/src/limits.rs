//! Resource limits of a session and its calls. Pure: no I/O.

use crate::{
    ProfileError,
    access::Widening,
    document::Document,
    keys::{Section as _, Smaller, section},
    size::Size,
};
use palisade_protocol::limits::{MAX_GRACE_MS, MAX_TIMEOUT_MS};
use std::num::NonZeroU64;

/// The largest value of `limits.jobs`.
const MAX_JOBS: u64 = 256;

/// The largest value of `limits.connections`. Each takes two of the egress room's descriptors.
const MAX_CONNECTIONS: u64 = 4096;

section! {
    /// Resource limits of a session and its calls.
    "limits." pub(crate) struct Limits, written as LimitsText {
        /// memory of the session as a whole where there are cgroups, otherwise of each process
        memory: Size = Size::gib(4), Smaller;
        /// processes and threads, likewise
        processes: NonZeroU64 = count(1024), Smaller;
        /// processor time, in hundredths of a core
        cpu_percent: NonZeroU64 = count(400), Smaller;
        /// the largest file that a process may write
        file_size: Size = Size::gib(4), Smaller;
        /// open descriptors of a process
        open_files: NonZeroU64 = count(4096), Smaller;
        /// size of each of the private directories
        tmp: Size = Size::gib(1), Smaller;
        /// timeout of a call that names none
        timeout_ms: NonZeroU64 = count(30_000), Smaller;
        /// the longest timeout of a call, to which a longer one is cut; at most 86400000. A private
        /// daemon that `--timeout none` starts has `job_ms` instead
        max_timeout_ms: NonZeroU64 = count(600_000), Smaller;
        /// how much of a call's output a result carries
        output: Size = Size::kib(100), Smaller;
        /// how much a file tool reads or writes
        file: Size = Size::mib(64), Smaller;
        /// how much of a call's output is stored to page through
        spool: Size = Size::mib(64), Smaller;
        /// size of the undo record of one call, and of all records of a session's
        /// [own work](changes.md#undo), of which the oldest are removed first
        undo: Size = Size::mib(256), Smaller;
        /// how much a command may change before its transaction is settled; it counts against
        /// memory
        transaction: Size = Size::gib(1), Smaller;
        /// time between asking a call's processes to end and killing them
        kill_grace_ms: NonZeroU64 = count(2_000), Smaller;
        /// sessions of one user at once
        sessions: NonZeroU64 = count(32), Smaller;
        /// jobs of one session at once, that is, commands that continue after their call; at most
        /// 256
        jobs: NonZeroU64 = count(16), Smaller;
        /// how long a job may run, whatever it asks for
        job_ms: NonZeroU64 = ENDLESS, Smaller;
        /// parallel calls of one session: so many of tools that only read, and so many
        /// [commands](transactions.md#commands-side-by-side) that leave the session's directory as
        /// it is
        parallel: NonZeroU64 = count(8), Smaller;
        /// connections at once of one session with `net.mode = "domains"`; at most 4096
        connections: NonZeroU64 = count(256), Smaller;
        /// bytes that one session with `net.mode = "domains"` may send over its life
        upload: Size = Size::gib(1), Smaller;
        /// how long a session may outlive its connection, if its client asks for that; 0 means not
        /// at all; at most 3600000
        grace_ms: u64 = 30_000, Smaller;
    }
}

impl Limits {
    /// Returns the limits of a file that extends a profile with these.
    pub(crate) fn resolve(
        &self,
        text: &LimitsText,
        document: &Document<'_>,
        widening: Widening,
    ) -> Result<Self, ProfileError> {
        let mut limits = self.over(text, document, widening)?;
        if limits.max_timeout_ms.get() > MAX_TIMEOUT_MS {
            let why = format!("exceeds the limit of {MAX_TIMEOUT_MS}");
            return Err(document.wrong("limits.max_timeout_ms", why, "lower it"));
        }
        if limits.jobs.get() > MAX_JOBS {
            let why = format!("{} exceeds the limit of {MAX_JOBS}", limits.jobs);
            return Err(document.wrong("limits.jobs", why, "lower it"));
        }
        if limits.connections.get() > MAX_CONNECTIONS {
            let why = format!("{} exceeds the limit of {MAX_CONNECTIONS}", limits.connections);
            return Err(document.wrong("limits.connections", why, "lower it"));
        }
        if limits.grace_ms > MAX_GRACE_MS {
            let why = format!("exceeds the limit of {MAX_GRACE_MS}");
            return Err(document.wrong("limits.grace_ms", why, "lower it"));
        }
        if limits.timeout_ms > limits.max_timeout_ms {
            if text.timeout_ms.is_some() {
                let most = limits.max_timeout_ms;
                let why = format!("{} exceeds max_timeout_ms = {most}", limits.timeout_ms);
                let instead = "raise one or lower the other";
                return Err(document.wrong("limits.timeout_ms", why, instead));
            }
            limits.timeout_ms = limits.max_timeout_ms;
        }
        Ok(limits)
    }

    /// Lets a call take as long as a job, up to the longest timeout that there is.
    pub(crate) fn lengthen_calls(&mut self) {
        let longest = NonZeroU64::new(MAX_TIMEOUT_MS).unwrap_or(self.max_timeout_ms);
        self.max_timeout_ms = self.max_timeout_ms.max(self.job_ms.min(longest));
    }
}

/// No limit: the largest integer that TOML can represent.
pub(crate) const ENDLESS: NonZeroU64 = match NonZeroU64::new(i64::MAX as u64) {
    Some(most) => most,
    None => NonZeroU64::MIN,
};

/// Returns a nonzero number for a declaration.
pub(crate) const fn count(value: u32) -> NonZeroU64 {
    // A zero would become one here, which is the strictest value allowed.
    match NonZeroU64::new(value as u64) {
        Some(value) => value,
        None => NonZeroU64::MIN,
    }
}
