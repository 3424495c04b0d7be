//! Notifications to the service manager: ready, alive, reloading, stopping, and a one-line status.
//! Runs in the broker.

use crate::{
    front::server::Server,
    telemetry::service_status::{mention, notify},
};
use sd_notify::NotifyState;
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::time::{MissedTickBehavior, interval};

/// The interval at which the status line is updated, if it changed.
const LOOK: Duration = Duration::from_secs(2);

/// Returns the status of the daemon in one line.
fn line(server: &Server) -> String {
    let sessions = server.host.sessions();
    let calls: u32 =
        sessions.iter().map(|session| session.calls.in_flight.load(Ordering::Relaxed)).sum();
    let mut line = format!(
        "sessions {}, calls under way {calls}, approval requests waiting {}",
        sessions.len(),
        server.calls.approvals.desk.pending().len(),
    );
    if let Err(why) = server.host.link.state() {
        line = format!("no launcher ({why}), so nothing runs; {line}");
    }
    if let Some(why) = server.telemetry.audit.fault() {
        line = format!("NOT RECORDING ({why}), so nothing runs; {line}");
    }
    if let Some(why) = server.telemetry.audit.retention_fault() {
        line = format!("the audit log's retention fails ({why}); {line}");
    }
    let invalid = server.live().invalid.keys().cloned().collect::<Vec<_>>().join(", ");
    if !invalid.is_empty() {
        line = format!("invalid profiles ({invalid}), which no session can have; {line}");
    }
    match server.service_status.not_reloaded() {
        Some(why) => format!("NOT RELOADED, the old configuration is in force: {why}; {line}"),
        None => line,
    }
}

/// Sends the status line to the service manager, if it changed.
pub(crate) fn tell(server: &Server) {
    server.service_status.send(line(server));
}

/// Reports readiness, then liveness for as long as the event loop runs.
///
/// By now the launcher has answered and the audit log is open; the analysts are waited for here.
pub(crate) async fn attend(server: Arc<Server>) {
    server.await_analysts().await;
    notify(&[NotifyState::Ready]);
    let watchdog = sd_notify::watchdog_enabled();
    if watchdog.is_none() && std::env::var_os("NOTIFY_SOCKET").is_none() {
        return;
    }
    let mut tick = interval(watchdog.map_or(LOOK, |most| (most / 3).min(LOOK)));
    tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tick.tick().await;
        tell(&server);
        if watchdog.is_some() {
            // If a notification is lost, the next one follows soon.
            mention(&NotifyState::Watchdog);
        }
    }
}
