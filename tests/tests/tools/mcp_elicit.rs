//! Approval in the agent's own client, by elicitation: only where the profile lets it, and never for
//! what could be lost. The client here accepts everything by itself. The host is the witness.

use palisade_client::{
    Answer, Ask, ErrorCode, Open, Operator, OperatorEvent, Registration, Review, Scope, Until,
};
use palisade_tests::{Daemon, Desk, Mcp, Mode, Sandbox, World, handlers, mcp_text as text};
use serde_json::{Value, json};
use std::fs;

/// Lets the agent's client answer.
const LETS: &str = "agent_client = true";

/// The answer of a client that accepts everything by itself.
fn accepts() -> Value {
    json!({"action": "accept", "content": {"approve": true}})
}

/// A world with a daemon, and a file that must not be lost.
struct Stage {
    world: World,
    daemon: Daemon,
}

impl Stage {
    fn new(mode: Mode, settings: &str) -> Self {
        let world = World::new(mode);
        world.add_profile("asking", &handlers(settings));
        let kept = world.workspace().join("kept");
        fs::write(&kept, "precious\n").unwrap();
        world.give(&kept);
        let daemon = world.daemon();
        Self { world, daemon }
    }

    /// Starts the server for a client that can be asked.
    fn start(&self, options: &[&str]) -> Mcp {
        self.start_for(&json!({"elicitation": {}}), options)
    }

    /// Starts the server for a client with these capabilities.
    fn start_for(&self, capabilities: &Value, options: &[&str]) -> Mcp {
        let workspace = self.world.workspace();
        let words = ["--socket", self.daemon.socket.to_str().unwrap(), "--workspace"];
        let words = words.into_iter().chain([workspace.to_str().unwrap(), "--profile", "asking"]);
        let words: Vec<&str> = words.chain(options.iter().copied()).collect();
        let mut mcp = Mcp::start(&self.world, &words);
        let client = json!({"name": "eager", "version": "1"});
        let params = json!({"protocolVersion": "2025-11-25", "clientInfo": client,
            "capabilities": capabilities});
        mcp.ask("initialize", params);
        mcp.notify("notifications/initialized", json!({}));
        mcp
    }

    fn kept(&self) -> String {
        fs::read_to_string(self.world.workspace().join("kept")).unwrap_or_default()
    }
}

/// A person on the operator socket, who denies what is asked.
struct Operators {
    runtime: tokio::runtime::Runtime,
    operator: Operator,
}

impl Operators {
    fn connect(stage: &Stage) -> Self {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let connect = || std::os::unix::net::UnixStream::connect(&stage.daemon.operators).unwrap();
        let stream = stage.world.mode.act(connect);
        stream.set_nonblocking(true).unwrap();
        let operator = runtime.block_on(async {
            let stream = tokio::net::UnixStream::from_std(stream).unwrap();
            let operator = Operator::from_stream(stream).await.unwrap();
            operator.register(Registration::new("person:test")).await.unwrap();
            operator
        });
        Self { runtime, operator }
    }

    /// Waits for the next approval request, and denies it.
    fn deny(&self) {
        self.runtime.block_on(async {
            loop {
                if let Some(OperatorEvent::ApprovalRequest(request)) = self.operator.next().await {
                    self.operator.answer(&request, Answer::deny("no")).await.unwrap();
                    return;
                }
            }
        });
    }
}

/// Makes a call, and answers each elicitation. Returns the text of the result, and the messages that
/// the client was shown.
fn call(mcp: &mut Mcp, tool: &str, arguments: Value, answer: &Value) -> (String, Vec<String>) {
    let id = mcp.send("tools/call", json!({"name": tool, "arguments": arguments}));
    let mut shown = Vec::new();
    loop {
        let message = mcp.hear();
        if message["method"] == "elicitation/create" {
            shown.push(message["params"]["message"].as_str().unwrap().to_owned());
            mcp.respond(&message["id"], answer);
        } else if message["id"] == json!(id) {
            return (text(&message["result"]), shown);
        }
    }
}

fn bash(mcp: &mut Mcp, line: &str, answer: &Value) -> (String, Vec<String>) {
    call(mcp, "bash", json!({"command": line}), answer)
}

