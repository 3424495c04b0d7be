//! The proof of a profile: every escape is stopped by the layer that must, in each built-in
//! profile; and a profile with a hole is found out.

use palisade_client::Open;
use palisade_policy::{ProfileSet, Scene, explain};
use palisade_proof::OutcomeTime;
use palisade_protocol::ErrorCode;
use palisade_tests::{Booted, Daemon, Mode, ORDINARY, Sandbox, UNITS, World, act_as};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    fs,
    os::{
        fd::OwnedFd,
        unix::{fs::PermissionsExt as _, net::UnixStream},
    },
    path::Path,
    process::{Child, Output, Stdio},
};

/// The names of the built-in profiles, sorted.
fn built_in() -> Vec<&'static str> {
    let mut names: Vec<_> = palisade_policy::builtin().into_iter().map(|(name, _)| name).collect();
    names.sort_unstable();
    names
}

/// The one that needs the leave of the launcher's ceiling.
const ON_PORTS: &str = "trusted-net";

/// Runs `palisade doctor --prove` with a private daemon.
fn prove(world: &World, words: &[&str]) -> Output {
    let tmp = world.outside();
    world.mode.act(|| {
        let mut command = world.command("palisade");
        command.args(["doctor", "--prove"]).args(words).arg("--profiles").arg(world.profiles());
        command.env("TMPDIR", tmp).output().expect("palisade runs")
    })
}

fn report(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// The probes that this kernel can stop, of what the profile does: older ones do not bound signals by
/// Landlock.
fn known(world: &World, profile: &str) -> Vec<&'static palisade_proof::Probe> {
    let receipt = world.open().session.receipt().clone();
    let scopes = receipt.landlock.expect("Landlock is in force").scopes;
    let bounds = scopes.iter().any(|scope| scope == "Signal");
    let set = ProfileSet::new([]).unwrap();
    let samples = set.get(profile).unwrap().samples();
    let (hides, writes) = (samples.hidden.is_some(), samples.made.is_some());
    let tried = move |probe: &&palisade_proof::Probe| match probe.layer.name() {
        "hide" => hides && (writes || probe.when == OutcomeTime::AtOnce),
        "protect" => samples.protected.is_some(),
        _ => bounds || probe.name != "signal-keeper",
    };
    let network = match profile {
        "strict" => "none",
        ON_PORTS => "ports",
        _ => "loopback",
    };
    let within = |probe: &&palisade_proof::Probe| probe.within.has(network);
    palisade_proof::probes().filter(within).filter(tried).collect()
}

/// The page that shows what came of it; `docs/proof.md` is this.
fn page(report: &Value) -> String {
    let mut page = include_str!("../../src/proof.md").to_owned();
    let proofs = report["profiles"].as_array().unwrap();
    let names: Vec<_> = proofs.iter().map(|proof| proof["profile"].as_str().unwrap()).collect();
    page += &format!("| probe | tries to | stopped by | {} |\n", names.join(" | "));
    page += &format!("|---|---|---|{}\n", "---|".repeat(names.len()));
    for probe in palisade_proof::probes() {
        let answer = |proof: &Value| {
            let rows = proof["probes"].as_array().unwrap();
            let row = rows.iter().find(|row| row["probe"] == probe.name);
            row.map_or("–", |row| row["answer"].as_str().unwrap()).to_owned()
        };
        let answers: Vec<String> = proofs.iter().map(answer).collect();
        let layer = probe.layer.name();
        let call = probe.call.map_or_else(String::new, |call| format!(", `{call}`"));
        let (name, tries) = (probe.name, probe.tries);
        page += &format!("| {name} | {tries} | {layer}{call} | {} |\n", answers.join(" | "));
    }
    page += "\nThe same escapes under other sandboxes are in [escape-bench.md](escape-bench.md).\n\n## What the profiles promise\n\nTheir own tests, with the layer that decides.\n\n\
             | profile | test | decided by |\n|---|---|---|\n";
    let set = ProfileSet::new([]).unwrap();
    let scene = Scene {
        workspace: "/workspace".into(),
        home: Some("/home/user".into()),
        user: "user".to_owned(),
        uid: 1000,
        gid: 1000,
    };
    for name in names {
        let profile = set.get(name).unwrap();
        for test in profile.tests() {
            let told = explain(profile, &scene, test.act, &test.target).unwrap();
            assert_eq!(told.decision, test.expected);
            page += &format!("| {name} | `{test}` | {} |\n", told.layer);
        }
    }
    page
}

