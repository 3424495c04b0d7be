//! The effects of a job so far are committed while it goes on: judged like the effects of a call,
//! with its processes standing still, and again and again on the same layer.

use palisade_client::{Answer, JobStatus};
use palisade_protocol::{Ask, CallResult, ErrorCode};
use palisade_tests::{
    Desk, Dice, Mode, Place, data, effort, processes, profile_with, rooms::until, tree,
};
use serde_json::json;
use std::{fs, os::unix::fs::PermissionsExt as _};

/// A job that does something each time it is typed into, and says when that is done.
struct Steps<'a> {
    desk: &'a Desk,
    job: u64,
    read: u64,
}

impl<'a> Steps<'a> {
    fn begin(desk: &'a Desk, line: &str) -> Self {
        let job = desk.sandbox.start_job(json!({"command": line, "input": true}));
        Self { desk, job, read: 0 }
    }

    /// Runs the lines that it reads itself, one after another.
    fn shell(desk: &'a Desk) -> Self {
        Self::begin(desk, "while IFS= read -r line; do eval \"$line\"; echo ready; done")
    }

    fn run(&mut self, line: &str) {
        let typed = json!({"job": self.job, "data": format!("{line}\n")});
        assert!(self.desk.sandbox.done("job_input", typed).success);
        let mut printed = String::new();
        while !printed.ends_with("ready\n") {
            let asked = json!({"job": self.job, "cursor": self.read, "wait_ms": 60_000});
            let result = self.desk.sandbox.done("job_output", asked);
            self.read = JobStatus::of(&result).unwrap().cursor;
            printed.push_str(&result.output);
        }
    }

    /// Runs a step; returns what it prints before it is done.
    fn prints(&mut self, line: &str) -> String {
        let from = self.read;
        self.run(line);
        let asked = json!({"job": self.job, "cursor": from});
        let output = self.desk.sandbox.done("job_output", asked).output;
        output.strip_suffix("ready\n").unwrap().to_owned()
    }

    fn commit(&self) -> CallResult {
        self.desk.sandbox.call("job_commit", json!({"job": self.job}))
    }

    fn committed(&self) -> JobStatus {
        let result = self.commit();
        assert!(result.success, "{:?}", result.error);
        let status = JobStatus::of(&result).unwrap();
        assert_eq!(status.state, "running");
        status
    }

    fn end(self) -> JobStatus {
        let typed = json!({"job": self.job, "end": true});
        assert!(self.desk.sandbox.done("job_input", typed).success);
        self.desk.sandbox.whole_job(self.job).1
    }
}

fn desk(mode: Mode) -> Desk {
    Desk::new(mode, &profile_with(&[]))
}

#[test]
fn what_a_job_did_so_far_is_committed_again_and_again() {
    for mode in Mode::all() {
        let desk = desk(mode);
        let mut steps = Steps::shell(&desk);
        steps.run("echo one >a; mkdir -p d/e; echo deep >d/e/f; ln -s a link");
        assert_eq!(desk.text("a"), None, "{mode:?}: nothing before it is committed");
        let status = steps.committed();
        assert_eq!(status.transaction.unwrap().effects.len(), 3, "{mode:?}");
        assert_eq!(desk.text("a").as_deref(), Some("one\n"));
        assert_eq!(desk.text("d/e/f").as_deref(), Some("deep\n"));
        assert_eq!(desk.text("link").as_deref(), Some("one\n"));
        // With nothing new there is nothing to commit.
        assert!(steps.committed().transaction.is_none_or(|changes| changes.effects.is_empty()));
        // It changes and deletes what it made itself, in old directories and in its own.
        steps.run("echo two >>a; rm -r d/e; echo new >d/g; chmod 600 a");
        assert_eq!(steps.prints("ls d; ls"), "g\na\nd\nlink\nprobe\n");
        steps.committed();
        assert_eq!(desk.text("a").as_deref(), Some("one\ntwo\n"));
        assert_eq!((desk.text("d/e/f"), desk.text("d/g")), (None, Some("new\n".into())));
        assert!(!desk.path("d/e").exists());
        steps.run("rm -r d a");
        steps.committed();
        let mut left: Vec<_> =
            fs::read_dir(desk.world.workspace()).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["link", "probe"], "{mode:?}");
        // A directory that was there keeps what is in it.
        desk.file("old/file", "old\n");
        let mut other = Steps::shell(&desk);
        other.run("chmod 700 old; echo x >old/x");
        other.committed();
        assert_eq!(other.prints("ls old; rm old/x"), "file\nx\n");
        other.committed();
        assert_eq!((desk.text("old/file").as_deref(), desk.text("old/x")), (Some("old\n"), None));
        other.end();
        // The rest is committed at its end.
        steps.run("echo last >a");
        let ended = steps.end();
        assert!(ended.transaction.unwrap().committed, "{mode:?}");
        assert_eq!(desk.text("a").as_deref(), Some("last\n"));
    }
}

