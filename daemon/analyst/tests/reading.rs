//! Tests which lines the real process proves to read only, and tricks that might make other lines
//! pass for them.

#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use palisade_analyst::Supervisor;
use palisade_policy::analysis::{Nature, Nowhere, asks, settle, unproven};
use palisade_protocol::Ask;

fn natures(lines: &[&str], expected: Nature) {
    let analyst = Supervisor::new(env!("CARGO_BIN_EXE_palisade-analyst").into());
    let other = |line: &&&str| {
        let analysis = analyst.ask(line);
        assert_eq!(analysis.failure, None, "{line}");
        analysis.made.nature != expected
    };
    let wrong: Vec<_> = lines.iter().filter(other).collect();
    assert_eq!(wrong, Vec::<&&str>::new());
}

#[test]
fn what_reads() {
    natures(
        &[
            "ls -la",
            "cat README.md | head -20",
            "cd src && grep -rn 'fn main' . 2>/dev/null | sort -u | wc -l",
            "find . -name '*.rs' -type f -not -path './target/*'",
            "sed -n '1,40p' src/main.rs",
            "awk '{print $1}' f | uniq -c | sort -rn",
            "for f in a b; do echo \"$f\"; head -1 \"$f\"; done",
            "x=$(cat f); echo \"$x\" >&2",
            "bash -c 'ls; pwd'",
            "find . -name '*.log' -print0 | xargs -0 grep -l x",
            "timeout 5 cat f",
            "printf '%s\\n' \"$x\"",
            "[ -f Cargo.toml ] && cat Cargo.toml || echo none",
            "diff <(sort a) <(sort b)",
            "LC_ALL=C sort f > /dev/null 2>&1",
            "/usr/bin/cat f; /bin/ls *",
        ],
        Nature::Reads,
    );
}

#[test]
fn what_may_act() {
    natures(
        &[
            "touch f",
            "git status",
            "python3 -c 'print(1)'",
            "echo x > f",
            "echo x >> f",
            "echo x > /tmp/f",
            "cat f <> g",
            "sort -o f g",
            "sort $x",
            "sort *",
            "sort --outp=f g",
            "uniq a b",
            "find . -delete",
            "find . -exec cat {} ';'",
            "find . -fprint f",
            "find $x",
            "sed -i s/a/b/ f",
            "sed -n 's/a/b/w g' f",
            "sed -f script f",
            "sed \"$script\" f",
            "sed -ne '1e id' f",
            "sed -ep -e '1e id' f",
            "awk '{print > \"f\"}' g",
            "awk 'BEGIN{system(\"id\")}'",
            "awk -f prog f",
            "xargs sort",
            "xargs -I{} sh -c '{}'",
            "bash script.sh",
            "bash -lc ls",
            "sh",
            "PATH=/tmp/evil:$PATH ls",
            "LD_PRELOAD=./x.so ls",
            "for LD_PRELOAD in ./x.so; do ls; done",
            "f() { ls; }; f",
            "$cmd",
            "./ls",
            "/tmp/ls",
            "eval ls",
            "export x=1; ls",
            "set -a; ls",
            "[[ $x -eq 1 ]]",
            "echo $((x))",
            "echo ${x:=y}",
            "echo ${!x}",
            "echo ${x@P}",
            "printf -v x y",
            "test -v \"$x\"",
            "[ \"$op\" a ]",
            "cat $(touch f)",
            "cat <(touch f)",
            "ls > >(tee f)",
            "ls | tee f",
            "ls &> f",
            "ls >& f",
            "ls >&$f",
            "alias ls=rm; ls f",
            "trap 'touch f' EXIT; ls",
            "hash -p /tmp/evil ls; ls",
            "time -o f ls",
        ],
        Nature::Acts,
    );
}

/// Counts, for the shared corpus, the commands that need approval first because of their text, and
/// those that seem to read only. The documentation of transactions quotes these numbers.
#[test]
fn how_many_are_asked_about_first() {
    let analyst = Supervisor::new(env!("CARGO_BIN_EXE_palisade-analyst").into());
    let mut counts = std::collections::BTreeMap::<String, [usize; 3]>::new();
    for line in include_str!("corpus.jsonl").lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let made = analyst.ask(line["cmd"].as_str().unwrap()).made;
        let mut findings = settle(made.found, &Nowhere);
        findings.extend(unproven(made.nature, &findings));
        let text = asks(Ask::Destructive, &findings);
        let reads = made.nature == Nature::Reads;
        let count = counts.entry(line["class"].as_str().unwrap().to_owned()).or_default();
        for (place, holds) in [true, text, reads].into_iter().enumerate() {
            count[place] += usize::from(holds);
        }
    }
    let counts: Vec<_> = counts.iter().map(|(class, count)| (class.as_str(), *count)).collect();
    let expected =
        [("benign", [42, 21, 21]), ("destructive", [119, 119, 0]), ("opaque", [47, 47, 0])];
    assert_eq!(counts, expected);
}
