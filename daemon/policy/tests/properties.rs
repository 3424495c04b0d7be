//! Properties of all profiles: combining never widens, a denial is never lost, and an explanation
//! agrees with the plan. The change that an explanation names has the stated effect, and no text
//! causes a panic.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that can not go on fails")]

use palisade_plan::{Access, LaunchPlan, Network};
use palisade_policy::{
    Act, Commands, Decision, Explanation, Facts, Judgement, Owner, Profile, ProfileSet, Scene,
    Source, TargetOwner, builtin, explain, judge,
};
use palisade_protocol::{Ask, Finding, JsonText, Severity, ToolMetadata, ToolSpec};
use proptest::{collection::vec, prelude::*, sample::select};
use std::{collections::BTreeMap, path::Path};

const PLACES: [&str; 14] = [
    "/srv",
    "/srv/a",
    "/srv/a/b",
    "/srv/c",
    "/opt",
    "/opt/x",
    "$HOME/d",
    "$HOME/d/e",
    "$HOME/f",
    "$WORKSPACE/out",
    "$WORKSPACE/out/deep",
    "/etc/hosts",
    "/usr/local",
    "$TMP/shared",
];

const PROBED: [&str; 22] = [
    "/",
    "/srv",
    "/srv/a",
    "/srv/a/b",
    "/srv/a/b/x",
    "/srv/c/x",
    "/srv/z",
    "/opt/x/y",
    "/opt/y",
    "$HOME",
    "$HOME/d",
    "$HOME/d/e/x",
    "$HOME/f/x",
    "$HOME/z",
    "$WORKSPACE",
    "$WORKSPACE/x",
    "$WORKSPACE/out/x",
    "$WORKSPACE/out/deep/x",
    "/etc/hosts",
    "/usr/local/bin/x",
    "$TMP/shared/x",
    "/run/x",
];

/// The contents of a generated profile.
#[derive(Debug, Clone)]
struct Said {
    workspace: &'static str,
    lists: [Vec<&'static str>; 3],
    ask: &'static str,
    memory: u32,
    optional: Vec<&'static str>,
    denied: Vec<&'static str>,
    allowed: Option<Vec<&'static str>>,
    hidden: Vec<&'static str>,
    rules: Vec<(&'static str, &'static str)>,
    net: &'static str,
}

/// The `[net]` sections of generated profiles.
const NETS: [&str; 10] = [
    "",
    "mode = \"none\"\n",
    "mode = \"loopback\"\n",
    "mode = \"ports\"\nports = [443]\n",
    "mode = \"ports\"\nports = [53, 80, 443]\n",
    "mode = \"ports\"\nports = [22, 80]\n",
    "mode = \"domains\"\nallow = [\"*.example.com\", \"1.0.0.0/8\", \"packages.example:8080\"]\n",
    "mode = \"domains\"\nallow = [\"a.example.com\", \"1.1.1.1:443\"]\ndeny = [\"1.1.1.0/24:80\"]\n",
    "mode = \"domains\"\nallow = [\"a.example.com:443\"]\nask = true\ndeny = [\"b.example.com\"]\n",
    "mode = \"domains\"\nallow = []\nask = true\n",
];

/// The addresses to which connections are tested.
const ADDRESSES: [&str; 11] = [
    "1.1.1.1:443",
    "1.1.1.1:80",
    "127.0.0.1:443",
    "127.0.0.1:8080",
    "[::1]:22",
    "localhost:53",
    "example.com:9",
    "a.example.com:443",
    "a.example.com:80",
    "b.example.com:443",
    "packages.example:8080",
];

const KEYS: [&str; 3] = ["read", "execute", "unguarded"];

impl Said {
    fn profile(&self) -> Profile {
        Profile::parse("made", &self.text()).unwrap()
    }

