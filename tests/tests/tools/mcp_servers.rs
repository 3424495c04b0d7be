//! Servers of others whose tools `palisade mcp` offers beside its own, and what the audit log says of
//! clients. The host is the witness.

use palisade_tests::{
    Mcp, Mode, UNASKED, World, mcp_text as text, processes, profile_with, rooms::until,
};
use serde_json::{Value, json};
use std::{fs, path::PathBuf, process::Output};

/// The server: a program that does what the test asks for.
const SERVER: &str = include_str!("../../src/hostile_mcp_server.py");

/// A world with the server in its workspace, and a file that names it twice.
struct Offered {
    world: World,
    mark: String,
}

impl Offered {
    fn new(mode: Mode) -> Self {
        let world = World::new(mode);
        world.add_profile("writable", &profile_with(&[]));
        let offered = Self { world, mark: processes::mark() };
        offered.put("server.py", SERVER);
        offered.put("mark", &offered.mark);
        let workspace = offered.world.workspace();
        let table = |name: &str, more: &str| {
            format!(
                "[mcp.servers.{name}]\ncommand = \"python3\"\nargs = [\"server.py\"]\nworkspace = \
                 {workspace:?}\n{more}\n"
            )
        };
        let hostile = table("hostile", "profile = \"writable\"");
        let plain = table("plain", "tools = [\"run\", \"large\"]\nenv = { WHO = \"a test\" }");
        offered.name(&format!("{hostile}{plain}"));
        offered
    }

    fn put(&self, name: &str, text: &str) {
        let path = self.world.workspace().join(name);
        fs::write(&path, text).unwrap();
        self.world.give(&path);
    }

    fn file(&self) -> PathBuf {
        self.world.workspace().with_file_name("mcp.toml")
    }

    /// Writes the file that names the servers.
    fn name(&self, text: &str) {
        let path = self.file();
        fs::write(&path, text).unwrap();
        self.world.give(&path);
    }

    fn words(&self) -> Vec<String> {
        let (file, profiles) = (self.file(), self.world.profiles());
        let words = ["--servers", file.to_str().unwrap(), "--profile", UNASKED, "--profiles"];
        words.into_iter().chain([profiles.to_str().unwrap()]).map(str::to_owned).collect()
    }

    fn start(&self) -> Mcp {
        let words = self.words();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let mut mcp = Mcp::start(&self.world, &words);
        mcp.initialize("2025-11-25");
        mcp
    }

    fn finish(&self) -> Output {
        let mut command = self.world.command("palisade-mcp");
        command.args(self.words()).stdin(std::process::Stdio::null());
        self.world.mode.act(|| command.output().unwrap())
    }
}

/// Runs Python in a server.
fn run(mcp: &mut Mcp, server: &str, code: &str) -> String {
    text(&mcp.call(&format!("mcp_{server}_run"), json!({"code": code})))
}

/// Reads a text that was cut by pages, as the line in it says.
fn the_rest(mcp: &mut Mcp, cut: &str) -> String {
    let (head, told) = cut.split_once("\n[... ").unwrap();
    let (_, told) = told.split_once("; read_output with call_id \"").expect(told);
    let (call, told) = told.split_once("\" and offset ").unwrap();
    let mut offset: usize = told.split_once(" reads on ...]").unwrap().0.parse().unwrap();
    assert_eq!(offset, head.len(), "{told}");
    let mut whole = head.to_owned();
    loop {
        let page = mcp.call("read_output", json!({"call_id": call, "offset": offset}));
        let facts = &page["structuredContent"];
        whole.push_str(facts["output"].as_str().unwrap_or_else(|| panic!("{page}")));
        let number = |name: &str| usize::try_from(facts[name].as_u64().unwrap()).unwrap();
        offset = number("end");
        if offset == number("total") {
            return whole;
        }
    }
}

#[test]
fn servers_are_offered_beside_the_tools_and_stay_in_their_sandboxes() {
    for mode in Mode::all() {
        let offered = Offered::new(mode);
        let mut mcp = offered.start();
        let listed = mcp.ask("tools/list", json!({}))["result"]["tools"].clone();
        let listed = listed.as_array().unwrap();
        let find = |name: &str| listed.iter().find(|tool| tool["name"] == name);
        for name in ["bash", "read_output", "mcp_hostile_run", "mcp_hostile_die", "mcp_plain_run"] {
            assert!(find(name).is_some(), "{mode:?}: {name} in {listed:?}");
        }
        assert!(find("mcp_plain_die").is_none(), "{mode:?}: only the named tools are offered");
        // The server says that its tools are harmless.
        let hints = &find("mcp_plain_run").unwrap()["annotations"];
        assert_eq!(
            (&hints["readOnlyHint"], &hints["destructiveHint"]),
            (&json!(false), &json!(true))
        );

        assert_eq!(run(&mut mcp, "plain", "out = 6 * 7"), "42", "{mode:?}");
        assert_eq!(run(&mut mcp, "plain", "out = os.environ['WHO']"), "a test", "{mode:?}");
        let refused = mcp.ask("tools/call", json!({"name": "mcp_plain_die", "arguments": {}}));
        assert_eq!(refused["error"]["data"]["code"], "tool_not_found", "{refused}");
        let canary = format!("open({:?})", offered.world.canary());
        for (code, errno) in [("open('new', 'w')", "errno 30"), (canary.as_str(), "errno 2")] {
            assert_eq!(run(&mut mcp, "plain", code), errno, "{mode:?}: {code}");
        }
        let large = text(&mcp.call("mcp_plain_large", json!({})));
        assert!(large.len() < 31_000 && large.contains("left out"), "{}", large.len());
        assert_eq!(the_rest(&mut mcp, &large), "a line\n".repeat(100_000), "{mode:?}");
        // A writable workspace is committed after the call, and the other tools see it.
        assert_eq!(run(&mut mcp, "hostile", "open('made', 'w').write('x')"), "None", "{mode:?}");
        assert_eq!(text(&mcp.call("bash", json!({"command": "cat made"}))), "x\n[exit 0]");
        run(&mut mcp, "hostile", "mark()");
        until("the server's process runs", || !processes::marked(&offered.mark).is_empty());
        mcp.end();
        assert_eq!(processes::marked(&offered.mark), [], "{mode:?}");
        offered.world.assert_canary_untouched();
    }
}

