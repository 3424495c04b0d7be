//! `palisade profile diff`: what more and what less a second profile allows.

use super::{Directories, load};
use crate::{failure::Failure, paint::harmless, print};
use clap::Args;
use palisade_policy::{Direction, diff};

/// Compare two profiles in meaning: + the second allows more, - less, ~ it is different
#[derive(Debug, Args)]
#[command(after_help = "\
Exit status: 0 they mean the same; 1 they do not.

Examples:
  palisade profile diff workspace build
  palisade profile diff workspace mine.toml --json")]
pub(crate) struct Compare {
    /// Print one JSON object a line
    #[arg(long)]
    json: bool,
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
        let differences = diff(first, second);
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
        Ok(u8::from(!differences.is_empty()))
    }
}
