//! `palisade audit stats`: counts calls, decisions and results.

use super::log::{Directory, read};
use crate::{
    failure::Failure,
    paint::{self, Paint, Style, harmless},
    print,
};
use clap::Args;
use palisade_audit::{Filter, Stats, Timestamp};
use std::collections::BTreeMap;

/// Count calls, decisions and results
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  palisade audit stats
  palisade audit stats --session SESSION
  palisade audit stats --json | jq .decisions")]
pub(super) struct ShowStats {
    /// Count only this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Print the counts as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    directory: Directory,
}

impl ShowStats {
    pub(super) fn perform(self) -> Result<u8, Failure> {
        let mut reader = self.directory.reader()?;
        let filter = Filter { session: self.session, ..Filter::default() };
        let mut stats = Stats::default();
        read(&mut reader, &filter, |sighted| {
            stats.add(&sighted.entry);
            Ok(())
        })?;
        if self.json {
            print::json(&stats)?;
        } else {
            print::bytes(text(&stats, paint::stdout()).as_bytes())?;
        }
        Ok(0)
    }
}

fn text(stats: &Stats, paint: Paint) -> String {
    let time = |time: Option<Timestamp>| time.map_or_else(|| "-".into(), |time| time.to_string());
    let mut text = format!(
        "{} records from {} to {}\n{} calls without a result; the longest call took {} ms\n",
        stats.records,
        time(stats.first),
        time(stats.last),
        stats.unfinished,
        stats.longest_us.div_ceil(1000)
    );
    let kinds = stats.kinds.iter().map(|(kind, count)| (kind.to_string(), *count)).collect();
    for (name, counts) in [
        ("kinds", &kinds),
        ("tools", &stats.tools),
        ("judgements", &stats.judgements),
        ("decisions", &stats.decisions),
        ("results", &stats.results),
    ] {
        text.push_str(&table(name, counts, paint));
    }
    text
}

fn table(name: &str, counts: &BTreeMap<String, u64>, paint: Paint) -> String {
    let mut text = format!("\n{}\n", paint.apply(Style::Strong, name));
    for (key, count) in counts {
        text.push_str(&format!("{count:>8} {}\n", harmless(key)));
    }
    text
}
