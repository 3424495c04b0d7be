//! Every way an approval request can end: with a clear approval, and all that end in a denial.

mod quorum;
mod remembered;

use super::*;
use crate::{
    approval::{coverage::ReviewedPart, prepared::Stakes},
    base::outbox::QueuedMessage,
};
use palisade_policy::{Facts, Handlers, Profile};
use palisade_protocol::{
    Answer, Answered, Asker, DecidedBy, Decision, Deny, Event, JsonText, Modified, Remember,
    Replace, Review, ServerMessage, ToolName, View, Withhold,
};
use std::sync::Arc;
use tokio::{sync::mpsc, task::JoinHandle};

fn limits(handlers: &str) -> Handlers {
    let text = format!(
        "version = 1\ndescription = \"test\"\n[fs]\nworkspace = \"write\"\nexecute = [\"/usr\"]\n\
         [handlers]\n{handlers}\n"
    );
    Profile::parse("test", &text).unwrap().handlers().clone()
}

fn prepared(digest: &str, handlers: &str) -> PreparedRequest {
    let session: SessionId = "s-1".parse().unwrap();
    let tool: ToolName = "bash".parse().unwrap();
    let request = ApprovalRequest {
        id: "q-0".parse().unwrap(),
        digest: digest.to_owned(),
        review: Review::Input,
        asker: Asker {
            uid: 1,
            pid: 2,
            unit: None,
            session: session.clone(),
            profile: "test".to_owned(),
            workspace: "/w".into(),
        },
        call_id: "c-1".parse().unwrap(),
        tool: tool.clone(),
        arguments: JsonText::default(),
        cwd: "/w".into(),
        reason: None,
        reverse_thinking: None,
        findings: Vec::new(),
        why: "ask".to_owned(),
        view: View::default(),
        output: None,
        scopes: Vec::new(),
        prefix: Vec::new(),
        remember_ms: 0,
        quorum: 1,
        approved_by: Vec::new(),
        expires_in_ms: 0,
    };
    let claim = ApprovalKey {
        session,
        uid: 1,
        profile: "test".to_owned(),
        profile_digest: "p".to_owned(),
        tool,
        exact: [7; 32],
        exact_words: None,
        facts: Facts::default(),
        part: ReviewedPart::Call,
    };
    let (limits, stakes) = (limits(handlers), Stakes::Loss);
    PreparedRequest { request, claim, limits, patience: None, stakes }
}

fn output(digest: &str) -> PreparedRequest {
    let mut prepared = prepared(digest, "");
    prepared.request.review = Review::Output;
    prepared
}

struct Handler {
    desk: Arc<Approvals>,
    connection: ConnectionNumber,
    events: mpsc::Receiver<QueuedMessage>,
}

fn register(name: &str) -> Register {
    Register {
        name: name.to_owned(),
        reviews: vec![Review::Input, Review::Output],
        tools: Vec::new(),
        priority: 0,
        deadline_ms: None,
        heartbeat_ms: None,
        session: None,
    }
}

fn approver(name: &str) -> DecidedBy {
    DecidedBy::Approver(name.to_owned())
}

fn approved(by: DecidedBy) -> Verdict {
    Verdict::Approved { by, kept: Vec::new() }
}

/// Each connection belongs to another process.
fn from(connection: ConnectionNumber) -> Answerer {
    Answerer { connection, uid: 0, pid: u32::try_from(connection).ok() }
}

fn attach(desk: &Arc<Approvals>, connection: ConnectionNumber, register: Register) -> Handler {
    let (outbox, events) = mpsc::channel(8);
    desk.attach(from(connection), register, outbox).unwrap();
    Handler { desk: Arc::clone(desk), connection, events }
}

impl Handler {
    async fn request(&mut self) -> ApprovalRequest {
        loop {
            let message = self.events.recv().await.unwrap().message;
            if let ServerMessage::Event(Event::ApprovalRequest(request)) = message {
                return *request;
            }
            let is_news = matches!(
                message,
                ServerMessage::Event(Event::ApprovalClosed(_) | Event::ApprovalGiven(_))
            );
            assert!(is_news, "{message:?}");
        }
    }

    fn answer(&self, request: &ApprovalRequest, decision: Decision) -> Result<Answered, WireError> {
        self.answer_with(request, &request.digest, decision, None)
    }

