//! Tests the real analyst process on labelled commands: the shared corpus, and further commands
//! that check whether the rules generalise.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

use palisade_analyst::Supervisor;
use palisade_policy::analysis::{Existence, PathLookup, asks, settle};
use palisade_protocol::{Ask, Finding};
use serde::Deserialize;

#[derive(Deserialize)]
struct Line {
    cmd: String,
    class: Class,
    why: String,
}

#[derive(Deserialize, PartialEq, Eq, Clone, Copy, Debug)]
#[serde(rename_all = "lowercase")]
enum Class {
    Destructive,
    Opaque,
    Benign,
}

/// The working tree that the labels assume: everything exists except `brandnew*`.
struct Tree;

impl PathLookup for Tree {
    fn look(&self, path: &str) -> Existence {
        let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or(path);
        if path.split('/').any(|part| part.starts_with("brandnew")) {
            Existence::Missing
        } else if ["d", "e", "."].contains(&name) {
            Existence::Directory
        } else {
            Existence::Present
        }
    }
}

fn supervisor() -> Supervisor {
    Supervisor::new(env!("CARGO_BIN_EXE_palisade-analyst").into())
}

fn shown(findings: &[Finding]) -> String {
    findings.iter().map(|f| format!("{}: {}; ", f.kind, f.why)).collect()
}

/// Returns, for each class, the number of commands and how many are judged correctly.
fn measure(name: &str, text: &str) -> [(usize, usize); 3] {
    let analyst = supervisor();
    let mut counts = [(0, 0); 3];
    for line in text.lines() {
        let line: Line = serde_json::from_str(line).unwrap();
        let analysis = analyst.ask(&line.cmd);
        assert_eq!(analysis.failure, None, "{}", line.cmd);
        let findings = settle(analysis.made.found, &Tree);
        let asked = asks(Ask::Destructive, &findings);
        let right = match line.class {
            Class::Destructive => asked,
            Class::Opaque => !findings.is_empty(),
            Class::Benign => !asked,
        };
        let count = &mut counts[line.class as usize];
        count.0 += 1;
        count.1 += usize::from(right);
        if !right {
            println!("{name}: {:?} {:?} ({}) {}", line.class, line.cmd, line.why, shown(&findings));
        }
    }
    let [destructive, opaque, benign] = counts;
    println!(
        "{name}: destructive found {}/{}, opaque found {}/{}, benign asked {}/{}",
        destructive.1,
        destructive.0,
        opaque.1,
        opaque.0,
        benign.0 - benign.1,
        benign.0
    );
    counts
}

fn holds([destructive, opaque, benign]: [(usize, usize); 3]) {
    assert!(destructive.0 > 0 && opaque.0 > 0 && benign.0 > 0);
    assert!(destructive.1 * 100 >= destructive.0 * 97, "destructive {destructive:?}");
    assert!(opaque.1 * 100 >= opaque.0 * 95, "opaque {opaque:?}");
    assert!((benign.0 - benign.1) * 100 <= benign.0 * 4, "benign {benign:?}");
}

#[test]
fn the_shared_corpus() {
    holds(measure("corpus", include_str!("corpus.jsonl")));
}

#[test]
fn further_commands() {
    let text = include_str!("more.jsonl");
    assert!(text.lines().count() >= 150);
    holds(measure("more", text));
}

#[test]
fn every_command_is_told() {
    let made = supervisor().ask("cd d && sudo rm -rf x | xargs -n1 echo; bash -c 'ls; pwd'").made;
    let told: Vec<String> = made.commands.iter().map(|one| one.argv.join(" ")).collect();
    let expected = [
        "cd d",
        "sudo rm -rf x",
        "rm -rf x",
        "xargs -n1 echo",
        "echo …",
        "bash -c ls; pwd",
        "ls",
        "pwd",
    ];
    assert_eq!(told, expected);
    let span = made.commands[1].span;
    assert_eq!((span.start, span.end), (8, 21));
    assert!(matches!(made.commands(), palisade_policy::Commands::Known(known) if known.len() == 8));
    let hidden = supervisor().ask("$X").made;
    assert_eq!(hidden.commands(), palisade_policy::Commands::Unknown);
}
