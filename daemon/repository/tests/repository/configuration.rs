//! Tests configuration: what ordinary commands add is harmless, and everything else is not.

use crate::git::Git;
use palisade_repository::Configuration;

fn parse(text: &str) -> Configuration {
    Configuration::parse(text.as_bytes()).unwrap()
}

/// How a key differs from before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum KeyChange {
    AddedHarmless,
    Added,
    Changed,
    Removed,
}

fn between(before: &Configuration, after: &Configuration) -> Vec<(String, KeyChange)> {
    let changed = before.changed_keys(after).into_iter();
    let change = |key| match (before.values(&key), after.values(&key)) {
        (None, Some(added)) if before.are_harmless(after, &key, added) => KeyChange::AddedHarmless,
        (None, _) => KeyChange::Added,
        (Some(_), Some(_)) => KeyChange::Changed,
        (Some(_), None) => KeyChange::Removed,
    };
    changed.map(|key| (key.to_string(), change(key))).collect()
}

fn changes(before: &str, after: &str) -> Vec<(String, KeyChange)> {
    between(&parse(before), &parse(after))
}

fn only(before: &str, after: &str) -> KeyChange {
    let changes = changes(before, after);
    let [(_, change)] = changes.as_slice() else { panic!("{changes:?}") };
    *change
}

#[test]
fn what_ordinary_commands_write_is_harmless() {
    let git = Git::new();
    let read = || git.open().configuration().unwrap();
    let fresh = between(&Configuration::default(), &read());
    assert!(fresh.len() >= 4, "{fresh:?}");
    assert!(fresh.iter().all(|(_, change)| *change == KeyChange::AddedHarmless), "{fresh:?}");
    let before = read();
    git.run(&["config", "user.name", "Somebody \"quoted\" # not a comment"]);
    git.run(&["config", "user.email", "somebody@example.org"]);
    git.run(&["remote", "add", "origin", "https://example.org/project.git"]);
    git.run(&["remote", "add", "other", "git@example.org:project.git"]);
    git.run(&["remote", "add", "third", "ssh://git@example.org:22/project.git"]);
    git.run(&["config", "branch.main.remote", "origin"]);
    git.run(&["config", "branch.main.merge", "refs/heads/main"]);
    let changes = between(&before, &read());
    assert_eq!(changes.len(), 10, "{changes:?}");
    assert!(changes.iter().all(|(_, change)| *change == KeyChange::AddedHarmless), "{changes:?}");
    let now = read();
    let name = now.keys().find(|(key, _)| key.to_string() == "user.name").unwrap();
    assert_eq!(name.1, [Some(b"Somebody \"quoted\" # not a comment".to_vec())]);
}

#[test]
fn everything_else_is_a_plant() {
    let base = "[core]\n\tbare = false\n[remote \"origin\"]\n\turl = https://example.org/a\n";
    for added in [
        "[core]\n\tfsmonitor = /tmp/x",
        "[core]\n\thooksPath = hooks",
        "[core]\n\tsshCommand = x",
        "[core]\n\tpager = x",
        "[core]\n\teditor = x",
        "[core]\n\tworktree = /",
        "[core]\n\tfilemode = false",
        "[core]\n\tlogAllRefUpdates = false",
        "[core]\n\trepositoryformatversion = 1",
        "[alias]\n\tst = !x",
        "[include]\n\tpath = x",
        "[includeIf \"gitdir:/\"]\n\tpath = x",
        "[filter \"x\"]\n\tclean = x",
        "[gc]\n\tpruneExpire = now",
        "[url \"https://evil/\"]\n\tinsteadOf = https://example.org/",
        "[extensions]\n\tnoop = 1",
        "[credential]\n\thelper = x",
        "[user \"sub\"]\n\tname = x",
        "[user]\n\tname",
        "[remote \"origin\"]\n\tfetch = +refs/heads/*:refs/remotes/origin/*",
        "[remote \"origin\"]\n\tpushurl = https://example.org/b",
        "[remote \"new\"]\n\turl = ext::sh -c x",
        "[remote \"new\"]\n\turl = http://example.org/a",
        "[remote \"new\"]\n\turl = /some/where",
        "[remote \"new\"]\n\turl = ../x:y",
        "[remote \"new\"]\n\turl = file:///x",
        "[remote \"new\"]\n\turl = ssh://-oProxyCommand=x/y",
        "[remote \"new\"]\n\turl = -oProxyCommand=x:y",
        "[remote \"new\"]\n\turl = https://",
        "[remote \"new\"]\n\tfetch = +refs/*:refs/*",
        "[remote \"new\"]\n\tfetch = +refs/heads/*:refs/heads/*",
        "[remote \"new\"]\n\tfetch = +refs/heads/*:refs/remotes/new/../origin/*",
        "[remote \"new\"]\n\treceivepack = x",
        "[remote \"new\"]\n\tuploadpack = x",
        "[remote \"new\"]\n\tvcs = x",
        "[branch \"main\"]\n\tremote = https://evil/",
        "[branch \"main\"]\n\tremote = unknown",
        "[branch \"main\"]\n\tmerge = ../x",
        "[branch \"main\"]\n\trebase = true",
        "[pull]\n\trebase = true",
    ] {
        let change = only(base, &format!("{base}{added}\n"));
        assert_eq!(change, KeyChange::Added, "{added}");
    }
    assert_eq!(only(base, &base.replace("example.org/a", "evil/a")), KeyChange::Changed);
    let twice = format!("{base}[remote \"origin\"]\n\turl = https://example.org/b\n");
    assert_eq!(only(base, &twice), KeyChange::Changed);
    let implicit = base.replace("bare = false", "bare");
    assert_eq!(only(base, &implicit), KeyChange::Changed);
    assert_eq!(only(base, "[core]\n\tbare = false\n"), KeyChange::Removed);
}

