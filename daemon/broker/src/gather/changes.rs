//! Finds out what a change is about, for the judge. What it needs to know decides how far to look:
//! most changes are prepared once, when they are made. Broker.

use super::{gathered::Gathered, look::look};
use crate::{
    change::{self, Author, DIFF},
    error::CallError,
    seen::SeenTarget,
    session::Session,
    task::{ChangeTask, Undone},
    tools::Tool,
};
use palisade_plan::{cell::Link, change::WriteMode};
use palisade_protocol::{Ask, Finding, Severity};

/// Adds what is known of a change.
pub(super) async fn gather(
    session: &Session,
    tool: &Tool,
    task: &ChangeTask,
    gathered: &mut Gathered,
) -> Result<(), CallError> {
    let ask = session.ask.max(session.profile.ask());
    let rules = session.profile.has_rules();
    // Who may be asked, or has rules, wants to know the paths.
    let named = rules || ask >= Ask::Sensitive;
    let seen = &mut gathered.seen;
    match task {
        ChangeTask::Write { path, mode, .. } => {
            look(session, path, Link::Target, seen).await?;
            let target = seen.targets.last();
            gathered.facts.findings.extend(target.and_then(|target| match mode {
                WriteMode::Overwrite => replaced(session, tool, target, "replaces"),
                WriteMode::Append | WriteMode::Create => None,
            }));
        }
        ChangeTask::Delete { path, .. } => {
            look(session, path, Link::Itself, seen).await?;
            let target = seen.targets.last().filter(|target| target.found.is_some());
            let found = target.map(|target| lost(tool, target, "deletes"));
            gathered.facts.findings.extend(found);
        }
        ChangeTask::Move { from, to, overwrite } => {
            if named {
                look(session, from, Link::Itself, seen).await?;
            }
            look(session, to, Link::Itself, seen).await?;
            let target = seen.targets.last().filter(|_| *overwrite);
            let found =
                target.and_then(|target| replaced(session, tool, target, "moves something over"));
            gathered.facts.findings.extend(found);
        }
        ChangeTask::Edit { .. } | ChangeTask::MakeDir { .. } => {
            for path in task.paths().into_iter().filter(|_| named) {
                look(session, path, Link::Target, seen).await?;
            }
        }
        ChangeTask::Patch { .. } if ask == Ask::Never && !rules => {}
        ChangeTask::Patch { .. } => match change::preview(session, task, None, DIFF).await {
            Ok(preview) => {
                gathered.facts.paths.extend(preview.paths());
                let losses = change::losses(session, &tool.spec.name, &preview.effects);
                gathered.facts.findings.extend(losses);
            }
            Err(error) => gathered.failed = Some(its_own(error)?),
        },
        // It is judged when it is known what was done.
        ChangeTask::Settle { .. } => {}
        ChangeTask::Undo { which, force } => {
            if let Err(error) = undo(session, tool, task, (which, *force), gathered).await {
                gathered.failed = Some(its_own(error)?);
            }
        }
    }
    Ok(())
}

async fn undo(
    session: &Session,
    tool: &Tool,
    task: &ChangeTask,
    (which, force): (&Undone, bool),
    gathered: &mut Gathered,
) -> Result<(), CallError> {
    let (paths, author) = change::paths_of_undo(which, force, session).await?;
    gathered.facts.paths.extend(paths);
    // What its own calls left and nobody touched since, a session may take back unasked.
    if author == Author::Itself && !force {
        return Ok(());
    }
    let preview = change::preview(session, task, None, DIFF).await?;
    let losses = change::losses_of_undo(session, &tool.spec.name, &preview.effects, author, force);
    gathered.facts.findings.extend(losses);
    Ok(())
}

/// An error that the call would meet as well; it is the call's end, once it is judged.
fn its_own(error: CallError) -> Result<CallError, CallError> {
    if matches!(error, CallError::File(_) | CallError::Changing { .. } | CallError::Refused(_)) {
        Ok(error)
    } else {
        Err(error)
    }
}

/// What was there and is not the session's own.
fn replaced(session: &Session, tool: &Tool, target: &SeenTarget, act: &str) -> Option<Finding> {
    let version = target.version()?;
    (!session.wrote(version)).then(|| lost(tool, target, act))
}

fn lost(tool: &Tool, target: &SeenTarget, act: &str) -> Finding {
    let text = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    let shown = text(&target.path);
    let there = target.there().unwrap_or("file");
    let why = format!("{} {act} the {there} {shown:?}", tool.spec.name);
    let mut targets = vec![shown];
    if target.real != target.path {
        targets.push(text(&target.real));
    }
    Finding { targets, ..Finding::new("destructive", Severity::Warning, why) }
}
