//! Tests with text that is meant to break the parser: the answer is `hidden` within a time limit,
//! and the process is replaced. Also tests what the process may not do.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use palisade_analyst::{MAX_TEXT, Supervisor, WORK};
use palisade_policy::analysis::Kind;
use std::fs;

fn supervisor() -> Supervisor {
    Supervisor::new(env!("CARGO_BIN_EXE_palisade-analyst").into())
}

/// Returns the failure of a text, after checking that its only finding is `hidden`.
fn is_hidden(analyst: &Supervisor, text: &str) -> Option<String> {
    let analysis = analyst.ask(text);
    assert_eq!(analysis.made.found.len(), 1, "{:?}", analysis.made.found);
    assert_eq!(analysis.made.found[0].kind, Kind::Hidden);
    analysis.failure
}

/// Checks, as a control, that an ordinary command still gets the right answer.
fn still_answers(analyst: &Supervisor) {
    let analysis = analyst.ask("rm -rf d");
    assert_eq!(analysis.failure, None);
    assert_eq!(analysis.made.found[0].kind, Kind::Destructive);
    assert!(analyst.ask("ls").made.found.is_empty());
}

#[test]
fn a_text_that_the_parser_never_finishes_costs_the_process_and_nothing_else() {
    let analyst = supervisor();
    still_answers(&analyst);
    for bomb in ["$<<\"\" ", "cat <<'' ", "ls; cat <<\"\" "] {
        let before = analyst.process_id().unwrap();
        let why = is_hidden(&analyst, bomb).unwrap_or_else(|| panic!("{bomb:?} was answered"));
        assert!(why.contains("did not answer in time") || why.contains("died over it"), "{why}");
        assert_eq!(analyst.process_id(), None, "{bomb:?}");
        assert!(!fs::exists(format!("/proc/{before}")).unwrap());
        still_answers(&analyst);
        assert_ne!(analyst.process_id().unwrap(), before);
    }
}

#[test]
fn deep_nesting_is_refused_before_the_parser_sees_it() {
    let analyst = supervisor();
    still_answers(&analyst);
    let before = analyst.process_id();
    let closed =
        |open: &str, close: &str, n: usize| format!("{}ls{}", open.repeat(n), close.repeat(n));
    for text in [
        "(".repeat(26),
        "(".repeat(MAX_TEXT),
        closed("(", ")", 20_000),
        closed("$(", ")", 10_000),
        closed("{ ", ";}", 10_000),
        closed("${a:-", "}", 10_000),
        closed("\"$(", ")\"", 10_000),
        closed("<(", ")", 60),
    ] {
        assert_eq!(is_hidden(&analyst, &text), None, "{}", &text[..20]);
    }
    assert_eq!(analyst.process_id(), before, "none of them cost the process");
    still_answers(&analyst);
}

#[test]
fn keywords_nest_too() {
    let analyst = supervisor();
    for text in [
        "if ".repeat(20_000),
        "while ".repeat(10_000),
        format!("{}ls{}", "if true; then ".repeat(3_000), "; fi".repeat(3_000)),
        format!("{}ls{}", "for i in a; do ".repeat(3_000), "; done".repeat(3_000)),
        "case x in ".repeat(6_000),
    ] {
        let analysis = analyst.ask(&text);
        assert!(analysis.made.found.iter().any(|f| f.kind == Kind::Hidden), "{}", &text[..20]);
    }
    still_answers(&analyst);
}

#[test]
fn a_text_over_the_limit_is_not_even_sent() {
    let analyst = supervisor();
    let why = is_hidden(&analyst, &"a".repeat(1024 * 1024)).unwrap();
    assert_eq!(why, "it has 1048576 bytes, and 65536 are looked at");
    assert_eq!(analyst.process_id(), None, "nothing was started for it");
    let most = format!("rm {}", "a".repeat(MAX_TEXT - 3));
    // On a busy machine, the longest text that is analysed can take longer than a request may.
    let found = (0..50).any(|_| analyst.ask(&most).made.found[0].kind == Kind::Destructive);
    assert!(found, "the longest text is looked at");
}

