//! The end of a transaction: what the program changed is found out, judged, asked about if need be,
//! and then counts whole or in part or not at all. Broker.

use super::{
    Transaction,
    told::{self, Fate},
};
use crate::{
    audit::Docket,
    change::{self, Leave, Preview},
    checkpoint::effects::{self, Asking, Decided},
    context::{Context, Deadline},
    dry,
    error::CallError,
    outcome::Outcome,
    run,
    server::Server,
    task::{ChangeTask, Kept, Program, Task},
    tools::Tool,
    turn::Turn,
};
use palisade_plan::{
    cell::FileErrorKind,
    change::{Effect, EffectKind},
};
use palisade_policy::{Facts, Judgement, Refusal, judge_effects, losses};
use palisade_protocol::{Call, Checkpoint, ErrorCode, Finding, JsonText, Part, WireError};
use serde_json::Value;
use std::{sync::Arc, time::Duration};

/// The most bytes of a diff that are shown or reported.
const DIFF: u32 = 256 * 1024;

/// How long it may take to find out what was changed, and to have it done.
const SETTLE: Duration = Duration::from_secs(120);

/// What a transaction is for.
#[derive(Debug)]
pub(crate) enum Purpose {
    /// What it changes is to count.
    Real,
    /// What it changes is to be told: the report so far.
    Trial(Value),
}

/// A call whose program has ended in its transaction. It holds its turn until it is settled.
#[derive(Debug)]
pub(crate) struct Unsettled {
    pub(crate) transaction: Transaction,
    pub(crate) purpose: Purpose,
    pub(crate) context: Context,
    pub(crate) call: Call,
    pub(crate) tool: Arc<Tool>,
    pub(crate) task: Task,
    /// Where the program ended.
    pub(crate) cwd: Option<Vec<u8>>,
    pub(crate) _turn: Option<Turn>,
}

impl Unsettled {
    /// Runs the program.
    pub(crate) async fn run(&mut self, program: Program, deadline: Deadline) -> Outcome {
        let (context, transaction) = (&mut self.context, &mut self.transaction);
        let (outcome, cwd) = run::in_transaction(program, context, deadline, transaction).await;
        self.cwd = cwd;
        outcome
    }
}

/// What a command changed, with what is lost by it.
struct Changes {
    preview: Preview,
    facts: Facts,
}

impl Changes {
    /// What is asked about, or all of it where a rule asks.
    fn asked(&self) -> Vec<&Effect> {
        let lost = |effect: &&Effect| {
            let shown = String::from_utf8_lossy(&effect.path.0);
            self.facts.findings.iter().any(|found| found.targets.iter().any(|t| *t == shown))
        };
        let asked: Vec<&Effect> = self.preview.effects.iter().filter(lost).collect();
        if asked.is_empty() { self.preview.effects.iter().collect() } else { asked }
    }
}

/// Settles a transaction. `outcome` is that of its program.
pub(crate) async fn settle(
    server: &Server,
    docket: &mut Docket,
    unsettled: Unsettled,
    outcome: Outcome,
) -> Outcome {
    // A process that was killed before its program began has nothing to tell.
    if outcome.exit_code.is_none() {
        return outcome;
    }
    if outcome.cancelled {
        return untold(outcome);
    }
    let changes = match unsettled.changes().await {
        Ok(changes) => changes,
        Err(error) => return failed(outcome, error, None),
    };
    unsettled.decide(server, docket, changes, outcome).await
}

impl Unsettled {
    fn effects_task(without: Vec<Vec<u8>>, kept: Kept) -> ChangeTask {
        ChangeTask::Settle { without, kept }
    }

    async fn preview(&self, without: Vec<Vec<u8>>) -> Result<Preview, CallError> {
        let task = Self::effects_task(without, Kept::Not);
        let (files, session) = (&self.transaction.files, &self.context.session);
        let preview = change::preview_on(files, session, &task, None, DIFF);
        let silent = |_| session.channel_error("it did not say in time what was changed");
        tokio::time::timeout(SETTLE, preview).await.map_err(silent)?
    }

    async fn changes(&self) -> Result<Changes, CallError> {
        let session = &self.context.session;
        let preview = self.preview(Vec::new()).await?;
        let own = |version| session.wrote(version);
        let tool = &self.tool.spec.name;
        let findings = losses(&session.profile, tool, &session.workspace.0, &preview.effects, &own);
        let facts = Facts { paths: preview.paths(), findings, ..session.places() };
        Ok(Changes { preview, facts })
    }

