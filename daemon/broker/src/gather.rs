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
    task::{Program, RouteChoice, Task},
    tools::Tool,
};
use gathered::Gathered;
use look::look_if_ruled;
use palisade_plan::{Path, search::Glob};
use palisade_policy::analysis::Nature;
use palisade_protocol::{Ask, ErrorCode, Finding, Guard, Severity, WireError};

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
        route: Route::Reading,
    };
    let Gathered { facts, seen, route, failed, .. } = &mut gathered;
    match task {
        Task::Run(program) => {
            *failed = unasked(session, program);
            let analysed = commands::analyse(analyst, program).await;
            facts.commands = commands::started(program, &analysed);
            let looked = commands::look_around(session, program, analysed.found).await?;
            (facts.findings, seen.targets) = (looked.findings, looked.targets);
            facts.findings.extend(direct(program));
            let routing = guard::route(session, program, analysed.nature, looked.reach);
            (facts.up_front, *route) = (routing.up_front, routing.route);
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
                let routing = guard::route(session, &program, Nature::Acts, looked.reach);
                (facts.up_front, *route) = (routing.up_front, routing.route);
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

/// Why a job can not run in the workspace itself where nobody is ever asked.
fn unasked(session: &Session, program: &Program) -> Option<CallError> {
    let nobody = session.ask.max(session.profile.ask()) == Ask::Never;
    let held = session.guard() >= Guard::Auto;
    (program.route == RouteChoice::Direct && nobody && held).then(|| {
        let message = "a job that runs directly in the workspace needs an approval, and this \
                       session asks nobody (ask = \"never\")";
        let hint = "leave out `route`: the job then runs in a transaction";
        CallError::Refused(WireError::new(ErrorCode::Denied, message, hint))
    })
}

/// A job that is to run in the workspace itself: nobody can review what it will do there.
fn direct(program: &Program) -> Option<Finding> {
    (program.route == RouteChoice::Direct).then(|| {
        let why = "it runs directly in the workspace: what it changes or deletes there takes effect \
                   at once, is not reviewed, and can not be undone";
        Finding::new("destructive", Severity::Danger, why.to_owned())
    })
}
