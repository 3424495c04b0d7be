//! Statistics of the log. Pure: no I/O.

use crate::{
    line::Entry,
    record::{Kind, Record},
    time::Timestamp,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Counts over records.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Stats {
    /// Number of records.
    pub records: u64,
    /// Number of records by kind.
    pub kinds: BTreeMap<Kind, u64>,
    /// The time of the earliest record.
    pub first: Option<Timestamp>,
    /// The time of the latest record.
    pub last: Option<Timestamp>,
    /// Number of calls by tool.
    pub tools: BTreeMap<String, u64>,
    /// Number of calls by the policy's decision.
    pub judgements: BTreeMap<String, u64>,
    /// Number of decisions, by who made them: `deny by default`.
    pub decisions: BTreeMap<String, u64>,
    /// Number of results by error code; `ok` for those without.
    pub results: BTreeMap<String, u64>,
    /// Number of calls without a result: they are running, or ended with their daemon.
    pub unfinished: u64,
    /// Duration of the longest call, in microseconds.
    pub longest_us: u64,
    /// Total duration of all calls, in microseconds.
    pub total_us: u64,
    #[serde(skip)]
    open: BTreeSet<String>,
}

impl Stats {
    /// Counts a record.
    pub fn add(&mut self, entry: &Entry) {
        let count =
            |map: &mut BTreeMap<String, u64>, key: String| *map.entry(key).or_default() += 1;
        self.records += 1;
        *self.kinds.entry(entry.record.kind()).or_default() += 1;
        self.first = Some(self.first.map_or(entry.time, |first| first.min(entry.time)));
        self.last = self.last.max(Some(entry.time));
        match &entry.record {
            Record::Call(call) => {
                count(&mut self.tools, call.tool.clone());
                count(&mut self.judgements, call.judgement.to_string());
                self.open.insert(call.call_id.clone());
            }
            Record::Answer(answer) => {
                let by = answer.by.to_string();
                let by = by.split(' ').next().unwrap_or_default();
                count(&mut self.decisions, format!("{} by {by}", answer.decision));
            }
            Record::Result(result) => {
                count(&mut self.results, result.error.clone().unwrap_or_else(|| "ok".to_owned()));
                self.longest_us = self.longest_us.max(result.duration_us);
                self.total_us = self.total_us.saturating_add(result.duration_us);
                self.open.remove(&result.call_id);
            }
            Record::Start(_)
            | Record::SessionOpen(_)
            | Record::SessionClose(_)
            | Record::ApprovalRequest(_)
            | Record::Repair(_)
            | Record::JobEnd(_)
            | Record::Rotate(_)
            | Record::Effects(_)
            | Record::TakenBack(_)
            | Record::Forgotten(_)
            | Record::Archive(_)
            | Record::Signature(_)
            | Record::Connection(_)
            | Record::Grant(_) => {}
        }
        self.unfinished = self.open.len() as u64;
    }
}
