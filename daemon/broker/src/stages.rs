//! The stages of a call, each from one value to the next. `call.rs` has their order. Broker.

use crate::{
    audit::Docket,
    change::{self, Leave, Preview},
    checkpoint::{consult, review::Reviewed},
    cleared::{Cleared, Judged},
    context::{Attachment, Context, Deadline, Streaming},
    diagnose, dry, errand,
    error::CallError,
    file, gather,
    guard::Route,
    invoke::{self, Asking},
    job,
    observers::Audience,
    outcome::{Fault, Outcome, Slip},
    provider::left,
    run,
    server::Server,
    session::Session,
    task::{self, Manner, Task, Validated},
    thinking,
    tools::{Registry, Tool, believed},
    transaction::{self, Purpose, Transaction, Unsettled},
    turn::{Place, Turn},
    why,
};
use palisade_audit::Ticket;
use palisade_policy::{Grant, Judgement, Search, UpFront};
use palisade_protocol::{
    Call, CallId, Checkpoint, ErrorCode, Finding, Guard, Receipt, ToolMetadata, ToolName,
    WireError, arguments::Encoding,
};
use serde_json::Value;
use std::{
    sync::Arc,
    time::{Duration, Instant},
};
use tokio_util::sync::CancellationToken;

/// A call as it was asked for.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) call: Call,
    pub(crate) context: Context,
    /// Where it stands among the calls of its session.
    pub(crate) place: Place,
    pub(crate) started: Instant,
    pub(crate) fault: Fault,
}

/// A call of a tool that exists.
#[derive(Debug)]
pub(crate) struct Resolved {
    asked: Asked,
    tool: Arc<Tool>,
}

/// A call whose arguments make sense.
#[derive(Debug)]
pub(crate) struct Checked {
    call: Call,
    context: Context,
    /// Until it was its turn.
    place: Option<Place>,
    tool: Arc<Tool>,
    validated: Validated,
    /// What a change would do, in a dry run.
    preview: Option<Preview>,
    /// How a program runs.
    route: Route,
    /// The report of a dry run whose program is tried.
    report: Option<Value>,
    /// Where it runs, once that is made.
    transaction: Option<Transaction>,
}

/// A cleared call whose turn it is.
#[derive(Debug)]
pub(crate) struct Due {
    pub(crate) cleared: Cleared,
    pub(crate) turn: Option<Turn>,
}

/// A call whose turn it is, and whose clearance still holds.
#[derive(Debug)]
pub(crate) struct Ready {
    context: Context,
    call: Call,
    tool: Arc<Tool>,
    validated: Validated,
    findings: Vec<Finding>,
    checkpoint: Option<Checkpoint>,
    leave: Leave,
    route: Route,
    purpose: Purpose,
    transaction: Option<Transaction>,
    turn: Option<Turn>,
}

/// A call that is in the audit log. It can not be made without the log's ticket.
#[derive(Debug)]
pub(crate) struct Ticketed {
    ready: Ready,
    _ticket: Ticket,
}

impl Checked {
    /// The tool's own name.
    pub(crate) fn tool(&self) -> &ToolName {
        &self.tool.spec.name
    }

    /// The tool.
    pub(crate) fn described(&self) -> &Tool {
        &self.tool
    }

    pub(crate) fn session(&self) -> &Session {
        &self.context.session
    }

    pub(crate) const fn call(&self) -> &Call {
        &self.call
    }

    pub(crate) const fn call_id(&self) -> &CallId {
        &self.context.call_id
    }

    pub(crate) const fn task(&self) -> &Task {
        &self.validated.task
    }

    pub(crate) const fn timeout(&self) -> Duration {
        self.validated.timeout
    }

    /// What a change would do, in a dry run.
    pub(crate) const fn preview(&self) -> Option<&Preview> {
        self.preview.as_ref()
    }

