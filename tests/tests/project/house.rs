//! The house rules: which crate sees which, where `unsafe` is, who starts processes, and that the
//! rooms with privilege stay small.

use proc_macro2::{Delimiter, TokenStream, TokenTree};
use serde_json::Value;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::LazyLock,
};

/// The files of the product with `unsafe`: the system calls of a cell's setup, and the object that is
/// loaded into spare shells, which is a program of its own.
const UNSAFE: [&str; 4] = [
    // Calls of the functions of `kernel.rs` that are sound only in some callers.
    "daemon/cell-setup/src/descriptors.rs",
    "daemon/cell-setup/src/kernel.rs",
    "daemon/cell-setup/src/program.rs",
    "daemon/cell/preload/spare.rs",
];

/// The files that start a process, and which.
const STARTERS: [&str; 8] = [
    // An operator's program, an agent's list of servers, an editor, and the MCP server.
    "client/cli/src/programs.rs",
    // An embedded daemon.
    "client/src/embedded.rs",
    // The analyst.
    "daemon/analyst/src/process.rs",
    // The launcher.
    "daemon/broker/src/boot/launcher_process.rs",
    // Egress rooms.
    "daemon/broker/src/network/room_process.rs",
    // The compiler, when Palisade is built.
    "daemon/cell/build.rs",
    // The launcher again, in a PID namespace.
    "daemon/launcher/src/nest.rs",
    // Cells.
    "daemon/launcher/src/spawn.rs",
];

