//! Tests of profiles: what is accepted, what is refused, and how the errors read.

use super::*;
use crate::{Origin, ProfileSet};

const GOOD: &str = r#"version = 1
description = "test"

[fs]
workspace = "write"
execute = ["/usr"]

[env]
set = { FOO = "bar" }

[limits]
memory = "1 GiB"
timeout_ms = 1000

[layers]
optional = ["network"]

[tools]
deny = ["bash"]
"#;

fn parse(text: &str) -> Result<Profile, ProfileError> {
    Profile::parse("test", text)
}

#[test]
fn the_good_one_is_read_with_its_defaults() {
    let profile = parse(GOOD).unwrap();
    assert_eq!((profile.name(), profile.description()), ("test", "test"));
    assert_eq!(profile.ask(), Ask::Destructive);
    assert!(!profile.allow_delete());
    assert_eq!(profile.settings.limits.memory.bytes(), 1 << 30);
    assert_eq!((profile.timeout_ms(), profile.max_timeout_ms()), (1000, 600_000));
    assert_eq!((profile.output_bytes(), profile.file_bytes()), (102_400, 67_108_864));
    assert_eq!((profile.spool_bytes(), profile.kill_grace_ms()), (67_108_864, 2_000));
    assert_eq!(profile.max_sessions(), 32);
    assert_eq!(profile.passed_variables().count(), 0);
}

#[test]
fn the_built_in_ones_are_read() {
    let set = ProfileSet::new([]).unwrap();
    for (name, ask, delete, timeout) in [
        ("workspace", Ask::Destructive, true, (30_000, 600_000)),
        ("readonly", Ask::Destructive, false, (30_000, 600_000)),
        ("build", Ask::Destructive, true, (300_000, 600_000)),
        ("guarded", Ask::Destructive, true, (30_000, 600_000)),
        ("strict", Ask::Always, false, (30_000, 120_000)),
    ] {
        let profile = set.get(name).unwrap();
        assert_eq!((profile.timeout_ms(), profile.max_timeout_ms()), timeout, "{name}");
        assert_eq!((profile.output_bytes(), profile.file_bytes()), (102_400, 67_108_864), "{name}");
        assert_eq!((profile.ask(), profile.allow_delete()), (ask, delete), "{name}");
        let toolchains = profile.passed_variables().any(|variable| variable == "RUSTUP_HOME");
        assert_eq!(toolchains, name != "strict", "{name}");
        assert!(profile.tests().len() >= 9, "{name} has tests");
        assert!(!profile.description().is_empty());
    }
}

/// The other errors are covered by the corpus in `tests/broken`.
#[test]
fn an_error_names_file_line_column_and_key() {
    let text = GOOD.replace("[limits]", "[limits]\nmemry = 1");
    let error = parse(&text).unwrap_err();
    assert_eq!(
        error.to_string(),
        "test.toml:12:1: limits.memry: unknown key; did you mean `memory`?"
    );
    let at = Origin { profile: "test".into(), file: "test.toml".into(), line: 12, column: 1 };
    let found = matches!(&error, ProfileError::Invalid { at: found, .. } if **found == at);
    assert!(found, "{error:?}");
}

#[test]
fn who_says_whom_it_is_for() {
    let user = |uid, gid| User { uid, gid, unit: None };
    assert!(parse(GOOD).unwrap().admits(user(1, 1)));
    let text = format!("{GOOD}\n[who]\nuid = [1000]\ngid = [50, 51]\n");
    let profile = parse(&text).unwrap();
    for (who, expected) in [
        (user(1000, 1), true),
        (user(1, 51), true),
        (user(1, 1), false),
        (user(50, 1000), false),
        (user(0, 0), false),
    ] {
        assert_eq!(profile.admits(who), expected, "{who:?}");
    }
    let text_of_unit = format!("{GOOD}\n[who]\nunit = [\"agent.service\"]\n");
    let of_unit = parse(&text_of_unit).unwrap();
    for (unit, expected) in
        [(Some("agent.service"), true), (Some("other.service"), false), (None, false)]
    {
        assert_eq!(of_unit.admits(User { uid: 1000, gid: 50, unit }), expected, "{unit:?}");
    }
    // A profile that extends this one admits nobody whom this one does not.
    let child = "version = 1\ndescription = \"x\"\nextends = \"a\"\n[who]\nuid = [1000, 7]\n";
    let source = |name, text, owner| Source { name, file: "f", text, owner };
    let set = ProfileSet::new([
        source("a", text.as_str(), Owner::Other),
        source("b", child, Owner::Other),
    ])
    .unwrap();
    let child = set.get("b").unwrap();
    assert!(child.admits(user(1000, 1)) && !child.admits(user(7, 1)) && !child.admits(user(1, 50)));
}

#[test]
fn names_are_checked() {
    for name in ["", "a b", "../x", "ü"] {
        let found = Profile::parse(name, GOOD);
        assert!(matches!(found, Err(ProfileError::Name { name: n, .. }) if n == name), "{name:?}");
    }
}

#[test]
fn the_digest_is_of_what_is_said() {
    let digest = |text: &str| parse(text).unwrap().digest().to_owned();
    let good = digest(GOOD);
    assert_eq!(good.len(), 64);
    assert!(good.chars().all(|c| c.is_ascii_hexdigit()));
    assert_eq!(digest(GOOD), good);
    // Comments, order and equivalent spellings do not change the digest; defaults are included in
    // it.
    assert_eq!(digest(&GOOD.replace("[fs]", "# a comment\n[fs]")), good);
    assert_eq!(digest(&GOOD.replace("\"1 GiB\"", "\"1024 MiB\"")), good);
    assert_eq!(digest(&GOOD.replace("[limits]", "[limits]\nprocesses = 1024")), good);
    for (from, to) in [
        ("1 GiB", "2 GiB"),
        ("/usr", "/bin"),
        ("\"network\"", "\"network\", \"ipc\""),
        ("FOO", "BAR"),
        ("[limits]", "[limits]\nprocesses = 1023"),
    ] {
        assert_ne!(digest(&GOOD.replace(from, to)), good, "{to}");
    }
    assert_ne!(Profile::parse("other", GOOD).unwrap().digest(), good);
}

#[test]
fn long_calls_take_as_long_as_jobs_and_no_less_than_before() {
    let longest = |limits: &str| {
        let text = GOOD.replace("timeout_ms = 1000", &format!("timeout_ms = 1\n{limits}"));
        let profile = parse(&text).unwrap();
        let long = profile.with_long_calls().unwrap();
        assert_eq!(long.digest() == profile.digest(), long.settings == profile.settings);
        long.max_timeout_ms()
    };
    assert_eq!(longest("max_timeout_ms = 500"), 24 * 60 * 60 * 1000);
    assert_eq!(longest("max_timeout_ms = 500\njob_ms = 700"), 700);
    assert_eq!(longest("max_timeout_ms = 500\njob_ms = 300"), 500);
}
