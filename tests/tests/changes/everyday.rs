//! Sixty ordinary lines in a realistic repository, clean and with uncommitted work in it: with no
//! approver they are done, and leave what they leave without a sandbox.

use palisade_tests::{
    Desk, FixtureRepository, Mode,
    TableCall::{Bash, Tool},
    TableCase, WorkingTree, git_summary, is_denied, listed, outside, profile_with, report, tree,
    unconfined,
};
use serde_json::json;
use std::{fs, path::Path};

/// Lines that may be asked about, and why.
const MAY_BE_ASKED: [(&str, &str); 2] = [
    (
        "git stash pop -q",
        "the stash is older than the session: its commit is reachable from nothing afterwards",
    ),
    ("git branch -q -d merged", "the log of the branch goes with it, and logs only grow"),
];

/// The calls of one case, each a line of bash, and what must be true afterwards, seen from outside.
type Case = (&'static [&'static str], &'static str);

const GIT: [Case; 37] = [
    (&["git status --short"], "true"),
    (&["git log --oneline --graph --all"], "true"),
    (&["git diff --stat main feature"], "true"),
    (
        &["echo 'More.' >> README.md && git add README.md"],
        "test \"$(git diff --cached --name-only)\" = README.md",
    ),
    (
        &[
            "echo 'VERSION = 2' > src/app/version.py && git add -A && git commit -qm 'Add a version'",
        ],
        "git cat-file -e HEAD:src/app/version.py && test -z \"$(git status --porcelain)\"",
    ),
    (
        &["sed -i s/Welcome/Hello/ README.md && git commit -qam 'Greet'"],
        "git show HEAD:README.md | grep -q Hello",
    ),
    (
        &["git commit -q --amend -m 'Prepare release 1.1'"],
        "git log -1 --format=%s | grep -qx 'Prepare release 1.1' && git cat-file -e HEAD@{1}",
    ),
    (&["git checkout -q feature"], "test -e web/feature.js && ! test -e data/things.csv"),
    (&["git checkout -q feature && git checkout -q main"], "test -e data/things.csv"),
    (&["git switch -q -c topic"], "test $(git branch --show-current) = topic"),
    (&["git checkout -q --detach v1.0"], "test $(git rev-parse HEAD) = $(git rev-parse v1.0)"),
    (&["git stash -q"], "! git status --porcelain | grep -q '^ M'"),
    (&["git stash -q -u"], "! test -e scratch.txt && test -z \"$(git status --porcelain)\""),
    (
        &["echo x >> docs/faq.md && git stash -q && git stash pop -q"],
        "tail -1 docs/faq.md | grep -qx x",
    ),
    (
        &["echo x >> docs/faq.md", "git stash -q", "git stash pop -q"],
        "tail -1 docs/faq.md | grep -qx x",
    ),
    (
        &["echo x >> docs/api.md && git stash push -q -- docs/api.md"],
        "test $(git stash list | wc -l) = 2 && git diff --quiet docs/api.md",
    ),
    (&["git stash pop -q"], "tail -1 web/menu.js | grep -q aside"),
    (&["git merge -q --no-edit feature"], "test -e web/feature.js && git cat-file -e HEAD^2"),
    (&["git merge -q --ff-only fix"], "test $(git rev-parse main) = $(git rev-parse fix)"),
    (
        &["git -c rebase.autoStash=true rebase -q main feature"],
        "test $(git merge-base main feature) = $(git rev-parse main)",
    ),
    (&["git cherry-pick feature~1 >/dev/null"], "test -e web/feature.js"),
    (&["git revert --no-edit HEAD >/dev/null"], "! grep -q 1.1 CHANGELOG.md"),
    (&["git rm -q data/old.csv"], "! test -e data/old.csv && git cat-file -e HEAD:data/old.csv"),
    (
        &["git rm -q --cached docs/images/logo.svg"],
        "test -e docs/images/logo.svg && test -z \"$(git ls-files docs/images/logo.svg)\"",
    ),
    (&["git mv docs/faq.md docs/questions.md"], "git ls-files | grep -qx docs/questions.md"),
    (&["git tag v1.1 && git tag -a v1.2 -m 'A release'"], "test $(git tag | wc -l) = 3"),
    (&["git fetch -q mirror"], "git cat-file -e mirror/theirs:docs/tutorial.md"),
    (&["git pull -q --ff-only mirror theirs"], "grep -q elsewhere docs/tutorial.md"),
    (
        &["echo x >> LICENSE && git commit -qm 'Say more' LICENSE && git push -q mirror main"],
        "test $(git -C mirrors/project.git rev-parse main) = $(git rev-parse main)",
    ),
    (
        &[
            "git diff HEAD feature -- web > change.patch && git apply change.patch && rm change.patch",
        ],
        "test -e web/feature.js && ! test -e change.patch",
    ),
    (
        &["git format-patch -q --stdout -1 fix > f.patch && git am -q f.patch && rm f.patch"],
        "grep -q fixed src/app/errors.py",
    ),
    (
        &["echo x >> README.md && git add README.md && git restore --staged README.md"],
        "tail -1 README.md | grep -qx x && git diff --cached --quiet",
    ),
    (
        &["git reset -q --soft HEAD~1"],
        "test \"$(git diff --cached --name-only)\" = CHANGELOG.md && git cat-file -e HEAD@{1}",
    ),
    (&["git reset -q HEAD~1"], "git diff --name-only | grep -qx CHANGELOG.md"),
    (&["git checkout -q v1.0 -- docs/glossary.md"], "! grep -q More docs/glossary.md"),
    (&["git branch -q -d merged"], "! git rev-parse -q --verify merged"),
    (&["git pack-refs --all"], "grep -q refs/heads/feature .git/packed-refs"),
];

