//! Finds the audit records of one call for the user whose call it was, or for an operator. Blocks on
//! files. Runs in the broker.

use super::Audit;
use palisade_audit::{ReadError, Record, ScanBounds, Timestamp, scan};
use palisade_protocol::{CallId, CallRecords, ErrorCode, NameError, WireError};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
};

/// The most bytes of the log that are searched.
const MOST_BYTES: u64 = 512 << 20;

/// The most bytes of records in one reply.
const MOST_REPLY: usize = 4 << 20;

/// The users whose calls a peer may read.
#[derive(Debug, Clone, Copy)]
pub(crate) enum VisibleCalls {
    /// Those of this user.
    Own(u32),
    /// All of them.
    All,
}

impl VisibleCalls {
    const fn contain(self, uid: u32) -> bool {
        match self {
            Self::Own(own) => own == uid,
            Self::All => true,
        }
    }
}

impl Audit {
    /// The directory of the log, in which all records up to now are written.
    pub(crate) fn written(&self) -> Result<PathBuf, WireError> {
        self.catch_up();
        match &self.retention {
            Some(retention) => Ok(retention.directory.clone()),
            None => Err(WireError::new(
                ErrorCode::NotFound,
                "this daemon has no audit log",
                "read the log of the daemon that ran the call",
            )),
        }
    }
}

/// Finds the records of a call: of the only one whose id has the prefix, or of the newest.
pub(crate) fn records_of(
    log: &Path,
    prefix: Option<&CallId>,
    visible: VisibleCalls,
) -> Result<CallRecords, WireError> {
    let call_id = find(log, prefix, visible)?;
    let (mut session, mut lines) = (None::<String>, Vec::new());
    let (mut room, mut is_cut) = (MOST_REPLY, false);
    let own = format!("\"{call_id}\"");
    search(log, &[&own], |record, line| {
        let is_part = if let Record::Connection(connection) = &record {
            connection.calls.contains(&call_id)
        } else {
            record.call_id() == Some(call_id.as_str())
        };
        if !is_part {
            return;
        }
        session = session.take().or_else(|| record.session().map(str::to_owned));
        match room.checked_sub(line.len()) {
            Some(left) => {
                room = left;
                lines.push(line.to_owned());
            }
            None => is_cut = true,
        }
    })?;
    if let Some(session) = session {
        search(log, &[&format!("\"session\":\"{session}\"")], |record, line| {
            if matches!(&record, Record::SessionOpen(open) if open.session == session) {
                lines.insert(0, line.to_owned());
            }
        })?;
    }
    let call_id = call_id.try_into().map_err(|error: NameError| internal(&error.to_string()))?;
    Ok(CallRecords { call_id, lines, is_cut })
}

/// Finds the id of the call that is meant. A call of somebody else does not exist.
fn find(log: &Path, prefix: Option<&CallId>, visible: VisibleCalls) -> Result<String, WireError> {
    let (mut fitting, mut newest) = (BTreeSet::new(), None);
    search(log, &["\"kind\":\"call\""], |record, _| {
        let Record::Call(call) = record else { return };
        if !visible.contain(call.uid) {
            return;
        }
        match prefix {
            Some(prefix) if call.call_id.starts_with(prefix.as_str()) => {
                fitting.insert(call.call_id);
            }
            Some(_) => {}
            // Ids begin with the time.
            None => newest = newest.take().max(Some(call.call_id)),
        }
    })?;
    let exact = prefix.filter(|prefix| fitting.contains(prefix.as_str()));
    match (exact, fitting.len(), newest) {
        (Some(exact), _, _) => Ok(exact.to_string()),
        (None, 0, Some(newest)) => Ok(newest),
        (None, 1, _) => fitting.pop_first().ok_or_else(|| internal("the call is gone")),
        (None, 0, None) => Err(WireError::new(
            ErrorCode::NotFound,
            match prefix {
                Some(prefix) => format!("there is no call {prefix} of yours in the log"),
                None => "there is no call of yours in the log".to_owned(),
            },
            "a call's id is the `call_id` of its result; the daemon reads no archives, and root finds \
             calls in them by `palisade why ID --dir DIR`, with the log's directory",
        )),
        (None, count, _) => Err(WireError::new(
            ErrorCode::InvalidRequest,
            format!("{count} calls start with this prefix"),
            "give more characters of the id",
        )),
    }
}

fn search(log: &Path, texts: &[&str], mut each: impl FnMut(Record, &str)) -> Result<(), WireError> {
    let bounds = ScanBounds { since: Timestamp::from_millis(0), most_bytes: MOST_BYTES };
    let found = scan(log, bounds, texts, |entry, line| {
        if let Ok(line) = std::str::from_utf8(line) {
            each(entry.record, line.trim_end_matches('\n'));
        }
    });
    found.map_err(|error: ReadError| internal(&error.to_string()))
}

fn internal(message: &str) -> WireError {
    WireError::new(ErrorCode::Internal, message.to_owned(), "see the daemon's log")
}
