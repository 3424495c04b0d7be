//! Linked worktrees of git (`git worktree add`): a session in one works as in an ordinary
//! repository, also if the main repository lies outside of the workspace. There, configuration and
//! hooks can not be changed, and a link that the main repository does not return leads nowhere.

use palisade_client::Answer;
use palisade_tests::{Desk, FixtureRepository, Mode, is_denied, outside, profile_with, tree};
use serde_json::json;
use std::{
    fs,
    path::{Path, PathBuf},
};

/// The calls of one case, each a line of bash, and what must be true afterwards, seen from outside.
type Case = (&'static [&'static str], &'static str);

/// Lines that need no approval, one after another in one worktree.
const ORDINARY: [Case; 15] = [
    (&["git status --short && git log --oneline --all && git diff --stat main"], "true"),
    (&["echo 'More.' >> README.md && git add README.md"], "git diff --cached --quiet; test $? = 1"),
    (&["git commit -qm 'Say more'"], "git log -1 --format=%s | grep -qx 'Say more'"),
    (&["git commit -q --amend -m 'Say even more'"], "git cat-file -e HEAD@{1}"),
    (&["sed -i s/colour/color/ docs/guide.md"], "grep -q color docs/guide.md"),
    (&["git stash -q"], "git diff --quiet"),
    (&["git stash pop -q"], "grep -q color docs/guide.md"),
    (&["git commit -qam 'American'"], "git diff --quiet HEAD"),
    (&["git switch -q -c topic"], "test $(git branch --show-current) = topic"),
    (&["git checkout -q --detach v1.0"], "test $(git rev-parse HEAD) = $(git rev-parse v1.0)"),
    (&["git checkout -q topic"], "test $(git branch --show-current) = topic"),
    (&["git merge -q --no-edit fix"], "git merge-base --is-ancestor fix HEAD"),
    (&["git rm -q docs/faq.md && git commit -qm 'No questions'"], "! test -e docs/faq.md"),
    (&["git mv docs/api.md docs/interface.md", "git commit -qm 'Rename'"], "git diff --quiet HEAD"),
    (&["git tag mine && git pack-refs --all"], "git rev-parse -q --verify refs/tags/mine"),
];

/// Lines that lose something or plant something. `$MAIN` is the directory of the main repository.
const DENIED: [&str; 14] = [
    "rm -rf $MAIN/objects",
    "rm -f $MAIN/objects/pack/*",
    ": > $MAIN/logs/HEAD",
    "git stash drop -q",
    "git branch -q -D lonely",
    "git update-ref -d refs/heads/lonely",
    "git checkout -q docs/index.md",
    "rm scratch.txt",
    "rm docs/guide.md",
    "git config core.fsmonitor ./evil",
    "git config user.name Mallory",
    "printf '#!/bin/sh\\n' > $MAIN/hooks/pre-commit && chmod +x $MAIN/hooks/pre-commit",
    "echo /etc > $(git rev-parse --git-dir)/commondir",
    "git worktree add -q other",
];

/// A script that makes something to lose in the main repository.
const MORE: &str = "echo x >> docs/style.md && git stash -q && git branch lonely main && \
                    git switch -q lonely && git commit -q --allow-empty -m Alone && \
                    git switch -q main && rm -f .git/logs/refs/heads/lonely";

/// A main repository and a linked worktree of it, at this path below the directory of both.
struct Linked {
    main: PathBuf,
    tree: PathBuf,
}

fn linked(desk: &Desk, place: &str) -> Linked {
    let repository = FixtureRepository::new(&desk.world);
    let main = repository.copy(&desk.world, "main");
    outside(&desk.world, &main, MORE);
    outside(&desk.world, &main, &format!("git worktree add -q {place} feature 2>&1"));
    let tree = main.join(place).canonicalize().unwrap();
    outside(&desk.world, &tree, "echo 'not tracked' > scratch.txt");
    Linked { main, tree }
}

fn desk(mode: Mode) -> Desk {
    Desk::new(mode, &profile_with(&[]))
}

/// Returns the names that a commit leaves only if it was interrupted.
fn leftovers(directory: &Path) -> Vec<String> {
    let names = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    let names = names.map(|name| name.into_string().unwrap());
    names.filter(|name| name.starts_with(".palisade-")).collect()
}