#[test]
fn each_commit_can_be_undone() {
    for mode in Mode::all() {
        let desk = desk(mode);
        let mut steps = Steps::shell(&desk);
        steps.run("echo one >a");
        steps.committed();
        steps.run("echo two >b");
        let second = steps.commit();
        assert!(second.success, "{:?}", second.error);
        let undo = json!({"call_id": second.undo.unwrap()});
        let undone = desk.sandbox.call("undo", undo);
        assert!(undone.success, "{mode:?}: {:?}", undone.error);
        assert_eq!((desk.text("a").as_deref(), desk.text("b")), (Some("one\n"), None));
    }
}

#[test]
fn a_loss_is_asked_about_and_with_nobody_there_the_job_goes_on_without_it() {
    for mode in Mode::all() {
        let desk = desk(mode);
        desk.file("victim", "precious\n");
        let mut steps = Steps::shell(&desk);
        steps.run("echo mine >own; rm victim");
        let refused = steps.commit();
        let error = refused.error.unwrap();
        assert_eq!(error.code, ErrorCode::Denied, "{mode:?}: {error}");
        assert!(error.message.starts_with("no changes of the job were committed: "), "{error}");
        assert_eq!(desk.text("victim").as_deref(), Some("precious\n"), "{mode:?}");
        assert_eq!(desk.text("own"), None, "{mode:?}: all or nothing");
        // It kept its layer.
        assert_eq!(steps.prints("ls"), "own\nprobe\n");
        desk.attach();
        let ask = json!({"job": steps.job});
        let (result, requests) = desk.call("job_commit", ask, |_| Some(Answer::approve()));
        assert!(result.success, "{:?}", result.error);
        assert_eq!(requests.len(), 1, "{mode:?}");
        assert!(format!("{requests:?}").contains("victim"), "{requests:?}");
        assert_eq!((desk.text("victim"), desk.text("own").as_deref()), (None, Some("mine\n")));
        steps.end();
    }
}

#[test]
fn a_refused_one_ends_the_job_if_the_call_says_so() {
    for mode in Mode::all() {
        let desk = desk(mode);
        desk.file("victim", "precious\n");
        let mut steps = Steps::shell(&desk);
        steps.run("echo mine >own; rm victim");
        let arguments = json!({"job": steps.job, "if_refused": "end"});
        assert_eq!(desk.sandbox.refused("job_commit", arguments).0, ErrorCode::Denied);
        let error = desk.sandbox.whole_job(steps.job).1.error.unwrap();
        assert!(error.message.contains("its changes are discarded"), "{mode:?}: {error}");
        assert_eq!(desk.text("victim").as_deref(), Some("precious\n"), "{mode:?}");
        assert_eq!(desk.text("own"), None, "{mode:?}");
    }
}

/// The letters of the states of marked processes.
fn states(mark: &str) -> Vec<char> {
    let state = |process: &processes::Process| {
        let stat = fs::read_to_string(format!("/proc/{}/stat", process.pid)).unwrap_or_default();
        stat.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next())
    };
    processes::marked(mark).iter().filter_map(state).collect()
}

