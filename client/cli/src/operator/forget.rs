//! `palisade forget`: lets go of what is kept of calls.

use crate::{
    duration,
    failure::Failure,
    operator::{self, OperatorOptions},
    print, run,
};
use clap::{Args, ValueEnum};
use palisade_client::{Forget, Forgotten};
use std::time::Duration;

/// Let go of what is kept of calls: output to page through, and what makes undo possible
#[derive(Debug, Args)]
#[command(after_help = "\
For operators who may administer. What is kept goes by itself after a day; who has used up
quotas.spool_bytes or quotas.undo_bytes of the daemon's configuration before that has their calls
refused until some of it goes. `palisade sessions` shows who has how much.

What is let go of can not be undone or read any more. It is recorded in the audit log, where the
calls themselves stay. Where no daemon runs, it is the user's own that goes.

Examples:
  palisade forget --user 1000 --only spools
  palisade forget --user 1000 --older-than 2h
  palisade forget --all --only undo --older-than 12h")]
pub(crate) struct ForgetThem {
    /// Of this user
    #[arg(long, value_name = "UID", required_unless_present = "all", conflicts_with = "all")]
    user: Option<u32>,
    /// Of everybody
    #[arg(long)]
    all: bool,
    /// One kind only
    #[arg(long, value_name = "KIND")]
    only: Option<Kind>,
    /// What is older than this only
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    older_than: Option<Duration>,
    /// Print what went as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    operator: OperatorOptions,
}

/// What is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    /// Output that can be paged through
    Spools,
    /// What calls replaced, without which they can not be undone
    Undo,
}

impl ForgetThem {
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
            Some(client) => run::end(&client, status).await,
            None => status,
        }
    }
}

fn told(Forgotten { spools, calls, bytes }: Forgotten) -> String {
    format!("{spools} spools and the undo of {calls} calls are let go of, {bytes} bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_says_what_went() {
        assert_eq!(
            told(Forgotten { spools: 2, calls: 1, bytes: 4096 }),
            "2 spools and the undo of 1 calls are let go of, 4096 bytes"
        );
    }
}
