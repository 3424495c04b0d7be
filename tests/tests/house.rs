//! The house rules: which crate sees which, where `unsafe` is, who starts processes, and that the
//! rooms with privilege stay small.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test that can not go on fails; it asks cargo"
)]

use proc_macro2::{TokenStream, TokenTree};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
};

/// The one file of the product with `unsafe`.
const UNSAFE: [&str; 1] = ["daemon/cell/src/kernel.rs"];

/// The files that start a process, and which.
const STARTERS: [&str; 6] = [
    // An operator's program, and an editor.
    "client/cli/src/programs.rs",
    // An embedded daemon.
    "client/src/embedded.rs",
    // The analyst.
    "daemon/analyst/src/process.rs",
    // The launcher.
    "daemon/broker/src/launcher_process.rs",
    // The launcher again, in a PID namespace.
    "daemon/launcher/src/nest.rs",
    // Cells.
    "daemon/launcher/src/spawn.rs",
];

/// What each crate of the workspace may see of the others; a new one is entered here first.
const SEES: [(&str, &[&str]); 15] = [
    ("palisade-protocol", &[]),
    ("palisade-edits", &[]),
    ("palisade-plan", &[]),
    ("palisade-programs", &[]),
    ("palisade-audit", &["palisade-programs", "palisade-protocol"]),
    ("palisade-client", &["palisade-programs", "palisade-protocol"]),
    (
        "palisade-cli",
        &[
            "palisade-analyst",
            "palisade-audit",
            "palisade-client",
            "palisade-policy",
            "palisade-proof",
            "palisade-protocol",
        ],
    ),
    ("palisade-policy", &["palisade-plan", "palisade-protocol"]),
    ("palisade-proof", &["palisade-plan"]),
    ("palisade-channel", &["palisade-plan"]),
    (
        "palisade-analyst",
        &[
            "palisade-channel",
            "palisade-plan",
            "palisade-policy",
            "palisade-programs",
            "palisade-protocol",
        ],
    ),
    ("palisade-launcher", &["palisade-channel", "palisade-plan", "palisade-programs"]),
    ("palisade-cell", &["palisade-channel", "palisade-edits", "palisade-plan"]),
    (
        "palisade-broker",
        &[
            "palisade-analyst",
            "palisade-audit",
            "palisade-channel",
            "palisade-plan",
            "palisade-policy",
            "palisade-programs",
            "palisade-proof",
            "palisade-protocol",
        ],
    ),
    (
        "palisade-tests",
        &[
            "palisade-audit",
            "palisade-channel",
            "palisade-client",
            "palisade-plan",
            "palisade-policy",
            "palisade-proof",
            "palisade-protocol",
        ],
    ),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn metadata() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // What other platforms would need is not there: it was never downloaded.
    let platform = ["--filter-platform", "x86_64-unknown-linux-gnu"];
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--offline", "--locked"])
        .args(platform)
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

/// The names of everything that is compiled into a crate of ours, or runs when it is.
fn tree(metadata: &Value, name: &str) -> BTreeSet<String> {
    let names: BTreeMap<_, _> =
        list(metadata, "packages").iter().map(|p| (text(p, "id"), text(p, "name"))).collect();
    let nodes: BTreeMap<_, _> =
        list(&metadata["resolve"], "nodes").iter().map(|node| (text(node, "id"), node)).collect();
    let (first, _) = names.iter().find(|(_, found)| **found == name).expect("a crate of ours");
    let mut ids = BTreeSet::from([*first]);
    let mut waiting = vec![*first];
    while let Some(id) = waiting.pop() {
        for dependency in list(nodes[id], "deps") {
            let is_dev = |kind: &Value| kind["kind"] == "dev";
            let next = text(dependency, "pkg");
            if !list(dependency, "dep_kinds").iter().all(is_dev) && ids.insert(next) {
                waiting.push(next);
            }
        }
    }
    ids.into_iter().map(|id| names[id].to_owned()).collect()
}

#[test]
fn no_runtime_is_in_the_rooms_with_privilege() {
    let metadata = metadata();
    for name in ["palisade-launcher", "palisade-cell", "palisade-plan", "palisade-channel"] {
        let tree = tree(&metadata, name);
        for runtime in ["tokio", "mio", "async-std", "smol", "hyper"] {
            assert!(!tree.contains(runtime), "{runtime} is in {name}: {tree:?}");
        }
        assert!(!tree.contains("palisade-policy"), "{name} sees the policy");
        assert!(tree.contains("bincode"), "control: {tree:?}");
    }
    assert!(tree(&metadata, "palisade-broker").contains("tokio"), "control");
    for name in ["palisade-edits", "palisade-plan", "palisade-policy", "palisade-protocol"] {
        let tree = tree(&metadata, name);
        for kernel in ["rustix", "nix", "landlock", "seccompiler", "caps"] {
            assert!(!tree.contains(kernel), "{name} is to be pure, and sees {kernel}");
        }
    }
}

#[test]
fn crates_see_each_other_in_one_direction() {
    let metadata = metadata();
    let members: BTreeSet<_> =
        list(&metadata, "workspace_members").iter().filter_map(Value::as_str).collect();
    let allowed: BTreeMap<_, _> = SEES.into_iter().collect();
    let mut seen = BTreeSet::new();
    for package in list(&metadata, "packages").iter().filter(|p| members.contains(text(p, "id"))) {
        let name = text(package, "name");
        let may = allowed.get(name).unwrap_or_else(|| panic!("what may {name} see?"));
        let ours = list(package, "dependencies")
            .iter()
            .filter(|dependency| dependency["kind"].is_null())
            .map(|dependency| text(dependency, "name"))
            .filter(|dependency| dependency.starts_with("palisade-"));
        for dependency in ours {
            assert!(may.contains(&dependency), "{name} sees {dependency}");
            seen.insert((name.to_owned(), dependency.to_owned()));
        }
    }
    assert!(
        seen.contains(&("palisade-broker".to_owned(), "palisade-policy".to_owned())),
        "control"
    );
}

/// Every source file, by its path from the root.
fn sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    let mut waiting: Vec<PathBuf> =
        ["protocol", "client", "daemon", "tests"].iter().map(|part| root().join(part)).collect();
    while let Some(directory) = waiting.pop() {
        for entry in fs::read_dir(directory).unwrap().flatten() {
            let path = entry.path();
            if entry.file_type().unwrap().is_dir() {
                if entry.file_name() != "target" {
                    waiting.push(path);
                }
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let name = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
                found.push((name, fs::read_to_string(&path).unwrap()));
            }
        }
    }
    assert!(found.len() > 100, "only {} sources", found.len());
    found.sort();
    found
}

