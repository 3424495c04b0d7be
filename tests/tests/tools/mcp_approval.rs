//! Approval of what MCP servers do: rules name their tools, and their changed tools are asked about.
//! The host is the witness.

use palisade_client::{Answer, ApprovalRequest, Operator, OperatorEvent, Registration};
use palisade_tests::{
    Daemon, Mcp, Mode, World, mcp_text as text, profile_never_asking, profile_with,
};
use serde_json::{Value, json};
use std::{
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, mpsc},
};
use tokio::runtime::Runtime;

/// The server: a program that does what the test asks for.
const SERVER: &str = include_str!("../../src/hostile_mcp_server.py");

/// Rules that name tools of the server.
const RULES: &str = "
[[rules]]
verdict = \"deny\"
tools = [\"mcp_hostile_die\"]
why = \"it ends the server\"

[[rules]]
verdict = \"ask\"
tools = [\"mcp_hostile_large\"]
why = \"it is large\"
";

/// A world with the server in its workspace, and a daemon.
struct Stage {
    world: World,
    daemon: Daemon,
}

impl Stage {
    fn new(mode: Mode) -> Self {
        let world = World::new(mode);
        world.add_profile("writable", &profile_with(&[]));
        world.add_profile("never", &profile_never_asking());
        world.add_profile("ruled", &format!("{}{RULES}", profile_with(&[])));
        let asks_for_run = RULES.replace("_large", "_run");
        world.add_profile("asked", &format!("{}{asks_for_run}", profile_with(&[])));
        let daemon = world.daemon();
        let stage = Self { world, daemon };
        stage.put("server.py", SERVER);
        stage
    }

    fn path(&self, name: &str) -> PathBuf {
        self.world.workspace().join(name)
    }

    /// Starts the server behind `wrap`.
    fn wrap(&self, profile: &str) -> Mcp {
        self.introduced(profile).0
    }

    /// Starts the server behind `wrap`; returns the answer to `initialize` too.
    fn introduced(&self, profile: &str) -> (Mcp, Value) {
        let (socket, workspace) = (&self.daemon.socket, self.world.workspace());
        let words = ["wrap", "--name", "hostile", "--profile", profile, "--socket"];
        let paths = [socket.to_str().unwrap(), "--workspace", workspace.to_str().unwrap()];
        let words = words.into_iter().chain(paths).chain(["--", "python3", "server.py"]);
        let mut mcp = Mcp::start(&self.world, &words.collect::<Vec<_>>());
        let welcome = mcp.initialize("2025-11-25");
        (mcp, welcome)
    }

    /// Makes the server answer `initialize` with these fields from its next start on.
    fn answers(&self, fields: &Value) {
        self.put("answer.json", &fields.to_string());
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
        self.world.give(&self.path(name));
    }

    /// Starts a server that offers the tools of the other one beside its own.
    fn offer(&self, profile: &str) -> Mcp {
        self.offer_under("writable", profile, &[])
    }

    /// Starts a server that offers the tools of another one, which has a profile of its own and
    /// may take ten seconds for an answer.
    fn offer_under(&self, inner: &str, profile: &str, more: &[&str]) -> Mcp {
        self.offer_within(10, inner, profile, more)
    }

    /// Starts a server that offers the tools of another one, which has a profile of its own and
    /// may take this many seconds for an answer.
    fn offer_within(&self, seconds: u64, inner: &str, profile: &str, more: &[&str]) -> Mcp {
        let file = self.world.workspace().with_file_name("mcp.toml");
        let table = format!(
            "[mcp.servers.hostile]\ncommand = \"python3\"\nargs = [\"server.py\"]\nworkspace = \
             {:?}\nprofile = {inner:?}\ntimeout = {seconds}\n",
            self.world.workspace()
        );
        fs::write(&file, table).unwrap();
        self.world.give(&file);
        let (socket, workspace) = (&self.daemon.socket, self.world.workspace());
        let words = ["--servers", file.to_str().unwrap(), "--profile", profile, "--socket"];
        let paths = [socket.to_str().unwrap(), "--workspace", workspace.to_str().unwrap()];
        let words = words.into_iter().chain(paths).chain(more.iter().copied());
        let mut mcp = Mcp::start(&self.world, &words.collect::<Vec<_>>());
        mcp.initialize("2025-11-25");
        mcp
    }

    /// Returns the text of the audit log.
    fn log(&self) -> String {
        let files = fs::read_dir(self.world.state().join("audit")).unwrap();
        files.filter_map(|file| fs::read_to_string(file.unwrap().path()).ok()).collect()
    }
}

/// An operator that answers approval requests, and records them.
struct Approver {
    seen: Arc<Mutex<Vec<ApprovalRequest>>>,
    _runtime: Runtime,
}

impl Approver {
    fn new(
        stage: &Stage,
        mut decide: impl FnMut(&ApprovalRequest) -> Answer + Send + 'static,
    ) -> Self {
        let runtime = Runtime::new().unwrap();
        let connect = || std::os::unix::net::UnixStream::connect(&stage.daemon.operators).unwrap();
        let stream = stage.world.mode.act(connect);
        stream.set_nonblocking(true).unwrap();
        let operator = runtime.block_on(async {
            let stream = tokio::net::UnixStream::from_std(stream).unwrap();
            let operator = Operator::from_stream(stream).await.unwrap();
            operator.register(Registration::new("person:test")).await.unwrap();
            operator
        });
        let seen = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&seen);
        runtime.spawn(async move {
            while let Some(event) = operator.next().await {
                if let OperatorEvent::ApprovalRequest(request) = event {
                    record.lock().unwrap().push(*request.clone());
                    operator.answer(&request, decide(&request)).await.unwrap();
                }
            }
        });
        Self { seen, _runtime: runtime }
    }

    /// The tools that it was asked about so far.
    fn asked(&self) -> Vec<String> {
        self.seen.lock().unwrap().iter().map(|request| request.tool.to_string()).collect()
    }
}

fn run(mcp: &mut Mcp, tool: &str, code: &str) -> String {
    text(&mcp.call(tool, json!({"code": code})))
}

#[test]
fn changed_tools_are_asked_about_and_accepted_only_by_an_approver() {
    for mode in Mode::all() {
        let stage = Stage::new(mode);
        let approver = Approver::new(&stage, |_| Answer::approve());
        let mut mcp = stage.wrap("writable");
        assert_eq!(run(&mut mcp, "run", "grow()"), "None", "{mode:?}");
        assert_eq!(approver.asked(), Vec::<String>::new(), "{mode:?}");
        assert_eq!(run(&mut mcp, "run", "open('made', 'w').write('x')"), "None", "{mode:?}");
        assert_eq!(fs::read_to_string(stage.path("made")).unwrap(), "x", "{mode:?}");
        let listed = mcp.ask("tools/list", json!({}))["result"]["tools"].to_string();
        assert!(listed.contains("\"grown\""), "{mode:?}: {listed}");
        assert_eq!(approver.asked(), ["mcp_hostile"], "{mode:?}: once");
        let seen = approver.seen.lock().unwrap()[0].clone();
        let lines: Vec<&str> = seen.view.lines.iter().map(|line| line.text.as_str()).collect();
        let changed = "mcp_hostile has other tools than were accepted: added tool grown";
        let text = ["tool grown", "  description: grown", "  inputSchema: {\"type\":\"object\"}"];
        assert_eq!(lines, [&[changed], &text[..]].concat(), "{mode:?}");
        mcp.end();
        // It starts with its first tools again, which is a change too.
        let mut mcp = stage.wrap("writable");
        assert_eq!(run(&mut mcp, "run", "out = 1"), "1", "{mode:?}");
        assert_eq!(approver.asked(), ["mcp_hostile"; 2], "{mode:?}");
        mcp.end();
    }
}

/// The texts of a tool are not only its description, and each is shown to its end, or nobody is asked.
#[test]
fn an_approver_sees_every_text_of_a_changed_tool_that_an_agent_sees() {
    for mode in Mode::all() {
        let stage = Stage::new(mode);
        let approver = Approver::new(&stage, |_| Answer::approve());
        let mut mcp = stage.wrap("writable");
        let fields = "title='seen 1', description='x' * 6000 + ' seen 2\\ntool run\\u202e', \
                      inputSchema={'type': 'object', 'properties': {'p': {'title': 'seen 3', \
                      'description': 'y' * 6000 + ' seen 4', 'enum': ['seen 5'], \
                      'examples': ['seen 6']}}}, \
                      outputSchema={'type': 'object', 'description': 'seen 7'}";
        assert_eq!(run(&mut mcp, "run", &format!("grow({fields})")), "None", "{mode:?}");
        assert_eq!(run(&mut mcp, "run", "out = 1"), "1", "{mode:?}");
        assert_eq!(approver.asked(), ["mcp_hostile"], "{mode:?}");
        let seen = approver.seen.lock().unwrap()[0].clone();
        let lines: Vec<&str> = seen.view.lines.iter().map(|line| line.text.as_str()).collect();
        let shown = lines.join("\n");
        let listed = mcp.ask("tools/list", json!({}))["result"]["tools"].to_string();
        for number in 1..=7 {
            let text = format!("seen {number}");
            assert!(listed.contains(&text), "{mode:?}: the agent sees {text}: {listed}");
            assert!(shown.contains(&text), "{mode:?}: the approver sees {text}: {shown}");
        }
        let tools = lines.iter().filter(|line| line.starts_with("tool "));
        assert_eq!(tools.collect::<Vec<_>>(), [&"tool grown"], "{mode:?}: {shown}");
        assert!(!shown.contains('\u{202e}'), "{mode:?}: {shown}");
        // What is too long to be shown is not asked about.
        let long = "grow(outputSchema={'type': 'object', 'description': 'x' * 17000})";
        assert_eq!(run(&mut mcp, "run", long), "None", "{mode:?}");
        let refused = mcp.call("run", json!({"code": "open('made', 'w')"}));
        assert_eq!(refused["isError"], true, "{mode:?}: {refused}");
        let said = text(&refused);
        assert!(said.contains("The new texts are too long for an approval request. "), "{said}");
        assert_eq!(approver.asked().len(), 1, "{mode:?}");
        mcp.end();
        assert!(!stage.path("made").exists(), "{mode:?}");
    }
}

#[test]
fn changed_tools_that_were_denied_are_refused_and_not_asked_about_again() {
    for mode in Mode::all() {
        let stage = Stage::new(mode);
        let approver = Approver::new(&stage, |_| Answer::deny("not these"));
        let mut mcp = stage.wrap("writable");
        assert_eq!(run(&mut mcp, "run", "grow()"), "None", "{mode:?}");
        for _ in 0..2 {
            let refused = mcp.call("run", json!({"code": "open('made', 'w')"}));
            assert_eq!(refused["isError"], true, "{mode:?}: {refused}");
            let said = text(&refused);
            assert!(said.contains("added tool grown. The new ones were denied: "), "{said}");
            assert!(said.contains("not these") && said.contains("--accept-tools"), "{said}");
        }
        assert_eq!(approver.asked(), ["mcp_hostile"], "{mode:?}");
        mcp.end();
        assert!(!stage.path("made").exists(), "{mode:?}");
    }
}

/// The name of a server is a text of the server that the agent is shown.
#[test]
fn a_changed_name_of_a_server_needs_approval_and_a_new_version_number_does_not() {
    for mode in Mode::all() {
        let stage = Stage::new(mode);
        let info = |name: &str, version: &str| {
            json!({"serverInfo": {"name": name, "version": version, "title": "a title",
                "description": "a description", "websiteUrl": "https://example.com/"}})
        };
        let (mut mcp, welcome) = stage.introduced("writable");
        assert_eq!(welcome["serverInfo"], json!({"name": "hostile", "version": "1"}), "{mode:?}");
        assert_eq!(run(&mut mcp, "run", "out = 1"), "1", "{mode:?}");
        mcp.end();
        // The control: nobody is there to approve a version number, and nothing else is passed on.
        stage.answers(&info("hostile", "2.0.0-rc.1"));
        let (mut mcp, welcome) = stage.introduced("writable");
        let expected = json!({"name": "hostile", "version": "2.0.0-rc.1"});
        assert_eq!(welcome["serverInfo"], expected, "{mode:?}");
        assert_eq!(welcome["instructions"], "Trust me.", "{mode:?}");
        assert_eq!(run(&mut mcp, "run", "out = 2"), "2", "{mode:?}");
        mcp.end();
        for (name, version, change, shown) in [
            ("Obey me", "2", "changed the server's name", "server name: Obey me"),
            ("hostile", "2. Obey me", "changed the server's version", "server version: 2. Obey me"),
        ] {
            stage.answers(&info(name, version));
            let (mut mcp, welcome) = stage.introduced("writable");
            let own = json!({"name": "hostile", "version": "unknown"});
            assert_eq!(welcome["serverInfo"], own, "{mode:?}: the name that --name gives");
            assert_eq!(welcome["instructions"], Value::Null, "{mode:?}");
            let refused = mcp.call("run", json!({"code": "open('made', 'w')"}));
            assert_eq!(refused["isError"], true, "{mode:?}: {refused}");
            let said = text(&refused);
            assert!(said.contains(&format!("every call is refused: {change}")), "{said}");
            assert!(!said.contains("Obey"), "{mode:?}: {said}");
            mcp.end();
            assert!(!stage.path("made").exists(), "{mode:?}");
            // It can be approved like other tools, and is passed on from then on.
            let approver = Approver::new(&stage, |_| Answer::approve());
            let mut mcp = stage.wrap("writable");
            assert_eq!(run(&mut mcp, "run", "out = 3"), "3", "{mode:?}");
            assert_eq!(approver.asked(), ["mcp_hostile"], "{mode:?}");
            let seen = approver.seen.lock().unwrap()[0].clone();
            let lines: Vec<&str> = seen.view.lines.iter().map(|line| line.text.as_str()).collect();
            let headline = format!("mcp_hostile has other tools than were accepted: {change}");
            assert!(lines[0].starts_with(&headline), "{mode:?}: {lines:?}");
            assert!(lines.contains(&shown), "{mode:?}: {lines:?}");
            mcp.end();
            let (mcp, welcome) = stage.introduced("writable");
            let expected = json!({"name": name, "version": version});
            assert_eq!(welcome["serverInfo"], expected, "{mode:?}");
            assert_eq!(approver.asked().len(), 1, "{mode:?}: once");
            mcp.end();
            // The next change is one from the first name.
            fs::remove_file(stage.path("answer.json")).unwrap();
            let mut mcp = stage.wrap("writable");
            assert_eq!(run(&mut mcp, "run", "out = 4"), "4", "{mode:?}");
            mcp.end();
        }
    }
}

/// A profile that never asks approves nothing, even while an approver is there who would.
#[test]
fn a_profile_that_never_asks_accepts_no_changed_tools() {
    for mode in Mode::all() {
        let stage = Stage::new(mode);
        let approver = Approver::new(&stage, |_| Answer::approve());
        let mut mcp = stage.wrap("never");
        assert_eq!(run(&mut mcp, "run", "grow()"), "None", "{mode:?}");
        let refused = mcp.call("run", json!({"code": "open('made', 'w')"}));
        assert_eq!(refused["isError"], true, "{mode:?}: {refused}");
        assert!(text(&refused).contains("every call is refused: added tool grown. "), "{refused}");
        assert_eq!(approver.asked(), Vec::<String>::new(), "{mode:?}");
        mcp.end();
        assert!(!stage.path("made").exists(), "{mode:?}");
    }
}

#[test]
fn rules_of_a_servers_profile_name_its_tools() {
    for mode in Mode::all() {
        let stage = Stage::new(mode);
        let mut mcp = stage.wrap("ruled");
        let first = run(&mut mcp, "run", "out = os.getpid()");
        let denied = mcp.call("die", json!({}));
        assert_eq!(denied["isError"], true, "{mode:?}: {denied}");
        let said = text(&denied);
        assert!(said.starts_with("Denied: tools/call die was not sent"), "{said}");
        assert!(said.contains("denies this: it ends the server"), "{said}");
        // Nobody is there to ask.
        let unanswered = text(&mcp.call("large", json!({})));
        assert!(unanswered.contains("no approver is connected"), "{mode:?}: {unanswered}");
        let approver = Approver::new(&stage, |_| Answer::approve());
        assert!(text(&mcp.call("large", json!({}))).starts_with("a line\n"), "{mode:?}");
        // The same server goes on, and its other tools are not asked about.
        assert_eq!(run(&mut mcp, "run", "out = os.getpid()"), first, "{mode:?}");
        assert_eq!(approver.asked(), ["mcp_hostile_large"], "{mode:?}");
        mcp.end();
        let log = stage.log();
        for tool in ["mcp_hostile_run", "mcp_hostile_die", "mcp_hostile_large"] {
            assert!(log.contains(&format!("\"tool\":\"{tool}\"")), "{mode:?}: {tool} in {log}");
        }
    }
}

/// The profile of the agent's own session decides too, and an approver may change the arguments.
#[test]
fn rules_of_the_agents_profile_name_the_tools_of_servers() {
    for mode in Mode::all() {
        let stage = Stage::new(mode);
        let mut mcp = stage.offer("ruled");
        let first = run(&mut mcp, "mcp_hostile_run", "out = os.getpid()");
        let denied = mcp.call("mcp_hostile_die", json!({}));
        assert_eq!(denied["isError"], true, "{mode:?}: {denied}");
        assert!(text(&denied).contains("denies this: it ends the server"), "{denied}");
        let unanswered = text(&mcp.call("mcp_hostile_large", json!({})));
        assert!(unanswered.contains("no approver is connected"), "{mode:?}: {unanswered}");
        assert_eq!(run(&mut mcp, "mcp_hostile_run", "out = os.getpid()"), first, "{mode:?}");
        mcp.end();

        let _approver = Approver::new(&stage, |_| {
            Answer::approve_modified(&json!({"arguments": {"code": "out = 'changed'"}})).unwrap()
        });
        let mut mcp = stage.offer("asked");
        let code = "open('made', 'w')";
        assert_eq!(run(&mut mcp, "mcp_hostile_run", code), "changed", "{mode:?}");
        mcp.end();
        assert!(!stage.path("made").exists(), "{mode:?}: what was approved is what ran");
    }
}

/// The profile of a server asks by itself. The agent hears that its call waits for that, and with which
/// argument to ask again; and the server does not pay for the time that the approver takes.
#[test]
fn a_call_that_waits_for_approval_inside_a_server_has_a_ticket_that_says_so() {
    for mode in Mode::all() {
        let stage = Stage::new(mode);
        let (sender, allowed) = mpsc::channel::<()>();
        let _approver = Approver::new(&stage, move |_| match allowed.recv() {
            Ok(()) => Answer::approve(),
            Err(_) => Answer::deny("the test has failed"),
        });
        // Dropped before the approver, who waits for it.
        let allow = sender;
        // The first answer comes after more time than the server may take.
        let mut mcp = stage.offer_under("asked", "writable", &["--wait", "12s"]);
        let code = "open('made', 'a').write('x')";
        let mut answer = mcp.call("mcp_hostile_run", json!({ "code": code }));
        let said = text(&answer);
        let facts = answer["structuredContent"].clone();
        assert_eq!(facts["waits_for"], "approval", "{mode:?}: {answer}");
        assert!(said.contains("mcp_hostile_run has not finished"), "{said}");
        assert!(said.contains("it is waiting for approval. "), "{said}");
        let ticket = facts["ticket"].as_str().unwrap().to_owned();
        assert!(said.contains(&format!("\"palisade_ticket\": \"{ticket}\"")), "{said}");
        assert!(!stage.path("made").exists(), "{mode:?}: nobody has approved it yet");
        allow.send(()).unwrap();
        while let Some(ticket) = answer["structuredContent"]["ticket"].as_str() {
            let again = json!({"code": code, "palisade_ticket": ticket});
            answer = mcp.call("mcp_hostile_run", again);
        }
        assert_eq!(answer["isError"], false, "{mode:?}: {answer}");
        assert_eq!(fs::read_to_string(stage.path("made")).unwrap(), "x", "{mode:?}: once");
        mcp.end();
    }
}

/// A server that starts slowly is not one that waits for approval, and the agent hears which it is.
#[test]
fn a_call_whose_server_is_still_starting_has_a_ticket_that_says_so() {
    for mode in Mode::all() {
        let stage = Stage::new(mode);
        let mut mcp = stage.offer_under("readonly", "writable", &["--wait", "200ms"]);
        let call = |mcp: &mut Mcp, tool: &str, code: &str, until: &str| {
            let mut answer = mcp.call(tool, json!({ "code": code }));
            while let Some(ticket) = answer["structuredContent"]["ticket"].as_str()
                && answer["structuredContent"]["waits_for"] != until
            {
                let again = json!({"code": code, "palisade_ticket": ticket});
                answer = mcp.call(tool, again);
            }
            answer
        };
        let first = call(&mut mcp, "mcp_hostile_run", "out = os.getpid()", "approval");
        assert_eq!(first["isError"], false, "{mode:?}: {first}");
        // The server ends, and the next one does not answer while the file has something in it.
        fs::write(stage.path("hold"), "x").unwrap();
        stage.world.give(&stage.path("hold"));
        let ended = call(&mut mcp, "mcp_hostile_die", "", "approval");
        assert_eq!(ended["isError"], true, "{mode:?}: {ended}");
        let waiting = call(&mut mcp, "mcp_hostile_run", "out = 1", "server_start");
        let said = text(&waiting);
        assert!(said.contains("mcp_hostile_run has not finished after "), "{mode:?}: {said}");
        assert!(said.contains(": its server is still starting. "), "{mode:?}: {said}");
        let facts = &waiting["structuredContent"];
        assert_eq!(facts["waits_for"], "server_start", "{mode:?}: {waiting}");
        let ticket = facts["ticket"].as_str().unwrap();
        fs::write(stage.path("hold"), "").unwrap();
        let again = json!({"code": "out = 1", "palisade_ticket": ticket});
        let mut answer = mcp.call("mcp_hostile_run", again);
        while let Some(ticket) = answer["structuredContent"]["ticket"].as_str() {
            let again = json!({"code": "out = 1", "palisade_ticket": ticket});
            answer = mcp.call("mcp_hostile_run", again);
        }
        assert_eq!(answer["isError"], false, "{mode:?}: {answer}");
        assert!(text(&answer).starts_with('1'), "{mode:?}: {answer}");
        mcp.end();
    }
}

/// A call that waits for its turn while the server is started anew for another one does not run either.
#[test]
fn a_call_that_waits_behind_a_restart_of_its_server_has_a_ticket_that_says_so() {
    for mode in Mode::all() {
        let stage = Stage::new(mode);
        let mut mcp = stage.offer_within(120, "readonly", "writable", &["--wait", "200ms"]);
        // Makes a call until it has finished, or waits for this; 20 s at most.
        let call = |mcp: &mut Mcp, tool: &str, code: &str, ticket: &str, until: &str| {
            let mut arguments = json!({"code": code, "palisade_ticket": ticket});
            for _ in 0..100 {
                let answer = mcp.call(tool, arguments.clone());
                let facts = &answer["structuredContent"];
                if facts["ticket"].is_null() || facts["waits_for"] == until {
                    return answer;
                }
                arguments["palisade_ticket"] = facts["ticket"].clone();
            }
            panic!("{mode:?}: {tool} {code} is never said to wait for {until}");
        };
        let first = call(&mut mcp, "mcp_hostile_run", "out = 'works'", "", "nothing");
        assert!(text(&first).starts_with("works"), "{mode:?}: {first}");
        // The server ends, and the next one does not answer while the file has something in it.
        stage.put("hold", "x");
        let ended = call(&mut mcp, "mcp_hostile_die", "", "", "nothing");
        assert_eq!(ended["isError"], true, "{mode:?}: {ended}");
        let codes = ["out = 'one'", "out = 'two'", "out = 'three'"];
        let tickets = codes.map(|code| {
            let waiting = call(&mut mcp, "mcp_hostile_run", code, "", "server_start");
            let facts = &waiting["structuredContent"];
            assert_eq!(facts["waits_for"], "server_start", "{mode:?}: {code}: {waiting}");
            let said = text(&waiting);
            assert!(said.contains(": its server is still starting. "), "{mode:?}: {said}");
            facts["ticket"].as_str().unwrap().to_owned()
        });
        stage.put("hold", "");
        for (code, ticket) in codes.iter().zip(tickets) {
            let answer = call(&mut mcp, "mcp_hostile_run", code, &ticket, "nothing");
            assert_eq!(answer["isError"], false, "{mode:?}: {answer}");
            let said = text(&answer);
            assert!(said.starts_with(code.split('\'').nth(1).unwrap()), "{mode:?}: {said}");
        }
        mcp.end();
    }
}
