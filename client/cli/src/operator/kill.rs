//! `palisade kill`: ends calls and sessions.

use crate::{
    failure::Failure,
    operator::{self, OperatorOptions},
    print,
};
use clap::Args;
use palisade_client::{CallId, Error, ErrorCode, Operator, SessionId};

/// End a call, or a session with all of its calls and jobs
#[derive(Debug, Args)]
#[command(after_help = "\
Needs the operator right to administer. The agent of a call gets a result that says the call was
cancelled. The agent of a session is told that the session ended, and its processes are killed.

Exit status: 0 all were ended; 1 one was not found; 125 no daemon.

Examples:
  palisade kill 0192f0c1-6f7a-7c3e-9a53-0d6f0c1f5a10
  palisade kill \"$(palisade sessions --json | jq -r '.sessions[0].session')\"")]
pub(crate) struct KillCommand {
    /// Ids of calls or sessions, as `palisade top` shows them
    #[arg(required = true, value_name = "SESSION|CALL")]
    ids: Vec<String>,
    #[command(flatten)]
    operator: OperatorOptions,
}

/// The kind of thing that an id named and that was ended.
enum KillOutcome {
    Call,
    Session,
    Nothing,
}

impl KillCommand {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        let operator = operator::connect(&self.operator).await?;
        let mut status = 0;
        for id in &self.ids {
            match end(&operator, id).await? {
                KillOutcome::Call => print::line(&format!("ended call {id}"))?,
                KillOutcome::Session => print::line(&format!("ended session {id}"))?,
                KillOutcome::Nothing => {
                    print::note(&format!("palisade: there is no call or session {id:?}"));
                    status = 1;
                }
            }
        }
        Ok(status)
    }
}

async fn end(operator: &Operator, id: &str) -> Result<KillOutcome, Failure> {
    if let Ok(call) = id.parse::<CallId>()
        && found(operator.kill(&call).await)?
    {
        return Ok(KillOutcome::Call);
    }
    if let Ok(session) = id.parse::<SessionId>()
        && found(operator.abort(&session).await)?
    {
        return Ok(KillOutcome::Session);
    }
    Ok(KillOutcome::Nothing)
}

/// Returns whether the call or session existed.
fn found(result: Result<(), Error>) -> Result<bool, Failure> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.wire().is_some_and(|wire| wire.code == ErrorCode::NotFound) => {
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}