#[test]
fn its_processes_stand_still_while_it_is_reviewed_and_go_on_as_they_were() {
    for mode in Mode::all() {
        let desk = desk(mode);
        desk.attach();
        desk.file("victim", "precious\n");
        let mark = processes::mark();
        let mut steps = Steps::shell(&desk);
        // One that never rests, one that sleeps, and one that was stopped by somebody of its own.
        steps.run(&format!("m={mark}; bash -c 'while :; do :; done' $m-busy &"));
        steps.run("(exec -a $m-sleeps sleep 1000) &");
        steps.run("(exec -a $m-stopped sleep 1000) & stopped=$!");
        steps.run("until grep -q sleep /proc/$stopped/comm; do :; done; kill -STOP $stopped");
        until("all have their names, and one is stopped", || {
            let seen = states(&mark);
            seen.len() >= 3 && seen.contains(&'T')
        });
        steps.run("rm victim");
        let call = desk.sandbox.session.call("job_commit", json!({"job": steps.job}));
        let (result, requests) = desk.during(async { call.await.unwrap() }, async |request| {
            let seen = states(&mark);
            assert!(
                seen.len() >= 3 && seen.iter().all(|state| *state == 'T'),
                "{mode:?}: {seen:?}"
            );
            desk.operator.answer(request, Answer::approve()).await.unwrap();
        });
        assert!(result.success, "{mode:?}: {:?}", result.error);
        assert_eq!((requests.len(), desk.text("victim")), (1, None), "{mode:?}");
        until("they go on", || {
            let seen = states(&mark);
            seen.contains(&'R') && seen.iter().filter(|state| **state == 'T').count() == 1
        });
        assert_eq!(steps.prints("echo alive"), "alive\n");
        assert!(desk.sandbox.done("job_kill", json!({"job": steps.job})).success);
        assert_eq!(processes::marked(&mark), [], "{mode:?}");
    }
}

/// Starts a program as a job; returns the job and its process once it is ready.
fn start_resumable(desk: &Desk, program: &str) -> (u64, nix::unistd::Pid) {
    let mark = processes::mark();
    let line = format!("{program} {mark}");
    let job = desk.sandbox.start_job(json!({"command": line, "input": true}));
    await_end(desk, job, "ready\n");
    let [process] = &processes::marked(&mark)[..] else { panic!("one process") };
    (job, nix::unistd::Pid::from_raw(process.pid))
}

/// Waits until a job's output ends with a text.
fn await_end(desk: &Desk, job: u64, text: &str) {
    until(text, || {
        let output = desk.sandbox.done("job_output", json!({"job": job})).output;
        output.ends_with(text)
    });
}

/// Tries to write a file whenever it is resumed, and prints what came of it.
const WRITER: &str = r#"exec python3 -u -c '
import errno, os, signal, sys
def write(*_):
    try:
        with open("made", "w") as file: file.write("evil\n")
        print("written")
    except OSError as error:
        print(errno.errorcode[error.errno])
signal.signal(signal.SIGCONT, write)
open("made", "w").write("good\n")
os.remove("victim")
print("ready")
for line in sys.stdin: pass'"#;

#[test]
fn a_process_that_is_resumed_during_the_review_can_not_write() {
    for mode in Mode::all() {
        let desk = desk(mode);
        desk.attach();
        desk.file("victim", "precious\n");
        let (job, writer) = start_resumable(&desk, WRITER);
        let call = desk.sandbox.session.call("job_commit", json!({"job": job}));
        let (result, requests) = desk.during(async { call.await.unwrap() }, async |request| {
            nix::sys::signal::kill(writer, nix::sys::signal::Signal::SIGCONT).unwrap();
            let mut output = String::new();
            while !output.ends_with("ready\nEROFS\n") {
                let asked = json!({"job": job, "wait_ms": 10});
                output = desk.sandbox.session.call("job_output", asked).await.unwrap().output;
            }
            desk.operator.answer(request, Answer::approve()).await.unwrap();
        });
        assert!(result.success, "{mode:?}: {:?}", result.error);
        assert_eq!(requests.len(), 1, "{mode:?}");
        assert_eq!(desk.text("made").as_deref(), Some("good\n"), "{mode:?}");
        // The control: it goes on, and what it writes then is committed.
        await_end(&desk, job, "written\n");
        let status = desk.sandbox.call("job_commit", json!({"job": job}));
        assert!(status.success, "{mode:?}: {:?}", status.error);
        assert_eq!(desk.text("made").as_deref(), Some("evil\n"), "{mode:?}");
    }
}

