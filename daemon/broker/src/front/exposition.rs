//! The metrics as text for a scrape. Runs in the broker.

use crate::{
    base::release::NAME,
    front::server::Server,
    telemetry::metrics::{BUCKETS_MS, Counts, resident},
};
use std::{
    fmt::{self, Write as _},
    sync::atomic::Ordering,
};

/// The most users that get lines of their own.
const USERS: usize = 256;

/// Returns the metrics as text.
pub(crate) fn of(server: &Server) -> String {
    let mut text = ExpositionText(String::new());
    match write(&mut text, server) {
        Ok(()) => text.0,
        // Can not happen: writing to a string does not fail.
        Err(fmt::Error) => String::new(),
    }
}

fn write(text: &mut ExpositionText, server: &Server) -> fmt::Result {
    text.head("palisade_build_info", "gauge", "The daemon's release.")?;
    text.line("palisade_build_info", &[("release", NAME)], 1)?;
    write_counts(text, &server.telemetry.metrics.counts())?;
    let sessions = server.host.sessions();
    let running: u32 = sessions.iter().map(|s| s.in_flight.load(Ordering::Relaxed)).sum();
    let jobs = sessions.iter().flat_map(|session| session.jobs.all());
    let jobs = jobs.filter(|job| !job.is_over()).count();
    let cells = sessions.iter().filter(|session| session.check().is_ok()).count();
    let rooms = server.rooms.totals();
    for (name, help, value) in [
        ("palisade_sessions", "Open sessions.", sessions.len() as u64),
        ("palisade_calls_under_way", "Calls that are waiting or running.", running.into()),
        ("palisade_jobs", "Running jobs.", jobs as u64),
        (
            "palisade_checkpoints_pending",
            "Approval requests that wait for an answer.",
            server.calls.approvals.desk.pending().len() as u64,
        ),
        (
            "palisade_launcher_up",
            "Whether a launcher is connected; without one, no call runs.",
            u64::from(server.host.link.state().is_ok()),
        ),
        (
            "palisade_audit_up",
            "Whether the last audit record was written; if not, no call runs.",
            u64::from(server.telemetry.audit.fault().is_none()),
        ),
        (
            "palisade_audit_retention_up",
            "Whether the last run of the audit log's retention succeeded, or there is none.",
            u64::from(server.telemetry.audit.retention_fault().is_none()),
        ),
        ("palisade_egress_rooms", "Running egress rooms, one for each user.", rooms.running),
        ("palisade_connections", "Open network connections of sessions.", rooms.connections),
        ("palisade_memory_bytes", "Resident memory of the broker.", resident()),
        ("palisade_cells", "Running cells, one for each session.", cells as u64),
        (
            "palisade_cells_memory_bytes",
            "Memory of all processes of sessions, if cgroups measure it.",
            sessions.iter().filter_map(|session| session.oom.memory()).sum(),
        ),
    ] {
        text.head(name, "gauge", help)?;
        text.line(name, &[], value)?;
    }
    let volume = server.telemetry.audit.volume();
    let name = "palisade_audit_bytes";
    text.head(name, "gauge", "Bytes of the audit log, by where: in its files or in archives.")?;
    text.line(name, &[("where", "log")], volume.log_bytes)?;
    text.line(name, &[("where", "archive")], volume.archive_bytes)?;
    let name = "palisade_kept_bytes";
    text.head(name, "gauge", "Stored bytes of calls, by kind and user.")?;
    // Only the users who store the most; listing all could be too many lines.
    let mut kept = server.kept();
    kept.sort_by_key(|kept| std::cmp::Reverse(kept.spool_bytes.saturating_add(kept.undo_bytes)));
    for kept in kept.iter().take(USERS) {
        let uid = kept.uid.to_string();
        text.line(name, &[("kind", "spool"), ("uid", &uid)], kept.spool_bytes)?;
        text.line(name, &[("kind", "undo"), ("uid", &uid)], kept.undo_bytes)?;
    }
    let name = "palisade_calls_in_stage";
    text.head(name, "gauge", "Calls under way, by stage; in queue they wait for their turn.")?;
    for (stage, count) in server.telemetry.calls_in_progress.by_stage() {
        text.line(name, &[("stage", stage.name())], count)?;
    }
    for (name, help, value) in [
        (
            "palisade_audit_lost_records_total",
            "Audit records of completed actions that could not be written.",
            server.telemetry.audit.lost(),
        ),
        (
            "palisade_kernel_records_lost_total",
            "Denials to programs whose kernel records arrived late or not at all.",
            server.host.link.state().map_or(0, |launcher| launcher.records().lost()),
        ),
        (
            "palisade_journal_lost_lines_total",
            "Log lines that the journal did not accept.",
            server.telemetry.journal.lost(),
        ),
        (
            "palisade_egress_rooms_died_total",
            "Egress rooms that ended while sessions used them.",
            rooms.died,
        ),
        (
            "palisade_traces_lost_calls_total",
            "Calls whose trace the collector did not accept.",
            server.telemetry.traces.lost(),
        ),
        (
            "palisade_logs_lost_records_total",
            "Audit records that the collector did not accept; they are in the audit log.",
            server.telemetry.audit.logs.lost(),
        ),
    ] {
        text.head(name, "counter", help)?;
        text.line(name, &[], value)?;
    }
    Ok(())
}

fn write_counts(text: &mut ExpositionText, counts: &Counts) -> fmt::Result {
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

fn seconds(millis: u64) -> String {
    format!("{}.{:03}", millis / 1000, millis % 1000)
}

/// Text in the Prometheus exposition format, version 0.0.4.
struct ExpositionText(String);

impl ExpositionText {
    fn head(&mut self, name: &str, kind: &str, help: &str) -> fmt::Result {
        write!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}\n")
    }

    fn line(
        &mut self,
        name: &str,
        labels: &[(&str, &str)],
        value: impl fmt::Display,
    ) -> fmt::Result {
        self.0.push_str(name);
        for (index, (label, value)) in labels.iter().enumerate() {
            let value = value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let open = if index == 0 { '{' } else { ',' };
            write!(self.0, "{open}{label}=\"{value}\"")?;
        }
        let close = if labels.is_empty() { "" } else { "}" };
        writeln!(self.0, "{close} {value}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_in_the_format() {
        let mut text = ExpositionText(String::new());
        text.head("a_total", "counter", "All.").unwrap();
        text.line("a_total", &[], 3).unwrap();
        text.line("a_total", &[("x", "a\"b\\c\n"), ("y", "z")], seconds(1_234)).unwrap();
        assert_eq!(
            text.0,
            "# HELP a_total All.\n# TYPE a_total counter\na_total 3\n\
             a_total{x=\"a\\\"b\\\\c\\n\",y=\"z\"} 1.234\n"
        );
    }
}
