//! `palisade profile diff`: what more and what less a second profile allows.

use super::{Directories, load, replay};
use crate::{audit::Directory, failure::Failure, paint::harmless, print};
use clap::Args;
use palisade_policy::{Direction, Profile, diff};
use std::time::Duration;

/// Compare two profiles in meaning: + the second allows more, - less, ~ it is different
#[derive(Debug, Args)]
#[command(after_help = "\
With --replay the calls of the audit log since then are held against both: which tools, paths of file
tools, programs by their path and recorded refusals would be answered differently, and what a profile
that was only observed would have refused. What a program does while it runs is told as far as it was
refused, or would have been.

Exit status: 0 they mean the same; 1 they do not.

Examples:
  palisade profile diff workspace build
  palisade profile diff workspace mine.toml --replay 7d
  palisade profile diff workspace mine.toml --json")]
pub(crate) struct Compare {
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
    /// Say which real calls of so long would change: 12h, 7d
    #[arg(long, value_name = "TIME", value_parser = crate::duration::parse)]
    replay: Option<Duration>,
    #[command(flatten)]
    log: Directory,
    #[command(flatten)]
    directories: Directories,
    /// A name, or a file
    first: String,
    /// Another
    second: String,
}

impl Compare {
    pub(crate) fn perform(self) -> Result<u8, Failure> {
        let found = load::find(&self.directories, [self.first.as_str(), self.second.as_str()])?;
        let [first, second] = found.as_slice() else { return Ok(0) };
        // What they say, also where that is only observed.
        let (first, second) = (first.meant(), second.meant());
        if self.replay.is_some() {
            self.log.find()?;
        }
        let differences = diff(first, second);
        if differences.is_empty() {
            print::note("they mean the same");
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
            let replay::Changed { call_id, what, from, to, .. } = changed;
            print::line(&format!("! {call_id}: {}: {from} → {to}", harmless(what)))?;
        }
        let (calls, changed) = (replayed.calls, replayed.changed.len());
        print::note(&format!("{calls} calls were replayed; {changed} answers would change"));
        Ok(())
    }
}