#[test]
fn the_agents_client_approves_only_where_nothing_can_be_lost() {
    for mode in Mode::all() {
        let stage = Stage::new(mode, LETS);
        let mut mcp = stage.start(&["--elicit", "--ask", "sensitive"]);
        let (said, shown) = bash(&mut mcp, "echo on > new && cat new", &accepts());
        assert_eq!(said.lines().next(), Some("on"), "{mode:?}: {said}");
        assert_eq!(shown.len(), 1, "{mode:?}: {shown:?}");
        assert!(shown[0].starts_with("Palisade: bash needs approval ("), "{shown:?}");
        assert!(shown[0].contains("echo on > new && cat new"), "{shown:?}");
        assert!(stage.world.workspace().join("new").exists(), "{mode:?}");
        // What a command would lose is reviewed apart, by an approver that is not there.
        let (said, shown) =
            bash(&mut mcp, "f=kept; python3 -c \"import os; os.remove('$f')\"", &accepts());
        assert!(said.contains("Denied: "), "{mode:?}: {said}");
        assert!(shown.len() <= 1, "{mode:?}: never about the effects: {shown:?}");
        for (tool, arguments) in [
            ("bash", json!({"command": "rm kept"})),
            ("bash", json!({"command": "rm kept", "background": true, "route": "direct"})),
            ("delete_file", json!({"path": "kept"})),
            ("write_file", json!({"path": "kept", "content": ""})),
            ("write_file", json!({"path": ".git/hooks/pre-commit", "content": "#!/bin/sh\n"})),
        ] {
            let (said, shown) = call(&mut mcp, tool, arguments.clone(), &accepts());
            assert!(said.contains("Denied: "), "{mode:?}: {tool} {arguments}: {said}");
            assert_eq!(shown, Vec::<String>::new(), "{mode:?}: {tool} {arguments}");
        }
        mcp.end();
        assert_eq!(stage.kept(), "precious\n", "{mode:?}");
        let files = fs::read_dir(stage.world.state().join("audit")).unwrap();
        let log: String =
            files.filter_map(|file| fs::read_to_string(file.unwrap().path()).ok()).collect();
        assert!(log.contains("\"agent-client:eager\""), "{mode:?}: {log}");
    }
}

#[test]
fn the_agents_client_is_not_asked_unless_profile_and_user_say_so() {
    let quorum = format!("{LETS}\nquorum = 2");
    for mode in Mode::all() {
        for (settings, options) in [("", &["--elicit"][..]), (LETS, &[]), (&quorum, &["--elicit"])]
        {
            let stage = Stage::new(mode, settings);
            let mut mcp = stage.start(&[&["--ask", "sensitive"], options].concat());
            let (said, shown) = bash(&mut mcp, "echo on > new", &accepts());
            assert!(said.contains("Denied: "), "{mode:?}: {settings}: {said}");
            assert_eq!(shown, Vec::<String>::new(), "{mode:?}: {settings}");
            mcp.end();
            assert!(!stage.world.workspace().join("new").exists(), "{mode:?}: {settings}");
        }
    }
}

/// The client is shown where a call can be approved. That it accepts the address approves nothing.
#[test]
fn a_client_that_shows_addresses_is_told_where_a_call_can_be_approved() {
    const PAGE: &str = "https://approvals.example/queue";
    for mode in Mode::all() {
        let stage = Stage::new(mode, "");
        let desk = Operators::connect(&stage);
        let able = json!({"elicitation": {"url": {}}});
        let mut mcp = stage.start_for(&able, &["--approve-at", PAGE]);
        let id =
            mcp.send("tools/call", json!({"name": "bash", "arguments": {"command": "rm kept"}}));
        let shown = mcp.hear();
        assert_eq!(shown["method"], "elicitation/create", "{mode:?}: {shown}");
        assert_eq!(
            (&shown["params"]["mode"], &shown["params"]["url"]),
            (&json!("url"), &json!(PAGE))
        );
        assert!(
            shown["params"]["message"].as_str().unwrap().contains("bash is waiting"),
            "{shown}"
        );
        mcp.respond(&shown["id"], &json!({"action": "accept"}));
        desk.deny();
        let denied = mcp.answer(id)["result"].clone();
        assert!(text(&denied).contains("Denied: "), "{mode:?}: {denied}");
        mcp.end();
        // Neither a client that shows only forms nor one without the option is told.
        for (able, options) in
            [(json!({"elicitation": {}}), &["--approve-at", PAGE][..]), (able, &[])]
        {
            let mut mcp = stage.start_for(&able, options);
            let call = json!({"name": "bash", "arguments": {"command": "rm kept"}});
            let id = mcp.send("tools/call", call);
            desk.deny();
            assert_eq!(mcp.hear()["id"], json!(id), "{mode:?}: nothing else is said");
            mcp.end();
        }
        assert_eq!(stage.kept(), "precious\n", "{mode:?}");
    }
}