/// Runs the ordinary lines in a worktree, from a session that is open.
fn run_ordinary(desk: &Desk, linked: &Linked, before: &str) {
    for (calls, check) in ORDINARY {
        for line in calls {
            let result = desk.sandbox.bash(&format!("{before}{line}"));
            assert!(result.success, "{line}: {:?} {}", result.error, result.output);
        }
        outside(&desk.world, &linked.tree, check);
    }
    outside(&desk.world, &linked.main, "git fsck --strict --no-dangling 2>&1 && git log -1 topic");
    assert_eq!(leftovers(&linked.main.join(".git")), Vec::<String>::new());
    assert_eq!(leftovers(&linked.tree), Vec::<String>::new());
}

/// Runs the losing lines in a worktree; none changes anything.
fn run_denied(desk: &Desk, linked: &Linked, before: &str) {
    outside(&desk.world, &linked.tree, "echo 'not committed' >> docs/index.md");
    let git_dir = linked.main.join(".git");
    for line in DENIED {
        let (main, files) = (tree(&git_dir), tree(&linked.tree));
        let line = line.replace("$MAIN", git_dir.to_str().unwrap());
        let result = desk.sandbox.bash(&format!("{before}{line}"));
        assert!(!result.success, "{line}: {}", result.output);
        assert!(
            tree(&git_dir) == main && tree(&linked.tree) == files,
            "{line}: {:?}",
            result.error
        );
    }
}

#[test]
fn a_worktree_of_a_repository_elsewhere_works_with_no_approver() {
    for mode in Mode::all() {
        let mut desk = desk(mode);
        let linked = linked(&desk, "../tree");
        desk.move_to(&linked.tree);
        run_ordinary(&desk, &linked, "");
    }
}

#[test]
fn in_a_worktree_of_a_repository_elsewhere_nothing_is_lost_or_planted() {
    for mode in Mode::all() {
        let mut desk = desk(mode);
        let linked = linked(&desk, "../tree");
        desk.move_to(&linked.tree);
        run_denied(&desk, &linked, "");
    }
}

/// Without its link to the repository, a worktree is an ordinary directory to every later command,
/// but the repository is still mounted.
#[test]
fn a_repository_is_guarded_when_the_link_to_it_is_gone() {
    for mode in Mode::all() {
        let mut desk = desk(mode);
        let linked = linked(&desk, "../tree");
        desk.move_to(&linked.tree);
        let run = |line: &str| desk.sandbox.bash(line);
        assert!(run("git log -1").success);
        outside(&desk.world, &linked.tree, "mv .git gone");
        // Each of these prepares the transaction of the next.
        for number in 0..3 {
            assert!(run(&format!("echo x > new-{number}")).success);
        }
        let hook = linked.main.join(".git/hooks/pre-commit");
        let planted = run(&format!("echo x > {}", hook.display()));
        assert!(!planted.success && !hook.exists(), "{mode:?}: {planted:?}");
        // The control: without the link, the workspace itself is written as before.
        assert!(run("echo x > last").success && linked.tree.join("last").exists());
    }
}

#[test]
fn without_a_transaction_the_repository_is_read_only() {
    for mode in Mode::all() {
        let direct =
            [("ask = \"destructive\"", "ask = \"never\""), ("guard = \"auto\"", "guard = \"off\"")];
        let profile = profile_with(&direct);
        let mut desk = Desk::new(mode, &profile);
        let linked = linked(&desk, "../tree");
        desk.move_to(&linked.tree);
        let hook = linked.main.join(".git/hooks/pre-commit");
        let planted = desk.sandbox.bash(&format!("git log -1 && echo x > {}", hook.display()));
        assert!(planted.output.contains("Read-only file system"), "{mode:?}: {planted:?}");
        assert!(!hook.exists());
        assert!(desk.sandbox.bash("echo x > last").success && linked.tree.join("last").exists());
    }
}

#[test]
fn a_worktree_inside_of_the_workspace_works_with_no_approver() {
    for mode in Mode::all() {
        let mut desk = desk(mode);
        let linked = linked(&desk, ".worktrees/tree");
        desk.move_to(&linked.main);
        run_denied(&desk, &linked, "cd .worktrees/tree && ");
        let result = desk.sandbox.bash("cd .worktrees/tree");
        assert!(result.success, "{:?}", result.error);
        run_ordinary(&desk, &linked, "");
    }
}

