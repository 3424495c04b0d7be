//! Resource limits of a session and its calls. Pure: no I/O.

use crate::{access::Widening, size::Size};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;

/// Defines the limits as they are written, as they apply, and how profiles combine them. A smaller
/// value is stricter.
macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $default:expr;)*) => {
        /// The section `[limits]` as it is written in a profile.
        #[derive(Debug, Default, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub(crate) struct LimitsText { $(pub(crate) $name: Option<$type>,)* }

        /// Resource limits of a session and its calls.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
        pub(crate) struct Limits { $($(#[$doc])* pub(crate) $name: $type,)* }

        impl Default for Limits {
            fn default() -> Self { Self { $($name: $default,)* } }
        }

        impl Limits {
            /// Returns the stricter value of each limit.
            pub(crate) fn stricter(&self, other: &Self) -> Self {
                Self { $($name: self.$name.min(other.$name),)* }
            }

            /// Applies a profile's own `[limits]` section on top of these. Returns the first key
            /// that is laxer, if the profile may not widen.
            pub(crate) fn with(
                &self, text: &LimitsText, widening: Widening,
            ) -> Result<Self, (&'static str, String)> {
                $(if let Some(value) = text.$name
                    && value > self.$name && widening == Widening::No {
                    return Err((concat!("limits.", stringify!($name)), self.$name.to_string()));
                })*
                Ok(Self { $($name: text.$name.unwrap_or(self.$name),)* })
            }

            /// Returns every limit with its name, its text and its numeric value.
            pub(crate) fn each(&self) -> Vec<(&'static str, String, u64)> {
                vec![$((stringify!($name), self.$name.to_string(), u64::from(self.$name)),)*]
            }
        }
    };
}

limits! {
    memory: Size = Size::gib(4);
    processes: NonZeroU64 = count(1024);
    cpu_percent: NonZeroU64 = count(400);
    file_size: Size = Size::gib(4);
    open_files: NonZeroU64 = count(4096);
    /// The size of each private file system.
    tmp: Size = Size::gib(1);
    timeout_ms: NonZeroU64 = count(30_000);
    max_timeout_ms: NonZeroU64 = count(600_000);
    /// The output bytes that a result carries.
    output: Size = Size::kib(100);
    /// The largest file that a file tool reads or writes.
    file: Size = Size::mib(64);
    /// The full output of a call that is stored.
    spool: Size = Size::mib(64);
    /// The undo data of a session: the bytes that its changes replaced.
    undo: Size = Size::mib(256);
    /// The data that a command may change in its transaction, if that is kept in memory.
    transaction: Size = Size::gib(1);
    kill_grace_ms: NonZeroU64 = count(2_000);
    /// Concurrent sessions of one user.
    sessions: NonZeroU64 = count(32);
    /// Concurrent jobs of one session.
    jobs: NonZeroU64 = count(16);
    /// The longest time that any job may run, whatever its call requests.
    job_ms: NonZeroU64 = ENDLESS;
    /// Concurrent read-only calls of one session.
    parallel: NonZeroU64 = count(8);
    /// Concurrent connections of one session in mode `domains`.
    connections: NonZeroU64 = count(256);
    /// The data that a session in mode `domains` may send over its life.
    upload: Size = Size::gib(1);
    /// The time that a session may outlive its connection; 0 if it may not.
    grace_ms: u64 = 30_000;
}

/// No limit: the largest integer that TOML can represent.
pub(crate) const ENDLESS: NonZeroU64 = match NonZeroU64::new(i64::MAX as u64) {
    Some(most) => most,
    None => NonZeroU64::MIN,
};

const fn count(value: u32) -> NonZeroU64 {
    // A zero would become one here, which is the strictest value allowed.
    match NonZeroU64::new(value as u64) {
        Some(value) => value,
        None => NonZeroU64::MIN,
    }
}
