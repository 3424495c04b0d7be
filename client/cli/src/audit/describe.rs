//! Formats a record as one line for people.

use crate::paint::{Paint, Style, harmless};
use palisade_audit::{
    ArchiveAct, Call, CallResult, ConnectionVerdict, JobEnd, LocatedRecord, Record, Repair,
    StoredDataDeletion,
};

/// The maximum length of foreign text on a line.
const WIDTH: usize = 120;

/// Formats a record: time, chain, sequence number, kind, and the important details.
pub(super) fn line(sighted: &LocatedRecord, paint: Paint) -> String {
    let entry = &sighted.entry;
    let kind = paint.apply(Style::Strong, &format!("{:<13}", entry.record.kind().to_string()));
    let (style, text) = details(&entry.record);
    let text = harmless(&text);
    let text = style.map_or_else(|| text.clone(), |style| paint.apply(style, &text));
    format!("{} {} {:>6} {kind} {text}", entry.time, sighted.chain, entry.seq)
}

fn details(record: &Record) -> (Option<Style>, String) {
    match record {
        Record::Start(start) => {
            (None, format!("pid {}, uid {}, build {}", start.pid, start.uid, start.build))
        }
        Record::SessionOpen(open) => {
            let runs_as = open.runs_as.map(|uid| format!(" as {uid}")).unwrap_or_default();
            let who = format!("{} uid {}{runs_as}", open.session, open.uid);
            (None, format!("{who} {} in {}", open.profile, open.workspace))
        }
        Record::SessionClose(close) => {
            (None, format!("{} after {} calls", close.session, close.calls))
        }
        Record::ApprovalRequest(request) => {
            (Some(Style::Hint), format!("{} about {}", request.request, request.call_id))
        }
        Record::Answer(answer) => (
            Some(Style::Hint),
            format!(
                "{} {} by {}: {}",
                answer.call_id,
                answer.decision,
                answer.deciders(),
                answer.reason
            ),
        ),
        Record::Call(call) => (None, of_call(call)),
        Record::Effects(effects) => {
            (None, format!("{} changes: {}", effects.call_id, effects.summary()))
        }
        Record::Result(result) => of_result(result),
        Record::JobEnd(end) => (None, of_job(end)),
        Record::Connection(connection) => {
            let style = match (connection.verdict, &connection.failure) {
                (ConnectionVerdict::Allow, None) => None,
                (ConnectionVerdict::Allow, Some(_)) => Some(Style::Warning),
                (ConnectionVerdict::Deny, _) => Some(Style::Error),
            };
            (style, format!("{} {}", connection.session, connection.summary()))
        }
        Record::Repair(repair) => (Some(Style::Warning), of_repair(repair)),
        Record::Rotate(rotate) => (None, format!("from {}", rotate.from)),
        Record::TakenBack(back) => (
            Some(Style::Warning),
            format!("{} paths in {}, of {}", back.paths, back.session, back.calls.join(", ")),
        ),
        Record::Forgotten(gone) => (Some(Style::Warning), of_forgotten(gone)),
        Record::Archive(archive) => match archive.act {
            ArchiveAct::Made => {
                (None, format!("{} made, up to record {}", archive.file, archive.last.seq))
            }
            ArchiveAct::Deleted => (
                Some(Style::Warning),
                format!("{} deleted, up to record {}", archive.file, archive.last.seq),
            ),
        },
        Record::Signature(signature) => (None, format!("by key {}", signature.key)),
        Record::Grant(grant) => (
            Some(Style::Hint),
            format!("{} {} by {}: {}", grant.grant, grant.act, grant.by, grant.covers),
        ),
    }
}

fn of_forgotten(gone: &StoredDataDeletion) -> String {
    let what = match (gone.spools, gone.undo) {
        (true, true) => "stored outputs and undo records",
        (true, false) => "stored outputs",
        (false, true) => "undo records",
        (false, false) => "nothing",
    };
    let whose = gone.uid.map_or_else(|| "everybody".to_owned(), |uid| format!("uid {uid}"));
    format!("{what} of {whose}, older than {} ms, by {}", gone.older_than_ms, gone.by)
}

fn of_call(call: &Call) -> String {
    let arguments = call.arguments.value();
    let what = match arguments.get("command").or_else(|| arguments.get("path")) {
        Some(serde_json::Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
        None => arguments.to_string(),
    };
    let what: String = what.chars().take(WIDTH).collect();
    let judged = match call.judgement {
        palisade_audit::Judgement::Allow => String::new(),
        judgement @ (palisade_audit::Judgement::Ask
        | palisade_audit::Judgement::Deny
        | palisade_audit::Judgement::Unjudged) => format!(" [{judgement}]"),
    };
    format!("{} {}{judged}: {what}", call.call_id, call.tool)
}

fn of_result(result: &CallResult) -> (Option<Style>, String) {
    let status = result.exit_code.map(|code| format!(" status {code}")).unwrap_or_default();
    let millis = result.duration_us.div_ceil(1000);
    let (style, how) = match &result.error {
        None => (Style::Good, "ok"),
        Some(error) => (Style::Error, error.as_str()),
    };
    (Some(style), format!("{} {how}{status}, {millis} ms", result.call_id))
}

fn of_job(end: &JobEnd) -> String {
    let status = end.exit_code.map(|code| format!(" status {code}")).unwrap_or_default();
    let millis = end.duration_us.div_ceil(1000);
    let how = end.error.as_deref().unwrap_or("ok");
    format!("{} job {} {how}{status}, {millis} ms", end.call_id, end.job)
}

fn of_repair(repair: &Repair) -> String {
    let torn = repair.torn.as_ref().map(|torn| format!("{} incomplete bytes", torn.bytes));
    let head = repair.head.as_ref().map(|_| "the head file did not match".to_owned());
    let calls = match repair.unfinished.len() {
        0 => None,
        count => Some(format!("{count} calls have no result")),
    };
    let what: Vec<_> = torn.into_iter().chain(head).chain(calls).collect();
    format!("after record {}: {}", repair.found.seq, what.join(", "))
}
