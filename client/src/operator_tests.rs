//! Operators against a scripted daemon.

use crate::{
    Answer, Error, ErrorCode, Operator, OperatorEvent, Registration, Scope, Until, WireError,
    fake::Fake,
};
use palisade_protocol::{
    Answered, ApprovalClosed, ApprovalOutcome, ApprovalRequest, CallStarted, DecidedBy, Decision,
    Deny, Event, Pending, Register, Registered, Remember, Reply, Request, Review, ServerMessage,
    limits::VERSION,
};
use std::time::Duration;
use tokio::net::UnixStream;

async fn connected() -> (Operator, Fake) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut fake = Fake::on(theirs);
    let (operator, ()) = tokio::join!(Operator::from_stream(ours), fake.greet(VERSION));
    (operator.unwrap(), fake)
}

fn request(id: &str) -> ApprovalRequest {
    let text = format!(
        r#"{{"id":"{id}","digest":"d-{id}","review":"input","asker":{{"uid":1000,"pid":1,
        "unit":null,"session":"s1","profile":"default","workspace":"/w"}},"call_id":"c1",
        "tool":"bash","arguments":{{"command":"rm x"}},"cwd":"/w","reason":null,
        "reverse_thinking":null,"findings":[],"why":"ask","view":{{"lines":[],"targets":[],
        "diff":null,"diff_cut":false}},"output":null,"scopes":[],"prefix":[],
        "expires_in_ms":60000}}"#
    );
    serde_json::from_str(&text).unwrap()
}

fn started() -> Event {
    Event::CallStarted(CallStarted {
        session: "s1".parse().unwrap(),
        call_id: "c1".parse().unwrap(),
        tool: "bash".parse().unwrap(),
        arguments: palisade_protocol::JsonText::default(),
        reason: None,
    })
}

#[tokio::test]
async fn a_handler_registers_hears_and_answers_with_the_digest() {
    let (operator, mut fake) = connected().await;
    let registration = Registration::new("person:ann")
        .reviews([Review::Input, Review::Output])
        .tool("bash")
        .priority(3)
        .deadline(Duration::from_secs(60))
        .heartbeat(Duration::from_secs(5))
        .session(&"s-1".parse().unwrap());
    let daemon = async {
        let asked = fake.next().await;
        let handler = "h-1".parse().unwrap();
        fake.reply(asked.id, Reply::Registered(Registered { handler })).await;
        asked.request
    };
    let (handler, asked) = tokio::join!(operator.register(registration), daemon);
    assert_eq!(handler.unwrap().as_str(), "h-1");
    let expected = Register {
        name: "person:ann".to_owned(),
        reviews: vec![Review::Input, Review::Output],
        tools: vec!["bash".parse().unwrap()],
        priority: 3,
        deadline_ms: Some(60_000),
        heartbeat_ms: Some(5000),
        session: Some("s-1".parse().unwrap()),
    };
    assert_eq!(asked, Request::Register(expected));

    let event = Event::ApprovalRequest(Box::new(request("q-1")));
    fake.send(&ServerMessage::Event(event)).await;
    let Some(OperatorEvent::ApprovalRequest(asked)) = operator.next().await else {
        panic!("no request")
    };
    assert_eq!(*asked, request("q-1"));
    let answer = Answer::approve().remember(Scope::ExactCall, Until::Session);
    let daemon = async {
        let asked = fake.next().await;
        let grant = Some("g-1".parse().unwrap());
        fake.reply(asked.id, Reply::Answered(Answered { grant, missing: 1 })).await;
        asked.request
    };
    let (answered, told) = tokio::join!(operator.answer(&asked, answer), daemon);
    let answered = answered.unwrap();
    assert_eq!((answered.grant.unwrap().as_str(), answered.missing), ("g-1", 1));
    let expected = palisade_protocol::Answer {
        request: "q-1".parse().unwrap(),
        digest: "d-q-1".to_owned(),
        decision: Decision::Approve,
        remember: Some(Remember { scope: Scope::ExactCall, until: Until::Session }),
    };
    assert_eq!(told, Request::Answer(Box::new(expected)));
}