    async fn decide(
        &self,
        server: &Server,
        docket: &mut Docket,
        changes: Changes,
        outcome: Outcome,
    ) -> Outcome {
        let session = &self.context.session;
        let judgement =
            judge_effects(&session.profile, session.ask, &self.tool.spec, &changes.facts);
        if let Purpose::Trial(report) = &self.purpose {
            return tried(report.clone(), &judgement, &changes, outcome);
        }
        if changes.preview.effects.is_empty() {
            self.arrive();
            return outcome;
        }
        match judgement {
            Judgement::Allow(_) => self.commit(&changes, &changes.preview, outcome).await,
            Judgement::Deny(refusal) => refused(&changes, &session.workspace.0, refusal, outcome),
            Judgement::Ask(question) => {
                let asking = Asking {
                    session,
                    call_id: &self.context.call_id,
                    tool: &self.tool.spec.name,
                    call: &self.call,
                    task: &self.task,
                    cancel: &self.context.cancel,
                    facts: &changes.facts,
                    preview: &changes.preview,
                    question: &question,
                };
                let decided = effects::ask(server, docket, asking).await;
                self.answered(changes, question, decided, outcome).await
            }
        }
    }

    async fn answered(
        &self,
        changes: Changes,
        question: palisade_policy::Question,
        decided: Result<Decided, Box<Outcome>>,
        outcome: Outcome,
    ) -> Outcome {
        let workspace = &self.context.session.workspace.0;
        match decided {
            Err(stopped) => {
                let error = stopped.error.unwrap_or_else(|| CallError::Cancelled.into());
                let cancelled = outcome.cancelled || stopped.cancelled;
                discarded(Outcome { cancelled, ..outcome }, &changes.preview.effects, error)
            }
            Ok(Decided::All(checkpoint)) => {
                let outcome = noted(outcome, &changes, checkpoint);
                self.commit(&changes, &changes.preview, outcome).await
            }
            Ok(Decided::Part(checkpoint, part)) => {
                let without = left_out(&changes.preview.effects, &part);
                let outcome = noted(outcome, &changes, checkpoint);
                match self.preview(without.clone()).await {
                    Ok(rest) if is_part(&rest.effects, &changes.preview.effects) => {
                        self.commit_part(&changes, &rest, without, outcome).await
                    }
                    Ok(_) => {
                        let what = "what is left of the changes is not a part of what was shown";
                        failed(outcome, CallError::Stale(what.to_owned()), Some(&changes))
                    }
                    Err(error) => failed(outcome, error, Some(&changes)),
                }
            }
            Ok(Decided::Denied { by, reason, guidance }) => {
                let said = match by.strip_prefix("handler:") {
                    Some(name) => format!("{name} said no ({reason})"),
                    None => format!("nobody approved it ({reason})"),
                };
                let message = format!(
                    "this command {}; {said}, so nothing that it changed was kept",
                    told::deeds(&changes.asked(), workspace)
                );
                let error = WireError::new(ErrorCode::Denied, message, guidance.clone());
                let refusal = question.denied(error, &by, &reason, guidance);
                denied(&changes, refusal, outcome)
            }
        }
    }

    async fn commit(&self, changes: &Changes, preview: &Preview, outcome: Outcome) -> Outcome {
        self.commit_part(changes, preview, Vec::new(), outcome).await
    }

    /// Has it done, with what it replaces kept for undo if there is room for that.
    async fn commit_part(
        &self,
        changes: &Changes,
        preview: &Preview,
        without: Vec<Vec<u8>>,
        outcome: Outcome,
    ) -> Outcome {
        let leave = Leave::Shown(preview.digest);
        let mut kept = Kept::ForUndo;
        let done = loop {
            let task = Self::effects_task(without.clone(), kept);
            let done = change::run_on(
                &self.transaction.files,
                &task,
                &self.tool.spec.name,
                &leave,
                &self.context,
                Deadline::after(SETTLE),
            )
            .await;
            match (kept, &done) {
                (Kept::ForUndo, Err(CallError::File(failure)))
                    if failure.kind == FileErrorKind::TooLarge && failure.errno == 0 =>
                {
                    kept = Kept::Not;
                }
                (Kept::ForUndo | Kept::Not, _) => break done,
            }
        };
        match done {
            Ok(done) if done.error.is_none() => {
                self.arrive();
                let data = rendered(&told::data(Fate::Committed, &preview.effects));
                Outcome { data, undo: done.undo, ..outcome }
            }
            // Whether it is done is not known, and its error says so.
            Ok(done) => Outcome { error: done.error, undo: done.undo, ..outcome },
            Err(error) => failed(outcome, error, Some(changes)),
        }
    }