    /// Whether a dry run of it is a real one, in a transaction: everything that it can change is in
    /// the workspace, and it ends.
    pub(crate) fn is_tried(&self) -> bool {
        let Task::Run(program) = &self.validated.task else { return false };
        let profile = &self.context.session.profile;
        self.call.options.dry_run
            && self.context.session.guard() >= Guard::Auto
            && program.manner == Manner::Foreground
            && program.terminal.is_none()
            && profile.writes_workspace()
            && !profile.writes_beyond()
    }

    /// The same with the report so far of what is tried.
    pub(crate) fn tried(self, report: Value) -> Self {
        Self { report: Some(report), ..self }
    }

    /// The same that runs another way.
    pub(crate) fn routed(self, route: Route) -> Self {
        Self { route, ..self }
    }

    /// The same after somebody said yes: what was known to destroy, and approved, need not be held
    /// back.
    pub(crate) fn approved(self, grant: &Grant) -> Self {
        let known = grant.findings().iter().any(|found| UpFront::Known.asks(found));
        if known && self.context.session.guard() == Guard::Auto {
            return self.routed(Route::Direct(Search::Whole));
        }
        self
    }

    /// Whether it runs in a transaction.
    pub(crate) fn wants_transaction(&self) -> bool {
        self.route == Route::Transaction || self.is_tried()
    }

    /// Gives it its transaction.
    pub(crate) fn enter(&mut self, transaction: Transaction) {
        self.transaction = Some(transaction);
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.tool.spec.metadata.read_only
    }

    /// What was sent along with it.
    pub(crate) const fn attachment(&self) -> Option<&Attachment> {
        self.context.input.as_ref()
    }

    pub(crate) const fn attachment_mut(&mut self) -> Option<&mut Attachment> {
        self.context.input.as_mut()
    }

    /// Tells when the caller does not want it any more.
    pub(crate) fn cancelling(&self) -> CancellationToken {
        self.context.cancel.clone()
    }

    /// Returns when the caller does not want it any more.
    pub(crate) async fn cancelled(&self) {
        self.context.cancel.cancelled().await;
    }

    /// The same with another's arguments, which must fit as well.
    pub(crate) fn with(self, call: Call) -> Result<Self, Box<Outcome>> {
        match task::validate(&self.tool, &call, &self.context.session.profile) {
            Ok(validated) => Ok(Self { call, validated, ..self }),
            Err(error) => Err(Box::new(error.into())),
        }
    }
}

impl Asked {
    /// What the result will say whatever happens.
    pub(crate) fn slip(&self) -> Slip {
        Slip {
            call_id: self.context.call_id.clone(),
            tool: self.call.tool.clone(),
            receipt: Receipt::default(),
            started: self.started,
            fault: self.fault.clone(),
        }
    }
}

/// Finds the tool.
pub(crate) fn resolve(registry: &Registry, asked: Asked) -> Result<Resolved, Box<Outcome>> {
    asked.context.session.check()?;
    match registry.resolve(&asked.call.tool) {
        Ok(tool) => {
            let tool = believed(tool, &asked.context.session.profile);
            Ok(Resolved { asked, tool })
        }
        Err(error) => Err(Box::new(error.into())),
    }
}

/// Reads the arguments.
pub(crate) fn validate(resolved: Resolved) -> Result<Checked, Box<Outcome>> {
    let Resolved { asked: Asked { call, context, place, .. }, tool } = resolved;
    let profile = &context.session.profile;
    let checked =
        thinking::check(&tool, &call, profile).and_then(|()| task::validate(&tool, &call, profile));
    match checked {
        Ok(validated) => {
            let (place, route) = (Some(place), Route::Direct(Search::Whole));
            let (preview, report, transaction) = (None, None, None);
            Ok(Checked {
                call,
                context,
                place,
                tool,
                validated,
                preview,
                route,
                report,
                transaction,
            })
        }
        Err(error) => Err(Box::new(error.into())),
    }
}