/// Has a file open, and writes into it whenever it is resumed.
const HOLDER: &str = r#"exec python3 -u -c '
import os, signal, sys, threading
file = os.open("made", os.O_CREAT | os.O_RDWR)
os.write(file, b"good\n")
def write(*_):
    os.pwrite(file, b"evil\n", 0)
    print("written")
signal.signal(signal.SIGCONT, write)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCONT])
threading.Thread(target=threading.Event().wait, daemon=True).start()
signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCONT])
os.remove("victim")
print("ready")
for line in sys.stdin: pass'"#;

#[test]
fn a_process_that_has_a_file_open_is_held_whoever_resumes_it() {
    for mode in Mode::all() {
        let desk = desk(mode);
        desk.attach();
        desk.file("victim", "precious\n");
        let (job, pid) = start_resumable(&desk, HOLDER);
        let call = desk.sandbox.session.call("job_commit", json!({"job": job}));
        let (result, requests) = desk.during(async { call.await.unwrap() }, async |request| {
            nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGCONT).unwrap();
            for thread in fs::read_dir(format!("/proc/{pid}/task")).unwrap() {
                let stat = fs::read_to_string(thread.unwrap().path().join("stat")).unwrap();
                let (_, state) = stat.rsplit_once(") ").unwrap();
                assert!(state.starts_with("t "), "{mode:?}: {state}");
            }
            desk.operator.answer(request, Answer::approve()).await.unwrap();
        });
        assert!(result.success, "{mode:?}: {:?}", result.error);
        assert_eq!(requests.len(), 1, "{mode:?}");
        assert_eq!(desk.text("made").as_deref(), Some("good\n"), "{mode:?}");
        // The control: it goes on, and what it writes then is committed.
        await_end(&desk, job, "written\n");
        let result = desk.sandbox.call("job_commit", json!({"job": job}));
        assert!(result.success, "{mode:?}: {:?}", result.error);
        assert_eq!(desk.text("made").as_deref(), Some("evil\n"), "{mode:?}");
    }
}

#[test]
fn open_files_that_another_program_may_have_too_are_not_committed() {
    for mode in Mode::all() {
        let desk = desk(mode);
        let mut steps = Steps::shell(&desk);
        let other = desk.sandbox.start_job(json!({"command": "exec sleep 1000"}));
        steps.run("echo one >a; exec 7>>log 8<a; echo line >&7");
        let error = steps.commit().error.unwrap();
        assert_eq!(error.code, ErrorCode::LimitReached, "{mode:?}: {error}");
        let named = "it has files open for writing: \"log\" (process ";
        assert!(error.message.contains(named), "{error}");
        assert_eq!((desk.text("a"), desk.text("log")), (None, None), "{mode:?}");
        // It goes on and can write, and is committed once the file is closed.
        steps.run("echo more >&7; exec 7>&-");
        steps.committed();
        assert_eq!(desk.text("a").as_deref(), Some("one\n"), "{mode:?}");
        assert_eq!(desk.text("log").as_deref(), Some("line\nmore\n"), "{mode:?}");
        // Alone it is committed again and again, with its file open.
        assert!(desk.sandbox.done("job_kill", json!({"job": other})).success);
        steps.run("exec 7>>log");
        for word in ["x", "y"] {
            steps.run(&format!("echo {word} >&7; echo {word} >b"));
            steps.committed();
            assert!(desk.text("log").unwrap().ends_with(&format!("{word}\n")), "{mode:?}");
            assert_eq!(desk.text("b"), Some(format!("{word}\n")), "{mode:?}");
        }
        assert!(steps.end().transaction.is_none_or(|changes| changes.effects.is_empty()));
        assert_eq!(desk.text("log").as_deref(), Some("line\nmore\nx\ny\n"), "{mode:?}");
    }
}

