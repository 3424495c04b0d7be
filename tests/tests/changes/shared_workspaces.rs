//! Several sessions of one user in one workspace, in a directory inside of it, and in worktrees of
//! one repository. Each change is judged by what the others have committed, also if they commit at
//! the same time. Nobody waits for an approver's answer to somebody else, or for a slow client.

use palisade_client::{Answer, Event, Open};
use palisade_protocol::{CallResult, ErrorCode};
use palisade_tests::{Desk, FixtureRepository, Mode, Sandbox, is_denied, outside, profile_with};
use serde_json::json;
use std::{
    path::{Path, PathBuf},
    sync::Barrier,
};
use tokio::io::AsyncWriteExt as _;

/// The number of times that two sessions race.
const ROUNDS: usize = 12;

/// The number of commits that a judge walks over while it looks for another reference.
const COMMITS: usize = 1500;

/// Makes a repository with a long history in the current directory.
fn history() -> String {
    format!(
        "git init -q -b main . && git config user.name A && git config user.email a@b && for n in $(seq {COMMITS}); do printf 'commit refs/heads/main\\n\
         committer A <a@b> %d +0000\\ndata 2\\nx\\nM 100644 inline f\\ndata <<E\\n%d\\nE\\n' \
         $((1700000000 + n)) $n; done | git fast-import --quiet && git reset -q --hard"
    )
}

/// Makes a commit that only the branches `a` and `b` lead to. It is always the same one, so that their
/// logs lead to no other.
const LONELY: &str = "export GIT_AUTHOR_DATE=1700000000 GIT_COMMITTER_DATE=1700000000 && \
                      lonely=$(git commit-tree -m lonely -p main main^{tree}) && \
                      git update-ref refs/heads/a $lonely && git update-ref refs/heads/b $lonely";

/// Prints the branches that lead to the commit.
const LEFT: &str = "git for-each-ref --format='%(refname:short)' refs/heads/a refs/heads/b";

fn desk(mode: Mode) -> Desk {
    Desk::new(mode, &profile_with(&[]))
}

/// Opens another session.
fn another(desk: &Desk, directory: &Path) -> Sandbox {
    let open = Open::new(directory).profile("asking");
    Sandbox::over(desk.daemon.connect(desk.world.mode), None, open).unwrap()
}

/// Runs a line, and ends it when the other session's line has come as far.
fn together(sandbox: &Sandbox, line: &str, barrier: &Barrier) -> CallResult {
    sandbox.wait(async {
        let (mut ours, theirs) = tokio::io::duplex(64);
        let line = format!("{line} && echo ready && cat");
        let call = sandbox.session.bash(&line).stream().attach_reader(theirs);
        let mut running = call.start().await.unwrap();
        loop {
            match running.next().await {
                Some(Event::Output { data, .. }) if data.starts_with(b"ready") => break,
                Some(_) => {}
                None => panic!("{line} ended"),
            }
        }
        barrier.wait();
        ours.shutdown().await.unwrap();
        drop(ours);
        running.result().await.unwrap()
    })
}

/// Has two sessions delete one of two branches each, at the same time. Each is harmless by itself:
/// the other branch leads to the same commit.
fn race(
    desk: &Desk,
    repository: &Path,
    (one, first): (&Sandbox, &str),
    (two, second): (&Sandbox, &str),
) {
    let barrier = Barrier::new(2);
    for round in 0..ROUNDS {
        outside(&desk.world, repository, LONELY);
        let results: [CallResult; 2] = std::thread::scope(|scope| {
            let one = scope.spawn(|| together(one, first, &barrier));
            let two = scope.spawn(|| together(two, second, &barrier));
            [one.join().unwrap(), two.join().unwrap()]
        });
        let left = outside(&desk.world, repository, LEFT);
        let seen = format!("{:?}, round {round}: left {left:?}: {results:?}", desk.world.mode);
        assert_eq!(results.iter().filter(|result| result.success).count(), 1, "{seen}");
        assert_eq!(results.iter().filter(|result| is_denied(result)).count(), 1, "{seen}");
        assert_eq!(left.lines().count(), 1, "{seen}");
    }
}

fn repository(desk: &Desk) -> PathBuf {
    let repository = desk.path("repository");
    outside(&desk.world, &desk.world.workspace(), "mkdir repository");
    outside(&desk.world, &repository, &history());
    repository
}

#[test]
fn two_sessions_in_one_workspace_can_not_delete_the_last_two_branches_at_once() {
    for mode in Mode::all() {
        let desk = desk(mode);
        let repository = repository(&desk);
        let [one, two] = [(); 2].map(|()| another(&desk, &repository));
        race(
            &desk,
            &repository,
            (&one, "git update-ref -d refs/heads/a"),
            (&two, "git update-ref -d refs/heads/b"),
        );
        // One after the other it is the same.
        outside(&desk.world, &repository, LONELY);
        assert!(one.bash("git update-ref -d refs/heads/a").success);
        assert!(is_denied(&two.bash("git update-ref -d refs/heads/b")));
    }
}

#[test]
fn a_session_in_a_directory_of_anothers_workspace_is_no_way_around() {
    for mode in Mode::all() {
        let desk = desk(mode);
        let repository = repository(&desk);
        let inner = another(&desk, &repository);
        let outer = (&desk.sandbox, "git -C repository update-ref -d refs/heads/a");
        race(&desk, &repository, outer, (&inner, "git update-ref -d refs/heads/b"));
    }
}

