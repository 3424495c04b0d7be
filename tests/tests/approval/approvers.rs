//! The approvers of the command line against a real daemon: a person at a terminal (in tmux), a
//! program, a fixed policy, and the queue worked from scripts.

use palisade_client::{Answer, ApprovalRequest, Open, Operator, Registration};
use palisade_protocol::{CallResult, ErrorCode};
use palisade_tests::{
    Daemon, Mode, Sandbox, World, profile_with,
    rooms::{awaited, until},
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::{
    fs,
    os::unix::net::UnixStream,
    path::PathBuf,
    process::{Command, Output, Stdio},
    thread::{self, ScopedJoinHandle},
};

/// An approval request waits for somebody to be attached.
pub(crate) const WAITING: &str = "deadline_ms = 120000\ngrace_ms = 120000";

/// A daemon and a session whose destructive calls are asked about.
pub(crate) struct Office {
    sandbox: Sandbox,
    daemon: Daemon,
    pub(crate) world: World,
}

impl Office {
    pub(crate) fn new(mode: Mode, handlers: &str) -> Self {
        let world = World::new(mode);
        let text = profile_with(&[
            ("[tools]\n", &format!("[handlers]\n{handlers}\n\n[tools]\n")),
            ("\nms = 86_400_000\n", "\nms = 0\n"),
        ]);
        world.add_profile("asking", &text);
        let daemon = world.daemon();
        let open = Open::new(world.workspace()).profile("asking");
        let sandbox = Sandbox::over(daemon.connect(mode), None, open).unwrap();
        let office = Self { world, sandbox, daemon };
        office.file();
        office
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.world.workspace().join("f")
    }

    /// The file that is to be deleted, there again.
    pub(crate) fn file(&self) {
        fs::write(self.path(), "old").unwrap();
        self.world.give(&self.path());
    }

    pub(crate) fn delete(&self) -> CallResult {
        self.sandbox.call("delete_file", json!({"path": "f"}))
    }

    /// `palisade` as this world's user, with the operator socket.
    fn palisade(&self, words: &[&str]) -> Command {
        let mut command = self.world.command("palisade");
        command.args(words).arg("--operator-socket").arg(&self.daemon.operators);
        command
    }

    /// The words of a `palisade run` in this office's workspace, under its profile.
    fn run_words(&self, command: &str) -> Vec<String> {
        let (agent, workspace) = (&self.daemon.socket, self.world.workspace());
        let session = ["run", "--socket", agent.to_str().unwrap(), "--profile", "asking"];
        let place = ["--workspace", workspace.to_str().unwrap(), "--", command];
        session.iter().chain(&place).map(|word| (*word).to_owned()).collect()
    }

    /// Runs a command by `palisade run` whose standard error is a pipe.
    pub(crate) fn piped(&self, command: &str) -> Output {
        let mut run = self.world.command("palisade");
        run.args(self.run_words(command)).stdin(Stdio::null());
        self.world.mode.act(|| run.output().unwrap())
    }

    /// A shell line that runs `palisade` with the operator socket, and tells its status.
    pub(crate) fn line(&self, words: &[&str]) -> String {
        let command = self.palisade(words);
        let words: Vec<_> = std::iter::once(command.get_program())
            .chain(command.get_args())
            .map(|word| word.to_str().unwrap())
            .collect();
        format!("{}; echo sta''tus=$?", words.join(" "))
    }

    /// Runs `palisade`; returns its status and what it prints.
    pub(crate) fn run(&self, words: &[&str]) -> (Option<i32>, String, String) {
        let output = self.world.mode.act(|| self.palisade(words).output().unwrap());
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    pub(crate) fn json(&self, words: &[&str]) -> Value {
        let (status, stdout, stderr) = self.run(words);
        assert_eq!(status, Some(0), "{words:?}: {stderr}");
        serde_json::from_str(&stdout).unwrap()
    }

    /// Does something while a `palisade approve` answers. An approval request waits until it is
    /// attached.
    pub(crate) fn attended<T>(&self, words: &[&str], act: impl FnOnce() -> T) -> T {
        let before = self.attached();
        let socket = self.daemon.operators.to_str().unwrap();
        let mut child = self.world.mode.act(|| {
            let mut command = self.world.command("palisade");
            command.args(["approve", "--operator-socket", socket]).args(words);
            command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
        });
        let done = act();
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        child.wait().unwrap();
        until("end of the handler", || self.attached() <= before);
        done
    }

    /// Deletes a file while a program answers.
    fn judged(&self, script: &str) -> CallResult {
        self.attended(&["--exec", "/bin/sh", "--", "-c", script], || self.delete())
    }

    /// Returns the number of connections that operators have.
    fn attached(&self) -> usize {
        let sockets = fs::read_to_string("/proc/net/unix").unwrap();
        let path = self.daemon.operators.to_str().unwrap().to_owned();
        sockets.lines().filter(|line| line.ends_with(&path)).count()
    }
}

pub(crate) fn code(result: &CallResult) -> Option<ErrorCode> {
    result.error.as_ref().map(|error| error.code)
}

pub(crate) fn by(result: &CallResult) -> String {
    result.checkpoint.as_ref().map(|checkpoint| checkpoint.by.to_string()).unwrap_or_default()
}

#[test]
fn a_function_that_a_program_links_answers() {
    for mode in Mode::all() {
        let office = Office::new(mode, WAITING);
        let stream = mode.act(|| UnixStream::connect(&office.daemon.operators).unwrap());
        stream.set_nonblocking(true).unwrap();
        let session = &office.sandbox.session;
        let careful = |request: ApprovalRequest| async move {
            if request.reason.as_deref() == Some("it is old") {
                Answer::approve()
            } else {
                Answer::deny("say why")
            }
        };
        let (refused, done) = office.sandbox.wait(async {
            let stream = tokio::net::UnixStream::from_std(stream).unwrap();
            let operator = Operator::from_stream(stream).await.unwrap();
            let calls = async {
                let call = || session.call("delete_file", json!({"path": "f"}));
                let refused = call().await.unwrap();
                assert!(office.path().exists(), "{mode:?}: {refused:?}");
                (refused, call().reason("it is old").await.unwrap())
            };
            tokio::select! {
                ended = operator.handle(Registration::new("program:careful"), careful) => {
                    panic!("{mode:?}: {ended:?}")
                }
                results = calls => results,
            }
        });
        let name = "handler:program:careful";
        assert_eq!(code(&refused), Some(ErrorCode::Denied), "{mode:?}");
        assert_eq!(by(&refused), name, "{mode:?}");
        assert!(done.success && by(&done) == name, "{mode:?}: {done:?}");
        assert!(!office.path().exists(), "{mode:?}");
    }
}

/// A shell in a tmux of its own.
pub(crate) struct Screen {
    directory: tempfile::TempDir,
}

impl Screen {
    pub(crate) fn new() -> Self {
        let screen = Self { directory: tempfile::tempdir().unwrap() };
        let size = ["-x", "120", "-y", "60"];
        screen.tmux(&[&["-f", "/dev/null", "new-session", "-d"], &size[..], &["sh"]].concat());
        screen
    }

    fn tmux(&self, words: &[&str]) -> String {
        let mut tmux = Command::new("tmux");
        tmux.arg("-S").arg(self.directory.path().join("tmux.sock")).args(words);
        let output = tmux.env_remove("TMUX").output().unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    pub(crate) fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    pub(crate) fn line(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
        self.keys(&["Enter"]);
    }

    pub(crate) fn shows(&self, text: &str) -> String {
        awaited(text, || {
            let screen = self.tmux(&["capture-pane", "-p", "-J"]);
            screen.contains(text).then_some(screen)
        })
    }

    /// Nothing of what was shown before is there any more.
    pub(crate) fn clear(&self) {
        self.tmux(&["send-keys", "-R"]);
        self.tmux(&["clear-history"]);
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

pub(crate) const PROMPT: &str = "[y]es [n]o [e]dit [a] remember [A] end session [q]uit";

#[test]
fn a_person_at_a_terminal_decides_for_a_real_daemon() {
    for mode in Mode::all() {
        let office = Office::new(mode, "deadline_ms = 120000");
        let screen = Screen::new();
        screen.line(&office.line(&["approve"]));
        screen.shows("Waiting for approval requests (q quits)");
        thread::scope(|scope| {
            let ask = || -> ScopedJoinHandle<'_, CallResult> {
                screen.clear();
                let asked = scope.spawn(|| office.delete());
                screen.shows(PROMPT);
                asked
            };
            let asked = ask();
            let shown = screen.shows("delete_file");
            assert!(shown.contains("-old"), "{mode:?}: the diff is shown: {shown}");
            assert!(office.path().exists(), "{mode:?}: nothing happens before the answer");
            screen.keys(&["y"]);
            let result = asked.join().unwrap();
            assert!(result.success, "{mode:?}: {:?}", result.error);
            assert!(by(&result).starts_with("handler:person:"), "{}", by(&result));
            assert!(!office.path().exists(), "{mode:?}");

            office.file();
            let asked = ask();
            screen.keys(&["n"]);
            screen.shows("reason for the denial (Enter sends):");
            screen.tmux(&["send-keys", "-l", "it is shared"]);
            screen.keys(&["Enter"]);
            let result = asked.join().unwrap();
            assert_eq!(code(&result), Some(ErrorCode::Denied), "{mode:?}");
            assert!(result.error.unwrap().message.contains("it is shared"));
            assert!(office.path().exists(), "{mode:?}");

            let asked = ask();
            screen.keys(&["a"]);
            screen.shows("exactly this call");
            screen.keys(&["1"]);
            assert!(asked.join().unwrap().success, "{mode:?}");
            assert!(!office.path().exists(), "{mode:?}");
            // Remembered: nobody is asked a second time.
            office.file();
            let result = office.delete();
            assert!(result.success && by(&result).starts_with("remembered:g-"), "{result:?}");
            assert!(!office.path().exists(), "{mode:?}");

            // Another call is asked about, and aborted with its session.
            screen.clear();
            office.file();
            let asked = scope.spawn(|| office.sandbox.call("bash", json!({"command": "rm f"})));
            screen.shows(PROMPT);
            screen.keys(&["A"]);
            screen.shows("? y; Esc: deny;");
            screen.keys(&["y"]);
            let result = asked.join().unwrap();
            assert!(!result.success, "{mode:?}: {result:?}");
            assert!(office.path().exists(), "{mode:?}");
            screen.shows("ended session ");
        });
        screen.keys(&["q"]);
        screen.shows("status=0");
    }
}

#[test]
fn a_policy_and_a_program_decide_for_a_real_daemon() {
    for mode in Mode::all() {
        let office = Office::new(mode, WAITING);
        let result = office.attended(&["--policy", "deny"], || office.delete());
        assert_eq!(code(&result), Some(ErrorCode::Denied), "{mode:?}");
        assert!(by(&result).starts_with("handler:policy:"), "{}", by(&result));
        assert!(office.path().exists(), "{mode:?}");
        let result = office.attended(&["--policy", "approve"], || office.delete());
        assert!(result.success, "{mode:?}: {:?}", result.error);
        assert!(!office.path().exists(), "{mode:?}");
        let with = |script: &str, expected: Option<ErrorCode>| {
            office.file();
            let result = office.judged(script);
            assert_eq!(code(&result), expected, "{mode:?} {script}: {result:?}");
            assert_eq!(office.path().exists(), expected.is_some(), "{mode:?} {script}");
            result
        };
        let asked = "grep -q '\"tool\":\"delete_file\"' || exit 9;";
        with(&format!("{asked} echo '{{\"decision\": \"approve\"}}'"), None);
        let denied = with(
            "echo '{\"decision\": \"deny\", \"reason\": \"not now\"}'",
            Some(ErrorCode::Denied),
        );
        assert!(denied.error.unwrap().message.contains("not now"), "{mode:?}");
        for script in
            ["exit 1", "echo nonsense", "echo '{\"decision\": \"maybe\"}'", "kill -9 $$", "true"]
        {
            with(script, Some(ErrorCode::Denied));
        }
        // Nothing may be remembered for a time here: the yes counts, and only that.
        let wanted = "{\"decision\": \"approve\", \"remember\": {\"scope\": \"exact_call\", \"until\": {\"ms\": 60000}}}";
        with(&format!("echo '{wanted}'"), None);
        assert_eq!(office.json(&["grants", "list", "--json"]), json!({"grants": []}), "{mode:?}");
    }
}

#[test]
fn a_command_that_waits_for_approval_says_so_with_the_time_left() {
    for mode in Mode::all() {
        let office = Office::new(mode, WAITING);
        let words = |command: &str| office.run_words(command);
        let answered = |verdict: &str| {
            let id = awaited("the request", || {
                let pending = office.json(&["pending", "--json"]);
                pending["requests"][0]["id"].as_str().map(str::to_owned)
            });
            // The form in which a terminal shows the id.
            assert_eq!(office.run(&["answer", &id[..20], verdict]).0, Some(0), "{mode:?} {id}");
        };

        // In a pipe it is one line on standard error, and nothing where nobody is asked.
        let piped = |command: &str| office.piped(command);
        let told = "note: waiting for approval, 1m5";
        let quiet = piped("echo quiet");
        assert!(!String::from_utf8_lossy(&quiet.stderr).contains("waiting"), "{quiet:?}");
        let done = thread::scope(|scope| {
            let run = scope.spawn(|| piped("rm f && echo gone"));
            answered("approve");
            run.join().unwrap()
        });
        let stderr = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(0), "{mode:?}: {stderr}");
        assert_eq!(stderr.matches("waiting for approval").count(), 1, "{mode:?}: {stderr}");
        assert!(stderr.contains(told) && stderr.contains("palisade pending"), "{stderr}");
        assert!(!office.path().exists(), "{mode:?}");

        // At a terminal the time left is counted down, and the line is gone afterwards.
        office.file();
        let screen = mode.act(Screen::new);
        let program = office.palisade(&[]);
        let program = program.get_program().to_str().unwrap().to_owned();
        let quoted: Vec<String> =
            words("rm f && echo gone").iter().map(|word| format!("'{word}'")).collect();
        screen.line(&format!("{program} {}; echo sta''tus=$?", quoted.join(" ")));
        let left = |shown: &str| {
            let (_, rest) = shown.split_once("waiting for approval, 1m")?;
            rest.split_once("s left")?.0.parse::<u32>().ok()
        };
        let first = left(&screen.shows("waiting for approval, 1m5")).unwrap();
        awaited("the time goes by", || {
            let shown = screen.shows("waiting for approval, 1m");
            left(&shown).is_some_and(|now| now < first).then_some(())
        });
        answered("deny");
        let shown = screen.shows("status=126");
        assert!(!shown.contains("waiting for approval"), "{mode:?}: {shown}");
        assert!(office.path().exists(), "{mode:?}");
    }
}

#[test]
fn a_call_whose_changes_wait_for_approval_is_in_the_stage_checkpoint() {
    for mode in Mode::all() {
        let office = Office::new(mode, WAITING);
        let stage = || {
            let top = office.json(&["top", "--json"]);
            top["calls"][0]["stage"].as_str().map(str::to_owned)
        };
        thread::scope(|scope| {
            let asked = scope.spawn(|| office.sandbox.call("bash", json!({"command": "rm f"})));
            let request = awaited("the request", || {
                let pending = office.json(&["pending", "--json"]);
                pending["requests"].get(0).cloned()
            });
            assert_eq!(request["review"], "effects", "{mode:?}: {request}");
            assert_eq!(stage().as_deref(), Some("checkpoint"), "{mode:?}");
            let id = request["id"].as_str().unwrap();
            assert_eq!(office.run(&["answer", id, "approve"]).0, Some(0), "{mode:?}");
            assert!(asked.join().unwrap().success, "{mode:?}");
        });
    }
}

#[test]
fn scripts_work_the_queue_of_a_real_daemon() {
    for mode in Mode::all() {
        let office = Office::new(mode, WAITING);
        let waiting = || {
            awaited("request", || {
                let pending = office.json(&["pending", "--json"]);
                pending["requests"][0]["id"].as_str().map(str::to_owned)
            })
        };
        thread::scope(|scope| {
            let asked = scope.spawn(|| office.delete());
            let id = waiting();
            let reason = ["answer", &id, "deny", "--reason", "ask tomorrow"];
            assert_eq!(office.run(&reason).0, Some(0), "{mode:?}");
            let result = asked.join().unwrap();
            assert_eq!(code(&result), Some(ErrorCode::Denied), "{mode:?}");
            assert!(result.error.unwrap().message.contains("ask tomorrow"));
            assert!(office.path().exists(), "{mode:?}");
            // It is over: the same answer is not taken again.
            assert_eq!(office.run(&["answer", &id, "approve"]).0, Some(1), "{mode:?}");
            assert!(office.path().exists(), "{mode:?}");

            let asked = scope.spawn(|| office.delete());
            let id = waiting();
            assert_eq!(office.run(&["answer", &id, "approve"]).0, Some(0), "{mode:?}");
            let result = asked.join().unwrap();
            assert!(result.success, "{mode:?}: {:?}", result.error);
            assert_eq!(by(&result), format!("handler:operator:{}", mode.uid()), "{mode:?}");
            assert!(!office.path().exists(), "{mode:?}");
        });
        assert_eq!(office.json(&["pending", "--json"]), json!({"requests": []}), "{mode:?}");
    }
}

#[test]
fn grants_are_listed_and_revoked_and_all_of_it_is_in_the_log() {
    for mode in Mode::all() {
        let office = Office::new(mode, WAITING);
        let wanted = "{\"decision\": \"approve\", \"remember\": {\"scope\": \"exact_call\", \"until\": \"session\"}}";
        let first = office.judged(&format!("echo '{wanted}'"));
        assert!(first.success, "{mode:?}: {:?}", first.error);
        let grants = office.json(&["grants", "list", "--json"]);
        let id = grants["grants"][0]["id"].as_str().unwrap().to_owned();
        // Nobody is attached any more: what is remembered needs nobody.
        office.file();
        let second = office.delete();
        assert!(second.success, "{mode:?}: {:?}", second.error);
        assert!(
            by(&second).starts_with(&format!("remembered:{id} of program:")),
            "{}",
            by(&second)
        );
        assert_eq!(office.json(&["grants", "list", "--json"])["grants"][0]["used"], 1, "{mode:?}");
        assert_eq!(office.run(&["grants", "revoke", &id]).0, Some(0), "{mode:?}");
        office.file();
        let third = office.attended(&["--policy", "deny"], || office.delete());
        assert_eq!(code(&third), Some(ErrorCode::Denied), "{mode:?}");
        assert!(office.path().exists(), "{mode:?}");

        let directory = office.world.state().join("audit");
        let show = |call: &CallResult| {
            let mut command = office.world.command("palisade");
            command
                .args(["audit", "show", call.call_id.as_str(), "--json", "--dir"])
                .arg(&directory);
            let output = mode.act(|| command.output().unwrap());
            let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
            shown["records"].as_array().unwrap().clone()
        };
        let kinds = |records: &[Value]| -> Vec<String> {
            records.iter().map(|record| record["kind"].as_str().unwrap().to_owned()).collect()
        };
        // The records of what has just happened are written when the reply is.
        let records = awaited("result", || {
            let records = show(&third);
            kinds(&records).contains(&"result".to_owned()).then_some(records)
        });
        assert_eq!(kinds(&records), ["call", "approval_request", "answer", "result"], "{mode:?}");
        let records = show(&first);
        assert_eq!(
            kinds(&records),
            ["call", "approval_request", "answer", "grant", "effects", "result"],
            "{mode:?}"
        );
        let (request, answer, grant) = (&records[1], &records[2], &records[3]);
        assert_eq!(request["request"], answer["request"], "{mode:?}");
        assert_eq!(request["digest"], answer["digest"], "{mode:?}");
        assert!(request["shown"]["diff"].as_str().unwrap().contains("-old"), "{mode:?}");
        assert!(request["shown"]["lines"].as_str().unwrap().starts_with("delete "), "{mode:?}");
        assert_eq!(answer["by"]["who"], "program", "{mode:?}");
        assert_eq!(answer.get("approvals"), None, "{mode:?}: the only one is named once");
        assert_eq!((&grant["grant"], &grant["act"]), (&json!(id), &json!("made")), "{mode:?}");
        let records = show(&second);
        assert_eq!(kinds(&records), ["call", "answer", "effects", "result"], "{mode:?}");
        assert_eq!(records[1]["by"]["who"], "remembered", "{mode:?}");
        let log = fs::read_dir(&directory).unwrap().flatten().map(|entry| entry.path());
        let log: String = log.filter_map(|path| fs::read_to_string(path).ok()).collect();
        assert!(log.contains("\"act\":\"revoked\""), "{mode:?}");
    }
}
