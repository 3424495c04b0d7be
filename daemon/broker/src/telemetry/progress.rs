//! The stages that each call under way has reached: for operators, metrics and traces. Runs in the
//! broker.

use super::StartedCall;
use crate::base::outcome::Fault;
use palisade_protocol::{
    CallId, CallOverview, CallStage, ErrorCode, JsonText, SessionId, ToolName, WireError,
};
use serde_json::Value;
use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant, SystemTime},
};
use tokio_util::sync::CancellationToken;

/// The most stages of a call that are recorded; a call that is judged again and again has more.
const STEPS: usize = 64;

/// The longest arguments that are read for a summary, in bytes.
const ARGUMENTS: usize = 16 * 1024;

/// The longest summary, in characters.
const SUMMARY: usize = 200;

/// The arguments that say what a call is about, the most informative first.
const SUMMARY_ARGUMENTS: [&str; 8] =
    ["command", "argv", "path", "file_path", "pattern", "source", "job", "url"];

/// All calls under way.
#[derive(Debug, Default)]
pub(crate) struct CallsInProgress {
    all: Mutex<HashMap<CallId, Arc<CallProgress>>>,
}

/// The stages of one call so far.
#[derive(Debug)]
pub(crate) struct CallProgress {
    pub(crate) call_id: CallId,
    pub(crate) session: SessionId,
    pub(crate) tool: ToolName,
    /// The call's arguments; `None` if they are long.
    arguments: Option<JsonText>,
    pub(crate) begun: Instant,
    cancel: CancellationToken,
    fault: Fault,
    steps: Mutex<Vec<(CallStage, Instant)>>,
}

/// A call in the list of those under way; dropping this removes it.
#[derive(Debug)]
pub(crate) struct CallProgressGuard<'a> {
    calls_in_progress: &'a CallsInProgress,
    progress: Arc<CallProgress>,
}

impl CallsInProgress {
    /// Adds a call to those under way.
    pub(crate) fn begin(&self, asked: &StartedCall<'_>) -> CallProgressGuard<'_> {
        let progress = Arc::new(CallProgress {
            call_id: asked.call_id.clone(),
            session: asked.session.id.clone(),
            tool: asked.call.tool.clone(),
            arguments: Some(&asked.call.arguments)
                .filter(|arguments| arguments.as_str().len() <= ARGUMENTS)
                .cloned(),
            begun: asked.started,
            cancel: asked.cancel.clone(),
            fault: asked.fault.clone(),
            steps: Mutex::new(vec![(CallStage::Judge, asked.started)]),
        });
        let mut all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.insert(progress.call_id.clone(), Arc::clone(&progress));
        CallProgressGuard { calls_in_progress: self, progress }
    }

    /// Ends a call for an operator; its result says so. Returns whether it was under way.
    pub(crate) fn abort(&self, call: &CallId) -> bool {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(progress) = all.get(call) else { return false };
        let hint = "do not repeat it: ask the operator what to do instead";
        progress.fault.set(WireError::new(ErrorCode::Aborted, "an operator ended the call", hint));
        progress.cancel.cancel();
        true
    }

    /// All calls under way, oldest first.
    pub(crate) fn overview(&self) -> Vec<CallOverview> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let mut calls: Vec<_> = all.values().map(|progress| progress.overview()).collect();
        calls.sort_by_key(|call| std::cmp::Reverse(call.time_ms));
        calls
    }

    /// The calls of a session that run, oldest first.
    pub(crate) fn running(&self, session: &SessionId) -> Vec<CallOverview> {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let of_session = all.values().filter(|progress| progress.session == *session);
        let running = of_session.filter(|progress| progress.stage() == CallStage::Execute);
        let mut calls: Vec<_> = running.map(|progress| progress.overview()).collect();
        calls.sort_by_key(|call| std::cmp::Reverse(call.time_ms));
        calls
    }

    /// Notes that a call waits for approval, until the returned value is dropped. A job that outlives
    /// its call is none.
    pub(crate) fn wait_for_approval(&self, call: &CallId) -> ApprovalWait {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        let interrupted = all.get(call).map(|progress| (Arc::clone(progress), progress.stage()));
        let interrupted = interrupted.filter(|(_, stage)| *stage != CallStage::Checkpoint);
        if let Some((progress, _)) = &interrupted {
            progress.at(CallStage::Checkpoint);
        }
        ApprovalWait(interrupted)
    }