/// The other crates of the workspace that each crate may use; a new crate is entered here first.
const SEES: [(&str, &[&str]); 24] = [
    ("palisade-protocol", &[]),
    ("palisade-text", &[]),
    ("palisade-edits", &["palisade-text"]),
    ("palisade-plan", &[]),
    ("palisade-programs", &[]),
    ("palisade-repository", &[]),
    ("palisade-audit", &["palisade-programs", "palisade-protocol", "palisade-text"]),
    ("palisade-client", &["palisade-programs", "palisade-protocol"]),
    ("palisade-options", &["palisade-client"]),
    ("palisade-mcp", &["palisade-client", "palisade-options", "palisade-text"]),
    (
        "palisade-cli",
        &[
            "palisade-analyst",
            "palisade-audit",
            "palisade-client",
            "palisade-options",
            "palisade-policy",
            "palisade-proof",
            "palisade-protocol",
            "palisade-text",
        ],
    ),
    ("palisade-egress-protocol", &["palisade-plan"]),
    (
        "palisade-policy",
        &["palisade-egress-protocol", "palisade-plan", "palisade-protocol", "palisade-text"],
    ),
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
    ("palisade-egress", &["palisade-channel", "palisade-egress-protocol", "palisade-plan"]),
    ("palisade-launcher", &["palisade-channel", "palisade-plan", "palisade-programs"]),
    ("palisade-workspace", &["palisade-plan", "palisade-text"]),
    ("palisade-cell-setup", &["palisade-channel", "palisade-plan", "palisade-workspace"]),
    (
        "palisade-cell-tools",
        &[
            "palisade-channel",
            "palisade-edits",
            "palisade-plan",
            "palisade-repository",
            "palisade-workspace",
        ],
    ),
    (
        "palisade-cell",
        &[
            "palisade-cell-setup",
            "palisade-cell-tools",
            "palisade-channel",
            "palisade-plan",
            "palisade-workspace",
        ],
    ),
    (
        "palisade-broker",
        &[
            "palisade-analyst",
            "palisade-audit",
            "palisade-channel",
            "palisade-egress-protocol",
            "palisade-plan",
            "palisade-policy",
            "palisade-programs",
            "palisade-proof",
            "palisade-protocol",
            "palisade-text",
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

/// The most lines of code, without tests, comments and blank lines, of what runs with privilege:
/// the launcher, the programs that it starts until they are confined, and what both take from the
/// broker.
const PRIVILEGED: [(&str, usize); 7] = [
    ("daemon/launcher/", 3455),
    ("daemon/cell-setup/", 4540),
    ("daemon/workspace/", 650),
    ("daemon/plan/", 4430),
    ("daemon/channel/", 400),
    ("daemon/programs/", 350),
    ("daemon/text/", 260),
];

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

/// The output of `cargo metadata` for the workspace.
static METADATA: LazyLock<Value> = LazyLock::new(|| {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    // The dependencies of other platforms are missing: they were never downloaded.
    let platform = ["--filter-platform", "x86_64-unknown-linux-gnu"];
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--offline", "--locked"])
        .args(platform)
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
});

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
    let metadata = &*METADATA;
    for name in [
        "palisade-launcher",
        "palisade-cell",
        "palisade-cell-setup",
        "palisade-plan",
        "palisade-channel",
    ] {
        let tree = tree(metadata, name);
        for runtime in ["tokio", "mio", "async-std", "smol", "hyper"] {
            assert!(!tree.contains(runtime), "{runtime} is in {name}: {tree:?}");
        }
        assert!(!tree.contains("palisade-policy"), "{name} sees the policy");
        assert!(tree.contains("bincode"), "control: {tree:?}");
    }
    assert!(tree(metadata, "palisade-broker").contains("tokio"), "control");
    // What reads the files of a session is not compiled into what confines it.
    let (setup, tools) = ("palisade-cell-setup", "palisade-cell-tools");
    for reader in [tools, "palisade-edits", "palisade-repository", "grep-searcher", "serde_json"] {
        assert!(!tree(metadata, setup).contains(reader), "{setup} sees {reader}");
        assert!(tree(metadata, "palisade-cell").contains(reader), "control: {reader}");
    }
    assert!(!tree(metadata, tools).contains(setup), "{tools} sees {setup}");
    for name in ["palisade-launcher", "palisade-cell"] {
        let protocol = "palisade-egress-protocol";
        assert!(!tree(metadata, name).contains(protocol), "{name} sees {protocol}");
    }
    for name in [
        "palisade-edits",
        "palisade-egress-protocol",
        "palisade-plan",
        "palisade-policy",
        "palisade-protocol",
        "palisade-text",
    ] {
        let tree = tree(metadata, name);
        for kernel in ["rustix", "nix", "landlock", "seccompiler", "caps"] {
            assert!(!tree.contains(kernel), "{name} is to be pure, and sees {kernel}");
        }
    }
}

#[test]
fn crates_see_each_other_in_one_direction() {
    let metadata = &*METADATA;
    let members: BTreeSet<_> =
        list(metadata, "workspace_members").iter().filter_map(Value::as_str).collect();
    let allowed: BTreeMap<_, _> = SEES.into_iter().collect();
    let mut seen = BTreeSet::new();
    for package in list(metadata, "packages").iter().filter(|p| members.contains(text(p, "id"))) {
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

/// Returns `true` if a file is of the product, and not of its tests.
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
                let is_attribute = group.delimiter() == Delimiter::Bracket;
                if is_attribute && group.stream().to_string().replace(' ', "") == "cfg(test)" {
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

/// The words of every file of the product, by its path from the root. Read once, by whichever test
/// is first.
static PRODUCT: LazyLock<Vec<(String, Vec<String>)>> = LazyLock::new(|| {
    let files = sources().into_iter().filter(|(name, _)| is_product(name));
    let read = files.map(|(name, source)| {
        let words = words(&name, &source);
        (name, words)
    });
    read.collect()
});

/// The files of the product in which a sequence of words stands.
fn with(sequence: &[&str]) -> Vec<String> {
    let is_there = |words: &[String]| {
        words.windows(sequence.len()).any(|window| window.iter().eq(sequence.iter()))
    };
    PRODUCT.iter().filter(|(_, words)| is_there(words)).map(|(name, _)| name.clone()).collect()
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

/// The crate that a source file belongs to, by the directory of its `Cargo.toml`.
fn crate_of(name: &str) -> &str {
    let is_crate = |directory: &&str| root().join(directory).join("Cargo.toml").is_file();
    let ends = name.match_indices('/').map(|(end, _)| end).rev();
    ends.map(|end| &name[..end]).find(is_crate).unwrap_or_else(|| panic!("{name} has no crate"))
}

/// The directory of the broker's folders.
const BROKER: &str = "daemon/broker/src/";

/// The folders that `crate::` paths of a file name.
fn imported(name: &str, words: &[String]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (start, window) in words.windows(3).enumerate() {
        if !window.iter().eq(["crate", ":", ":"].iter()) {
            continue;
        }
        let mut depth = 0_usize;
        let mut before = "(";
        for word in &words[start + 3..] {
            match word.as_str() {
                "(" => depth += 1,
                ")" => depth -= 1,
                word if depth <= 1 && ["(", ","].contains(&before) => {
                    found.insert(word.to_owned());
                }
                _ => {}
            }
            if depth == 0 {
                break;
            }
            before = word.as_str();
        }
    }
    let below = name.strip_prefix(BROKER).unwrap().split('/').count();
    let is_super = |window: &[String]| window.iter().eq(["super", ":", ":"].iter());
    for start in 0..words.len() {
        let chain = words[start..].chunks(3).take_while(|chunk| is_super(chunk)).count();
        assert!(chain < below, "{name} leaves its folder by `super`");
    }
    found
}

/// The list that follows `title` in the first lines of a folder's file.
fn listed(head: &str, title: &str) -> BTreeSet<String> {
    let (_, list) = head.split_once(title).unwrap_or_else(|| panic!("no {title} in {head}"));
    let list = list.split_once('.').expect("a full stop").0;
    let names = list.split(',').map(|name| name.trim().to_owned());
    names.filter(|name| name != "nothing").collect()
}

/// Returns the `//!` lines at the top of a file, as one line.
fn head(source: &str) -> String {
    let lines = source.lines().map_while(|line| line.strip_prefix("//!"));
    lines.map(str::trim).collect::<Vec<_>>().join(" ")
}

#[test]
fn the_imports_of_a_file_are_the_folders_it_names() {
    let source = "use crate::{a::{b, c}, d, e::f as g}; fn h() { crate::i::j(crate::k) }";
    let name = format!("{BROKER}x/y.rs");
    let found: Vec<_> = imported(&name, &words(&name, source)).into_iter().collect();
    assert_eq!(found, ["a", "d", "e", "i", "k"]);
}

#[test]
#[should_panic(expected = "leaves its folder")]
fn a_file_does_not_leave_its_folder_by_super() {
    let name = format!("{BROKER}x/y.rs");
    imported(&name, &words(&name, "use super::super::z;"));
}

/// The broker's folders, from top to bottom as `lib.rs` lists them: each imports exactly the folders
/// that its first lines name, and all of them are below it.
#[test]
fn folders_of_the_broker_import_only_what_is_below_them() {
    let (mut imports, mut heads) = (BTreeMap::<String, BTreeSet<String>>::new(), BTreeMap::new());
    let mut order = Vec::new();
    for (name, source) in sources().into_iter().filter(|(name, _)| is_product(name)) {
        let Some(below) = name.strip_prefix(BROKER) else { continue };
        let (folder, is_head) = match below.split_once('/') {
            Some((folder, _)) => (folder, false),
            None => (below.strip_suffix(".rs").unwrap(), true),
        };
        if folder == "lib" {
            let items = head(&source);
            let items = items.split(". `").skip(1).filter_map(|item| item.split_once('`'));
            order = items.map(|(folder, _)| folder.to_owned()).collect();
        } else if folder != "main" {
            let found = imported(&name, &words(&name, &source));
            imports.entry(folder.to_owned()).or_default().extend(found);
            if is_head {
                heads.insert(folder.to_owned(), head(&source));
            }
        }
    }
    let names: BTreeSet<_> = order.iter().cloned().collect();
    assert_eq!(names, imports.keys().cloned().collect(), "lib.rs lists every folder");
    for (place, folder) in order.iter().enumerate() {
        let head = heads.get(folder).unwrap_or_else(|| panic!("{folder}.rs"));
        let mut real = imports[folder].clone();
        real.remove(folder);
        assert_eq!(listed(head, "- May import:"), real, "what {folder} imports");
        let upward: Vec<_> = real.iter().filter(|name| !order[place..].contains(name)).collect();
        assert!(upward.is_empty(), "{folder} imports {upward:?}, which is not below it");
        let by = order.iter().filter(|other| *other != folder && imports[*other].contains(folder));
        assert_eq!(listed(head, "- Imported by:"), by.cloned().collect(), "who imports {folder}");
    }
    assert!(imports["front"].contains("pipeline"), "control");
}

/// One word means one thing: a reader who meets a type's name knows which type it is.
#[test]
fn no_crate_has_two_types_of_one_name() {
    let mut places: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for (name, words) in PRODUCT.iter() {
        for pair in words.windows(2) {
            let is_definition = ["struct", "enum", "trait", "union"].contains(&pair[0].as_str());
            if is_definition && pair[1].starts_with(char::is_uppercase) {
                let key = (crate_of(name).to_owned(), pair[1].clone());
                places.entry(key).or_default().push(name.clone());
            }
        }
    }
    assert!(places.len() > 1000, "only {} types", places.len());
    let twice: Vec<_> = places.iter().filter(|(_, files)| files.len() > 1).collect();
    assert!(twice.is_empty(), "{} names are used twice: {twice:#?}", twice.len());
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
fn rooms_with_privilege_stay_small() {
    for (room, most) in PRIVILEGED {
        let lines: usize = sources()
            .iter()
            .filter(|(name, _)| name.starts_with(room) && is_product(name))
            .map(|(_, source)| source.lines().map(str::trim).filter(|line| is_code(line)).count())
            .sum();
        assert!((most / 2..=most).contains(&lines), "{room} has {lines} lines of code, not {most}");
    }
}

fn is_code(line: &str) -> bool {
    !line.is_empty() && !line.starts_with("//")
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
    assert_eq!(
        programs, 7,
        "palisade, palisade-mcp, palisaded, palisade-launcher, -cell, -analyst and -egress"
    );
}