const OTHER: [Case; 23] = [
    (&["sed -i s/colour/color/g docs/*.md"], "! grep -q colour docs/*.md"),
    (
        &["python3 scripts/format.py src/app/plugins/*.py src/app/core.py"],
        "! grep -rqF '( ' src/app/plugins",
    ),
    (
        &["python3 scripts/format.py --atomic src/app/cli.py src/app/inout.py"],
        "! grep -qF '( ' src/app/inout.py",
    ),
    (
        &["python3 -c \"p = 'src/app/config.py'; s = open(p).read(); \
           open(p, 'w').write(s.replace('True', 'False'))\""],
        "grep -qx 'DEBUG = False' src/app/config.py",
    ),
    (&["sort -o data/names.csv data/names.csv"], "head -1 data/names.csv | grep -q name"),
    (&["mv docs documentation"], "test -e documentation/images/logo.svg && ! test -e docs"),
    (
        &[
            "mv src/app/util.py src/app/helpers.py && sed -i s/app.util/app.helpers/ src/app/core.py",
        ],
        "grep -q app.helpers src/app/core.py && test -e src/app/helpers.py",
    ),
    (
        &["echo '* { margin: 0 }' >> web/style.css && sh scripts/build.sh"],
        "grep -q margin dist/style.css",
    ),
    (&["sh scripts/clean.sh && sh scripts/build.sh"], "test -e dist/bundle.js && ! test -e build"),
    (&["rm -f *.tmp"], "true"),
    (&["find . -name '*.orig' -delete"], "true"),
    (&["find . -name '*.pyc' -delete"], "! test -e src/app/__pycache__/gone.cpython-311.pyc"),
    (&["echo 1 > own.txt", "echo 2 > own.txt"], "grep -qx 2 own.txt"),
    (&["mkdir made && echo 1 > made/own.txt", "rm -r made"], "! test -e made"),
    (&["cp -r src src-copy"], "diff -r src src-copy"),
    (&["tar czf build/src.tgz src docs"], "tar tzf build/src.tgz | grep -q docs/guide.md"),
    (&["mkdir -p out && tar cf - docs | tar xf - -C out"], "diff -r docs out/docs"),
    (&["sh scripts/check.sh"], "ls src/app/__pycache__ | grep -q core"),
    (&["python3 -m unittest -q tests.test_core tests.test_util 2>&1 | tail -1"], "true"),
    (
        &["python3 - <<'END'\nimport os\nfor name in 'api', 'jobs', 'users':\n    \
           os.makedirs(f'services/{name}')\n    open(f'services/{name}/__init__.py', 'w').close()\n    \
           open(f'services/{name}/main.py', 'w').write(f'NAME = {name!r}\\n')\nEND"],
        "test $(find services -name '*.py' | wc -l) = 6",
    ),
    (
        &["rm -rf node_modules && mkdir -p node_modules/right-pad && \
           echo 'module.exports = Number;' > node_modules/right-pad/index.js"],
        "ls node_modules | grep -qx right-pad",
    ),
    (
        &["echo '- more' >> CHANGELOG.md && echo ended >> debug.log && touch src/app/core.py"],
        "tail -1 debug.log | grep -qx ended",
    ),
    (
        &["chmod +x scripts/check.sh && ln -s docs/guide.md GUIDE.md && cp README.md README.bak"],
        "test -x scripts/check.sh && test -L GUIDE.md",
    ),
];

