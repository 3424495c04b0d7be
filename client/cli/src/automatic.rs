//! A handler without a person: every question is answered by a program or by a fixed word.

use crate::{
    answer::{Verdict, answer},
    card,
    failure::Failure,
    judge::Judge,
    print,
    signals::Signals,
};
use palisade_client::{Answer, Decision, Operator, OperatorEvent, Question, QuestionId};
use std::{
    collections::HashMap,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::Semaphore, task::JoinSet};

/// How often the daemon hears that this handler is alive, and how long it may hear nothing.
pub(crate) const BEAT: Duration = Duration::from_secs(5);
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(30);

/// How many programs run at once.
const PROGRAMS: usize = 8;

/// Who decides.
#[derive(Debug, Clone)]
pub(crate) enum Decider {
    /// A program.
    Program(Judge),
    /// Always the same.
    Word(Verdict),
}

/// Answers until the connection or this process is to end; the exit status.
pub(crate) async fn serve(operator: Operator, decider: Decider) -> Result<u8, Failure> {
    let mut signals = Signals::watch()?;
    let mut beat = tokio::time::interval(BEAT);
    let (mut tasks, mut asked) = (JoinSet::new(), HashMap::new());
    let seats = Arc::new(Semaphore::new(PROGRAMS));
    let ended = loop {
        let event = tokio::select! {
            event = operator.next() => event,
            status = signals.next() => break Ok(status),
            _ = beat.tick() => {
                live(&operator);
                continue;
            }
            Some(_) = tasks.join_next() => continue,
        };
        match event {
            Some(OperatorEvent::Question(question)) => {
                let id = question.question.clone();
                let work = decide(operator.clone(), decider.clone(), *question, Arc::clone(&seats));
                asked.insert(id, tasks.spawn(work));
            }
            Some(OperatorEvent::Over(over)) => give_up(&mut asked, &over.question),
            Some(_) => {}
            None => break Err(operator.ended().into()),
        }
    };
    // The programs that still run end here, not with the runtime.
    tasks.shutdown().await;
    ended
}

/// Says that the handler lives, without waiting for the answer: that the daemon is gone is told by
/// the end of its events.
pub(crate) fn live(operator: &Operator) {
    let operator = operator.clone();
    tokio::spawn(async move { operator.ping().await });
}

/// Stops working on a question that is over.
fn give_up(asked: &mut HashMap<QuestionId, tokio::task::AbortHandle>, id: &QuestionId) {
    if let Some(task) = asked.remove(id) {
        task.abort();
    }
}

async fn decide(operator: Operator, decider: Decider, question: Question, seats: Arc<Semaphore>) {
    let deadline = Instant::now() + Duration::from_millis(question.expires_in_ms);
    let given = match decider {
        Decider::Word(verdict) => answer(&question, verdict, "the operator's policy is to deny"),
        Decider::Program(judge) => {
            let Ok(_seat) = seats.acquire().await else { return };
            let left = deadline.saturating_duration_since(Instant::now());
            // A denial that says why must still be in time.
            let reserve = (left / 10).min(Duration::from_millis(500));
            judge.decide(&question, left - reserve).await
        }
    };
    let told = word(&given);
    match operator.answer(&question, given).await {
        Ok(_) => {
            let line = format!("{told} {} {}", question.question, card::summary(&question));
            // Without a reader of the log the answers still count.
            drop(print::line(&line));
        }
        Err(error) => {
            print::note(&format!("note: {} was not answered: {error}", question.question))
        }
    }
}

/// What was decided, in a word and the reason for a no.
pub(crate) fn word(answer: &Answer) -> String {
    match answer.decision() {
        Decision::Approve => "approved".to_owned(),
        Decision::ApproveModified(_) => "approved with other arguments".to_owned(),
        Decision::Deny(deny) => format!("denied ({})", crate::visible::visible(&deny.reason)),
        Decision::Pass => "passed".to_owned(),
        Decision::Replace(_) => "replaced".to_owned(),
        Decision::Withhold(why) => format!("withheld ({})", crate::visible::visible(&why.reason)),
    }
}
