//! The cost of holding a command's effects back until they are known.

use super::{Bench, Unit, bare, interleave};
use palisade_client::{Guard, Open, Session};
use serde_json::json;
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

const GROUP: &str = "transactions";

/// The number of files that are unpacked.
const UNPACKED: usize = 5_000;

/// The number of files that a checkout changes, and how many of them a formatter changes.
const CHECKED_OUT: usize = 1_000;
const FORMATTED: usize = 500;

/// The number of files in a large workspace.
const LARGE: usize = 100_000;

/// The effects of a command that are committed.
#[derive(Clone, Copy)]
enum Keep {
    All,
    Nothing,
}

impl Bench {
    /// Measures the same commands without a sandbox, in a session, and in a session's transactions.
    pub(super) fn transactions(&self, session: &Session) {
        let (client, daemon) = self.client();
        let open = Open::new(self.world.workspace()).profile(palisade_tests::UNASKED);
        let held = self.runtime.block_on(client.open(open.guard(Guard::Transaction))).unwrap();
        self.small_ones("few files", session, &held);
        self.back_to_back(session, &held);
        let tree = self.world.workspace().join("large");
        for file in 0..LARGE {
            let directory = tree.join(format!("d{}", file % 500));
            if file < 500 {
                fs::create_dir_all(&directory).unwrap();
            }
            fs::write(directory.join(format!("f{file}")), "").unwrap();
        }
        self.small_ones("100,000 files", session, &held);
        fs::remove_dir_all(&tree).unwrap();
        self.larger_ones(session, &held);
        drop((held, client));
        self.end(daemon);
        self.judged_ones(session);
    }

    fn run(&self, session: &Session, command: &str) {
        let call = json!({"command": command});
        let result = self.runtime.block_on(async { session.call("bash", &call).await }).unwrap();
        assert!(result.success, "{command}: {result:?}");
    }

    fn small_ones(&self, which: &str, session: &Session, held: &Session) {
        let workspace = self.world.workspace();
        let mut bare = || bare(&workspace, &self.environment);
        let mut direct = || self.run(session, "true");
        let mut none = || self.run(held, "true");
        let mut one = || self.run(held, "echo x > made-by-the-bench");
        let times = interleave(self.rounds, &mut [&mut bare, &mut direct, &mut none, &mut one]);
        self.baseline(GROUP, &format!("true among {which}, bare"), &times[0]);
        let names =
            ["true, in a session", "true, in a transaction", "a file written, in a transaction"];
        for (name, row) in names.iter().zip(&times[1..]) {
            self.show(GROUP, name, row, &times[0], "bare");
        }
    }

    /// One after another, with nothing between them in which the next could be made ready.
    fn back_to_back(&self, session: &Session, held: &Session) {
        let of = |session: &Session| {
            let mut one = || self.run(session, "true");
            let times = interleave(self.rounds, &mut [&mut one]);
            times.into_iter().next().unwrap()
        };
        let (direct, transaction) = (of(session), of(held));
        self.baseline(GROUP, "true, back to back, in a session", &direct);
        let name = "true, back to back, in a transaction";
        self.show(GROUP, name, &transaction, &direct, "in a session");
    }

    /// Measures the time to find and commit the effects, without the time of the program itself,
    /// which the program prints.
    fn per_entry(&self, held: &Session) {
        let unpack = "rm -rf new && mkdir new && s=$(date +%s%N) && tar -xf archive.tar -C new && \
                      e=$(date +%s%N) && echo $((e - s))";
        let rest = |keep: Keep| {
            let (mut times, none) = (Vec::new(), self.timed(held, "echo 0", keep));
            for _ in 0..(self.rounds / 40).max(3) {
                times.push(self.timed(held, unpack, keep).saturating_sub(none));
            }
            times.sort_unstable();
            times[times.len() / 2].as_secs_f64() * 1e6 / (UNPACKED as f64 + 2.0)
        };
        let (scan, both) = (rest(Keep::Nothing), rest(Keep::All));
        let name = "scan, for each of 5,000 new entries";
        self.number(GROUP, name, (scan, Unit::Microseconds), None);
        self.number(GROUP, "commit, for each", (both - scan, Unit::Microseconds), None);
    }

    /// Returns the time that a command took, without the time that it prints.
    fn timed(&self, held: &Session, command: &str, keep: Keep) -> Duration {
        let start = std::time::Instant::now();
        let result = self.runtime.block_on(async {
            match keep {
                Keep::Nothing => held.bash(command).dry_run().await,
                Keep::All => held.bash(command).await,
            }
        });
        let result = result.unwrap();
        assert!(result.success, "{result:?}");
        let inside = Duration::from_nanos(result.stdout.trim().parse().unwrap());
        start.elapsed().saturating_sub(inside)
    }

