//! Prints what a record costs, with each way of forcing it to the disk:
//! `cargo run --release -p palisade-audit --example record_cost -- DIR`.
#![allow(clippy::expect_used, reason = "an example that can not go on says why and ends")]

use palisade_audit::{
    Call, CleanJson, CleanText, Hash, Judgement, Log, Options, Record, Sync, verify,
};
use std::{
    path::PathBuf,
    time::{Duration, Instant},
};

fn call(command: &str) -> Record {
    let arguments = format!("{{\"command\":{command:?}}}");
    Record::Call(Call {
        call_id: "01890a5d-ac96-774b-bcce-b302099a8057".into(),
        session: "01890a5d-ac96-774b-bcce-b302099a8058".into(),
        uid: 1000,
        pid: Some(4711),
        tool: "bash".into(),
        digest: Hash::of(arguments.as_bytes()),
        arguments: CleanJson::new(&arguments),
        cwd: CleanText::new("/home/somebody/project"),
        reason: Some(CleanText::new("to see whether the tests pass")),
        dry_run: false,
        judgement: Judgement::Allow,
        findings: Vec::new(),
        thinking: None,
    })
}

fn main() {
    let directory: PathBuf = std::env::args_os().nth(1).expect("name a directory").into();
    let short = "cargo test --workspace 2>&1 | tail -n 20".to_owned();
    let long = "echo something rather long; ".repeat(500);
    for (name, command) in [("short", &short), ("14 KiB", &long)] {
        for sync in [Sync::default(), Sync::Always] {
            let count = if sync == Sync::Always { 200 } else { 5000 };
            let log = Log::open(&directory, Options { sync, ..Options::new("cost") });
            let log = log.expect("open the log");
            let mut times: Vec<_> = (0..count)
                .map(|_| {
                    let start = Instant::now();
                    log.append(&call(command)).map(drop).expect("append");
                    let took = start.elapsed();
                    // As many calls a second as an agent could make at most.
                    std::thread::sleep(Duration::from_micros(200));
                    took
                })
                .collect();
            times.sort();
            let at = |part: usize| times[times.len() * part / 1000];
            let (p50, p99, p999) = (at(500), at(990), at(999));
            println!("{name} arguments, sync {sync}: p50 {p50:?}, p99 {p99:?}, p99.9 {p999:?}");
        }
    }
    let start = Instant::now();
    let found = verify(&directory, &[]).expect("verify");
    println!("verify: {:?} in {:?}", found.is_good(), start.elapsed());
}
