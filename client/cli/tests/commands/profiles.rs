//! `palisade profile` on the command line, without a daemon: list, show, check, explain, test,
//! diff.

use assert_cmd::Command;
use serde_json::Value;
use std::fs;

/// Runs `palisade profile` in an empty directory, with only the profiles of that directory.
fn profile(directory: &tempfile::TempDir, words: &[&str]) -> (i32, String, String) {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("palisade"));
    command.arg("profile").args(words).env("NO_COLOR", "1").env("HOME", "/home/user");
    command.env("XDG_CONFIG_HOME", directory.path()).current_dir(directory.path());
    let output = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().unwrap()
}

const MINE: &str = "version = 1\ndescription = \"mine\"\nextends = \"workspace\"\n\n\
                    tests = [\"read /etc/hosts: allow\"]\n\n[limits]\nmemory = \"1 GiB\"\n";

#[test]
fn profiles_are_listed_and_shown() {
    let place = directory();
    fs::create_dir(place.path().join("more")).unwrap();
    fs::write(place.path().join("more/mine.toml"), MINE).unwrap();
    let (status, told, _) = profile(&place, &["list", "--profiles", "more"]);
    let names: Vec<&str> = told.lines().map(|line| line.split_once(' ').unwrap().0).collect();
    let built_in = palisade_policy::builtin().into_iter().map(|(name, _)| name);
    let mut expected: Vec<&str> = built_in.chain(["mine"]).collect();
    expected.sort_unstable();
    assert_eq!((status, names), (0, expected));
    let (status, told, _) = profile(&place, &["show", "more/mine.toml"]);
    assert_eq!(status, 0);
    assert!(told.starts_with("# mine (more/mine.toml)\n# sha256 "), "{told}");
    for line in [
        "# extends workspace; their settings are included",
        "memory = 1073741824",
        "tests = [\"read /etc/hosts: allow\"]",
    ] {
        assert!(told.lines().any(|found| found == line), "{line} is not in {told}");
    }
    // A profile as printed is a file that means the same.
    fs::write(place.path().join("printed.toml"), &told).unwrap();
    let (status, _, told) = profile(&place, &["check", "printed.toml"]);
    assert_eq!(status, 0, "{told}");
    let (status, told, _) = profile(&place, &["diff", "more/mine.toml", "printed.toml"]);
    assert_eq!((status, told.as_str()), (0, ""));
    let (status, told, _) = profile(&place, &["show", "--seccomp"]);
    assert_eq!(status, 0);
    let call = |name: &str| told.lines().find(|line| line.trim_start().starts_with(name)).unwrap();
    assert!(call("keyctl ").contains("EPERM"), "{}", call("keyctl "));
    assert!(call("read ").contains("allow    every program"), "{}", call("read "));
    let (_, json, _) = profile(&place, &["show", "--seccomp", "--json"]);
    let calls: Vec<Value> = json.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(calls.len() > 300 && calls.iter().all(|call| call["why"] != ""), "{}", calls.len());
}

#[test]
fn a_bad_profile_breaks_only_itself() {
    let place = directory();
    fs::create_dir(place.path().join("more")).unwrap();
    fs::write(place.path().join("more/mine.toml"), MINE).unwrap();
    let bad = MINE.replace("memory", "memmory");
    fs::write(place.path().join("more/bad.toml"), bad).unwrap();
    let (status, told, errors) = profile(&place, &["list", "--profiles", "more"]);
    assert_eq!(status, 0, "{errors}");
    assert!(told.contains("\nmine ") && !told.contains("bad"), "{told}");
    assert!(errors.contains("more/bad.toml:8:1: limits.memmory: unknown key"), "{errors}");
    for words in [&["show", "mine"][..], &["explain", "mine", "read", "/etc/hosts"]] {
        let words = [words, &["--profiles", "more"]].concat();
        let (status, _, errors) = profile(&place, &words);
        assert_eq!((status, errors.as_str()), (0, ""), "{words:?}");
    }
    let (status, told, errors) = profile(&place, &["show", "bad", "--profiles", "more"]);
    assert_eq!((status, told.as_str()), (1, ""), "{errors}");
    assert!(errors.contains("limits.memmory: unknown key"), "{errors}");
}

