//! The report of a dry run: what a call would do, what is said to it, and why. Broker, pure.

use crate::{
    change,
    diagnose::programs::programs,
    error::CallError,
    outcome::Outcome,
    stages::checked::Checked,
    task::{Program, Task},
};
use palisade_plan::{Path, search::Glob};
use palisade_protocol::{JsonText, RawPath};
use serde_json::{Value, json};

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
            let programs = programs(session, paths);
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
