//! Operators against a daemon that says what a test tells it to.

use crate::{
    Answer, Error, ErrorCode, Operator, OperatorEvent, Registration, Scope, Until, WireError,
    fake::Fake,
};
use palisade_protocol::{
    Answered, CallStarted, Decision, Deny, Event, Pending, Question, QuestionOver, Register,
    Registered, Remember, Reply, Request, Review, ServerMessage, limits::VERSION,
};
use std::time::Duration;
use tokio::net::UnixStream;

async fn connected() -> (Operator, Fake) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let mut fake = Fake::on(theirs);
    let (operator, ()) = tokio::join!(Operator::from_stream(ours), fake.greet(VERSION));
    (operator.unwrap(), fake)
}

fn question(id: &str) -> Question {
    let text = format!(
        r#"{{"question":"{id}","digest":"d-{id}","review":"input","asker":{{"uid":1000,"pid":1,
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
        .heartbeat(Duration::from_secs(5));
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
    };
    assert_eq!(asked, Request::Register(expected));

    let event = Event::Question(Box::new(question("q-1")));
    fake.send(&ServerMessage::Event(event)).await;
    let Some(OperatorEvent::Question(asked)) = operator.next().await else { panic!("no question") };
    assert_eq!(*asked, question("q-1"));
    let answer = Answer::approve().remember(Scope::ExactCall, Until::Session);
    let daemon = async {
        let asked = fake.next().await;
        let grant = Some("g-1".parse().unwrap());
        fake.reply(asked.id, Reply::Answered(Answered { grant })).await;
        asked.request
    };
    let (grant, told) = tokio::join!(operator.answer(&asked, answer), daemon);
    assert_eq!(grant.unwrap().unwrap().as_str(), "g-1");
    let expected = palisade_protocol::Answer {
        question: "q-1".parse().unwrap(),
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
    let asked = question("q-2");
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
    let asked = question("q-3");
    let (refused, ()) = tokio::join!(operator.answer(&asked, Answer::approve()), daemon);
    assert!(matches!(refused, Err(Error::Protocol(_))), "{refused:?}");
}

#[tokio::test]
async fn questions_come_through_a_flood_of_news_that_nobody_read() {
    let (operator, mut fake) = connected().await;
    for _ in 0..5000 {
        fake.send(&ServerMessage::Event(started())).await;
    }
    fake.send(&ServerMessage::Event(Event::Question(Box::new(question("q-4"))))).await;
    let over = QuestionOver {
        question: "q-4".parse().unwrap(),
        outcome: "expired".to_owned(),
        by: "deadline".to_owned(),
    };
    fake.send(&ServerMessage::Event(Event::QuestionOver(over.clone()))).await;
    // An answer comes through as well, and when it is here everything before it is.
    let daemon = async {
        let asked = fake.next().await;
        fake.reply(asked.id, Reply::Pending(Pending { questions: vec![question("q-4")] })).await;
    };
    let (pending, ()) = tokio::join!(operator.pending(), daemon);
    assert_eq!(pending.unwrap(), [question("q-4")]);
    drop(fake);
    let (mut news, mut lost, mut rest) = (0, 0, Vec::new());
    while let Some(event) = operator.next().await {
        match event {
            OperatorEvent::CallStarted(_) => news += 1,
            OperatorEvent::Lost { events, bytes: 0 } => lost += events,
            other @ (OperatorEvent::Question(_)
            | OperatorEvent::Over(_)
            | OperatorEvent::Approval(_)
            | OperatorEvent::CallEnded(_)
            | OperatorEvent::Denied(_)
            | OperatorEvent::CallOutput { .. }
            | OperatorEvent::Lost { .. }) => rest.push(other),
        }
    }
    assert_eq!((news, lost), (4096, 904));
    let expected = [OperatorEvent::Question(Box::new(question("q-4"))), OperatorEvent::Over(over)];
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