#[test]
fn a_server_that_changes_its_tools_or_ends_harms_only_itself() {
    for mode in Mode::all() {
        let offered = Offered::new(mode);
        let mut mcp = offered.start();
        // It ends in a call, and is started anew at the next.
        let died = mcp.call("mcp_hostile_die", json!({}));
        assert_eq!(died["isError"], true, "{mode:?}: {died}");
        assert_eq!(run(&mut mcp, "hostile", "out = 1"), "1", "{mode:?}");
        // It changes its tools, and announces that.
        run(&mut mcp, "hostile", "grow()");
        let refused = mcp.call("mcp_hostile_run", json!({"code": "open('made', 'w')"}));
        assert_eq!(refused["isError"], true, "{mode:?}: {refused}");
        let said = text(&refused);
        assert!(said.contains("every call is refused: added tool grown. "), "{said}");
        let accept = "palisade mcp wrap --accept-tools --name hostile --profile writable";
        assert!(said.contains(accept), "{said}");
        let listed = mcp.ask("tools/list", json!({}))["result"]["tools"].clone();
        let names: Vec<_> = listed.as_array().unwrap().iter().map(|tool| &tool["name"]).collect();
        assert!(!names.contains(&&json!("mcp_hostile_grown")), "{names:?}");
        assert!(!offered.world.workspace().join("made").exists(), "{mode:?}");
        // The others are as they were.
        assert_eq!(run(&mut mcp, "plain", "out = 2"), "2", "{mode:?}");
        assert_eq!(text(&mcp.call("bash", json!({"command": "echo on"}))), "on\n[exit 0]");
        mcp.end();
    }
}

#[test]
fn a_file_of_servers_that_is_wrong_is_an_error_that_names_it() {
    let [mode, ..] = Mode::all()[..] else { panic!("no mode") };
    let offered = Offered::new(mode);
    offered.name("[mcp.servers.plain]\ncomand = \"x\"\n");
    let output = offered.finish();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(125), "{said}");
    assert!(said.contains("mcp.toml") && said.contains("comand"), "{said}");
}

/// A private daemon loads only the profile of its session.
#[test]
fn another_profile_that_is_wrong_does_not_matter() {
    for mode in Mode::all() {
        let offered = Offered::new(mode);
        offered.world.add_profile("broken", "version = 1\nnonsense = true\n");
        let mut mcp = offered.start();
        assert_eq!(text(&mcp.call("bash", json!({"command": "echo on"}))), "on\n[exit 0]");
        assert_eq!(run(&mut mcp, "plain", "out = 3"), "3", "{mode:?}");
        mcp.end();
    }
}

#[test]
fn the_audit_log_has_what_a_client_says_of_itself_and_no_more() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let mut mcp = Mcp::over(&world, &daemon, &[]);
        let mut meta = json!({"agent/sessionId": "s-1\u{1b}[2J\n", "long": "x".repeat(10 << 20),
            "object": {"a": "b"}, "progressToken": "p"});
        for number in 0..1000 {
            meta[format!("id-{number}")] = json!(number);
        }
        let arguments = json!({"command": "echo on"});
        let params = json!({"name": "bash", "arguments": arguments, "_meta": meta});
        let answer = mcp.ask("tools/call", params);
        assert_eq!(text(&answer["result"]), "on\n[exit 0]", "{mode:?}");
        let call = answer["result"]["structuredContent"]["call_id"].as_str().unwrap().to_owned();
        mcp.end();
        let directory = world.state().join("audit");
        let show = |more: &[&str]| {
            let mut command = world.command("palisade");
            command.args(["audit", "show", &call, "--dir"]).arg(&directory).args(more);
            let output = mode.act(|| command.output().unwrap());
            assert!(output.status.success(), "{mode:?}: {output:?}");
            String::from_utf8(output.stdout).unwrap()
        };
        let shown: Value = serde_json::from_str(&show(&["--json"])).unwrap();
        let claims = shown["records"][0]["claims"].as_array().unwrap().clone();
        assert_eq!(claims.len(), 16, "{claims:?}");
        assert_eq!(claims[0], json!({"name": "client", "value": "test 1"}), "{mode:?}");
        let session = claims.iter().find(|claim| claim["name"] == "agent/sessionId").unwrap();
        assert!(session["value"].as_str().unwrap().starts_with("s-1"), "{session}");
        assert!(claims.iter().all(|claim| claim["value"].as_str().unwrap().len() <= 256));
        let text = show(&[]);
        assert!(text.contains("claimed by the client: `client`: `test 1`"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }
}
