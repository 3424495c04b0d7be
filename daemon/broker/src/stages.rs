//! The stages of a call, each from one value to the next. `call.rs` has their order. Broker.

use crate::{
    arguments::{self, Program, Task, Validated},
    audit::Docket,
    cleared::{Cleared, Judged},
    context::{Context, Deadline},
    error::CallError,
    file,
    outcome::{Fault, Outcome, Slip},
    run,
    tools::{Registry, Tool},
    turn::{Place, Turn},
};
use palisade_audit::Ticket;
use palisade_protocol::{Call, Finding, JsonText, RawPath, ToolName, WireError};
use serde_json::json;
use std::time::Instant;

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
pub(crate) struct Resolved<'a> {
    asked: Asked,
    tool: &'a Tool,
}

/// A call whose arguments make sense.
#[derive(Debug)]
pub(crate) struct Checked<'a> {
    call: Call,
    context: Context,
    place: Place,
    tool: &'a Tool,
    validated: Validated,
}

/// A cleared call whose turn it is.
#[derive(Debug)]
pub(crate) struct Ready {
    context: Context,
    validated: Validated,
    findings: Vec<Finding>,
    _turn: Option<Turn>,
}

/// A call that is in the audit log. It can not be made without the log's ticket.
#[derive(Debug)]
pub(crate) struct Ticketed {
    ready: Ready,
    _ticket: Ticket,
}

impl Checked<'_> {
    /// The tool's own name.
    pub(crate) const fn tool(&self) -> &ToolName {
        &self.tool.spec.name
    }
}

impl Asked {
    /// What the result will say whatever happens.
    pub(crate) fn slip(&self) -> Slip {
        Slip {
            call_id: self.context.call_id.clone(),
            tool: self.call.tool.clone(),
            receipt: self.context.session.receipt.clone(),
            started: self.started,
            fault: self.fault.clone(),
        }
    }
}

/// Finds the tool.
pub(crate) fn resolve(registry: &Registry, asked: Asked) -> Result<Resolved<'_>, Box<Outcome>> {
    asked.context.session.check()?;
    match registry.resolve(&asked.call.tool) {
        Ok(tool) => Ok(Resolved { asked, tool }),
        Err(error) => Err(Box::new(error.into())),
    }
}

/// Reads the arguments.
pub(crate) fn validate(resolved: Resolved<'_>) -> Result<Checked<'_>, Box<Outcome>> {
    let Resolved { asked: Asked { call, context, place, .. }, tool } = resolved;
    match arguments::validate(tool, &call, &context.session.profile) {
        Ok(validated) => Ok(Checked { call, context, place, tool, validated }),
        Err(error) => Err(Box::new(error.into())),
    }
}

/// Asks the judge.
pub(crate) fn judge(call: Checked<'_>) -> Judged<'_> {
    let session = &call.context.session;
    let judgement = palisade_policy::judge(
        &session.profile,
        session.ask,
        &call.tool.spec,
        &palisade_policy::Facts::default(),
    );
    Judged::new(call, judgement)
}

/// Ends a dry run with a report of what would be done.
pub(crate) fn dry_run(cleared: Cleared<'_>) -> Result<Cleared<'_>, Box<Outcome>> {
    if !cleared.call().call.options.dry_run {
        return Ok(cleared);
    }
    let report = report(cleared.call());
    let (_, findings) = cleared.into_call();
    let outcome = match JsonText::render(&report) {
        Ok(data) => Outcome { data: Some(data), findings, ..Outcome::default() },
        Err(error) => CallError::Io(error.into()).into(),
    };
    Err(Box::new(outcome))
}

fn report(call: &Checked<'_>) -> serde_json::Value {
    let session = &call.context.session;
    let absolute = |path: &[u8]| RawPath(session.absolute(path));
    let timeout = call.validated.timeout.as_millis();
    let mut report = json!({
        "dry_run": true,
        "tool": call.tool.spec.name,
        "judgement": "allow",
        "timeout_ms": u64::try_from(timeout).unwrap_or(u64::MAX),
    });
    match &call.validated.task {
        Task::Run(Program { argv, cwd, .. }) => {
            report["argv"] = json!(argv);
            report["cwd"] =
                json!(cwd.as_ref().map_or_else(|| RawPath(session.cwd()), |cwd| absolute(cwd)));
        }
        Task::Read { path, .. }
        | Task::Write { path, .. }
        | Task::Delete { path, .. }
        | Task::List { path, .. } => report["path"] = json!(absolute(path)),
    }
    report
}

/// Waits for the call's turn; what may run beside others does not wait.
pub(crate) async fn take_turn(cleared: Cleared<'_>) -> Result<Ready, Box<Outcome>> {
    let (Checked { context, place, tool, validated, .. }, findings) = cleared.into_call();
    let turn = if tool.spec.metadata.concurrency_safe {
        drop(place);
        None
    } else {
        tokio::select! {
            biased;
            turn = place.turn() => Some(turn.map_err(|_| CallError::SessionOver)?),
            () = context.cancel.cancelled() => return Err(CallError::Cancelled.into()),
        }
    };
    context.session.check()?;
    Ok(Ready { context, validated, findings, _turn: turn })
}

/// Writes it into the audit log.
pub(crate) async fn ticket(ready: Ready, docket: &mut Docket) -> Result<Ticketed, Box<Outcome>> {
    match docket.ticket().await {
        Ok(ticket) => Ok(Ticketed { ready, _ticket: ticket }),
        Err(error) => Err(Box::new(WireError::from(error).into())),
    }
}

/// Does it, in the cell.
pub(crate) async fn execute(ticketed: Ticketed) -> Outcome {
    let Ready { context, validated: Validated { task, timeout }, findings, _turn } = ticketed.ready;
    let deadline = Deadline::after(timeout);
    let outcome = match task {
        Task::Run(program) => run::run(program, context, deadline).await,
        task @ (Task::Read { .. }
        | Task::Write { .. }
        | Task::Delete { .. }
        | Task::List { .. }) => file::run(task, context, deadline).await,
    };
    Outcome { findings, ..outcome }
}
