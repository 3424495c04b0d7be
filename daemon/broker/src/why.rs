//! Why a call was refused what it is about: the layer, the line of the profile that decides, and the
//! smallest change that would allow it. Told from the kernel's own records, or from the plan that
//! confines and only where that refuses what the kernel refused; never from what a program printed.
//! Broker, pure.

use crate::{
    outcome::Outcome,
    session::Session,
    task::{ChangeTask, Task},
};
use palisade_policy::{
    Act, Decision, Explanation, Place,
    refused::{self, Refused},
};
use palisade_protocol::{Denial, ErrorCode};
use std::path::Path;

/// What of the file system a call is about, by paths as they were given.
#[derive(Debug, Default)]
pub(crate) struct Touched(Vec<(Act, Vec<u8>)>);

impl Touched {
    /// Each with what is done to it.
    pub(crate) fn each(&self) -> impl Iterator<Item = (Act, &[u8])> {
        self.0.iter().map(|(act, path)| (*act, path.as_slice()))
    }
}

/// What a task is about.
pub(crate) fn touched(task: &Task) -> Touched {
    let read = |path: &[u8]| vec![(Act::Read, path.to_vec())];
    Touched(match task {
        Task::Read { path, .. } | Task::List { path, .. } => read(path),
        Task::Glob(glob) => read(&glob.path.0),
        Task::Grep(grep) => read(&grep.path.0),
        Task::Change(task) => changed(task),
        // What is not absolute is looked for in several places.
        Task::Run(program) => match program.argv.first() {
            Some(name) if name.starts_with('/') => vec![(Act::Execute, name.clone().into_bytes())],
            Some(_) | None => Vec::new(),
        },
        Task::Job(_) | Task::Errand(_) | Task::Provided { .. } | Task::Check { .. } => Vec::new(),
    })
}

fn changed(task: &ChangeTask) -> Vec<(Act, Vec<u8>)> {
    task.paths().into_iter().map(|path| (Act::Write, path.to_vec())).collect()
}

/// The denials that the kernel's records tell.
pub(crate) fn told(session: &Session, refused: &[(Refused, u64)]) -> Vec<Denial> {
    let told = refused.iter().filter_map(|(refused, count)| {
        let mut denial = refused::told(&session.profile, &session.scene, refused)?;
        if *count > 1 {
            denial.rule += &format!(", {count} times");
        }
        Some(denial)
    });
    told.collect()
}

/// Adds to a failure what of it is the profile's doing.
pub(crate) fn explain(session: &Session, touched: &Touched, outcome: &mut Outcome) {
    let Some(error) = &mut outcome.error else { return };
    if let Some(first) = outcome.denials.first() {
        // A refusal of the broker's own says it already.
        if error.code == ErrorCode::Denied {
            return;
        }
        // That it failed for this is likely and not known.
        let (Denial { layer, target, rule, remedy, .. }, message) = (first, &error.message);
        let rule = rule.split_once(": ").map_or(rule.as_str(), |(_, sentence)| sentence);
        error.message = format!("{message}; while it ran, {layer} refused {target}: {rule}");
        let workspace = session.scene.workspace.display();
        error.hint = format!("do without it, or stay inside {workspace} and /tmp; {remedy}");
        return;
    }
    // Where it really is says more than how it was called.
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

/// Whether what the profile refuses is why the kernel did. What does not exist may also never have
/// been: that is the profile's doing only where the host's own would be.
fn is_cause(code: ErrorCode, told: &Explanation) -> bool {
    let absent = matches!(code, ErrorCode::NotFound | ErrorCode::SpawnFailed);
    let refused = code == ErrorCode::OutsidePolicy || (absent && told.place == Place::Host);
    refused && told.decision == Decision::Deny
}

/// What to do instead, and what would allow it.
fn instead(told: &Explanation, workspace: &Path) -> String {
    let place = match told.act {
        Act::Read | Act::Write => format!("stay inside {} or /tmp", workspace.display()),
        Act::Execute => "run a program of the system's or of the workspace".to_owned(),
        Act::Connect => "connect to what the profile's net section has".to_owned(),
    };
    match &told.change {
        Some(change) => format!("{place}; or {}", change.unseen()),
        None if told.note.is_empty() => place,
        None => format!("{place}; {}", told.note),
    }
}
