//! Many calls at once, and much output.

use super::{Bench, Times, Unit, bare, field};
use palisade_client::Session;
use std::{
    fs,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

const RATE: &str = "calls per second";
const OUTPUT: &str = "output";

/// The call that a caller repeats.
#[derive(Clone, Copy)]
enum Act {
    Shell,
    Read,
}

impl Bench {
    /// Measures the calls per second of several agents at once, each with a session of its own, beside
    /// as many threads that start bare shells.
    pub(super) fn throughput(&self, milliseconds: u64) {
        let span = Duration::from_millis(milliseconds);
        let daemon = self.world.daemon();
        fs::write(self.world.workspace().join("four"), "x".repeat(4096)).unwrap();
        for callers in [1, 2, 8, 32] {
            let sessions: Vec<_> =
                (0..callers).map(|_| self.open(&self.connect(&daemon))).collect();
            // Once unmeasured: a session's first call makes what the others use.
            self.calls(&sessions, Act::Shell, Duration::from_millis(50));
            let without = self.bare_calls(callers, span);
            let shells = self.calls(&sessions, Act::Shell, span);
            let reads = self.calls(&sessions, Act::Read, span);
            let rate = |times: &Times| times.0.len() as f64 / span.as_secs_f64();
            let row = |what: &str, times: &Times, ratio: Option<(f64, &str)>| {
                let name = format!("{what}, {callers} callers");
                self.number(RATE, &name, (rate(times), Unit::PerSecond), ratio);
            };
            row("bash -c true, bare", &without, None);
            row("bash -c true", &shells, Some((rate(&shells) / rate(&without), "bare")));
            row("read_file", &reads, None);
            let spread = |times: &Times| times.at(99).as_secs_f64() / times.median();
            let name = format!("bash -c true, {callers} callers: one call");
            let tail = Some((spread(&shells), "99 of 100 to the median"));
            self.number(RATE, &name, (shells.median() * 1e6, Unit::Microseconds), tail);
            self.runtime.block_on(async {
                for session in &sessions {
                    session.close().await.unwrap();
                }
            });
        }
    }

    /// Returns the time of each call that one of the sessions made in a span of time.
    fn calls(&self, sessions: &[Session], act: Act, span: Duration) -> Times {
        self.runtime.block_on(async {
            let deadline = Instant::now() + span;
            let calls = sessions.iter().map(|session| {
                let session = session.clone();
                tokio::spawn(async move {
                    let mut times = Vec::new();
                    while Instant::now() < deadline {
                        let start = Instant::now();
                        match act {
                            Act::Shell => assert!(session.bash("true").await.unwrap().success),
                            Act::Read => drop(session.read_file("four").await.unwrap()),
                        }
                        times.push(start.elapsed());
                    }
                    times
                })
            });
            let mut times = Vec::new();
            for call in calls.collect::<Vec<_>>() {
                times.extend(call.await.unwrap());
            }
            Times(times)
        })
    }

    /// Returns the time of each bare shell that one of several threads ran in a span of time.
    fn bare_calls(&self, callers: usize, span: Duration) -> Times {
        let (workspace, environment) = (self.world.workspace(), &self.environment);
        let deadline = Instant::now() + span;
        let times = thread::scope(|scope| {
            let one = || {
                let mut times = Vec::new();
                while Instant::now() < deadline {
                    let start = Instant::now();
                    bare(&workspace, environment);
                    times.push(start.elapsed());
                }
                times
            };
            let threads: Vec<_> = (0..callers).map(|_| scope.spawn(one)).collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        Times(times)
    }

    /// Measures much output, and the memory that it takes.
    pub(super) fn flood(&self, session: &Session, daemon: &std::process::Child, megabytes: u64) {
        let command = format!("head -c {megabytes}M /dev/zero | tr '\\0' x");
        let start = Instant::now();
        let mut bare = Command::new("bash");
        bare.args(["-c", &format!("{command} | cat")]).stdout(Stdio::null());
        assert!(bare.status().unwrap().success());
        let bare = Times(vec![start.elapsed()]);
        let before = peak(daemon.id());
        let start = Instant::now();
        let result = self
            .runtime
            .block_on(async { session.bash(&command).timeout(Duration::from_secs(300)).await })
            .unwrap();
        assert!(result.success && result.truncated, "{:?}", result.error);
        let took = Times(vec![start.elapsed()]);
        let kept = u64::try_from(result.output.matches('x').count()).unwrap();
        assert_eq!(result.omitted_bytes + kept, megabytes << 20, "every byte is accounted for");
        let size = if megabytes == 1024 { "1 GiB".to_owned() } else { format!("{megabytes} MiB") };
        self.baseline(OUTPUT, &format!("{size}, bare, into cat"), &bare);
        self.show(OUTPUT, &format!("{size}, to the client"), &took, &bare, "into cat");
        let after = (peak(daemon.id()) as f64, Unit::KiB);
        let ratio = Some((after.0 / before as f64, "before"));
        self.number(OUTPUT, "the broker's peak memory", after, ratio);
    }
}

/// KiB.
fn peak(pid: u32) -> u64 {
    field(pid, "status", "VmHWM:")
}
