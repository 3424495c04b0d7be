//! The cost of confinement: every figure beside a bare one of the same run, interleaved, medians.
//!
//! `cargo build --release --workspace && cargo bench -p palisade-tests`. After `--`: `--quick` for a
//! short run; `--json` for programs; `--markdown` for the tables of docs/performance.md; `--svg FILE`
//! for its plot; and the names of groups (`programs small agents search transactions large hidden
//! audit checkpoints setup rules denials throughput network flood memory`) for some of them.

#[path = "bench/agents.rs"]
mod agents;
#[path = "bench/checkpoints.rs"]
mod checkpoints;
#[path = "bench/denials.rs"]
mod denials;
#[path = "bench/hidden.rs"]
mod hidden;
#[path = "bench/large.rs"]
mod large;
#[path = "bench/load.rs"]
mod load;
#[path = "bench/network.rs"]
mod network;
#[path = "bench/peers.rs"]
mod peers;
#[path = "bench/plot.rs"]
mod plot;
#[path = "bench/programs.rs"]
mod programs;
#[path = "bench/records.rs"]
mod records;
#[path = "bench/report.rs"]
mod report;
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
use report::{Report, Unit};
use std::{
    cell::RefCell,
    fs,
    path::{Path, PathBuf},
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

/// Rounds that only warm up.
const WARM: usize = 3;

/// Takes turns, so that whatever else the machine does falls on all alike.
fn interleave(rounds: usize, acts: &mut [&mut dyn FnMut()]) -> Vec<Times> {
    interleave_after(rounds + WARM, &|| {}, acts)
        .into_iter()
        .map(|times| Times(times.0.into_iter().skip(WARM).collect()))
        .collect()
}

/// Takes turns, and prepares before each in time that is not measured.
fn interleave_after(
    rounds: usize,
    prepare: &dyn Fn(),
    acts: &mut [&mut dyn FnMut()],
) -> Vec<Times> {
    let mut times: Vec<_> = acts.iter().map(|_| Times(Vec::with_capacity(rounds))).collect();
    for _ in 0..rounds {
        for (act, times) in acts.iter_mut().zip(&mut times) {
            prepare();
            let start = Instant::now();
            act();
            times.0.push(start.elapsed());
        }
    }
    times
}

struct Bench {
    runtime: Runtime,
    world: World,
    rounds: usize,
    report: RefCell<Report>,
    /// The environment of sessions and of bare programs: reading a locale is not confinement.
    environment: Vec<(String, String)>,
}

/// The form in which the rows are shown.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    Text,
    Json,
    Markdown,
}

/// The parts of the bench that the command line asks for.
struct Request {
    quick: bool,
    form: Form,
    plot: Option<PathBuf>,
    groups: Vec<String>,
}

impl Request {
    fn parse(arguments: impl Iterator<Item = String>) -> Self {
        let mut request = Self { quick: false, form: Form::Text, plot: None, groups: Vec::new() };
        let mut arguments = arguments.filter(|argument| argument != "--bench");
        while let Some(argument) = arguments.next() {
            match argument.as_str() {
                "--quick" => request.quick = true,
                "--json" => request.form = Form::Json,
                "--markdown" => request.form = Form::Markdown,
                "--svg" => request.plot = Some(arguments.next().expect("--svg FILE").into()),
                group => request.groups.push(group.to_owned()),
            }
        }
        request
    }

    fn wants(&self, group: &str) -> bool {
        self.groups.is_empty() || self.groups.iter().any(|wanted| wanted == group)
    }
}

fn main() {
    let request = Request::parse(std::env::args().skip(1));
    let quick = request.quick;
    let want = |group: &str| request.wants(group);
    let mode = Mode::all()[0];
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let rounds = if quick { 20 } else { 200 };
    let report = RefCell::new(Report::new(request.form != Form::Text));
    let mut bench =
        Bench { runtime, world: World::new(mode), rounds, report, environment: Vec::new() };
    if request.form == Form::Text {
        println!("palisade bench: {mode:?} mode, {rounds} rounds, medians, interleaved in one run");
    }
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
    if want("agents") {
        bench.agents();
    }
    if want("search") {
        bench.search(&session, if quick { 10_000 } else { 100_000 });
    }
    if want("transactions") {
        bench.transactions(&session);
    }
    if want("large") {
        bench.large(&session, quick);
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
    bench.end(daemon);
    let report = bench.report.into_inner();
    match request.form {
        Form::Text => {}
        Form::Json => println!("{:#}", report.json(&format!("{mode:?}"), rounds)),
        Form::Markdown => print!("{}", report.markdown()),
    }
    if let Some(path) = request.plot {
        fs::write(path, plot::draw(&report)).unwrap();
    }
}

impl Bench {
    /// Adds a row of times that is the baseline of others.
    fn baseline(&self, group: &str, name: &str, times: &Times) {
        self.report.borrow_mut().times(group, name, times, None);
    }

    /// Adds a row of times, compared with a baseline of the same rounds.
    fn show(&self, group: &str, name: &str, times: &Times, baseline: &Times, of: &str) {
        self.report.borrow_mut().times(group, name, times, Some((baseline.median(), of)));
    }

    /// Adds one number.
    fn number(&self, group: &str, name: &str, number: (f64, Unit), ratio: Option<(f64, &str)>) {
        self.report.borrow_mut().number(group, name, number, ratio);
    }

    fn client(&self) -> (Client, std::process::Child) {
        let (stream, daemon) = self.world.embedded(&[]);
        let client = self.runtime.block_on(async {
            stream.set_nonblocking(true).unwrap();
            let stream = tokio::net::UnixStream::from_std(stream).unwrap();
            Client::from_stream(stream).await.unwrap()
        });
        (client, daemon)
    }

    /// Waits until a daemon whose clients were dropped has ended. Their connections are closed by
    /// tasks, which run while the runtime does.
    fn end(&self, mut daemon: std::process::Child) {
        self.runtime.block_on(async {
            while daemon.try_wait().unwrap().is_none() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
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