#[test]
fn long_flat_texts_are_looked_at_or_hidden() {
    let analyst = supervisor();
    for text in ["ls;".repeat(20_000), "ls|".repeat(20_000) + "ls", "x=$x$x;".repeat(9_000)] {
        let analysis = analyst.ask(&text);
        assert!(analysis.made.found.iter().any(|f| f.kind == Kind::Hidden), "{}", &text[..9]);
    }
    let buried = format!("{}rm -rf d", "ls;".repeat(1_000));
    let analysis = analyst.ask(&buried);
    assert_eq!(analysis.failure, None);
    assert!(analysis.made.found.iter().any(|f| f.kind == Kind::Destructive));
    still_answers(&analyst);
}

/// Stops a process and waits until all its threads have stopped; one may run on for a while.
fn stop(pid: rustix::process::Pid) {
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let tasks = format!("/proc/{}/task", pid.as_raw_nonzero());
    let has_stopped = |task: fs::DirEntry| {
        let status = fs::read_to_string(task.path().join("status")).unwrap();
        status.contains("State:\tT")
    };
    while !fs::read_dir(&tasks).unwrap().all(|task| has_stopped(task.unwrap())) {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

#[test]
fn a_busy_machine_costs_no_answer() {
    let analyst = supervisor();
    still_answers(&analyst);
    let before = analyst.process_id().unwrap();
    let pid = rustix::process::Pid::from_raw(before.cast_signed()).unwrap();
    stop(pid);
    // The process is stopped for several times its processor time limit, but uses none of it. That
    // time begins when the request was sent and its sender sleeps until the answer.
    let sender = rustix::thread::gettid();
    let later = std::thread::spawn(move || {
        let status = format!("/proc/self/task/{sender}/status");
        while !fs::read_to_string(&status).unwrap().contains("State:\tS") {
            std::thread::yield_now();
        }
        std::thread::sleep(WORK * 4);
        rustix::process::kill_process(pid, rustix::process::Signal::CONT).unwrap();
    });
    let analysis = analyst.ask("rm -rf d");
    later.join().unwrap();
    assert_eq!(analysis.failure, None);
    assert_eq!(analyst.process_id(), Some(before));
    // The wait for a stopped process is limited as well.
    stop(pid);
    assert_eq!(is_hidden(&analyst, "ls").unwrap(), "the analyst did not answer in time");
    still_answers(&analyst);
    assert_ne!(analyst.process_id().unwrap(), before);
}

#[test]
fn a_process_that_was_killed_between_two_requests_is_replaced() {
    let analyst = supervisor();
    still_answers(&analyst);
    let before = analyst.process_id().unwrap();
    let pid = rustix::process::Pid::from_raw(before.cast_signed()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
    // Either the send fails and the process is replaced at once, or the answer is `hidden`.
    let first = analyst.ask("rm -rf d");
    assert!(matches!(first.made.found[0].kind, Kind::Destructive | Kind::Hidden));
    still_answers(&analyst);
    assert_ne!(analyst.process_id().unwrap(), before);
}

#[test]
fn no_program_is_an_answer_too() {
    let analyst = Supervisor::new("/no/such/analyst".into());
    assert!(analyst.start().is_err());
    let why = is_hidden(&analyst, "ls").unwrap();
    assert!(why.starts_with("can not start /no/such/analyst: "), "{why}");
}

#[test]
fn a_program_that_is_no_analyst_is_given_up() {
    let analyst = Supervisor::new("/bin/true".into());
    let why = is_hidden(&analyst, "ls").unwrap();
    assert!(why.starts_with("/bin/true does not come up: "), "{why}");
}

#[test]
fn the_process_is_confined() {
    let analyst = supervisor();
    still_answers(&analyst);
    let pid = analyst.process_id().unwrap();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let field = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().to_owned()
    };
    assert_eq!(field("NoNewPrivs:"), "1");
    assert_eq!(field("Seccomp:"), "2");
    assert_eq!(field("Threads:"), "2");
    for task in fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
        let status = fs::read_to_string(task.unwrap().path().join("status")).unwrap();
        assert!(status.contains("Seccomp:\t2\n"), "every thread has the filter");
    }
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let limit = |name: &str| {
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
        line[name.len()..].split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!(limit("Max address space"), "268435456");
    assert_eq!(limit("Max file size"), "0");
    assert_eq!(limit("Max open files"), "4");
}

#[test]
fn the_process_ends_with_its_supervisor() {
    let analyst = supervisor();
    still_answers(&analyst);
    let pid = analyst.process_id().unwrap();
    assert!(fs::exists(format!("/proc/{pid}")).unwrap());
    drop(analyst);
    assert!(!fs::exists(format!("/proc/{pid}")).unwrap());
}