    fn answer_with(
        &self,
        request: &ApprovalRequest,
        digest: &str,
        decision: Decision,
        remember: Option<Remember>,
    ) -> Result<Answered, WireError> {
        let from = from(self.connection);
        let (request, digest) = (request.id.clone(), digest.to_owned());
        self.desk.answer(from, Answer { request, digest, decision, remember })
    }
}

fn ask(desk: &Arc<Approvals>, prepared: PreparedRequest) -> JoinHandle<Verdict> {
    let desk = Arc::clone(desk);
    tokio::spawn(async move {
        let mut prepared = prepared;
        desk.announce(&mut prepared).unwrap();
        desk.ask(prepared).await.verdict
    })
}

fn deny() -> Decision {
    Decision::Deny(Deny { reason: "no".to_owned(), guidance: "do x".to_owned() })
}

fn reason(verdict: Verdict) -> String {
    match verdict {
        Verdict::Denied { by, reason, .. } => {
            assert_eq!(by, DecidedBy::Default);
            reason
        }
        other @ (Verdict::Approved { .. }
        | Verdict::Modified { .. }
        | Verdict::Replaced { .. }
        | Verdict::Part { .. }) => {
            panic!("{other:?}")
        }
    }
}

fn code(result: Result<Answered, WireError>) -> ErrorCode {
    result.unwrap_err().code
}

/// Asserts that no request is left that could still be answered.
fn assert_over(desk: &Approvals) {
    assert_eq!(desk.pending(), []);
}

#[tokio::test(start_paused = true)]
async fn yes_no_and_something_else_instead() {
    let desk = Arc::new(Approvals::default());
    let mut ann = attach(&desk, 1, register("ann"));
    let by = approver("ann");
    let arguments = JsonText::parse("{\"command\":\"ls\"}".to_owned()).unwrap();
    let modified = Decision::ApproveModified(Modified { arguments: arguments.clone() });
    for (prepared, decision, expected) in [
        (prepared("d", ""), Decision::Approve, approved(by.clone())),
        (prepared("d", ""), modified, Verdict::Modified { by: by.clone(), arguments }),
        (
            prepared("d", ""),
            deny(),
            Verdict::Denied {
                by: by.clone(),
                reason: "no".to_owned(),
                guidance: "do x".to_owned(),
            },
        ),
        (output("d"), Decision::Pass, approved(by.clone())),
        (
            output("d"),
            Decision::Replace(Replace { output: "o".to_owned(), data: None }),
            Verdict::Replaced { by: by.clone(), output: "o".to_owned(), data: None },
        ),
        (
            output("d"),
            Decision::Withhold(Withhold { reason: "w".to_owned() }),
            Verdict::Denied { by: by.clone(), reason: "w".to_owned(), guidance: String::new() },
        ),
    ] {
        let asked = ask(&desk, prepared);
        let request = ann.request().await;
        assert_eq!(desk.pending().len(), 1);
        assert_eq!(ann.answer(&request, decision), Ok(Answered { grant: None, missing: 0 }));
        assert_eq!(asked.await.unwrap(), expected);
        assert_over(&desk);
    }
}

#[tokio::test(start_paused = true)]
async fn nobody_there_is_a_no() {
    let desk = Arc::new(Approvals::default());
    let none = "no approver is connected";
    assert_eq!(reason(ask(&desk, prepared("d", "")).await.unwrap()), none);
    let files = Register { tools: vec!["write_file".parse().unwrap()], ..register("files") };
    let _files = attach(&desk, 1, files);
    assert_eq!(reason(ask(&desk, prepared("d", "")).await.unwrap()), none);
    let outputs = Register { reviews: vec![Review::Output], ..register("outputs") };
    let _outputs = attach(&desk, 2, outputs);
    let elsewhere = Register { session: Some("s-other".parse().unwrap()), ..register("other") };
    let _elsewhere = attach(&desk, 3, elsewhere);
    assert_eq!(reason(ask(&desk, prepared("d", "grace_ms = 1000")).await.unwrap()), none);
    assert_over(&desk);
}

