//! The audit log's records as logs in OpenTelemetry's format (OTLP as JSON), for a collector. Off
//! unless configured. Never holds up a record; records that are not delivered are counted. Runs in
//! the broker.

use crate::{
    base::release::NAME,
    telemetry::traces::{Export, send_batches},
};
use palisade_audit::{Kind, RecordObserver, WrittenRecord};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};
use tokio::sync::mpsc;

/// The number of records that may wait for a slow collector.
const QUEUE: usize = 1024;

/// The destination of the audit log's records: as that of traces, but a collector's usual path is
/// `/v1/logs`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct LogExport(Export);

impl TryFrom<String> for LogExport {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Export::parse(&text, "/v1/logs").map(Self)
    }
}

impl From<LogExport> for String {
    fn from(LogExport(export): LogExport) -> Self {
        export.into()
    }
}

/// The queue of records to a collector; without a collector nothing is queued.
#[derive(Default)]
pub(crate) struct AuditLogs {
    lost: Arc<AtomicU64>,
    /// The records and their destination, until the task is started that exports them.
    unstarted: Mutex<Option<(mpsc::Receiver<LogRecord>, LogExport)>>,
}

impl fmt::Debug for AuditLogs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuditLogs").field("lost", &self.lost()).finish_non_exhaustive()
    }
}

/// A record of the audit log that waits for the collector.
#[derive(Debug)]
struct LogRecord {
    chain: String,
    seq: u64,
    millis: i64,
    kind: Kind,
    session: Option<String>,
    call: Option<String>,
    line: String,
}

impl AuditLogs {
    /// Makes a queue, and the observer of the audit log that fills it.
    pub(crate) fn to(export: LogExport) -> (Self, RecordObserver) {
        let (queue, records) = mpsc::channel(QUEUE);
        let lost = Arc::new(AtomicU64::new(0));
        let count = Arc::clone(&lost);
        let observer = RecordObserver::new(move |written| {
            if queue.try_send(LogRecord::new(written)).is_err() {
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        (Self { lost, unstarted: Mutex::new(Some((records, export))) }, observer)
    }

    /// Starts the task that exports records. Must be called on the runtime.
    pub(crate) fn start(&self) {
        let unstarted = self.unstarted.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((records, LogExport(export))) = unstarted {
            tokio::spawn(send_records(records, export, Arc::clone(&self.lost)));
        }
    }

    /// Returns how many records were not exported.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

async fn send_records(records: mpsc::Receiver<LogRecord>, export: Export, lost: Arc<AtomicU64>) {
    let warning = "audit records do not reach the collector";
    send_batches(records, export, lost, document, warning).await;
}

/// Returns one OTLP document for several records.
fn document(records: Vec<LogRecord>) -> Value {
    let records: Vec<Value> = records.into_iter().map(LogRecord::value).collect();
    json!({"resourceLogs": [{
        "resource": {"attributes": [text("service.name", "palisaded"), text("service.version", NAME)]},
        "scopeLogs": [{"scope": {"name": "palisade.audit"}, "logRecords": records}],
    }]})
}

fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

impl LogRecord {
    fn new(written: &WrittenRecord<'_>) -> Self {
        let line = written.line.strip_suffix(b"\n").unwrap_or(written.line);
        Self {
            chain: written.chain.to_string(),
            seq: written.seq,
            millis: written.time.millis(),
            kind: written.record.kind(),
            session: written.record.session().map(str::to_owned),
            call: written.record.call_id().map(str::to_owned),
            line: String::from_utf8_lossy(line).into_owned(),
        }
    }

    /// Returns the record in OTLP. A call's records have its trace id.
    fn value(self) -> Value {
        let time = (i128::from(self.millis) * 1_000_000).to_string();
        let mut attributes = vec![
            text("palisade.kind", &self.kind.to_string()),
            text("palisade.chain", &self.chain),
            json!({"key": "palisade.seq", "value": {"intValue": self.seq.to_string()}}),
        ];
        attributes.extend(self.session.iter().map(|session| text("palisade.session", session)));
        attributes.extend(self.call.iter().map(|call| text("palisade.call", call)));
        // Severity number: 9 is INFO, 13 is WARN.
        let (number, severity) = if self.kind == Kind::Repair { (13, "WARN") } else { (9, "INFO") };
        let mut record = json!({
            "timeUnixNano": time, "observedTimeUnixNano": time,
            "severityNumber": number, "severityText": severity,
            "body": {"stringValue": self.line}, "attributes": attributes,
        });
        if let Some(call) = &self.call {
            let id: String = call.chars().filter(char::is_ascii_hexdigit).collect();
            record["traceId"] = json!(format!("{id:0>32.32}"));
        }
        record
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_audit::{Log, Options, Record, SessionClose};

    #[tokio::test]
    async fn a_collector_gets_every_record_with_its_line() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("logs.jsonl");
        let export = LogExport::try_from(format!("file:{}", file.display())).unwrap();
        let (logs, observer) = AuditLogs::to(export);
        let audit = directory.path().join("audit");
        let log =
            Log::open(&audit, Options { observer: Some(observer), ..Options::new("t") }).unwrap();
        let close = Record::SessionClose(SessionClose { session: "s1".to_owned(), calls: 3 });
        drop(log.append(&close).unwrap());
        drop(log);
        let (records, LogExport(export)) = logs.unstarted.lock().unwrap().take().unwrap();
        send_records(records, export, Arc::clone(&logs.lost)).await;
        let text = std::fs::read_to_string(file).unwrap();
        let document: Value = serde_json::from_str(&text).unwrap();
        let records = document.pointer("/resourceLogs/0/scopeLogs/0/logRecords").unwrap();
        assert_eq!(records.as_array().unwrap().len(), 2);
        let written = std::fs::read_to_string(audit.join("c0000-000000000001.jsonl")).unwrap();
        let lines: Vec<_> = records
            .as_array()
            .unwrap()
            .iter()
            .map(|record| record["body"]["stringValue"].as_str().unwrap())
            .collect();
        assert_eq!(lines, written.lines().collect::<Vec<_>>());
        let attributes = records[1]["attributes"].to_string();
        assert!(
            attributes.contains("\"session_close\"") && attributes.contains("\"s1\""),
            "{attributes}"
        );
        assert_eq!(records[1]["severityNumber"], 9);
        assert_eq!(logs.lost(), 0);
    }

    #[test]
    fn a_full_queue_is_counted_and_holds_nothing_up() {
        let directory = tempfile::tempdir().unwrap();
        let export = LogExport::try_from("http://127.0.0.1:4318".to_owned()).unwrap();
        assert_eq!(String::from(export.clone()), "http://127.0.0.1:4318/v1/logs");
        let (logs, observer) = AuditLogs::to(export);
        let options = Options { observer: Some(observer), ..Options::new("t") };
        let log = Log::open(directory.path(), options).unwrap();
        for calls in 0..QUEUE as u64 + 9 {
            let close = SessionClose { session: "s".to_owned(), calls };
            drop(log.append(&Record::SessionClose(close)).unwrap());
        }
        assert_eq!(logs.lost(), 10, "with the start");
    }
}
