//! The counters behind the metrics for monitoring, and how a scrape shows them. Runs in the broker.

use super::exposition_text::{ExpositionText, seconds};
use palisade_audit::Connection;
use palisade_protocol::{CallResult, ErrorCode};
use std::{
    collections::BTreeMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// Upper bounds of the histogram's buckets, in milliseconds.
const BUCKETS_MS: [u64; 12] = [1, 2, 5, 10, 25, 50, 100, 250, 1_000, 5_000, 30_000, 300_000];
/// The number of tools that get labels of their own; providers may register any number.
const TOOLS: usize = 256;

/// Counters since the daemon started.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    counts: Mutex<Counts>,
}

/// The counts, by their labels.
#[derive(Debug, Default)]
struct Counts {
    /// Finished calls by tool and outcome.
    calls: BTreeMap<(String, String), u64>,
    durations: BTreeMap<String, Durations>,
    denials: BTreeMap<String, u64>,
    /// Checkpoints by decision.
    checkpoints: BTreeMap<&'static str, u64>,
    reloads: BTreeMap<&'static str, u64>,
    /// Network connections by verdict.
    connections: BTreeMap<&'static str, u64>,
    /// Bytes of ended network connections.
    sent_bytes: u64,
    received_bytes: u64,
}

/// The durations of one tool's calls.
#[derive(Debug, Default)]
struct Durations {
    buckets: [u64; BUCKETS_MS.len()],
    count: u64,
    sum_ms: u64,
}

impl Metrics {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes the counters for a scrape.
    pub(crate) fn write(&self, text: &mut ExpositionText) -> fmt::Result {
        let counts = &*self.counts();
        let name = "palisade_calls_total";
        text.head(name, "counter", "Finished calls, by tool and outcome: ok, or the error code.")?;
        for ((tool, outcome), count) in &counts.calls {
            text.line(name, &[("tool", tool), ("outcome", outcome)], *count)?;
        }
        let name = "palisade_call_duration_seconds";
        text.head(name, "histogram", "Duration of calls, including checkpoints.")?;
        for (tool, durations) in &counts.durations {
            let bucket = format!("{name}_bucket");
            for (most, count) in BUCKETS_MS.iter().zip(durations.buckets) {
                text.line(&bucket, &[("tool", tool), ("le", &seconds(*most))], count)?;
            }
            text.line(&bucket, &[("tool", tool), ("le", "+Inf")], durations.count)?;
            text.line(&format!("{name}_sum"), &[("tool", tool)], seconds(durations.sum_ms))?;
            text.line(&format!("{name}_count"), &[("tool", tool)], durations.count)?;
        }
        let name = "palisade_denials_total";
        text.head(name, "counter", "Denials, by the layer that denied.")?;
        for (layer, count) in &counts.denials {
            text.line(name, &[("layer", layer)], *count)?;
        }
        let name = "palisade_checkpoints_total";
        text.head(name, "counter", "Checkpoints of calls, by decision.")?;
        for (decision, count) in &counts.checkpoints {
            text.line(name, &[("decision", decision)], *count)?;
        }
        let name = "palisade_connections_total";
        text.head(
            name,
            "counter",
            "Network connections of sessions with net.mode = domains, by verdict: allowed, failed \
             (allowed, but not made or cut off) or refused.",
        )?;
        for (verdict, count) in &counts.connections {
            text.line(name, &[("verdict", verdict)], *count)?;
        }
        let name = "palisade_connection_bytes_total";
        text.head(name, "counter", "Bytes of ended network connections, by direction.")?;
        text.line(name, &[("direction", "sent")], counts.sent_bytes)?;
        text.line(name, &[("direction", "received")], counts.received_bytes)?;
        let name = "palisade_reloads_total";
        text.head(name, "counter", "Reloads of the configuration, by result.")?;
        for (result, count) in &counts.reloads {
            text.line(name, &[("result", result)], *count)?;
        }
        Ok(())
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
            *counts.checkpoints.entry(checkpoint.decision.as_str()).or_default() += 1;
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
