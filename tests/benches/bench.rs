//! What confinement costs: every figure beside a bare one of the same run, interleaved, medians.
//!
//! `cargo build --release --workspace && cargo bench -p palisade-tests`; `-- --quick` for a short run,
//! `-- programs small search transactions audit checkpoints setup rules denials throughput flood
//! memory` for some.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, missing_docs)]

#[path = "bench/denials.rs"]
mod denials;
#[path = "bench/search.rs"]
mod search;
#[path = "bench/transactions.rs"]
mod transactions;

use palisade_audit::{
    Call, CallResult, CleanJson, CleanText, Hash, Judgement, Log, Options, Record,
};
use palisade_client::{
    Answer, Client, Open, Operator, OperatorEvent, Registration, Scope, Session, Until,
};
use palisade_tests::{Mode, World, processes};
use std::{
    fs,
    io::Write as _,
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
    /// What a session's programs start with, for the bare ones too: reading a locale is not confinement.
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

    /// A shell that does nothing, started in every way.
    fn programs(&self, session: &Session) {
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

    /// Calls that start no program.
    fn small_calls(&self, client: &Client, session: &Session) {
        println!("\nsmall calls, 4 KiB");
        let file = self.world.workspace().join("four");
        let contents = "x".repeat(4096);
        fs::write(&file, &contents).unwrap();
        let temp = self.world.workspace().join("bare.tmp");
        let read = || fs::read(&file).unwrap();
        let rounds = self.rounds * 10;
        let times = interleave(
            rounds,
            &mut [
                &mut || self.runtime.block_on(client.ping()).unwrap(),
                &mut || assert_eq!(read().len(), 4096),
                &mut || {
                    let text = self.runtime.block_on(session.read_file("four")).unwrap();
                    assert_eq!(text.len(), 4096);
                },
                &mut || {
                    fs::write(&temp, &contents).unwrap();
                    fs::rename(&temp, &file).unwrap();
                },
                &mut || {
                    let written =
                        self.runtime.block_on(session.write_file("four", &contents)).unwrap();
                    assert!(written.success);
                },
            ],
        );
        show("  ping", &times[0], times[0].median());
        show("  read, bare", &times[1], times[1].median());
        show("  read_file", &times[2], times[1].median());
        show("  write + rename, bare", &times[3], times[3].median());
        show("  write_file", &times[4], times[3].median());
    }

    /// The two records of a call, made and written, and what the bare writes of them cost.
    fn audit(&self) {
        println!("\naudit, the two records of a call");
        let directory = self.world.workspace().join("audit");
        let log = Log::open(&directory, Options::new("bench")).unwrap();
        let line = vec![b'x'; 600];
        let mut bare = fs::File::create(directory.join("bare")).unwrap();
        let times = interleave(
            self.rounds * 10,
            &mut [
                &mut || {
                    bare.write_all(&line).unwrap();
                    bare.write_all(&line).unwrap();
                },
                &mut || {
                    drop(log.append(&call_record()).unwrap());
                    drop(log.append(&result_record()).unwrap());
                },
            ],
        );
        show("  two lines of 600 bytes, bare", &times[0], times[0].median());
        show("  call and result", &times[1], times[0].median());
    }

    /// What asking costs: a handler beside the daemon that says yes at once, and an answer that is
    /// remembered.
    fn checkpoints(&self) {
        println!("\ncheckpoints, read_file of 4 KiB where everything is asked about");
        let always = [("ask = \"destructive\"", "ask = \"always\"")];
        self.world.add_profile("always", &palisade_tests::profile_with(&always));
        fs::write(self.world.workspace().join("four"), "x".repeat(4096)).unwrap();
        let daemon = self.world.daemon();
        let plain = self.open(&self.connect(&daemon));
        let (asked, remembered) = (
            self.open_with(&self.connect(&daemon), "always"),
            self.open_with(&self.connect(&daemon), "always"),
        );
        let (path, once) = (daemon.operators.clone(), remembered.id().clone());
        let (attached, attach) = std::sync::mpsc::channel();
        let handler = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.unwrap().block_on(async {
                let operator = Operator::connect(&path).await.unwrap();
                operator.register(Registration::new("program:bench")).await.unwrap();
                attached.send(()).unwrap();
                while let Some(event) = operator.next().await {
                    let OperatorEvent::Question(question) = event else { continue };
                    let yes = Answer::approve();
                    let answer = if question.asker.session == once {
                        yes.remember(Scope::ExactCall, Until::Session)
                    } else {
                        yes
                    };
                    // Its end may come before the reply.
                    drop(operator.answer(&question, answer).await);
                }
            });
        });
        attach.recv().unwrap();
        let read = |session: &Session| {
            let text = self.runtime.block_on(session.read_file("four")).unwrap();
            assert_eq!(text.len(), 4096);
        };
        let times = interleave(
            self.rounds * 10,
            &mut [&mut || read(&plain), &mut || read(&remembered), &mut || read(&asked)],
        );
        let baseline = times[0].median();
        show("  not asked about", &times[0], baseline);
        show("  answered from memory", &times[1], baseline);
        show("  answered by a handler beside it", &times[2], baseline);
        let added = |times: &Times| (times.median() - baseline) * 1e6;
        println!("  added: {:.1} µs, {:.1} µs", added(&times[1]), added(&times[2]));
        drop((plain, asked, remembered, daemon));
        handler.join().unwrap();
    }

    /// From `Open` to its answer, and to the first result.
    fn set_up(&self) {
        println!("\nsession set-up");
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
        let baseline = opened.median();
        println!("  (the ratio is to the first line)");
        show("  open", &opened, baseline);
        show("  open, and the first `true`", &first, baseline);
        show("  open right after another", &again, baseline);
    }

    fn connect(&self, daemon: &palisade_tests::Daemon) -> Client {
        let stream = daemon.connect(self.world.mode);
        stream.set_nonblocking(true).unwrap();
        self.runtime.block_on(async {
            Client::from_stream(tokio::net::UnixStream::from_std(stream).unwrap()).await.unwrap()
        })
    }

    /// What path rules cost a call.
    fn rules(&self) {
        println!("\nbash -c true with path rules");
        let workspace = self.world.workspace();
        for count in [10, 100, 1000] {
            let mut paths = Vec::new();
            for number in 0..count {
                let directory = workspace.join(format!("rules/{number}"));
                fs::create_dir_all(&directory).unwrap();
                paths.push(format!("\"{}\"", directory.display()));
            }
            let text = format!(
                "version = 1\ndescription = \"bench\"\n[fs]\nworkspace = \"write\"\nexecute = [\"!/usr\", \"/bin\", \"/lib\", \"/lib64\"]\nread = [{}]\n[layers]\noptional = [\"limits\"]\n",
                paths.join(", ")
            );
            self.world.add_unasked(&format!("rules{count}"), &text);
        }
        let (client, mut daemon) = self.client();
        let (other, mut second) = self.client();
        let (third, mut another) = self.client();
        let sessions: Vec<_> = [(&client, "rules10"), (&other, "rules100"), (&third, "rules1000")]
            .into_iter()
            .map(|(client, profile)| self.open_with(client, profile))
            .collect();
        let workspace = self.world.workspace();
        let times = interleave(
            self.rounds / 2,
            &mut [
                &mut || bare(&workspace, &self.environment),
                &mut || self.bash(&sessions[0]),
                &mut || self.bash(&sessions[1]),
                &mut || self.bash(&sessions[2]),
            ],
        );
        for (times_of, count) in times[1..].iter().zip([10, 100, 1000]) {
            show(&format!("  {count} rules"), times_of, times[0].median());
        }
        drop((sessions, client, other, third));
        for daemon in [&mut daemon, &mut second, &mut another] {
            self.runtime.block_on(async { tokio::time::sleep(Duration::from_millis(20)).await });
            daemon.wait().unwrap();
        }
        fs::remove_dir_all(workspace.join("rules")).unwrap();
    }

    /// Calls per second of several agents at once, each with a session of its own.
    fn throughput(&self, milliseconds: u64) {
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
    fn flood(&self, session: &Session, daemon: &std::process::Child, megabytes: u64) {
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

    /// What an idle daemon and idle sessions hold.
    fn memory(&self, idle: u64) {
        println!(
            "\nmemory, proportional (what each process has of its own, and its share of the rest)"
        );
        println!("  idle broker: {idle} KiB");
        let daemon = self.world.daemon();
        let of = || {
            let tree = processes::tree(i32::try_from(daemon.child.id()).unwrap());
            memory(&tree.iter().map(|p| u32::try_from(p.pid).unwrap()).collect::<Vec<_>>())
        };
        // Until the launcher has prepared for the first session.
        std::thread::sleep(Duration::from_millis(300));
        let before = of();
        println!("  idle daemon, all rooms: {before} KiB");
        let count = 20;
        let sessions: Vec<_> = (0..count)
            .map(|_| {
                let session = self.open(&self.connect(&daemon));
                self.bash(&session);
                session
            })
            .collect();
        std::thread::sleep(Duration::from_millis(300));
        println!("  idle session, of {count}: {} KiB each", (of() - before) / count);
        drop(sessions);
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

/// KiB.
fn peak(pid: u32) -> u64 {
    field(pid, "status", "VmHWM:")
}

fn call_record() -> Record {
    let arguments = "{\"command\":\"cargo test --workspace 2>&1 | tail -n 20\"}";
    Record::Call(Call {
        call_id: "01890a5d-ac96-774b-bcce-b302099a8057".into(),
        session: "01890a5d-ac96-774b-bcce-b302099a8058".into(),
        uid: 1000,
        pid: Some(4711),
        tool: "bash".into(),
        digest: Hash::of(arguments.as_bytes()),
        arguments: CleanJson::new(arguments),
        cwd: CleanText::new("/home/somebody/project"),
        reason: Some(CleanText::new("to see whether the tests pass")),
        dry_run: false,
        judgement: Judgement::Allow,
        findings: Vec::new(),
        thinking: None,
    })
}

fn result_record() -> Record {
    let output = "test result: ok. 48 passed; 0 failed\n".repeat(10);
    Record::Result(CallResult {
        call_id: "01890a5d-ac96-774b-bcce-b302099a8057".into(),
        session: "01890a5d-ac96-774b-bcce-b302099a8058".into(),
        success: true,
        error: None,
        message: None,
        exit_code: Some(0),
        signal: None,
        output: Some(CleanText::new(&output)),
        output_bytes: output.len() as u64,
        output_digest: Hash::of(output.as_bytes()),
        data_digest: None,
        attachment: None,
        omitted_bytes: 0,
        duration_us: 1500,
        denials: Vec::new(),
    })
}
