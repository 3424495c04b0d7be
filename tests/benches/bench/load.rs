//! Many calls at once, and much output.

use super::{Bench, field};
use palisade_client::Session;
use std::{
    fs,
    process::Command,
    time::{Duration, Instant},
};

impl Bench {
    /// Calls per second of several agents at once, each with a session of its own.
    pub(super) fn throughput(&self, milliseconds: u64) {
        println!("\ncalls per second, a session each, one daemon");
        let daemon = self.world.daemon();
        fs::write(self.world.workspace().join("four"), "x".repeat(4096)).unwrap();
        for callers in [1, 2, 8, 32] {
            let sessions: Vec<_> =
                (0..callers).map(|_| self.open(&self.connect(&daemon))).collect();
            let span = Duration::from_millis(milliseconds);
            let run = |read: bool| {
                self.runtime.block_on(async {
                    let deadline = Instant::now() + span;
                    let tasks: Vec<_> = sessions
                        .iter()
                        .map(|session| {
                            let session = session.clone();
                            tokio::spawn(async move {
                                let mut calls = 0u64;
                                while Instant::now() < deadline {
                                    if read {
                                        session.read_file("four").await.unwrap();
                                    } else {
                                        session.bash("true").await.unwrap();
                                    }
                                    calls += 1;
                                }
                                calls
                            })
                        })
                        .collect();
                    let mut calls = 0;
                    for task in tasks {
                        calls += task.await.unwrap();
                    }
                    calls as f64 / span.as_secs_f64()
                })
            };
            println!(
                "  {callers:>2} callers   bash -c true {:>7.0}/s   read_file 4 KiB {:>8.0}/s",
                run(false),
                run(true)
            );
            self.runtime.block_on(async {
                for session in &sessions {
                    session.close().await.unwrap();
                }
            });
        }
    }

    /// Much output, in how much memory.
    pub(super) fn flood(&self, session: &Session, daemon: &std::process::Child, megabytes: u64) {
        println!("\n{megabytes} MiB of output");
        let command = format!("head -c {megabytes}M /dev/zero | tr '\\0' x");
        let start = Instant::now();
        let bare =
            Command::new("bash").args(["-c", &format!("{command} | cat > /dev/null")]).status();
        assert!(bare.unwrap().success());
        let bare = start.elapsed();
        let before = peak(daemon.id());
        let start = Instant::now();
        let result = self
            .runtime
            .block_on(async { session.bash(&command).timeout(Duration::from_secs(300)).await })
            .unwrap();
        assert!(result.success && result.truncated, "{:?}", result.error);
        let took = start.elapsed();
        let kept = u64::try_from(result.output.matches('x').count()).unwrap();
        assert_eq!(result.omitted_bytes + kept, megabytes << 20, "every byte is accounted for");
        println!(
            "  {:.2} s ({:.2} × into cat); the broker's peak memory {} → {} KiB",
            took.as_secs_f64(),
            took.as_secs_f64() / bare.as_secs_f64(),
            before,
            peak(daemon.id()),
        );
    }
}

/// KiB.
fn peak(pid: u32) -> u64 {
    field(pid, "status", "VmHWM:")
}
