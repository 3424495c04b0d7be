//! `palisade audit tail`: prints the last records, and follows new ones.

use super::{
    describe,
    log::{Directory, read},
};
use crate::{failure::Failure, paint, print};
use clap::Args;
use palisade_audit::{Filter, LocatedRecord, Reader};
use std::{collections::VecDeque, time::Duration};

/// The interval at which new records are looked for.
const LOOK: Duration = Duration::from_millis(200);

/// Print the last records; with -f, also new ones
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  palisade audit tail -n 50
  palisade audit tail -f
  palisade audit tail -f --session SESSION --json | jq .tool")]
pub(super) struct Tail {
    /// Follow the log and print new records
    #[arg(long, short)]
    follow: bool,
    /// The number of records
    #[arg(long, short = 'n', value_name = "N", default_value_t = 10)]
    lines: usize,
    /// Print only records of this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Print the records as they are in the log, one JSON object per line
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
            // Chains are read one after the other; keeping the last records of each is enough.
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

    fn print(&self, sighted: &LocatedRecord) -> Result<(), Failure> {
        if self.json {
            print::bytes(&sighted.line)
        } else {
            print::line(&describe::line(sighted, paint::stdout()))
        }
    }
}

/// Keeps the last records by time, over all chains. Records of one chain stay in order.
fn keep_last(records: &mut VecDeque<LocatedRecord>, count: usize) {
    records.make_contiguous().sort_by_key(|sighted| sighted.entry.time);
    let over = records.len().saturating_sub(count);
    drop(records.drain(..over));
}
