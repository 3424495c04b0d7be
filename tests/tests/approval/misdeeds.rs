//! Handlers that misbehave, and whoever is none: only a clear yes of somebody who was asked approves,
//! and an agent is never that somebody.

use palisade_client::{Answer, Open, Registration};
use palisade_protocol::{
    ApprovalRequest, Decision, Deny, ErrorCode, Event, Register, Remember, Reply, Request, Review,
    Scope, ServerMessage, Until, wire::Dialect,
};
use palisade_tests::{Desk, Mode, Sandbox, handlers, raw::Raw};
use serde_json::{Value, json};

fn write(content: &str) -> Value {
    json!({"path": "f", "content": content})
}

/// A handler of input by this name, for these tools; for all if there are none.
fn registration(name: &str, tools: &[&str]) -> Register {
    Register {
        name: name.to_owned(),
        reviews: vec![Review::Input],
        tools: tools.iter().map(|tool| tool.parse().unwrap()).collect(),
        priority: 0,
        deadline_ms: None,
        heartbeat_ms: None,
        session: None,
    }
}

#[test]
fn a_handler_that_is_silent_leaves_or_talks_nonsense_denies() {
    for mode in Mode::all() {
        let desk = Desk::new(mode, &handlers("deadline_ms = 300"));
        desk.file("f", "old");
        desk.attach_for(&[Review::Input]);
        let (code, reason) = desk.refused("write_file", write("new"));
        assert_eq!((code, reason.as_str()), (ErrorCode::Denied, "no answer came in time"));
        let connect = || {
            let stream =
                mode.act(|| std::os::unix::net::UnixStream::connect(&desk.daemon.operators));
            Raw::greeted(stream.unwrap(), Dialect::JsonLines)
        };
        desk.sandbox.wait(desk.operator.withdraw()).unwrap();
        let mut operator = connect();
        let registered = operator.ask(Request::Register(registration("program:odd", &[])));
        assert!(matches!(registered, palisade_protocol::Reply::Registered(_)));
        drop(operator);
        let (code, _) = desk.refused("write_file", write("new"));
        assert_eq!(code, ErrorCode::Denied);
        assert_eq!(desk.text("f").as_deref(), Some("old"));
    }
}

#[test]
fn agents_neither_register_nor_answer_and_cells_do_not_reach_the_socket() {
    for mode in Mode::all() {
        let desk = Desk::new(mode, &handlers(""));
        desk.attach_for(&[Review::Input]);
        for dialect in palisade_tests::raw::DIALECTS {
            let mut agent = Raw::greeted(desk.daemon.connect(mode), dialect);
            for request in [
                Request::Register(Register { priority: i32::MAX, ..registration("me", &[]) }),
                Request::Answer(Box::new(palisade_protocol::Answer {
                    request: "q-1".parse().unwrap(),
                    digest: String::new(),
                    decision: Decision::Approve,
                    remember: Some(Remember { scope: Scope::ExactCall, until: Until::Session }),
                })),
                Request::Withdraw,
                Request::Pending,
                Request::Grants,
                Request::Revoke(palisade_protocol::Revoke { id: "g-1".parse().unwrap() }),
                Request::Abort(palisade_protocol::Abort { session: "s-1".parse().unwrap() }),
            ] {
                assert_eq!(agent.refusal(request), ErrorCode::Forbidden);
            }
        }
        let sockets = [&desk.daemon.socket, &desk.daemon.operators];
        for socket in sockets {
            let inside = desk.sandbox.bash(&format!("ls -l {}", socket.display()));
            assert!(!inside.success, "{}", inside.output);
        }
        // Outside, this lookup succeeds.
        assert!(desk.daemon.operators.exists());
    }
}

#[test]
fn a_quorum_is_of_processes_and_not_of_names() {
    for mode in Mode::all() {
        let desk = Desk::new(mode, &handlers("quorum = 2\ndeadline_ms = 60000"));
        desk.file("f", "old");
        desk.attach_for(&[Review::Input]);
        let second = desk.operator();
        desk.sandbox.wait(second.register(Registration::new("person:bob"))).unwrap();
        // Two names, two connections, one process: there are not two to ask.
        let (code, reason) = desk.refused("write_file", write("new"));
        assert_eq!(code, ErrorCode::Denied, "{mode:?}");
        assert_eq!(reason, "fewer approvers are connected than the 2 that the profile requires");
        assert_eq!(desk.text("f").as_deref(), Some("old"), "{mode:?}");
    }
}

/// The misbehaviour of an approver instead of a proper answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Misdeed {
    Silence,
    Leaving,
    Nonsense,
    OtherDigest,
    OtherKind,
    NoSuchRequest,
    Flood,
    YesAfterNo,
    /// A handler that was not asked says yes.
    Stranger,
}