#[tokio::test(start_paused = true)]
async fn a_handler_may_attach_within_the_grace_time() {
    let desk = Arc::new(Approvals::default());
    let asked = ask(&desk, prepared("d", "grace_ms = 1000"));
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut ann = attach(&desk, 1, register("ann"));
    let request = ann.request().await;
    ann.answer(&request, Decision::Approve).unwrap();
    assert_eq!(asked.await.unwrap(), approved(approver("ann")));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_is_not_ready_is_a_no() {
    let desk = Arc::new(Approvals::default());
    let (outbox, events) = mpsc::channel(1);
    outbox
        .try_send(ServerMessage::Reply { id: None, reply: palisade_protocol::Reply::Pong }.into())
        .unwrap();
    desk.attach(from(1), register("full"), outbox).unwrap();
    assert_eq!(
        reason(ask(&desk, prepared("d", "")).await.unwrap()),
        "no connected approver is ready"
    );
    drop(events);
    assert_eq!(
        reason(ask(&desk, prepared("d", "")).await.unwrap()),
        "no connected approver is ready"
    );
    let beating = Register { heartbeat_ms: Some(100), ..register("hung") };
    let _hung = attach(&desk, 1, beating);
    tokio::time::sleep(Duration::from_millis(200)).await;
    let silent = reason(ask(&desk, prepared("d", "")).await.unwrap());
    assert_eq!(silent, "no approver is connected");
    assert_over(&desk);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_hangs_is_a_no_and_one_that_beats_is_waited_for() {
    let desk = Arc::new(Approvals::default());
    let beating = || Register { heartbeat_ms: Some(100), ..register("ann") };
    let _hung = attach(&desk, 1, beating());
    let verdict = ask(&desk, prepared("d", "")).await.unwrap();
    assert_eq!(reason(verdict), "the approver stopped responding");
    let mut alive = attach(&desk, 2, beating());
    let asked = ask(&desk, prepared("d", ""));
    let request = alive.request().await;
    for _beat in 0..10 {
        tokio::time::sleep(Duration::from_millis(50)).await;
        desk.heard(2);
    }
    alive.answer(&request, Decision::Approve).unwrap();
    assert!(matches!(asked.await.unwrap(), Verdict::Approved { .. }));
}

#[tokio::test(start_paused = true)]
async fn silence_is_a_no_whoever_sets_the_deadline() {
    let desk = Arc::new(Approvals::default());
    let _slow = attach(&desk, 1, Register { deadline_ms: Some(1000), ..register("slow") });
    let late = "no answer came in time";
    let start = Instant::now();
    assert_eq!(reason(ask(&desk, prepared("d", "deadline_ms = 50")).await.unwrap()), late);
    assert_eq!(start.elapsed().as_millis(), 50);
    assert_eq!(reason(ask(&desk, prepared("d", "")).await.unwrap()), late);
    assert_eq!(start.elapsed().as_millis(), 1050);
    let mut impatient = prepared("d", "");
    impatient.patience = Some(Duration::from_millis(10));
    assert_eq!(reason(ask(&desk, impatient).await.unwrap()), late);
    assert_eq!(start.elapsed().as_millis(), 1060);
    assert_over(&desk);
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_comes_late_or_twice_is_stale() {
    let desk = Arc::new(Approvals::default());
    let mut ann = attach(&desk, 1, register("ann"));
    let asked = ask(&desk, prepared("d", "deadline_ms = 50"));
    let request = ann.request().await;
    assert_eq!(reason(asked.await.unwrap()), "no answer came in time");
    assert_eq!(code(ann.answer(&request, Decision::Approve)), ErrorCode::StaleApproval);
    let asked = ask(&desk, prepared("d", ""));
    let request = ann.request().await;
    ann.answer(&request, deny()).unwrap();
    assert_eq!(code(ann.answer(&request, Decision::Approve)), ErrorCode::StaleApproval);
    assert!(matches!(asked.await.unwrap(), Verdict::Denied { .. }));
}

#[tokio::test(start_paused = true)]
async fn the_first_of_two_answers_counts_while_others_are_waited_for() {
    let desk = Arc::new(Approvals::default());
    let mut low = attach(&desk, 1, register("low"));
    let mut high = attach(&desk, 2, Register { priority: 9, ..register("high") });
    let asked = ask(&desk, prepared("d", ""));
    let request = low.request().await;
    low.answer(&request, Decision::Approve).unwrap();
    assert_eq!(code(low.answer(&request, deny())), ErrorCode::StaleApproval);
    high.request().await;
    high.answer(&request, Decision::Approve).unwrap();
    assert_eq!(asked.await.unwrap(), approved(approver("high")));
}

#[tokio::test(start_paused = true)]
async fn the_hint_names_approvers_that_can_reach_the_daemon() {
    for (access, named) in [
        (ApproverAccess::Socket, "connect an approver with `palisade approve`"),
        (ApproverAccess::PrivateClient, "`palisade approve` can not reach this private daemon"),
    ] {
        let desk = Arc::new(Approvals::new(access));
        let verdict = ask(&desk, prepared("d", "")).await.unwrap();
        let Verdict::Denied { guidance, .. } = &verdict else { panic!("{verdict:?}") };
        assert!(guidance.starts_with(named), "{guidance}");
    }
}

#[tokio::test(start_paused = true)]
async fn any_no_is_a_no() {
    let desk = Arc::new(Approvals::default());
    let low = attach(&desk, 1, register("low"));
    let mut high = attach(&desk, 2, Register { priority: 9, ..register("high") });
    let asked = ask(&desk, prepared("d", ""));
    let request = high.request().await;
    low.answer(&request, deny()).unwrap();
    assert!(matches!(asked.await.unwrap(), Verdict::Denied { by, .. } if by == approver("low")));
    assert_eq!(code(high.answer(&request, Decision::Approve)), ErrorCode::StaleApproval);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_digest_or_kind_is_refused_and_denies() {
    let desk = Arc::new(Approvals::default());
    let mut ann = attach(&desk, 1, register("ann"));
    let asked = ask(&desk, prepared("right", ""));
    let request = ann.request().await;
    let wrong = ann.answer_with(&request, "wrong", Decision::Approve, None);
    assert_eq!(code(wrong), ErrorCode::StaleApproval);
    assert_eq!(reason(asked.await.unwrap()), "the answer did not match the approval request");
    let asked = ask(&desk, prepared("right", ""));
    let request = ann.request().await;
    assert_eq!(code(ann.answer(&request, Decision::Pass)), ErrorCode::InvalidRequest);
    assert_eq!(reason(asked.await.unwrap()), "the answer did not fit the kind of review");
    assert_eq!(code(ann.answer(&request, Decision::Approve)), ErrorCode::StaleApproval);
    assert_over(&desk);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_id_answers_nothing() {
    let desk = Arc::new(Approvals::default());
    let mut ann = attach(&desk, 1, register("ann"));
    let asked = ask(&desk, prepared("d", "deadline_ms = 50"));
    let mut request = ann.request().await;
    request.id = "q-other".parse().unwrap();
    assert_eq!(code(ann.answer(&request, Decision::Approve)), ErrorCode::NotFound);
    assert_eq!(reason(asked.await.unwrap()), "no answer came in time");
}

#[tokio::test(start_paused = true)]
async fn who_was_not_asked_does_not_answer() {
    let desk = Arc::new(Approvals::default());
    let mut ann = attach(&desk, 1, register("ann"));
    let other = Register { tools: vec!["write_file".parse().unwrap()], ..register("other") };
    let other = attach(&desk, 2, other);
    let asked = ask(&desk, prepared("d", ""));
    let request = ann.request().await;
    assert_eq!(code(other.answer(&request, Decision::Approve)), ErrorCode::Forbidden);
    ann.answer(&request, deny()).unwrap();
    asked.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_leaves_is_a_no() {
    let desk = Arc::new(Approvals::default());
    let gone = "the approver disconnected before it answered";
    let mut ann = attach(&desk, 1, register("ann"));
    let asked = ask(&desk, prepared("d", ""));
    ann.request().await;
    desk.detach(1);
    assert_eq!(reason(asked.await.unwrap()), gone);
    // An approver of lower priority does not replace it.
    let mut high = attach(&desk, 2, Register { priority: 9, ..register("high") });
    let low = attach(&desk, 3, register("low"));
    let asked = ask(&desk, prepared("d", ""));
    let request = high.request().await;
    low.answer(&request, Decision::Approve).unwrap();
    desk.detach(2);
    assert_eq!(reason(asked.await.unwrap()), gone);
    assert_over(&desk);
}

#[tokio::test(start_paused = true)]
async fn the_same_request_is_asked_once_and_a_flood_is_denied() {
    let desk = Arc::new(Approvals::default());
    let mut ann = attach(&desk, 1, register("ann"));
    let first = ask(&desk, prepared("same", "max_pending = 2"));
    let second = ask(&desk, prepared("same", "max_pending = 2"));
    let request = ann.request().await;
    tokio::task::yield_now().await;
    assert_eq!(desk.pending().len(), 1);
    let other = ask(&desk, prepared("other", "max_pending = 2"));
    let different = ann.request().await;
    let flood = reason(ask(&desk, prepared("third", "max_pending = 2")).await.unwrap());
    assert_eq!(flood, "2 approval requests of this session are already waiting");
    ann.answer(&request, Decision::Approve).unwrap();
    assert!(matches!(first.await.unwrap(), Verdict::Approved { .. }));
    assert!(matches!(second.await.unwrap(), Verdict::Approved { .. }));
    ann.answer(&different, deny()).unwrap();
    other.await.unwrap();
    assert_over(&desk);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_goes_takes_its_request_along() {
    let desk = Arc::new(Approvals::default());
    let mut ann = attach(&desk, 1, register("ann"));
    let (first, second) = (ask(&desk, prepared("d", "")), ask(&desk, prepared("d", "")));
    let request = ann.request().await;
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    assert_eq!(desk.pending().len(), 1);
    second.abort();
    assert!(second.await.unwrap_err().is_cancelled());
    assert_over(&desk);
    assert_eq!(code(ann.answer(&request, Decision::Approve)), ErrorCode::StaleApproval);
    let asked = ask(&desk, prepared("d", ""));
    ann.request().await;
    desk.end_session(&"s-1".parse().unwrap());
    assert_eq!(reason(asked.await.unwrap()), "the session has ended");
}

#[tokio::test(start_paused = true)]
async fn an_operator_answers_without_being_a_handler() {
    let desk = Arc::new(Approvals::default());
    let asked = ask(&desk, prepared("d", "grace_ms = 1000"));
    tokio::task::yield_now().await;
    let request = desk.pending().remove(0);
    let from = Answerer { connection: 9, uid: 42, pid: None };
    let (id, digest) = (request.id.clone(), request.digest.clone());
    let wrong = Answer {
        request: id.clone(),
        digest: "x".to_owned(),
        decision: Decision::Approve,
        remember: None,
    };
    assert_eq!(code(desk.answer(from, wrong)), ErrorCode::StaleApproval);
    assert_eq!(desk.pending().len(), 1);
    let right = Answer { request: id, digest, decision: Decision::Approve, remember: None };
    desk.answer(from, right).unwrap();
    assert_eq!(asked.await.unwrap(), approved(approver("operator:42")));
}

/// An agent's client is asked only about its own session, where nothing can be lost, and where its
/// approval is enough.
#[tokio::test]
async fn an_agents_client_is_asked_only_where_nothing_can_be_lost() {
    let harmless =
        |handlers: &str| PreparedRequest { stakes: Stakes::NoLoss, ..prepared("a", handlers) };
    let refused = [
        harmless(""),
        harmless("agent_client = true\nquorum = 2"),
        prepared("a", "agent_client = true"),
        PreparedRequest { stakes: Stakes::NoLoss, ..output("a") },
    ];
    for (own, prepared) in refused
        .into_iter()
        .map(|prepared| ("s-1", prepared))
        .chain([("s-2", harmless("agent_client = true"))])
    {
        let desk = Arc::new(Approvals::default());
        let (outbox, _events) = mpsc::channel(8);
        let register = Register { reviews: vec![Review::Input], ..register("eager") };
        desk.attach_client(own.parse().unwrap(), from(1), register, outbox).unwrap();
        let verdict = ask(&desk, prepared).await.unwrap();
        assert!(
            matches!(&verdict, Verdict::Denied { by, .. } if *by == DecidedBy::Default),
            "{verdict:?}"
        );
    }
    let desk = Arc::new(Approvals::default());
    let (outbox, events) = mpsc::channel(8);
    desk.attach_client("s-1".parse().unwrap(), from(1), register("eager"), outbox).unwrap();
    let mut client = Handler { desk: Arc::clone(&desk), connection: 1, events };
    let asked = ask(&desk, harmless("agent_client = true"));
    let request = client.request().await;
    let (id, digest) = (request.id.clone(), request.digest.clone());
    let yes = Answer { request: id, digest, decision: Decision::Approve, remember: None };
    // A connection that is not registered is no operator.
    let stranger = desk.answer_of_client(from(2), yes.clone()).unwrap_err();
    assert_eq!(stranger.code, ErrorCode::Forbidden);
    desk.answer_of_client(from(1), yes).unwrap();
    assert_eq!(asked.await.unwrap(), approved(DecidedBy::AgentClient("eager".to_owned())));
}
