//! The life of a call: every stage in order. Nothing else calls two of them. Broker.

use crate::{
    audit::Docket,
    cleared::{Cleared, Judged},
    error::CallError,
    outcome::{Outcome, Slip},
    server::Server,
    stages::{self, Asked},
};
use palisade_protocol::CallResult;

/// Takes a call from its request to its result. Whatever happens, there is one.
pub(crate) async fn serve(server: &Server, asked: Asked) -> CallResult {
    let slip: Slip = asked.slip();
    let mut docket = Docket::new(&server.audit, &asked);
    let outcome = stages(server, asked, &mut docket).await.unwrap_or_else(|stopped| *stopped);
    docket.close(slip.reply(outcome)).await
}

/// Each stage takes what the one before gave; an early end is an outcome too.
async fn stages(
    server: &Server,
    asked: Asked,
    docket: &mut Docket,
) -> Result<Outcome, Box<Outcome>> {
    let resolved = stages::resolve(&server.registry, asked)?;
    let call = stages::validate(resolved)?;
    let judged: Judged<'_> = stages::judge(call);
    docket.note(&judged);
    let cleared: Cleared<'_> = judged.checkpoint()?;
    let cleared = stages::dry_run(cleared)?;
    let ready = stages::take_turn(cleared).await?;
    let ticketed = stages::ticket(ready, docket).await?;
    Ok(stages::execute(ticketed).await)
}

impl From<CallError> for Box<Outcome> {
    fn from(error: CallError) -> Self {
        Self::new(error.into())
    }
}
