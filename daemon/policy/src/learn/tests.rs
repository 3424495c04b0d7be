use super::*;
use crate::{Act, Decision, ProfileSet, explain};
use palisade_plan::Network;

fn scene() -> Scene {
    Scene {
        workspace: "/home/u/project".into(),
        home: Some("/home/u".into()),
        user: "u".to_owned(),
        uid: 1000,
        gid: 1000,
    }
}

fn run(accesses: &[(Right, &str, TargetKind)]) -> Run {
    let access = |(right, path, kind): &(Right, &str, TargetKind)| Access {
        right: *right,
        path: (*path).to_owned(),
        kind: *kind,
    };
    Run {
        command: "git status".to_owned(),
        accesses: accesses.iter().map(access).collect(),
        lost: 0,
        memory_bytes: 10 << 20,
        processes: 2,
        elapsed_ms: 12,
    }
}

fn learned(from: &str, accesses: &[(Right, &str, TargetKind)]) -> (Profile, LearnedProfile) {
    let set = ProfileSet::new([]).unwrap();
    let found = learn(set.get(from).unwrap(), &scene(), &run(accesses)).unwrap();
    let profile = Profile::parse("learned", &found.text);
    (profile.unwrap_or_else(|error| panic!("{error}\n{}", found.text)), found)
}

fn decides(profile: &Profile, act: Act, target: &str) -> Decision {
    explain(profile, &scene(), act, target).unwrap().decision
}

#[test]
fn a_program_its_loader_and_its_libraries_are_learned_and_nothing_beside() {
    use TargetKind::{Directory, File, Link};
    let (profile, found) = learned(
        "workspace",
        &[
            (Right::Look, "/bin", Link),
            (Right::Execute, "/usr/bin/git", File),
            (Right::Look, "/lib64", Link),
            (Right::Execute, "/usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2", File),
            (Right::Read, "/usr/lib/x86_64-linux-gnu/libc.so.6", File),
            (Right::Read, "/usr/lib/x86_64-linux-gnu/libz.so.1.2.13", File),
            (Right::Read, "/usr/share/git-core/templates/description", File),
            (Right::Look, "/usr/share", Directory),
            (Right::Read, "/usr/bin", Directory),
            (Right::Read, "/etc/gitconfig", File),
            (Right::Read, "/etc/ssl/certs/ca-certificates.crt", File),
            (Right::Read, "/home/u/project", Directory),
        ],
    );
    for (act, target, decision) in [
        (Act::Execute, "/usr/bin/git", Decision::Allow),
        (Act::Execute, "/usr/bin/python3", Decision::Deny),
        (Act::Read, "/usr/lib/x86_64-linux-gnu/libother.so", Decision::Allow),
        (Act::Read, "/usr/share/git-core/x", Decision::Allow),
        (Act::Execute, "/usr/share/git-core/x", Decision::Deny),
        (Act::Read, "/usr/share/doc/x", Decision::Deny),
        (Act::Read, "/etc/gitconfig", Decision::Allow),
        (Act::Read, "/etc/ssl/certs/x", Decision::Allow),
        (Act::Read, "/etc/passwd", Decision::Deny),
        (Act::Read, "$WORKSPACE/x", Decision::Allow),
        (Act::Write, "$WORKSPACE/x", Decision::Deny),
    ] {
        assert_eq!(decides(&profile, act, target), decision, "{act} {target}\n{}", found.text);
    }
    assert_eq!(found.entries, 7, "{}", found.text);
    assert!(found.refused.is_empty());
    // Each entry has its reason.
    for line in found.text.lines().filter(|line| line.trim_start().starts_with("\"/")) {
        assert!(line.contains(", # "), "{line}");
    }
}

#[test]
fn what_a_person_chose_is_kept_whole_and_written_only_if_it_was() {
    let crates = "/home/u/.cargo/registry/src/index-1949cf8c6b5b557f/serde-1.0.2/lib.rs";
    let wheel = "/home/u/.cache/pip/wheels/tmp8a7x/x.whl";
    let (profile, found) = learned(
        "build",
        &[
            (Right::Read, crates, TargetKind::File),
            (Right::Write, wheel, TargetKind::File),
            (Right::Write, "/home/u/project/target/debug/x", TargetKind::File),
            (Right::Execute, "/home/u/.rustup/toolchains/1.80.0/bin/rustc", TargetKind::File),
        ],
    );
    let text = &found.text;
    assert!(text.contains("\"$HOME/.cargo/registry\", #"), "{text}");
    assert!(!text.contains("index-1949cf8c6b5b557f"), "{text}");
    assert_eq!(decides(&profile, Act::Write, "$HOME/.cargo/registry/x"), Decision::Deny);
    assert_eq!(decides(&profile, Act::Write, "$HOME/.cache/pip/other"), Decision::Allow);
    assert_eq!(
        decides(&profile, Act::Execute, "$HOME/.rustup/toolchains/2/bin/x"),
        Decision::Allow
    );
    assert_eq!(decides(&profile, Act::Write, "$WORKSPACE/x"), Decision::Allow);
}