#[tokio::test]
async fn a_stale_answer_is_an_error_with_its_code() {
    let (operator, mut fake) = connected().await;
    let daemon = async {
        let asked = fake.next().await;
        let error = WireError::new(ErrorCode::StaleApproval, "it is over", "");
        fake.reply(asked.id, Reply::Error(error)).await;
        asked.request
    };
    let asked = request("q-2");
    let answer = Answer::deny("no").guidance("ask first");
    let (refused, told) = tokio::join!(operator.answer(&asked, answer), daemon);
    assert_eq!(refused.unwrap_err().code(), Some(ErrorCode::StaleApproval));
    let Request::Answer(told) = told else { panic!("{told:?}") };
    let deny = Deny { reason: "no".to_owned(), guidance: "ask first".to_owned() };
    assert_eq!(told.decision, Decision::Deny(deny));
}

#[tokio::test]
async fn an_answer_of_another_kind_is_not_taken_for_one() {
    let (operator, mut fake) = connected().await;
    let daemon = async {
        let asked = fake.next().await;
        fake.reply(asked.id, Reply::Done).await;
    };
    let asked = request("q-3");
    let (refused, ()) = tokio::join!(operator.answer(&asked, Answer::approve()), daemon);
    assert!(matches!(refused, Err(Error::Protocol(_))), "{refused:?}");
}

#[tokio::test]
async fn requests_come_through_a_flood_of_news_that_nobody_read() {
    let (operator, mut fake) = connected().await;
    for _ in 0..5000 {
        fake.send(&ServerMessage::Event(started())).await;
    }
    fake.send(&ServerMessage::Event(Event::ApprovalRequest(Box::new(request("q-4"))))).await;
    let over = ApprovalClosed {
        request: "q-4".parse().unwrap(),
        outcome: ApprovalOutcome::Denied,
        by: DecidedBy::Default,
    };
    fake.send(&ServerMessage::Event(Event::ApprovalClosed(over.clone()))).await;
    // The answer arrives although events wait; once it has arrived, all events before it have too.
    let daemon = async {
        let asked = fake.next().await;
        fake.reply(asked.id, Reply::Pending(Pending { requests: vec![request("q-4")] })).await;
    };
    let (pending, ()) = tokio::join!(operator.pending(), daemon);
    assert_eq!(pending.unwrap(), [request("q-4")]);
    drop(fake);
    let (mut news, mut lost, mut rest) = (0, 0, Vec::new());
    while let Some(event) = operator.next().await {
        match event {
            OperatorEvent::CallStarted(_) => news += 1,
            OperatorEvent::Lost { events, bytes: 0 } => lost += events,
            other @ (OperatorEvent::ApprovalRequest(_)
            | OperatorEvent::Over(_)
            | OperatorEvent::Approved(_)
            | OperatorEvent::Approval(_)
            | OperatorEvent::CallEnded(_)
            | OperatorEvent::Denied(_)
            | OperatorEvent::CallOutput { .. }
            | OperatorEvent::Lost { .. }) => rest.push(other),
        }
    }
    assert_eq!((news, lost), (4096, 904));
    let expected =
        [OperatorEvent::ApprovalRequest(Box::new(request("q-4"))), OperatorEvent::Over(over)];
    assert_eq!(rest, expected);
    assert!(matches!(operator.ended(), Error::Disconnected(_)));
}

#[tokio::test]
async fn the_handler_is_gone_with_the_last_clone() {
    let (operator, mut fake) = connected().await;
    let other = operator.clone();
    drop(operator);
    assert!(fake.is_silent().await, "a clone is left");
    drop(other);
    assert!(fake.try_next().await.is_none());
}

/// The next answer that the daemon is given; it replies with `reply`.
async fn next_answer(fake: &mut Fake, reply: Reply) -> (String, Decision) {
    let asked = fake.next().await;
    let Request::Answer(answer) = asked.request else { panic!("{:?}", asked.request) };
    fake.reply(asked.id, reply).await;
    (answer.request.to_string(), answer.decision)
}