    fn text(&self) -> String {
        let mut text = format!(
            "version = 1\ndescription = \"made\"\nask = {:?}\n[fs]\nworkspace = {:?}\n",
            self.ask, self.workspace
        );
        for (key, list) in KEYS.iter().zip(&self.lists) {
            let base: &[&str] = if *key == "execute" { &["!/usr/bin"] } else { &[] };
            let all: Vec<&&str> = base.iter().chain(list).collect();
            text += &format!("{key} = {all:?}\n");
        }
        text += &format!("[env]\ndeny = {:?}\n[limits]\nmemory = {}\n", self.hidden, self.memory);
        text += &format!(
            "[layers]\noptional = {:?}\n[tools]\ndeny = {:?}\n",
            self.optional, self.denied
        );
        if let Some(list) = &self.allowed {
            text += &format!("allow = {list:?}\n");
        }
        text += &format!("[net]\n{}", self.net);
        for (verdict, about) in &self.rules {
            text += &format!("[[rules]]\nverdict = {verdict:?}\nwhy = \"made\"\n{about}\n");
        }
        text
    }
}

fn subset(of: &'static [&'static str]) -> impl Strategy<Value = Vec<&'static str>> {
    proptest::sample::subsequence(of, 0..=of.len())
}

/// Generates profiles that load: entries without effect are removed first.
fn profile() -> impl Strategy<Value = Said> {
    let lists = vec((select(&PLACES[..]), 0..3_usize), 0..7);
    let abouts = [
        "command = [\"git\"]",
        "command = [\"git\", \"push\"]",
        "command = [\"rm\"]",
        "tools = [\"bash\"]",
        "paths = [\"$WORKSPACE/secret/**\"]",
        "changes = true\npaths = [\"$WORKSPACE/secret/**\"]",
        "findings = [\"destructive\"]",
    ];
    let rules = vec((select(&["allow", "ask", "deny"][..]), select(abouts.to_vec())), 0..4);
    let first = (select(&["read", "write"][..]), lists, rules);
    let second = (
        select(&["never", "destructive", "sensitive", "always"][..]),
        1..9_u32,
        subset(&["limits", "uts", "ipc"]),
        subset(&["bash", "delete_file"]),
        proptest::option::of(Just(vec!["read_file", "edit"])),
        subset(&["CI", "TZ"]),
        select(&NETS[..]),
    );
    (first, second).prop_filter_map("it loads", |((workspace, entries, rules), rest)| {
        let (ask, memory, optional, denied, allowed, hidden, net) = rest;
        let mut said = Said {
            workspace,
            lists: Default::default(),
            ask,
            memory,
            optional,
            denied,
            allowed,
            hidden,
            rules: Vec::new(),
            net,
        };
        for (path, list) in entries {
            let mut more = said.clone();
            more.lists[list].push(path);
            if Profile::parse("made", &more.text()).is_ok() {
                said = more;
            }
        }
        for rule in rules {
            let mut more = said.clone();
            more.rules.push(rule);
            if Profile::parse("made", &more.text()).is_ok() {
                said = more;
            }
        }
        Profile::parse("made", &said.text()).ok().map(|_| said)
    })
}

fn scene() -> Scene {
    Scene {
        workspace: "/home/u/project".into(),
        home: Some("/home/u".into()),
        user: "u".to_owned(),
        uid: 1000,
        gid: 1000,
    }
}

fn asked(profile: &Profile, act: Act, target: &str) -> Explanation {
    explain(profile, &scene(), act, target).unwrap()
}

fn reaches_host(profile: &Profile, act: Act, target: &str) -> bool {
    let found = asked(profile, act, target);
    found.decision == Decision::Allow && found.place == TargetOwner::Host
}

fn source<'a>(name: &'a str, text: &'a str, owner: Owner) -> Source<'a> {
    Source { name, file: "made.toml", text, owner }
}