#[test]
fn what_is_the_sessions_own_needs_no_line() {
    let (_, found) = learned(
        "workspace",
        &[
            (Right::Write, "/tmp", TargetKind::Directory),
            (Right::Write, "/home/u/.cache/x", TargetKind::File),
            (Right::Read, "/", TargetKind::Directory),
            (Right::Look, "/etc", TargetKind::Directory),
            (Right::Bind, "127.0.0.1:0", TargetKind::Address),
        ],
    );
    assert_eq!(found.entries, 0, "{}", found.text);
    assert!(found.refused.is_empty(), "{:?}", found.refused);
}

#[test]
fn what_was_refused_is_told_and_not_allowed() {
    let (profile, found) = learned(
        "workspace",
        &[
            (Right::Read, "/srv/data/x", TargetKind::Missing),
            (Right::Write, "/usr/lib/x", TargetKind::Missing),
            (Right::Look, "/home/u/.netrc", TargetKind::Missing),
            (Right::Connect, "1.1.1.1:443", TargetKind::Address),
        ],
    );
    let wanted = |right, target: &str| RefusedAccess { right, target: target.to_owned() };
    assert_eq!(
        found.refused,
        [
            wanted(Right::Look, "$HOME/.netrc"),
            wanted(Right::Read, "/srv/data/x"),
            wanted(Right::Write, "/usr/lib/x"),
            wanted(Right::Connect, "1.1.1.1:443"),
        ]
    );
    assert!(found.text.contains("#   read /srv/data/x\n"), "{}", found.text);
    assert_eq!(decides(&profile, Act::Read, "/srv/data/x"), Decision::Deny);
}

#[test]
fn a_directory_that_was_only_looked_at_is_there_and_many_programs_are_their_directory() {
    let (profile, found) =
        learned("workspace", &[(Right::Look, "/usr/share/zoneinfo", TargetKind::Directory)]);
    assert_eq!(
        decides(&profile, Act::Read, "/usr/share/zoneinfo"),
        Decision::Allow,
        "{}",
        found.text
    );
    let many: Vec<String> = (0..65).map(|number| format!("/usr/bin/p{number}")).collect();
    let many: Vec<_> =
        many.iter().map(|path| (Right::Execute, path.as_str(), TargetKind::File)).collect();
    let (profile, found) = learned("workspace", &many);
    assert_eq!(found.entries, 1, "{}", found.text);
    assert_eq!(decides(&profile, Act::Execute, "/usr/bin/other"), Decision::Allow);
}

#[test]
fn versions_are_told_from_other_numbers() {
    for (path, versioned) in [
        ("/usr/lib/python3.11", true),
        ("/usr/lib/jvm/java-17-openjdk", true),
        ("/opt/node-v20.1.0", true),
        ("/usr/lib/x86_64-linux-gnu", false),
        ("/usr/bin/python3", false),
        ("/usr/share/git-core", false),
    ] {
        assert_eq!(general::is_versioned(Path::new(path)), versioned, "{path}");
    }
}

#[test]
fn whatever_was_typed_the_file_is_a_profile() {
    let set = ProfileSet::new([]).unwrap();
    let mut run = run(&[]);
    run.command = "sh -c 'echo \"\u{1b}[31m\\n\"\n# \"\"\"' é".to_owned();
    run.lost = 3;
    let found = learn(set.get("workspace").unwrap(), &scene(), &run).unwrap();
    Profile::parse("learned", &found.text).unwrap();
    assert!(found.text.contains("3 accesses were not recorded"));
}

