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
    guard::Route,
    invoke::{self, Asking},
    job, observe,
    observers::Audience,
    outcome::Outcome,
    provider::left,
    run,
    server::Server,
    session::Session,
    task::{Manner, Program, Task, Validated},
    tools::Tool,
    transaction::{
        settle,
        settle::{Consent, Unsettled},
    },
    why,
};
use palisade_policy::Search;
use palisade_protocol::{Call, ErrorCode, ToolMetadata, WireError, arguments::Encoding};
use std::sync::Arc;

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
    let observed = observe::asked(&session, &tool.spec, &touched);
    if let (Some(transaction), Task::Run(program)) = (transaction, &task) {
        let program = program.clone();
        let cwd = None;
        let consent = if route == Route::Veiled { Consent::Given } else { Consent::Asked };
        let mut unsettled = Unsettled {
            transaction,
            purpose,
            consent,
            context,
            call,
            tool,
            task,
            cwd,
            _turn: turn,
        };
        let mut outcome = unsettled.run(program, deadline).await;
        why::explain(&session, &touched, &mut outcome);
        let mut outcome = Outcome { findings, checkpoint, ..outcome };
        outcome.observed.splice(0..0, observed);
        return Ok(Executed { outcome, reviewed, unsettled: Some(Box::new(unsettled)) });
    }
    let change = Changing::begin(&session, &tool.spec.metadata);
    let mut outcome = match task {
        Task::Run(program) => match route {
            Route::Direct(search) => run(program, context, deadline, search).await,
            Route::Veiled => run(program, context, deadline, Search::Whole).await,
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
    let mut outcome = Outcome { findings, checkpoint, ..outcome };
    outcome.observed.splice(0..0, observed);
    Ok(Executed { outcome, reviewed, unsettled: None })
}

/// Runs a program, to its end or until it has become a job.
async fn run(program: Program, context: Context, deadline: Deadline, search: Search) -> Outcome {
    let begun = match program.manner {
        Manner::Foreground => return run::run(program, context, deadline, search).await,
        Manner::Background => job::start::background(program, context, deadline).await,
        Manner::Yield(after) => job::start::yielding(program, context, deadline, after).await,
    };
    begun.unwrap_or_else(Outcome::from)
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
    let outcome = settle::settle(server, docket, *unsettled, outcome).await;
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