#[test]
fn layout_and_case_do_not_matter_and_subsections_do() {
    let one = "[core]\n\tbare = false\n[remote \"Origin\"]\n\turl = \"https://a/b\" ; remark\n";
    let same = "# remark\n[CORE]\nBare=false\n\n[remote \"Origin\"] URL = https://a/b\n";
    assert_eq!(changes(one, same), []);
    let other = one.replace("Origin", "origin");
    assert_eq!(changes(one, &other).len(), 2);
    // The order of the values of one key matters, because the last one wins.
    let ab = "[core]\n\tbare\n\tbare = false\n";
    assert_eq!(only(ab, "[core]\n\tbare = false\n\tbare\n"), KeyChange::Changed);
    assert_eq!(changes("[a.B]\n\tc = 1\n", "[a \"b\"]\n\tc = 1\n"), [], "the old form");
    assert_eq!(changes("[a]\n\tb = one\\\ntwo\n", "[a]\n\tb = onetwo\n"), []);
}

#[test]
fn configuration_that_might_be_read_differently_is_refused() {
    for text in [
        "core.bare = false\n",
        "[core\n",
        "[core]\n\tbare = \"false\n",
        "[core]\r\n\tbare = false\r\n",
        "[core]\n\tx = a\0b\n",
        "\u{feff}[core]\n\tbare = false\n",
    ] {
        assert!(Configuration::parse(text.as_bytes()).is_err(), "{text:?}");
    }
}

#[test]
fn values_agree_with_git() {
    let git = Git::new();
    let path = git.git_dir().join("config");
    let text = "[a]\n\tb = one \"two  three\" four ; remark\n\tc = \\t\\\"x\\\\y\n\td = a\\\n  b\n\
        \te=  spaced   out  \n\tf = \"# kept\" # gone\n\tg\n\th =\n[A \"S u\\\"b\"]\n\tKey-1 = v\n\
        [x.Y]\n\tz = 1\n\tz = 2\n";
    std::fs::write(&path, text).unwrap();
    let listed = git.run(&["config", "--file", path.to_str().unwrap(), "--list", "--null"]);
    let mut expected: Vec<Vec<u8>> = listed
        .split(|byte| *byte == 0)
        .filter(|line| !line.is_empty())
        .map(<[u8]>::to_vec)
        .collect();
    let configuration = parse(text);
    let mut found: Vec<Vec<u8>> = Vec::new();
    for (key, values) in configuration.keys() {
        for value in values {
            let value = value.as_ref().map(|value| [b"\n", value.as_slice()].concat());
            found.push([key.to_string().into_bytes(), value.unwrap_or_default()].concat());
        }
    }
    expected.sort();
    found.sort();
    assert_eq!(
        found.iter().map(|line| String::from_utf8_lossy(line)).collect::<Vec<_>>(),
        expected.iter().map(|line| String::from_utf8_lossy(line)).collect::<Vec<_>>()
    );
}

#[test]
fn damaged_configuration_never_panics() {
    let text =
        b"[core]\n\tbare = false\n[remote \"or\\\"igin\"]\n\turl = \"a # b\" \\\n c ; d\n".to_vec();
    for at in 0..text.len() {
        for byte in [0u8, b'"', b'\\', b'[', b']', b'\n', b'=', b'#', 0x80, 0xff] {
            let mut damaged = text.clone();
            damaged[at] = byte;
            drop(Configuration::parse(&damaged));
        }
        drop(Configuration::parse(&text[..at]));
    }
}