/// Lists a directory, without contents that have a time or the name of a commit in them.
fn contents(directory: &Path) -> Vec<String> {
    let mut lines = listed(directory, |name| name.ends_with(".pyc") || name.ends_with(".tgz"));
    lines.retain(|line| !line.starts_with("mirrors/"));
    lines
}

/// The outcome of one case.
struct Outcome {
    asked: Option<String>,
    mistakes: Vec<String>,
}

/// Runs a case in a copy of the repository, and beside it without a sandbox.
fn run(desk: &mut Desk, repository: &FixtureRepository, case: Case) -> Outcome {
    let (calls, check) = case;
    let inside = repository.copy(&desk.world, "inside");
    let beside = repository.copy(&desk.world, "beside");
    for line in calls.iter().chain([&check]) {
        outside(&desk.world, &beside, line);
    }
    desk.move_to(&inside);
    let mut outcome = Outcome { asked: None, mistakes: Vec::new() };
    for line in calls {
        let before = tree(&inside);
        let result = desk.sandbox.bash(line);
        if is_denied(&result) {
            outcome.asked = result.error.map(|error| error.message);
            if tree(&inside) != before {
                outcome.mistakes.push("it was denied, and changed something".to_owned());
            }
            break;
        }
        if !result.success {
            outcome.mistakes.push(format!("it failed: {:?} {}", result.error, result.output));
        }
    }
    if outcome.asked.is_none() {
        outcome.mistakes.extend(differences(desk, &inside, &beside));
        if !unconfined(&desk.world, &inside, &desk.world.state(), check).status.success() {
            outcome.mistakes.push(format!("this is not true afterwards: {check}"));
        }
    }
    for copy in [inside, beside] {
        fs::remove_dir_all(copy).unwrap();
    }
    outcome
}

/// Returns the differences from a directory in which the same was done without a sandbox.
fn differences(desk: &Desk, inside: &Path, beside: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let (made, meant) = (contents(inside), contents(beside));
    found.extend(made.iter().filter(|line| !meant.contains(line)).map(|line| format!("+ {line}")));
    found.extend(meant.iter().filter(|line| !made.contains(line)).map(|line| format!("- {line}")));
    let (made, meant) = (git_summary(&desk.world, inside), git_summary(&desk.world, beside));
    if made != meant {
        found.push(format!("git says\n{made}\nand not\n{meant}"));
    }
    found
}

/// Every call of a case, for a person to read.
fn shown(calls: &[&str]) -> String {
    calls.join(" ;; ")
}

