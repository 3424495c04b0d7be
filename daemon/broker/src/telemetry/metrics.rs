//! The counters behind the metrics for monitoring. Runs in the broker.

use palisade_audit::Connection;
use palisade_protocol::{CallResult, ErrorCode};
use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Upper bounds of the histogram's buckets, in milliseconds.
pub(crate) const BUCKETS_MS: [u64; 12] =
    [1, 2, 5, 10, 25, 50, 100, 250, 1_000, 5_000, 30_000, 300_000];
/// The number of tools that get labels of their own; providers may register any number.
const TOOLS: usize = 256;

/// Counters since the daemon started.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    counts: Mutex<Counts>,
}

/// The counts, by their labels.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    /// Finished calls by tool and outcome.
    pub(crate) calls: BTreeMap<(String, String), u64>,
    pub(crate) durations: BTreeMap<String, Durations>,
    pub(crate) denials: BTreeMap<String, u64>,
    /// Checkpoints by decision.
    pub(crate) checkpoints: BTreeMap<String, u64>,
    pub(crate) reloads: BTreeMap<&'static str, u64>,
    /// Network connections by verdict.
    pub(crate) connections: BTreeMap<&'static str, u64>,
    /// Bytes of ended network connections.
    pub(crate) sent_bytes: u64,
    pub(crate) received_bytes: u64,
}

/// The durations of one tool's calls.
#[derive(Debug, Default)]
pub(crate) struct Durations {
    pub(crate) buckets: [u64; BUCKETS_MS.len()],
    pub(crate) count: u64,
    pub(crate) sum_ms: u64,
}

impl Metrics {
    pub(crate) fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a finished call.
    pub(crate) fn ended(&self, result: &CallResult) {
        let mut counts = self.counts();
        let code = result.error.as_ref().map(|error| error.code);
        // The client chose a name that belongs to no tool; it must not become a label.
        let tool = match code {
            Some(ErrorCode::ToolNotFound) => "unknown".to_owned(),
            _ if counts.durations.len() >= TOOLS
                && !counts.durations.contains_key(result.tool.as_str()) =>
            {
                "other".to_owned()
            }
            _ => result.tool.to_string(),
        };
        let outcome = code.map_or_else(|| "ok".to_owned(), ErrorCode::name);
        *counts.calls.entry((tool.clone(), outcome)).or_default() += 1;
        let durations = counts.durations.entry(tool).or_default();
        durations.count += 1;
        durations.sum_ms += result.execution_time_ms;
        for (bucket, most) in durations.buckets.iter_mut().zip(BUCKETS_MS) {
            *bucket += u64::from(result.execution_time_ms <= most);
        }
        for denial in &result.denials {
            *counts.denials.entry(denial.layer.clone()).or_default() += 1;
        }
        if let Some(checkpoint) = &result.checkpoint {
            *counts.checkpoints.entry(checkpoint.decision.clone()).or_default() += 1;
        }
    }

    /// Counts a network connection that was allowed and has ended.
    pub(crate) fn ended_connection(&self, connection: &Connection) {
        let mut counts = self.counts();
        let verdict = if connection.failure.is_some() { "failed" } else { "allowed" };
        *counts.connections.entry(verdict).or_default() += 1;
        counts.sent_bytes = counts.sent_bytes.saturating_add(connection.sent_bytes);
        counts.received_bytes = counts.received_bytes.saturating_add(connection.received_bytes);
    }

    /// Counts a network connection that was refused.
    pub(crate) fn refused_connection(&self) {
        *self.counts().connections.entry("refused").or_default() += 1;
    }

    /// Counts a reload of the configuration by its result.
    pub(crate) fn reloaded(&self, result: &'static str) {
        *self.counts().reloads.entry(result).or_default() += 1;
    }
}

/// Returns the resident memory of this process in bytes.
///
/// Reads `VmRSS` instead of counting pages: the page size is in the auxiliary vector, which a
/// process that is not dumpable can not read before Linux 6.4.
pub(crate) fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kibibytes = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kibibytes = kibibytes.and_then(|text| text.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kibibytes.unwrap_or_default() * 1024
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_something_in_memory() {
        assert!(resident() > 4096);
    }
}