/// Loads the texts as profiles `a` and `b`, and returns a child profile with these lines.
fn stacked(texts: &[&str], line: &str, owner: Owner) -> Option<Profile> {
    let child = format!("version = 1\ndescription = \"child\"\n{line}\n");
    let names = ["a", "b"];
    let parents = names.iter().zip(texts).map(|(name, text)| source(name, text, Owner::Other));
    let set = ProfileSet::new(parents.chain([source("child", &child, owner)])).ok()?;
    set.get("child").cloned()
}

const FILE_ACTS: [Act; 3] = [Act::Read, Act::Write, Act::Execute];

/// Returns the strictness of a judgement as a number.
fn strictness(profile: &Profile, ask: Ask, tool: &ToolSpec, facts: &Facts) -> u8 {
    match judge(profile, ask, tool, facts) {
        Judgement::Allow(_) => 0,
        Judgement::Ask(_) => 1,
        Judgement::Deny(_) => 2,
    }
}

fn calls() -> Vec<(ToolSpec, Facts)> {
    let tool = |name: &str, read_only| ToolSpec {
        name: name.parse().unwrap(),
        aliases: Vec::new(),
        description: String::new(),
        schema: JsonText::default(),
        metadata: ToolMetadata { read_only, requires_checkpoint: false, ..ToolMetadata::default() },
    };
    let commands = |words: &[&str]| {
        Commands::Known(vec![words.iter().map(|word| (*word).to_owned()).collect()])
    };
    let facts = |commands, path: Option<&str>, finding: Option<&str>| Facts {
        commands,
        paths: path.iter().map(|path| path.as_bytes().to_vec()).collect(),
        workspace: b"/home/u/project".to_vec(),
        findings: finding.iter().map(|kind| Finding::new(*kind, Severity::Warning, "x")).collect(),
        ..Facts::default()
    };
    let mut calls = Vec::new();
    for name in ["bash", "read_file", "edit", "delete_file"] {
        let tool = tool(name, name == "read_file");
        for words in [&["git", "push"][..], &["git"], &["rm", "x"], &["ls"]] {
            calls.push((tool.clone(), facts(commands(words), None, None)));
            calls.push((tool.clone(), facts(commands(words), None, Some("destructive"))));
        }
        calls.push((tool.clone(), facts(Commands::Unknown, None, Some("hidden"))));
        for path in ["/home/u/project/secret/key", "/home/u/project/x"] {
            calls.push((tool.clone(), facts(Commands::None, Some(path), None)));
        }
    }
    calls
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 32, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn stacking_never_widens_and_loses_no_deny(a in profile(), b in profile()) {
        let (pa, pb) = (a.profile(), b.profile());
        let (ta, tb) = (a.text(), b.text());
        // Two profiles with no common program, or no common tool, make no profile. That is not a
        // widening.
        let Some(both) = stacked(&[&ta, &tb], "extends = [\"a\", \"b\"]", Owner::Other) else {
            return Ok(());
        };
        for target in PROBED {
            for act in FILE_ACTS {
                if reaches_host(&both, act, target) {
                    prop_assert!(reaches_host(&pa, act, target), "{act} {target}");
                    prop_assert!(reaches_host(&pb, act, target), "{act} {target}");
                }
            }
        }
        for target in ADDRESSES {
            if reaches_host(&both, Act::Connect, target) {
                prop_assert!(reaches_host(&pa, Act::Connect, target), "{target}");
                prop_assert!(reaches_host(&pb, Act::Connect, target), "{target}");
            }
        }
        let each = stacked(&[&tb, &ta], "extends = [\"a\", \"b\"]", Owner::Other).unwrap();
        let of = |profile: &Profile| profile.plan(&scene()).unwrap().network;
        prop_assert_eq!(of(&both), of(&each), "in whichever order");
        for (tool, facts) in calls() {
            let strict = |profile: &Profile| strictness(profile, Ask::Never, &tool, &facts);
            let most = strict(&pa).max(strict(&pb));
            prop_assert!(strict(&both) >= most, "{} {facts:?}", tool.name);
        }
        let (plan, one, other) = (both.plan(&scene()).unwrap(), pa.plan(&scene()).unwrap(), pb.plan(&scene()).unwrap());
        prop_assert_eq!(plan.limits.memory_bytes, one.limits.memory_bytes.min(other.limits.memory_bytes));
        prop_assert!(plan.optional.iter().all(|l| one.optional.contains(l) && other.optional.contains(l)));
        for name in a.hidden.iter().chain(&b.hidden) {
            let extra = BTreeMap::from([((*name).to_owned(), "x".to_owned())]);
            prop_assert!(both.environment(&scene(), &extra, b"/usr/bin").is_err(), "{name}");
        }
    }

    /// A profile that is printed whole, with what it extends, is a profile file of the same
    /// meaning.
    #[test]
    fn a_printed_profile_loads_as_the_same(a in profile(), b in profile()) {
        let both = stacked(&[&a.text(), &b.text()], "extends = [\"a\", \"b\"]", Owner::Other);
        for profile in [Some(a.profile()), both].into_iter().flatten() {
            let printed = profile.canonical().unwrap();
            let again = Profile::parse(profile.name(), &printed).map_err(|error| {
                TestCaseError::fail(format!("{error}\n{printed}"))
            })?;
            prop_assert_eq!(again.canonical().unwrap(), printed.clone());
            prop_assert_eq!(again.digest(), profile.digest(), "{}", printed);
        }
    }

    /// A child repeats the lists, shortened or not. If it loads without `widen`, it is not wider.
    #[test]
    fn a_child_without_widen_is_never_wider(a in profile(), b in profile()) {
        let pa = a.profile();
        let body = b.text().replace("version = 1\ndescription = \"made\"\n", "extends = \"a\"\n");
        if let Some(child) = stacked(&[&a.text()], &body, Owner::Root) {
            for target in PROBED {
                for act in FILE_ACTS {
                    prop_assert!(!reaches_host(&child, act, target) || reaches_host(&pa, act, target));
                }
            }
            for target in ADDRESSES {
                let (more, less) = (reaches_host(&child, Act::Connect, target), reaches_host(&pa, Act::Connect, target));
                prop_assert!(!more || less, "{target}");
            }
        }
    }

    /// Even `widen` does not remove what a parent denies.
    #[test]
    fn a_deny_is_never_lost(a in profile()) {
        let pa = a.profile();
        let line = "extends = \"a\"\nwiden = true\nask = \"never\"\n[[rules]]\nverdict = \"allow\"\nwhy = \"all\"\ntools = [\"write_file\"]";
        let child = stacked(&[&a.text()], line, Owner::Root).unwrap();
        for (tool, facts) in calls() {
            if strictness(&pa, Ask::Never, &tool, &facts) == 2 {
                prop_assert_eq!(strictness(&child, Ask::Never, &tool, &facts), 2);
            }
        }
        for name in &a.hidden {
            let extra = BTreeMap::from([((*name).to_owned(), "x".to_owned())]);
            prop_assert!(child.environment(&scene(), &extra, b"/usr/bin").is_err(), "{name}");
        }
        prop_assert!(stacked(&[&a.text()], line, Owner::Other).is_none(), "only root's file widens");
    }

    #[test]
    fn an_explanation_agrees_with_the_plan(said in profile()) {
        let profile = said.profile();
        let plan = profile.plan(&scene()).unwrap();
        for target in PROBED {
            let path = target.replace("$HOME", "/home/u").replace("$WORKSPACE", "/home/u/project").replace("$TMP", "/tmp");
            for act in FILE_ACTS {
                let by_plan = planned(&plan, act, Path::new(&path));
                prop_assert_eq!(reaches_host(&profile, act, target), by_plan, "{} {}", act, target);
            }
        }
        for target in ADDRESSES {
            let port: u16 = target.rsplit(':').next().unwrap().parse().unwrap();
            let by_plan = match &plan.network {
                Network::None | Network::Loopback => false,
                Network::Ports(ports) => ports.contains(&port),
                // The broker decides; the plan only has the listeners.
                Network::Domains(_) => continue,
            };
            prop_assert_eq!(reaches_host(&profile, Act::Connect, target), by_plan, "{}", target);
        }
    }

    #[test]
    fn the_change_that_is_named_allows_it(said in profile(), target in select(&PROBED[..])) {
        let profile = said.profile();
        for act in FILE_ACTS {
            let Some(change) = asked(&profile, act, target).change else { continue };
            let mut text = said.text();
            let key = change.key.strip_prefix("fs.").unwrap();
            let value = if key == "etc" { format!("etc = [{:?}]\n", change.value) } else { String::new() };
            text = match key {
                "workspace" => text.replace("workspace = \"read\"", "workspace = \"write\""),
                "etc" => text.replace("[env]", &format!("{value}[env]")),
                _ => text.replace(&format!("\n{key} = ["), &format!("\n{key} = [{:?}, ", change.value)),
            };
            // If the new entry makes another one redundant, the loader refuses the profile.
            if let Ok(changed) = Profile::parse("made", &text) {
                prop_assert_eq!(asked(&changed, act, target).decision, Decision::Allow, "{} {} {:?}", act, target, change);
            }
        }
    }

    #[test]
    fn the_port_that_is_named_opens_it(said in profile(), target in select(&ADDRESSES[..])) {
        let found = asked(&said.profile(), Act::Connect, target);
        prop_assume!(found.decision != Decision::Allow);
        prop_assume!(!found.rule.starts_with("net.deny"));
        let change = found.change.unwrap();
        let net = match change.key {
            "net.mode" => format!("mode = {:?}\n", change.value),
            "net.allow" if !said.net.contains("allow = [") => {
                format!("mode = \"domains\"\nallow = [{:?}]\n", change.value)
            }
            "net.allow" => said.net.replace("allow = [", &format!("allow = [{:?}, ", change.value)),
            _ if said.net.contains("ports = [") => said.net.replace("ports = [", &format!("ports = [{}, ", change.value)),
            _ => format!("mode = \"ports\"\nports = [{}]\n", change.value),
        };
        let text = said.text().replace(&format!("[net]\n{}", said.net), &format!("[net]\n{net}"));
        let changed = Profile::parse("made", &text).unwrap();
        prop_assert_eq!(asked(&changed, Act::Connect, target).decision, Decision::Allow, "{}", target);
    }

    #[test]
    fn no_text_is_a_panic(text in ".{0,400}") {
        if let Err(error) = Profile::parse("fuzz", &text) {
            prop_assert!(!error.to_string().is_empty());
        }
    }

    #[test]
    fn no_broken_profile_is_a_panic(
        which in 0..6_usize,
        cuts in vec((0..6000_usize, 0..30_usize, "[ -~\n]{0,6}"), 1..6),
    ) {
        let mut text: Vec<u8> = builtin()[which].1.into();
        for (at, length, put) in cuts {
            let at = at.min(text.len());
            let end = (at + length).min(text.len());
            text.splice(at..end, put.into_bytes());
        }
        let text = String::from_utf8_lossy(&text);
        match Profile::parse("fuzz", &text) {
            Ok(profile) => prop_assert_eq!(profile.digest().len(), 64),
            Err(error) => prop_assert!(!error.to_string().is_empty()),
        }
    }
}