fn answered() -> Reply {
    Reply::Answered(Answered { grant: None, missing: 0 })
}

fn refused(code: ErrorCode) -> Reply {
    Reply::Error(WireError::new(code, "not like this", ""))
}

async fn ask(fake: &mut Fake, id: &str) {
    fake.send(&ServerMessage::Event(Event::ApprovalRequest(Box::new(request(id))))).await;
}

fn deny(reason: &str) -> Decision {
    Decision::Deny(Deny { reason: reason.to_owned(), guidance: String::new() })
}

async fn registered(fake: &mut Fake) {
    let asked = fake.next().await;
    assert!(matches!(asked.request, Request::Register(_)), "{:?}", asked.request);
    fake.reply(asked.id, Reply::Registered(Registered { handler: "h-1".parse().unwrap() })).await;
}

#[tokio::test]
async fn a_function_answers_each_request_and_is_dropped_with_one_that_is_over() {
    let (operator, mut fake) = connected().await;
    let (started, mut starts) = tokio::sync::mpsc::unbounded_channel();
    let decide = move |request: ApprovalRequest| {
        let started = started.clone();
        async move {
            let dropped = started.clone();
            started.send(request.id.to_string()).unwrap();
            match request.id.as_str() {
                "q-slow" => {
                    let _guard = Dropped(dropped);
                    std::future::pending().await
                }
                "q-panic" => panic!("on purpose"),
                _ => Answer::approve(),
            }
        }
    };
    let daemon = async {
        registered(&mut fake).await;
        ask(&mut fake, "q-slow").await;
        assert_eq!(starts.recv().await.unwrap(), "q-slow");
        // Others are answered while one is slow.
        ask(&mut fake, "q-1").await;
        let told = next_answer(&mut fake, answered()).await;
        assert_eq!(told, ("q-1".to_owned(), Decision::Approve));
        ask(&mut fake, "q-panic").await;
        let told = next_answer(&mut fake, answered()).await;
        assert_eq!(told, ("q-panic".to_owned(), deny("the approver's function panicked")));
        // An answer that comes too late costs nothing; one that is refused is a denial.
        ask(&mut fake, "q-late").await;
        next_answer(&mut fake, refused(ErrorCode::StaleApproval)).await;
        ask(&mut fake, "q-refused").await;
        next_answer(&mut fake, refused(ErrorCode::InvalidArguments)).await;
        let (id, decision) = next_answer(&mut fake, answered()).await;
        assert_eq!(id, "q-refused");
        let Decision::Deny(denial) = decision else { panic!("{decision:?}") };
        assert!(denial.reason.starts_with("the approver's answer was refused: "), "{denial:?}");
        let over = ApprovalClosed {
            request: "q-slow".parse().unwrap(),
            outcome: ApprovalOutcome::Denied,
            by: DecidedBy::Default,
        };
        fake.send(&ServerMessage::Event(Event::ApprovalClosed(over))).await;
        while starts.recv().await.unwrap() != "dropped" {}
        drop(fake);
    };
    let registration = Registration::new("program:test");
    let (ended, ()) = tokio::join!(operator.handle(registration, decide), daemon);
    assert!(matches!(ended, Err(Error::Disconnected(_))), "{ended:?}");
}

/// Tells that it was dropped.
struct Dropped(tokio::sync::mpsc::UnboundedSender<String>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.send("dropped".to_owned()).unwrap();
    }
}

#[tokio::test]
async fn a_promised_heartbeat_is_sent_while_a_function_answers() {
    let (operator, mut fake) = connected().await;
    let daemon = async {
        registered(&mut fake).await;
        for _ in 0..3 {
            let asked = fake.next().await;
            assert_eq!(asked.request, Request::Ping);
            fake.reply(asked.id, Reply::Pong).await;
        }
        drop(fake);
    };
    let registration = Registration::new("program:test").heartbeat(Duration::from_millis(50));
    let never = |_| async { Answer::deny("nobody asks") };
    let (ended, ()) = tokio::join!(operator.handle(registration, never), daemon);
    assert!(matches!(ended, Err(Error::Disconnected(_))), "{ended:?}");
}