#[test]
fn anything_but_a_clear_yes_of_the_client_denies() {
    for mode in Mode::all() {
        let stage = Stage::new(mode, LETS);
        let mut mcp = stage.start(&["--elicit", "--ask", "sensitive"]);
        for answer in [
            json!({"action": "accept"}),
            json!({"action": "accept", "content": {}}),
            json!({"action": "accept", "content": {"approve": false}}),
            json!({"action": "decline"}),
            json!({"action": "cancel", "content": {"approve": true}}),
        ] {
            let (said, shown) = bash(&mut mcp, "echo on > new", &answer);
            assert!(said.contains("not approved in the agent's client"), "{answer}: {said}");
            assert_eq!(shown.len(), 1, "{mode:?}: {answer}");
        }
        assert!(!stage.world.workspace().join("new").exists(), "{mode:?}");
        // What is no answer withdraws the client: nobody is there any more.
        let (said, shown) = bash(&mut mcp, "echo on > new", &json!({"action": "maybe"}));
        assert!(said.contains("Denied: "), "{mode:?}: {said}");
        assert_eq!(shown.len(), 1, "{mode:?}");
        mcp.end();
        assert!(!stage.world.workspace().join("new").exists(), "{mode:?}");
    }
}

/// A person who is connected decides, whatever the client says before.
#[test]
fn an_approver_is_above_the_agents_client() {
    for mode in Mode::all() {
        let desk = Desk::asking(mode, &handlers("agent_client = true"), Ask::Sensitive);
        desk.attach_for(&[Review::Input]);
        let session = desk.sandbox.session.clone();
        let own = Registration::new("eager").priority(i32::MAX).reviews([Review::Input]);
        desk.sandbox.wait(session.register(own)).unwrap();
        let call = session.bash("echo on > new");
        let (result, by) = desk.sandbox.wait(async {
            let answers = async {
                let Some(OperatorEvent::ApprovalRequest(request)) = session.client().heard().await
                else {
                    panic!("it is asked")
                };
                session.answer(&request, Answer::approve()).await.unwrap();
                // Its one vote is given, and more than a vote it has not.
                let again = session.answer(&request, Answer::approve()).await.unwrap_err();
                assert_eq!(again.code(), Some(ErrorCode::StaleApproval));
                assert_eq!(desk.operator.pending().await.unwrap().len(), 1, "{mode:?}");
                desk.operator.answer(&request, Answer::deny("not now")).await.unwrap();
            };
            let (result, ()) = tokio::join!(call, answers);
            let result = result.unwrap();
            let by = result.checkpoint.clone().unwrap().by;
            (result, by)
        });
        assert!(!result.success && by.approver() == Some("person:ann"), "{mode:?}: {by}");
        assert_eq!(desk.text("new"), None, "{mode:?}");
    }
}

/// An agent's connection answers nothing that it was not asked, and an operator does not pose as one.
#[test]
fn a_client_answers_only_requests_of_its_own_session_that_it_was_asked() {
    for mode in Mode::all() {
        let desk = Desk::asking(mode, &handlers("agent_client = true"), Ask::Sensitive);
        desk.attach();
        desk.file("kept", "precious\n");
        let open = Open::new(desk.world.workspace()).profile("asking").ask(Ask::Sensitive);
        let other = Sandbox::over(desk.daemon.connect(mode), None, open).unwrap();
        let posing = Registration::new("agent-client:x");
        let refused = desk.sandbox.wait(desk.operator().register(posing)).unwrap_err();
        assert_eq!(refused.code(), Some(ErrorCode::InvalidRequest), "{mode:?}");
        desk.sandbox.wait(other.session.register(Registration::new("other"))).unwrap();
        let (session, forbidden) = (&desk.sandbox.session, Some(ErrorCode::Forbidden));
        let lose = async { session.bash("rm kept").await.unwrap() };
        let (result, seen) = desk.during(lose, async |request| {
            // Not registered; of another session; registered and not asked, because of the loss.
            for own in [session, &other.session] {
                let refused = own.answer(request, Answer::approve()).await.unwrap_err();
                assert_eq!(refused.code(), forbidden, "{mode:?}");
            }
            session.register(Registration::new("own")).await.unwrap();
            let refused = session.answer(request, Answer::approve()).await.unwrap_err();
            assert_eq!(refused.code(), forbidden, "{mode:?}: {:?}", request.review);
            session.withdraw().await.unwrap();
            desk.operator.answer(request, Answer::deny("no")).await.unwrap();
        });
        assert!(!result.success && !seen.is_empty(), "{mode:?}: {result:?}");
        assert_eq!(desk.text("kept").as_deref(), Some("precious\n"), "{mode:?}");
        // A client that is asked can not have its answer remembered, or change the call.
        desk.sandbox.wait(session.register(Registration::new("own"))).unwrap();
        let harmless = async { session.bash("echo on > new").await.unwrap() };
        let (result, _) = desk.during(harmless, async |request| {
            let remembered = Answer::approve().remember(Scope::ExactCall, Until::Session);
            let changed = Answer::approve_modified(&json!({"command": "rm kept"})).unwrap();
            for answer in [remembered, changed] {
                let refused = session.answer(request, answer).await.unwrap_err();
                assert_eq!(refused.code(), forbidden, "{mode:?}");
            }
            desk.operator.answer(request, Answer::approve()).await.unwrap();
        });
        assert!(result.success, "{mode:?}: {result:?}");
    }
}
