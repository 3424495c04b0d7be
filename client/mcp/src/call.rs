//! One call: started, waited for with news of its progress, answered or kept for a ticket. It ends
//! when the client cancels it or leaves.

use crate::{
    activity::{self, Activity},
    catalog::ToolOrigin,
    elicit,
    render::{self, Circumstances, RenderedResult},
    served_call::{Remainder, ServedCall},
    server::Shared,
    sessions::{Continuity, StartedCall},
    tickets::{CallKey, PendingCall},
    tool_name,
};
use palisade_client::{CallResult, Claim, Error, ErrorCode};
use rmcp::{
    ErrorData, RoleServer,
    model::{CallToolResult, ProgressNotificationParam, ProgressToken},
    service::{Peer, RequestContext},
};
use serde_json::{Map, Value};
use std::{convert::Infallible, future::pending, sync::Arc, time::Duration};
use tokio::{
    sync::watch,
    time::{Instant, MissedTickBehavior, interval_at, sleep_until},
};

/// The interval at which a client that asked for it hears that a call is still under way.
const NEWS: Duration = Duration::from_secs(5);

/// The end of a call.
#[derive(Debug)]
pub(crate) enum FinishedCall {
    /// A call of the daemon's.
    Daemon { outcome: Box<Result<CallResult, Error>>, around: Circumstances },
    /// A call of another server's: its result, or why there is none.
    Server(Result<Value, String>),
}

/// A call to be made.
#[derive(Debug)]
pub(crate) struct NewCall {
    pub(crate) key: CallKey,
    pub(crate) origin: ToolOrigin,
    pub(crate) arguments: Map<String, Value>,
    pub(crate) caller: Caller,
}

/// The client that makes a call.
#[derive(Debug)]
pub(crate) struct Caller {
    /// The claims of the client about itself.
    pub(crate) claims: Vec<Claim>,
    pub(crate) peer: Peer<RoleServer>,
}

/// Starts a call. It runs on until it ends or the returned value is dropped.
pub(crate) fn start(shared: &Arc<Shared>, call: NewCall) -> PendingCall {
    let NewCall { key, origin, arguments, caller } = call;
    let (shared, name) = (Arc::clone(shared), key.tool.clone());
    let (told, activity) = watch::channel(Activity::Running);
    let task = tokio::spawn(async move {
        match origin {
            ToolOrigin::Daemon => perform(&shared, &name, arguments, caller, &told).await,
            ToolOrigin::Server { server, tool } => {
                let asked = Map::from_iter([("arguments".to_owned(), Value::Object(arguments))]);
                // The session's own profile decides about it first.
                let name = tool_name::of_tool(&server, &tool);
                let peer = caller.peer.clone();
                let finished = perform(&shared, &name, asked, caller, &told).await;
                let Some(PermittedCall { call, arguments }) = permitted(&finished) else {
                    return finished;
                };
                let pointed = told.subscribe();
                let remainder = Remainder::Kept { call, pages: Arc::clone(&shared.pages) };
                let served = ServedCall { told, remainder };
                // The server's own profile may ask too.
                FinishedCall::Server(tokio::select! {
                    outcome = shared.servers.call(&server, &tool, arguments, served) => outcome,
                    never = point(&shared, &name, &peer, pointed) => match never {},
                })
            }
        }
    });
    PendingCall { key, task, activity }
}

/// A call of another server's tool that is allowed.
#[derive(Debug)]
struct PermittedCall {
    /// The id of the daemon's call that decided about it.
    call: String,
    /// Its arguments; an approver may have changed them.
    arguments: Map<String, Value>,
}

/// Returns the call of another server's tool that is allowed; `None` if it is not.
fn permitted(finished: &FinishedCall) -> Option<PermittedCall> {
    let FinishedCall::Daemon { outcome, .. } = finished else { return None };
    let result = outcome.as_ref().as_ref().ok().filter(|result| result.success)?;
    let data: Value = serde_json::from_str(result.data.as_ref()?.as_str()).ok()?;
    let arguments = data.get("arguments")?.as_object().cloned()?;
    Some(PermittedCall { call: result.call_id.as_str().to_owned(), arguments })
}

async fn perform(
    shared: &Shared,
    tool: &str,
    arguments: Map<String, Value>,
    caller: Caller,
    told: &watch::Sender<Activity>,
) -> FinishedCall {
    let mut around = Circumstances { continuity: Continuity::Same, is_given_up: false };
    let StartedCall { running, session, continuity } =
        match shared.sessions.start(tool, arguments, caller.claims, &caller.peer).await {
            Ok(started) => started,
            Err(error) => {
                return FinishedCall::Daemon { outcome: Box::new(Err(error)), around };
            }
        };
    let outcome = tokio::select! {
        outcome = activity::follow(running, told) => outcome,
        never = point(shared, tool, &caller.peer, told.subscribe()) => match never {},
    };
    let is_given_up = shared.sessions.give_up(&session, &outcome).await;
    around = Circumstances { continuity, is_given_up };
    FinishedCall::Daemon { outcome: Box::new(outcome), around }
}