/// Finds out what the call is about, and asks the judge.
pub(crate) async fn judge(server: &Server, mut call: Checked) -> Result<Judged, Box<Outcome>> {
    let session = &call.context.session;
    let mut gathered =
        gather::gather(&server.analyst, session, &call.tool, &call.validated.task).await?;
    let spec = &call.tool.spec;
    let judgement = palisade_policy::judge(&session.profile, session.ask, spec, &gathered.facts);
    if !matches!(judgement, Judgement::Deny(_)) {
        if let Some(error) = gathered.failed.take() {
            let mut outcome: Outcome = error.into();
            why::explain(session, &why::touched(&call.validated.task), &mut outcome);
            return Err(Box::new(outcome));
        }
        call.preview = dry::preview(&call).await?;
    }
    call.route = gathered.route;
    Ok(Judged::new(call, gathered, judgement))
}

/// Waits for the call's turn; what may run beside others does not wait.
pub(crate) async fn take_turn(mut cleared: Cleared) -> Result<Due, Box<Outcome>> {
    let call = cleared.call_mut();
    let turn = match call.place.take() {
        Some(place) if !call.tool.spec.metadata.concurrency_safe => tokio::select! {
            biased;
            turn = place.turn() => Some(turn.map_err(|_| CallError::SessionOver)?),
            () = call.context.cancel.cancelled() => return Err(CallError::Cancelled.into()),
        },
        // What is asked of jobs takes nothing that others wait for, and may itself wait for long.
        Some(_) if !matches!(call.validated.task, Task::Job(_)) => tokio::select! {
            biased;
            turn = call.context.session.turns.beside() => {
                Some(turn.map_err(|_| CallError::SessionOver)?)
            }
            () = call.context.cancel.cancelled() => return Err(CallError::Cancelled.into()),
        },
        Some(_) | None => None,
    };
    call.context.session.check()?;
    Ok(Due { cleared, turn })
}

/// Nothing has happened since the call was cleared: it goes on.
pub(crate) fn go_on(cleared: Cleared, turn: Option<Turn>) -> Ready {
    let leave = cleared.leave();
    let (mut checked, findings, checkpoint) = cleared.into_call();
    let purpose = match (checked.is_tried(), checked.report.take()) {
        (false, _) => Purpose::Real,
        (true, Some(report)) => Purpose::Trial(report),
        (true, None) => Purpose::Trial(dry::report(&checked, "allow", None)),
    };
    let Checked { context, call, tool, validated, route, transaction, .. } = checked;
    Ready {
        context,
        call,
        tool,
        validated,
        findings,
        checkpoint,
        leave,
        route,
        purpose,
        transaction,
        turn,
    }
}

/// Writes it into the audit log.
pub(crate) async fn ticket(ready: Ready, docket: &mut Docket) -> Result<Ticketed, Box<Outcome>> {
    match docket.ticket().await {
        Ok(ticket) => Ok(Ticketed { ready, _ticket: ticket }),
        Err(error) => Err(Box::new(WireError::from(error).into())),
    }
}

