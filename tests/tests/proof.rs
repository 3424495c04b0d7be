//! The proof of a profile: every escape is stopped by the layer that must, in each built-in
//! profile; and a profile with a hole is found out.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test that can not go on fails; it runs the command line"
)]

use palisade_tests::{Mode, World};
use serde_json::{Value, json};
use std::{fs, process::Output};

/// The built-in profiles.
const BUILT_IN: [&str; 4] = ["build", "readonly", "strict", "workspace"];

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

#[test]
fn every_escape_is_stopped_by_its_layer_in_each_built_in_profile() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let output = prove(&world, &["--json", "build", "readonly", "strict", "workspace"]);
        let report = report(&output);
        assert_eq!(output.status.code(), Some(0), "{mode:?}: {report:#}");
        assert_eq!(report["ok"], json!(true));
        let proved: Vec<_> = report["profiles"].as_array().unwrap().iter().collect();
        assert_eq!(proved.len(), BUILT_IN.len());
        for (proof, name) in proved.iter().zip(BUILT_IN) {
            assert_eq!((&proof["profile"], &proof["ok"]), (&json!(name), &json!(true)));
            let probes = proof["probes"].as_array().unwrap();
            assert_eq!(probes.len(), palisade_proof::PROBES.len(), "all of them can be tried here");
            for (probe, known) in probes.iter().zip(palisade_proof::PROBES) {
                let told = (&probe["probe"], &probe["layer"], &probe["answer"], &probe["control"]);
                let expected = (known.name, known.layer.name(), known.stopped, "ok");
                let found = (told.0.as_str(), told.1.as_str(), told.2.as_str(), told.3.as_str());
                let (name, layer, answer, control) = expected;
                assert_eq!(found, (Some(name), Some(layer), Some(answer), Some(control)));
            }
        }
        // The canary is as it was, and nothing of the proof is left beside it.
        world.assert_canary_untouched();
    }
}

#[test]
fn a_profile_with_a_hole_is_found_out() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let outside = world.outside();
        let text = format!(
            "version = 1\ndescription = \"holed\"\n[fs]\nworkspace = \"write\"\n\
             execute = [\"!/usr\", \"/bin\", \"/lib\", \"/lib64\"]\nread = [{outside:?}]\n\
             [layers]\noptional = [\"limits\"]\n"
        );
        world.add_profile("holed", &text);
        let output = prove(&world, &["holed"]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(1), "{text}");
        let line = |name: &str| text.lines().find(|line| line.contains(name)).unwrap_or_default();
        assert!(line(" read-beside ").starts_with("ESCAPED   mount"), "{text}");
        assert!(line(" reach-socket ").starts_with("ESCAPED   mount"), "{text}");
        // What the hole does not open is stopped as ever.
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