/// Shows the person who uses the client where a call can be approved, each time it waits for that.
async fn point(
    shared: &Shared,
    tool: &str,
    peer: &Peer<RoleServer>,
    mut told: watch::Receiver<Activity>,
) -> Infallible {
    let Some(url) = &shared.approve_at else { return pending().await };
    loop {
        if told.wait_for(|activity| *activity == Activity::WaitingForApproval).await.is_err() {
            return pending().await;
        }
        elicit::point(peer, tool, url).await;
        if told.wait_for(|activity| *activity != Activity::WaitingForApproval).await.is_err() {
            return pending().await;
        }
    }
}

/// Waits for a call, for as long as `--wait` says, and answers it. What is not finished by then is
/// kept for a ticket.
pub(crate) async fn answer(
    shared: &Shared,
    mut call: PendingCall,
    context: &RequestContext<RoleServer>,
) -> Result<CallToolResult, ErrorData> {
    let started = Instant::now();
    let deadline = started + shared.wait;
    let token = context.meta.get_progress_token();
    let mut news = interval_at(started + NEWS, NEWS);
    news.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            // Dropping the call ends it.
            () = context.ct.cancelled() => return Err(cancelled()),
            () = shared.ended.cancelled() => return Err(cancelled()),
            finished = &mut call.task => {
                return finished
                    .map(|finished| shared.rendered(finished))
                    .map_err(|error| ErrorData::internal_error(error.to_string(), None));
            }
            () = sleep_until(deadline) => return Ok(keep(shared, call)),
            _ = news.tick() => {
                if let Some(token) = &token {
                    report(context, token, &call, started.elapsed()).await;
                }
            }
        }
    }
}

/// Keeps a call for a ticket.
fn keep(shared: &Shared, call: PendingCall) -> CallToolResult {
    let (key, activity) = (call.key.clone(), *call.activity.borrow());
    let tool = &key.tool;
    match shared.tickets.issue(call) {
        Ok(ticket) => render::pending(&key, shared.wait.as_secs(), activity, &ticket),
        Err(call) => {
            // Ends the call.
            drop(call);
            let message =
                format!("{tool} was ended: too many calls wait for their tickets to be used");
            render::own_failure(ErrorCode::LimitReached, &message, "ask for their results first")
        }
    }
}

/// Tells the client that a call is still under way.
async fn report(
    context: &RequestContext<RoleServer>,
    token: &ProgressToken,
    call: &PendingCall,
    elapsed: Duration,
) {
    let (tool, seconds) = (&call.key.tool, elapsed.as_secs());
    let message = match *call.activity.borrow() {
        Activity::Running => format!("{tool}: not finished after {seconds} s"),
        Activity::StartingServer => {
            format!("{tool}: waiting for its server to start, after {seconds} s")
        }
        Activity::WaitingForApproval => format!("{tool}: waiting for approval, after {seconds} s"),
    };
    let news = ProgressNotificationParam::new(token.clone(), elapsed.as_secs_f64().round())
        .with_message(message);
    // A client that can not be told is gone, and the end of the input says so.
    drop(context.peer.notify_progress(news).await);
}

fn cancelled() -> ErrorData {
    ErrorData::internal_error("the call was cancelled", None)
}

impl Shared {
    /// Renders the end of a call, and keeps what its result leaves out.
    fn rendered(&self, finished: FinishedCall) -> CallToolResult {
        let (outcome, around) = match finished {
            FinishedCall::Daemon { outcome, around } => (*outcome, around),
            FinishedCall::Server(outcome) => return rendered_server(outcome),
        };
        match outcome {
            Ok(result) => {
                let RenderedResult { answer, is_cut } =
                    render::render(&result, around, self.max_output);
                if is_cut {
                    self.pages.keep(result.call_id.as_str(), &result.output);
                }
                answer
            }
            Err(error) => render::failure(&error),
        }
    }
}

/// Renders the end of a call of another server's.
fn rendered_server(outcome: Result<Value, String>) -> CallToolResult {
    let parsed = outcome.and_then(|result| {
        serde_json::from_value(result)
            .map_err(|error| format!("the server's answer is not the result of a tool: {error}"))
    });
    parsed.unwrap_or_else(|why| render::own_failure(ErrorCode::ProviderFailed, &why, ""))
}
