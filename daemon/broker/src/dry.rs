//! Dry runs: what a call would do, found out and reported; nothing is done and nobody is asked.
//! Broker.

use crate::{
    change::{self, Preview},
    cleared::Cleared,
    diagnose,
    error::CallError,
    outcome::Outcome,
    stages::Checked,
    task::{Program, Task},
};
use palisade_plan::{Path, search::Glob};
use palisade_protocol::{JsonText, RawPath};
use serde_json::{Value, json};

/// What a change would do, if nothing else is wanted of it.
pub(crate) async fn preview(call: &Checked) -> Result<Option<Preview>, CallError> {
    let Task::Change(task) = call.task() else { return Ok(None) };
    if !call.call().options.dry_run || task.is_attached() {
        return Ok(None);
    }
    change::preview(call.session(), task, None, change::DIFF).await.map(Some)
}

/// Ends a dry run of a call that may run, unless it is tried in a transaction.
pub(crate) fn run(cleared: Cleared) -> Result<Cleared, Box<Outcome>> {
    if !cleared.call().call().options.dry_run || cleared.call().is_tried() {
        return Ok(cleared);
    }
    let outcome = reported(cleared.call(), "allow", None);
    let (_, findings, checkpoint) = cleared.into_call();
    Err(Box::new(Outcome { findings, checkpoint, ..outcome }))
}

/// The end of a dry run: what the call would do, what is said to it, and why.
pub(crate) fn reported(call: &Checked, judgement: &str, why: Option<&str>) -> Outcome {
    rendered(&report(call, judgement, why))
}

/// A report as the outcome.
pub(crate) fn rendered(report: &Value) -> Outcome {
    match JsonText::render(report) {
        Ok(data) => Outcome { data: Some(data), ..Outcome::default() },
        Err(error) => CallError::Io(error.into()).into(),
    }
}

/// What a call would do, what is said to it, and why.
pub(crate) fn report(call: &Checked, judgement: &str, why: Option<&str>) -> Value {
    let mut report = json!({
        "dry_run": true,
        "tool": call.tool(),
        "judgement": judgement,
        "why": why,
        "timeout_ms": u64::try_from(call.timeout().as_millis()).unwrap_or(u64::MAX),
    });
    describe(call, &mut report);
    report
}

fn describe(call: &Checked, report: &mut Value) {
    let session = call.session();
    let absolute = |path: &[u8]| RawPath(session.absolute(path));
    match call.task() {
        Task::Run(Program { argv, cwd, .. }) => {
            report["argv"] = json!(argv);
            report["cwd"] =
                json!(cwd.as_ref().map_or_else(|| RawPath(session.cwd()), |cwd| absolute(cwd)));
        }
        Task::Read { path, .. }
        | Task::List { path, .. }
        | Task::Glob(Glob { path: Path(path), .. }) => report["path"] = json!(absolute(path)),
        Task::Grep(grep) => report["path"] = json!(absolute(&grep.path.0)),
        Task::Check { paths } => {
            let programs = diagnose::programs(session, paths);
            report["checkers"] = programs.iter().map(|(_, program)| json!(program.argv)).collect();
        }
        Task::Change(task) => {
            let paths: Vec<RawPath> = task.paths().into_iter().map(absolute).collect();
            report["path"] = json!(paths.first());
            report["paths"] = json!(paths);
            if let (Some(preview), Some(report)) = (call.preview(), report.as_object_mut()) {
                let preview = change::previewed(preview);
                report.extend(preview.as_object().cloned().unwrap_or_default());
            }
        }
        Task::Provided { arguments, .. } => report["arguments"] = json!(arguments),
        Task::Job(_) | Task::Errand(_) => {}
    }
}
