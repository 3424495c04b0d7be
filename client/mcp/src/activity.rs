//! The state of a call of the daemon until it ends: it runs, or it waits for approval.

use palisade_client::{Call, CallResult, Error, Event, Running, WAITING_FOR_APPROVAL};
use serde::Serialize;
use tokio::sync::watch;

/// The activity of a call that has not ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Activity {
    /// It runs, or waits for its turn at a server that runs.
    Running,
    /// The server that has the tool is being started, for this call or for one before it.
    StartingServer,
    /// An approver was asked and has not answered yet.
    WaitingForApproval,
}

/// Waits for the end of a call, and tells what it is doing meanwhile.
pub(crate) async fn follow(
    mut running: Running,
    told: &watch::Sender<Activity>,
) -> Result<CallResult, Error> {
    while let Some(event) = running.next().await {
        if let Event::Progress { message, .. } = event {
            told.send_replace(match message.as_str() {
                WAITING_FOR_APPROVAL => Activity::WaitingForApproval,
                _ => Activity::Running,
            });
        }
    }
    told.send_replace(Activity::Running);
    running.result().await
}

/// Makes a call, waits for its end, and tells what it is doing meanwhile.
pub(crate) async fn make<A: Serialize>(
    call: Call<A>,
    told: &watch::Sender<Activity>,
) -> Result<CallResult, Error> {
    follow(call.progress().start().await?, told).await
}
