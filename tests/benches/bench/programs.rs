//! A shell that does nothing, started in every way.

use super::{Bench, Times, bare, interleave, peers::Peer};
use palisade_client::{Guard, Open, Session};
use std::{fs, os::unix::fs::DirBuilderExt as _};

const GROUP: &str = "bash -c true";

impl Bench {
    /// Measures a shell that does nothing: in a session, by a command of its own, and under the
    /// other sandboxes that are installed.
    pub(super) fn programs(&self, session: &Session) {
        let workspace = self.world.workspace();
        let daemon = self.world.daemon();
        let reading = self.open_with(&self.connect(&daemon), palisade_policy::DEFAULT);
        let open = Open::new(&workspace).profile(palisade_tests::UNASKED);
        let held = self
            .runtime
            .block_on(self.connect(&daemon).open(open.guard(Guard::Transaction)))
            .unwrap();
        let mut bare = || bare(&workspace, &self.environment);
        let mut written = 0u32;
        let mut write = || {
            written += 1;
            let line = format!("echo {written} > made-by-the-bench");
            assert!(self.runtime.block_on(async { held.bash(&line).await }).unwrap().success);
        };
        let acts: &mut [&mut dyn FnMut()] = &mut [
            &mut bare,
            &mut || self.bash(&reading),
            &mut || self.bash(&held),
            &mut write,
            &mut || self.bash(session),
        ];
        let times = interleave(self.rounds, acts);
        self.baseline(GROUP, "bare", &times[0]);
        let names = [
            "in a session, reading",
            "in a session, in a transaction",
            "a file written in a transaction",
            "in a session without a guard",
        ];
        for (name, row) in names.iter().zip(&times[1..]) {
            self.show(GROUP, name, row, &times[0], "bare");
        }
        drop((held, reading, daemon));
        self.commands(&mut bare);
    }

    /// Measures what is started anew each time.
    fn commands(&self, bare: &mut dyn FnMut()) {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(self.world.run()).unwrap();
        self.world.give(&self.world.run());
        let palisade = |words: &[&str]| {
            let world = &self.world;
            let status = world.mode.act(|| {
                let mut command = world.command("palisade");
                command.env("PALISADE_LINGER", "5m").args(words).status()
            });
            assert!(status.unwrap().success());
        };
        let mut alone = || palisade(&["run", "--no-linger", "--", "true"]);
        let mut left = || palisade(&["run", "--", "true"]);
        let peers = Peer::all();
        let mut starts: Vec<_> =
            peers.iter().map(|peer| move || assert!(peer.start(), "{}", peer.name)).collect();
        let mut acts: Vec<&mut dyn FnMut()> = vec![bare, &mut alone, &mut left];
        acts.extend(starts.iter_mut().map(|start| start as &mut dyn FnMut()));
        let times = interleave((self.rounds / 4).max(10), &mut acts);
        let show = |name: &str, row: &Times| self.show(GROUP, name, row, &times[0], "bare");
        show("palisade run, a daemon of its own", &times[1]);
        show("palisade run, a daemon left running", &times[2]);
        for (peer, row) in peers.iter().zip(&times[3..]) {
            show(peer.name, row);
        }
        palisade(&["stop"]);
    }
}
