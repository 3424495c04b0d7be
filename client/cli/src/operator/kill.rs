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
    /// Ids of calls or sessions, or the starts of ids that `palisade top` shows
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
            let id = &whole(&operator, id).await?;
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

/// Returns the id of the call or session under way that starts with this, or the text as it is if
/// there is none or this user may not list them.
async fn whole(operator: &Operator, id: &str) -> Result<String, Failure> {
    let overview = match operator.overview().await {
        Ok(overview) => overview,
        Err(error) if error.wire().is_some() => return Ok(id.to_owned()),
        Err(error) => return Err(error.into()),
    };
    let calls = overview.calls.iter().map(|call| call.call_id.as_str());
    let sessions = overview.sessions.iter().map(|session| session.session.as_str());
    matching(id, calls.chain(sessions))
}

fn matching<'a>(id: &str, known: impl Iterator<Item = &'a str>) -> Result<String, Failure> {
    let found: Vec<&str> = known.filter(|known| known.starts_with(id)).collect();
    match found.as_slice() {
        [one] => Ok((*one).to_owned()),
        [_, _, ..] if !found.contains(&id) => Err(Failure::absent(
            format!("{} calls or sessions start with {id}: {}", found.len(), found.join(", ")),
            "give more characters of the id",
        )),
        _ => Ok(id.to_owned()),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_start_of_an_id_names_what_it_is_the_only_start_of() {
        let matched = |id: &str| matching(id, ["ab-1", "ab-2", "c", "cd"].into_iter()).ok();
        assert_eq!(matched("ab-1"), Some("ab-1".to_owned()));
        assert_eq!(matched("ab-"), None);
        assert_eq!(matched("c"), Some("c".to_owned()));
        assert_eq!(matched("cd"), Some("cd".to_owned()));
        assert_eq!(matched("x"), Some("x".to_owned()));
    }
}
