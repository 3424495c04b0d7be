//! The stages of a call, each from one value to the next. `call.rs` has their order. Broker.

pub(crate) mod asked;
pub(crate) mod checked;
mod execute;
pub(crate) mod ready;

pub(crate) use execute::{effects, execute, review};

use crate::{
    audit::docket::Docket,
    cleared::{Cleared, Judged},
    dry,
    error::CallError,
    gather,
    guard::Route,
    outcome::Outcome,
    server::Server,
    task::Task,
    thinking,
    tools::{Registry, Tool, believed},
    transaction::unsettled::Purpose,
    turn::Turn,
    why,
};
use asked::Asked;
use checked::{Checked, validated};
use palisade_policy::Judgement;
use palisade_protocol::WireError;
use ready::{Ready, Ticketed};
use std::sync::Arc;

/// A call of a tool that exists.
#[derive(Debug)]
pub(crate) struct Resolved {
    asked: Asked,
    tool: Arc<Tool>,
}

/// A cleared call whose turn it is.
#[derive(Debug)]
pub(crate) struct Due {
    pub(crate) cleared: Cleared,
    pub(crate) turn: Option<Turn>,
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
        thinking::check(&tool, &call, profile).and_then(|()| validated(&tool, &call, profile));
    match checked {
        Ok(validated) => {
            let (place, route) = (Some(place), Route::Reading);
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
    let (leave, approved) = (cleared.leave(), cleared.approved_losses());
    let (mut checked, findings, checkpoint) = cleared.into_call();
    let purpose = match (checked.is_tried(), checked.report.take()) {
        (false, _) => Purpose::Real,
        (true, Some(report)) => Purpose::Trial(report),
        (true, None) => Purpose::Trial(dry::report::report(&checked, "allow", None)),
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
        approved,
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
