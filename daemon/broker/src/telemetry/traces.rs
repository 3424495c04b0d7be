//! Traces of calls in OpenTelemetry's format (OTLP as JSON): a span for each call and one for each
//! of its stages. Off unless configured. Never holds up a call; traces that are not delivered are
//! counted. Runs in the broker.

mod export;

pub(crate) use export::Export;
pub(in crate::telemetry) use export::send_batches;

use crate::{
    base::{identity::SessionIdentity, release::NAME},
    telemetry::progress::{CallProgress, StageSpan},
};
use palisade_protocol::{CallResult, ErrorCode};
use serde_json::{Value, json};
use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};
use tokio::sync::mpsc;

/// The number of calls that may wait for a slow collector.
const QUEUE: usize = 256;

/// The queue to a collector; without a collector nothing is traced.
#[derive(Debug, Clone, Default)]
pub(crate) struct Traces {
    queue: Option<mpsc::Sender<Trace>>,
    lost: Arc<AtomicU64>,
}

/// The trace of one call. It has no arguments and no output.
#[derive(Debug)]
pub(crate) struct Trace {
    call: String,
    session: String,
    profile: String,
    uid: u32,
    tool: String,
    outcome: String,
    spans: Vec<StageSpan>,
}

impl Traces {
    /// Starts the task that exports traces. Must be called on the runtime.
    pub(crate) fn to(export: Export) -> Self {
        let (queue, traces) = mpsc::channel(QUEUE);
        let lost = Arc::new(AtomicU64::new(0));
        tokio::spawn(send_batches(traces, export, Arc::clone(&lost), document, "traces are lost"));
        Self { queue: Some(queue), lost }
    }

    /// Returns how many calls were not exported.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }

    /// Queues the trace of a call that has ended.
    pub(crate) fn ended(
        &self,
        session: &SessionIdentity,
        progress: &CallProgress,
        result: &CallResult,
    ) {
        let Some(queue) = &self.queue else { return };
        let code = result.error.as_ref().map(|error| error.code);
        let trace = Trace {
            call: progress.call_id.to_string(),
            session: progress.session.to_string(),
            profile: session.profile.name().to_owned(),
            uid: session.uid(),
            tool: result.tool.to_string(),
            outcome: code.map_or_else(|| "ok".to_owned(), ErrorCode::name),
            spans: progress.spans(),
        };
        if queue.try_send(trace).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Returns one OTLP document for several calls.
fn document(traces: Vec<Trace>) -> Value {
    let spans: Vec<Value> = traces.into_iter().flat_map(Trace::spans).collect();
    json!({"resourceSpans": [{
        "resource": {"attributes": [text("service.name", "palisaded"), text("service.version", NAME)]},
        "scopeSpans": [{"scope": {"name": "palisade"}, "spans": spans}],
    }]})
}

fn text(key: &str, value: &str) -> Value {
    json!({"key": key, "value": {"stringValue": value}})
}

fn nanos(time: Duration) -> String {
    time.as_nanos().to_string()
}

impl Trace {
    /// Returns the call's own span, and one for each of its stages. The call's id, a UUID, is the
    /// trace id.
    fn spans(self) -> Vec<Value> {
        let id: String = self.call.chars().filter(char::is_ascii_hexdigit).collect();
        let id = format!("{id:0>32.32}");
        // Any numbers that differ within the trace and are not zero.
        let span = |number: usize| format!("{:016x}", number + 1);
        let from = self.spans.first().map_or(Duration::ZERO, |span| span.from);
        let to = self.spans.last().map_or(from, |span| span.to);
        // Status code: 1 is ok, 2 is an error. Span kind: 2 is a server's, 1 is internal.
        let code = if self.outcome == "ok" { 1 } else { 2 };
        let call = json!({
            "traceId": id, "spanId": span(0), "name": format!("call {}", self.tool), "kind": 2,
            "startTimeUnixNano": nanos(from), "endTimeUnixNano": nanos(to),
            "attributes": [
                text("palisade.call", &self.call), text("palisade.session", &self.session),
                text("palisade.profile", &self.profile), text("palisade.tool", &self.tool),
                text("palisade.outcome", &self.outcome), text("enduser.id", &self.uid.to_string()),
            ],
            "status": {"code": code},
        });
        let stages = self.spans.iter().enumerate().map(|(number, stage)| {
            json!({
                "traceId": id, "spanId": span(number + 1), "parentSpanId": span(0),
                "name": stage.stage.name(), "kind": 1,
                "startTimeUnixNano": nanos(stage.from), "endTimeUnixNano": nanos(stage.to),
            })
        });
        std::iter::once(call).chain(stages).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_protocol::CallStage;

    #[test]
    fn a_call_is_a_span_with_its_stages_below() {
        let span = |stage, from, to| StageSpan {
            stage,
            from: Duration::from_nanos(from),
            to: Duration::from_nanos(to),
        };
        let trace = Trace {
            call: "0192f0c1-0000-7000-8000-0000000000aa".to_owned(),
            session: "s".to_owned(),
            profile: "workspace".to_owned(),
            uid: 7,
            tool: "bash".to_owned(),
            outcome: "denied".to_owned(),
            spans: vec![span(CallStage::Judge, 5, 9), span(CallStage::Reply, 9, 12)],
        };
        let document = document(vec![trace]);
        let spans = document.pointer("/resourceSpans/0/scopeSpans/0/spans").unwrap();
        let field = |number: usize, name: &str| spans[number][name].as_str().unwrap().to_owned();
        assert_eq!(spans.as_array().unwrap().len(), 3);
        for number in 0..3 {
            assert_eq!(
                field(number, "traceId"),
                "0192f0c100007000800000000000".to_owned() + "00aa"
            );
        }
        assert_eq!(field(0, "name"), "call bash");
        assert_eq!(spans[0]["status"]["code"], 2);
        assert_eq!(
            (field(0, "startTimeUnixNano"), field(0, "endTimeUnixNano")),
            ("5".into(), "12".into())
        );
        assert_eq!((field(1, "name"), field(2, "name")), ("judge".into(), "reply".into()));
        assert_eq!(field(2, "parentSpanId"), field(0, "spanId"));
        assert_eq!(
            (field(2, "startTimeUnixNano"), field(2, "endTimeUnixNano")),
            ("9".into(), "12".into())
        );
    }
}
