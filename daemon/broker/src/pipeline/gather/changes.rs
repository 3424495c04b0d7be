//! Gathers the facts about a change for the judge. It inspects only as much as the decision needs:
//! most changes are prepared once, when they are made. Runs in the broker.

use super::{gathered::GatheredFacts, look::look};
use crate::{
    base::{
        error::CallError,
        task::{ChangeTask, UndoTarget},
    },
    cells::{seen::InspectedTarget, session::Session},
    changes::change::{self, Author, DIFF},
    tools::Tool,
};
use palisade_plan::{
    cell::Link,
    change::{EvidenceDepth, WriteMode},
    plants::{GIT_DIRECTORY_PARTS, PlantType, plant_reader},
};
use palisade_policy::DESTRUCTIVE;
use palisade_protocol::{Ask, Finding, Severity};

/// Adds the facts about a change.
pub(super) async fn gather(
    session: &Session,
    tool: &Tool,
    task: &ChangeTask,
    gathered: &mut GatheredFacts,
) -> Result<(), CallError> {
    let ask = session.ask.max(session.profile.ask());
    let rules = session.profile.has_rules();
    // If approval may be needed or there are rules, the paths must be known.
    let named = rules || ask >= Ask::Sensitive;
    let seen = &mut gathered.seen;
    let is_assessed = match task {
        ChangeTask::Write { path, mode, .. } => {
            look(session, path, Link::Target, seen).await?;
            let target = seen.targets.last();
            // What existed is appended to or replaced.
            let may_exist = *mode != WriteMode::Create;
            target.is_some_and(|target| {
                let is_new = target.found.is_none();
                // Links and git's configuration can lead programs outside to any new name.
                is_new || may_exist && is_foreign(session, target) || may_be_plant(session, target)
            })
        }
        ChangeTask::Delete { path, .. } => {
            look(session, path, Link::Itself, seen).await?;
            let target = seen.targets.last();
            !task.is_kept() || target.is_some_and(|target| is_foreign(session, target))
        }
        ChangeTask::Move { from, to, .. } => {
            if named {
                look(session, from, Link::Itself, seen).await?;
            }
            look(session, to, Link::Itself, seen).await?;
            true
        }
        ChangeTask::Edit { .. } => {
            for path in task.paths() {
                look(session, path, Link::Target, seen).await?;
            }
            let needs_evidence =
                |target| is_foreign(session, target) || may_be_plant(session, target);
            seen.targets.iter().any(needs_evidence)
        }
        ChangeTask::MakeDir { .. } => {
            for path in task.paths().into_iter().filter(|path| named || has_git_part(path)) {
                look(session, path, Link::Target, seen).await?;
            }
            seen.targets.iter().any(|target| may_be_plant(session, target))
        }
        ChangeTask::Patch { .. } => true,
        // A change set is judged when the effects of its command are known.
        ChangeTask::Settle { .. } => false,
        ChangeTask::Undo { which, force } => {
            if let Err(error) = undo(session, tool, task, (which, *force), gathered).await {
                gathered.failed = Some(as_call_failure(error)?);
            }
            false
        }
    };
    gathered.facts.is_assessed = true;
    gathered.facts.is_permanent = !task.is_kept();
    if !is_assessed || (ask == Ask::Never && !rules && !session.profile.denies_unreviewed()) {
        return Ok(());
    }
    gathered.evidence = EvidenceDepth::Full;
    // The losses do not depend on the content that is written.
    match change::preview(session, task, Some(&[]), DIFF).await {
        Ok(preview) => {
            gathered.facts.paths.extend(preview.paths());
            let losses = change::losses(session, &tool.spec.name, task, &preview);
            gathered.facts.findings.extend(losses);
            gathered.facts.findings.extend(permanent_deletion(tool, task));
        }
        Err(error) => gathered.failed = Some(as_call_failure(error)?),
    }
    Ok(())
}

/// The finding for a permanent deletion, which always needs approval.
fn permanent_deletion(tool: &Tool, task: &ChangeTask) -> Option<Finding> {
    let ChangeTask::Delete { path, .. } = task else { return None };
    let shown = String::from_utf8_lossy(path);
    let why = format!("{} deletes {shown:?} permanently: there is no undo record", tool.spec.name);
    (!task.is_kept()).then(|| Finding::new(DESTRUCTIVE, Severity::Warning, why))
}

/// Returns `true` if the target exists and was not made by the session.
fn is_foreign(session: &Session, target: &InspectedTarget) -> bool {
    let is_own = target.version().is_some_and(|version| session.memory().wrote(version));
    target.found.is_some() && !is_own
}

/// Returns `true` if git, or a program outside the sandbox, would execute or obey what is written
/// to the target.
fn may_be_plant(session: &Session, target: &InspectedTarget) -> bool {
    [&target.path, &target.real].into_iter().any(|path| {
        let way = path.strip_prefix(session.workspace.0.as_slice()).unwrap_or(path);
        has_git_part(way) || plant_reader(way, PlantType::Other).is_some()
    })
}

/// Returns `true` if a path is in a directory of git, or may be a part of one that has another name.
fn has_git_part(way: &[u8]) -> bool {
    way.split(|byte| *byte == b'/')
        .any(|name| name == b".git" || GIT_DIRECTORY_PARTS.contains(&name))
}

async fn undo(
    session: &Session,
    tool: &Tool,
    task: &ChangeTask,
    (which, force): (&UndoTarget, bool),
    gathered: &mut GatheredFacts,
) -> Result<(), CallError> {
    let (paths, author) = change::paths_of_undo(which, force, session).await?;
    gathered.facts.paths.extend(paths);
    // A session may revert its own calls without approval, if nobody has changed their results
    // since.
    let memory_matters =
        gathered.facts.paths.iter().any(|path| session.memory().pinned_repository(path).is_some());
    if author == Author::Itself && !force && !memory_matters {
        return Ok(());
    }
    let preview = change::preview(session, task, None, DIFF).await?;
    let losses = change::losses_of_undo(session, &tool.spec.name, task, &preview, (author, force));
    gathered.evidence = EvidenceDepth::Full;
    gathered.facts.findings.extend(losses);
    Ok(())
}

/// Passes on an error that the call itself would meet; the call ends with it after it was judged.
fn as_call_failure(error: CallError) -> Result<CallError, CallError> {
    if matches!(error, CallError::File(_) | CallError::Changing { .. } | CallError::Refused(_)) {
        Ok(error)
    } else {
        Err(error)
    }
}
