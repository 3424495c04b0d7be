//! The stages in which a call runs, its effects are settled, and its output is reviewed. Runs in
//! the broker.

use super::ready::{ReadyCall, TicketedCall};
use crate::{
    approval::{request, review::ReviewedCall},
    base::{
        error::CallError,
        outcome::Outcome,
        task::{Program, Task, ValidatedTask, WaitMode},
    },
    cells::{
        context::{Context, Deadline},
        file, observe, run,
        session::Session,
        transaction::Transaction,
        turn::Turn,
        why,
    },
    changes::{
        change,
        guard::{EffectsReview, Route},
        transaction::{
            settle,
            unsettled::{Purpose, UnsettledCall},
        },
    },
    pipeline::{
        diagnose, errand, fetch,
        invoke::{self, ProviderRequest},
        job::{
            self,
            place::{JobPlace, JobTransaction},
        },
        services::CallServices,
    },
    telemetry::audit::docket::CallAudit,
    tools::{Tool, provider::left},
};
use palisade_plan::change::Version;
use palisade_policy::Commands;
use palisade_protocol::{
    Call, ErrorCode, Route as RouteName, ToolMetadata, WireError, arguments::Encoding,
};
use std::sync::Arc;

/// Runs a call: in the cell, unless it concerns only the session itself.
pub(crate) async fn execute(
    services: &Arc<CallServices>,
    docket: &mut CallAudit,
    ticketed: TicketedCall,
) -> Result<ExecutedCall, Box<Outcome>> {
    let ReadyCall {
        mut context, call, tool, validated, findings, checkpoint, leave, route, ..
    } = ticketed.ready;
    let (purpose, transaction, turn) =
        (ticketed.ready.purpose, ticketed.ready.transaction, ticketed.ready.turn);
    let (approved, commands) = (ticketed.ready.approved, ticketed.ready.commands);
    let ValidatedTask { task, timeout, .. } = validated;
    let deadline = Deadline::after(timeout);
    let session = Arc::clone(&context.session);
    let reason = call.reason.clone();
    let reviewed = if session.profile.reviews_output(&tool.spec) {
        // Output that is to be reviewed first is not streamed, and a provider's progress is output.
        context.hide_output();
        Some(reviewed(&context, call.clone(), Arc::clone(&tool), &task)?)
    } else {
        None
    };
    let touched = why::touched(&task);
    let observed = observe::asked(&session, &tool.spec, &touched);
    let connects = matches!(task, Task::Run(_) | Task::Check { .. } | Task::Fetch(_));
    let refused = session.network.refused.so_far();
    let change = ChangePeriod::begin(&session, &tool.spec.metadata);
    let (mut outcome, unsettled) = match task {
        Task::Run(program) => {
            let approved = (approved, commands);
            let running = ProgramCall { services, docket, call, tool, approved, context, deadline };
            let (mut outcome, unsettled) =
                running.run(program, (route, transaction), (purpose, turn)).await;
            outcome.route = Some(route.name());
            hint_at_transaction(&session, &mut outcome);
            hint_at_copy(&mut outcome);
            (outcome, unsettled)
        }
        Task::Job(task) => (job::serve::run(task, context, deadline, docket).await, None),
        Task::Errand(errand) => (errand::run(errand, &session, &services.registry), None),
        Task::Fetch(request) => {
            (fetch::run(request, &services.rooms, context, deadline).await, None)
        }
        Task::Provided { arguments, .. } => match tool.provider() {
            Some(provider) => {
                let asking = ProviderRequest { tool: tool.spec.name.clone(), arguments, reason };
                (invoke::run(provider, asking, context, deadline).await, None)
            }
            None => (left().into(), None),
        },
        Task::Check { paths } => {
            let settling = diagnose::CheckerReview { services, docket, call, tool, route };
            let mut outcome = diagnose::run(&paths, settling, context, deadline).await;
            outcome.route = Some(route.name());
            (outcome, None)
        }
        Task::Change(task) => {
            (change::run(&task, &tool.spec.name, &leave, context, deadline).await, None)
        }
        task @ (Task::Read { .. }
        | Task::Look { .. }
        | Task::List { .. }
        | Task::Glob(_)
        | Task::Grep(_)) => (file::run(task, &tool.spec, context, deadline).await, None),
    };
    drop(change);
    if connects {
        outcome.denials.extend(session.network.refused.since(refused));
    }
    why::explain(&session, &touched, &mut outcome);
    let mut outcome = Outcome { findings, checkpoint, ..outcome };
    outcome.observed.splice(0..0, observed);
    Ok(ExecutedCall { outcome, reviewed, unsettled })
}

/// Adds a hint to the error of a command that failed in a read-only workspace: how it can write.
fn hint_at_transaction(session: &Session, outcome: &mut Outcome) {
    let chosen = session.profile.writes_workspace() && outcome.route == Some(RouteName::Reading);
    if let Some(error) = outcome.error.as_mut().filter(|error| chosen && error.code == FAILED) {
        error.hint = "the workspace was read-only for this command, because it seemed only to \
                      read; if it must write there, call again with route = \"transaction\""
            .to_owned();
    }
}

/// Adds a hint to the error of a command that could not rename something in a transaction: its
/// overlay renames no directory that existed before. Programs report the error in these words.
fn hint_at_copy(outcome: &mut Outcome) {
    let is_overlaid = outcome.route == Some(RouteName::Transaction);
    let is_told = [&outcome.stderr, &outcome.stdout].iter().any(|text| text.contains(CROSS_DEVICE));
    let error = outcome.error.as_mut().filter(|error| error.code == FAILED);
    if let Some(error) = error.filter(|_| is_overlaid && is_told) {
        error.hint = "a directory that existed before the command can not be renamed, and nothing \
                      can be renamed between the workspace and /tmp: use mv, which copies instead. \
                      In place of `git mv DIR NEW`: mv DIR NEW && git add -A"
            .to_owned();
    }
}

