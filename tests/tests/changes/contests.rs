//! Commands and others who change the same files at the same time: nothing that anybody wrote is
//! lost unless somebody says so, and what a command finds is what is there when it starts.

use palisade_client::{Answer, ApprovalRequest, Event, JobStatus, Review};
use palisade_protocol::{ErrorCode, RawPath};
use palisade_tests::{Desk, Dice, Mode, data, effort, processes, profile_with, rooms::until, tree};
use serde_json::json;
use std::{
    collections::HashMap,
    fs,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

/// Changes three files, says so, and waits.
const LINE: &str = "python3 -c 'import os, sys
open(\"b.txt\", \"a\").write(\"inside\\n\"); open(\"n.txt\", \"w\").write(\"new\\n\")
print(\"ready\", flush=True); sys.stdin.read()'";

fn filled(mode: Mode, profile: &str) -> Desk {
    let desk = Desk::new(mode, profile);
    desk.file("a.txt", "one\n");
    desk.file("b.txt", "bee\n");
    desk
}

#[test]
fn what_somebody_else_changed_as_well_is_asked_about() {
    for mode in Mode::all() {
        let desk = filled(mode, &profile_with(&[]));
        let outside = || desk.file("b.txt", "bee\noutside\n");
        // With nobody there it is a conflict, and nothing counts.
        let (result, _) = desk.meanwhile(LINE, outside, |_| Answer::approve());
        assert_eq!(result.error.unwrap().code, ErrorCode::Conflict, "{mode:?}");
        assert_eq!(desk.text("b.txt").as_deref(), Some("bee\noutside\n"), "{mode:?}");
        assert_eq!((desk.text("n.txt"), result.undo), (None, None), "{mode:?}");

        desk.attach();
        let outside = || desk.file("b.txt", "bee\nagain\n");
        let (result, asked) = desk.meanwhile(LINE, outside, |_| Answer::deny("no"));
        let [request] = &asked[..] else { panic!("{asked:?}") };
        assert_eq!(request.review, Review::Effects);
        let conflicts: Vec<_> =
            request.findings.iter().filter(|found| found.kind == "conflict").collect();
        let [conflict] = conflicts[..] else { panic!("{:?}", request.findings) };
        assert_eq!(conflict.targets, [desk.path("b.txt").to_str().unwrap()]);
        assert!(
            conflict.why.ends_with(
                "there is a file of 10 bytes now, and the command left a file of 19 bytes"
            ),
            "{conflict:?}"
        );
        // The change is shown against the content that is there now.
        let diff = request.view.diff.as_ref().unwrap();
        assert!(diff.contains("-again") && diff.contains("+inside"), "{diff}");
        assert_eq!(result.error.unwrap().code, ErrorCode::Denied, "{mode:?}");
        assert_eq!(desk.text("b.txt").as_deref(), Some("bee\nagain\n"), "{mode:?}");

        let outside = || desk.file("b.txt", "bee\nonce more\n");
        let without = |_: &ApprovalRequest| {
            Answer::approve_without([RawPath(
                desk.path("b.txt").into_os_string().into_encoded_bytes(),
            )])
        };
        let (result, _) = desk.meanwhile(LINE, outside, without);
        assert!(result.success, "{mode:?}: {:?}", result.error);
        assert_eq!(desk.text("b.txt").as_deref(), Some("bee\nonce more\n"), "{mode:?}");
        assert_eq!(desk.text("n.txt").as_deref(), Some("new\n"), "{mode:?}");

        // Over it, and what was there comes back.
        let outside = || desk.file("b.txt", "bee\nlast\n");
        let (result, _) = desk.meanwhile(LINE, outside, |_| Answer::approve());
        assert!(result.success, "{mode:?}: {:?}", result.error);
        assert_eq!(desk.text("b.txt").as_deref(), Some("bee\nonce more\ninside\n"), "{mode:?}");
        let undone = desk.sandbox.done("undo", json!({"call_id": result.undo.unwrap()}));
        assert!(undone.success, "{mode:?}");
        assert_eq!(desk.text("b.txt").as_deref(), Some("bee\nlast\n"), "{mode:?}");
    }
}

/// An answer is of what was shown: what changes after that is not lost by it.
#[test]
fn an_approval_is_not_of_what_comes_after_it_was_shown() {
    for mode in Mode::all() {
        let desk = filled(mode, &profile_with(&[]));
        desk.attach();
        let outside = || desk.file("b.txt", "bee\noutside\n");
        let late = |_: &ApprovalRequest| {
            desk.file("b.txt", "bee\nlate\n");
            Answer::approve()
        };
        let (result, asked) = desk.meanwhile(LINE, outside, late);
        assert_eq!(asked.len(), 1, "{mode:?}");
        let error = result.error.unwrap();
        assert_eq!(error.code, ErrorCode::StaleApproval, "{mode:?}: {error:?}");
        assert!(error.message.contains("is no longer valid"), "{error:?}");
        assert_eq!(desk.text("b.txt").as_deref(), Some("bee\nlate\n"), "{mode:?}");
        assert_eq!(desk.text("n.txt"), None, "{mode:?}");
        // A file that is deleted inside and changes after it was shown is not lost either.
        let line = "python3 -c 'import os; f = os.unlink; f(\"a.txt\")'";
        let late = |_: &ApprovalRequest| {
            desk.file("a.txt", "somebody needs it\n");
            Answer::approve()
        };
        let (result, asked) = desk.bash(line, late);
        assert_eq!((asked.len(), result.error.unwrap().code), (1, ErrorCode::Conflict), "{mode:?}");
        assert_eq!(desk.text("a.txt").as_deref(), Some("somebody needs it\n"), "{mode:?}");
    }
}

/// Returns `true` if a transaction has been made for a call to come: its shell waits.
fn has_next_transaction(desk: &Desk) -> bool {
    let all = processes::tree(desk.daemon.child.id().cast_signed());
    let made: Vec<i32> =
        all.iter().filter(|it| it.name.ends_with(" once")).map(|it| it.pid).collect();
    all.iter().any(|process| process.is_spare() && made.contains(&process.parent))
}

/// A session's next transaction is made while the one before runs. It must not show what was there
/// by then.
#[test]
fn a_command_finds_what_is_there_when_it_starts() {
    for mode in Mode::all() {
        let desk = filled(mode, &profile_with(&[]));
        let workspace = desk.world.workspace();
        let show = "python3 -c 'import os
for top, dirs, files in sorted(os.walk(\".\")):
    for name in sorted(files):
        if name != \"probe\": print(os.path.join(top, name), repr(open(os.path.join(top, name)).read()))'";
        let acts: [(&str, &dyn Fn()); 6] = [
            ("nothing", &|| {}),
            ("a new file", &|| desk.file("new.txt", "new\n")),
            ("other contents", &|| desk.file("a.txt", "other\n")),
            ("a new tree", &|| desk.file("d/e/f.txt", "deep\n")),
            ("another directory of that name", &|| {
                fs::rename(workspace.join("d"), workspace.join("was")).unwrap();
                desk.file("d/g.txt", "another\n");
            }),
            ("gone", &|| {
                fs::remove_file(workspace.join("new.txt")).unwrap();
                fs::remove_dir_all(workspace.join("was")).unwrap();
            }),
        ];
        for (what, act) in acts {
            assert_eq!(desk.sandbox.ok("python3 -c 'print(1)'"), "1\n");
            until("the next transaction waits", || has_next_transaction(&desk));
            act();
            let mut expected: Vec<String> = tree(&workspace);
            expected.retain(|line| !line.starts_with("probe"));
            let shown = desk.sandbox.ok(show);
            let mut files = Vec::new();
            for name in ["a.txt", "b.txt", "new.txt", "d/e/f.txt", "d/g.txt", "was/e/f.txt"] {
                if let Some(text) = desk.text(name) {
                    files.push(format!("./{name} {:?}", text).replace('"', "'"));
                }
            }
            files.sort();
            let mut found: Vec<&str> = shown.lines().collect();
            found.sort_unstable();
            assert_eq!(found, files, "{mode:?}: {what}: {expected:?}");
        }
        // By the session's own tools as well.
        let tool = json!({"path": "tool.txt", "content": "by a tool\n"});
        assert!(desk.sandbox.done("write_file", tool).success, "{mode:?}");
        assert_eq!(
            desk.sandbox.ok("python3 -c 'print(open(\"tool.txt\").read(), end=\"\")'"),
            "by a tool\n"
        );
    }
}

/// Somebody writes all the time what commands write too. Whoever came last is there, and nobody is
/// written over without being seen.
#[test]
fn no_update_of_anybody_is_lost() {
    let rounds = effort(8, 150);
    for mode in Mode::all() {
        let allowed = [
            ("guard = \"auto\"", "guard = \"transaction\""),
            ("replacements = \"ask\"", "replacements = \"allow\""),
        ];
        let desk = filled(mode, &profile_with(&allowed));
        let mut dice = Dice::new(&format!("contests, {mode:?}"));
        let mut ends = HashMap::<bool, u32>::new();
        for round in 0..rounds {
            let committed = race(&desk, &mut dice, &format!("{mode:?}, round {round}"));
            *ends.entry(committed).or_default() += 1;
        }
        eprintln!("{mode:?}: {} commands counted, {ends:?}", rounds);
    }
}

/// One round; whether the command counted.
fn race(desk: &Desk, dice: &mut Dice, what: &str) -> bool {
    const FILES: usize = 5;
    let workspace = desk.world.workspace();
    let name = |file: usize| format!("f{file}");
    (0..FILES).for_each(|file| desk.file(&name(file), "before\n"));
    let inside: Vec<String> = (0..FILES).filter(|_| dice.roll(2) == 0).map(name).collect();
    let pause = dice.roll(40);
    let line = format!(
        "python3 -c 'import time; print(\"ready\", flush=True)
for f in {:?}.split(): open(f, \"w\").write(\"inside\\n\")
time.sleep({pause} / 1000)'",
        inside.join(" ")
    );
    let plan: Vec<(usize, usize)> =
        (0..1 + dice.roll(12)).map(|_| (dice.roll(FILES), dice.roll(12))).collect();
    let over = AtomicBool::new(false);
    let (result, ready, written) = std::thread::scope(|scope| {
        let outsider = scope.spawn(|| {
            let mut written = HashMap::new();
            for (number, (file, wait)) in plan.iter().enumerate() {
                std::thread::sleep(Duration::from_millis(*wait as u64));
                if over.load(Ordering::Relaxed) {
                    break;
                }
                let (aside, path) =
                    (desk.world.outside().join("aside"), workspace.join(name(*file)));
                let text = format!("outside {number}\n");
                fs::write(&aside, &text).unwrap();
                desk.world.give(&aside);
                // Before this it is not there, and afterwards it is not lost.
                let begun = Instant::now();
                fs::rename(&aside, path).unwrap();
                written.insert(name(*file), (text, begun));
            }
            written
        });
        let (result, ready) = desk.sandbox.wait(async {
            let mut running = desk.sandbox.session.bash(&line).stream().start().await.unwrap();
            let mut ready = None;
            while let Some(event) = running.next().await {
                if matches!(event, Event::Output { .. }) {
                    ready.get_or_insert_with(Instant::now);
                }
            }
            (running.result().await.unwrap(), ready)
        });
        over.store(true, Ordering::Relaxed);
        (result, ready, outsider.join().unwrap())
    });
    let context = format!("{what}: {plan:?} {inside:?} {:?}", result.error);
    let committed = match &result.error {
        None => inside.is_empty() || data(&result)["transaction"]["committed"] == true,
        Some(error) => {
            assert_eq!(error.code, ErrorCode::Conflict, "{context}");
            false
        }
    };
    let ready = ready.unwrap_or_else(|| panic!("{context}"));
    for file in (0..FILES).map(name) {
        let text = desk.text(&file).unwrap();
        match (text.as_str(), written.get(&file)) {
            ("inside\n", last) => {
                assert!(committed && inside.contains(&file), "{file}: {context}");
                // A write after the command had started must not be lost.
                assert!(last.is_none_or(|(_, begun)| *begun < ready), "{file} lost: {context}");
            }
            (text, Some((last, _))) => assert_eq!(text, last, "{file}: {context}"),
            (text, None) => {
                assert_eq!(text, "before\n", "{file}: {context}");
                assert!(!committed || !inside.contains(&file), "{file}: {context}");
            }
        }
    }
    committed
}

/// A job that gets a descriptor from another program, and tries to use it once it sees `go`.
const RECEIVER: &str = r#"exec python3 -u -c '
import errno, os, socket, time
own = socket.socket(socket.AF_UNIX)
own.bind("/tmp/passing")
own.listen()
print("listening")
other, _ = own.accept()
_, [file], _, _ = socket.recv_fds(other, 1, 1)
other.send(b"x")
while not os.path.exists("go"): time.sleep(0.01)
for attempt in (lambda: os.pwrite(file, b"EVIL", 0), lambda: os.fchmod(file, 0o777),
                lambda: os.utime(file, (1, 1))):
    try:
        attempt()
        print("done")
    except OSError as error:
        print(errno.errorcode[error.errno])'"#;

/// Deletes a file, makes another, and passes a descriptor of that to the job.
fn sender(mode: &str) -> String {
    r#"exec python3 -c '
import os, socket
os.remove("a.txt")
with open("made", "w") as file: file.write("good\n")
file = open("made", "MODE")
other = socket.socket(socket.AF_UNIX)
other.connect("/tmp/passing")
socket.send_fds(other, [b"x"], [file.fileno()])
other.recv(1)'"#
        .replace("MODE", mode)
}

/// Waits until a job has printed a text.
async fn printed(desk: &Desk, job: u64, text: &str) {
    let mut cursor = 0;
    let mut all = String::new();
    while !all.contains(text) {
        let asked = json!({"job": job, "cursor": cursor, "wait_ms": 60_000});
        let result = desk.sandbox.session.call("job_output", asked).await.unwrap();
        let status = JobStatus::of(&result).unwrap();
        cursor = status.cursor;
        all.push_str(&result.output);
        assert!(all.contains(text) || !status.has_ended(), "{all}: {status:?}");
    }
}

/// What a descriptor can change that outlived its transaction is not committed, and a descriptor
/// that can change nothing does no harm.
#[test]
fn a_descriptor_that_a_job_was_passed_changes_nothing_that_is_judged() {
    for mode in Mode::all() {
        for (opened, for_writing) in [("r+", true), ("a", true), ("r", false)] {
            let desk = filled(mode, &profile_with(&[]));
            desk.attach();
            let job = desk.sandbox.start_job(json!({"command": RECEIVER, "route": "watch"}));
            desk.sandbox.wait(printed(&desk, job, "listening"));
            let call = desk.sandbox.session.call("bash", json!({"command": sender(opened)}));
            let (result, asked) = desk.during(async { call.await.unwrap() }, async |request| {
                desk.file("go", "");
                // Writing by a descriptor for reading, and changes of what is read-only.
                printed(&desk, job, "EBADF\nEROFS\nEROFS\n").await;
                desk.operator.answer(request, Answer::approve()).await.unwrap();
            });
            if for_writing {
                let error = result.error.unwrap();
                assert_eq!(
                    (error.code, asked.len()),
                    (ErrorCode::Conflict, 0),
                    "{mode:?}: {error}"
                );
                assert!(error.message.contains("has a file open for writing"), "{error}");
                assert!(error.hint.contains("job_kill"), "{error}");
                assert_eq!(desk.text("made"), None, "{mode:?}");
                assert!(desk.path("a.txt").exists(), "{mode:?}");
                // Once the job has ended, the same is judged and committed.
                assert!(desk.sandbox.done("job_kill", json!({"job": job})).success);
                let line = "rm a.txt; echo good >made";
                let again = json!({"command": line});
                let (result, _) = desk.call("bash", again, |_| Some(Answer::approve()));
                assert!(result.success, "{mode:?}: {:?}", result.error);
            } else {
                assert_eq!(asked.len(), 1, "{mode:?}: {result:?}");
                assert!(result.success, "{mode:?}: {:?}", result.error);
            }
            assert!(!desk.path("a.txt").exists(), "{mode:?}");
            assert_eq!(desk.text("made").as_deref(), Some("good\n"), "{mode:?}");
        }
    }
}
