//! `palisade undo`: reverts what calls changed.

use super::id::{self, CallSelector, short};
use crate::{
    approve::asking::{self, Approvers},
    call::follow_up,
    disconnect::disconnect,
    exit::{self, TOOL},
    failure::Failure,
    options::SessionOptions,
    paint::{self, Paint, Style, harmless},
    print, receipt,
    run::{configured, report},
    stream::{self, Bytes, escape::Controls},
};
use clap::Args;
use palisade_client::{CallResult, Client, Open, SessionId, UndoQuery, UndoRecord};
use palisade_protocol::RawPath;
use serde_json::json;
use std::{os::unix::ffi::OsStringExt as _, path::PathBuf, time::Duration};

/// Undo a call, or all calls of a session; without arguments, list what can be undone
#[derive(Debug, Args)]
#[command(after_help = "\
Contents, modes, names and deleted files are restored. If something was changed since the call, undo
reports a conflict and changes nothing; --force undoes it anyway. A forced undo is recorded too:
every undo can be undone with the id that it prints.

CALL is the id of a call, or an unambiguous prefix of it. `last` is the newest call in the workspace
that is not undone yet. --session undoes the calls of a session one by one, newest first. It stops
at the first call that can not be undone, and reports how many were.

Undo is a change like any other: if it loses data, it may need approval. Undo records are kept for
undo.keep of the daemon's configuration (default: 7 days). Records of changes to a session's own
work may be deleted earlier.

Exit status: 0 undone, or there is something to list; 1 not undone: a conflict, or no such call; 2
invalid command line; 124 timed out; 125 Palisade failed; 126 denied by policy or an approver; 130
interrupted.

Examples:
  palisade undo                               what can be undone here
  palisade undo last
  palisade undo 01990f3e-71d2 --dry-run
  palisade undo last --force
  palisade undo --session SESSION")]
pub(crate) struct Undo {
    /// A call's id or a prefix of it, or `last`
    #[arg(value_parser = id::parse, conflicts_with = "of_session")]
    call: Option<CallSelector>,
    /// Undo all calls of this session, newest first
    #[arg(long = "session", value_name = "ID")]
    of_session: Option<SessionId>,
    /// Undo even if something was changed since; those changes are overwritten
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    session: SessionOptions,
}

/// The hint where no call can be undone, so that a list of them would be empty too.
const NOTHING_TO_UNDO: &str = "only a call that changed or deleted files can be undone, once, and until undo.keep of the \
     daemon's configuration ends it; a call for which undo had no room can not be undone";

/// The results of undoing several calls.
struct UndoResults {
    results: Vec<CallResult>,
    status: u8,
    /// The number of calls that were not tried after one failed.
    left: usize,
}

