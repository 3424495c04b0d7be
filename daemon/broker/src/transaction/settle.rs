//! The end of a transaction: what the program changed is found out, judged, asked about if need be,
//! and then counts whole or in part or not at all. Broker.

use super::{
    SETTLE,
    changes::{Changes, facts},
    ending::{failed, refused, rendered, tried, untold},
    resolve::{resolve, take_back},
    told::{self, Fate},
    unsettled::{Purpose, Unsettled},
};
use crate::{
    audit::docket::Docket,
    change::{self, Done, Held, Leave},
    context::Deadline,
    error::CallError,
    guard::EffectsReview,
    outcome::Outcome,
    run,
    server::Server,
    task::{ChangeTask, Kept, Program},
    why,
};
use palisade_plan::{
    cell::FileErrorKind,
    change::{Conflicts, Effect},
};
use palisade_policy::{Facts, Judgement, Refusal, judge_effects};
use palisade_protocol::ErrorCode;
use std::sync::Arc;

/// Settles a transaction. `outcome` is that of its program.
pub(crate) async fn settle(
    server: &Server,
    docket: &mut Docket,
    unsettled: &Unsettled,
    outcome: Outcome,
) -> Outcome {
    let session = Arc::clone(&unsettled.context.session);
    let mut outcome = settled(server, docket, unsettled, outcome).await;
    if outcome.about.is_some() {
        why::explain(&session, &why::Touched::default(), &mut outcome);
    }
    outcome
}

async fn settled(
    server: &Server,
    docket: &mut Docket,
    unsettled: &Unsettled,
    outcome: Outcome,
) -> Outcome {
    // A process that was killed before its program began has nothing to tell.
    if outcome.exit_code.is_none() {
        return outcome;
    }
    if outcome.cancelled {
        return untold(outcome);
    }
    if let Purpose::Trial(report) = &unsettled.purpose {
        return match unsettled.changes(Conflicts::Told).await {
            Ok(changes) => {
                let judgement = unsettled.judge(&changes.facts);
                tried(report.clone(), &judgement, &changes, outcome)
            }
            Err(error) => failed(outcome, error, &[]),
        };
    }
    match unsettled.at_once().await {
        AtOnce::Nothing => {
            unsettled.arrive();
            outcome
        }
        AtOnce::Done(done) => unsettled.done(done, outcome).await,
        AtOnce::Denied(changes, refusal) => {
            refused(&changes, &unsettled.context.session.workspace.0, *refusal, outcome)
        }
        AtOnce::Failed(error, effects) => failed(outcome, error, &effects),
        AtOnce::Asks => unsettled.review(server, docket, None, outcome).await,
        AtOnce::Contested(conflict) => {
            unsettled.review(server, docket, Some(conflict), outcome).await
        }
    }
}

/// What became of what a command changed, as far as nobody is asked.
enum AtOnce {
    /// It changed nothing.
    Nothing,
    /// It counts.
    Done(Done),
    /// A rule denies it.
    Denied(Box<Changes>, Box<Refusal>),
    Failed(CallError, Vec<Effect>),
    /// Somebody has to be asked.
    Asks,
    /// Somebody else changed the same.
    Contested(CallError),
}

impl Unsettled {
    /// Runs the program. What the session's next transaction needs is made meanwhile.
    pub(crate) async fn run(&mut self, program: Program, deadline: Deadline) -> Outcome {
        let session = Arc::clone(&self.context.session);
        let (context, transaction) = (&mut self.context, &mut self.transaction);
        let ((outcome, cwd), ()) = tokio::join!(
            run::in_transaction(program, context, deadline, transaction),
            session.transactions.prepare(),
        );
        self.cwd = cwd;
        outcome
    }

