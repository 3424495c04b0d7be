//! Explains why a call was denied: the layer, the line of the profile, and the smallest change that
//! would allow it. Runs in the broker. Pure: no I/O.
//!
//! The explanation comes from the kernel's records, or from the plan where that denies what the
//! kernel denied. It never comes from a program's output.

use crate::{
    base::{
        outcome::Outcome,
        task::{ChangeTask, Task},
    },
    cells::session::Session,
};
use palisade_policy::{
    Act, Decision, Explanation, TargetOwner,
    refused::{self, KernelRefusal},
};
use palisade_protocol::{Denial, ErrorCode};
use std::path::Path;

/// The paths that a call accesses, as the call gives them.
#[derive(Debug, Default)]
pub(crate) struct AccessedPaths(Vec<(Act, Vec<u8>)>);

impl AccessedPaths {
    /// Returns each path with the act on it.
    pub(crate) fn each(&self) -> impl Iterator<Item = (Act, &[u8])> {
        self.0.iter().map(|(act, path)| (*act, path.as_slice()))
    }
}

/// Returns the paths that a task accesses.
pub(crate) fn touched(task: &Task) -> AccessedPaths {
    let read = |path: &[u8]| vec![(Act::Read, path.to_vec())];
    AccessedPaths(match task {
        Task::Read { path, .. } | Task::Look { path, .. } | Task::List { path, .. } => read(path),
        Task::Glob(glob) => read(&glob.path.0),
        Task::Grep(grep) => read(&grep.path.0),
        Task::Change(task) => changed(task),
        // A relative name is searched in several directories.
        Task::Run(program) => match program.argv.first() {
            Some(name) if name.starts_with('/') => vec![(Act::Execute, name.clone().into_bytes())],
            Some(_) | None => Vec::new(),
        },
        Task::Job(_)
        | Task::Errand(_)
        | Task::Fetch(_)
        | Task::Provided { .. }
        | Task::Check { .. } => Vec::new(),
    })
}

fn changed(task: &ChangeTask) -> Vec<(Act, Vec<u8>)> {
    task.paths().into_iter().map(|path| (Act::Write, path.to_vec())).collect()
}

/// Returns the denials that the kernel recorded.
pub(crate) fn kernel_denials(session: &Session, refused: &[(KernelRefusal, u64)]) -> Vec<Denial> {
    let told = refused.iter().filter_map(|(refused, count)| {
        let mut denial = refused::denial_of(&session.profile, &session.scene, refused)?;
        if *count > 1 {
            denial.rule += &format!(", {count} times");
        }
        Some(denial)
    });
    told.collect()
}

/// Adds to an error which part of it the profile caused.
pub(crate) fn explain(session: &Session, touched: &AccessedPaths, outcome: &mut Outcome) {
    let Some(error) = &mut outcome.error else { return };
    if let Some(first) = outcome.denials.first() {
        // A denial by the broker itself already says why.
        if error.code == ErrorCode::Denied {
            return;
        }
        // That the call failed because of this denial is likely, but not certain.
        let (Denial { layer, target, remedy, .. }, message) = (first, &error.message);
        let reason = first.reason();
        error.message = format!("{message}; while it ran, {layer} denied {target}: {reason}");
        let workspace = session.scene.workspace.display();
        error.hint = format!("do without it, or stay inside {workspace} and /tmp; {remedy}");
        return;
    }
    // The real path says more than the one that the call gave.
    let about = outcome.about.take().map(|path| (Act::Write, path.0));
    let touched = about.as_ref().map_or(touched.0.as_slice(), std::slice::from_ref);
    let told = touched.iter().filter_map(|(act, path)| {
        let path = String::from_utf8(session.absolute(path)).ok()?;
        palisade_policy::explain(&session.profile, &session.scene, *act, &path).ok()
    });
    let denied: Vec<_> = told.filter(|told| is_cause(error.code, told)).collect();
    let Some(first) = denied.first() else { return };
    error.message = format!("{}; {}", error.message, first.rule);
    error.hint = instead(first, &session.scene.workspace);
    outcome.denials = denied.iter().filter_map(Explanation::denial).collect::<Vec<Denial>>();
}

/// Returns `true` if the profile's denial is the cause of the kernel's error. A missing path is the
/// profile's doing only if it would be a path of the host.
fn is_cause(code: ErrorCode, told: &Explanation) -> bool {
    let absent = matches!(code, ErrorCode::NotFound | ErrorCode::SpawnFailed);
    let refused = code == ErrorCode::OutsidePolicy || (absent && told.place == TargetOwner::Host);
    refused && told.decision == Decision::Deny
}

/// Returns what to do instead, and what would allow the act.
fn instead(told: &Explanation, workspace: &Path) -> String {
    let place = match told.act {
        Act::Read | Act::Write => format!("stay inside {} or /tmp", workspace.display()),
        Act::Execute => "run a program of the system or of the workspace".to_owned(),
        Act::Connect => "connect only to what the profile's net section allows".to_owned(),
    };
    match &told.change {
        Some(change) => format!("{place}; or {}", change.unseen()),
        None if told.note.is_empty() => place,
        None => format!("{place}; {}", told.note),
    }
}