/// Returns `true` if a plan allows an act on the host's files, from its mounts and rules alone.
fn planned(plan: &LaunchPlan, act: Act, path: &Path) -> bool {
    let host = plan.binds.iter().chain([&plan.workspace]);
    let host = host.map(|bind| (bind.path.as_path(), Some(bind.access)));
    let private = plan.tmpfs.iter().map(|tmpfs| (tmpfs.path.as_path(), None));
    let own = ["/dev", "/proc"].map(|path| (Path::new(path), None));
    let over = host.chain(private).chain(own).filter(|(mount, _)| path.starts_with(mount));
    let innermost = over.max_by_key(|(mount, _)| mount.components().count());
    let Some((_, Some(mounted))) = innermost else { return false };
    let mut granted = plan.grants.iter().filter(|grant| path.starts_with(grant.path.as_path()));
    let wanted: &[Access] = match act {
        Act::Read | Act::Connect => &[Access::Read, Access::Execute, Access::Write],
        Act::Execute => &[Access::Execute, Access::Write],
        Act::Write => &[Access::Write],
    };
    let permits = match act {
        Act::Read | Act::Connect => true,
        // Directories that may only be read are mounted noexec, except in the workspace.
        Act::Execute => mounted != Access::Read || path.starts_with(plan.workspace.path.as_path()),
        Act::Write => mounted == Access::Write,
    };
    permits && granted.any(|grant| wanted.contains(&grant.access))
}

