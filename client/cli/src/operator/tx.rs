//! `palisade tx`: transactions of commands that wait to be committed or discarded.

use crate::{
    approve::card,
    failure::Failure,
    operator::{
        self, OperatorOptions,
        answer::{RequestWords, named},
    },
    paint, print,
    visible::{columns::Width, visible},
};
use clap::{Args, Subcommand};
use palisade_client::{Answer, ApprovalRequest, FileChange, Operator, Review};
use palisade_protocol::{Pending, RawPath};
use std::{path::PathBuf, time::Duration};

/// Show, commit or discard the changes of commands that wait for approval
#[derive(Debug, Args)]
#[command(after_help = "\
A command that destroyed something in its transaction waits here until an approver commits or
discards its changes. Exit status: 0 done; 1 no such transaction is waiting; 125 not accepted.

Examples:
  palisade tx list
  palisade tx show q-0192f0d1
  palisade tx commit q-0192f0d1
  palisade tx commit q-0192f0d1 --without-deletions
  palisade tx commit q-0192f0d1 --without /srv/project/notes.txt
  palisade tx discard q-0192f0d1 --reason 'that directory is shared'")]
pub(crate) struct Tx {
    #[command(subcommand)]
    act: TxAction,
}

#[derive(Debug, Subcommand)]
enum TxAction {
    /// List the waiting transactions, one line each
    List {
        /// Print one JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        operator: OperatorOptions,
    },
    /// Show all changes of a command, with the diff
    Show {
        #[command(flatten)]
        which: TransactionOptions,
        /// Print one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Commit the changes, or a part of them
    Commit {
        #[command(flatten)]
        which: TransactionOptions,
        /// Leave out all deletions; a moved file then has both names
        #[arg(long)]
        without_deletions: bool,
        /// Leave out this path, as printed by `show`; may be given several times
        #[arg(long, value_name = "PATH")]
        without: Vec<PathBuf>,
    },
    /// Discard all changes
    Discard {
        #[command(flatten)]
        which: TransactionOptions,
        /// The reason, which the agent is told
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

/// The options that select a transaction.
#[derive(Debug, Args)]
struct TransactionOptions {
    /// The transaction's id, from `palisade tx list`, or its beginning if no other has it
    id: String,
    #[command(flatten)]
    operator: OperatorOptions,
}

impl TransactionOptions {
    async fn find(&self) -> Result<(Operator, ApprovalRequest), Failure> {
        let operator = operator::connect(&self.operator).await?;
        let waiting = waiting(&operator).await?;
        let found = named(&self.id, &waiting, &TRANSACTION)?.clone();
        Ok((operator, found))
    }
}

const TRANSACTION: RequestWords =
    RequestWords { one: "transaction", listed_by: "palisade tx list" };

async fn waiting(operator: &Operator) -> Result<Vec<ApprovalRequest>, Failure> {
    let mut requests = operator.pending().await?;
    requests.retain(|request| request.review == Review::Effects);
    Ok(requests)
}

impl Tx {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        match self.act {
            TxAction::List { json, operator } => list(json, &operator).await?,
            TxAction::Show { which, json } => {
                let (_, request) = which.find().await?;
                if json {
                    print::json(&request)?;
                } else {
                    let left = Duration::from_millis(request.expires_in_ms);
                    print::bytes(
                        card::render(&request, left, Width::of_stdout(), paint::stdout())
                            .as_bytes(),
                    )?;
                }
            }
            TxAction::Commit { which, without_deletions, without } => {
                let (operator, request) = which.find().await?;
                let answer = match (without_deletions, without.is_empty()) {
                    (false, true) => Answer::approve(),
                    (deletions, _) => {
                        let answer =
                            Answer::approve_without(without.into_iter().map(RawPath::from));
                        if deletions { answer.without_deletions() } else { answer }
                    }
                };
                let answered = operator.answer(&request, answer).await?;
                let line = match answered.missing {
                    0 => format!("committed {}", request.id),
                    more => card::with_missing(format!("approved {}", request.id), more),
                };
                print::line(&line)?;
            }
            TxAction::Discard { which, reason } => {
                let (operator, request) = which.find().await?;
                let reason = reason.unwrap_or_else(|| "no reason given".to_owned());
                operator.answer(&request, Answer::deny(reason)).await?;
                print::line(&format!("discarded {}", request.id))?;
            }
        }
        Ok(0)
    }
}

async fn list(json: bool, options: &OperatorOptions) -> Result<(), Failure> {
    let operator = operator::connect(options).await?;
    let requests = waiting(&operator).await?;
    if json {
        return print::json(&Pending { requests });
    }
    if requests.is_empty() {
        return print::line("no transactions are waiting");
    }
    requests.iter().try_for_each(|request| print::line(&row(request)))
}

/// Formats a transaction as a line: its id, the time left, its changes.
fn row(request: &ApprovalRequest) -> String {
    let changes = &request.view.changes;
    let count = |is: fn(&FileChange) -> bool| changes.iter().filter(|change| is(change)).count();
    let deleted = count(|change| change.effect == "deleted");
    let lost = count(|change| change.lost);
    let left = card::clock(Duration::from_millis(request.expires_in_ms));
    format!(
        "{} {left} left: {} changed, {deleted} deleted, {lost} to decide in {}",
        request.id,
        changes.len(),
        visible(&request.asker.workspace.as_path().display().to_string())
    )
}
