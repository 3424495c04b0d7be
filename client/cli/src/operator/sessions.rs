//! `palisade sessions`: lists all users' sessions. Also has the tables that `palisade top` shows.

use crate::{
    call::id::short,
    failure::Failure,
    operator::{self, OperatorOptions},
    paint::{self, Paint, Style},
    print,
    visible::{
        columns::{Width, columns as columns_of, first_columns, pad},
        visible,
    },
};
use clap::Args;
use palisade_client::{CallOverview, KeptOverview, Overview, SessionOverview};

/// List the sessions of all users, for operators
#[derive(Debug, Args)]
#[command(after_help = "\
Needs the operator right to observe. `palisade status` lists your own sessions. A second table shows
how much of each user's quotas for stored output and undo records is used; see `palisade forget`.

Examples:
  palisade sessions
  palisade sessions --json | jq '.sessions[] | select(.uid == 1000)'
  palisade kill SESSION")]
pub(crate) struct ShowSessions {
    /// Print sessions and running calls as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    operator: OperatorOptions,
}

impl ShowSessions {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        let operator = operator::connect(&self.operator).await?;
        let overview = operator.overview().await?;
        if self.json {
            print::json(&overview)?;
        } else if overview.sessions.is_empty() {
            print::line("no sessions")?;
        } else {
            let shown = fitted(sessions(&overview.sessions), SESSIONS_OMITTED, Width::of_stdout());
            print::bytes(table(&shown, paint::stdout()).as_bytes())?;
        }
        if !self.json && !overview.kept.is_empty() {
            let text = table(&kept(&overview.kept), paint::stdout());
            print::bytes(format!("\n{text}").as_bytes())?;
        }
        Ok(0)
    }
}

/// The columns that a narrow terminal has no room for, the least needed first.
pub(super) const SESSIONS_OMITTED: &[&str] = &["AS", "PID", "CALLS", "MEMORY", "PROFILE", "UID"];
pub(super) const CALLS_OMITTED: &[&str] = &["SESSION", "STAGE"];

/// The least width of the last column, which is cut to what is left of a line.
const LAST_COLUMN: usize = 24;

/// Makes a table fit: ids are shortened, columns are left out in this order until the rest has room,
/// and the last column is cut.
pub(super) fn fitted(
    mut rows: Vec<Vec<String>>,
    omitted: &[&str],
    width: Width,
) -> Vec<Vec<String>> {
    let Width::Columns(columns) = width else { return rows };
    let Some(head) = rows.first().cloned() else { return rows };
    for row in rows.iter_mut().skip(1) {
        for (cell, name) in row.iter_mut().zip(&head) {
            if matches!(name.as_str(), "SESSION" | "CALL") {
                *cell = short(cell).to_owned();
            }
        }
    }
    for name in omitted {
        if taken(&rows) + LAST_COLUMN <= columns {
            break;
        }
        let at = rows.first().and_then(|head| head.iter().position(|column| column == name));
        if let Some(at) = at {
            rows.iter_mut().for_each(|row| drop(row.remove(at)));
        }
    }
    let left = columns.saturating_sub(taken(&rows)).max(1);
    for row in &mut rows {
        if let Some(last) = row.last_mut().filter(|last| columns_of(last) > left) {
            *last = format!("{}…", first_columns(last, left - 1));
        }
    }
    rows
}

/// Returns the width of all columns but the last, with the space after each.
fn taken(rows: &[Vec<String>]) -> usize {
    let columns = rows.first().map_or(0, Vec::len).saturating_sub(1);
    (0..columns).map(|column| column_width(rows, column) + 2).sum()
}

fn column_width(rows: &[Vec<String>], column: usize) -> usize {
    let cells = rows.iter().filter_map(|row| row.get(column));
    cells.map(|cell| columns_of(cell)).max().unwrap_or(0)
}

/// Summarizes the daemon's state in two lines.
pub(super) fn summary(overview: &Overview) -> String {
    let jobs: u32 = overview.sessions.iter().map(|session| session.jobs).sum();
    let cells: u64 = overview.sessions.iter().filter_map(|session| session.memory_bytes).sum();
    let mut line = format!(
        "{}: sessions {}, calls {}, jobs {jobs}, approval requests {}\nmemory {}, in cells {}",
        visible(&overview.server),
        overview.sessions.len(),
        overview.calls.len(),
        overview.approval_requests,
        size(overview.memory_bytes),
        size(cells),
    );
    if !overview.launcher {
        line.push_str("; NO LAUNCHER, no call can run");
    }
    if overview.lost_records > 0 {
        line = format!("{line}; {} AUDIT RECORDS LOST", overview.lost_records);
    }
    line
}

/// Returns a header row and a row for each session.
pub(super) fn sessions(sessions: &[SessionOverview]) -> Vec<Vec<String>> {
    let head =
        ["SESSION", "UID", "AS", "PID", "PROFILE", "TIME", "CALLS", "BUSY", "JOBS", "MEMORY"];
    let mut rows = vec![row(head.iter().chain(&["WORKSPACE"]))];
    rows.extend(sessions.iter().map(|session| {
        vec![
            session.session.to_string(),
            session.uid.to_string(),
            session.runs_as.to_string(),
            session.pid.map_or_else(|| "-".to_owned(), |pid| pid.to_string()),
            visible(&session.profile),
            time(session.time_ms),
            session.calls.to_string(),
            session.in_flight.to_string(),
            session.jobs.to_string(),
            session.memory_bytes.map_or_else(|| "-".to_owned(), size),
            visible(&session.workspace.as_path().display().to_string()),
        ]
    }));
    rows
}

