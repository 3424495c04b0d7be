//! The life of a call: every stage in order. Nothing else calls two of them. Broker.

use crate::{
    audit::docket::Docket,
    cleared::{Cleared, Judged, Still},
    course::UnderWay,
    dry,
    error::CallError,
    news,
    outcome::{Outcome, Slip},
    server::Server,
    stages::{self, Due, asked::Asked, ready::Ready},
};
use palisade_protocol::{CallResult, CallStage};
use std::sync::Arc;

/// Takes a call from its request to its result. Whatever happens, there is one.
pub(crate) async fn serve(server: &Arc<Server>, asked: Asked) -> CallResult {
    let slip: Slip = asked.slip();
    let session = Arc::clone(&asked.context.session);
    news::started(server, &session, &asked);
    let course = server.courses.begin(&asked);
    let mut docket = Docket::new(&server.audit, &asked);
    let mut outcome =
        stages(server, asked, &mut docket, &course).await.unwrap_or_else(|stopped| *stopped);
    outcome.findings.extend(session.untold());
    course.at(CallStage::Reply);
    let result = docket.close(Slip { receipt: session.receipt(), ..slip }.reply(outcome));
    news::ended(server, &session, course.course(), &result);
    result
}

/// Each stage takes what the one before gave; an early end is an outcome too.
async fn stages(
    server: &Arc<Server>,
    asked: Asked,
    docket: &mut Docket,
    course: &UnderWay<'_>,
) -> Result<Outcome, Box<Outcome>> {
    let resolved = stages::resolve(&server.registry, asked)?;
    let call = stages::validate(resolved)?;
    let judged: Judged = stages::judge(server, call).await?;
    docket.note(&judged.said());
    course.at(CallStage::Checkpoint);
    let cleared: Cleared = judged.checkpoint(server, docket).await?;
    let cleared = dry::run(cleared)?;
    course.at(CallStage::Queue);
    let due = stages::take_turn(cleared).await?;
    let ready = settle(server, docket, due).await?;
    course.at(CallStage::Execute);
    let ticketed = stages::ticket(ready, docket).await?;
    let executed = stages::execute(server, docket, ticketed).await?;
    course.at(CallStage::Effects);
    let executed = stages::effects(server, docket, executed).await;
    Ok(stages::review(server, docket, executed).await)
}

/// Makes sure that the clearance still holds now that it is the call's turn. What went before it
/// may have changed what it is about; then it is judged, and if need be asked about, again. The same
/// if it was to run in a transaction and there are none.
async fn settle(server: &Server, docket: &mut Docket, due: Due) -> Result<Ready, Box<Outcome>> {
    let Due { mut cleared, turn } = due;
    loop {
        let call = match cleared.still_holds().await? {
            Still::Holds(holding) => match holding.hold().await? {
                Still::Holds(cleared) => return Ok(stages::go_on(cleared, turn)),
                Still::Judge(call) => call,
            },
            Still::Judge(call) => call,
        };
        let judged = stages::judge(server, call).await?;
        docket.note(&judged.said());
        cleared = dry::run(judged.checkpoint(server, docket).await?)?;
    }
}

impl From<CallError> for Box<Outcome> {
    fn from(error: CallError) -> Self {
        Self::new(error.into())
    }
}
