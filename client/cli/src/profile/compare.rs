//! `palisade profile diff`: shows what more and what less a second profile allows.

use super::{Directories, load, replay};
use crate::{audit::Directory, failure::Failure, paint::harmless, print};
use clap::Args;
use palisade_policy::{Direction, Profile, diff};
use std::time::Duration;

/// Compare what two profiles allow: + the second allows more, - less, ~ otherwise different
#[derive(Debug, Args)]
#[command(after_help = "\
--replay compares both profiles on the calls of the audit log: which tools, paths of file tools,
programs given by path and recorded refusals would be decided differently, and what a profile that
was only observed would have refused. Of what a program did while it ran, only recorded refusals are
known.

Exit status: 0 they allow the same; 1 they differ.

Examples:
  palisade profile diff workspace build
  palisade profile diff workspace mine.toml --replay 7d
  palisade profile diff workspace mine.toml --json")]
pub(crate) struct Compare {
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    /// Also report which calls of this period would be decided differently: 12h, 7d
    #[arg(long, value_name = "TIME", value_parser = palisade_options::duration::parse)]
    replay: Option<Duration>,
    #[command(flatten)]
    log: Directory,
    #[command(flatten)]
    directories: Directories,
    /// The first profile: a name, or a file
    first: String,
    /// The second profile
    second: String,
}

impl Compare {
    pub(crate) fn perform(self) -> Result<u8, Failure> {
        let found = load::find(&self.directories, [self.first.as_str(), self.second.as_str()])?;
        let [first, second] = found.as_slice() else { return Ok(0) };
        // Compares what the profiles say, even if one is only observed and not enforced.
        let (first, second) = (first.as_written(), second.as_written());
        if self.replay.is_some() {
            self.log.find()?;
        }
        let differences = diff(first, second);
        if differences.is_empty() {
            print::note("the profiles allow the same");
        }
        for difference in &differences {
            if self.json {
                print::json(difference)?;
                continue;
            }
            let mark = match difference.direction {
                Direction::More => '+',
                Direction::Less => '-',
                Direction::Other => '~',
            };
            print::line(&format!("{mark} {}: {}", difference.key, harmless(&difference.what)))?;
        }
        if let Some(since) = self.replay {
            self.replayed(since, first, second)?;
        }
        Ok(u8::from(!differences.is_empty()))
    }

    fn replayed(&self, since: Duration, first: &Profile, second: &Profile) -> Result<(), Failure> {
        let replayed = replay::replay(&self.log, since, first, second)?;
        for changed in &replayed.changed {
            if self.json {
                print::json(changed)?;
                continue;
            }
            let replay::ChangedDecision { call_id, what, from, to, .. } = changed;
            print::line(&format!("! {call_id}: {}: {from} → {to}", harmless(what)))?;
        }
        let (calls, changed) = (replayed.calls, replayed.changed.len());
        print::note(&format!("{calls} calls were replayed; {changed} decisions would change"));
        Ok(())
    }
}
