//! The rows that a run measures: printed as they come, and at the end as JSON, as the tables of
//! docs/performance.md, or as its plot.

use super::Times;
use serde_json::{Value, json};

/// The unit of a row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Microseconds,
    PerSecond,
    KiB,
}

/// The median of one thing that was measured, and what it is compared with.
pub(super) struct Row {
    pub(super) group: String,
    pub(super) name: String,
    pub(super) unit: Unit,
    pub(super) p50: f64,
    /// The 90th and the 99th of a hundred, if single times were measured.
    pub(super) tail: Option<(f64, f64)>,
    /// The ratio to the row of that name.
    pub(super) ratio: Option<(f64, String)>,
}

/// The most that a ratio should be (for calls per second: the least), by group and name.
const TARGETS: &[(&str, &str, f64)] = &[
    ("bash -c true", "in a session, reading", 0.5),
    ("bash -c true", "in a session, in a transaction", 1.0),
    ("bash -c true", "palisade run, a daemon of its own", 12.0),
    ("bash -c true", "palisade run, a daemon left running", 4.0),
    ("calls", "write_file", 5.0),
    ("calls per second", "bash -c true, 32 callers", 0.9),
    ("search", "grep, a word", 1.0),
    ("search", "grep, an expression", 1.0),
    ("output", "1 GiB, to the client", 1.25),
];

/// The head of a table.
const HEAD: &str = "| | median | 99 of 100 | ratio | target |\n|---|---|---|---|---|";

/// The measurements of a run.
pub(super) struct Report {
    rows: Vec<Row>,
    quiet: bool,
}

impl Report {
    /// Begins an empty report. A quiet one prints no row as it comes.
    pub(super) fn new(quiet: bool) -> Self {
        Self { rows: Vec::new(), quiet }
    }

    /// Adds times, compared with the median of others, in seconds.
    pub(super) fn times(
        &mut self,
        group: &str,
        name: &str,
        times: &Times,
        to: Option<(f64, &str)>,
    ) {
        let [p50, p90, p99] = [50, 90, 99].map(|part| times.at(part).as_secs_f64() * 1e6);
        let ratio = to.map(|(seconds, of)| (p50 / 1e6 / seconds, of.to_owned()));
        self.add(Row {
            group: group.to_owned(),
            name: name.to_owned(),
            unit: Unit::Microseconds,
            p50,
            tail: Some((p90, p99)),
            ratio,
        });
    }

    /// Adds one number.
    pub(super) fn number(
        &mut self,
        group: &str,
        name: &str,
        (number, unit): (f64, Unit),
        ratio: Option<(f64, &str)>,
    ) {
        let ratio = ratio.map(|(ratio, of)| (ratio, of.to_owned()));
        let (group, name) = (group.to_owned(), name.to_owned());
        self.add(Row { group, name, unit, p50: number, tail: None, ratio });
    }

    fn add(&mut self, row: Row) {
        if !self.quiet {
            if self.rows.last().is_none_or(|last| last.group != row.group) {
                println!("\n{}", row.group);
            }
            println!("  {}", row.line());
        }
        self.rows.push(row);
    }

    /// Renders all rows for programs.
    pub(super) fn json(&self, mode: &str, rounds: usize) -> Value {
        let rows: Vec<_> = self.rows.iter().map(Row::json).collect();
        json!({"mode": mode, "rounds": rounds, "cores": cores(), "rows": rows})
    }

    /// Renders one table for each group.
    pub(super) fn markdown(&self) -> String {
        let mut text = String::new();
        let mut group = "";
        for row in &self.rows {
            if row.group != group {
                group = &row.group;
                text.push_str(&format!("\n### {group}\n\n{HEAD}\n"));
            }
            let ratio = row.ratio.as_ref().map(|(ratio, of)| format!("{ratio:.2} × {of}"));
            let target = row.target().map(|target| match row.missed() {
                true => format!("{target}: **missed**"),
                false => target.to_string(),
            });
            text.push_str(&format!(
                "| {} | {} | {} | {} | {} |\n",
                row.name,
                row.unit.show(row.p50),
                row.tail.map(|(_, p99)| row.unit.show(p99)).unwrap_or_default(),
                ratio.unwrap_or_default(),
                target.unwrap_or_default(),
            ));
        }
        text
    }

    /// Returns the rows of a group.
    pub(super) fn group<'a>(&'a self, group: &'a str) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(move |row| row.group == group)
    }
}

impl Row {
    fn target(&self) -> Option<f64> {
        let of = |(group, name, _): &&(&str, &str, f64)| *group == self.group && *name == self.name;
        TARGETS.iter().find(of).map(|(_, _, target)| *target)
    }

    fn missed(&self) -> bool {
        let (Some(target), Some((ratio, _))) = (self.target(), &self.ratio) else { return false };
        if self.unit == Unit::PerSecond { *ratio < target } else { *ratio > target }
    }

    fn line(&self) -> String {
        let mut line = format!("{:<46} {:>12}", self.name, self.unit.show(self.p50));
        if let Some((p90, p99)) = self.tail {
            let (p90, p99) = (self.unit.show(p90), self.unit.show(p99));
            line.push_str(&format!("   p90 {p90:>10}   p99 {p99:>10}"));
        }
        if let Some((ratio, of)) = &self.ratio {
            line.push_str(&format!("   {ratio:>6.2} × {of}"));
        }
        if let Some(target) = self.target() {
            let missed = if self.missed() { ": missed" } else { "" };
            line.push_str(&format!("   target {target}{missed}"));
        }
        line
    }

    fn json(&self) -> Value {
        let mut row = json!({"group": self.group, "name": self.name, "unit": self.unit.name(), "p50": self.p50});
        if let Some((p90, p99)) = self.tail {
            row["p90"] = json!(p90);
            row["p99"] = json!(p99);
        }
        if let Some((ratio, of)) = &self.ratio {
            row["ratio"] = json!(ratio);
            row["to"] = json!(of);
        }
        if let Some(target) = self.target() {
            row["target"] = json!(target);
            row["missed"] = json!(self.missed());
        }
        row
    }
}

impl Unit {
    fn name(self) -> &'static str {
        match self {
            Self::Microseconds => "microseconds",
            Self::PerSecond => "per second",
            Self::KiB => "KiB",
        }
    }

    /// Formats a number in the unit that reads best.
    pub(super) fn show(self, number: f64) -> String {
        match self {
            Self::Microseconds if number < 1_000.0 => format!("{number:.1} µs"),
            Self::Microseconds if number < 1_000_000.0 => format!("{:.2} ms", number / 1e3),
            Self::Microseconds => format!("{:.2} s", number / 1e6),
            Self::PerSecond => format!("{number:.0}/s"),
            Self::KiB if number < 1_024.0 => format!("{number:.0} KiB"),
            Self::KiB => format!("{:.1} MiB", number / 1_024.0),
        }
    }
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(0, usize::from)
}