#[test]
fn files_are_checked_each_with_its_own_error() {
    let place = directory();
    fs::write(place.path().join("mine.toml"), MINE).unwrap();
    fs::write(place.path().join("child.toml"), MINE.replace("\"workspace\"", "\"mine\"")).unwrap();
    let (status, told, _) = profile(&place, &["check", "mine.toml", "child.toml"]);
    let valid = "valid profile; 1 tests pass";
    assert_eq!(told, format!("mine.toml: {valid}\nchild.toml: {valid}\n"));
    assert_eq!(status, 0);
    for (name, from, to) in [("one", "memory", "memmory"), ("two", "allow", "deny")] {
        fs::write(place.path().join(format!("{name}.toml")), MINE.replace(from, to)).unwrap();
    }
    let write = "version = 1\ndescription = \"x\"\nguard = \"transaction\"\n[fs]\nworkspace = \"write\"\n\
                 execute = [\"!/usr\"]\nwrite = [\"/srv/x\"]\n";
    fs::write(place.path().join("three.toml"), write).unwrap();
    let (status, told, _) = profile(&place, &["check", "one.toml", "two.toml", "three.toml"]);
    let expected = "one.toml:8:1: limits.memmory: unknown key; did you mean `memory`?\n\
                    two.toml:5:10: tests: \"read /etc/hosts: deny\" fails: the decision is allow: \
                    /etc/hosts can be read\n\
                    three.toml:7:10: fs.write: \"/srv/x\" is writable outside of transactions, and \
                    guard is \"transaction\"; move it to fs.unguarded, or set guard = \"off\"\n";
    assert_eq!((status, told.as_str()), (1, expected));
}

#[test]
fn an_explanation_names_the_line_and_the_smallest_change() {
    let place = directory();
    fs::write(place.path().join("mine.toml"), MINE).unwrap();
    let explain = |words: &[&str]| {
        let words = [&["explain", "mine.toml"][..], words].concat();
        let (status, told, _) = profile(&place, &words);
        (status, told)
    };
    let (status, told) = explain(&["read", "/etc/gitconfig"]);
    assert!(told.starts_with("allow: read /etc/gitconfig\n"), "{told}");
    assert!(told.contains("  line       built-in workspace:"), "{told}");
    assert_eq!(status, 0);
    let (status, told) = explain(&["read", "/srv/data", "--json"]);
    let found: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((status, &found["decision"], &found["layer"]), (1, &"deny".into(), &"mount".into()));
    assert_eq!(
        (&found["change"]["key"], &found["change"]["value"]),
        (&"fs.read".into(), &"/srv/data".into())
    );
    assert!(found["change"]["opens"].as_str().unwrap().contains("everything below it"), "{told}");
    let (status, told) = explain(&["read", "/etc/shadow"]);
    assert!(told.contains("no profile can allow it: \"/etc/shadow\" would expose"), "{told}");
    assert_eq!(status, 1);
    let (status, told) = explain(&["connect", "1.1.1.1:443"]);
    assert!(told.contains("  layer      network\n"), "{told}");
    let how = "set \"domains\" as net.mode and add \"1.1.1.1\" to net.allow";
    assert!(told.contains(how), "{told}");
    assert!(told.contains("send it anything that the session can read"), "{told}");
    assert_eq!(status, 1);
    let (status, _, error) = profile(&place, &["explain", "nothing", "read", "/"]);
    assert_eq!(status, 1);
    assert!(error.contains("there is no profile \"nothing\""), "{error}");
}

#[test]
fn two_profiles_are_compared_in_meaning() {
    let place = directory();
    fs::write(place.path().join("mine.toml"), MINE).unwrap();
    let (status, told, _) = profile(&place, &["diff", "workspace", "mine.toml"]);
    assert_eq!((status, told.as_str()), (1, "- limits.memory: 4 GiB → 1 GiB\n"));
    let (status, told, _) = profile(&place, &["diff", "mine.toml", "workspace"]);
    assert_eq!((status, told.as_str()), (1, "+ limits.memory: 1 GiB → 4 GiB\n"));
    let (status, told, _) = profile(&place, &["diff", "build", "build"]);
    assert_eq!((status, told.as_str()), (0, ""));
    let (status, told, _) = profile(&place, &["test", "mine.toml"]);
    assert_eq!((status, told.as_str()), (0, "holds   mine: read /etc/hosts: allow\n"));
}

