//! Gathers the facts about a call for the judge: which programs, which paths, what would be lost.
//! Runs in the broker.

mod changes;
mod commands;
pub(crate) mod gathered;
mod look;

use crate::{
    base::{
        error::CallError,
        task::{Program, RouteChoice, Task},
    },
    cells::{analyst::Analyst, checkers::programs, seen::TargetSnapshot, session::Session},
    changes::{
        change::{self, DIFF},
        guard::{self, Route, Routing},
    },
    pipeline::fetch,
    tools::Tool,
};
use gathered::GatheredFacts;
use look::inspect_if_ruled;
use palisade_plan::{Path, change::EvidenceDepth, search::Glob};
use palisade_policy::{
    DESTRUCTIVE,
    analysis::{Nature, unproven},
};
use palisade_protocol::{Ask, ErrorCode, Finding, Guard, Severity, WireError};

/// Gathers what an approver is to be shown: what the call would do and touch. `held` is the
/// attachment, if it has arrived.
pub(crate) async fn gather_for_approval(
    session: &Session,
    task: &Task,
    seen: &TargetSnapshot,
    held: Option<&[u8]>,
) -> Result<TargetSnapshot, CallError> {
    match task {
        Task::Change(task) => {
            let preview = change::preview(session, task, held, DIFF).await?;
            let (cwd, targets) = (session.cwd(), seen.targets.clone());
            Ok(TargetSnapshot { cwd, targets, change: Some(preview) })
        }
        Task::Run(_)
        | Task::Job(_)
        | Task::Errand(_)
        | Task::Fetch(_)
        | Task::Provided { .. }
        | Task::Check { .. }
        | Task::Read { .. }
        | Task::Look { .. }
        | Task::List { .. }
        | Task::Glob(_)
        | Task::Grep(_) => seen.inspect_contents(session).await,
    }
}

/// Gathers the facts about a call.
pub(crate) async fn gather(
    analyst: &Analyst,
    session: &Session,
    tool: &Tool,
    task: &Task,
) -> Result<GatheredFacts, CallError> {
    let changes = session.changes();
    let mut gathered = GatheredFacts {
        facts: session.places(),
        seen: TargetSnapshot { cwd: session.cwd(), ..TargetSnapshot::default() },
        changes,
        failed: None,
        evidence: EvidenceDepth::Paths,
        route: Route::Reading,
    };
    let GatheredFacts { facts, seen, route, failed, .. } = &mut gathered;
    match task {
        Task::Run(program) => {
            *failed = unreviewed_direct_job(session, program);
            let analysed = commands::analyse(analyst, session, program).await;
            facts.commands = commands::started(program, &analysed);
            let looked = commands::inspect_paths(session, program, analysed.found).await?;
            (facts.findings, seen.targets) = (looked.findings, looked.targets);
            facts.findings.extend(direct(program));
            let routing = guard::route(session, program, analysed.nature, looked.reach);
            facts.findings.extend(unheld(routing, &facts.findings));
            (facts.up_front, *route) = (routing.up_front, routing.route);
        }
        Task::Fetch(_) => *failed = fetch::unavailable(session),
        Task::Job(_) | Task::Errand(_) | Task::Provided { .. } => {}
        Task::Check { paths } => {
            for (_, program) in programs(session, paths) {
                let analysed = commands::analyse(analyst, session, &program).await;
                facts.commands = commands::both(
                    std::mem::take(&mut facts.commands),
                    commands::started(&program, &analysed),
                );
                let looked = commands::inspect_paths(session, &program, analysed.found).await?;
                facts.findings.extend(looked.findings);
                seen.targets.extend(looked.targets);
                let routing = guard::route(session, &program, Nature::Acts, looked.reach);
                facts.findings.extend(unheld(routing, &facts.findings));
                (facts.up_front, *route) = (routing.up_front, routing.route);
            }
        }
        Task::Read { path, .. }
        | Task::Look { path, .. }
        | Task::List { path, .. }
        | Task::Glob(Glob { path: Path(path), .. }) => {
            inspect_if_ruled(session, path, seen).await?;
        }
        Task::Grep(grep) => inspect_if_ruled(session, &grep.path.0, seen).await?,
        Task::Change(task) => changes::gather(session, tool, task, &mut gathered).await?,
    }
    let GatheredFacts { facts, seen, .. } = &mut gathered;
    for target in &seen.targets {
        facts.paths.push(target.path.clone());
        facts.paths.push(target.real.clone());
    }
    Ok(gathered)
}

/// The error for a job that is to run directly in the workspace of a session that never asks.
fn unreviewed_direct_job(session: &Session, program: &Program) -> Option<CallError> {
    let nobody = session.ask.max(session.profile.ask()) == Ask::Never;
    let held = session.guard() >= Guard::Auto;
    (program.route == RouteChoice::Direct && nobody && held).then(|| {
        let message = "a job that runs directly in the workspace needs an approval, and this \
                       session asks nobody (ask = \"never\")";
        let hint = "leave out `route`: the job then runs in a transaction";
        CallError::Refused(WireError::new(ErrorCode::Denied, message, hint))
    })
}

/// The finding for a program whose changes nothing holds back and that may make some.
fn unheld(routing: Routing, findings: &[Finding]) -> Option<Finding> {
    routing.unheld.and_then(|nature| unproven(nature, findings))
}

/// The finding for a job that runs directly in the workspace: nobody can review its changes.
fn direct(program: &Program) -> Option<Finding> {
    (program.route == RouteChoice::Direct).then(|| {
        let why = "it runs directly in the workspace: its changes and deletions take effect at \
                   once, are not reviewed, and can not be undone";
        Finding::new(DESTRUCTIVE, Severity::Danger, why.to_owned())
    })
}