#[test]
fn a_job_that_is_ended_during_the_review_is_ended_and_nothing_is_committed() {
    for mode in Mode::all() {
        let desk = desk(mode);
        desk.attach();
        desk.file("victim", "precious\n");
        let mut steps = Steps::shell(&desk);
        steps.run("rm victim");
        let job = steps.job;
        let reviewed = tokio::sync::Notify::new();
        let call = desk.sandbox.session.call("job_commit", json!({"job": job}));
        let kill = desk.sandbox.session.job_kill(job);
        let both = async {
            let killed = async {
                reviewed.notified().await;
                kill.await.unwrap()
            };
            let (committed, killed) = tokio::join!(async { call.await.unwrap() }, killed);
            let status = JobStatus::of(&killed).unwrap();
            assert!(status.has_ended() && status.killed, "{mode:?}: {status:?}");
            committed
        };
        let mut asked = 0;
        let (result, requests) = desk.during(both, async |request| {
            asked += 1;
            // The first is not answered any more; of its end is asked once more.
            if asked == 1 {
                reviewed.notify_one();
            } else {
                desk.operator.answer(request, Answer::deny("no")).await.unwrap();
            }
        });
        assert_eq!(requests.len(), 2, "{mode:?}");
        assert_eq!(result.error.unwrap().code, ErrorCode::Cancelled, "{mode:?}");
        assert_eq!(desk.text("victim").as_deref(), Some("precious\n"), "{mode:?}");
    }
}

#[test]
fn what_somebody_else_changed_is_never_written_over() {
    for mode in Mode::all() {
        let desk = desk(mode);
        desk.file("shared", "old\n");
        let mut steps = Steps::shell(&desk);
        steps.run("echo one >a; mkdir d; echo mine >d/mine");
        steps.committed();
        // Beside what was committed, what somebody else makes stays.
        desk.file("d/theirs", "theirs\n");
        steps.run("echo more >d/more; rm d/mine");
        steps.committed();
        assert_eq!(desk.text("d/theirs").as_deref(), Some("theirs\n"), "{mode:?}");
        assert_eq!((desk.text("d/mine"), desk.text("d/more").is_some()), (None, true));
        // A committed file that somebody else then changed is theirs.
        for (line, then) in [("echo again >a", "theirs\n"), ("rm a", "theirs\n")] {
            desk.file("a", then);
            steps.run(line);
            let error = steps.commit().error.unwrap();
            assert_eq!(error.code, ErrorCode::Conflict, "{mode:?}: {line}: {error}");
            assert_eq!(desk.text("a").as_deref(), Some(then), "{mode:?}: {line}");
        }
        // So is what was changed before the first commit.
        let mut other = Steps::shell(&desk);
        other.run("cat shared >/dev/null; echo x >b");
        desk.file("shared", "new\n");
        other.committed();
        other.run("echo mine >>shared");
        let error = other.commit().error.unwrap();
        assert_eq!(error.code, ErrorCode::Conflict, "{mode:?}: {error}");
        assert_eq!(desk.text("shared").as_deref(), Some("new\n"), "{mode:?}");
    }
}

#[test]
fn a_commit_is_not_taken_for_somebody_elses_change_by_the_next() {
    for mode in Mode::all() {
        let desk = desk(mode);
        desk.file("d/old", "old\n");
        let mut steps = Steps::shell(&desk);
        steps.run("echo new >new");
        steps.committed();
        // This copies an old file to the upper layer, and gives it a name in a directory that the
        // commit before has changed.
        steps.run("mv d/old moved");
        steps.committed();
        assert_eq!(desk.text("moved").as_deref(), Some("old\n"), "{mode:?}");
        assert_eq!(desk.text("d/old"), None, "{mode:?}");
    }
}

/// A step of a job, on a few names at a few depths.
fn step(dice: &mut Dice) -> String {
    const NAMES: [&str; 8] = ["a", "b", "d", "d/a", "d/e", "d/e/a", "e", "e/d"];
    let name = |dice: &mut Dice| NAMES[dice.roll(NAMES.len())];
    let (one, two, number) = (name(dice), name(dice), dice.roll(1000));
    match dice.roll(11) {
        0 | 1 => format!("echo {number} >{one}"),
        2 => format!("echo {number} >>{one}"),
        3 => format!("mkdir -p {one}"),
        4 => format!("rm -rf {one}"),
        5 => format!("mv -T {one} {two}"),
        6 => format!("cp -T {one} {two}"),
        7 => format!("chmod {} {one}", ["700", "755"][dice.roll(2)]),
        8 => format!("rm -rf {one}; mkdir -p {one}; echo {number} >{one}/a"),
        9 => format!("mv -T {one} {two}; mkdir -p {one}"),
        _ => format!("rmdir {one}; : >{one}"),
    }
}