/// Returns a header row and a row for each user with stored data.
fn kept(kept: &[KeptOverview]) -> Vec<Vec<String>> {
    let mut rows = vec![row(["UID", "OUTPUT", "OUTPUT QUOTA", "UNDO", "UNDO QUOTA"].iter())];
    rows.extend(kept.iter().map(|kept| {
        let sizes = [kept.spool_bytes, kept.spool_most, kept.undo_bytes, kept.undo_most];
        std::iter::once(kept.uid.to_string()).chain(sizes.map(size)).collect()
    }));
    rows
}

/// Returns a header row and a row for each call.
pub(super) fn calls(calls: &[CallOverview]) -> Vec<Vec<String>> {
    let mut rows = vec![row(["CALL", "SESSION", "TIME", "STAGE", "TOOL", "COMMAND"].iter())];
    rows.extend(calls.iter().map(|call| {
        vec![
            call.call_id.to_string(),
            call.session.to_string(),
            time(call.time_ms),
            call.stage.name().to_owned(),
            call.tool.to_string(),
            visible(&call.summary),
        ]
    }));
    rows
}

fn row<'a>(words: impl Iterator<Item = &'a &'a str>) -> Vec<String> {
    words.map(|word| (*word).to_owned()).collect()
}

/// Formats rows as a table whose columns are as wide as their contents.
pub(super) fn table(rows: &[Vec<String>], paint: Paint) -> String {
    let columns = rows.first().map_or(0, Vec::len);
    let widths: Vec<usize> = (0..columns).map(|column| column_width(rows, column)).collect();
    let mut text = String::new();
    for (number, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(&widths).map(|(cell, width)| pad(cell, *width));
        let line = cells.collect::<Vec<_>>().join("  ");
        let line = line.trim_end();
        text.push_str(&if number == 0 {
            paint.apply(Style::Strong, line)
        } else {
            line.to_owned()
        });
        text.push('\n');
    }
    text
}

fn time(millis: u64) -> String {
    let seconds = millis / 1000;
    match seconds {
        0..60 => format!("{seconds}.{}s", millis % 1000 / 100),
        60..3600 => format!("{}m{:02}s", seconds / 60, seconds % 60),
        _ => format!("{}h{:02}m", seconds / 3600, seconds / 60 % 60),
    }
}

pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes}B"),
        1024..1_048_576 => format!("{}K", bytes / 1024),
        _ => format!("{}M", bytes / 1_048_576),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use palisade_client::CallStage;

    pub(in crate::operator) fn overview() -> Overview {
        Overview {
            server: "palisaded 0.1.0".to_owned(),
            launcher: true,
            memory_bytes: 12 << 20,
            approval_requests: 1,
            lost_records: 0,
            sessions: vec![SessionOverview {
                session: "s-1".parse().unwrap(),
                uid: 1000,
                pid: Some(42),
                profile: "workspace".to_owned(),
                workspace: "/home/me/a\u{1b}[2J".into(),
                time_ms: 61_500,
                calls: 3,
                in_flight: 1,
                jobs: 2,
                memory_bytes: Some(4096),
                runs_as: 600_000,
            }],
            calls: vec![CallOverview {
                call_id: "c-1".parse().unwrap(),
                session: "s-1".parse().unwrap(),
                tool: "bash".parse().unwrap(),
                stage: CallStage::Queue,
                time_ms: 1250,
                summary: "cargo test".to_owned(),
            }],
            kept: vec![KeptOverview {
                uid: 1000,
                spool_bytes: 300_000,
                spool_most: 1 << 20,
                undo_bytes: 0,
                undo_most: 1 << 30,
            }],
        }
    }

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let overview = overview();
        assert_eq!(
            table(&sessions(&overview.sessions), Paint::Plain),
            "SESSION  UID   AS      PID  PROFILE    TIME   CALLS  BUSY  JOBS  MEMORY  WORKSPACE\n\
             s-1      1000  600000  42   workspace  1m01s  3      1     2     4K      /home/me/a␛[2J\n"
        );
        assert_eq!(
            table(&calls(&overview.calls), Paint::Plain),
            "CALL  SESSION  TIME  STAGE  TOOL  COMMAND\n\
             c-1   s-1      1.2s  queue  bash  cargo test\n"
        );
        assert_eq!(
            table(&kept(&overview.kept), Paint::Plain),
            "UID   OUTPUT  OUTPUT QUOTA  UNDO  UNDO QUOTA\n\
             1000  292K    1M            0B    1024M\n"
        );
    }

    #[test]
    fn what_is_wrong_is_in_the_summary() {
        let mut overview = overview();
        assert_eq!(
            summary(&overview),
            "palisaded 0.1.0: sessions 1, calls 1, jobs 2, approval requests 1\nmemory 12M, \
             in cells 4K"
        );
        overview.launcher = false;
        overview.lost_records = 2;
        let said = summary(&overview);
        assert!(said.ends_with("; NO LAUNCHER, no call can run; 2 AUDIT RECORDS LOST"), "{said}");
        assert_eq!((time(7_262_000), size(17)), ("2h01m".to_owned(), "17B".to_owned()));
    }
}
