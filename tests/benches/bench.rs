//! The cost of confinement: every figure beside a bare one of the same run, interleaved, medians.
//!
//! `cargo build --release --workspace && cargo bench -p palisade-tests`; `-- --quick` for a short run,
//! `-- programs small search transactions hidden audit checkpoints setup rules denials
//! throughput network flood memory` for some.

#[path = "bench/checkpoints.rs"]
mod checkpoints;
#[path = "bench/denials.rs"]
mod denials;
#[path = "bench/hidden.rs"]
mod hidden;
#[path = "bench/load.rs"]
mod load;
#[path = "bench/network.rs"]
mod network;
#[path = "bench/programs.rs"]
mod programs;
#[path = "bench/records.rs"]
mod records;
#[path = "bench/search.rs"]
mod search;
#[path = "bench/sessions.rs"]
mod sessions;
#[path = "bench/small.rs"]
mod small;
#[path = "bench/transactions.rs"]
mod transactions;

use palisade_client::{Client, Open, Session};
use palisade_tests::{Mode, World};
use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};
use tokio::runtime::Runtime;

/// Times in order of size.
struct Times(Vec<Duration>);

impl Times {
    fn at(&self, percent: usize) -> Duration {
        let mut sorted = self.0.clone();
        sorted.sort_unstable();
        sorted.get((sorted.len() - 1) * percent / 100).copied().unwrap_or_default()
    }

    fn median(&self) -> f64 {
        self.at(50).as_secs_f64()
    }
}

/// Takes turns, so that whatever else the machine does falls on all alike.
fn interleave(rounds: usize, acts: &mut [&mut dyn FnMut()]) -> Vec<Times> {
    let mut times: Vec<_> = acts.iter().map(|_| Times(Vec::with_capacity(rounds))).collect();
    for round in 0..rounds + 3 {
        for (act, times) in acts.iter_mut().zip(&mut times) {
            let start = Instant::now();
            act();
            // The first rounds only warm up.
            if round >= 3 {
                times.0.push(start.elapsed());
            }
        }
    }
    times
}

fn show(name: &str, times: &Times, bare: f64) {
    println!(
        "{name:<44} p50 {:>9.1} µs   p90 {:>9.1} µs   {:>6.2} × bare",
        times.median() * 1e6,
        times.at(90).as_secs_f64() * 1e6,
        times.median() / bare
    );
}

struct Bench {
    runtime: Runtime,
    world: World,
    rounds: usize,
    /// The environment of sessions and of bare programs: reading a locale is not confinement.
    environment: Vec<(String, String)>,
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let quick = arguments.iter().any(|argument| argument == "--quick");
    let wanted: Vec<_> = arguments.iter().filter(|argument| *argument != "--quick").collect();
    let want = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| *wanted == name);
    let mode = Mode::all()[0];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let rounds = if quick { 20 } else { 200 };
    let mut bench = Bench { runtime, world: World::new(mode), rounds, environment: Vec::new() };
    println!(
        "palisade bench: {mode:?} mode, {} rounds, medians, interleaved in one run\n",
        bench.rounds
    );
    let (client, daemon) = bench.client();
    let idle = memory(&[daemon.id()]);
    let session = bench.open(&client);
    bench.environment = bench.environment(&session);
    if want("programs") {
        bench.programs(&session);
    }
    if want("small") {
        bench.small_calls(&client, &session);
    }
    if want("search") {
        bench.search(&session);
    }
    if want("transactions") {
        bench.transactions(&session);
    }
    if want("hidden") {
        bench.hidden(&session);
    }
    if want("audit") {
        bench.audit();
    }
    if want("checkpoints") {
        bench.checkpoints();
    }
    if want("setup") {
        bench.set_up();
    }
    if want("rules") {
        bench.rules();
    }
    if want("denials") {
        bench.denials();
    }
    if want("throughput") {
        bench.throughput(if quick { 300 } else { 1000 });
    }
    if want("network") {
        bench.network(if quick { 256 } else { 1024 });
    }
    if want("flood") {
        bench.flood(&session, &daemon, if quick { 128 } else { 1024 });
    }
    if want("memory") {
        bench.memory(idle);
    }
    drop((session, client));
    bench.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(50)).await });
    let mut daemon = daemon;
    daemon.wait().unwrap();
}

impl Bench {
    fn client(&self) -> (Client, std::process::Child) {
        let (stream, daemon) = self.world.embedded(&[]);
        let client = self.runtime.block_on(async {
            stream.set_nonblocking(true).unwrap();
            let stream = tokio::net::UnixStream::from_std(stream).unwrap();
            Client::from_stream(stream).await.unwrap()
        });
        (client, daemon)
    }

    fn open(&self, client: &Client) -> Session {
        self.open_with(client, palisade_tests::UNASKED)
    }

    fn open_with(&self, client: &Client, profile: &str) -> Session {
        let open = Open::new(self.world.workspace()).profile(profile);
        self.runtime.block_on(client.open(open)).unwrap()
    }

    fn environment(&self, session: &Session) -> Vec<(String, String)> {
        let result = self.runtime.block_on(async { session.bash("env").await }).unwrap();
        let entries = result.output.lines().map(|entry| entry.split_once('=').unwrap());
        entries.map(|(name, value)| (name.to_owned(), value.to_owned())).collect()
    }

    fn bash(&self, session: &Session) {
        assert!(self.runtime.block_on(async { session.bash("true").await }).unwrap().success);
    }

    fn connect(&self, daemon: &palisade_tests::Daemon) -> Client {
        let stream = daemon.connect(self.world.mode);
        stream.set_nonblocking(true).unwrap();
        self.runtime.block_on(async {
            Client::from_stream(tokio::net::UnixStream::from_std(stream).unwrap()).await.unwrap()
        })
    }
}

/// A shell that does nothing, its output collected, as an agent without a sandbox would.
fn bare(workspace: &Path, environment: &[(String, String)]) {
    let output = Command::new("/usr/bin/bash")
        .args(["-c", "true"])
        .env_clear()
        .envs(environment.iter().cloned())
        .current_dir(workspace)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert!(output.status.success());
}

fn field(pid: u32, file: &str, key: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(key));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// KiB.
fn memory(pids: &[u32]) -> u64 {
    pids.iter().map(|pid| field(*pid, "smaps_rollup", "Pss:")).sum()
}