/// Whether a file is of the product, and not of its tests.
fn is_product(name: &str) -> bool {
    let parts: Vec<_> = name.split('/').collect();
    let aside = ["tests", "benches", "examples"];
    let of_tests = name.ends_with("tests.rs") || name.ends_with("testing.rs");
    !of_tests && !parts.iter().any(|part| aside.contains(part))
}

/// The words and signs of a file, as the compiler reads them: no comments, and texts as one each.
/// Modules that exist only in tests are left out.
fn words(name: &str, source: &str) -> Vec<String> {
    // A script's first line is none of the compiler's.
    let source = source.strip_prefix('\u{feff}').unwrap_or(source);
    let tokens: TokenStream = source.parse().unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut words = Vec::new();
    flatten(tokens, &mut words);
    words
}

fn flatten(tokens: TokenStream, words: &mut Vec<String>) {
    let (mut test_only, mut in_module) = (false, false);
    for token in tokens {
        match token {
            TokenTree::Group(group) => {
                let inside = group.stream().to_string().replace(' ', "");
                if inside == "cfg(test)" {
                    test_only = true;
                } else if test_only && in_module {
                    (test_only, in_module) = (false, false);
                } else {
                    words.push("(".to_owned());
                    flatten(group.stream(), words);
                    words.push(")".to_owned());
                }
            }
            TokenTree::Ident(ident) => {
                in_module |= ident == "mod";
                words.push(ident.to_string());
            }
            TokenTree::Punct(sign) => {
                if sign.as_char() == ';' {
                    (test_only, in_module) = (false, false);
                }
                words.push(sign.as_char().to_string());
            }
            TokenTree::Literal(_) => words.push("literal".to_owned()),
        }
    }
}

/// The files of the product in which a sequence of words stands.
fn with(sequence: &[&str]) -> Vec<String> {
    let is_there = |words: &[String]| {
        words.windows(sequence.len()).any(|window| window.iter().eq(sequence.iter()))
    };
    let files = sources().into_iter().filter(|(name, _)| is_product(name));
    files.filter(|(name, source)| is_there(&words(name, source))).map(|(name, _)| name).collect()
}

#[test]
fn the_words_of_a_file_are_what_the_compiler_sees() {
    let source = r##"
        // unsafe
        /* unsafe /* unsafe */ */
        /// unsafe
        const A: &str = "unsafe"; const B: &str = r#"" unsafe "#; const C: char = '"';
        #[cfg(test)] mod tests { fn f() { unsafe {} } }
        #[cfg(test)] use x; fn g() { Command::new("x") }
    "##;
    let found = words("example", source);
    assert!(!found.iter().any(|word| word == "unsafe"), "{found:?}");
    assert!(
        found.windows(4).any(|w| w.iter().eq(["Command", ":", ":", "new"].iter())),
        "{found:?}"
    );
    assert!(words("example", "fn f() { g!(unsafe { 1 }) }").iter().any(|word| word == "unsafe"));
}

#[test]
fn unsafe_stands_only_where_it_is_said_to() {
    assert_eq!(with(&["unsafe"]), UNSAFE);
}

#[test]
fn only_the_files_that_start_a_room_start_a_process() {
    assert_eq!(with(&["Command", ":", ":", "new"]), STARTERS);
    for way in ["fork", "vfork", "posix_spawn", "execve", "execveat", "clone3"] {
        let files = with(&[way, "("]);
        assert!(files.iter().all(|file| UNSAFE.contains(&file.as_str())), "{way}: {files:?}");
    }
}

#[test]
fn programs_begin_small_and_every_file_says_what_it_is() {
    let mut programs = 0;
    for (name, source) in sources() {
        let says = source.starts_with("//!");
        assert!(says || !is_product(&name), "{name} does not say what it is");
        if name.ends_with("src/main.rs") {
            programs += 1;
            let lines = source.lines().count();
            assert!(lines <= 40, "{name} has {lines} lines");
        }
    }
    assert_eq!(programs, 5, "palisade, palisaded, palisade-launcher, -cell and -analyst");
}
