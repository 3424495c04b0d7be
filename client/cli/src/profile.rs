//! `palisade profile`: lists, shows, checks, explains, tests, compares and learns profiles. All but
//! `test --kernel` and `learn` is told from their text and from the audit log.

mod check;
mod compare;
mod draft;
mod explain;
mod history;
mod learn;
mod list;
pub(crate) mod load;
mod probe;
mod refusals;
mod remedy;
mod replay;
mod show;
mod suggest;
mod trial;

use crate::failure::Failure;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// List, show, check, explain, test, compare and learn profiles
#[derive(Debug, Args)]
#[command(after_help = "\
A profile says what a session may do. PROFILE is a name, or a file if it has a slash or ends in .toml;
names are those of the built-in profiles and of the files in /etc/palisade/profiles (root) or
$XDG_CONFIG_HOME/palisade/profiles. docs/profiles.md has every key.

Examples:
  palisade profile list
  palisade profile show strict
  palisade profile show --seccomp workspace        each system call and why
  palisade profile check mine.toml                 file, line, key and what to write instead
  palisade profile explain workspace read ~/.ssh/id_ed25519
  palisade profile test --kernel workspace         its own tests, really tried
  palisade profile diff workspace mine.toml        what more and less is allowed
  palisade profile learn -o mine.toml -- make test  the least that a command needs
  palisade profile suggest --since 7d              what was refused, and what would allow it")]
pub(crate) struct Profile {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(list::List),
    Show(show::Show),
    Check(check::Check),
    Explain(explain::Explain),
    Test(trial::Trial),
    Diff(compare::Compare),
    Learn(learn::Learn),
    Suggest(suggest::Suggest),
}

/// Where profiles are.
#[derive(Debug, Args)]
pub(crate) struct Directories {
    /// A directory of profiles instead of the usual one; may be given several times
    #[arg(long, value_name = "DIR")]
    profiles: Vec<PathBuf>,
}

impl Directories {
    /// These, or the usual ones if there are none.
    pub(crate) const fn new(profiles: Vec<PathBuf>) -> Self {
        Self { profiles }
    }
}

impl Profile {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        match self.command {
            Command::List(list) => list.perform(),
            Command::Show(show) => show.perform(),
            Command::Check(check) => check.perform(),
            Command::Explain(explain) => explain.perform(),
            Command::Test(trial) => trial.perform().await,
            Command::Diff(compare) => compare.perform(),
            Command::Learn(learn) => learn.perform().await,
            Command::Suggest(suggest) => suggest.perform(),
        }
    }
}
