//! What the service manager is told: that the daemon is ready, alive, reloading, stopping; and in
//! one line how it is. Broker.

use crate::server::Server;
use sd_notify::NotifyState;
use std::{
    sync::{Arc, Mutex, PoisonError, atomic::Ordering},
    time::Duration,
};
use tokio::time::{MissedTickBehavior, interval};

/// How often the line is written anew, if it changed.
const LOOK: Duration = Duration::from_secs(2);

/// The line about how the daemon is.
#[derive(Debug, Default)]
pub(crate) struct Standing {
    told: Mutex<String>,
    /// Why the last reload failed, if it did.
    not_reloaded: Mutex<Option<String>>,
}

impl Standing {
    /// Remembers how a reload went.
    pub(crate) fn reloaded(&self, result: Result<(), String>) {
        *self.not_reloaded.lock().unwrap_or_else(PoisonError::into_inner) = result.err();
    }

    fn line(&self, server: &Server) -> String {
        let sessions = server.sessions();
        let calls: u32 =
            sessions.iter().map(|session| session.in_flight.load(Ordering::Relaxed)).sum();
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
        let not_reloaded = self.not_reloaded.lock().unwrap_or_else(PoisonError::into_inner);
        match &*not_reloaded {
            Some(why) => format!("NOT RELOADED, the old configuration is in force: {why}; {line}"),
            None => line,
        }
    }

    /// Tells the line, if it is another than before.
    pub(crate) fn tell(&self, server: &Server) {
        let line = self.line(server);
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if *told != line {
            notify(&[NotifyState::Status(&line)]);
            *told = line;
        }
    }
}

/// Tells the service manager something; there may be none.
pub(crate) fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::warn!(%error, "the service manager could not be told");
    }
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
        server.standing.tell(&server);
        if watchdog.is_some() {
            notify(&[NotifyState::Watchdog]);
        }
    }
}