/// Patterns, and names that some of them match.
const PATTERNS: [&str; 8] =
    [".env", "*.pem", "keys/", "/top", "a/**", "!a/b", "!x*.pem", "**/deep/x"];
const PROTECTED: [&str; 3] = ["ci.yml", "**/hooks/", "s/**"];
const NAMED: [&str; 10] =
    [".env", "s/.env", "x.pem", "s/y.pem", "keys/k", "top", "a/b", "s/deep/x", "ci.yml", "hooks/h"];

/// Generates a list that loads: its first entry is not an exception.
fn list() -> impl Strategy<Value = Vec<&'static str>> {
    subset(&PATTERNS)
        .prop_map(|list| list.into_iter().skip_while(|pattern| pattern.starts_with('!')).collect())
}

fn naming(name: &str, extends: &str, hide: &[&str], protect: &[&str]) -> String {
    let list = |key: &str, list: &[&str]| match list {
        [] => String::new(),
        list => format!("{key} = {list:?}\n"),
    };
    let own = if extends.is_empty() {
        "workspace = \"write\"\nexecute = [\"!/usr\"]\n".to_owned()
    } else {
        String::new()
    };
    format!(
        "version = 1\ndescription = {name:?}\n{extends}\n[fs]\n{own}{}{}",
        list("hide", hide),
        list("protect", protect)
    )
}