#[test]
fn a_preset_is_written_from_the_hosts_own_settings_and_explained_by_its_line() {
    let place = directory();
    let home = place.path().join("home");
    fs::create_dir_all(home.join(".cargo")).unwrap();
    let npmrc = home.join(".npmrc");
    fs::write(&npmrc, "registry=https://me:secret@npm.example/\n").unwrap();
    fs::write(
        home.join(".cargo/config.toml"),
        "[registries.own]\nindex = \"https://crates.example/\"\n",
    )
    .unwrap();
    let preset = |words: &[&str]| {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("palisade"));
        command.args(["profile", "preset"]).args(words).env("HOME", &home);
        let output = command.env_remove("npm_config_registry").output().unwrap();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
    };
    let file = place.path().join("web.toml");
    let (status, _, said) = preset(&["node", "rust", "-o", file.to_str().unwrap()]);
    assert_eq!(status, 0, "{said}");
    let text = fs::read_to_string(&file).unwrap();
    assert!(text.contains(&format!("\"npm.example\", # node: {}\n", npmrc.display())), "{text}");
    assert!(text.contains("\"crates.example\", # rust: "), "{text}");
    assert!(text.contains("\"index.crates.io\", # rust: the tool's default\n"), "{text}");
    assert!(!text.contains("secret") && !text.contains("registry.npmjs.org"), "{text}");
    let (status, told, said) = profile(&place, &["check", "web.toml"]);
    assert_eq!(status, 0, "{told}{said}");
    for (target, decision) in [("npm.example:443", "allow"), ("other.example:443", "deny")] {
        let (_, told, said) = profile(&place, &["explain", "web.toml", "connect", target]);
        assert!(told.contains(decision), "{target}: {told}{said}");
    }
    let (status, told, _) = preset(&[]);
    assert!(status == 0 && told.contains(&format!("npm.example, {}", npmrc.display())), "{told}");
    let (status, _, said) = preset(&["perl"]);
    assert!(
        status != 0 && said.contains("the presets are python, node, rust, go, debian"),
        "{said}"
    );
}

const WEB: &str = "version = 1\ndescription = \"x\"\n[fs]\nworkspace = \"write\"\nexecute = [\"/usr\"]\n\
    [net]\nmode = \"domains\"\nallow = [\"packages.example\", \"*.files.example\", \"mirror.example:8080\"]\n\
    deny = [\"paste.files.example\"]\nfetch = [\"docs.example\"]\n";

#[test]
fn hosts_are_explained_compared_and_tested_by_name() {
    let place = directory();
    let tests = "tests = [\"connect packages.example:443: allow\", \"connect other.example:443: deny\", \
                 \"connect Paste.Files.Example.:443: deny\"]\n[fs]";
    fs::write(place.path().join("web.toml"), WEB.replacen("[fs]", tests, 1)).unwrap();
    let asks = WEB.replace("deny = ", "ask = true\ndeny = ").replace("packages.", "wheels.");
    fs::write(place.path().join("asks.toml"), asks).unwrap();
    for (file, target, decision, told) in [
        ("web.toml", "packages.example:443", "allow", "net.allow \"packages.example\" allows it"),
        ("web.toml", "PACKAGES.example.:80", "allow", "only TLS and HTTP to this host may be sent"),
        ("web.toml", "a.files.example:443", "allow", "*.files.example"),
        ("web.toml", "mirror.example:8080", "allow", "any protocol may be spoken there"),
        (
            "web.toml",
            "mirror.example:443",
            "deny",
            "net.allow has \"mirror.example:8080\", without port",
        ),
        ("web.toml", "paste.files.example:443", "deny", "net.deny has \"paste.files.example\""),
        ("web.toml", "docs.example:443", "deny", "web_fetch may get pages from it"),
        ("web.toml", "other.example:22", "deny", "add \"other.example:22\" to net.allow"),
        ("asks.toml", "packages.example:443", "ask", "net.ask is true"),
    ] {
        let (status, found, said) = profile(&place, &["explain", file, "connect", target]);
        assert!(found.starts_with(&format!("{decision}: connect ")), "{target}: {found}{said}");
        assert!(found.contains(told), "{target}: {told}: {found}");
        assert_eq!(status == 0, decision == "allow", "{target}: {found}");
    }
    let (_, told, _) = profile(&place, &["diff", "web.toml", "asks.toml"]);
    for line in [
        "- net.allow: without packages.example\n",
        "+ net.allow: with wheels.example\n",
        "+ net.ask: ",
    ] {
        assert!(told.contains(line), "{line}: {told}");
    }
    let (status, told, _) = profile(&place, &["test", "web.toml"]);
    assert_eq!((status, told.matches("holds").count()), (0, 3), "{told}");
}
