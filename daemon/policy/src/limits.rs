//! Bounds of a session and its calls.

use crate::{access::Widening, size::Size};
use serde::{Deserialize, Serialize};
use std::num::NonZeroU64;

/// Makes the limits: as written, as they come to, and how they go together. Less is stricter.
macro_rules! limits {
    ($($(#[$doc:meta])* $name:ident: $type:ty = $default:expr;)*) => {
        /// `[limits]` as it is written.
        #[derive(Debug, Default, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub(crate) struct LimitsText { $(pub(crate) $name: Option<$type>,)* }

        /// Bounds of a session and its calls.
        #[derive(Debug, Clone, PartialEq, Eq, Serialize)]
        pub(crate) struct Limits { $($(#[$doc])* pub(crate) $name: $type,)* }

        impl Default for Limits {
            fn default() -> Self { Self { $($name: $default,)* } }
        }

        impl Limits {
            /// The stricter of each.
            pub(crate) fn stricter(&self, other: &Self) -> Self {
                Self { $($name: self.$name.min(other.$name),)* }
            }

            /// What is written in place of what was; the first that is laxer, unless it may be.
            pub(crate) fn with(
                &self, text: &LimitsText, widening: Widening,
            ) -> Result<Self, (&'static str, String)> {
                $(if let Some(value) = text.$name
                    && value > self.$name && widening == Widening::No {
                    return Err((concat!("limits.", stringify!($name)), self.$name.to_string()));
                })*
                Ok(Self { $($name: text.$name.unwrap_or(self.$name),)* })
            }

            /// Each with its name and value.
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
    /// Of each private file system.
    tmp: Size = Size::gib(1);
    timeout_ms: NonZeroU64 = count(30_000);
    max_timeout_ms: NonZeroU64 = count(600_000);
    /// Of a result.
    output: Size = Size::kib(100);
    /// That a file tool reads or writes.
    file: Size = Size::mib(10);
    /// Of a call's whole output.
    spool: Size = Size::mib(64);
    /// Of what the changes of a session replaced, for undo.
    undo: Size = Size::mib(256);
    /// Of what a command changes in its transaction, where that is in memory.
    transaction: Size = Size::gib(1);
    kill_grace_ms: NonZeroU64 = count(2_000);
    /// Of one user at once.
    sessions: NonZeroU64 = count(32);
    /// Of one session at once.
    jobs: NonZeroU64 = count(16);
    /// How long a job may run, whatever it asks for.
    job_ms: NonZeroU64 = ENDLESS;
    /// Calls of one session that only look, at once.
    parallel: NonZeroU64 = count(8);
    /// How long a session may outlive its connection; 0 is not at all.
    grace_ms: u64 = 30_000;
}

/// No end: the largest number that TOML has.
pub(crate) const ENDLESS: NonZeroU64 = match NonZeroU64::new(i64::MAX as u64) {
    Some(most) => most,
    None => NonZeroU64::MIN,
};

const fn count(value: u32) -> NonZeroU64 {
    // A zero here would become one, the strictest value that is allowed.
    match NonZeroU64::new(value as u64) {
        Some(value) => value,
        None => NonZeroU64::MIN,
    }
}