impl Undo {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        print::failure_as_json(self.attempt().await, self.session.json)
    }

    async fn attempt(&self) -> Result<u8, Failure> {
        let here = RawPath(self.session.terms.workspace()?.into_os_string().into_vec());
        let (client, asking) = asking::connect(&self.session.terms.connection).await?;
        let status = self.with(&client, here, &asking).await;
        drop(asking);
        disconnect(&client, status).await
    }

    async fn with(
        &self,
        client: &Client,
        here: RawPath,
        approvers: &Approvers,
    ) -> Result<u8, Failure> {
        match (&self.call, &self.of_session) {
            (Some(call), _) => {
                let record = found(client, call, here).await?;
                self.one((client, approvers), record).await
            }
            (None, Some(session)) => self.all((client, approvers), session).await,
            (None, None) => self.list(client, here).await,
        }
    }

    async fn list(&self, client: &Client, here: RawPath) -> Result<u8, Failure> {
        let query = UndoQuery { workspace: Some(here), ..UndoQuery::default() };
        let found = client.undo_records(query).await?;
        if self.session.json {
            print::json(&found)?;
        } else if found.records.is_empty() {
            print::note("there is nothing to undo in this workspace");
        } else {
            let paint = paint::stdout();
            found.records.iter().try_for_each(|record| print::line(&line(record, paint)))?;
            if found.more > 0 {
                print::note(&format!("and {} older ones", found.more));
            }
        }
        Ok(if found.records.is_empty() { TOOL } else { 0 })
    }

    async fn one(
        &self,
        (client, approvers): (&Client, &Approvers),
        record: UndoRecord,
    ) -> Result<u8, Failure> {
        let UndoResults { results, status, .. } = self.undo((client, approvers), &[record]).await?;
        if let (true, Some(result)) = (self.session.json, results.first()) {
            print::json(result)?;
        }
        Ok(status)
    }

    async fn all(
        &self,
        (client, approvers): (&Client, &Approvers),
        session: &SessionId,
    ) -> Result<u8, Failure> {
        let mut all = UndoResults { results: Vec::new(), status: 0, left: 0 };
        loop {
            let query = UndoQuery { session: Some(session.clone()), ..UndoQuery::default() };
            let found = client.undo_records(query).await?;
            let records: Vec<_> = found.records.into_iter().filter(is_open).collect();
            if records.is_empty() && all.results.is_empty() {
                return Err(Failure::absent(
                    format!("no call of session {session} can be undone"),
                    NOTHING_TO_UNDO,
                ));
            }
            if self.session.dry_run {
                // A dry run can not try each call: every call but the newest is undone only after
                // the later ones.
                let lines = records.iter().map(|record| format!("would undo {}", about(record)));
                lines.into_iter().try_for_each(|line| print::line(&line))?;
                return Ok(0);
            }
            let UndoResults { results, status, left } =
                self.undo((client, approvers), &records).await?;
            all.results.extend(results);
            (all.status, all.left) = (status, left);
            // One reply has a limited number of records; older ones come with the next reply.
            if found.more == 0 || status != 0 {
                break;
            }
        }
        self.tell_all(&all)
    }

    fn tell_all(&self, all: &UndoResults) -> Result<u8, Failure> {
        let done = all.results.iter().filter(|result| result.success).count();
        if self.session.json {
            print::json(&json!({
                "success": all.status == 0, "undone": done, "left": all.left, "results": all.results,
            }))?;
        } else if all.status != 0 {
            print::note(&format!(
                "{done} calls were undone; this one failed, and {} earlier ones were not tried",
                all.left
            ));
        }
        Ok(all.status)
    }

    /// Undoes calls of one workspace, until one of them can not be undone.
    async fn undo(
        &self,
        (client, approvers): (&Client, &Approvers),
        records: &[UndoRecord],
    ) -> Result<UndoResults, Failure> {
        let Some(first) = records.first() else {
            return Ok(UndoResults { results: Vec::new(), status: 0, left: 0 });
        };
        let session = client.open(self.open(first)).await?;
        let mut undone = UndoResults { results: Vec::new(), status: 0, left: records.len() };
        for record in records {
            let arguments = json!({"call_id": record.call_id, "force": self.force});
            let call = approvers.announce(session.call("undo", arguments));
            let call = configured(call, &self.session);
            let (result, _) = stream::watch(call.start().await?, Bytes::Left).await?;
            undone.left -= 1;
            undone.status = exit::of_result(&result);
            self.tell(record, &result)?;
            undone.results.push(result);
            if undone.status != 0 {
                break;
            }
        }
        Ok(undone)
    }

    /// Returns the options of a session in the workspace where the call was made, because it can
    /// only be undone there.
    fn open(&self, record: &UndoRecord) -> Open {
        let workspace = PathBuf::from(std::ffi::OsString::from_vec(record.workspace.0.clone()));
        self.session.terms.open_at(workspace)
    }

    fn tell(&self, record: &UndoRecord, result: &CallResult) -> Result<(), Failure> {
        if !self.session.json && self.session.dry_run {
            report(result)?;
        } else if !self.session.json && result.success {
            print::line(&format!("undid {}", about(record)))?;
            print::output(result.output.as_bytes(), Controls::Shown)?;
        }
        let (detail, paint) = (self.session.verbose.into(), paint::stderr());
        receipt::tell(result, detail, paint);
        follow_up::print(result, detail, paint);
        Ok(())
    }
}

