//! Operators see sessions and calls, and end them; and the traces of calls. The journal's lines are
//! seen in `package.rs`, where there is a journal.

use palisade_client::Open;
use palisade_protocol::ErrorCode;
use palisade_tests::{
    Daemon, Mode, Sandbox, UNASKED, World, processes,
    rooms::{awaited, until},
    text,
};
use rustix::process::Signal;
use serde_json::Value;
use std::{
    fs,
    process::{Output, Stdio},
};

struct Watched {
    world: World,
    daemon: Daemon,
}

impl Watched {
    fn new(mode: Mode, more: &str) -> Self {
        let world = World::new(mode);
        let traces = world.state().join("traces.jsonl");
        world.configure(&format!("{more}[traces]\nexport = \"file:{}\"\n", traces.display()));
        let daemon = world.configured_daemon(|_| {});
        Self { world, daemon }
    }

    fn open(&self) -> Sandbox {
        let open = Open::new(self.world.workspace()).profile(UNASKED);
        Sandbox::over(self.daemon.connect(self.world.mode), None, open).expect("a session")
    }

    /// A command of the operator's.
    fn palisade(&self, words: &[&str]) -> Output {
        let mut command = self.world.command("palisade");
        command.args(words).arg("--operator-socket").arg(&self.daemon.operators);
        self.world.mode.act(|| command.stdin(Stdio::null()).output().expect("palisade"))
    }

    fn ok(&self, words: &[&str]) -> String {
        let output = self.palisade(words);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {}", text(&output.stderr));
        text(&output.stdout)
    }

    fn overview(&self) -> Value {
        serde_json::from_str(&self.ok(&["top", "--json"])).expect("JSON")
    }

    /// The call in a stage, once there is one.
    fn call_in(&self, stage: &str) -> String {
        awaited(stage, || {
            let overview = self.overview();
            let calls = overview["calls"].as_array().unwrap().clone();
            let call = calls.iter().find(|call| call["stage"] == stage)?;
            assert_eq!(call["tool"], "bash");
            Some(call["call_id"].as_str().unwrap().to_owned())
        })
    }
}

#[test]
fn an_operator_sees_what_goes_on_and_ends_it() {
    for mode in Mode::all() {
        let watched = Watched::new(mode, "");
        assert_eq!(watched.ok(&["sessions"]), "no sessions\n");
        let sandbox = watched.open();
        let mark = format!("sleep {}", 500_000 + std::process::id() % 10_000);
        let running = || processes::all().iter().filter(|p| p.command == mark).count();
        let first = sandbox.session.bash(format!("{mark}; echo never"));
        let first = sandbox.wait(async { first.start().await }).expect("started");
        let second = sandbox.session.bash("echo second");
        let second = sandbox.wait(async { second.start().await }).expect("started");
        let (runs, waits) = (watched.call_in("execute"), watched.call_in("queue"));
        assert_ne!(runs, waits);
        until("it runs", || running() == 1);

        let overview = watched.overview();
        let sessions = overview["sessions"].as_array().unwrap();
        assert_eq!(sessions.len(), 1);
        let session = &sessions[0];
        assert_eq!(session["uid"], mode.uid());
        assert_eq!(session["profile"], UNASKED);
        assert_eq!(session["workspace"], watched.world.workspace().to_str().unwrap());
        assert_eq!((&session["calls"], &session["in_flight"]), (&2.into(), &2.into()));
        assert_eq!(overview["launcher"], true);
        let id = session["session"].as_str().unwrap();
        let page = watched.ok(&["top", "--once"]);
        let summary = ": sessions 1, calls 2, jobs 0, approval requests 0\nmemory ";
        assert!(page.contains(summary), "{page}");
        for command in [format!("bash  {mark}; echo never\n"), "bash  echo second\n".to_owned()] {
            assert!(page.contains(&command), "{command} is not in {page}");
        }
        assert!(page.contains(&format!("{runs}  {id}")), "{page}");
        assert!(watched.ok(&["sessions"]).contains(id));

        assert_eq!(watched.ok(&["kill", &runs]), format!("ended call {runs}\n"));
        let ended = sandbox.wait(first.result()).expect("a result");
        assert!(!ended.cancelled && !ended.success, "{ended:?}");
        assert_eq!((ended.error.unwrap().code, ended.stdout), (ErrorCode::Aborted, String::new()));
        assert_eq!(running(), 0);
        // Only that one.
        assert_eq!(sandbox.wait(second.result()).expect("a result").stdout, "second\n");
        for gone in [runs.as_str(), "no/name"] {
            let output = watched.palisade(&["kill", gone]);
            assert_eq!(output.status.code(), Some(1));
            let expected = format!("palisade: there is no call or session {gone:?}\n");
            assert_eq!(text(&output.stderr), expected);
        }
        assert_traced(&watched, &runs, &mark);

        assert_eq!(watched.ok(&["kill", id]), format!("ended session {id}\n"));
        assert!(!sandbox.bash("echo on").success, "the session is over");
        drop(sandbox);
        until("it is forgotten", || watched.ok(&["sessions"]) == "no sessions\n");
    }
}

