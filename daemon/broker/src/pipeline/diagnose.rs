//! `diagnostics`: runs the profile's checkers in the cell, one after another, and returns their
//! findings in one format. Runs in the broker.

mod read;
mod tap;

use crate::{
    base::{
        error::CallError,
        outcome::Outcome,
        task::{Program, Task},
    },
    cells::{
        checkers::{below, named, programs},
        context::{Context, Deadline},
        run,
        seen::InspectedTarget,
        session::Session,
    },
    changes::{
        guard::{EffectsReview, Route},
        transaction::{
            settle::settle,
            unsettled::{Purpose, UnsettledCall},
        },
    },
    pipeline::services::CallServices,
    telemetry::audit::docket::CallAudit,
    tools::Tool,
};
use palisade_plan::cell::{Contents, EntryKind, Link};
use palisade_policy::{Checker, Commands};
use palisade_protocol::{Call, ErrorCode, JsonText, WireError};
use read::{CheckerOutput, CheckerParser, Diagnostic, Severity};
use serde::Serialize;
use serde_json::json;
use std::{
    fmt::Write as _,
    sync::{Arc, Mutex, PoisonError},
};
use tap::Tap;

/// A diagnostic and the checker it comes from.
#[derive(Debug, Serialize)]
struct SourcedDiagnostic<'a> {
    #[serde(flatten)]
    diagnostic: &'a Diagnostic,
    source: &'a str,
}

/// The result of one checker.
struct CheckerResult {
    name: String,
    outcome: Outcome,
    read: CheckerOutput,
    spoke: DiagnosticPresence,
}

/// The presence of any readable diagnostic in a checker's output, about whichever file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DiagnosticPresence {
    Yes,
    No,
}

/// Everything that is needed to review the effects of checkers.
#[derive(Debug)]
pub(crate) struct CheckerReview<'a> {
    pub(crate) services: &'a CallServices,
    pub(crate) docket: &'a mut CallAudit,
    pub(crate) call: Call,
    pub(crate) tool: Arc<Tool>,
    pub(crate) route: Route,
}

impl CheckerReview<'_> {
    /// Runs a checker on the call's route. Its changes to the workspace are reviewed like those of
    /// a command.
    async fn run(&mut self, program: Program, context: Context, deadline: Deadline) -> Outcome {
        let review = match (self.route, self.route.runner()) {
            (_, Some(kind)) => return run::run(program, context, deadline, kind).await,
            (Route::Transaction(review), None) => review,
            (Route::Reading | Route::Direct, None) => EffectsReview::Required,
        };
        let transaction = match context.session.transaction().await {
            Ok(transaction) => transaction,
            Err(error) => return error.into(),
        };
        let mut unsettled = UnsettledCall {
            transaction,
            purpose: Purpose::Real,
            review,
            approved: Vec::new(),
            context,
            call: self.call.clone(),
            tool: Arc::clone(&self.tool),
            task: Task::Run(program.clone()),
            commands: Commands::Unknown,
            cwd: None,
            _turn: None,
        };
        let outcome = unsettled.run(program, deadline).await;
        settle(&self.services.approvals, self.docket, &unsettled, outcome).await
    }
}

/// Runs the checkers.
pub(crate) async fn run(
    paths: &[Vec<u8>],
    mut settling: CheckerReview<'_>,
    context: Context,
    deadline: Deadline,
) -> Outcome {
    let session = Arc::clone(&context.session);
    let named = match named(&session, paths) {
        Ok(named) => named,
        Err(error) => return error.into(),
    };
    let chosen = match present(&session, programs(&session, paths)).await {
        Ok(chosen) if chosen.is_empty() => return nothing_to_run(&session).into(),
        Ok(chosen) => chosen,
        Err(error) => return error.into(),
    };
    let total = chosen.len() as u64;
    let mut checked = Vec::new();
    for (done, (checker, program)) in (0..).zip(chosen) {
        context.progress(checker.name(), done, Some(total));
        let tap = Tap(Arc::new(Mutex::new(CheckerParser::new(checker.format()))));
        let outcome =
            settling.run(program, context.listening(Arc::new(tap.clone())), deadline).await;
        let fresh = CheckerParser::new(checker.format());
        let mut reading = tap.0.lock().unwrap_or_else(PoisonError::into_inner);
        let read = std::mem::replace(&mut *reading, fresh).finish();
        let stopped = outcome.timed_out || outcome.cancelled;
        let spoke =
            if read.found.is_empty() { DiagnosticPresence::No } else { DiagnosticPresence::Yes };
        checked.push(CheckerResult { name: checker.name().to_owned(), outcome, read, spoke });
        if stopped {
            break;
        }
    }
    for one in &mut checked {
        one.read.found.iter_mut().for_each(|found| relate(found, &session.workspace.0));
        one.read.found.retain(|found| is_about(found, &named));
    }
    let most = usize::try_from(session.profile.output_bytes()).unwrap_or(usize::MAX);
    combine(checked, most).unwrap_or_else(|error| CallError::Io(error.into()).into())
}

