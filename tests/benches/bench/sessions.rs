//! The cost of a session: to open, with path rules, in memory.

use super::{Bench, Times, Unit, bare, interleave, memory};
use palisade_tests::processes;
use std::{
    fs,
    path::PathBuf,
    time::{Duration, Instant},
};

impl Bench {
    /// From `Open` to its answer, and to the first result.
    pub(super) fn set_up(&self) {
        const GROUP: &str = "opening a session";
        let (mut opened, mut first, mut again) = (Times(vec![]), Times(vec![]), Times(vec![]));
        let daemon = self.world.daemon();
        for _ in 0..(self.rounds / 4).max(10) {
            // An agent thinks between sessions; meanwhile the launcher prepares the next.
            std::thread::sleep(Duration::from_millis(60));
            let client = self.connect(&daemon);
            let start = Instant::now();
            let session = self.open(&client);
            opened.0.push(start.elapsed());
            self.bash(&session);
            first.0.push(start.elapsed());
            let next = self.connect(&daemon);
            let start = Instant::now();
            let second = self.open(&next);
            again.0.push(start.elapsed());
            self.runtime.block_on(async {
                session.close().await.unwrap();
                second.close().await.unwrap();
            });
        }
        self.baseline(GROUP, "open", &opened);
        self.show(GROUP, "open, and the first `true`", &first, &opened, "open");
        self.show(GROUP, "open right after another", &again, &opened, "open");
    }

    /// Measures the cost of path rules for a call: the kernel copies each, but for those that the
    /// rule of a directory above covers, which are left out.
    pub(super) fn rules(&self) {
        const GROUP: &str = "path rules";
        let workspace = self.world.workspace();
        // Not below `/tmp`, which is every session's own to write.
        let beside = PathBuf::from(format!("/srv/palisade-bench-{}", std::process::id()));
        if let Err(error) = fs::create_dir(&beside) {
            return eprintln!("{GROUP}: not measured: {}: {error}", beside.display());
        }
        let inside = workspace.join("rules");
        let kinds = [(10, &beside), (100, &beside), (1000, &beside), (1000, &inside)];
        for (place, (count, above)) in kinds.iter().enumerate() {
            let paths: Vec<_> = (0..*count)
                .map(|number| {
                    let directory = above.join(number.to_string());
                    fs::create_dir_all(&directory).unwrap();
                    format!("\"{}\"", directory.display())
                })
                .collect();
            let text = format!(
                "version = 1\ndescription = \"bench\"\n[fs]\nworkspace = \"write\"\nexecute = [\"!/usr\", \"/bin\", \"/lib\", \"/lib64\"]\nread = [{}]\n[layers]\noptional = [\"limits\"]\n",
                paths.join(", ")
            );
            self.world.add_unasked(&format!("rules{place}"), &text);
        }
        let mut clients: Vec<_> = kinds.iter().map(|_| self.client()).collect();
        let sessions: Vec<_> = (0..)
            .zip(&clients)
            .map(|(place, (client, _))| self.open_with(client, &format!("rules{place}")))
            .collect();
        let times = interleave(
            self.rounds / 2,
            &mut [
                &mut || bare(&workspace, &self.environment),
                &mut || self.bash(&sessions[0]),
                &mut || self.bash(&sessions[1]),
                &mut || self.bash(&sessions[2]),
                &mut || self.bash(&sessions[3]),
            ],
        );
        let names = ["10 rules", "100 rules", "1000 rules", "1000 that the workspace's covers"];
        for (times_of, name) in times[1..].iter().zip(names) {
            self.show(GROUP, name, times_of, &times[0], "bare");
        }
        drop(sessions);
        for (client, mut daemon) in clients.drain(..) {
            drop(client);
            self.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(20)).await });
            daemon.wait().unwrap();
        }
        fs::remove_dir_all(inside).unwrap();
        fs::remove_dir_all(beside).unwrap();
    }

    /// Measures the memory of an idle daemon and of idle sessions.
    pub(super) fn memory(&self, idle: u64) {
        // What each process has of its own, and its share of the rest.
        const GROUP: &str = "memory";
        self.number(GROUP, "idle broker", (idle as f64, Unit::KiB), None);
        let daemon = self.world.daemon();
        let of = || {
            let tree = processes::tree(i32::try_from(daemon.child.id()).unwrap());
            memory(&tree.iter().map(|p| u32::try_from(p.pid).unwrap()).collect::<Vec<_>>())
        };
        // Until the launcher has prepared for the first session.
        std::thread::sleep(Duration::from_millis(300));
        let before = of();
        self.number(GROUP, "idle daemon, all rooms", (before as f64, Unit::KiB), None);
        let count = 20;
        let sessions: Vec<_> = (0..count)
            .map(|_| {
                let session = self.open(&self.connect(&daemon));
                self.bash(&session);
                session
            })
            .collect();
        std::thread::sleep(Duration::from_millis(300));
        let each = (of() - before) as f64 / count as f64;
        self.number(GROUP, "idle session with a spare shell", (each, Unit::KiB), None);
        drop(sessions);
    }
}