/// Holds the page against what came of it. With `PALISADE_PAGES=write` it is written instead.
fn check_page(report: &Value) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("docs/proof.md");
    let page = page(report);
    if std::env::var_os("PALISADE_PAGES").is_some_and(|value| value == "write") {
        fs::write(&path, &page).unwrap();
    }
    let written = fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(written, page, "docs/proof.md is old: PALISADE_PAGES=write writes it anew");
}

#[test]
fn every_escape_is_stopped_by_its_layer_in_each_built_in_profile() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let built_in = built_in();
        let output = prove(&world, &[&["--json"], &built_in[..]].concat());
        let report = report(&output);
        assert_eq!(output.status.code(), Some(0), "{mode:?}: {report:#}");
        assert_eq!(report["ok"], json!(true));
        let proved: Vec<_> = report["profiles"].as_array().unwrap().iter().collect();
        assert_eq!(proved.len(), built_in.len());
        for (proof, name) in proved.iter().zip(built_in.iter().copied()) {
            assert_eq!((&proof["profile"], &proof["ok"]), (&json!(name), &json!(true)));
            let probes = proof["probes"].as_array().unwrap();
            if mode == Mode::System && name == ON_PORTS {
                // Root's launcher was not told to open ports, and there is no session of it.
                assert_eq!((&proof["permitted"], probes.len()), (&json!(false), 0));
                assert_eq!(proof["error"]["code"], json!("over_ceiling"));
                continue;
            }
            assert_eq!(proof["permitted"], json!(true));
            let known = known(&world, name);
            assert_eq!(proof["names_tried"], json!(true));
            assert_eq!(probes.len(), known.len(), "all of them can be tried here");
            for (probe, known) in probes.iter().zip(known) {
                let told = (&probe["probe"], &probe["layer"], &probe["answer"], &probe["control"]);
                let expected = (known.name, known.layer.name(), known.stopped, "ok");
                let found = (told.0.as_str(), told.1.as_str(), told.2.as_str(), told.3.as_str());
                let (name, layer, answer, control) = expected;
                assert_eq!(found, (Some(name), Some(layer), Some(answer), Some(control)));
            }
        }
        let names = |name| known(&world, name).into_iter().map(|probe| probe.name);
        let tried: BTreeSet<_> = built_in.into_iter().flat_map(names).collect();
        if tried.len() == palisade_proof::probes().count() && mode == Mode::User {
            check_page(&report);
        }
        // The canary is as it was, and nothing of the proof is left beside it.
        world.assert_canary_untouched();
    }
}

/// Adds a profile that shows what is outside.
fn add_holed(world: &World) {
    let outside = world.outside();
    let text = format!(
        "version = 1\ndescription = \"holed\"\n[fs]\nworkspace = \"write\"\n\
         execute = [\"!/usr\", \"/bin\", \"/lib\", \"/lib64\"]\nread = [{outside:?}]\n\
         [layers]\noptional = [\"limits\"]\n"
    );
    world.add_profile("holed", &text);
}

