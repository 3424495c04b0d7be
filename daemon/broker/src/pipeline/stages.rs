//! The stages of a call; each turns one value into the next. `call.rs` has their order. Runs in the
//! broker.

pub(crate) mod asked;
pub(crate) mod checked;
mod execute;
pub(crate) mod ready;

pub(crate) use execute::{effects, execute, review};

use crate::{
    base::{error::CallError, outcome::Outcome, task::Task},
    cells::{
        turn::{Company, Turn},
        why,
    },
    changes::{guard::Route, transaction::unsettled::Purpose},
    pipeline::{
        cleared::{ClearedCall, JudgedCall},
        dry, gather,
        services::CallServices,
    },
    telemetry::audit::docket::CallAudit,
    tools::{Registry, Tool, thinking, with_trusted_metadata},
};
use asked::RequestedCall;
use checked::{CheckedCall, validated};
use palisade_policy::{Commands, Judgement};
use palisade_protocol::WireError;
use ready::{ReadyCall, TicketedCall};
use std::sync::Arc;

/// A call whose tool was found.
#[derive(Debug)]
pub(crate) struct ResolvedCall {
    asked: RequestedCall,
    tool: Arc<Tool>,
}

/// A cleared call whose turn has come.
#[derive(Debug)]
pub(crate) struct DueCall {
    pub(crate) cleared: ClearedCall,
    pub(crate) turn: Option<Turn>,
}

/// Finds the tool of a call.
pub(crate) fn resolve(
    registry: &Registry,
    asked: RequestedCall,
) -> Result<ResolvedCall, Box<Outcome>> {
    asked.context.session.check()?;
    match registry.resolve(&asked.call.tool) {
        Ok(tool) => {
            let tool = with_trusted_metadata(tool, &asked.context.session.profile);
            Ok(ResolvedCall { asked, tool })
        }
        Err(error) => Err(Box::new(error.into())),
    }
}

/// Parses and checks the arguments of a call.
pub(crate) fn validate(resolved: ResolvedCall) -> Result<CheckedCall, Box<Outcome>> {
    let ResolvedCall { asked: RequestedCall { call, context, place, .. }, tool } = resolved;
    let session = &context.session;
    let checked = thinking::check(&tool, &call, &session.profile)
        .and_then(|()| validated(&tool, &call, session));
    match checked {
        Ok(validated) => {
            let (place, route) = (Some(place), Route::Reading);
            let commands = Commands::Unknown;
            let (preview, report, transaction) = (None, None, None);
            Ok(CheckedCall {
                call,
                context,
                place,
                tool,
                validated,
                preview,
                route,
                commands,
                report,
                transaction,
            })
        }
        Err(error) => Err(Box::new(error.into())),
    }
}

/// Collects the facts about a call, and judges it.
pub(crate) async fn judge(
    services: &CallServices,
    mut call: CheckedCall,
) -> Result<JudgedCall, Box<Outcome>> {
    let session = &call.context.session;
    let mut gathered =
        gather::gather(&services.analyst, session, &call.tool, &call.validated.task).await?;
    gathered.facts.findings.extend_from_slice(call.adjusted());
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
    call.take_route(gathered.route);
    call.commands = gathered.facts.commands.clone();
    Ok(JudgedCall::new(call, gathered, judgement))
}

/// Waits for the call's turn; calls that may run concurrently wait only for a free slot.
pub(crate) async fn take_turn(mut cleared: ClearedCall) -> Result<DueCall, Box<Outcome>> {
    let call = cleared.call_mut();
    let turn = match call.place.take() {
        Some(place) if !call.tool.spec.metadata.concurrency_safe => tokio::select! {
            biased;
            turn = place.turn(call.company()) => Some(turn),
            () = call.context.cancel.cancelled() => return Err(CallError::Cancelled.into()),
        },
        // Requests about jobs use nothing that other calls wait for, and may themselves wait long.
        Some(_) if !matches!(call.validated.task, Task::Job(_)) => tokio::select! {
            biased;
            turn = call.context.session.calls.turns.acquire_concurrent() => {
                Some(turn.map_err(|_| CallError::SessionOver)?)
            }
            () = call.context.cancel.cancelled() => return Err(CallError::Cancelled.into()),
        },
        Some(_) | None => None,
    };
    // A client that does not read its results gets no more of them.
    tokio::select! {
        biased;
        () = call.context.session.calls.results.wait() => {}
        () = call.context.cancel.cancelled() => return Err(CallError::Cancelled.into()),
    }
    call.context.session.check()?;
    Ok(DueCall { cleared, turn })
}

/// Keeps the turn of a call that was judged again. If the call has to run alone now, this waits
/// until no other one runs.
pub(crate) async fn keep_turn(
    cleared: &ClearedCall,
    turn: Option<Turn>,
) -> Result<Option<Turn>, Box<Outcome>> {
    let call = cleared.call();
    match (turn, call.company()) {
        (Some(turn), Company::Alone) => tokio::select! {
            biased;
            turn = turn.alone() => Ok(Some(turn)),
            () = call.cancelled() => Err(CallError::Cancelled.into()),
        },
        (turn, Company::Alone | Company::Shared) => Ok(turn),
    }
}

/// Makes a cleared call ready to run. The caller has checked that nothing changed since it was
/// cleared.
pub(crate) fn go_on(cleared: ClearedCall, turn: Option<Turn>) -> ReadyCall {
    let (leave, approved) = (cleared.leave(), cleared.approved_losses());
    let (mut checked, findings, checkpoint) = cleared.into_call();
    let purpose = match (checked.is_trial_run(), checked.report.take()) {
        (false, _) => Purpose::Real,
        (true, Some(report)) => Purpose::Trial(report),
        (true, None) => Purpose::Trial(dry::report::report(&checked, "allow", None)),
    };
    let CheckedCall { context, call, tool, validated, route, commands, transaction, .. } = checked;
    ReadyCall {
        context,
        call,
        tool,
        validated,
        findings,
        checkpoint,
        leave,
        approved,
        route,
        commands,
        purpose,
        transaction,
        turn,
    }
}

/// Writes the call into the audit log, which gives the ticket to run it.
pub(crate) async fn ticket(
    ready: ReadyCall,
    docket: &mut CallAudit,
) -> Result<TicketedCall, Box<Outcome>> {
    match docket.ticket().await {
        Ok(ticket) => Ok(TicketedCall { ready, _ticket: ticket }),
        Err(error) => Err(Box::new(WireError::from(error).into())),
    }
}
