//! Finds out what a call is about, for the judge: which programs, which paths, what would be lost.
//! Broker.

mod changes;
mod commands;
pub(crate) mod gathered;
mod look;

use crate::{
    analyst::Analyst,
    change::{self, DIFF},
    diagnose::programs::programs,
    error::CallError,
    guard::{self, Route},
    seen::Seen,
    session::Session,
    task::{Program, Task, Typing},
    tools::Tool,
};
use gathered::Gathered;
use look::look_if_ruled;
use palisade_plan::{Path, search::Glob};
use palisade_policy::Search;
use palisade_protocol::{Finding, Severity};

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
            for (_, program) in programs(session, paths) {
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
