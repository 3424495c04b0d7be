//! Finds out what a call is about, for the judge: which programs, which paths, what would be lost.
//! Broker.

mod commands;

use crate::{
    analyst::Analyst,
    diagnose,
    error::CallError,
    seen::{Seen, SeenTarget},
    session::Session,
    task::{Program, Task, Typing},
    tools::Tool,
};
use palisade_plan::{
    Path,
    cell::{Contents, FileErrorKind, Link, WriteMode},
    search::Glob,
};
use palisade_policy::Facts;
use palisade_protocol::{Finding, Severity};

/// What is known of a call, and what was seen of what it would touch.
#[derive(Debug, Default)]
pub(crate) struct Gathered {
    pub(crate) facts: Facts,
    pub(crate) seen: Seen,
    /// Changes in the session before this was gathered.
    pub(crate) changes: u64,
}

/// Finds out what a call is about.
pub(crate) async fn gather(
    analyst: &Analyst,
    session: &Session,
    tool: &Tool,
    task: &Task,
) -> Result<Gathered, CallError> {
    let changes = session.changes();
    let workspace = session.workspace.0.clone();
    let mut facts = Facts { workspace, ..Facts::default() };
    let mut seen = Seen { cwd: session.cwd(), targets: Vec::new() };
    match task {
        Task::Run(program) => {
            let analysed = commands::analyse(analyst, program).await;
            facts.commands = commands::started(program, &analysed);
            (facts.findings, seen.targets) =
                commands::look_around(session, program, analysed.found).await?;
            facts.findings.extend(typed(program));
        }
        Task::Job(_) | Task::Errand(_) | Task::Provided { .. } => {}
        Task::Check { paths } => {
            for (_, program) in diagnose::programs(session, paths) {
                let analysed = commands::analyse(analyst, &program).await;
                facts.commands =
                    commands::both(facts.commands, commands::started(&program, &analysed));
                let (findings, targets) =
                    commands::look_around(session, &program, analysed.found).await?;
                facts.findings.extend(findings);
                seen.targets.extend(targets);
            }
        }
        Task::Read { path, .. }
        | Task::List { path, .. }
        | Task::Glob(Glob { path: Path(path), .. }) => {
            look_if_ruled(session, path, &mut seen).await?;
        }
        Task::Grep(grep) => look_if_ruled(session, &grep.path.0, &mut seen).await?,
        Task::Write { path, mode, .. } => {
            look(session, path, Link::Target, &mut seen).await?;
            facts.findings.extend(overwritten(session, tool, *mode, &seen));
        }
        Task::Delete { path, .. } => {
            look(session, path, Link::Itself, &mut seen).await?;
            facts.findings.extend(deleted(tool, &seen));
        }
    }
    for target in &seen.targets {
        facts.paths.push(target.path.clone());
        facts.paths.push(target.real.clone());
    }
    Ok(Gathered { facts, seen, changes })
}

/// Many programs run commands for whoever types into their terminal.
fn typed(program: &Program) -> Option<Finding> {
    let open = program.terminal.is_some() && program.typing == Typing::Open;
    open.then(|| {
        let why = "what is typed into its terminal later can make it run anything";
        Finding::new("hidden", Severity::Warning, why.to_owned())
    })
}

/// What is only looked at is of interest to rules alone.
async fn look_if_ruled(session: &Session, path: &[u8], seen: &mut Seen) -> Result<(), CallError> {
    if session.profile.has_path_rules() {
        look(session, path, Link::Target, seen).await?;
    }
    Ok(())
}

/// Looks at one path. What can not be looked at for a reason of its own, the tool will refuse.
async fn look(
    session: &Session,
    path: &[u8],
    link: Link,
    seen: &mut Seen,
) -> Result<(), CallError> {
    let path = session.absolute(path);
    match SeenTarget::look(session, path.clone(), link, Contents::Closed).await {
        Ok(target) => seen.targets.push(target),
        Err(CallError::File(failure)) if is_final(failure.kind) => {
            seen.targets.push(SeenTarget { real: path.clone(), path, link, found: None });
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

/// Whether the tool itself would be refused for the same reason.
const fn is_final(kind: FileErrorKind) -> bool {
    match kind {
        FileErrorKind::NotFound
        | FileErrorKind::OutsidePolicy
        | FileErrorKind::NotRegular
        | FileErrorKind::Invalid => true,
        FileErrorKind::TooLarge
        | FileErrorKind::AlreadyExists
        | FileErrorKind::FileSystem
        | FileErrorKind::NoMatch
        | FileErrorKind::Conflict => false,
    }
}

fn lost(tool: &Tool, target: &SeenTarget, act: &str) -> Finding {
    let shown = String::from_utf8_lossy(&target.path).into_owned();
    let there = target.there().unwrap_or("file");
    let why = format!("{} {act} the {there} {shown:?}", tool.spec.name);
    let targets = vec![shown];
    Finding { targets, ..Finding::new("destructive", Severity::Warning, why) }
}

/// Replacing a file loses what it had, unless the session itself put that there.
fn overwritten(session: &Session, tool: &Tool, mode: WriteMode, seen: &Seen) -> Option<Finding> {
    let target = seen.targets.first()?;
    let version = target.version()?;
    match mode {
        WriteMode::Overwrite if !session.wrote(version) => Some(lost(tool, target, "replaces")),
        WriteMode::Overwrite | WriteMode::Append | WriteMode::Create => None,
    }
}

fn deleted(tool: &Tool, seen: &Seen) -> Option<Finding> {
    let target = seen.targets.first().filter(|target| target.found.is_some())?;
    Some(lost(tool, target, "deletes"))
}