/// Pins hold for everything that git keeps, whichever worktree it was kept for.
#[test]
fn what_a_worktree_relies_on_is_not_lost_later() {
    for mode in Mode::all() {
        let mut desk = desk(mode);
        let linked = linked(&desk, "../tree");
        desk.move_to(&linked.tree);
        let keep = "git switch -q -c keep && git add scratch.txt && git commit -qm Keep && \
                    git rm -q scratch.txt && git commit -qm Drop && git switch -q feature";
        let result = desk.sandbox.bash(keep);
        assert!(result.success, "{:?}", result.error);
        for line in [
            "git branch -q -D keep",
            "git branch -q -D keep; git reflog expire --expire=now --all; git gc -q --prune=now",
        ] {
            let result = desk.sandbox.bash(line);
            assert!(is_denied(&result), "{line}: {:?} {}", result.error, result.output);
        }
        let kept = outside(&desk.world, &linked.main, "git show keep~1:scratch.txt");
        assert_eq!(kept, "not tracked\n");
    }
}

#[test]
fn jobs_terminals_and_undo_work_in_a_worktree() {
    for mode in Mode::all() {
        let mut desk = desk(mode);
        let linked = linked(&desk, "../tree");
        desk.move_to(&linked.tree);
        let line = "echo 1 >> README.md && git commit -qam 'In a terminal'";
        let typed = desk.sandbox.call("bash", json!({"command": line, "pty": true}));
        assert!(typed.success, "{:?} {}", typed.error, typed.output);
        let line = "echo 2 >> README.md && git commit -qam 'In a job'";
        let job = desk.sandbox.start_job(json!({"command": line}));
        let (said, status) = desk.sandbox.whole_job(job);
        assert_eq!(status.exit_code, Some(0), "{said} {status:?}");
        let log = || outside(&desk.world, &linked.main, "git log -2 --format=%s feature");
        assert_eq!(log(), "In a job\nIn a terminal\n");
        // What git wrote in the main repository is a part of the undo record.
        let undone = desk.sandbox.call("undo", json!({"call_id": status.undo}));
        assert!(undone.success, "{:?}", undone.error);
        assert!(log().starts_with("In a terminal\n"), "{}", log());
        outside(&desk.world, &linked.tree, "test -z \"$(git status --porcelain -uno)\"");
        outside(&desk.world, &linked.tree, "git fsck --no-dangling 2>&1");
        // Once git keeps bytes of a file that was changed, its repository is not taken back unasked.
        let result = desk.sandbox.bash("sed -i s/colour/color/ docs/guide.md");
        assert!(result.success, "{:?}", result.error);
        let committed = desk.sandbox.bash("git commit -qam 'American'");
        let denied = desk.sandbox.call("undo", json!({"call_id": committed.undo}));
        assert!(is_denied(&denied), "{:?}", denied.error);
        assert!(log().starts_with("American\n"), "{}", log());
    }
}

#[test]
fn file_tools_and_watching_jobs_can_not_change_the_main_repository() {
    for mode in Mode::all() {
        let mut desk = desk(mode);
        let linked = linked(&desk, "../tree");
        desk.move_to(&linked.tree);
        desk.attach();
        let git_dir = linked.main.join(".git");
        let before = tree(&git_dir);
        let at = |name: &str| git_dir.join(name).to_str().unwrap().to_owned();
        for (tool, arguments) in [
            ("write_file", json!({"path": at("hooks/post-commit"), "content": "#!/bin/sh\n"})),
            ("write_file", json!({"path": at("config"), "content": "", "mode": "append"})),
            ("write_file", json!({"path": at("refs/heads/new"), "content": "x"})),
            ("delete_file", json!({"path": at("refs"), "recursive": true})),
            ("move_file", json!({"from": at("HEAD"), "to": "HEAD"})),
            ("make_dir", json!({"path": at("objects/zz")})),
        ] {
            let (result, _) = desk.call(tool, arguments.clone(), |_| Some(Answer::approve()));
            assert!(!result.success, "{tool} {arguments}");
            let message = result.error.unwrap().message;
            assert!(message.contains("main repository"), "{tool} {arguments}: {message}");
        }
        let line = format!("touch {} {}", at("refs/heads/evil"), at("objects/evil"));
        let job = desk.sandbox.start_job(json!({"command": line, "route": "watch"}));
        let (said, status) = desk.sandbox.whole_job(job);
        assert_eq!(status.exit_code, Some(1), "{said}");
        assert!(said.contains("Read-only file system"), "{said}");
        assert!(tree(&git_dir) == before);
        // The control: reading works.
        let (read, _) = desk.call("read_file", json!({"path": at("HEAD")}), |_| None);
        assert!(read.success, "{:?}", read.error);
    }
}

