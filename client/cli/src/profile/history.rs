//! The history of sessions from the audit log, for `suggest` and for `diff --replay`.

use crate::{
    audit::{Directory, read},
    failure::Failure,
    print,
};
use palisade_audit::{
    Call, CallResult, Filter, JobEnd, LayerDenial, Record, SessionOpen, Timestamp,
};
use std::time::Duration;

/// A record about a session.
#[derive(Debug)]
pub(super) enum HistoryRecord {
    /// The session was opened. Reported whatever the time, even before the requested period.
    Opened(SessionOpen),
    /// A call was made in the session.
    Call(Box<Call>),
    /// A call ended, or the job that it had become.
    Ended(CallDenials),
}

/// The refusals to a call, or to the job that it had become.
#[derive(Debug)]
pub(super) struct CallDenials {
    pub(super) call_id: String,
    pub(super) session: String,
    pub(super) denials: Vec<LayerDenial>,
    /// Refusals by a profile that is only observed: the access was allowed.
    pub(super) observed: Vec<LayerDenial>,
}

/// Reports the records since then, in order.
pub(super) fn history(
    directory: &Directory,
    since: Option<Duration>,
    mut tell: impl FnMut(HistoryRecord),
) -> Result<(), Failure> {
    let from = since.map(before);
    let path = directory.find()?;
    let mut reader = directory.reader()?;
    let mut any = false;
    read(&mut reader, &Filter::default(), |sighted| {
        any = true;
        let is_wanted = from.is_none_or(|from| sighted.entry.time >= from);
        match sighted.entry.record {
            Record::SessionOpen(open) => tell(HistoryRecord::Opened(open)),
            Record::Call(call) if is_wanted => tell(HistoryRecord::Call(Box::new(call))),
            Record::Result(end) if is_wanted => {
                let CallResult { call_id, session, denials, observed, .. } = end;
                tell(HistoryRecord::Ended(CallDenials { call_id, session, denials, observed }));
            }
            Record::JobEnd(end) if is_wanted => {
                let JobEnd { call_id, session, denials, observed, .. } = end;
                tell(HistoryRecord::Ended(CallDenials { call_id, session, denials, observed }));
            }
            Record::Call(_)
            | Record::Result(_)
            | Record::Start(_)
            | Record::SessionClose(_)
            | Record::ApprovalRequest(_)
            | Record::Answer(_)
            | Record::Repair(_)
            | Record::Rotate(_)
            | Record::JobEnd(_)
            | Record::Effects(_)
            | Record::TakenBack(_)
            | Record::Forgotten(_)
            | Record::Archive(_)
            | Record::Signature(_)
            | Record::Connection(_)
            | Record::Grant(_) => {}
        }
        Ok(())
    })?;
    if !any {
        print::note(&format!("there are no records in {}", path.display()));
    }
    Ok(())
}

/// Returns the time that long ago.
fn before(since: Duration) -> Timestamp {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let then = now.unwrap_or_default().saturating_sub(since);
    Timestamp::from_millis(i64::try_from(then.as_millis()).unwrap_or(i64::MAX))
}
