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
For operators who may administer. A call's agent gets a result that says it was cancelled; a
session's agent is told that its session is over, and what it left running is killed.

Exit status 0 if each was ended, 1 if one was not found, 125 if there is no daemon.

Examples:
  palisade kill 0192f0c1-6f7a-7c3e-9a53-0d6f0c1f5a10
  palisade kill \"$(palisade sessions --json | jq -r '.sessions[0].session')\"")]
pub(crate) struct KillThem {
    /// Ids of calls or sessions, as `palisade top` shows them
    #[arg(required = true, value_name = "SESSION|CALL")]
    ids: Vec<String>,
    #[command(flatten)]
    operator: OperatorOptions,
}

/// What was ended.
enum Ended {
    Call,
    Session,
    Nothing,
}

impl KillThem {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        let operator = operator::connect(&self.operator).await?;
        let mut status = 0;
        for id in &self.ids {
            match end(&operator, id).await? {
                Ended::Call => print::line(&format!("call {id} is ended"))?,
                Ended::Session => print::line(&format!("session {id} is ended"))?,
                Ended::Nothing => {
                    print::note(&format!("palisade: there is no call and no session {id:?}"));
                    status = 1;
                }
            }
        }
        Ok(status)
    }
}

async fn end(operator: &Operator, id: &str) -> Result<Ended, Failure> {
    if let Ok(call) = id.parse::<CallId>()
        && found(operator.kill(&call).await)?
    {
        return Ok(Ended::Call);
    }
    if let Ok(session) = id.parse::<SessionId>()
        && found(operator.abort(&session).await)?
    {
        return Ok(Ended::Session);
    }
    Ok(Ended::Nothing)
}

/// Whether there was one.
fn found(result: Result<(), Error>) -> Result<bool, Failure> {
    match result {
        Ok(()) => Ok(true),
        Err(error) if error.wire().is_some_and(|wire| wire.code == ErrorCode::NotFound) => {
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}