#[test]
fn the_network_is_what_was_used_of_it() {
    use TargetKind::Address;
    let mode = |from: &str, accesses: &[(Right, &str, TargetKind)]| {
        let (profile, found) = learned(from, accesses);
        let refused: Vec<_> = found.refused.into_iter().map(|wanted| wanted.target).collect();
        (profile.settings.net.planned(), refused)
    };
    let own = (Right::Bind, "127.0.0.1:8080", Address);
    let away = (Right::Connect, "192.0.2.1:443", Address);
    let other = (Right::Connect, "192.0.2.1:22", Address);
    let refused = |port: u16| vec![format!("192.0.2.1:{port}")];
    assert_eq!(mode("workspace", &[]), (Network::None, vec![]));
    assert_eq!(mode("workspace", &[own]), (Network::Loopback, vec![]));
    assert_eq!(mode("workspace", &[own, away]), (Network::Loopback, refused(443)));
    assert_eq!(mode("strict", &[own]), (Network::None, vec![]));
    assert_eq!(mode("trusted-net", &[own]), (Network::None, vec![]));
    assert_eq!(mode("trusted-net", &[away, other]), (Network::Ports(vec![443]), refused(22)));
    // Without a connection, the learned profile has the hosts of the wider one.
    let text = "version = 1\ndescription = \"x\"\n[fs]\nworkspace = \"write\"\nexecute = [\"/usr\"]\n\
                [net]\nmode = \"domains\"\nallow = [\"packages.example\"]\nask = true\n";
    let owner = crate::Owner::Root;
    let wide = crate::Source { name: "wide", file: "wide.toml", text, owner };
    let set = ProfileSet::new([wide]).unwrap();
    for (accesses, expected) in [
        (vec![(Right::Connect, "127.0.0.1:61080", Address)], Network::Domains(vec![80, 443])),
        (vec![(Right::Connect, "198.18.0.7:443", Address), own], Network::Domains(vec![80, 443])),
        (vec![own], Network::Loopback),
        (vec![], Network::None),
    ] {
        let found = learn(set.get("wide").unwrap(), &scene(), &run(&accesses)).unwrap();
        let learned = crate::Source { name: "learned", file: "l.toml", text: &found.text, owner };
        let set = ProfileSet::new([wide, learned]).unwrap();
        let network = set.get("learned").unwrap().settings.net.planned();
        assert_eq!(network, expected, "{accesses:?}");
        assert!(found.refused.is_empty(), "{:?}", found.refused);
    }
    // An access that was not recorded may have been a connection.
    let set = ProfileSet::new([]).unwrap();
    let lost = Run { lost: 1, ..run(&[]) };
    let found = learn(set.get("trusted-net").unwrap(), &scene(), &lost).unwrap();
    let profile = Profile::parse("learned", &found.text).unwrap();
    assert_eq!(profile.settings.net.planned(), Network::Ports(vec![53, 80, 443]));
}

#[test]
fn the_hosts_are_those_that_the_run_connected_to() {
    use TargetKind::Address;
    let text = "version = 1\ndescription = \"x\"\n[fs]\nworkspace = \"write\"\nexecute = [\"/usr\"]\n\
                [net]\nmode = \"domains\"\nallow = [\"packages.example\", \"*.files.example\", \
                \"git.example:443\", \"unused.example\", \"10.1.0.0/16:5432\"]\nask = true\n";
    let owner = crate::Owner::Root;
    let wide = crate::Source { name: "wide", file: "wide.toml", text, owner };
    let set = ProfileSet::new([wide]).unwrap();
    let learned = |run: &Run| {
        let found = learn(set.get("wide").unwrap(), &scene(), run).unwrap();
        assert!(found.refused.is_empty(), "{:?}", found.refused);
        let source = crate::Source { name: "learned", file: "l.toml", text: &found.text, owner };
        let set = ProfileSet::new([wide, source]).unwrap();
        let net = set.get("learned").unwrap().settings.net.clone();
        let allow: Vec<_> = net.allow.iter().map(|said| said.value.to_string()).collect();
        (allow.join(" "), net.ask)
    };
    let all = |hosts: &[&'static str]| {
        let mut accesses = vec![(Right::Connect, "127.0.0.1:61080", Address)];
        accesses.extend(hosts.iter().map(|host| (Right::Connect, *host, Address)));
        run(&accesses)
    };
    let wider = "git.example:443 packages.example unused.example *.files.example 10.1.0.0/16:5432";
    for (hosts, expected) in [
        (&["packages.example:443"][..], ("packages.example 10.1.0.0/16:5432", false)),
        (
            &["a.files.example:80", "git.example:443", "10.1.2.3:5432"],
            ("a.files.example git.example:443 10.1.0.0/16:5432", false),
        ),
        // An approver allowed another one, and has to be asked again.
        (
            &["packages.example:80", "other.example:443"],
            ("packages.example 10.1.0.0/16:5432", true),
        ),
        (&["other.example:443"], (wider, true)),
        (&[], (wider, true)),
    ] {
        let (allow, ask) = learned(&all(hosts));
        assert_eq!((allow.as_str(), ask), expected, "{hosts:?}");
    }
    let lost = Run { lost: 1, ..all(&["packages.example:443"]) };
    assert_eq!(learned(&lost).0, wider);
}