#[test]
fn sessions_in_two_worktrees_of_a_repository_are_no_way_around() {
    for mode in Mode::all() {
        let desk = desk(mode);
        outside(&desk.world, &desk.world.outside(), "mkdir main");
        let main = desk.world.outside().join("main");
        outside(&desk.world, &main, &history());
        outside(&desk.world, &main, "git worktree add -q ../one && git worktree add -q ../two");
        let [one, two] =
            ["one", "two"].map(|name| another(&desk, &desk.world.outside().join(name)));
        race(
            &desk,
            &main,
            (&one, "git update-ref -d refs/heads/a"),
            (&two, "git update-ref -d refs/heads/b"),
        );
    }
}

/// A repository that keeps another session's deleted files is not its maker's to delete.
#[test]
fn what_a_session_relies_on_is_not_another_sessions_to_delete() {
    for mode in Mode::all() {
        let desk = desk(mode);
        desk.file("sub/f", "precious\n");
        let maker = another(&desk, &desk.world.workspace());
        let make = "git init -q sub && cd sub && git config user.name A && git config user.email a@b \
                    && git add f && git commit -qm f";
        assert!(maker.bash(make).success);
        assert!(desk.sandbox.bash("echo other > sub/f").success, "{mode:?}");
        let result = maker.bash("cd .. ; rm -rf sub/.git");
        assert!(is_denied(&result), "{mode:?}: {result:?}");
        assert_eq!(outside(&desk.world, &desk.path("sub"), "git show HEAD:f"), "precious\n");
        // Nobody relies on this one.
        assert!(maker.bash("git init -q other && touch other/x").success);
        assert!(maker.bash("rm -rf other").success, "{mode:?}");
    }
}

/// Tracked, ignored and noise are judged as of the beginning, whichever session changed them.
#[test]
fn what_another_session_made_git_forget_is_still_no_noise() {
    for mode in Mode::all() {
        let desk = desk(mode);
        let repository = FixtureRepository::new(&desk.world).copy(&desk.world, "copy");
        outside(
            &desk.world,
            &repository,
            "mkdir target && echo 1 > target/mine && git add -f target",
        );
        let [one, two] = [(); 2].map(|()| another(&desk, &repository));
        assert!(one.bash("git rm -q --cached -r target").success, "{mode:?}");
        let result = two.bash("rm -r target");
        assert!(is_denied(&result), "{mode:?}: {result:?}");
        assert_eq!(outside(&desk.world, &repository, "cat target/mine"), "1\n");
    }
}

#[test]
fn nobody_waits_for_the_answer_to_another_session() {
    for mode in Mode::all() {
        let desk = desk(mode);
        desk.file("f", "text\n");
        desk.attach();
        let other = another(&desk, &desk.world.workspace());
        let call = desk.sandbox.session.bash("rm f && echo mine > new");
        let (result, asked) = desk.during(async { call.await.unwrap() }, async |request| {
            // While it is asked about, another session commits, and the file tools work.
            std::thread::scope(|scope| {
                let others = scope.spawn(|| {
                    assert!(other.bash("echo theirs > theirs").success);
                    assert!(other.call("write_file", json!({"path": "x", "content": "x"})).success);
                });
                others.join().unwrap();
            });
            desk.operator.answer(request, Answer::approve()).await.unwrap();
        });
        assert!(result.success && asked.len() == 1, "{mode:?}: {:?}", result.error);
        assert_eq!((desk.text("f"), desk.text("theirs").as_deref()), (None, Some("theirs\n")));
    }
}

/// An approval is of what was shown. What another session relied on meanwhile was not.
#[test]
fn an_approved_change_is_judged_again_by_what_another_session_committed_meanwhile() {
    for mode in Mode::all() {
        let desk = desk(mode);
        let repository = repository(&desk);
        desk.file("repository/own", "text\n");
        desk.attach();
        outside(&desk.world, &repository, LONELY);
        let other = another(&desk, &repository);
        let line = "git -C repository update-ref -d refs/heads/a && rm repository/own";
        let call = desk.sandbox.session.bash(line);
        let (result, asked) = desk.during(async { call.await.unwrap() }, async |request| {
            std::thread::scope(|scope| {
                let others =
                    scope.spawn(|| assert!(other.bash("git update-ref -d refs/heads/b").success));
                others.join().unwrap();
            });
            desk.operator.answer(request, Answer::approve()).await.unwrap();
        });
        assert_eq!(asked.len(), 1, "{mode:?}");
        assert_eq!(
            result.error.map(|error| error.code),
            Some(ErrorCode::StaleApproval),
            "{mode:?}"
        );
        assert_eq!(outside(&desk.world, &repository, LEFT), "a\n");
        assert_eq!(desk.text("repository/own").as_deref(), Some("text\n"));
    }
}

/// The bytes that a slow client has sent: more than can wait anywhere before the call begins.
const SENT: usize = 6 << 20;

#[test]
fn nobody_waits_for_a_client_that_does_not_send_what_it_writes() {
    for mode in Mode::all() {
        let desk = desk(mode);
        let other = another(&desk, &desk.world.workspace());
        let slow = &desk.sandbox;
        slow.wait(async {
            let (mut ours, theirs) = tokio::io::duplex(64 << 10);
            let call = slow.session.call("write_file", json!({"path": "slow"}));
            let running = call.attach_reader(theirs).start().await.unwrap();
            ours.write_all(&vec![b'x'; SENT]).await.unwrap();
            std::thread::scope(|scope| {
                let others = scope.spawn(|| {
                    assert!(other.bash("echo theirs > theirs").success);
                    assert!(other.call("write_file", json!({"path": "x", "content": "x"})).success);
                });
                others.join().unwrap();
            });
            ours.shutdown().await.unwrap();
            drop(ours);
            let result = running.result().await.unwrap();
            assert!(result.success, "{mode:?}: {:?}", result.error);
        });
        assert_eq!(desk.text("slow").unwrap().len(), SENT);
    }
}
