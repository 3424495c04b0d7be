//! `palisade profile`: lists, shows, checks, explains, tests, compares and learns profiles. All
//! subcommands but `test --kernel`, `learn` and `suggest --trace` use only the profiles' text and the
//! audit log.

mod attempts;
mod check;
mod compare;
mod draft;
mod explain;
mod history;
mod learn;
mod list;
pub(crate) mod load;
mod preset;
mod probe;
mod refusals;
mod remedy;
mod replay;
mod rerun;
mod show;
mod suggest;
mod trial;

pub(crate) use {
    remedy::Enforcement,
    rerun::{Trace, trace},
};

use crate::failure::Failure;
use clap::{Args, Subcommand};
use std::path::PathBuf;

/// List, show, check, explain, test, compare and learn profiles
#[derive(Debug, Args)]
#[command(after_help = "\
A profile says what a session may do. PROFILE is a name, or a file if it has a slash or ends in
.toml. Names refer to built-in profiles and to files in /etc/palisade/profiles (root) or
$XDG_CONFIG_HOME/palisade/profiles. docs/profiles.md describes every key.

Examples:
  palisade profile list
  palisade profile show strict
  palisade profile show --seccomp workspace        each system call and why
  palisade profile check mine.toml                 file, line, key and how to fix it
  palisade profile explain workspace read ~/.ssh/id_ed25519
  palisade profile test --kernel workspace         its own tests, tried in a session
  palisade profile diff workspace mine.toml        what more and less is allowed
  palisade profile learn -o mine.toml -- make test  the least that a command needs
  palisade profile suggest --since 7d              what was refused, and what would allow it
  palisade profile preset python -o mine.toml      the hosts of package managers")]
pub(crate) struct Profile {
    #[command(subcommand)]
    command: ProfileCommand,
}

#[derive(Debug, Subcommand)]
enum ProfileCommand {
    List(list::List),
    Show(show::ShowProfile),
    Check(check::Check),
    Explain(explain::Explain),
    Test(trial::TestProfiles),
    Diff(compare::Compare),
    Learn(learn::Learn),
    Suggest(suggest::Suggest),
    Preset(preset::WritePreset),
}

/// The directories of profiles.
#[derive(Debug, Args)]
pub(crate) struct Directories {
    /// A directory of profiles instead of the default one; may be given several times
    #[arg(long, value_name = "DIR")]
    profiles: Vec<PathBuf>,
}

impl Directories {
    /// Creates a list of profile directories; an empty list means the default ones.
    pub(crate) const fn new(profiles: Vec<PathBuf>) -> Self {
        Self { profiles }
    }
}

impl Profile {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        match self.command {
            ProfileCommand::List(list) => list.perform(),
            ProfileCommand::Show(show) => show.perform(),
            ProfileCommand::Check(check) => check.perform(),
            ProfileCommand::Explain(explain) => explain.perform(),
            ProfileCommand::Test(trial) => trial.perform().await,
            ProfileCommand::Diff(compare) => compare.perform(),
            ProfileCommand::Learn(learn) => learn.perform().await,
            ProfileCommand::Suggest(suggest) => suggest.perform().await,
            ProfileCommand::Preset(preset) => preset.perform(),
        }
    }
}