#[test]
fn a_profile_with_a_hole_is_found_out() {
    for mode in Mode::all() {
        let world = World::new(mode);
        add_holed(&world);
        let output = prove(&world, &["holed"]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        let line = |name: &str| text.lines().find(|line| line.contains(name)).unwrap_or_default();
        assert!(line(" read-beside ").starts_with("ESCAPED   mount"), "{text}");
        assert!(line(" reach-socket ").starts_with("ESCAPED   mount"), "{text}");
        // The attempts that the hole does not open are stopped as ever.
        assert!(line(" reach-process ").starts_with("stopped   pid"), "{text}");
        assert!(text.contains("holed: NOT proved: "), "{text}");
        assert_eq!(fs::read_dir(world.outside()).unwrap().count(), 1, "nothing is left behind");
    }
}

#[test]
fn what_can_not_be_tried_is_not_proved() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let output = prove(&world, &["--json", "no-such-profile"]);
        let report = report(&output);
        assert_eq!(output.status.code(), Some(1));
        assert_eq!(report["profiles"][0]["ok"], json!(false));
        let message = report["profiles"][0]["error"]["message"].as_str().unwrap();
        assert!(message.contains("no-such-profile"), "{message}");
        // A profile that runs no programs has nothing to be tried by.
        world.add_profile(
            "quiet",
            "version = 1\ndescription = \"quiet\"\nextends = \"workspace\"\n\
             [tools]\ndeny = [\"bash\"]\n",
        );
        let output = prove(&world, &["quiet"]);
        assert_eq!(output.status.code(), Some(1));
        assert!(String::from_utf8_lossy(&output.stdout).contains("quiet: not proved: "));
    }
}

/// Runs `palisade doctor --prove strict` as a user with a running daemon.
fn prove_running(world: &World, uid: u32, daemon: &Daemon) -> Output {
    let run = || {
        let mut command = world.command("palisade");
        command.args(["doctor", "--prove", "strict", "--json", "--socket"]).arg(&daemon.socket);
        command.env("TMPDIR", world.outside()).output().expect("palisade runs")
    };
    match rustix::process::geteuid().is_root() {
        true => act_as(uid, run),
        false => run(),
    }
}

#[test]
fn a_profile_that_asks_is_proved_with_a_running_daemon() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        fs::set_permissions(world.outside(), fs::Permissions::from_mode(0o777)).unwrap();
        fs::set_permissions(&daemon.socket, fs::Permissions::from_mode(0o666)).unwrap();
        let open = |mode| {
            let permissions = fs::Permissions::from_mode(mode);
            fs::set_permissions(&daemon.operators, permissions).unwrap();
        };
        let proved = |uid: u32| {
            let output = prove_running(&world, uid, &daemon);
            let report = report(&output);
            assert_eq!(output.status.code(), Some(0), "{mode:?} {uid}: {report:#}");
            let probes = report["profiles"][0]["probes"].as_array().unwrap().len();
            assert_eq!(probes, known(&world, "strict").len(), "{report:#}");
        };
        proved(mode.uid());
        if mode == Mode::System {
            // Another user, who is no operator, is told what to do.
            open(0o600);
            let output = prove_running(&world, ORDINARY, &daemon);
            let report = report(&output);
            assert_eq!(output.status.code(), Some(1), "{report:#}");
            let error = &report["profiles"][0]["error"];
            assert_eq!(error["code"], json!("denied"), "{report:#}");
            let hint = error["hint"].as_str().unwrap();
            assert!(hint.starts_with("run this command as an operator"), "{hint}");
            assert!(hint.contains("operator.sock"), "{hint}");
            // The control: the same user, once the operator socket admits it.
            open(0o666);
            proved(ORDINARY);
        }
        let logs = fs::read_dir(world.state().join("audit")).unwrap().flatten();
        let log: String = logs.filter_map(|log| fs::read_to_string(log.path()).ok()).collect();
        assert!(log.contains("program:palisade-doctor"), "who approved is recorded");
        world.assert_canary_untouched();
    }
}

/// A daemon that proves its profiles in a place that `holed` shows.
fn proving(world: &World, arguments: &[&str]) -> (UnixStream, Child) {
    world.mode.act(|| {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut command = world.command("palisaded");
        command.args(["--embedded", "--prove-at-start", "--state"]).arg(world.state());
        command.arg("--profiles").arg(world.profiles()).env("TMPDIR", world.outside());
        command.args(arguments);
        let command = command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null());
        (ours, command.spawn().unwrap())
    })
}

