//! `palisade approve`: an approver. A person at a terminal, a program, or a fixed answer.

pub(crate) mod asking;
mod automatic;
pub(crate) mod card;
mod desk;
mod judge;
pub(crate) mod own;
mod person;
mod scopes;
pub(crate) mod signals;
pub(crate) mod terminal;

use crate::{
    failure::Failure,
    operator::{self, OperatorOptions, answer::Verdict},
};
use automatic::{Decider, HEARTBEAT};
use clap::Args;
use judge::ApproverProgram;
use palisade_client::{Registration, Review};
use person::{ApproverMode, Person};
use std::path::PathBuf;
use terminal::Terminal;

/// Answer approval requests: at this terminal, by a program, or with a fixed answer
#[derive(Debug, Args)]
#[command(after_help = "\
Keys at a terminal: y approves, n denies and asks for a reason, e edits the arguments in $EDITOR,
a approves and remembers, A ends the session, q quits. Esc and end of file deny.

A program gets the approval request as JSON on standard input and writes its answer to standard
output:
  {\"decision\": \"approve\"}
  {\"decision\": \"approve\", \"arguments\": {...}}                changed arguments, judged again
  {\"decision\": \"approve\", \"without_deletions\": true}         all changes but deletions
  {\"decision\": \"approve\", \"without\": [\"/path\"]}              all changes but these paths
  {\"decision\": \"approve\", \"output\": \"...\", \"data\": {...}}   another output, with --outputs
  {\"decision\": \"approve\", \"remember\": {\"scope\": \"exact_call\", \"until\": \"session\"}}
  {\"decision\": \"deny\", \"reason\": \"...\", \"guidance\": \"...\"}
A status other than 0, any other output, no output, or a timeout denies.

Examples:
  palisade approve
  palisade approve --tool bash --priority 10
  palisade approve --exec /usr/local/bin/judge
  palisade approve --exec /bin/sh -- -c 'jq \"{decision: \\\"deny\\\"}\"'
  palisade approve --policy deny")]
pub(crate) struct Approve {
    /// The program that answers
    #[arg(long, value_name = "PROGRAM", conflicts_with = "policy")]
    exec: Option<PathBuf>,
    /// The fixed answer to every approval request
    #[arg(long, value_enum, value_name = "VERDICT")]
    policy: Option<Verdict>,
    /// Answer only for this tool; may be given several times
    #[arg(long, value_name = "NAME")]
    tool: Vec<String>,
    /// Also review the output of calls before the agent sees it
    #[arg(long)]
    outputs: bool,
    /// The priority; approvers with a higher priority are asked first
    #[arg(long, value_name = "N", default_value_t = 0, allow_negative_numbers = true)]
    priority: i32,
    /// The approver's name in the audit log [default: person:, program: or policy: and a name]
    #[arg(long)]
    name: Option<String>,
    #[command(flatten)]
    operator: OperatorOptions,
    /// The program's arguments
    #[arg(last = true, requires = "exec")]
    arguments: Vec<String>,
}

impl Approve {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        let (decider, name) = match (&self.exec, self.policy) {
            (None, None) => return self.ask_here().await,
            (Some(program), _) => {
                let judge =
                    ApproverProgram { program: program.clone(), arguments: self.arguments.clone() };
                (Decider::Program(judge), format!("program:{}", program.display()))
            }
            (None, Some(Verdict::Approve)) => {
                (Decider::Word(Verdict::Approve), "policy:approve".to_owned())
            }
            (None, Some(Verdict::Deny)) => (Decider::Word(Verdict::Deny), "policy:deny".to_owned()),
        };
        let operator = operator::connect(&self.operator).await?;
        operator.register(self.registration(name)).await?;
        automatic::serve(operator, decider).await
    }

    async fn ask_here(&self) -> Result<u8, Failure> {
        let terminal = Terminal::open().map_err(|error| {
            Failure::new(
                format!("there is no terminal: {error}"),
                "use --exec PROGRAM or --policy approve|deny instead",
            )
        })?;
        let operator = operator::connect(&self.operator).await?;
        operator.register(self.registration(person::name())).await?;
        Person::new(operator, terminal, ApproverMode::Standing).serve().await
    }

    fn registration(&self, name: String) -> Registration {
        let name = self.name.clone().unwrap_or(name);
        let mut registration = Registration::new(name).priority(self.priority).heartbeat(HEARTBEAT);
        if self.outputs {
            registration = registration.reviews([Review::Input, Review::Effects, Review::Output]);
        }
        self.tool.iter().fold(registration, |registration, tool| registration.tool(tool))
    }
}
