//! Exports records as events of the Open Cybersecurity Schema Framework, version 1.3: each is an
//! event of the class API Activity (6003). Pure: no I/O.

use crate::{
    connection::ConnectionVerdict,
    decision::Decision,
    line::Entry,
    read::LocatedRecord,
    record::{Judgement, Record},
};
use serde_json::{Map, Value, json};

/// The class API Activity, in the category Application Activity.
const CLASS: u64 = 6003;
/// The activity Other. Tools are not divided into those that create, read, update and delete.
const OTHER: u64 = 99;

/// The outcome that a record reports.
#[derive(Clone, Copy)]
enum Outcome {
    Unknown,
    Success,
    Failure,
}

/// Converts a record to an event. The whole record is in `unmapped`.
#[must_use]
pub fn ocsf(found: &LocatedRecord) -> Value {
    let Entry { seq, time, record, .. } = &found.entry;
    let kind = record.kind().to_string();
    let (outcome, severity) = outcome(record);
    let (status_id, status) = match outcome {
        Outcome::Unknown => (0, "Unknown"),
        Outcome::Success => (1, "Success"),
        Outcome::Failure => (2, "Failure"),
    };
    let mut metadata = json!({
        "version": "1.3.0", "log_name": "palisade audit", "sequence": seq,
        "uid": format!("{}:{seq}", found.chain),
        "product": {"name": "Palisade", "vendor_name": "Palisade"},
    });
    let mut api = json!({"operation": kind, "service": {"name": "palisaded"}});
    let mut actor = json!({"app_name": "palisaded"});
    if let Some(session) = record.session() {
        actor["session"] = json!({"uid": session});
    }
    if let Some(call) = record.call_id() {
        metadata["correlation_uid"] = json!(call);
        api["request"] = json!({"uid": call});
    }
    let mut event = json!({
        "category_uid": CLASS / 1000, "category_name": "Application Activity",
        "class_uid": CLASS, "class_name": "API Activity",
        "activity_id": OTHER, "activity_name": kind, "type_uid": CLASS * 100 + OTHER,
        "time": time.millis(), "severity_id": severity,
        "status_id": status_id, "status": status,
        // Clients are on a Unix socket of the same host.
        "src_endpoint": {"name": "localhost"},
    });
    match record {
        Record::Call(call) => {
            api["operation"] = json!(call.tool);
            actor["user"] = json!({"uid": call.uid.to_string()});
            if let Some(pid) = call.pid {
                actor["process"] = json!({"pid": pid});
            }
        }
        Record::SessionOpen(open) => {
            actor["user"] = json!({"uid": open.uid.to_string()});
            if let Some(pid) = open.pid {
                actor["process"] = json!({"pid": pid});
            }
        }
        Record::Result(result) => {
            event["duration"] = json!(result.duration_us / 1000);
            event["status_code"] = json!(result.error);
            event["status_detail"] = json!(result.message);
        }
        Record::Answer(answer) => event["status_detail"] = json!(answer.reason),
        Record::Connection(connection) => {
            event["duration"] = json!(connection.duration_us / 1000);
            event["status_detail"] = json!(connection.summary());
        }
        Record::Start(_)
        | Record::SessionClose(_)
        | Record::ApprovalRequest(_)
        | Record::Effects(_)
        | Record::Repair(_)
        | Record::Rotate(_)
        | Record::JobEnd(_)
        | Record::Grant(_)
        | Record::TakenBack(_)
        | Record::Forgotten(_)
        | Record::Archive(_)
        | Record::Signature(_) => {}
    }
    event["metadata"] = metadata;
    event["actor"] = actor;
    event["api"] = api;
    event["unmapped"] = serde_json::from_slice(&found.line).unwrap_or(Value::Null);
    without_null(event)
}

/// Removes fields without a value, which the schema does not allow.
fn without_null(event: Value) -> Value {
    match event {
        Value::Object(fields) => {
            let kept: Map<_, _> =
                fields.into_iter().filter(|(_, value)| !value.is_null()).collect();
            Value::Object(kept)
        }
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_)) => other,
    }
}

/// Returns the outcome that a record reports, and its severity: 1 informational, 3 medium (a denial
/// or a failure), 4 high (an alarm, or the log itself was damaged).
fn outcome(record: &Record) -> (Outcome, u8) {
    match record {
        Record::Result(result) if result.success => (Outcome::Success, 1),
        Record::Result(_) => (Outcome::Failure, 3),
        Record::JobEnd(end) if end.error.is_none() => (Outcome::Success, 1),
        Record::JobEnd(_) => (Outcome::Failure, 3),
        Record::Connection(connection) if connection.alarm.is_some() => (Outcome::Failure, 4),
        Record::Connection(connection) => match (connection.verdict, &connection.failure) {
            (ConnectionVerdict::Allow, None) => (Outcome::Success, 1),
            (ConnectionVerdict::Allow, Some(_)) => (Outcome::Failure, 1),
            (ConnectionVerdict::Deny, _) => (Outcome::Failure, 3),
        },
        Record::Answer(answer) => match answer.decision {
            Decision::Approve | Decision::ApproveModified | Decision::Pass => (Outcome::Success, 1),
            Decision::Deny | Decision::Replace | Decision::Withhold => (Outcome::Failure, 3),
        },
        Record::Call(call) => match call.judgement {
            Judgement::Allow | Judgement::Ask => (Outcome::Unknown, 1),
            Judgement::Deny | Judgement::Unjudged => (Outcome::Failure, 3),
        },
        Record::Repair(repair) if repair.head.is_some() => (Outcome::Failure, 4),
        Record::Repair(_) | Record::TakenBack(_) => (Outcome::Failure, 3),
        Record::Start(_)
        | Record::SessionOpen(_)
        | Record::SessionClose(_)
        | Record::ApprovalRequest(_)
        | Record::Effects(_)
        | Record::Rotate(_)
        | Record::Grant(_)
        | Record::Forgotten(_)
        | Record::Archive(_)
        | Record::Signature(_) => (Outcome::Success, 1),
    }
}
