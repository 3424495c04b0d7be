//! An approver without a person: a program or a fixed answer decides every approval request.

use crate::{
    approve::card,
    approve::judge::ApproverProgram,
    approve::signals::Signals,
    failure::Failure,
    operator::answer::{Verdict, answer},
    print,
};
use palisade_client::{Answer, ApprovalId, ApprovalRequest, Decision, Operator, OperatorEvent};
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

/// The interval of this approver's pings, and the longest silence that the daemon accepts.
pub(crate) const BEAT: Duration = Duration::from_secs(5);
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(30);

/// The maximum number of programs that run at once.
const PROGRAMS: usize = 8;

/// The source of the decisions.
#[derive(Debug, Clone)]
pub(crate) enum Decider {
    /// A program.
    Program(ApproverProgram),
    /// Always the same answer.
    Word(Verdict),
}

/// Answers approval requests until the connection or this process ends. Returns the exit status.
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
            Some(OperatorEvent::ApprovalRequest(request)) => {
                let id = request.id.clone();
                let work = Work {
                    operator: operator.clone(),
                    decider: decider.clone(),
                    seats: Arc::clone(&seats),
                    decided: Arc::default(),
                };
                let decided = Arc::clone(&work.decided);
                asked.insert(id, (tasks.spawn(work.perform(*request)), decided));
            }
            Some(OperatorEvent::Over(over)) => give_up(&mut asked, &over.request),
            Some(_) => {}
            None => break Err(operator.ended().into()),
        }
    };
    // Programs that still run are ended here, not with the runtime.
    tasks.shutdown().await;
    ended
}

/// Tells the daemon that this approver is alive, without waiting for the reply. If the daemon is
/// gone, its event stream ends.
pub(crate) fn live(operator: &Operator) {
    let operator = operator.clone();
    tokio::spawn(async move { operator.ping().await });
}

/// Stops working on an approval request that is over, unless its answer is already being sent. The
/// daemon reports the end of the request before it confirms the answer.
fn give_up(asked: &mut HashMap<ApprovalId, (AbortHandle, Arc<AtomicBool>)>, id: &ApprovalId) {
    if let Some((task, decided)) = asked.remove(id)
        && !decided.load(Ordering::Relaxed)
    {
        task.abort();
    }
}

/// One approval request, from its arrival to its answer.
#[derive(Debug)]
struct Work {
    operator: Operator,
    decider: Decider,
    seats: Arc<Semaphore>,
    decided: Arc<AtomicBool>,
}

impl Work {
    async fn perform(self, request: ApprovalRequest) {
        let Some(given) = self.decide(&request).await else { return };
        self.decided.store(true, Ordering::Relaxed);
        let told = word(&given);
        let id = &request.id;
        // If nobody reads the log, the answers still count.
        let line = format!("{told} {id} {}", card::summary(&request));
        let log = |missing| drop(print::line(&card::with_missing(line, missing)));
        match self.operator.answer(&request, given).await {
            Ok(answered) => log(answered.missing),
            Err(error) if error.is_remember_refusal() => {
                log(0);
                let why = error.wire().map_or("", |wire| &wire.message);
                print::note(&format!("note: the answer to {id}: {why}"));
            }
            Err(error) => {
                print::note(&format!("note: the answer to {id}: {error}"));
                // If the answer was refused for its contents, the agent must not be left waiting:
                // deny.
                let why = format!("the approver's answer was refused: {error}");
                let denial = answer(&request, Verdict::Deny, &why);
                drop(self.operator.answer(&request, denial).await);
            }
        }
    }

    async fn decide(&self, request: &ApprovalRequest) -> Option<Answer> {
        let deadline = Instant::now() + Duration::from_millis(request.expires_in_ms);
        match &self.decider {
            Decider::Word(verdict) => {
                Some(answer(request, *verdict, "the operator's policy is to deny"))
            }
            Decider::Program(judge) => {
                let _seat = self.seats.acquire().await.ok()?;
                let left = deadline.saturating_duration_since(Instant::now());
                // A denial with a reason must still arrive in time.
                let reserve = (left / 10).min(Duration::from_millis(500));
                Some(judge.decide(request, left - reserve).await)
            }
        }
    }
}

/// Describes the decision in a word, with the reason if it is a denial.
pub(crate) fn word(answer: &Answer) -> String {
    match answer.decision() {
        Decision::Approve => "approved".to_owned(),
        Decision::ApproveModified(_) => "approved with changed arguments".to_owned(),
        Decision::Deny(deny) => format!("denied ({})", crate::visible::visible(&deny.reason)),
        Decision::ApprovePart(_) => "approved in part".to_owned(),
        Decision::Pass => "passed".to_owned(),
        Decision::Replace(_) => "replaced".to_owned(),
        Decision::Withhold(why) => format!("withheld ({})", crate::visible::visible(&why.reason)),
    }
}