#[test]
fn a_daemon_that_proves_serves_only_what_is_proved() {
    for mode in Mode::all() {
        let world = World::new(mode);
        add_holed(&world);
        // The system's daemon proves as whom it has become.
        let open = fs::Permissions::from_mode(0o777);
        fs::set_permissions(world.outside(), open).unwrap();
        let opened = |profile: &str| {
            let (stream, daemon) = proving(&world, &[]);
            Sandbox::over(stream, Some(daemon), Open::new(world.workspace()).profile(profile))
        };
        let error = opened("holed").expect_err("a profile with a hole");
        let error = error.wire().expect("an answer");
        assert_eq!(error.code, ErrorCode::Unproved, "{error}");
        assert!(error.message.contains("\"holed\" is not served: read-beside"), "{error}");
        assert!(error.message.contains("not stopped by mount: ESCAPED"), "{error}");
        // The control: what is proved is served, by the same daemon.
        let sandbox = opened("unasked").unwrap_or_else(|error| panic!("{mode:?}: {error}"));
        assert_eq!(sandbox.ok("echo served"), "served\n");
        drop(sandbox);
        world.assert_canary_untouched();
        let logs = fs::read_dir(world.state().join("audit")).unwrap().flatten();
        let log: String = logs.filter_map(|log| fs::read_to_string(log.path()).ok()).collect();
        assert!(log.contains("the proof of the profile"), "what proves is recorded as well");
    }
}

#[test]
fn a_profile_with_services_is_proved_where_the_daemon_allows_them() {
    let text = "version = 1\ndescription = \"serving\"\nextends = \"workspace\"\nwiden = true\n\
                [net]\nmode = \"domains\"\n[net.host]\nports = [5432]\n[net.publish]\nports = [3210]\n";
    for mode in Mode::all() {
        let world = World::new(mode);
        world.add_profile("serving", text);
        let shown = String::from_utf8(prove(&world, &["serving"]).stdout).unwrap();
        let expected = match mode {
            Mode::User => "serving: proved: ",
            Mode::System => "serving: not tried, because the ceiling does not permit it: net.host",
        };
        assert!(shown.contains(expected), "{mode:?}: {shown}");
        fs::set_permissions(world.outside(), fs::Permissions::from_mode(0o777)).unwrap();
        let arguments = ["--allow-host", "5432", "--allow-publish", "3210"];
        let (stream, daemon) = proving(&world, &arguments);
        let open = Open::new(world.workspace()).profile("serving");
        let served = Sandbox::over(stream, Some(daemon), open);
        let sandbox = served.unwrap_or_else(|error| panic!("{mode:?}: {error}"));
        assert_eq!(sandbox.session.receipt().network.mode, "domains", "{mode:?}");
    }
}

#[test]
fn the_service_proves_its_profiles_at_its_start() {
    if Mode::all() == [Mode::User] {
        // Only root can boot a systemd; what the broker needs of its unit is there.
        let unit = UNITS.iter().find(|(name, _)| *name == "palisaded.service").unwrap().1;
        for line in [
            "Environment=TMPDIR=/var/lib/palisade-proof",
            "ReadWritePaths=-/var/lib/palisade-proof",
        ] {
            assert!(unit.lines().any(|found| found == line), "{line}");
        }
        return;
    }
    let booted = Booted::with_service();
    let holed = "version = 1\ndescription = \"holed\"\nextends = \"workspace\"\nwiden = true\n\
                 [fs]\nread = [\"/var/lib/palisade-proof\"]\n";
    let write = format!(
        "mkdir -p /etc/palisade/profiles; echo 'prove_at_start = true' > /etc/palisade/palisaded.toml\n\
         cat > /etc/palisade/profiles/holed.toml <<'E'\n{holed}E\n"
    );
    booted.ok(&["bash", "-euc", &write]);
    let run = |words: &str| {
        booted.line_of("alice", &format!("palisade run {words}")).output().expect("palisade runs")
    };
    for profile in ["workspace", "guarded", "readonly"] {
        let served = run(&format!("--profile {profile} -- echo served"));
        assert_eq!(String::from_utf8_lossy(&served.stdout), "served\n", "{profile}: {served:?}");
    }
    let refused = run("--profile holed -- echo served");
    let told = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!((refused.status.code(), refused.stdout.as_slice()), (Some(125), &b""[..]), "{told}");
    assert!(told.contains("\"holed\" is not served: read-beside"), "{told}");
    assert_eq!(booted.ok(&["ls", "-A", "/var/lib/palisade-proof"]), "", "nothing is left");
}