    /// The session goes on where the program ended.
    fn arrive(&self) {
        if let Some(cwd) = &self.cwd {
            self.context.session.set_cwd(cwd.clone());
        }
    }
}

fn rendered(value: &Value) -> Option<JsonText> {
    JsonText::render(value).ok()
}

/// The outcome of what was approved: what was asked about is in it.
fn noted(mut outcome: Outcome, changes: &Changes, checkpoint: Checkpoint) -> Outcome {
    outcome.findings.extend(changes.facts.findings.clone());
    Outcome { checkpoint: Some(checkpoint), ..outcome }
}

/// Nothing counts, and the error says why.
fn discarded(outcome: Outcome, effects: &[Effect], error: WireError) -> Outcome {
    let data = rendered(&told::data(Fate::Discarded, effects));
    Outcome { data, error: Some(error), ..outcome }
}

/// A caller that does not wait any more is not told what was changed: it was not looked at.
fn untold(outcome: Outcome) -> Outcome {
    discarded(outcome, &[], CallError::Cancelled.into())
}

fn failed(outcome: Outcome, error: CallError, changes: Option<&Changes>) -> Outcome {
    let effects = changes.map_or(&[][..], |changes| &changes.preview.effects);
    let error = WireError::from(error);
    let message = format!("nothing that the command changed was kept: {}", error.message);
    discarded(outcome, effects, WireError { message, ..error })
}

fn denied(changes: &Changes, refusal: Refusal, mut outcome: Outcome) -> Outcome {
    outcome.findings.extend(refusal.findings);
    outcome.denials.extend(refusal.denials);
    outcome.checkpoint = refusal.checkpoint.or(outcome.checkpoint);
    discarded(outcome, &changes.preview.effects, refusal.error)
}

/// A rule denies what was done.
fn refused(changes: &Changes, workspace: &[u8], refusal: Refusal, outcome: Outcome) -> Outcome {
    let deeds = told::deeds(&changes.asked(), workspace);
    let message = format!(
        "this command {deeds}; {}, so nothing that it changed was kept",
        refusal.error.message
    );
    let error = WireError { message, ..refusal.error.clone() };
    denied(changes, Refusal { error, ..refusal }, outcome)
}

/// The report of a dry run: what was changed, and what would be said to it.
fn tried(
    mut report: Value,
    judgement: &Judgement,
    changes: &Changes,
    mut outcome: Outcome,
) -> Outcome {
    let (said, why): (&str, Option<&str>) = match judgement {
        Judgement::Allow(_) => ("allow", None),
        Judgement::Ask(question) => ("ask", Some(question.rule())),
        Judgement::Deny(refusal) => ("deny", Some(&refusal.error.message)),
    };
    report["effects_judgement"] = said.into();
    report["effects_why"] = why.into();
    report["exit_code"] = outcome.exit_code.into();
    report["transaction"] = told::reported(&changes.preview);
    let lost: Vec<Finding> = changes.facts.findings.clone();
    outcome.findings.extend(lost);
    let told = dry::rendered(&report);
    Outcome { data: told.data, error: told.error.or(outcome.error), ..outcome }
}

/// The paths of what is left out. Of what was moved, the old name: then both are there.
fn left_out(effects: &[Effect], part: &Part) -> Vec<Vec<u8>> {
    let mut paths: Vec<Vec<u8>> = part.without.iter().map(|path| path.0.clone()).collect();
    if part.without_deletions {
        paths.extend(effects.iter().filter_map(|effect| match &effect.kind {
            EffectKind::Deleted { .. } => Some(effect.path.0.clone()),
            EffectKind::Moved { from } => Some(from.0.clone()),
            EffectKind::Created
            | EffectKind::Replaced
            | EffectKind::Appended
            | EffectKind::Edited
            | EffectKind::Mode
            | EffectKind::Touched => None,
        }));
    }
    paths
}

/// Whether every effect was shown. What was moved is made where it was moved to.
fn is_part(rest: &[Effect], shown: &[Effect]) -> bool {
    rest.iter().all(|effect| {
        shown.iter().any(|one| {
            let made = matches!(one.kind, EffectKind::Moved { .. })
                && matches!(effect.kind, EffectKind::Created | EffectKind::Replaced);
            one.path == effect.path
                && one.print == effect.print
                && (one.kind == effect.kind || made)
        })
    })
}
