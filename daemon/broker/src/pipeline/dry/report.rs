//! The report of a dry run: what a call would do, the judge's decision, and why. Pure: no I/O.

use crate::{
    base::{
        outcome::Outcome,
        task::{Program, Task},
    },
    cells::checkers::programs,
    changes::change,
    pipeline::stages::checked::CheckedCall,
};
use palisade_plan::{Path, search::Glob};
use palisade_protocol::RawPath;
use serde_json::{Value, json};

/// The outcome of a dry run: what the call would do, the judge's decision, and why.
pub(crate) fn reported(call: &CheckedCall, judgement: &str, why: Option<&str>) -> Outcome {
    Outcome::with_data(&report(call, judgement, why))
}

/// Describes what a call would do, the judge's decision, and why.
pub(crate) fn report(call: &CheckedCall, judgement: &str, why: Option<&str>) -> Value {
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

fn describe(call: &CheckedCall, report: &mut Value) {
    let session = call.session();
    let absolute = |path: &[u8]| RawPath(session.absolute(path));
    match call.task() {
        Task::Run(Program { argv, cwd, .. }) => {
            report["argv"] = json!(argv);
            report["cwd"] =
                json!(cwd.as_ref().map_or_else(|| RawPath(session.cwd()), |cwd| absolute(cwd)));
        }
        Task::Read { path, .. }
        | Task::Look { path, .. }
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
        Task::Fetch(request) => report["url"] = json!(request.url),
        Task::Job(_) | Task::Errand(_) => {}
    }
}
