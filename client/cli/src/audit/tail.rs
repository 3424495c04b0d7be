//! `palisade audit tail`: the last records, and those that come.

use super::{Directory, describe, read};
use crate::{failure::Failure, paint, print};
use clap::Args;
use palisade_audit::{Filter, Reader, Sighted};
use std::{collections::VecDeque, time::Duration};

/// How often is looked for new records.
const LOOK: Duration = Duration::from_millis(200);

/// Print the last records, and with -f those that come
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  palisade audit tail -n 50
  palisade audit tail -f
  palisade audit tail -f --session SESSION --json | jq .tool")]
pub(super) struct Tail {
    /// Go on as records come
    #[arg(long, short)]
    follow: bool,
    /// How many of the last records
    #[arg(long, short = 'n', value_name = "N", default_value_t = 10)]
    lines: usize,
    /// Only those of a session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Print the records as they stand in the log, a JSON object a line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    directory: Directory,
}

impl Tail {
    pub(super) async fn perform(self) -> Result<u8, Failure> {
        let mut reader = Reader::new(&self.directory.find()?);
        let filter = Filter { session: self.session.clone(), ..Filter::default() };
        let mut last = VecDeque::new();
        read(&mut reader, &filter, |sighted| {
            last.push_back(sighted);
            // Chains come one after the other; the last of each are enough.
            if last.len() > self.lines.saturating_mul(2).max(10_000) {
                keep_last(&mut last, self.lines);
            }
            Ok(())
        })?;
        keep_last(&mut last, self.lines);
        last.iter().try_for_each(|sighted| self.print(sighted))?;
        if !self.follow {
            return Ok(0);
        }
        loop {
            tokio::time::sleep(LOOK).await;
            let mut new = VecDeque::new();
            read(&mut reader, &filter, |sighted| {
                new.push_back(sighted);
                Ok(())
            })?;
            keep_last(&mut new, usize::MAX);
            new.iter().try_for_each(|sighted| self.print(sighted))?;
        }
    }

    fn print(&self, sighted: &Sighted) -> Result<(), Failure> {
        if self.json {
            print::bytes(&sighted.line)
        } else {
            print::line(&describe::line(sighted, paint::stdout()))
        }
    }
}

/// The last records by time, over all chains; those of one chain stay in their order.
fn keep_last(records: &mut VecDeque<Sighted>, count: usize) {
    records.make_contiguous().sort_by_key(|sighted| sighted.entry.time);
    let over = records.len().saturating_sub(count);
    drop(records.drain(..over));
}
