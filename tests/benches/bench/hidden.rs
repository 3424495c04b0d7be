//! The cost of hiding and protecting names in a workspace of 100,000 files: to open a session and
//! run its first command, the first time and later; and each command after that.

use super::{Bench, Times, bare, interleave};
use palisade_client::{Guard, Open, Session};
use palisade_tests::{UNASKED, profile_with};
use std::{
    fs,
    path::Path,
    time::{Duration, Instant},
};

const GROUP: &str = "hidden and protected names, 100,000 files";

const DIRECTORIES: usize = 1_000;
const FILES: usize = 100;

/// The default profile with what `guarded` hides and protects.
fn restricted() -> String {
    let (_, names) =
        include_str!("../../../daemon/profiles/guarded.toml").split_once("[fs]\n").unwrap();
    profile_with(&[
        ("ask = \"destructive\"", "ask = \"never\""),
        ("[fs]\n", &format!("[fs]\n{names}")),
    ])
}

fn fill(tree: &Path) {
    for number in 0..DIRECTORIES {
        let directory = tree.join(format!("a{}/b{number}", number % 20));
        fs::create_dir_all(&directory).unwrap();
        for file in 0..FILES {
            fs::write(directory.join(format!("file-{file}.rs")), "").unwrap();
        }
    }
    fs::write(tree.join("a0/b0/.env"), "").unwrap();
    // So that no directory is too new for its times to be trusted.
    std::thread::sleep(Duration::from_secs(1));
}

impl Bench {
    /// Measures commands in transactions, without and with hidden and protected names.
    pub(super) fn hidden(&self, session: &Session) {
        self.world.add_profile("restricted", &restricted());
        let tree = self.world.workspace().join("large");
        fill(&tree);
        let daemon = self.world.daemon();
        let open = |profile: &str| {
            let open = Open::new(self.world.workspace()).profile(profile).guard(Guard::Transaction);
            self.runtime.block_on(self.connect(&daemon).open(open)).unwrap()
        };
        let first = |profile: &str| {
            // An agent thinks between sessions; meanwhile the launcher prepares the next.
            std::thread::sleep(Duration::from_millis(60));
            let start = Instant::now();
            let session = open(profile);
            self.bash(&session);
            let took = start.elapsed();
            self.runtime.block_on(session.close()).unwrap();
            took
        };
        let earliest = first("restricted");
        let (mut without, mut with) = (Times(vec![]), Times(vec![]));
        for _ in 0..(self.rounds / 4).max(10) {
            without.0.push(first(UNASKED));
            with.0.push(first("restricted"));
        }
        self.baseline(GROUP, "open and `true`, no names", &without);
        let earliest = Times(vec![earliest]);
        self.show(GROUP, "open and `true`, the first session", &earliest, &without, "no names");
        self.show(GROUP, "open and `true`, later ones", &with, &without, "no names");
        let (plain, restricted) = (open(UNASKED), open("restricted"));
        let workspace = self.world.workspace();
        let mut changes = 0;
        let mut change = || {
            changes += 1;
            fs::write(tree.join(format!("a3/b3/new-{changes}.rs")), "").unwrap();
            self.bash(&restricted);
        };
        let times = interleave(
            self.rounds,
            &mut [
                &mut || bare(&workspace, &self.environment),
                &mut || self.bash(session),
                &mut || self.bash(&plain),
                &mut || self.bash(&restricted),
                &mut change,
            ],
        );
        self.baseline(GROUP, "`true`, bare", &times[0]);
        self.show(GROUP, "`true`, reading", &times[1], &times[0], "bare");
        self.show(GROUP, "`true`, in a transaction", &times[2], &times[0], "bare");
        self.show(GROUP, "… with names", &times[3], &times[2], "no names");
        let name = "… with names, one directory changed";
        self.show(GROUP, name, &times[4], &times[2], "no names");
        drop((plain, restricted, daemon));
        fs::remove_dir_all(&tree).unwrap();
    }
}