/// Runs every case; gives those that were asked about and whatever is wrong.
fn run_all(mode: Mode, state: WorkingTree) -> (Vec<String>, Vec<String>) {
    let mut desk = Desk::new(mode, &profile_with(&[]));
    let repository = FixtureRepository::with(&desk.world, state, "true");
    let (mut asked, mut wrong) = (Vec::new(), Vec::new());
    for case in GIT.into_iter().chain(OTHER) {
        let outcome = run(&mut desk, &repository, case);
        let calls = shown(case.0);
        let what = format!("{mode:?}, {state:?}: {calls}");
        wrong.extend(outcome.mistakes.iter().map(|mistake| format!("{what}: {mistake}")));
        if let Some(message) = outcome.asked {
            println!("asked: {what}\n       {message}");
            asked.push(calls);
        }
    }
    (asked, wrong)
}

fn may_be_asked(calls: &str) -> bool {
    MAY_BE_ASKED.iter().any(|(line, _)| *line == calls)
}

#[test]
fn ordinary_lines_are_done_with_no_approver() {
    let states = [WorkingTree::Clean, WorkingTree::Dirty];
    let modes = Mode::all().into_iter();
    let cases: Vec<_> = modes
        .flat_map(|mode| states.into_iter().enumerate().map(move |(at, state)| (at, mode, state)))
        .filter_map(|(at, mode, state)| mode.has_turn(at + 1).then_some((mode, state)))
        .collect();
    let outcomes: Vec<_> = std::thread::scope(|scope| {
        let start = |(mode, state)| scope.spawn(move || run_all(mode, state));
        let started: Vec<_> = cases.iter().copied().map(start).collect();
        started.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut failures = Vec::new();
    for ((mode, state), (asked, wrong)) in cases.into_iter().zip(outcomes) {
        let lines = GIT.len() + OTHER.len();
        let what = format!("ordinary lines asked about, {mode:?}, {state:?}");
        report(&what, format!("{} of {lines}", asked.len()));
        failures.extend(wrong);
        let unlisted = asked.iter().filter(|calls| !may_be_asked(calls));
        failures.extend(unlisted.map(|calls| format!("{mode:?}, {state:?}: asked about: {calls}")));
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn the_table_has_sixty_lines_and_lists_at_most_two_that_are_asked_about() {
    assert_eq!(GIT.len() + OTHER.len(), 60);
    for (line, why) in MAY_BE_ASKED {
        let mut cases = GIT.iter().chain(&OTHER);
        assert!(cases.any(|(calls, _)| shown(calls) == line), "{line}: {why}");
    }
}

/// Git overwrites the message of the last commit with each commit, so deleting it, as other programs
/// for git do, needs no approval either. Undo has it.
#[test]
fn the_message_of_the_last_commit_may_be_deleted_and_undo_has_it() {
    for mode in Mode::all() {
        let desk = Desk::new(mode, &profile_with(&[]));
        let make = "git init -q . && git -c user.name=x -c user.email=x@example.org \
                    commit -q --allow-empty -m 'A message'";
        outside(&desk.world, &desk.world.workspace(), make);
        let result = desk.sandbox.bash("rm .git/COMMIT_EDITMSG");
        assert!(result.success, "{:?}", result.error);
        assert_eq!(desk.text(".git/COMMIT_EDITMSG"), None);
        let undone = desk.sandbox.call("undo", json!({"call_id": result.undo}));
        assert!(undone.success, "{:?}", undone.error);
        assert_eq!(desk.text(".git/COMMIT_EDITMSG").as_deref(), Some("A message\n"));
    }
}

/// Calls that change a committed file, each on what the one before left of it.
const CHANGED_AGAIN: [TableCase; 7] = [
    (
        &[
            Tool(
                "edit",
                r#"{"path": "README.md", "old_string": "Welcome", "new_string": "Come in"}"#,
            ),
            Bash("sed -i 's/Come in/Hello/' README.md"),
        ],
        "grep -q Hello README.md",
    ),
    (
        &[
            Tool(
                "apply_patch",
                r#"{"patch": "*** Begin Patch\n*** Update File: README.md\n@@\n-# Project\n+# The project\n*** End Patch\n"}"#,
            ),
            Bash("python3 scripts/format.py --atomic README.md"),
            Bash("sed -i 's/The project/A project/' README.md"),
        ],
        "grep -q 'A project' README.md",
    ),
    (
        &[Bash("echo more >> docs/faq.md"), Bash("sed -i s/more/less/ docs/faq.md")],
        "tail -1 docs/faq.md | grep -qx less",
    ),
    (
        &[
            Tool("write_file", r#"{"path": "docs/faq.md", "content": "more\n", "mode": "append"}"#),
            Tool("write_file", r#"{"path": "docs/faq.md", "content": "less\n"}"#),
        ],
        "grep -qx less docs/faq.md && test $(wc -l < docs/faq.md) = 1",
    ),
    (
        &[Bash("echo more >> docs/faq.md"), Bash("git checkout -q -- docs/faq.md")],
        "git diff --quiet docs/faq.md",
    ),
    (
        &[
            Bash("git mv docs/faq.md docs/questions.md"),
            Bash("echo more >> docs/questions.md"),
            Bash("sed -i s/more/less/ docs/questions.md"),
        ],
        "tail -1 docs/questions.md | grep -qx less",
    ),
    (
        &[Bash("mv docs manual"), Bash("sed -i s/colour/color/g manual/*.md")],
        "! grep -q colour manual/*.md && git show HEAD:docs/guide.md | grep -q colour",
    ),
];

#[test]
fn what_was_made_of_a_committed_file_is_changed_again_with_no_approver() {
    for mode in Mode::all() {
        let mut desk = Desk::new(mode, &profile_with(&[]));
        let repository = FixtureRepository::with(&desk.world, WorkingTree::Clean, "true");
        let mut failures = Vec::new();
        for (calls, check) in CHANGED_AGAIN {
            let copy = repository.copy(&desk.world, "again");
            desk.move_to(&copy);
            for call in calls {
                let result = call.make(&desk);
                failures.extend(result.error.map(|error| format!("{mode:?}: {call}: {error}")));
            }
            if !unconfined(&desk.world, &copy, &desk.world.state(), check).status.success() {
                failures.push(format!("{mode:?}: this is not true afterwards: {check}"));
            }
            fs::remove_dir_all(copy).unwrap();
        }
        assert!(failures.is_empty(), "{}", failures.join("\n"));
    }
}

/// An overlay renames no directory that existed before; git does not copy instead, and mv does.
#[test]
fn git_mv_of_a_directory_says_how_to_move_it() {
    for mode in Mode::all() {
        let desk = Desk::new(mode, &profile_with(&[]));
        desk.file("docs/a.md", "a\n");
        let make = "git init -q . && git add docs && \
                    git -c user.name=x -c user.email=x@example.org commit -qm x";
        outside(&desk.world, &desk.world.workspace(), make);
        let error = |line: &str| desk.sandbox.bash(line).error.expect("an error");
        let moved = error("git mv docs manual");
        assert!(moved.hint.ends_with("mv DIR NEW && git add -A"), "{mode:?}: {moved}");
        // The control: another error of the same program.
        let missing = error("git mv missing manual");
        assert!(!missing.hint.contains("mv DIR NEW"), "{mode:?}: {missing}");
        let done = desk.sandbox.bash("mv docs manual && git add -A && git status --short");
        assert!(done.success, "{mode:?}: {:?}", done.error);
        assert!(done.stdout.starts_with("R  docs/a.md -> manual/a.md\n"), "{mode:?}: {done:?}");
        assert_eq!(desk.text("manual/a.md").as_deref(), Some("a\n"), "{mode:?}");
    }
}