/// A program may have written `.git`. Only the file system says what belongs to the workspace.
#[test]
fn a_link_that_is_not_returned_shows_nothing_and_changes_nothing() {
    for mode in Mode::all() {
        let mut desk = desk(mode);
        let linked = linked(&desk, "../tree");
        let git_dir = linked.main.join(".git");
        let before = tree(&git_dir);
        let secret = desk.world.outside().join("secret");
        outside(
            &desk.world,
            &desk.world.outside(),
            "mkdir -p secret/worktrees/x secret/objects secret/refs && echo key > secret/HEAD && \
             echo ../.. > secret/worktrees/x/commondir && ln -s secret alias",
        );
        let own = git_dir.join("worktrees/tree");
        let fakes = [
            own.to_str().unwrap().to_owned(),
            git_dir.to_str().unwrap().to_owned(),
            secret.join("worktrees/x").to_str().unwrap().to_owned(),
            "../alias/worktrees/x".to_owned(),
            "../main/.git/worktrees/../worktrees/tree".to_owned(),
        ];
        for (at, fake) in fakes.into_iter().enumerate() {
            let name = format!("fake-{at}");
            let line = format!("mkdir {name} && echo 'gitdir: {fake}' > {name}/.git");
            outside(&desk.world, &desk.world.outside(), &line);
            desk.move_to(&desk.world.outside().join(&name));
            for hidden in [&git_dir, &secret] {
                let line = format!("cat {}/HEAD; touch {0}/objects/evil", hidden.display());
                let result = desk.sandbox.bash(&line);
                assert!(!result.success && result.stdout.is_empty(), "{fake}: {}", result.output);
            }
        }
        assert!(tree(&git_dir) == before);
        // The control: the worktree itself reads its repository.
        desk.move_to(&linked.tree);
        let result = desk.sandbox.bash(&format!("cat {}/HEAD", git_dir.display()));
        assert_eq!(result.stdout, "ref: refs/heads/main\n", "{:?}", result.error);
    }
}

/// A command that changes the link needs approval, and the session goes on with its repository.
#[test]
fn a_command_can_not_lead_the_next_one_elsewhere() {
    for mode in Mode::all() {
        let mut desk = desk(mode);
        let linked = linked(&desk, "../tree");
        desk.move_to(&linked.tree);
        let git_dir = linked.main.join(".git");
        let lines = [
            "echo 'gitdir: /etc' > .git".to_owned(),
            format!("echo /tmp/.git > {}/worktrees/tree/gitdir", git_dir.display()),
            format!("mv {0}/worktrees/tree {0}/worktrees/other", git_dir.display()),
        ];
        for line in lines {
            let before = (tree(&git_dir), tree(&linked.tree));
            let result = desk.sandbox.bash(&line);
            assert!(!result.success, "{line}: {}", result.output);
            assert!((tree(&git_dir), tree(&linked.tree)) == before, "{line}");
        }
        let result = desk.sandbox.bash("echo x >> README.md && git commit -qam Go-on");
        assert!(result.success, "{:?} {}", result.error, result.output);
    }
}

/// An upstream is configuration of the main repository, which no command of a worktree writes.
#[test]
fn a_command_that_sets_an_upstream_is_told_what_to_do() {
    for mode in Mode::all() {
        let mut desk = desk(mode);
        let linked = linked(&desk, "../tree");
        desk.move_to(&linked.tree);
        let arguments = json!({"command": "git switch -q -c up --track main"});
        let (_, message) = desk.sandbox.refused("bash", arguments);
        assert!(message.contains("`git push` without -u"), "{mode:?}: {message}");
        assert!(message.contains("--no-track"), "{mode:?}: {message}");
        let result = desk.sandbox.bash("git switch -q -c up --no-track main");
        assert!(result.success, "{mode:?}: {:?} {}", result.error, result.output);
    }
}