    /// Has done what nobody needs to be asked about: prepared once, judged, and done as it was.
    async fn at_once(&self) -> AtOnce {
        let (task, held) = match self.hold(&[], Kept::ForUndo, Conflicts::Refused).await {
            Ok(held) => held,
            Err(error) if is_conflict(&error) => return AtOnce::Contested(error),
            Err(error) => return AtOnce::Failed(error, Vec::new()),
        };
        if held.preview.effects.is_empty() {
            return AtOnce::Nothing;
        }
        match self.judge(&facts(self, &held.preview)) {
            Judgement::Ask(_) if self.review == EffectsReview::Required => AtOnce::Asks,
            Judgement::Allow(_) | Judgement::Ask(_) => {
                let leave = Leave::Shown(held.preview.digest);
                let effects = held.preview.effects.clone();
                match self.commit(task, held, &leave).await {
                    Ok(done) => AtOnce::Done(done),
                    Err(error) if is_conflict(&error) => AtOnce::Contested(error),
                    Err(error) => AtOnce::Failed(error, effects),
                }
            }
            Judgement::Deny(refusal) => {
                let changes = Changes::new(self, held.preview);
                AtOnce::Denied(Box::new(changes), Box::new(refusal))
            }
        }
    }

    /// Prepares what the program did. What is too much to be kept for undo is not kept.
    pub(super) async fn hold(
        &self,
        without: &[Vec<u8>],
        mut kept: Kept,
        conflicts: Conflicts,
    ) -> Result<(ChangeTask, Held), CallError> {
        let (files, tool) = (&self.transaction.files, &self.tool.spec.name);
        let mut again = false;
        loop {
            let task = ChangeTask::Settle { without: without.to_vec(), kept, conflicts };
            let deadline = Deadline::after(SETTLE);
            match change::prepare_on(files, &task, tool, None, &self.context, deadline).await {
                Err(error) if kept == Kept::ForUndo && is_too_much(&error) => kept = Kept::Not,
                // Somebody else's, of another session.
                Err(error) if is_cut_off(&error) && !again => {
                    again = true;
                    let taken = resolve(&self.context.session).await?;
                    self.context.session.tell(taken.findings);
                }
                held => return held.map(|held| (task, held)),
            }
        }
    }

    /// Has done what is prepared, if that is what there is leave for.
    pub(super) async fn commit(
        &self,
        task: ChangeTask,
        held: Held,
        leave: &Leave,
    ) -> Result<Done, CallError> {
        let deadline = Deadline::after(SETTLE);
        match held.commit(&task, leave, &self.context, deadline).await {
            Err(error) if task.is_kept() && is_too_much(&error) => {
                let ChangeTask::Settle { without, conflicts, .. } = &task else {
                    return Err(error);
                };
                let (task, held) = self.hold(without, Kept::Not, *conflicts).await?;
                held.commit(&task, leave, &self.context, deadline).await
            }
            done => done,
        }
    }

    pub(super) fn judge(&self, facts: &Facts) -> Judgement {
        let session = &self.context.session;
        judge_effects(&session.profile, session.ask, &self.tool.spec, facts)
    }

    /// It counts, or whether it does is not known.
    pub(super) async fn done(&self, done: Done, mut outcome: Outcome) -> Outcome {
        match done {
            Done::Changed { changed, undo } => {
                self.arrive();
                let data = rendered(&told::data(Fate::Committed, &changed.effects));
                Outcome { data, undo, ..outcome }
            }
            // Its process ended, perhaps half-way.
            Done::Unknown(unknown, change) => match take_back(&self.context.session, &change).await
            {
                Some(taken) => {
                    outcome.findings.extend(taken.findings);
                    let why = "its process ended before all of it was kept, and it was taken back";
                    failed(outcome, CallError::Cell(why.to_owned()), &[])
                }
                None => Outcome { error: unknown.error, undo: unknown.undo, ..outcome },
            },
        }
    }

    /// The session goes on where the program ended.
    fn arrive(&self) {
        if let Some(cwd) = &self.cwd {
            self.context.session.set_cwd(cwd.clone());
        }
    }
}

/// Whether somebody else changed the same.
fn is_conflict(error: &CallError) -> bool {
    matches!(
        error,
        CallError::File(failure) | CallError::Changing { failure, .. }
            if failure.kind == FileErrorKind::Conflict
    )
}

/// Whether a commit was cut off there and not taken back yet.
fn is_cut_off(error: &CallError) -> bool {
    is_conflict(error) && error.to_string().contains("cut off")
}

/// Whether what would be replaced is more than is kept. A full transaction is another matter.
fn is_too_much(error: &CallError) -> bool {
    matches!(
        error,
        CallError::File(failure)
            if failure.kind == FileErrorKind::TooLarge && failure.errno == 0
    ) || matches!(error, CallError::Refused(refused) if refused.code == ErrorCode::TooLarge)
}
