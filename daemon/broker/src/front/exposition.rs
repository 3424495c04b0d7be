//! The metrics as text for a scrape. Runs in the broker.

use crate::{
    base::release::NAME,
    front::server::Server,
    telemetry::{exposition_text::ExpositionText, metrics::resident},
};
use std::{fmt, sync::atomic::Ordering};

/// The most users that get lines of their own.
const USERS: usize = 256;

/// Returns the metrics as text.
pub(crate) fn of(server: &Server) -> String {
    let mut text = ExpositionText::default();
    match write(&mut text, server) {
        Ok(()) => text.into_string(),
        // Can not happen: writing to a string does not fail.
        Err(fmt::Error) => String::new(),
    }
}

fn write(text: &mut ExpositionText, server: &Server) -> fmt::Result {
    text.head("palisade_build_info", "gauge", "The daemon's release.")?;
    text.line("palisade_build_info", &[("release", NAME)], 1)?;
    server.telemetry.metrics.write(text)?;
    let sessions = server.host.sessions();
    let running: u32 = sessions.iter().map(|s| s.calls.in_flight.load(Ordering::Relaxed)).sum();
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
            sessions.iter().filter_map(|session| session.cell.oom.memory()).sum(),
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
