//! `palisade tx`: what commands did in their transactions and waits to be committed or discarded.

use crate::{
    approve::card,
    failure::Failure,
    operator::{self, OperatorOptions},
    paint, print,
    visible::visible,
};
use clap::{Args, Subcommand};
use palisade_client::{Answer, FileChange, Operator, Question, Review};
use palisade_protocol::{Pending, RawPath};
use std::{path::PathBuf, time::Duration};

/// Show, commit or discard what commands did and what waits for a decision
#[derive(Debug, Args)]
#[command(after_help = "\
A command that destroyed something in its transaction waits here until somebody commits or discards
what it did. Exit status: 0 done; 1 no such transaction waits; 125 it was not taken.

Examples:
  palisade tx list
  palisade tx show q-0192f0d1
  palisade tx commit q-0192f0d1
  palisade tx commit q-0192f0d1 --without-deletions
  palisade tx commit q-0192f0d1 --without /srv/project/notes.txt
  palisade tx discard q-0192f0d1 --reason 'that directory is shared'")]
pub(crate) struct Tx {
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, Subcommand)]
enum Act {
    /// What waits, one line each
    List {
        /// Print them as one JSON object
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        operator: OperatorOptions,
    },
    /// All that a command changed, with its diff
    Show {
        #[command(flatten)]
        which: Which,
        /// Print it as one JSON object
        #[arg(long)]
        json: bool,
    },
    /// Let it count, or a part of it
    Commit {
        #[command(flatten)]
        which: Which,
        /// Leave out everything that would delete; what was moved then has both names
        #[arg(long)]
        without_deletions: bool,
        /// Leave out this path, as `show` has it; may be given several times
        #[arg(long, value_name = "PATH")]
        without: Vec<PathBuf>,
    },
    /// Let nothing of it count
    Discard {
        #[command(flatten)]
        which: Which,
        /// What the agent is told
        #[arg(long, value_name = "TEXT")]
        reason: Option<String>,
    },
}

/// Which transaction.
#[derive(Debug, Args)]
struct Which {
    /// Its id, from `palisade tx list`
    id: String,
    #[command(flatten)]
    operator: OperatorOptions,
}

impl Which {
    async fn find(&self) -> Result<(Operator, Question), Failure> {
        let operator = operator::connect(&self.operator).await?;
        let mut waiting = waiting(&operator).await?.into_iter();
        match waiting.find(|question| question.question.as_str() == self.id) {
            Some(question) => Ok((operator, question)),
            None => Err(Failure::absent(
                format!("no transaction {} waits", visible(&self.id)),
                "it was decided, expired or never was; palisade tx list shows what waits",
            )),
        }
    }
}

async fn waiting(operator: &Operator) -> Result<Vec<Question>, Failure> {
    let mut questions = operator.pending().await?;
    questions.retain(|question| question.review == Review::Effects);
    Ok(questions)
}

impl Tx {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        match self.act {
            Act::List { json, operator } => list(json, &operator).await?,
            Act::Show { which, json } => {
                let (_, question) = which.find().await?;
                if json {
                    print::json(&question)?;
                } else {
                    let left = Duration::from_millis(question.expires_in_ms);
                    print::bytes(card::render(&question, left, paint::stdout()).as_bytes())?;
                }
            }
            Act::Commit { which, without_deletions, without } => {
                let (operator, question) = which.find().await?;
                let answer = match (without_deletions, without.is_empty()) {
                    (false, true) => Answer::approve(),
                    (deletions, _) => {
                        let answer =
                            Answer::approve_without(without.into_iter().map(RawPath::from));
                        if deletions { answer.without_deletions() } else { answer }
                    }
                };
                operator.answer(&question, answer).await?;
                print::line(&format!("committed {}", question.question))?;
            }
            Act::Discard { which, reason } => {
                let (operator, question) = which.find().await?;
                let reason = reason.unwrap_or_else(|| "the operator said no".to_owned());
                operator.answer(&question, Answer::deny(reason)).await?;
                print::line(&format!("discarded {}", question.question))?;
            }
        }
        Ok(0)
    }
}

async fn list(json: bool, options: &OperatorOptions) -> Result<(), Failure> {
    let operator = operator::connect(options).await?;
    let questions = waiting(&operator).await?;
    if json {
        return print::json(&Pending { questions });
    }
    if questions.is_empty() {
        return print::line("no transaction waits");
    }
    questions.iter().try_for_each(|question| print::line(&row(question)))
}

/// A transaction in a line: its id, how much time is left, what it did.
fn row(question: &Question) -> String {
    let changes = &question.view.changes;
    let count = |is: fn(&FileChange) -> bool| changes.iter().filter(|change| is(change)).count();
    let deleted = count(|change| change.effect == "deleted");
    let lost = count(|change| change.lost);
    let left = card::clock(Duration::from_millis(question.expires_in_ms));
    format!(
        "{} {left} left: {} changed, {deleted} deleted, {lost} to decide in {}",
        question.question,
        changes.len(),
        visible(&question.asker.workspace.as_path().display().to_string())
    )
}
