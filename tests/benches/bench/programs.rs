//! A shell that does nothing, started in every way.

use super::{Bench, bare, interleave, show};
use palisade_client::Session;
use std::process::Command;

impl Bench {
    /// A shell that does nothing, started in every way.
    pub(super) fn programs(&self, session: &Session) {
        println!("bash -c true");
        let workspace = self.world.workspace();
        let bwrap = Command::new("bwrap").arg("--version").output().is_ok();
        let mut bare = || bare(&workspace, &self.environment);
        let mut call = || self.bash(session);
        let times = interleave(self.rounds, &mut [&mut bare, &mut call]);
        let baseline = times[0].median();
        show("  bare", &times[0], baseline);
        show("  through an open session", &times[1], baseline);
        let mut slow = || {
            let status = self
                .world
                .mode
                .act(|| self.world.command("palisade").args(["run", "--", "true"]).status());
            assert!(status.unwrap().success());
        };
        let mut peer = || {
            let status = Command::new("bwrap")
                .args(["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", "--unshare-all"])
                .args(["bash", "-c", "true"])
                .status();
            assert!(status.unwrap().success());
        };
        let few = (self.rounds / 4).max(10);
        let mut acts: Vec<&mut dyn FnMut()> = vec![&mut bare, &mut slow];
        if bwrap {
            acts.push(&mut peer);
        }
        let times = interleave(few, &mut acts);
        let baseline = times[0].median();
        show("  through `palisade run` (a daemon each)", &times[1], baseline);
        match times.get(2) {
            Some(times) => show("  under bwrap", times, baseline),
            None => println!("  under bwrap: not installed"),
        }
    }
}