/// Finds the undo record of the call that the user named.
async fn found(client: &Client, call: &CallSelector, here: RawPath) -> Result<UndoRecord, Failure> {
    let (query, absent) = match call {
        CallSelector::Last => (
            UndoQuery { workspace: Some(here), ..UndoQuery::default() },
            "no call in this workspace can be undone".to_owned(),
        ),
        CallSelector::Prefix(prefix) => (
            UndoQuery { prefix: Some(prefix.clone()), ..UndoQuery::default() },
            format!("there is no call {prefix} that can be undone"),
        ),
    };
    let records = client.undo_records(query).await?.records;
    let record = match call {
        CallSelector::Last => records.into_iter().find(is_open),
        CallSelector::Prefix(prefix) => {
            id::pick(prefix, records, |record| record.call_id.as_str(), about)?
        }
    };
    let hint = match call {
        CallSelector::Last => NOTHING_TO_UNDO,
        CallSelector::Prefix(_) => "run `palisade undo` to list what can be undone in a workspace",
    };
    record.ok_or_else(|| Failure::absent(absent, hint))
}

/// Returns `true` if a call's change can still be undone. An undo itself does not count as such a
/// call.
fn is_open(record: &UndoRecord) -> bool {
    !record.undone && record.tool.as_str() != "undo"
}

fn about(record: &UndoRecord) -> String {
    let age = age(Duration::from_millis(record.age_ms));
    format!("{} ({}, {age} ago)", short(record.call_id.as_str()), record.tool)
}

fn line(record: &UndoRecord, paint: Paint) -> String {
    let state = match (record.undone, record.loss) {
        (true, _) => "  undone",
        (false, true) => "",
        (false, false) => "  own work",
    };
    let id = paint.apply(Style::Strong, short(record.call_id.as_str()));
    let age = age(Duration::from_millis(record.age_ms));
    let (tool, session) = (harmless(record.tool.as_str()), harmless(record.session.as_str()));
    format!("{id}  {age:>10} ago  {tool:<12}  {session}{state}")
}

/// Formats a duration in its largest unit.
fn age(time: Duration) -> String {
    let seconds = time.as_secs();
    let units = [(86_400, "day"), (3600, "hour"), (60, "minute"), (1, "second")];
    let unit = units.into_iter().find(|(unit, _)| seconds >= *unit);
    let (unit, name) = unit.unwrap_or((1, "second"));
    let count = seconds / unit;
    format!("{count} {name}{}", if count == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(tool: &str, undone: bool) -> UndoRecord {
        UndoRecord {
            call_id: "01990f3e-71d2-7a3e-8b11-0c5d2a9e4f60".parse().unwrap(),
            session: "s-1".parse().unwrap(),
            tool: tool.parse().unwrap(),
            workspace: RawPath::from("/w"),
            age_ms: 7_200_000,
            bytes: 4096,
            loss: true,
            undone,
        }
    }

    #[test]
    fn a_line_says_which_call_when_by_what_and_whether_it_is_undone() {
        let line = |record: &UndoRecord| line(record, Paint::Plain);
        assert_eq!(
            line(&record("bash", false)),
            "01990f3e-71d2-7a3e     2 hours ago  bash          s-1"
        );
        assert!(line(&record("bash", true)).ends_with("s-1  undone"));
        let own = UndoRecord { loss: false, ..record("bash", false) };
        assert!(line(&own).ends_with("s-1  own work"));
        assert_eq!(about(&own), "01990f3e-71d2-7a3e (bash, 2 hours ago)");
    }

    #[test]
    fn an_undo_and_what_is_undone_are_not_undone_by_last() {
        assert!(is_open(&record("bash", false)));
        assert!(!is_open(&record("bash", true)));
        assert!(!is_open(&record("undo", false)));
    }

    #[test]
    fn an_age_is_in_its_largest_unit() {
        for (seconds, expected) in [
            (0, "0 seconds"),
            (1, "1 second"),
            (60, "1 minute"),
            (7199, "1 hour"),
            (172_800, "2 days"),
        ] {
            assert_eq!(age(Duration::from_secs(seconds)), expected);
        }
    }
}