proptest! {
    /// A name that one of several profiles hides or protects is hidden or protected in their
    /// combination, whatever exceptions the others have.
    #[test]
    fn stacking_never_shows_what_is_hidden(
        one in list(), other in list(), own in list(), protect in subset(&PROTECTED),
    ) {
        let texts = [
            naming("one", "", &one, &protect),
            naming("other", "", &other, &[]),
            naming("both", "extends = [\"one\", \"other\"]", &own, &[]),
        ];
        let file = |name: &str| format!("{name}.toml");
        let names = ["one", "other", "both"];
        let files = names.map(file);
        let sources: Vec<Source<'_>> = names.iter().zip(&files).zip(&texts)
            .map(|((name, file), text)| Source { name, file, text, owner: Owner::Other })
            .collect();
        // Lists that add nothing, or have an exception without an entry before it, do not load.
        let set = ProfileSet::new(sources);
        prop_assume!(set.is_ok());
        let set = set.unwrap();
        let scene = Scene {
            workspace: "/w/project".into(),
            home: None,
            user: "user".to_owned(),
            uid: 1000,
            gid: 1000,
        };
        let denied = |profile: &str, act, path: &str| {
            let found = explain(set.get(profile).unwrap(), &scene, act, &format!("$WORKSPACE/{path}"));
            found.unwrap().decision == Decision::Deny
        };
        for path in NAMED {
            for act in [Act::Read, Act::Write, Act::Execute] {
                let either = denied("one", act, path) || denied("other", act, path);
                prop_assert!(!either || denied("both", act, path), "{act} {path}");
            }
        }
    }
}
