//! Finds out what a call is about, for the judge: which programs, which paths, what would be lost.
//! Broker.

mod changes;
mod commands;

use crate::{
    analyst::Analyst,
    change::{self, DIFF},
    diagnose,
    error::CallError,
    guard::{self, Route},
    seen::{Seen, SeenTarget},
    session::Session,
    task::{Program, Task, Typing},
    tools::Tool,
};
use palisade_plan::{
    Path,
    cell::{Contents, FileErrorKind, Link},
    search::Glob,
};
use palisade_policy::{Facts, Search};
use palisade_protocol::{Finding, Severity};

/// What is known of a call, and what was seen of what it would touch.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub(crate) facts: Facts,
    pub(crate) seen: Seen,
    /// Changes in the session before this was gathered.
    pub(crate) changes: u64,
    /// Why it can not be done, if that is known already. What is denied is not told.
    pub(crate) failed: Option<CallError>,
    /// How it runs, if it is a program.
    pub(crate) route: Route,
}

/// What a call would do and touch, as somebody is to see it who is asked. `held` is what follows
/// the call, if it is here.
pub(crate) async fn closely(
    session: &Session,
    task: &Task,
    seen: &Seen,
    held: Option<&[u8]>,
) -> Result<Seen, CallError> {
    match task {
        Task::Change(task) => {
            let preview = change::preview(session, task, held, DIFF).await?;
            let (cwd, targets) = (session.cwd(), seen.targets.clone());
            Ok(Seen { cwd, targets, change: Some(preview) })
        }
        Task::Run(_)
        | Task::Job(_)
        | Task::Errand(_)
        | Task::Provided { .. }
        | Task::Check { .. }
        | Task::Read { .. }
        | Task::List { .. }
        | Task::Glob(_)
        | Task::Grep(_) => seen.closely(session).await,
    }
}

/// Finds out what a call is about.
pub(crate) async fn gather(
    analyst: &Analyst,
    session: &Session,
    tool: &Tool,
    task: &Task,
) -> Result<Gathered, CallError> {
    let changes = session.changes();
    let mut gathered = Gathered {
        facts: session.places(),
        seen: Seen { cwd: session.cwd(), ..Seen::default() },
        changes,
        failed: None,
        route: Route::Direct(Search::Whole),
    };
    let Gathered { facts, seen, route, .. } = &mut gathered;
    match task {
        Task::Run(program) => {
            let analysed = commands::analyse(analyst, program).await;
            facts.commands = commands::started(program, &analysed);
            let looked = commands::look_around(session, program, analysed.found).await?;
            (facts.findings, seen.targets) = (looked.findings, looked.targets);
            facts.findings.extend(typed(program));
            let held = guard::hold(session, program, analysed.nature, looked.reach);
            (facts.up_front, *route) = (held.up_front, held.route);
        }
        Task::Job(_) | Task::Errand(_) | Task::Provided { .. } => {}
        Task::Check { paths } => {
            for (_, program) in diagnose::programs(session, paths) {
                let analysed = commands::analyse(analyst, &program).await;
                facts.commands = commands::both(
                    std::mem::take(&mut facts.commands),
                    commands::started(&program, &analysed),
                );
                let looked = commands::look_around(session, &program, analysed.found).await?;
                facts.findings.extend(looked.findings);
                seen.targets.extend(looked.targets);
            }
        }
        Task::Read { path, .. }
        | Task::List { path, .. }
        | Task::Glob(Glob { path: Path(path), .. }) => {
            look_if_ruled(session, path, seen).await?;
        }
        Task::Grep(grep) => look_if_ruled(session, &grep.path.0, seen).await?,
        Task::Change(task) => changes::gather(session, tool, task, &mut gathered).await?,
    }
    let Gathered { facts, seen, .. } = &mut gathered;
    for target in &seen.targets {
        facts.paths.push(target.path.clone());
        facts.paths.push(target.real.clone());
    }
    Ok(gathered)
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
        | FileErrorKind::Hidden
        | FileErrorKind::Protected
        | FileErrorKind::Invalid => true,
        FileErrorKind::TooLarge
        | FileErrorKind::AlreadyExists
        | FileErrorKind::FileSystem
        | FileErrorKind::NoMatch
        | FileErrorKind::Conflict
        | FileErrorKind::Broken => false,
    }
}
