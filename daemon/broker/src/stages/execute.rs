//! The stages in which a call is done, what it did is settled, and its output reviewed. Broker.

use super::ready::{Ready, Ticketed};
use crate::{
    audit::docket::Docket,
    change,
    checkpoint::{consult, review::Reviewed},
    context::{Context, Deadline, Streaming},
    diagnose, errand,
    error::CallError,
    file,
    guard::{EffectsReview, Route},
    invoke::{self, Asking},
    job::{
        self,
        place::{JobPlace, JobTransaction},
    },
    observe,
    observers::Audience,
    outcome::Outcome,
    provider::left,
    run,
    server::Server,
    session::Session,
    task::{JobTask, Manner, Program, Task, Validated},
    tools::Tool,
    transaction::{
        Transaction, settle,
        unsettled::{Purpose, Unsettled},
    },
    turn::Turn,
    why,
};
use palisade_plan::change::Version;
use palisade_protocol::{
    Call, ErrorCode, Route as RouteName, ToolMetadata, WireError, arguments::Encoding,
};
use std::sync::Arc;

/// Does it: in the cell, unless it is about the session itself.
pub(crate) async fn execute(
    server: &Arc<Server>,
    docket: &mut Docket,
    ticketed: Ticketed,
) -> Result<Executed, Box<Outcome>> {
    let Ready { mut context, call, tool, validated, findings, checkpoint, leave, route, .. } =
        ticketed.ready;
    let (purpose, transaction, turn) =
        (ticketed.ready.purpose, ticketed.ready.transaction, ticketed.ready.turn);
    let approved = ticketed.ready.approved;
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
    let observed = observe::asked(&session, &tool.spec, &touched);
    let change = Changing::begin(&session, &tool.spec.metadata);
    let (mut outcome, unsettled) = match task {
        Task::Run(program) => {
            let running = Running { server, docket, call, tool, approved, context, deadline };
            let (mut outcome, unsettled) =
                running.run(program, (route, transaction), (purpose, turn)).await;
            outcome.route = Some(route.name());
            hint_at_transaction(&session, &mut outcome);
            (outcome, unsettled)
        }
        Task::Job(JobTask::Commit { job, if_refused }) => {
            (job::commit::run(job, if_refused, context, docket.for_job()).await, None)
        }
        Task::Job(task) => (job::serve::run(task, context, deadline).await, None),
        Task::Errand(errand) => (errand::run(errand, &session, &server.registry), None),
        Task::Provided { arguments, .. } => match tool.provider() {
            Some(provider) => {
                let asking = Asking { tool: tool.spec.name.clone(), arguments, reason };
                (invoke::run(provider, asking, context, deadline).await, None)
            }
            None => (left().into(), None),
        },
        Task::Check { paths } => {
            let settling = diagnose::Settling { server, docket, call, tool, route };
            let mut outcome = diagnose::run(&paths, settling, context, deadline).await;
            outcome.route = Some(route.name());
            (outcome, None)
        }
        Task::Change(task) => {
            (change::run(&task, &tool.spec.name, &leave, context, deadline).await, None)
        }
        task @ (Task::Read { .. } | Task::List { .. } | Task::Glob(_) | Task::Grep(_)) => {
            (file::run(task, &tool.spec, context, deadline).await, None)
        }
    };
    drop(change);
    why::explain(&session, &touched, &mut outcome);
    let mut outcome = Outcome { findings, checkpoint, ..outcome };
    outcome.observed.splice(0..0, observed);
    Ok(Executed { outcome, reviewed, unsettled })
}

/// Says how a command can write that failed where it could not.
fn hint_at_transaction(session: &Session, outcome: &mut Outcome) {
    let chosen = session.profile.writes_workspace() && outcome.route == Some(RouteName::Reading);
    if let Some(error) = outcome.error.as_mut().filter(|error| chosen && error.code == FAILED) {
        error.hint = "the workspace was read-only for this command, since it seemed to read only; \
                      if it has to write there, call again with route = \"transaction\""
            .to_owned();
    }
}

const FAILED: ErrorCode = ErrorCode::CommandFailed;

/// A call that runs a program.
struct Running<'a> {
    server: &'a Arc<Server>,
    docket: &'a Docket,
    call: Call,
    tool: Arc<Tool>,
    approved: Vec<Version>,
    context: Context,
    deadline: Deadline,
}

impl Running<'_> {
    /// Runs a program by its route, to its end or until it has become a job. The effects of one that
    /// ended in a transaction are still to be settled.
    async fn run(
        self,
        program: Program,
        (route, transaction): (Route, Option<Transaction>),
        (purpose, turn): (Purpose, Option<Turn>),
    ) -> (Outcome, Option<Box<Unsettled>>) {
        let Self { server, docket, call, tool, approved, context, deadline } = self;
        let review = match route {
            Route::Transaction(review) => review,
            // A dry run of what seems to read.
            Route::Reading | Route::Direct => EffectsReview::Required,
        };
        let (manner, task) = (program.manner, Task::Run(program.clone()));
        let unsettled = |transaction, context, turn| Unsettled {
            transaction,
            purpose,
            review,
            approved,
            context,
            call,
            tool,
            task,
            cwd: None,
            _turn: turn,
        };
        let place = match (transaction, route.runner(), manner) {
            (Some(transaction), _, Manner::Foreground) => {
                let mut unsettled = Box::new(unsettled(transaction, context, turn));
                let outcome = unsettled.run(program, deadline).await;
                return (outcome, Some(unsettled));
            }
            (Some(transaction), _, Manner::Background | Manner::Yield(_)) => {
                let unsettled = unsettled(transaction, context.outliving(), None);
                let (server, docket) = (Arc::clone(server), docket.for_job());
                JobPlace::Transaction(Box::new(JobTransaction {
                    unsettled,
                    server,
                    docket,
                    is_refused: false,
                }))
            }
            (None, Some(kind), _) => JobPlace::Runner(kind),
            (None, None, _) => {
                return (CallError::Cell("it has no transaction".to_owned()).into(), None);
            }
        };
        let started = match (manner, place) {
            (Manner::Foreground, JobPlace::Runner(kind)) => {
                return (run::run(program, context, deadline, kind).await, None);
            }
            (Manner::Background | Manner::Foreground, place) => {
                job::start::background(program, context, deadline, place).await
            }
            (Manner::Yield(after), place) => {
                job::start::yielding(program, context, deadline, (after, place)).await
            }
        };
        (started.unwrap_or_else(Outcome::from), None)
    }
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
    let outcome = settle::settle(server, docket, &unsettled, outcome).await;
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