/// The kernel's error EXDEV, as programs print it.
const CROSS_DEVICE: &str = "cross-device link";

const FAILED: ErrorCode = ErrorCode::CommandFailed;

/// A call that runs a program, with all that it needs.
struct ProgramCall<'a> {
    services: &'a Arc<CallServices>,
    docket: &'a CallAudit,
    call: Call,
    tool: Arc<Tool>,
    /// The files whose loss was approved with the call, and the programs that its text names.
    approved: (Vec<Version>, Commands),
    context: Context,
    deadline: Deadline,
}

impl ProgramCall<'_> {
    /// Runs a program by its route, until it ends or becomes a job. If it ended in a transaction,
    /// its effects are returned unsettled.
    async fn run(
        self,
        program: Program,
        (route, transaction): (Route, Option<Transaction>),
        (purpose, turn): (Purpose, Option<Turn>),
    ) -> (Outcome, Option<Box<UnsettledCall>>) {
        let Self { services, docket, call, tool, approved, context, deadline } = self;
        let (approved, commands) = approved;
        let review = match route {
            Route::Transaction(review) => review,
            // A dry run of a command that seems only to read.
            Route::Reading | Route::Direct => EffectsReview::Required,
        };
        let (manner, task) = (program.manner, Task::Run(program.clone()));
        let unsettled = |transaction, context, turn| UnsettledCall {
            transaction,
            purpose,
            review,
            approved,
            context,
            call,
            tool,
            task,
            commands,
            cwd: None,
            _turn: turn,
        };
        let place = match (transaction, route.runner(), manner) {
            (Some(transaction), _, WaitMode::Foreground) => {
                let mut unsettled = Box::new(unsettled(transaction, context, turn));
                let outcome = unsettled.run(program, deadline).await;
                return (outcome, Some(unsettled));
            }
            (Some(transaction), _, WaitMode::Background | WaitMode::Yield(_)) => {
                let unsettled = unsettled(transaction, context.outliving(), None);
                let approvals = Arc::clone(&services.approvals);
                let docket = docket.for_job();
                JobPlace::Transaction(Box::new(JobTransaction {
                    unsettled,
                    approvals,
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
            (WaitMode::Foreground, JobPlace::Runner(kind)) => {
                return (run::run(program, context, deadline, kind).await, None);
            }
            (WaitMode::Background | WaitMode::Foreground, place) => {
                job::start::background(program, context, deadline, place).await
            }
            (WaitMode::Yield(after), place) => {
                job::start::yielding(program, context, deadline, (after, place)).await
            }
        };
        (started.unwrap_or_else(Outcome::from), None)
    }
}

/// A call that has run.
#[derive(Debug)]
pub(crate) struct ExecutedCall {
    outcome: Outcome,
    reviewed: Option<ReviewedCall>,
    /// The effects of its transaction, which are not committed yet.
    unsettled: Option<Box<UnsettledCall>>,
}

/// Commits or discards the effects of a program that ran in a transaction.
pub(crate) async fn effects(
    services: &CallServices,
    docket: &mut CallAudit,
    executed: ExecutedCall,
) -> ExecutedCall {
    let ExecutedCall { outcome, reviewed, unsettled } = executed;
    let Some(unsettled) = unsettled else {
        return ExecutedCall { outcome, reviewed, unsettled: None };
    };
    let session = Arc::clone(&unsettled.context.session);
    session.changed();
    let outcome = settle::settle(&services.approvals, docket, &unsettled, outcome).await;
    session.changed();
    ExecutedCall { outcome, reviewed, unsettled: None }
}

/// The period during which a call may change the session's files. Both its start and its end are
/// noted, however the call ends.
struct ChangePeriod<'a>(Option<&'a Session>);

impl<'a> ChangePeriod<'a> {
    fn begin(session: &'a Session, metadata: &ToolMetadata) -> Self {
        let session = (!metadata.read_only).then_some(session);
        session.inspect(|session| session.changed());
        Self(session)
    }
}

impl Drop for ChangePeriod<'_> {
    fn drop(&mut self) {
        if let Some(session) = self.0 {
            session.changed();
        }
    }
}

/// Returns what a review of the output will need.
fn reviewed(
    context: &Context,
    call: Call,
    tool: Arc<Tool>,
    task: &Task,
) -> Result<ReviewedCall, Box<Outcome>> {
    if let Task::Read { encoding: Encoding::Raw, .. } = task {
        let message = "`encoding`: raw content can not be reviewed";
        let hint = "this profile requires a review of the output; choose text or base64";
        let error = WireError::new(ErrorCode::InvalidArguments, message, hint);
        return Err(Box::new(error.into()));
    }
    Ok(ReviewedCall {
        context: context.for_review(),
        tool,
        call,
        task: task.clone(),
        placeholder: request::placeholder()?,
    })
}

/// Has the output reviewed, if the profile requires it.
pub(crate) async fn review(
    services: &CallServices,
    docket: &mut CallAudit,
    executed: ExecutedCall,
) -> Outcome {
    match executed.reviewed {
        Some(reviewed) => reviewed.review(&services.approvals, docket, executed.outcome).await,
        None => executed.outcome,
    }
}
