use super::*;
use crate::{Owner, Profile, ProfileSet, Source};

fn add(key: &'static str, value: &str) -> Addition {
    Addition { key, value: value.to_owned(), why: "it was refused".to_owned() }
}

const TEXT: &str = r#"version = 1
description = "x"

tests = ["connect 192.0.2.1:443: deny", "read /srv/a: deny"]

[fs] # files
workspace = "read"
execute = ["!/usr", "/bin"]
unguarded = [
    "/srv/out/one", # the first
    "/srv/other" # no comma, and a comment
    # the end
]
hide = ["secret", "keys/"]

[limits]
processes = 9
"#;

#[test]
fn entries_go_where_their_list_stands_and_what_they_cover_is_left_out() {
    let additions = [
        add("fs.unguarded", "/srv/out"),
        add("fs.unguarded", "/srv/out/deeper"),
        add("fs.read", "/srv/out/two"),
        add("fs.read", "/srv/a"),
        add("fs.execute", "/opt/tool"),
        add("fs.hide", "!/secret"),
        add("fs.etc", "passwd"),
        add("net.mode", "loopback"),
        add("net.mode", "ports"),
        add("net.ports", "443"),
        add("fs.workspace", "write"),
    ];
    let expected = r#"version = 1
description = "x"

tests = ["connect 192.0.2.1:443: deny", "read /srv/a: deny"]

[fs] # files
read = [
    "/srv/a", # it was refused
]
etc = [
    "passwd", # it was refused
]
workspace = "write"
execute = ["!/usr", "/bin",
    "/opt/tool", # it was refused
]
unguarded = [
     # the first
    "/srv/other", # no comma, and a comment
    # the end
    "/srv/out", # it was refused
]
hide = ["secret", "keys/",
    "!/secret", # it was refused
]

[limits]
processes = 9

[net]
# it was refused
mode = "ports"
ports = [
    443, # it was refused
]
"#;
    let text = amended(TEXT, &additions).unwrap();
    assert_eq!(text, expected);
    // The profile's tests still expect the old decisions. They pass once they are reversed.
    let error = Profile::parse("mine", &text).unwrap_err();
    let crate::ProfileError::Test { at, .. } = error else { panic!("{error}") };
    let text = with_reversed_decision(&text, &at).unwrap();
    assert!(text.contains("\"connect 192.0.2.1:443: allow\", \"read /srv/a: deny\""), "{text}");
    let error = Profile::parse("mine", &text).unwrap_err();
    let crate::ProfileError::Test { at, .. } = error else { panic!("{error}") };
    assert!(Profile::parse("mine", &with_reversed_decision(&text, &at).unwrap()).is_ok());
}

#[test]
fn every_built_in_profile_takes_each_kind_of_entry() {
    let additions = [
        add("fs.unguarded", "/srv/out"),
        add("fs.read", "/srv/a"),
        add("fs.execute", "/srv/tool"),
        add("fs.etc", "hostid"),
        add("net.ports", "9999"),
        add("net.mode", "ports"),
    ];
    for (name, text) in crate::builtin() {
        let text = match text.contains("\nextends = ") {
            true => widening(name, None, &additions),
            false => amended(text, &additions).unwrap(),
        };
        let load = |text: &str| {
            let owner = Owner::Root;
            ProfileSet::new([Source { name: "mine", file: "mine.toml", text, owner }])
        };
        // In the host's network there is no private loopback, so the profile's tests fail until
        // reversed.
        let mut text = text;
        let set = loop {
            match load(&text) {
                Ok(set) => break set,
                Err(crate::ProfileError::Test { at, .. }) => {
                    text = with_reversed_decision(&text, &at).unwrap()
                }
                Err(error) => panic!("{name}: {error}\n{text}"),
            }
        };
        let told = |act, target: &str| {
            crate::explain(set.get("mine").unwrap(), &crate::examples::scene(), act, target)
                .unwrap()
        };
        for (act, target) in [
            (crate::Act::Write, "/srv/out/x"),
            (crate::Act::Read, "/srv/a"),
            (crate::Act::Execute, "/srv/tool"),
            (crate::Act::Read, "/etc/hostid"),
            (crate::Act::Connect, "192.0.2.1:9999"),
        ] {
            assert_eq!(told(act, target).decision, crate::Decision::Allow, "{name} {act} {target}");
        }
        assert_eq!(told(crate::Act::Read, "/srv/b").decision, crate::Decision::Deny);
    }
}

#[test]
fn what_widens_says_so_and_leaves_names_to_who_hides_them() {
    let additions = [add("fs.hide", "!/secret"), add("fs.unguarded", "/srv/out")];
    let text = widening("readonly", Some("workspace"), &additions);
    assert!(text.contains("extends = \"readonly\"\n"), "{text}");
    assert!(text.contains("widen = true\n") && text.contains("observe = \"workspace\"\n"));
    assert!(text.contains("# Not possible here; add \"!/secret\" to fs.hide"), "{text}");
    let of = |owner| Source { name: "mine", file: "mine.toml", text: &text, owner };
    assert!(ProfileSet::new([of(Owner::Root)]).is_ok());
    assert!(ProfileSet::new([of(Owner::Other)]).is_err());
}

#[test]
fn text_that_nothing_can_be_put_into_is_an_error() {
    let inline = "version = 1\nnet = { mode = \"none\" }\n";
    assert!(amended(inline, &[add("net.ports", "1")]).unwrap_err().contains("[net]"));
    assert!(amended("version = [", &[]).is_err());
    let twice = "fs.unguarded = \"x\"\n";
    assert!(amended(twice, &[add("fs.unguarded", "/a")]).unwrap_err().contains("not a list"));
}

#[test]
fn what_is_in_a_hidden_directory_is_shown_with_that() {
    let profile = Profile::parse("mine", TEXT).unwrap();
    let asked = |profile: &Profile, target: &str| {
        crate::explain(profile, &crate::examples::scene(), crate::Act::Read, target).unwrap()
    };
    for (target, value) in
        [("$WORKSPACE/keys/deep/one", "!/keys"), ("$WORKSPACE/sub/secret", "!/sub/secret")]
    {
        let change = asked(&profile, target).change.unwrap();
        assert_eq!((change.key, change.value.as_str()), ("fs.hide", value), "{target}");
        let text = amended(TEXT, &[add(change.key, &change.value)]).unwrap();
        let wider = Profile::parse("mine", &text).unwrap();
        assert_eq!(asked(&wider, target).decision, crate::Decision::Allow, "{target}");
        let other = asked(&wider, "$WORKSPACE/other/secret");
        assert_eq!(other.decision, crate::Decision::Deny, "{target}");
    }
}