#[test]
fn after_every_commit_the_workspace_is_what_the_job_made_of_it() {
    let steps = effort(150, 3_000);
    for mode in Mode::all() {
        let mut dice = Dice::new("commits");
        let never = ("ask = \"destructive\"", "ask = \"never\"");
        let desk = Desk::asking(mode, &profile_with(&[never]), Ask::Never);
        // The control: the steps run without a sandbox too, in a directory of the test's own.
        let beside = Place::new();
        for name in ["d/a", "d/e/a", "e/b"] {
            desk.file(name, "old\n");
            let path = beside.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "old\n").unwrap();
        }
        let mut job = Steps::shell(&desk);
        for number in 0..steps {
            let line = format!("{{ umask 022; {}; }} 2>/dev/null", step(&mut dice));
            job.run(&line);
            let run = std::process::Command::new("bash")
                .args(["-c", &line])
                .current_dir(beside.path())
                .status();
            run.unwrap();
            if dice.roll(3) == 0 {
                let result = job.commit();
                assert!(result.success, "{mode:?}, {number}: {line}: {:?}", result.error);
                let (made, meant) = (tree(&desk.world.workspace()), tree(beside.path()));
                assert_eq!(made, meant, "{mode:?}, {number}: {line}");
            }
        }
        job.end();
        assert_eq!(tree(&desk.world.workspace()), tree(beside.path()), "{mode:?}");
    }
}

#[test]
fn its_file_mode_mask_stays_its_own() {
    for mode in Mode::all() {
        let desk = desk(mode);
        let mut steps = Steps::shell(&desk);
        for name in ["a", "b"] {
            steps.run(&format!("[ {name} = b ] || umask 277; echo x >{name}; mkdir {name}.d"));
            steps.committed();
            let mode_of =
                |name: &str| fs::metadata(desk.path(name)).unwrap().permissions().mode() & 0o7777;
            let directory = mode_of(&format!("{name}.d"));
            assert_eq!((mode_of(name), directory), (0o400, 0o500), "{mode:?}: {name}");
        }
        assert_eq!(steps.prints("umask"), "0277\n", "{mode:?}");
    }
}

#[test]
fn a_dry_run_of_it_commits_nothing() {
    for mode in Mode::all() {
        let desk = desk(mode);
        let mut steps = Steps::shell(&desk);
        steps.run("echo one >a");
        let call = desk.sandbox.session.call("job_commit", json!({"job": steps.job})).dry_run();
        let result = desk.sandbox.wait(async { call.await.unwrap() });
        assert!(result.success, "{mode:?}: {:?}", result.error);
        assert_eq!(desk.text("a"), None, "{mode:?}");
        steps.committed();
        assert_eq!(desk.text("a").as_deref(), Some("one\n"), "{mode:?}");
    }
}

#[test]
fn what_can_not_be_committed_is_said() {
    for mode in Mode::all() {
        let desk = desk(mode);
        let job = desk.sandbox.start_job(json!({"command": "sleep 1000"}));
        let (code, message) = desk.sandbox.refused("job_commit", json!({"job": job}));
        assert_eq!(code, ErrorCode::InvalidArguments);
        assert_eq!(message, format!("job {job} has no transaction: there is nothing to commit"));
        let (code, _) = desk.sandbox.refused("job_commit", json!({"job": 99}));
        assert_eq!(code, ErrorCode::NotFound);
        let steps = Steps::shell(&desk);
        let job = steps.job;
        steps.end();
        let (code, message) = desk.sandbox.refused("job_commit", json!({"job": job}));
        assert_eq!((code, message), (ErrorCode::NotFound, format!("job {job} has ended")));
        let strange = json!({"job": job, "if_refused": "perhaps"});
        assert_eq!(desk.sandbox.refused("job_commit", strange).0, ErrorCode::InvalidArguments);
        assert_eq!(data(&desk.sandbox.done("job_list", json!({})))["jobs"][1]["state"], "ended");
    }
}
