//! `palisade forget`: deletes what is stored for calls.

use crate::{
    disconnect::disconnect,
    failure::Failure,
    operator::{self, OperatorOptions},
    print,
};
use clap::{Args, ValueEnum};
use palisade_client::{Forget, Forgotten};
use palisade_options::duration;
use std::time::Duration;

/// Delete what is stored for calls: full outputs and undo records
#[derive(Debug, Args)]
#[command(after_help = "\
Needs the operator right to administer. Stored output is deleted after a day, undo records after
undo.keep (default: 7 days). A user who reaches quotas.spool_bytes or quotas.undo_bytes of the
daemon's configuration before that has calls refused until some of it is deleted. `palisade
sessions` shows how much each user has.

Deleted output can not be read, and calls without undo records can not be undone. The deletion is
recorded in the audit log, which keeps the calls themselves. If no daemon is running, this deletes
from the user's own store.

Examples:
  palisade forget --user 1000 --only spools
  palisade forget --user 1000 --older-than 2h
  palisade forget --all --only undo --older-than 12h")]
pub(crate) struct ForgetCommand {
    /// Delete what is stored for this user
    #[arg(long, value_name = "UID", required_unless_present = "all", conflicts_with = "all")]
    user: Option<u32>,
    /// Delete what is stored for all users
    #[arg(long)]
    all: bool,
    /// Delete only this kind
    #[arg(long, value_name = "KIND")]
    only: Option<Kind>,
    /// Delete only what is older than this
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    older_than: Option<Duration>,
    /// Print what was deleted as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    operator: OperatorOptions,
}

/// The kind of stored data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Full outputs of calls
    Spools,
    /// Undo records of calls
    Undo,
}

impl ForgetCommand {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        let (operator, private) = operator::connect_or_start(&self.operator).await?;
        let forget = Forget {
            uid: self.user,
            spools: self.only != Some(Kind::Undo),
            undo: self.only != Some(Kind::Spools),
            older_than_ms: self
                .older_than
                .map_or(0, |age| u64::try_from(age.as_millis()).unwrap_or(u64::MAX)),
        };
        let status = match operator.forget(forget).await {
            Ok(gone) if self.json => print::json(&gone).map(|()| 0),
            Ok(gone) => print::line(&told(gone)).map(|()| 0),
            Err(error) => Err(error.into()),
        };
        match private {
            Some(client) => disconnect(&client, status).await,
            None => status,
        }
    }
}

fn told(Forgotten { spools, calls, bytes }: Forgotten) -> String {
    format!("deleted {spools} stored outputs and the undo records of {calls} calls, {bytes} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_went() {
        assert_eq!(
            told(Forgotten { spools: 2, calls: 1, bytes: 4096 }),
            "deleted 2 stored outputs and the undo records of 1 calls, 4096 bytes"
        );
    }
}