/// Does it: in the cell, unless it is about the session itself.
pub(crate) async fn execute(server: &Server, ticketed: Ticketed) -> Result<Executed, Box<Outcome>> {
    let Ready { mut context, call, tool, validated, findings, checkpoint, leave, route, .. } =
        ticketed.ready;
    let (purpose, transaction, turn) =
        (ticketed.ready.purpose, ticketed.ready.transaction, ticketed.ready.turn);
    let Validated { task, timeout } = validated;
    let deadline = Deadline::after(timeout);
    let session = Arc::clone(&context.session);
    let reason = call.reason.clone();
    let reviewed = if session.profile.reviews_output(&tool.spec) {
        // What a reviewer is to see first is not sent as it comes.
        context.streaming = Streaming::ResultOnly;
        context.audience = Audience::Operators;
        Some(reviewed(&context, call.clone(), Arc::clone(&tool), &task)?)
    } else {
        None
    };
    let touched = why::touched(&task);
    if let (Some(transaction), Task::Run(program)) = (transaction, &task) {
        let program = program.clone();
        let cwd = None;
        let mut unsettled =
            Unsettled { transaction, purpose, context, call, tool, task, cwd, _turn: turn };
        let mut outcome = unsettled.run(program, deadline).await;
        why::explain(&session, &touched, &mut outcome);
        let outcome = Outcome { findings, checkpoint, ..outcome };
        return Ok(Executed { outcome, reviewed, unsettled: Some(Box::new(unsettled)) });
    }
    let change = Changing::begin(&session, &tool.spec.metadata);
    let mut outcome = match task {
        Task::Run(program) => match route {
            Route::Direct(search) => run::run(program, context, deadline, search).await,
            Route::Transaction => CallError::Cell("it has no transaction".to_owned()).into(),
        },
        Task::Job(task) => job::serve::run(task, context, deadline).await,
        Task::Errand(errand) => errand::run(errand, &session, &server.registry),
        Task::Provided { arguments, .. } => match tool.provider() {
            Some(provider) => {
                let asking = Asking { tool: tool.spec.name.clone(), arguments, reason };
                invoke::run(provider, asking, context, deadline).await
            }
            None => left().into(),
        },
        Task::Check { paths } => diagnose::run(&paths, context, deadline).await,
        Task::Change(task) => change::run(&task, &tool.spec.name, &leave, context, deadline).await,
        task @ (Task::Read { .. } | Task::List { .. } | Task::Glob(_) | Task::Grep(_)) => {
            file::run(task, &tool.spec, context, deadline).await
        }
    };
    drop(change);
    why::explain(&session, &touched, &mut outcome);
    let outcome = Outcome { findings, checkpoint, ..outcome };
    Ok(Executed { outcome, reviewed, unsettled: None })
}

/// A call that ran.
#[derive(Debug)]
pub(crate) struct Executed {
    outcome: Outcome,
    reviewed: Option<Reviewed>,
    /// What it did does not count yet.
    unsettled: Option<Box<Unsettled>>,
}

/// Settles what a program did in its transaction.
pub(crate) async fn effects(server: &Server, docket: &mut Docket, executed: Executed) -> Executed {
    let Executed { outcome, reviewed, unsettled } = executed;
    let Some(unsettled) = unsettled else {
        return Executed { outcome, reviewed, unsettled: None };
    };
    let session = Arc::clone(&unsettled.context.session);
    session.changed();
    let outcome = transaction::settle(server, docket, *unsettled, outcome).await;
    session.changed();
    Executed { outcome, reviewed, unsettled: None }
}

/// The time in which a call may change what is in its session, however it ends.
struct Changing<'a>(Option<&'a Session>);

impl<'a> Changing<'a> {
    fn begin(session: &'a Session, metadata: &ToolMetadata) -> Self {
        let session = (!metadata.read_only).then_some(session);
        session.inspect(|session| session.changed());
        Self(session)
    }
}

impl Drop for Changing<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.0 {
            session.changed();
        }
    }
}

/// What a reviewer of the output will need.
fn reviewed(
    context: &Context,
    call: Call,
    tool: Arc<Tool>,
    task: &Task,
) -> Result<Reviewed, Box<Outcome>> {
    if let Task::Read { encoding: Encoding::Raw, .. } = task {
        let message = "`encoding`: raw contents can not be reviewed before they are seen";
        let hint = "this profile has the output reviewed; choose text or base64";
        let error = WireError::new(ErrorCode::InvalidArguments, message, hint);
        return Err(Box::new(error.into()));
    }
    Ok(Reviewed {
        session: Arc::clone(&context.session),
        call_id: context.call_id.clone(),
        tool,
        call,
        task: task.clone(),
        placeholder: consult::placeholder()?,
    })
}

/// Has the output reviewed, where the profile says so.
pub(crate) async fn review(server: &Server, docket: &mut Docket, executed: Executed) -> Outcome {
    match executed.reviewed {
        Some(reviewed) => reviewed.review(server, docket, executed.outcome).await,
        None => executed.outcome,
    }
}
