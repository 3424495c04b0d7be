//! Profiles: what is read, what is refused and how the refusal reads.

use super::*;
use crate::builtin;

const GOOD: &str = r#"description = "test"

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
    assert_eq!((profile.output_bytes(), profile.file_bytes()), (102_400, 10_485_760));
    assert_eq!((profile.spool_bytes(), profile.kill_grace_ms()), (67_108_864, 2_000));
    assert_eq!(profile.max_sessions(), 32);
    assert_eq!(profile.passed_variables().count(), 0);
}

#[test]
fn the_built_in_ones_are_read() {
    for (name, text) in builtin() {
        let profile = Profile::parse(name, text).unwrap();
        assert_eq!((profile.timeout_ms(), profile.max_timeout_ms()), (30_000, 600_000), "{name}");
        assert_eq!((profile.output_bytes(), profile.file_bytes()), (102_400, 10_485_760), "{name}");
        assert_eq!(profile.ask(), Ask::Destructive, "{name}");
        assert_eq!(profile.allow_delete(), name == "workspace");
        assert!(profile.passed_variables().any(|variable| variable == "RUSTUP_HOME"));
    }
}

#[test]
fn bad_ones_are_refused_with_line_and_key() {
    // What is replaced by what, then line, key and a part of the reason.
    for (from, to, line, key, why) in [
        ("[limits]", "[limits]\nmemry = 1", 11, "limits.memry", "unknown field `memry`"),
        ("description", "descriptoin", 1, "descriptoin", "unknown field `descriptoin`"),
        ("description = \"test\"", "", 1, "", "missing field `description`"),
        ("\"test\"", "\" \"", 1, "description", "says nothing"),
        ("\n\n[fs]", "\nask = \"often\"\n[fs]", 2, "ask", "unknown variant `often`"),
        ("\"write\"", "\"append\"", 4, "fs.workspace", "unknown variant `append`"),
        ("\"/usr\"", "", 5, "fs.execute", "is empty, so no program could run"),
        ("\"/usr\"", "\"usr\"", 5, "fs.execute", "is not absolute"),
        ("\"/usr\"", "\"/usr/../etc\"", 5, "fs.execute", "has a `.`, a `..`"),
        ("\"/usr\"", "\"/usr//x\"", 5, "fs.execute", "has a `.`, a `..`"),
        ("\"/usr\"", "\"$HOME\"", 5, "fs.execute", "$HOME itself holds keys"),
        ("\"/usr\"", "\"$HOMEX/a\"", 5, "fs.execute", "is not absolute"),
        ("\"/usr\"", "\"/x/$USER\"", 5, "fs.execute", "a `$`"),
        ("[\"/usr\"]", "[\"/usr\"]\nwrite = [\"/etc\"]", 6, "fs.write", "belongs to the system"),
        ("[\"/usr\"]", "[\"/usr\"]\nwrite = [\"/\"]", 6, "fs.write", "belongs to the system"),
        ("[\"/usr\"]", "[\"/usr\"]\netc = [\"shadow\"]", 6, "fs.etc", "would show /etc/shadow"),
        ("[\"/usr\"]", "[\"/usr\"]\netc = [\"ssl\"]", 6, "fs.etc", "would show /etc/ssl/private"),
        ("[\"/usr\"]", "[\"/usr\"]\netc = [\"palisade/x\"]", 6, "fs.etc", "/etc/palisade"),
        ("[\"/usr\"]", "[\"/usr\"]\netc = [\"../x\"]", 6, "fs.etc", "not the name of something"),
        ("[\"/usr\"]", "[\"/usr\"]\netc = [\"/x\"]", 6, "fs.etc", "not the name of something"),
        ("FOO", "LD_PRELOAD", 8, "env.set", "the dynamic loader"),
        ("FOO", "\"A B\"", 8, "env.set", "is not a variable's name"),
        ("\"bar\"", "\"a\\u0000b\"", 8, "env.set", "FOO has a NUL"),
        ("set =", "pass = [\"BASH_ENV\"]\nset =", 8, "env.pass", "bash would run that file"),
        ("\"1 GiB\"", "\"1 GB\"", 11, "limits.memory", "a size above zero such as"),
        ("\"1 GiB\"", "0", 11, "limits.memory", "a size above zero such as"),
        ("\"1 GiB\"", "-1", 11, "limits.memory", "a size above zero such as"),
        ("timeout_ms = 1000", "processes = 0", 12, "limits.processes", "nonzero"),
        ("= 1000", "= 700_000", 12, "limits.timeout_ms", "is over max_timeout_ms = 600000"),
        ("timeout_ms = 1000", "max_timeout_ms = 86400001", 12, "limits.max_timeout_ms", "86400000"),
        ("\"network\"", "\"netwrok\"", 15, "layers.optional", "no layer is called \"netwrok\""),
        ("deny = [\"bash\"]", "allow = []", 18, "tools.allow", "is empty"),
        ("\"bash\"", "\"ba sh\"", 18, "tools.deny", "is made of letters"),
        ("memory =", "memory", 11, "limits", "expected"),
    ] {
        let text = GOOD.replacen(from, to, 1);
        assert_ne!(text, GOOD, "{from}");
        match parse(&text) {
            Err(ProfileError::Invalid { profile, line: l, key: k, why: w }) => {
                assert_eq!((profile.as_str(), l, k.as_str()), ("test", line, key), "{to}: {w}");
                assert!(w.contains(why), "{to}: {w}");
            }
            other => panic!("{to}: {other:?}"),
        }
    }
    let contradiction = GOOD.replace("\"write\"", "\"read\"\nallow_delete = true");
    let error = parse(&contradiction).unwrap_err().to_string();
    assert_eq!(
        error,
        "profile \"test\", line 5, fs.allow_delete: is true in a workspace that is only read"
    );
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
    // Comments, order and other words for the same do not matter; defaults are part of it.
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
