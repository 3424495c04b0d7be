//! Finds the records of one call: in the log's directory, or from a running daemon, which sends a
//! user those of their own calls and an operator those of all.

use super::{
    find::{find, find_ended},
    log::{Directory, read},
};
use crate::{
    call::id::CallSelector,
    failure::Failure,
    operator::{self, OperatorOptions},
};
use palisade_audit::{Entry, Filter, Kind, Record};
use palisade_client::{CallId, CallRecords, Client, ErrorCode};
use palisade_options::{
    Connection,
    connect::{self, DaemonChoice},
};
use std::path::PathBuf;

/// The records of a call in order, the one of its session's beginning first.
#[derive(Debug)]
pub(crate) struct RecordsOfCall {
    pub(crate) call_id: String,
    /// Empty if there is no such call.
    pub(crate) records: Vec<Record>,
    /// The directory of the log that has them; `None` if a daemon sent them.
    pub(crate) log: Option<PathBuf>,
}

impl RecordsOfCall {
    fn found(self) -> Option<Self> {
        (!self.records.is_empty()).then_some(self)
    }
}

/// Finds the records of a call. Without a named directory, the newest call is the newest of the
/// user's own log and of the running daemon's.
pub(crate) async fn records(
    log: &Directory,
    wanted: &CallSelector,
) -> Result<RecordsOfCall, Failure> {
    let own = in_log(log, wanted);
    let is_found = own.as_ref().is_ok_and(|own| !own.records.is_empty());
    if log.is_named() || (is_found && *wanted != CallSelector::Last) {
        return own;
    }
    let prefix = match wanted {
        CallSelector::Last => None,
        CallSelector::Prefix(prefix) => Some(prefix.clone()),
    };
    match (own, from_daemon(prefix).await) {
        // A call that the own log has too was weighed already.
        (Ok(own), Ok(Some(sent)))
            if is_found && (own.call_id >= sent.call_id || is_in_log(log, &sent)) =>
        {
            Ok(own)
        }
        (_, Ok(Some(sent))) => Ok(sent),
        (Ok(_), Err(failure)) if !is_found => Err(failure),
        (own, Ok(None) | Err(_)) => own,
    }
}

fn is_in_log(log: &Directory, sent: &RecordsOfCall) -> bool {
    let wanted = sent.call_id.parse().map(CallSelector::Prefix);
    let own = wanted.ok().and_then(|wanted| in_log(log, &wanted).ok());
    own.and_then(RecordsOfCall::found).is_some()
}

/// Reads the records of a call from the log's directory and its archives.
fn in_log(log: &Directory, wanted: &CallSelector) -> Result<RecordsOfCall, Failure> {
    // A daemon that is asked writes its records first.
    let call_id = if log.is_named() { find_ended(log, wanted) } else { find(log, wanted) }?;
    let (mut records, mut session) = (Vec::new(), None);
    let filter = Filter { call_id: Some(call_id.clone()), ..Filter::default() };
    read(&mut log.reader()?.only_with(&[&call_id]), &filter, |sighted| {
        let record = sighted.entry.record;
        session = session.take().or_else(|| record.session().map(str::to_owned));
        records.push(record);
        Ok(())
    })?;
    if let Some(session) = session {
        let kind = Some(Kind::SessionOpen);
        let mut reader = log.reader()?.only_with(&[&session]);
        let filter = Filter { session: Some(session), kind, ..Filter::default() };
        read(&mut reader, &filter, |sighted| {
            records.insert(0, sighted.entry.record);
            Ok(())
        })?;
    }
    Ok(RecordsOfCall { call_id, records, log: Some(log.find()?) })
}

/// Asks the running daemon, as the user whose call it was and then as an operator. `None` if no
/// daemon runs, or if it has no such call that this user may see.
async fn from_daemon(prefix: Option<CallId>) -> Result<Option<RecordsOfCall>, Failure> {
    let DaemonChoice::Running(client) = connect::find(&Connection::default()).await? else {
        return Ok(None);
    };
    match own(&client, prefix.clone()).await? {
        Some(sent) => Ok(Some(sent)),
        None if prefix.is_none() => Ok(None),
        // Not every user is an operator.
        None => match operator::connect(&OperatorOptions::default()).await {
            Ok(operator) => sent(operator.records(prefix).await),
            Err(_) => Ok(None),
        },
    }
}

async fn own(client: &Client, prefix: Option<CallId>) -> Result<Option<RecordsOfCall>, Failure> {
    sent(client.records(prefix).await)
}

fn sent(
    answer: Result<CallRecords, palisade_client::Error>,
) -> Result<Option<RecordsOfCall>, Failure> {
    let sent = match answer {
        Ok(sent) => sent,
        Err(error) => match error.code() {
            Some(ErrorCode::NotFound | ErrorCode::Forbidden | ErrorCode::UnknownRequest) => {
                return Ok(None);
            }
            Some(_) | None => return Err(error.into()),
        },
    };
    let parsed = sent.lines.iter().map(|line| Entry::parse(line.as_bytes()));
    let records: Result<Vec<Entry>, _> = parsed.collect();
    let records = records.map_err(|error| {
        let told = format!("the daemon sent a record that can not be read: {error}");
        Failure::new(told, "use a client of the daemon's release")
    })?;
    let records = records.into_iter().map(|entry| entry.record).collect();
    Ok(Some(RecordsOfCall { call_id: sent.call_id.to_string(), records, log: None }))
}