/// The killed call is a trace with its stages, and nothing of what it ran.
fn assert_traced(watched: &Watched, call: &str, command: &str) {
    let path = watched.world.state().join("traces.jsonl");
    let id: String = call.chars().filter(|c| *c != '-').collect();
    let spans = awaited("it is traced", || {
        let text = fs::read_to_string(&path).ok()?;
        assert!(!text.contains(command), "{text}");
        let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        let spans = lines.flat_map(|line| {
            let spans = line.pointer("/resourceSpans/0/scopeSpans/0/spans").unwrap().clone();
            spans.as_array().unwrap().clone()
        });
        let own: Vec<_> = spans.filter(|span| span["traceId"] == *id).collect();
        (!own.is_empty()).then_some(own)
    });
    let names: Vec<_> = spans.iter().map(|span| span["name"].as_str().unwrap()).collect();
    let stages = ["call bash", "judge", "checkpoint", "queue", "execute", "reply"];
    assert_eq!(
        names.iter().filter(|name| **name != "effects").collect::<Vec<_>>(),
        stages.each_ref()
    );
    assert_eq!(spans[0]["status"]["code"], 2);
    let outcome = spans[0]["attributes"].as_array().unwrap().iter();
    let outcome = outcome.clone().find(|attribute| attribute["key"] == "palisade.outcome").unwrap();
    assert_eq!(outcome["value"]["stringValue"], "aborted");
    let time = |span: &Value, name: &str| span[name].as_str().unwrap().parse::<u128>().unwrap();
    for stage in &spans[1..] {
        assert_eq!(stage["parentSpanId"], spans[0]["spanId"]);
        assert!(time(stage, "startTimeUnixNano") <= time(stage, "endTimeUnixNano"));
    }
    assert!(time(&spans[0], "startTimeUnixNano") > 1_600_000_000_000_000_000);
}

#[test]
fn each_is_for_those_whose_role_it_is() {
    for mode in Mode::all() {
        let watched = Watched::new(mode, "");
        let sandbox = watched.open();
        let overview = watched.overview();
        let id = overview["sessions"][0]["session"].as_str().unwrap().to_owned();
        for (role, words, act) in [
            ("observe", &["top", "--once"][..], "observe sessions"),
            ("observe", &["sessions"], "observe sessions"),
            ("administer", &["kill", &id], "administer remembered approvals and sessions"),
        ] {
            watched.world.configure(&format!(
                "[roles]\n{role} = []\n[traces]\nexport = \"file:{}\"\n",
                watched.world.state().join("traces.jsonl").display()
            ));
            watched.daemon.signal(Signal::HUP);
            let expected = format!(") may not {act}");
            awaited("it is refused", || {
                // The signal may come after the approval request; a session is not to end by that.
                let output = match role {
                    "observe" => watched.palisade(words),
                    _ => match watched.palisade(&["kill", "none"]) {
                        open if open.status.code() == Some(1) => return None,
                        _ => watched.palisade(words),
                    },
                };
                let refused = text(&output.stderr).contains(&expected);
                (refused && output.status.code() == Some(125)).then_some(())
            });
        }
        assert_eq!(sandbox.ok("echo on"), "on\n");
    }
}
