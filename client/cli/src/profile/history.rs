//! What sessions did, from the audit log: for `suggest` and for the replay of `diff`.

use crate::{
    audit::{Directory, read},
    failure::Failure,
};
use palisade_audit::{Call, CallResult, Filter, Reader, Record, SessionOpen, Timestamp};
use std::time::Duration;

/// A record of a session.
#[derive(Debug)]
pub(super) enum Told {
    /// It was opened; whenever that was.
    Opened(SessionOpen),
    /// A call was made in it.
    Call(Call),
    /// A call ended.
    Ended(CallResult),
}

/// Tells what was recorded since then, in order.
pub(super) fn history(
    directory: &Directory,
    since: Option<Duration>,
    mut tell: impl FnMut(Told),
) -> Result<(), Failure> {
    let from = since.map(before);
    let mut reader = Reader::new(&directory.find()?);
    read(&mut reader, &Filter::default(), |sighted| {
        let is_wanted = from.is_none_or(|from| sighted.entry.time >= from);
        match sighted.entry.record {
            Record::SessionOpen(open) => tell(Told::Opened(open)),
            Record::Call(call) if is_wanted => tell(Told::Call(call)),
            Record::Result(end) if is_wanted => tell(Told::Ended(end)),
            Record::Call(_)
            | Record::Result(_)
            | Record::Start(_)
            | Record::SessionClose(_)
            | Record::Question(_)
            | Record::Answer(_)
            | Record::Repair(_)
            | Record::Rotate(_)
            | Record::JobEnd(_)
            | Record::TakenBack(_)
            | Record::Forgotten(_)
            | Record::Grant(_) => {}
        }
        Ok(())
    })
}

/// The moment so long ago.
fn before(since: Duration) -> Timestamp {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let then = now.unwrap_or_default().saturating_sub(since);
    Timestamp::from_millis(i64::try_from(then.as_millis()).unwrap_or(i64::MAX))
}
