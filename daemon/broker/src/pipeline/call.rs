//! The life of a call: every stage in order. No other code calls two of them, but for `consult`: it
//! validates and judges again what an approver changed. Runs in the broker.

use crate::{
    base::{
        error::CallError,
        outcome::{Outcome, ResultHeader},
    },
    pipeline::{
        cleared::{ClearanceCheck, ClearedCall, JudgedCall},
        dry,
        services::CallServices,
        stages::{self, DueCall, asked::RequestedCall, ready::ReadyCall},
    },
    telemetry::{audit::docket::CallAudit, progress::CallProgressGuard},
};
use palisade_protocol::{CallResult, CallStage};
use std::sync::Arc;

/// Takes a call from its request to its result. Whatever happens, there is a result.
pub(crate) async fn serve(services: &Arc<CallServices>, asked: RequestedCall) -> CallResult {
    let mut header: ResultHeader = asked.result_header();
    if let Ok(tool) = services.registry.resolve(&asked.call.tool) {
        // The call may use an alias.
        header.tool = tool.spec.name.clone();
    }
    let session = Arc::clone(&asked.context.session);
    let telemetry = &services.approvals.telemetry;
    let wants_receipt = asked.call.options.receipt;
    let started = asked.started_call();
    telemetry.started(&started);
    let progress = telemetry.calls_in_progress.begin(&started);
    let mut docket = CallAudit::new(&telemetry.audit, &started);
    let mut outcome =
        stages(services, asked, &mut docket, &progress).await.unwrap_or_else(|stopped| *stopped);
    outcome.findings.extend(session.take_findings());
    progress.at(CallStage::Reply);
    let mut result =
        docket.close(ResultHeader { receipt: session.receipt(), ..header }.reply(outcome));
    telemetry.ended(&session, progress.call(), &result);
    session.shorten_receipt(&mut result, wants_receipt);
    session.prepare_next();
    result
}

/// Runs the stages. Each takes the output of the one before; an early end is an outcome too.
async fn stages(
    services: &Arc<CallServices>,
    asked: RequestedCall,
    docket: &mut CallAudit,
    progress: &CallProgressGuard<'_>,
) -> Result<Outcome, Box<Outcome>> {
    let resolved = stages::resolve(&services.registry, asked)?;
    let call = stages::validate(resolved)?;
    let judged: JudgedCall = stages::judge(services, call).await?;
    docket.note(&judged.said());
    progress.at(CallStage::Checkpoint);
    let cleared: ClearedCall = judged.checkpoint(services, docket).await?;
    let cleared = dry::run(cleared)?;
    progress.at(CallStage::Queue);
    let due = stages::take_turn(cleared).await?;
    let ready = settle(services, docket, due).await?;
    progress.at(CallStage::Execute);
    let ticketed = stages::ticket(ready, docket).await?;
    let executed = stages::execute(services, docket, ticketed).await?;
    progress.at(CallStage::Effects);
    let executed = stages::effects(services, docket, executed).await;
    Ok(stages::review(services, docket, executed).await)
}

/// Makes sure that the clearance still holds when it is the call's turn. Earlier calls may have
/// changed what this one is about; then it is judged again, and if need be asked about again. So is
/// a call that was to run in a transaction when none is available.
async fn settle(
    services: &CallServices,
    docket: &mut CallAudit,
    due: DueCall,
) -> Result<ReadyCall, Box<Outcome>> {
    let DueCall { mut cleared, mut turn } = due;
    loop {
        let call = match cleared.still_holds().await? {
            ClearanceCheck::Holds(holding) => match holding.hold().await? {
                ClearanceCheck::Holds(cleared) => return Ok(stages::go_on(cleared, turn)),
                ClearanceCheck::Judge(call) => call,
            },
            ClearanceCheck::Judge(call) => call,
        };
        let judged = stages::judge(services, call).await?;
        docket.note(&judged.said());
        cleared = dry::run(judged.checkpoint(services, docket).await?)?;
        turn = stages::keep_turn(&cleared, turn).await?;
    }
}

impl From<CallError> for Box<Outcome> {
    fn from(error: CallError) -> Self {
        Self::new(error.into())
    }
}
