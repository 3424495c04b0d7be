//! What the service manager is told: that the daemon is ready, alive, reloading, stopping; and in
//! one line how it is. Broker.

use crate::{
    server::Server,
    standing::{mention, notify},
};
use sd_notify::NotifyState;
use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};
use tokio::time::{MissedTickBehavior, interval};

/// How often the line is written anew, if it changed.
const LOOK: Duration = Duration::from_secs(2);

/// How the daemon is, in one line.
fn line(server: &Server) -> String {
    let sessions = server.sessions();
    let calls: u32 = sessions.iter().map(|session| session.in_flight.load(Ordering::Relaxed)).sum();
    let mut line = format!(
        "{} sessions, {calls} calls under way, {} questions open",
        sessions.len(),
        server.desk.pending().len(),
    );
    if let Err(why) = server.link.state() {
        line = format!("no launcher ({why}), so nothing runs; {line}");
    }
    if let Some(why) = server.audit.fault() {
        line = format!("NOT RECORDING ({why}), so nothing runs; {line}");
    }
    match server.standing.not_reloaded() {
        Some(why) => format!("NOT RELOADED, the old configuration is in force: {why}; {line}"),
        None => line,
    }
}

/// Tells how the daemon is, if it is another than before.
pub(crate) fn tell(server: &Server) {
    server.standing.tell(line(server));
}

/// Says that the daemon is ready once it can serve: the launcher has answered and the log is open
/// by now, and the analysts are waited for. Then, for as long as the loop that serves clients turns,
/// that it is alive.
pub(crate) async fn attend(server: Arc<Server>) {
    server.analyst.start().await;
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
            // One that was not heard is followed by the next.
            mention(&NotifyState::Watchdog);
        }
    }
}