#[test]
fn whatever_a_handler_does_but_a_clear_yes_denies() {
    use Misdeed::*;
    for mode in Mode::all() {
        let desk = Desk::new(mode, &handlers("deadline_ms = 1000"));
        desk.file("f", "old");
        let handler = |tools: &[&str]| {
            let path = &desk.daemon.operators;
            let stream = mode.act(|| std::os::unix::net::UnixStream::connect(path).unwrap());
            let mut raw = Raw::greeted(stream, Dialect::JsonLines);
            let reply = raw.ask(Request::Register(registration("program:odd", tools)));
            assert!(matches!(reply, Reply::Registered(_)), "{reply:?}");
            raw
        };
        let request = |raw: &mut Raw| loop {
            if let Some(ServerMessage::Event(Event::ApprovalRequest(request))) = raw.hear() {
                return *request;
            }
        };
        let answer = |request: &ApprovalRequest, decision: Decision| palisade_protocol::Answer {
            request: request.id.clone(),
            digest: request.digest.clone(),
            decision,
            remember: None,
        };
        let refused = |raw: &mut Raw, answer: palisade_protocol::Answer| {
            let id = raw.send(Request::Answer(Box::new(answer)));
            match raw.reply() {
                (Some(other), Reply::Error(error)) if other == id => error.code,
                (_, other) => panic!("{other:?}"),
            }
        };
        let misdeeds = [
            Silence,
            Leaving,
            Nonsense,
            OtherDigest,
            OtherKind,
            NoSuchRequest,
            Flood,
            YesAfterNo,
            Stranger,
        ];
        for misdeed in misdeeds {
            let mut raw = handler(&["delete_file"]);
            let mut stranger = handler(&["bash"]);
            let result = std::thread::scope(|scope| {
                let call = scope.spawn(|| desk.sandbox.call("delete_file", json!({"path": "f"})));
                let asked = request(&mut raw);
                let yes = answer(&asked, Decision::Approve);
                match misdeed {
                    Silence => {}
                    Leaving => raw.hush(),
                    Nonsense => raw.say(b"yes, of course\n"),
                    OtherDigest => {
                        let other = palisade_protocol::Answer { digest: "0".repeat(64), ..yes };
                        assert_eq!(refused(&mut raw, other), ErrorCode::StaleApproval);
                    }
                    OtherKind => {
                        let other = answer(&asked, Decision::Pass);
                        assert_eq!(refused(&mut raw, other), ErrorCode::InvalidRequest);
                    }
                    NoSuchRequest => {
                        let request = "q-never".parse().unwrap();
                        let other = palisade_protocol::Answer { request, ..yes };
                        assert_eq!(refused(&mut raw, other), ErrorCode::NotFound);
                    }
                    Flood => {
                        for n in 0..500 {
                            let request = format!("q-{n}").parse().unwrap();
                            let other = palisade_protocol::Answer { request, ..yes.clone() };
                            assert_eq!(refused(&mut raw, other), ErrorCode::NotFound);
                        }
                    }
                    YesAfterNo => {
                        let deny = Deny { reason: "no".to_owned(), guidance: String::new() };
                        let no = answer(&asked, Decision::Deny(deny));
                        let id = raw.send(Request::Answer(Box::new(no)));
                        while raw.reply().0 != Some(id) {}
                        assert_eq!(refused(&mut raw, yes), ErrorCode::StaleApproval);
                    }
                    Stranger => {
                        assert_eq!(refused(&mut stranger, yes), ErrorCode::Forbidden);
                    }
                }
                call.join().unwrap()
            });
            let error = result.error.expect("an error");
            assert_eq!(error.code, ErrorCode::Denied, "{mode:?} {misdeed:?}: {}", error.message);
            let checkpoint = result.checkpoint.expect("a checkpoint");
            assert_eq!(checkpoint.decision.as_str(), "denied", "{mode:?} {misdeed:?}");
            assert_eq!(desk.text("f").as_deref(), Some("old"), "{mode:?} {misdeed:?}");
            drop((raw, stranger));
        }
        // The control: with a clear yes the attempt succeeds.
        desk.attach_for(&[Review::Input]);
        let (result, asked) =
            desk.call("delete_file", json!({"path": "f"}), |_| Some(Answer::approve()));
        assert_eq!((result.success, asked.len()), (true, 1), "{mode:?}: {:?}", result.error);
        assert_eq!(desk.text("f"), None, "{mode:?}");
    }
}

#[test]
fn an_approver_of_one_session_is_asked_about_no_other() {
    for mode in Mode::all() {
        let desk = Desk::new(mode, &handlers("deadline_ms = 300000"));
        desk.file("f", "old");
        desk.file("g", "old");
        let other = Sandbox::over(
            desk.daemon.connect(mode),
            None,
            Open::new(desk.world.workspace()).profile("asking"),
        )
        .expect("a session");
        let only = |session: &str| {
            let registration = Registration::new("program:one").session(&session.parse().unwrap());
            desk.sandbox.wait(desk.operator.register(registration))
        };
        let error = only("s-never").expect_err("there is no such session");
        assert_eq!(error.code(), Some(ErrorCode::NotFound), "{error}");
        only(desk.sandbox.session.id().as_str()).unwrap();
        // The other session's call is not asked about, and it can not be approved.
        let denied = other.call("delete_file", json!({"path": "g"}));
        let error = denied.error.expect("denied");
        assert!(error.message.contains("no approver is connected"), "{error:?}");
        assert_eq!(desk.text("g").as_deref(), Some("old"), "{mode:?}");
        // The control: its own session's call is.
        let (result, asked) =
            desk.call("delete_file", json!({"path": "f"}), |_| Some(Answer::approve()));
        assert_eq!((result.success, asked.len()), (true, 1), "{mode:?}: {:?}", result.error);
        assert_eq!(desk.text("f"), None, "{mode:?}");
    }
}
