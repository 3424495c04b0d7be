//! A handler without a person: every question is answered by a program or by a fixed word.

use crate::{
    approve::card,
    approve::judge::Judge,
    approve::signals::Signals,
    failure::Failure,
    operator::answer::{Verdict, answer},
    print,
};
use palisade_client::{Answer, Decision, Operator, OperatorEvent, Question, QuestionId};
use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};
use tokio::{
    sync::Semaphore,
    task::{AbortHandle, JoinSet},
};

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
                let work = Work {
                    operator: operator.clone(),
                    decider: decider.clone(),
                    seats: Arc::clone(&seats),
                    decided: Arc::default(),
                };
                let decided = Arc::clone(&work.decided);
                asked.insert(id, (tasks.spawn(work.perform(*question)), decided));
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

/// Stops working on a question that is over, unless its answer is on the way: that it was taken is
/// told only after the question's end.
fn give_up(asked: &mut HashMap<QuestionId, (AbortHandle, Arc<AtomicBool>)>, id: &QuestionId) {
    if let Some((task, decided)) = asked.remove(id)
        && !decided.load(Ordering::Relaxed)
    {
        task.abort();
    }
}

/// One question, from being asked to being answered.
#[derive(Debug)]
struct Work {
    operator: Operator,
    decider: Decider,
    seats: Arc<Semaphore>,
    decided: Arc<AtomicBool>,
}

impl Work {
    async fn perform(self, question: Question) {
        let Some(given) = self.decide(&question).await else { return };
        self.decided.store(true, Ordering::Relaxed);
        let told = word(&given);
        let id = &question.question;
        // Without a reader of the log the answers still count.
        let log = || drop(print::line(&format!("{told} {id} {}", card::summary(&question))));
        match self.operator.answer(&question, given).await {
            Ok(_) => log(),
            Err(error) if error.is_only_not_remembered() => {
                log();
                let why = error.wire().map_or("", |wire| &wire.message);
                print::note(&format!("note: the answer to {id}: {why}"));
            }
            Err(error) => {
                print::note(&format!("note: the answer to {id}: {error}"));
                // What was refused for what it says must not leave the agent waiting.
                let why = format!("the handler's answer was refused: {error}");
                let denial = answer(&question, Verdict::Deny, &why);
                drop(self.operator.answer(&question, denial).await);
            }
        }
    }

    async fn decide(&self, question: &Question) -> Option<Answer> {
        let deadline = Instant::now() + Duration::from_millis(question.expires_in_ms);
        match &self.decider {
            Decider::Word(verdict) => {
                Some(answer(question, *verdict, "the operator's policy is to deny"))
            }
            Decider::Program(judge) => {
                let _seat = self.seats.acquire().await.ok()?;
                let left = deadline.saturating_duration_since(Instant::now());
                // A denial that says why must still be in time.
                let reserve = (left / 10).min(Duration::from_millis(500));
                Some(judge.decide(question, left - reserve).await)
            }
        }
    }
}

/// What was decided, in a word and the reason for a no.
pub(crate) fn word(answer: &Answer) -> String {
    match answer.decision() {
        Decision::Approve => "approved".to_owned(),
        Decision::ApproveModified(_) => "approved with other arguments".to_owned(),
        Decision::Deny(deny) => format!("denied ({})", crate::visible::visible(&deny.reason)),
        Decision::ApprovePart(_) => "approved in part".to_owned(),
        Decision::Pass => "passed".to_owned(),
        Decision::Replace(_) => "replaced".to_owned(),
        Decision::Withhold(why) => format!("withheld ({})", crate::visible::visible(&why.reason)),
    }
}
