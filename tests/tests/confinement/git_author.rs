//! The name and e-mail address of commits: a session has its user's, and nothing else of the user's
//! configuration of git.

use palisade_plan::{Step, cell::End, cell::RunReply};
use palisade_tests::{Cell, Mode, Pids, Place, World, own, plan_with_home};
use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, lchown},
    path::Path,
};

const SECRET: &str = "token-4711";

fn written() -> String {
    format!(
        "[user]\n\tname = Ann Example\n\temail = ann@example.org\n\
         [http]\n\textraHeader = {SECRET}\n[alias]\n\tst = !touch /tmp/ran\n"
    )
}

/// Makes a home of the session's user with a file in it, with this mode.
fn home_with(name: &str, text: &str, mode: u32) -> Place {
    let home = Place::new();
    let file = home.path().join(name);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, text).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    if Mode::all().contains(&Mode::System) {
        for path in file.ancestors().take_while(|path| path.starts_with(home.path())) {
            lchown(path, Some(own().uid), Some(own().gid)).unwrap();
        }
    }
    home.set_mode(0o700);
    home
}

fn session(world: &World, home: &Path, change: impl Fn(Vec<Step>) -> Vec<Step>) -> Cell {
    let plan = plan_with_home(&world.workspace(), home);
    Cell::session(&plan, Pids::Own, |_, steps| change(steps)).expect("a session")
}

/// Returns what a line prints in the session, and whether it succeeded.
fn says(cell: &Cell, world: &World, home: &Path, line: &str) -> (bool, String) {
    let line = format!("export HOME='{}'; {line}", home.display());
    let (reply, output) = cell.run(&["/bin/bash", "-c", &line], &world.workspace());
    (matches!(reply, RunReply::Ended { end: End::Exit(0), .. }), output)
}

const COMMIT: &str = "git init -q . && git commit -q --allow-empty -m one && \
                      git log -1 --format='%an <%ae>'";

#[test]
fn a_commit_has_the_users_name_and_the_rest_stays_outside() {
    for name in [".gitconfig", ".config/git/config"] {
        let (world, home) = (World::new(Mode::User), home_with(name, &written(), 0o600));
        let cell = session(&world, home.path(), |steps| steps);
        let author = (true, "Ann Example <ann@example.org>\n".to_owned());
        assert_eq!(says(&cell, &world, home.path(), COMMIT), author, "{name}");
        let (_, all) = says(
            &cell,
            &world,
            home.path(),
            "git config --list; cat ~/.gitconfig ~/.config/git/config",
        );
        assert!(all.contains("user.name=Ann Example"), "{all}");
        assert!(!all.contains(SECRET) && !all.contains("alias"), "{all}");
        let (done, _) = says(&cell, &world, home.path(), "git config --global user.name Other");
        assert!(done, "the file is the session's own");
        let kept = fs::read_to_string(home.path().join(name)).unwrap();
        assert_eq!(kept, written(), "the user's file is not");
    }
}

#[test]
fn without_the_step_a_commit_has_no_author() {
    let (world, home) = (World::new(Mode::User), home_with(".gitconfig", &written(), 0o600));
    let without = |steps: Vec<Step>| {
        let is_it = |step: &Step| matches!(step, Step::GitConfiguration { .. });
        assert!(steps.iter().filter(|step| is_it(step)).count() <= 1);
        steps.into_iter().filter(|step| !is_it(step)).collect()
    };
    let cell = session(&world, home.path(), without);
    let (done, _) = says(&cell, &world, home.path(), COMMIT);
    assert!(!done);
}

#[test]
fn the_configuration_of_the_repository_wins() {
    let (world, home) = (World::new(Mode::User), home_with(".gitconfig", &written(), 0o644));
    let cell = session(&world, home.path(), |steps| steps);
    let line = format!("git init -q . && git config user.email work@example.org && {COMMIT}");
    let said = says(&cell, &world, home.path(), &line);
    assert_eq!(said, (true, "Ann Example <work@example.org>\n".to_owned()));
}

#[test]
fn a_file_that_depends_on_the_repository_or_is_no_file_gives_no_author() {
    let included = format!("{}[includeIf \"gitdir:~/work/\"]\n\tpath = x\n", written());
    let long = format!("{}# {}\n", written(), "x".repeat(64 * 1024));
    for text in [included, long] {
        let (world, home) = (World::new(Mode::User), home_with(".gitconfig", &text, 0o600));
        let cell = session(&world, home.path(), |steps| steps);
        let (done, _) = says(&cell, &world, home.path(), COMMIT);
        assert!(!done, "{}", text.len());
    }
    let (world, home) = (World::new(Mode::User), home_with("other", "", 0o600));
    nix::unistd::mkfifo(&home.path().join(".gitconfig"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let cell = session(&world, home.path(), |steps| steps);
    let (done, _) = says(&cell, &world, home.path(), COMMIT);
    assert!(!done, "a pipe is not waited for");
}

#[test]
fn a_link_leads_no_further_than_the_user_may_read() {
    let closed = Place::new();
    fs::write(closed.path().join("theirs"), written()).unwrap();
    closed.set_mode(0o700);
    let (world, home) = (World::new(Mode::User), home_with("other", "", 0o600));
    std::os::unix::fs::symlink(closed.path().join("theirs"), home.path().join(".gitconfig"))
        .unwrap();
    let cell = session(&world, home.path(), |steps| steps);
    // If this is not root, the directory is the session's user's own.
    let is_closed = Mode::all().contains(&Mode::System);
    assert_eq!(says(&cell, &world, home.path(), COMMIT).0, !is_closed, "a closed directory");
    closed.set_mode(0o755);
    let cell = session(&world, home.path(), |steps| steps);
    assert!(
        says(&cell, &world, home.path(), COMMIT).0,
        "a link of the user's own choice is followed"
    );
}