    /// Measures the time to judge and to commit changes to files that existed before, without the
    /// time of the program itself.
    fn judged_ones(&self, session: &Session) {
        self.world.add_profile("judged", &palisade_tests::profile_with(&[]));
        let (client, daemon) = self.client();
        let open = Open::new(self.world.workspace()).profile("judged").guard(Guard::Transaction);
        let held = self.runtime.block_on(client.open(open)).unwrap();
        self.run(
            session,
            &format!(
                "mkdir judged && (cd judged && git init -q -b main . && \
                 git config user.name x && git config user.email x@example.org && \
                 for f in $(seq {CHECKED_OUT}); do seq $f $((f + 50)) > f$f; done && \
                 git add . && git commit -qm one && git switch -q -c other && \
                 for f in *; do echo more >> $f; done && git commit -qam two && git switch -q main)"
            ),
        );
        let timed = |line: &str| {
            format!(
                "(cd judged && s=$(date +%s%N) && {line} && e=$(date +%s%N) && echo $((e - s)))"
            )
        };
        let format = format!("seq -f f%g {FORMATTED} | xargs sed -i s/0/O/g");
        for (what, line) in [
            (format!("a checkout that changes {CHECKED_OUT} files"), "git checkout -q other"),
            (format!("a formatter over {FORMATTED} files"), format.as_str()),
            ("nothing that existed before".to_owned(), "echo x > new"),
        ] {
            let median = |keep: Keep| {
                let mut times = Vec::new();
                for _ in 0..(self.rounds / 40).max(3) {
                    times.push(self.timed(&held, &timed(line), keep));
                    self.run(session, "(cd judged && git checkout -q -f main && rm -f new)");
                }
                times.sort_unstable();
                times[times.len() / 2].as_secs_f64() * 1e3
            };
            let (judged, both) = (median(Keep::Nothing), median(Keep::All));
            let row = |name: String, milliseconds: f64| {
                self.number(GROUP, &name, (milliseconds * 1e3, Unit::Microseconds), None);
            };
            row(format!("judging {what}"), judged);
            row(format!("judging and committing {what}"), both);
        }
        drop((held, client));
        self.end(daemon);
        fs::remove_dir_all(self.world.workspace().join("judged")).unwrap();
    }

    fn larger_ones(&self, session: &Session, held: &Session) {
        let workspace = self.world.workspace();
        prepare(&workspace);
        let unpack = "rm -rf out && mkdir out && tar -xf archive.tar -C out";
        let build = "rm -rf crate/target && (cd crate && cargo build -q --offline)";
        for (name, command) in [
            ("git status", "git -C repo status"),
            ("untar, 5,000 files", unpack),
            ("cargo build of a small crate", build),
        ] {
            let mut bare = || outside(&workspace, command);
            let mut direct = || self.run(session, command);
            let mut transaction = || self.run(held, command);
            let acts: &mut [&mut dyn FnMut()] = &mut [&mut bare, &mut direct, &mut transaction];
            let times = interleave((self.rounds / 20).max(3), acts);
            self.baseline(GROUP, &format!("{name}, bare"), &times[0]);
            self.show(GROUP, &format!("{name}, in a session"), &times[1], &times[0], "bare");
            self.show(GROUP, &format!("{name}, in a transaction"), &times[2], &times[0], "bare");
        }
        self.per_entry(held);
        for name in ["repo", "out", "new", "crate", "archive.tar", "made-by-the-bench"] {
            let path = workspace.join(name);
            let gone = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
            gone.unwrap();
        }
    }
}

/// Runs a shell line without a sandbox.
pub(super) fn outside(workspace: &Path, command: &str) {
    let status = Command::new("/usr/bin/bash")
        .args(["-c", command])
        .current_dir(workspace)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{command}");
}

/// A repository with a thousand files, an archive, and a crate.
fn prepare(workspace: &Path) {
    for (directory, files) in [("repo", 1000), ("packed", UNPACKED)] {
        let directory = workspace.join(directory);
        fs::create_dir(&directory).unwrap();
        for file in 0..files {
            fs::write(directory.join(format!("f{file}")), format!("{file}\n").repeat(50)).unwrap();
        }
    }
    outside(
        workspace,
        "mkdir -p crate/src && cd crate && printf '[package]\\nname = \"small\"\\n\
         version = \"0.1.0\"\\nedition = \"2021\"\\n' > Cargo.toml && echo 'fn main() {}' > src/main.rs",
    );
    outside(workspace, "tar -cf archive.tar packed && rm -r packed");
    outside(
        workspace,
        "cd repo && git init -q . && git add . && \
         git -c user.name=x -c user.email=x commit -q -m x && chmod -R a+rwX .",
    );
}