    /// The number of calls in each stage.
    pub(crate) fn by_stage(&self) -> [(CallStage, u64); CallStage::ALL.len()] {
        let all = self.all.lock().unwrap_or_else(PoisonError::into_inner);
        CallStage::ALL.map(|stage| {
            (stage, all.values().filter(|progress| progress.stage() == stage).count() as u64)
        })
    }
}

impl CallProgress {
    fn stage(&self) -> CallStage {
        let steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        steps.last().map_or(CallStage::Judge, |(stage, _)| *stage)
    }

    fn at(&self, stage: CallStage) {
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        if steps.len() == STEPS {
            steps.pop();
        }
        steps.push((stage, Instant::now()));
    }

    fn overview(&self) -> CallOverview {
        CallOverview {
            call_id: self.call_id.clone(),
            session: self.session.clone(),
            tool: self.tool.clone(),
            stage: self.stage(),
            time_ms: u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX),
            summary: self.arguments.as_ref().map(summary).unwrap_or_default(),
        }
    }

    /// Each stage with its start and end in wall-clock time. That clock may have jumped since.
    pub(crate) fn spans(&self) -> Vec<StageSpan> {
        let (now, wall) = (Instant::now(), SystemTime::now());
        let at = |instant: Instant| {
            let since = wall.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
            since.saturating_sub(now.saturating_duration_since(instant))
        };
        let steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        let ends = steps.iter().skip(1).map(|(_, begun)| *begun).chain([now]);
        let spans = steps.iter().zip(ends);
        spans
            .map(|((stage, begun), end)| StageSpan { stage: *stage, from: at(*begun), to: at(end) })
            .collect()
    }
}

/// A call that waits for approval, with the stage that it is in again afterwards; `None` if that is
/// the same.
#[derive(Debug)]
pub(crate) struct ApprovalWait(Option<(Arc<CallProgress>, CallStage)>);

impl Drop for ApprovalWait {
    fn drop(&mut self) {
        if let Some((progress, stage)) = &self.0 {
            progress.at(*stage);
        }
    }
}

/// Returns the command, path or pattern of a call in one line, shortened.
fn summary(arguments: &JsonText) -> String {
    let Ok(Value::Object(arguments)) = serde_json::from_str(arguments.as_str()) else {
        return String::new();
    };
    let text = SUMMARY_ARGUMENTS.iter().find_map(|name| match arguments.get(*name)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Array(words) => {
            Some(words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "))
        }
        Value::Null | Value::Bool(_) | Value::Object(_) => None,
    });
    let line = text.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(SUMMARY) {
        Some((end, _)) => format!("{}…", line.get(..end).unwrap_or_default()),
        None => line,
    }
}

/// One stage of a call, in time since the epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StageSpan {
    pub(crate) stage: CallStage,
    pub(crate) from: Duration,
    pub(crate) to: Duration,
}

impl CallProgressGuard<'_> {
    /// Notes that the call has reached another stage.
    pub(crate) fn at(&self, stage: CallStage) {
        self.progress.at(stage);
    }

    /// The stages so far.
    pub(crate) fn call(&self) -> &CallProgress {
        &self.progress
    }
}

impl Drop for CallProgressGuard<'_> {
    fn drop(&mut self) {
        let mut all = self.calls_in_progress.all.lock().unwrap_or_else(PoisonError::into_inner);
        all.remove(&self.progress.call_id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_is_summarized_by_its_command_or_path_in_one_line() {
        let of = |text: &str| summary(&JsonText::parse(text.to_owned()).unwrap());
        assert_eq!(of(r#"{"command":"make\n  check","cwd":"x"}"#), "make check");
        assert_eq!(of(r#"{"argv":["ls","-l"]}"#), "ls -l");
        assert_eq!(of(r#"{"content":"secret","path":"a/b"}"#), "a/b");
        assert_eq!(of(r#"{"job":3}"#), "3");
        assert_eq!(of(r#"{"todos":[]}"#), "");
        let long = of(&format!(r#"{{"command":"{}"}}"#, "é".repeat(300)));
        assert_eq!(long, format!("{}…", "é".repeat(200)));
    }
}