/// Selects the checkers that have something to check.
async fn present(
    session: &Session,
    programs: Vec<(Checker, Program)>,
) -> Result<Vec<(Checker, Program)>, CallError> {
    let mut present = Vec::new();
    for (checker, program) in programs {
        let Some(when) = checker.when() else {
            present.push((checker, program));
            continue;
        };
        let path = [session.workspace.0.as_slice(), b"/", when.as_bytes()].concat();
        match InspectedTarget::look(session, path, Link::Target, Contents::Closed).await {
            Ok(target) if target.found.as_ref().is_some_and(|f| f.kind == EntryKind::File) => {
                present.push((checker, program));
            }
            Ok(_) | Err(CallError::File(_)) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(present)
}

fn nothing_to_run(session: &Session) -> WireError {
    let checkers = session.profile.checkers();
    let wants = |checker: &Checker| match checker.when() {
        Some(when) => format!("{} (needs {when} at the top of the workspace)", checker.name()),
        None => checker.name().to_owned(),
    };
    let known = checkers.iter().map(wants).collect::<Vec<_>>().join(", ");
    let profile = session.profile.name();
    let message = if known.is_empty() {
        format!("profile {profile:?} names no checkers")
    } else {
        format!("none of the checkers of profile {profile:?} has anything to check here: {known}")
    };
    let hint =
        "run a checker with bash, or ask for one to be added under [[diagnostics]] of the profile";
    WireError::new(ErrorCode::NotFound, message, hint)
}

/// Makes a path of the workspace relative to it, however the checker wrote it.
fn relate(found: &mut Diagnostic, workspace: &[u8]) {
    let path = found.path.as_mut();
    if let Some(path) = path.filter(|path| path.starts_with('/'))
        && let Some(rest) = below(workspace, path.as_bytes())
    {
        *path = String::from_utf8_lossy(&rest).into_owned();
    }
}

/// Returns `true` if a diagnostic is about one of the named paths, or if no path is named.
fn is_about(found: &Diagnostic, named: &[Vec<u8>]) -> bool {
    let path = found.path.as_deref().unwrap_or_default().as_bytes();
    let at_or_below = |name: &Vec<u8>| {
        path.strip_prefix(name.as_slice()).is_some_and(|rest| matches!(rest, [] | [b'/', ..]))
    };
    named.is_empty() || named.iter().any(at_or_below)
}

/// Makes one result of all findings. A checker that fails because it found something has done its
/// work. One that fails and prints nothing readable has not.
fn combine(checked: Vec<CheckerResult>, most: usize) -> Result<Outcome, serde_json::Error> {
    let (mut text, mut said, mut omitted, mut error) = (String::new(), Vec::new(), 0, None);
    let (mut timed_out, mut cancelled, mut oom) = (false, false, false);
    let mut room = most;
    for one in &checked {
        omitted += one.read.omitted;
        for diagnostic in &one.read.found {
            let line = line(diagnostic, &one.name);
            match room.checked_sub(line.len()) {
                Some(left) => {
                    room = left;
                    text.push_str(&line);
                    said.push(SourcedDiagnostic { diagnostic, source: &one.name });
                }
                None => omitted += 1,
            }
        }
        timed_out |= one.outcome.timed_out;
        cancelled |= one.outcome.cancelled;
        oom |= one.outcome.oom;
        let judged = match &one.outcome.error {
            Some(failed) if failed.code == ErrorCode::CommandFailed => {
                (one.spoke == DiagnosticPresence::No).then(|| {
                    let tail = &one.outcome.stderr;
                    let from = tail.len().saturating_sub(room.min(4096));
                    text.push_str(tail.get(tail.ceil_char_boundary(from)..).unwrap_or_default());
                    failed.clone()
                })
            }
            other => other.clone(),
        };
        error = error.or(judged);
    }
    let all = || checked.iter().flat_map(|one| &one.read.found);
    let count = |severity| all().filter(|found| found.severity == severity).count();
    let checkers: Vec<_> = checked
        .iter()
        .map(|one| {
            json!({
                "name": one.name,
                "exit_code": one.outcome.exit_code,
                "found": one.read.found.len(),
                "unread_lines": one.read.unread,
            })
        })
        .collect();
    let data = json!({
        "diagnostics": said,
        "counts": {
            "error": count(Severity::Error),
            "warning": count(Severity::Warning),
            "note": count(Severity::Note),
        },
        "omitted": omitted,
        "checkers": checkers,
    });
    let data = Some(JsonText::render(&data)?);
    Ok(Outcome { output: text, data, error, timed_out, cancelled, oom, ..Outcome::default() })
}

fn line(found: &Diagnostic, source: &str) -> String {
    let mut line = found.path.clone().unwrap_or_default();
    for number in [found.line, found.column].into_iter().flatten() {
        // Writing to a string does not fail.
        write!(line, ":{number}").ok();
    }
    if !line.is_empty() {
        line.push_str(": ");
    }
    let severity = match found.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Note => "note",
    };
    line.push_str(severity);
    if let Some(code) = &found.code {
        write!(line, "[{code}]").ok();
    }
    write!(line, ": {} ({source})", found.message.replace('\n', "\n    ")).ok();
    line.push('\n');
    line
}

#[cfg(test)]
mod tests;
