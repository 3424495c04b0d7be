//! The terminal approver in a real terminal (tmux), against a scripted daemon.

use crate::fake::{Daemon, approval_request};
use palisade_protocol::{
    ApprovalOutcome, Bytes, CallResult, Decision, Deny, Envelope, ErrorCode, Event, Modified,
    Opened, Receipt, Reply, Request, RequestId, Scope, ScopeHistory, ScopeUse, ServerMessage,
    Stream, Until, WireError,
};
use std::{
    os::unix::{fs::symlink, net::UnixListener},
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

/// A shell in a tmux of its own.
struct Screen {
    directory: tempfile::TempDir,
    listener: UnixListener,
}

impl Screen {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("operator.sock")).unwrap();
        // The shell is told no path of the checkout: it may have spaces.
        symlink(env!("CARGO_BIN_EXE_palisade"), directory.path().join("palisade")).unwrap();
        let screen = Self { directory, listener };
        let size = ["-x", "100", "-y", "60"];
        screen.tmux(&[&["-f", "/dev/null", "new-session", "-d"], &size[..], &["sh"]].concat());
        screen.line("PS1='$ '; stty -g > before; echo re''ady");
        screen.shows("ready");
        screen
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn tmux(&self, words: &[&str]) -> String {
        let output = Command::new("tmux")
            .arg("-S")
            .arg(self.path("tmux.sock"))
            .args(words)
            .current_dir(self.directory.path())
            .env_remove("TMUX")
            .output()
            .unwrap();
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Types keys, given by their names.
    fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Types a line into the shell.
    fn line(&self, text: &str) {
        self.tmux(&["send-keys", "-l", text]);
        self.keys(&["Enter"]);
    }

    /// Starts `palisade approve` and accepts its connection.
    fn approver(&self, environment: &str) -> Daemon {
        let socket = self.path("operator.sock");
        let command = format!("exec ./palisade approve --operator-socket {}", socket.display());
        self.line(&format!("{environment} sh -c 'echo $$ > pid; {command}'; echo sta''tus=$?"));
        let mut daemon = Daemon::accept(&self.listener);
        let register = daemon.registered();
        assert!(register.name.starts_with("person:"), "{}", register.name);
        daemon
    }

    /// Waits until the screen contains this text.
    fn shows(&self, text: &str) -> String {
        let start = Instant::now();
        loop {
            let screen = self.tmux(&["capture-pane", "-p", "-J"]);
            if screen.contains(text) {
                return screen;
            }
            assert!(start.elapsed() < Duration::from_secs(120), "no {text:?} in:\n{screen}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Checks that the terminal is as it was before.
    fn is_restored(&self) {
        self.line("stty -g > after; echo co''mpared");
        self.shows("compared");
        let read = |name: &str| std::fs::read_to_string(self.path(name)).unwrap();
        assert!(!read("before").is_empty());
        assert_eq!(read("before"), read("after"));
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

const PROMPT: &str = "[y]es [n]o [e]dit [a] remember [A] end session [q]uit";

#[test]
fn a_person_answers_each_request_by_key() {
    let screen = Screen::new();
    let mut daemon = screen.approver("EDITOR=./editor");
    screen.shows("Waiting for approval requests (q quits)");

    let mut hostile = approval_request("q-1");
    hostile.reason = Some("fine\x1b[2J\u{202e}".to_owned());
    daemon.ask(&hostile);
    let shown = screen.shows(PROMPT);
    for line in [
        "bash wants to run ── q-1",
        "! destructive: rm removes files",
        "-old",
        "+done",
        "will be lost: /home/me/project/build (directory, 4096 bytes)",
        "the agent's reason (not verified):",
        "> fine␛[2J<U+202E>",
    ] {
        assert!(shown.contains(line), "no {line:?} in:\n{shown}");
    }
    screen.keys(&["y"]);
    let answer = daemon.answer();
    assert_eq!((answer.request.as_str(), answer.digest.as_str()), ("q-1", "digest-q-1"));
    assert_eq!(answer.decision, Decision::Approve);
    screen.shows("q-1 approved");

    daemon.ask(&approval_request("q-2"));
    screen.shows("wants to run ── q-2");
    daemon.ask(&approval_request("q-3"));
    screen.shows("+ q-3 is waiting: bash: rm -r build (and 1 more)");
    screen.shows("· 1 more");
    screen.keys(&["n"]);
    screen.shows("reason for the denial (Enter sends):");
    screen.tmux(&["send-keys", "-l", "it is shared"]);
    screen.shows("reason for the denial (Enter sends): it is shared");
    screen.keys(&["Enter"]);
    let deny = Deny { reason: "it is shared".to_owned(), guidance: String::new() };
    assert_eq!(daemon.answer().decision, Decision::Deny(deny));

    screen.shows("wants to run ── q-3");
    screen.keys(&["Escape"]);
    let answer = daemon.answer();
    assert_eq!(answer.request.as_str(), "q-3");
    assert!(matches!(answer.decision, Decision::Deny(_)), "{answer:?}");

    screen.tmux(&["send-keys", "-R"]);
    daemon.ask(&approval_request("q-4"));
    screen.shows(PROMPT);
    screen.keys(&["a"]);
    let Envelope { id, request } = daemon.next().unwrap();
    let Request::ScopeHistory(query) = request else { panic!("{request:?}") };
    assert_eq!((query.request.as_str(), query.scopes.len()), ("q-4", 2));
    let scopes = vec![ScopeUse { covered: 1, denied: 0 }, ScopeUse { covered: 4, denied: 3 }];
    let history = ScopeHistory { period_ms: 604_800_000, requests: 5, scopes };
    daemon.reply(id, Reply::ScopeHistory(history));
    screen.shows("2  commands that begin with: rm -r, until the session ends");
    screen.shows("in the last 7 days: 4 of 5 requests would have been approved");
    screen.shows("3 of which were denied");
    screen.keys(&["1"]);
    let remember = daemon.answer().remember.unwrap();
    assert_eq!((remember.scope, remember.until), (Scope::ExactCall, Until::Session));

    // An answer that counts but is not remembered is reported as both, and the next request is
    // shown.
    screen.tmux(&["send-keys", "-R"]);
    daemon.ask(&approval_request("q-4b"));
    screen.shows(PROMPT);
    screen.keys(&["a"]);
    // Without counts the scopes are offered alone.
    let asked = daemon.next().unwrap();
    assert!(matches!(asked.request, Request::ScopeHistory(_)));
    let refused = WireError::new(ErrorCode::UnknownRequest, "an older daemon", "");
    daemon.reply(asked.id, Reply::Error(refused));
    screen.shows("1  exactly this call");
    screen.keys(&["1"]);
    let asked = daemon.next().unwrap();
    let told = "the decision counts, but is not remembered: the profile says no";
    daemon.reply(asked.id, Reply::Error(WireError::new(ErrorCode::Denied, told, "")));
    screen.shows(&format!("q-4b approved: {told}"));

    screen.tmux(&["send-keys", "-R"]);
    daemon.ask(&approval_request("q-5"));
    screen.shows(PROMPT);
    screen.keys(&["A"]);
    screen.shows("end session s-1? y;");
    screen.keys(&["y"]);
    let Envelope { id, request } = daemon.next().unwrap();
    assert!(matches!(request, Request::Abort(abort) if abort.session.as_str() == "s-1"));
    daemon.reply(id, Reply::Done);
    daemon.over("q-5", ApprovalOutcome::Denied);
    screen.shows("q-5 is over: denied by default");

    screen.keys(&["q"]);
    screen.shows("status=0");
    screen.is_restored();
    assert_eq!(daemon.next(), None);
}

#[test]
fn arguments_are_edited_in_the_persons_editor() {
    let screen = Screen::new();
    let script = "#!/bin/sh\nstty -g > during\necho '{\"command\": \"true\"}' > \"$1\"\n";
    std::fs::write(screen.path("editor"), script).unwrap();
    screen.line("chmod +x editor; echo do''ne");
    screen.shows("done");
    let mut daemon = screen.approver("EDITOR=./editor");
    daemon.ask(&approval_request("q-1"));
    screen.shows(PROMPT);
    screen.keys(&["e"]);
    let arguments = serde_json::from_str(r#"{"command": "true"}"#).unwrap();
    assert_eq!(daemon.answer().decision, Decision::ApproveModified(Modified { arguments }));
    let read = |name: &str| std::fs::read_to_string(screen.path(name)).unwrap();
    assert_eq!(read("before"), read("during"), "the editor has an ordinary terminal");
    screen.shows("q-1 approved with changed arguments");

    std::fs::write(screen.path("editor"), "#!/bin/sh\necho nonsense > \"$1\"\n").unwrap();
    screen.tmux(&["send-keys", "-R"]);
    daemon.ask(&approval_request("q-2"));
    screen.shows(PROMPT);
    screen.keys(&["e"]);
    screen.shows("nothing was decided: the saved text is not JSON");
    screen.keys(&["C-d"]);
    assert!(matches!(daemon.answer().decision, Decision::Deny(_)));
    screen.keys(&["q"]);
    screen.shows("status=0");
    screen.is_restored();
}

#[test]
fn a_signal_puts_the_terminal_back_and_approves_nothing() {
    for (signal, status) in [("TERM", "status=143"), ("HUP", "status=129"), ("INT", "status=130")] {
        let screen = Screen::new();
        let mut daemon = screen.approver("");
        daemon.ask(&approval_request("q-1"));
        screen.shows(PROMPT);
        let pid = std::fs::read_to_string(screen.path("pid")).unwrap();
        let kill = Command::new("kill").args(["-s", signal, pid.trim()]).status().unwrap();
        assert!(kill.success());
        screen.shows(status);
        screen.is_restored();
        assert_eq!(daemon.next(), None, "nothing was answered");
    }
}

#[test]
fn the_daemons_end_puts_the_terminal_back() {
    let screen = Screen::new();
    let mut daemon = screen.approver("");
    daemon.ask(&approval_request("q-1"));
    screen.shows(PROMPT);
    drop(daemon);
    screen.shows("status=125");
    screen.shows("error: the connection to the daemon ended");
    screen.is_restored();
}

#[test]
fn a_terminal_that_is_gone_denies() {
    let screen = Screen::new();
    let mut daemon = screen.approver("");
    daemon.ask(&approval_request("q-1"));
    screen.shows(PROMPT);
    screen.tmux(&["new-window", "-d"]);
    screen.tmux(&["kill-pane"]);
    // The program denies on the signal or on end of file, whichever it sees first.
    if let Some(Envelope { request, .. }) = daemon.next() {
        let Request::Answer(answer) = request else { panic!("{request:?}") };
        assert!(matches!(answer.decision, Decision::Deny(_)), "{answer:?}");
    }
}

/// A command at a terminal with a private daemon, up to its call.
struct Own {
    screen: Screen,
    agent: Daemon,
    operator: Daemon,
    call: RequestId,
}

impl Own {
    /// Starts `palisade run` with more arguments before and after its command.
    fn run(before: &str, after: &str) -> Self {
        let screen = Screen::new();
        let agents = UnixListener::bind(screen.path("agent.sock")).unwrap();
        std::fs::write(screen.path("daemon"), include_str!("bridge.py")).unwrap();
        screen.line("chmod +x daemon; unset PALISADE_SOCKET; echo do''ne");
        screen.shows("done");
        let variables = "XDG_RUNTIME_DIR= PALISADE_DAEMON=$PWD/daemon";
        let command = format!("{variables} ./palisade run {before} -- 'rm -r build' {after}");
        screen.line(&format!("{command}; echo sta''tus=$?"));
        let mut agent = Daemon::accept(&agents);
        let mut operator = Daemon::accept(&screen.listener);
        assert!(operator.registered().name.starts_with("person:"));
        let Envelope { id, request } = agent.next().unwrap();
        let Request::Open(open) = request else { panic!("{request:?}") };
        let (session, receipt) = ("s-1".parse().unwrap(), Receipt::default());
        let (receipt_digest, token, grace_ms) = (String::new(), None, 0);
        let (workspace, limits) = (open.workspace, Default::default());
        let opened =
            Opened { session, workspace, receipt, receipt_digest, token, grace_ms, limits };
        agent.reply(id, Reply::Opened(Box::new(opened)));
        let Envelope { id: call, request } = agent.next().unwrap();
        assert!(matches!(request, Request::Call(_)), "{request:?}");
        Self { screen, agent, operator, call }
    }

    /// Sends output of the command.
    fn prints(&mut self, data: &[u8]) {
        let (stream, data) = (Stream::Stdout, Bytes(data.to_vec()));
        let output = Event::Output { call: self.call, stream, data };
        self.agent.send(&ServerMessage::Event(output));
    }

    /// Returns a property of the terminal, as tmux reports it.
    fn is(&self, format: &str) -> String {
        self.screen.tmux(&["display-message", "-p", format]).trim_end().to_owned()
    }

    /// Ends the command with success and returns the screen.
    fn ends(mut self) -> (Screen, String) {
        let result: CallResult = serde_json::from_str(include_str!("result.json")).unwrap();
        self.agent.reply(self.call, Reply::Result(Box::new(result)));
        assert_eq!(self.agent.next(), None);
        drop(self.agent);
        let shown = self.screen.shows("status=");
        (self.screen, shown)
    }
}

/// Hostile output: title, clipboard, link, device control, alternate screen, hidden cursor, scroll
/// region, line drawing, concealed text, clearing. Some of it uses 8-bit controls, and one sequence
/// is cut in two.
const HOSTILE: [&[u8]; 5] = [
    b"\x1b]0;owned\x07\x1b]52;c;Zm9v\x07\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\r\n",
    b"\x1bP1$r0m\x1b\\\x1b_Gf=24\x1b\\\x1b[?1049h\x1b[?25l\r\n\x1b[2;4r\x1b[?6h\x1b[2J",
    "\u{9b}2J\x1b(0\x0e\x1b[8m\r\n\x1b[1;1Hhome\x1b[".as_bytes(),
    b"?7l\x1b[4h\x9b2J",
    b"\x1b]0;never ended",
];

#[test]
fn control_sequences_of_a_program_are_shown_and_an_approval_request_is_readable() {
    let mut own = Own::run("", "");
    let title = own.is("#{pane_title}");
    HOSTILE.iter().for_each(|data| own.prints(data));
    own.prints(b"\x1b[31mred\x1b[0m ordinary end\r\n");
    let shown = own.screen.shows("ordinary end");
    for text in ["␛[?7l␛[4h<9B>2J␛]0;never endedred ordinary end", "home"] {
        assert!(shown.contains(text), "no {text:?} in:\n{shown}");
    }
    let history = own.screen.tmux(&["capture-pane", "-p", "-e", "-S", "-"]);
    assert!(history.contains("\x1b[31mred"), "{history}");
    own.operator.ask(&approval_request("q-1"));
    let card = own.screen.shows(PROMPT);
    assert!(card.contains("bash wants to run ── q-1"), "{card}");
    // Output that arrives while the approval request is shown waits until it is answered.
    own.prints(b"\x1b[20Aoverwritten\r\nlate\r\n");
    own.operator.ask(&approval_request("q-2"));
    own.screen.shows("+ q-2 is waiting");
    assert_eq!(own.is("#{alternate_on} #{cursor_flag} #{wrap_flag}"), "0 1 1");
    assert_eq!(own.is("#{pane_title}"), title);
    assert_eq!(own.screen.tmux(&["list-buffers"]), "");
    let shown = own.screen.tmux(&["capture-pane", "-p", "-J"]);
    assert!(shown.contains("bash wants to run ── q-1") && !shown.contains("late"), "{shown}");
    for request in ["q-1", "q-2"] {
        own.screen.shows(&format!("wants to run ── {request}"));
        own.screen.shows(PROMPT);
        own.screen.keys(&["y"]);
        assert_eq!(own.operator.answer().decision, Decision::Approve);
    }
    own.screen.shows("late");
    let (screen, shown) = own.ends();
    assert!(shown.contains("status=0"), "{shown}");
    screen.is_restored();
}

#[test]
fn with_raw_a_program_steers_the_terminal_and_an_approval_request_takes_it_back() {
    let mut own = Own::run("--raw", "");
    HOSTILE.iter().for_each(|data| own.prints(data));
    let start = Instant::now();
    while own.is("#{alternate_on} #{cursor_flag} #{wrap_flag}") != "1 0 0" {
        assert!(start.elapsed() < Duration::from_secs(120), "nothing was passed on");
        std::thread::sleep(Duration::from_millis(20));
    }
    own.operator.ask(&approval_request("q-1"));
    let card = own.screen.shows(PROMPT);
    for text in ["bash wants to run ── q-1", "will be lost: /home/me/project/build"] {
        assert!(card.contains(text), "no {text:?} in:\n{card}");
    }
    let state = "#{alternate_on} #{cursor_flag} #{wrap_flag} #{origin_flag} #{insert_flag} \
                 #{scroll_region_upper}-#{scroll_region_lower}";
    assert_eq!(own.is(state), "0 1 1 0 0 0-59");
    let cells = own.screen.tmux(&["capture-pane", "-p", "-e"]);
    assert!(!cells.contains("\x1b[8m"), "{cells:?}");
    own.screen.keys(&["y"]);
    assert_eq!(own.operator.answer().decision, Decision::Approve);
    let (screen, _) = own.ends();
    screen.is_restored();
}

#[test]
fn a_file_or_a_pipe_gets_every_byte() {
    for after in ["> out", "| cat > out"] {
        let mut own = Own::run("", after);
        HOSTILE.iter().for_each(|data| own.prints(data));
        let (screen, _) = own.ends();
        assert_eq!(std::fs::read(screen.path("out")).unwrap(), HOSTILE.concat(), "{after}");
    }
}

/// Runs a command with a private daemon that requests approval, and types this key. Returns the
/// decision and the screen.
fn own_request(key: &str) -> (Decision, String) {
    let Own { screen, mut agent, mut operator, call: id } = Own::run("", "");
    operator.ask(&approval_request("q-1"));
    screen.shows(PROMPT);
    screen.keys(&[key]);
    let decision = operator.answer().decision;
    let mut result: CallResult = serde_json::from_str(include_str!("result.json")).unwrap();
    if decision == Decision::Approve {
        result.undo = Some("01990f3e-71d2-7a3e-8b11-0c5d2a9e4f60".to_owned());
    }
    if let Decision::Deny(deny) = &decision {
        result.success = false;
        result.exit_code = None;
        result.error = Some(WireError::new(ErrorCode::Denied, &deny.reason, ""));
    }
    agent.reply(id, Reply::Result(Box::new(result)));
    assert_eq!(agent.next(), None);
    drop(agent);
    let shown = screen.shows("status=");
    screen.is_restored();
    (decision, shown)
}

#[test]
fn a_command_at_a_terminal_asks_there() {
    let (decision, shown) = own_request("y");
    assert_eq!(decision, Decision::Approve);
    assert!(shown.contains("status=0"), "{shown}");
    assert!(shown.contains("undo: palisade undo 01990f3e-71d2-7a3e\n"), "{shown}");
    for key in ["Escape", "C-c", "q"] {
        let (decision, shown) = own_request(key);
        assert!(matches!(decision, Decision::Deny(_)), "{key}: {decision:?}");
        assert!(shown.contains("error: denied: no reason given"), "{key}: {shown}");
        assert!(shown.contains("why: palisade why "), "{key}: {shown}");
        assert!(shown.contains("status=126"), "{key}: {shown}");
    }
}
