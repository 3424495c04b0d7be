//! Profiles in force: what an explanation says is what the kernel does, a profile's own tests hold
//! in a session, and who may use which.

use palisade_client::Open;
use palisade_plan::Layer;
use palisade_policy::{
    Act, Decision, Explanation, Profile, ProfileSet, Scene, TargetOwner, explain,
};
use palisade_protocol::ErrorCode;
use palisade_tests::{Mode, Sandbox, World, effort};
use serde_json::json;
use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

/// Numbers that are the same in every run.
struct Dice(u64);

impl Dice {
    /// Small seeds far apart.
    fn new(seed: u64) -> Self {
        let mut dice = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        for _ in 0..8 {
            dice.roll(2);
        }
        dice
    }

    fn roll(&mut self, sides: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }
}

const DIRECTORIES: [&str; 7] = ["a", "a/b", "a/b/c", "a/d", "e", "e/f", "g"];

/// A program in each directory, which the session's user may read, change and run.
fn furnish(world: &World, root: &Path) {
    for directory in [""].iter().chain(&DIRECTORIES) {
        let path = root.join(directory);
        fs::create_dir_all(&path).unwrap();
        world.give(&path);
        let program = path.join("program");
        fs::write(&program, "#!/bin/sh\nexit 0\n").unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        world.give(&program);
    }
}

/// The directories that programs need, and nothing of `/usr/sbin`.
const RUN: [&str; 7] =
    ["!/usr/bin", "/usr/lib", "/usr/lib64", "/bin", "/lib", "/lib64", "/usr/libexec"];

/// Something that can only be read. (What is below `/tmp`, as all the rest here, can be run as well:
/// Landlock adds up what is granted above.)
const READ_ONLY: &str = "/usr/sbin/nologin";

/// A profile with some of the directories in some of its lists; what would have no effect is left
/// out, as the loader wants it.
fn random(dice: &mut Dice, root: &Path) -> String {
    let access = ["read", "write"][dice.roll(2)];
    let mut lists: [Vec<String>; 3] = Default::default();
    let text = |lists: &[Vec<String>; 3]| {
        format!(
            "version = 1\ndescription = \"random\"\nask = \"never\"\n[fs]\nworkspace = {access:?}\n\
             execute = {:?}\nread = {:?}\nwrite = {:?}\n[layers]\noptional = [\"limits\"]\n",
            [&RUN.map(str::to_owned)[..], &lists[0]].concat(),
            [&["/usr/sbin".to_owned()], &lists[1][..]].concat(),
            lists[2],
        )
    };
    for _ in 0..5 {
        let mut more = lists.clone();
        let directory = DIRECTORIES[dice.roll(DIRECTORIES.len())];
        more[dice.roll(3)].push(root.join(directory).display().to_string());
        if Profile::parse("random", &text(&more)).is_ok() {
            lists = more;
        }
    }
    text(&lists)
}

/// Returns the answer that the kernel must give for this explanation to be true.
fn expected(found: &Explanation, readable: bool) -> &'static str {
    match (found.decision, found.act, found.layer) {
        // The file is the host's: in a private place it is not there.
        (Decision::Allow, Act::Write, _) if found.place == TargetOwner::Session => "ENOENT",
        // A program that ran says nothing to the probe.
        (Decision::Allow, Act::Execute, _) => "silent",
        (Decision::Allow, _, _) => "ok",
        (Decision::Deny, Act::Write, Layer::Mount) if readable => "EROFS",
        (Decision::Deny, Act::Execute, Layer::Mount) if readable => "EACCES",
        (Decision::Deny, _, Layer::Landlock) => "EACCES",
        (Decision::Ask | Decision::Deny, _, _) => "ENOENT",
    }
}

#[test]
fn an_explanation_is_what_the_kernel_does() {
    let mut seen = std::collections::BTreeSet::new();
    for mode in Mode::all() {
        let mut tried = 0;
        for seed in 1..=effort(6, 60) {
            let world = World::new(mode);
            let (outside, workspace) = (world.outside(), world.workspace());
            furnish(&world, &outside);
            furnish(&world, &workspace);
            let text = random(&mut Dice::new(seed), &outside);
            world.add_profile("random", &text);
            let profile = Profile::parse("random", &text).unwrap();
            let sandbox = world.open_with("random");
            let home = None;
            let user = String::new();
            let scene = Scene { workspace: workspace.clone(), home, user, uid: 1, gid: 1 };
            let mut cases = Vec::new();
            let programs = [&outside, &workspace].into_iter().flat_map(|root| {
                [""].iter()
                    .chain(&DIRECTORIES)
                    .map(|directory| root.join(directory).join("program"))
            });
            for target in programs.chain([READ_ONLY.into()]) {
                let target = target.display().to_string();
                let about = |act| explain(&profile, &scene, act, &target).unwrap();
                let readable = about(Act::Read).decision == Decision::Allow;
                for (act, probe) in
                    [(Act::Read, "read"), (Act::Write, "append"), (Act::Execute, "exec")]
                {
                    // Its owner is another: that is no layer's answer.
                    if act == Act::Write && target == READ_ONLY {
                        continue;
                    }
                    cases.push((format!("{probe}:{target}"), expected(&about(act), readable)));
                }
            }
            let attempts: Vec<String> = cases.iter().map(|(attempt, _)| attempt.clone()).collect();
            let told = sandbox.told(&attempts);
            assert_eq!(told.len(), cases.len());
            tried += cases.len();
            for ((attempt, expected), told) in cases.iter().zip(&told) {
                assert_eq!(told, expected, "{mode:?} seed {seed}: {attempt} under\n{text}");
                seen.insert(*expected);
            }
            // The control: outside the sandbox each of them is done.
            let of_test = |attempt: &String| !attempt.ends_with(READ_ONLY);
            let attempts: Vec<String> = attempts.into_iter().filter(of_test).collect();
            let mode_bits = fs::metadata(READ_ONLY).unwrap().permissions().mode();
            assert_eq!(mode_bits & 0o555, 0o555, "{READ_ONLY} can be read and run by everybody");
            let control = world.told_outside(&attempts);
            assert!(
                control.iter().all(|answer| answer == "ok" || answer == "silent"),
                "{control:?}"
            );
        }
        assert!(tried >= 200, "{tried} are too few");
    }
    let all = ["EACCES", "ENOENT", "EROFS", "ok", "silent"];
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), all, "every kind of answer was met");
}

#[test]
fn the_tests_of_the_built_in_profiles_hold_in_the_kernel() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let set = ProfileSet::new([]).unwrap();
        // Root's launcher opens no ports unless it is told to: see ports.rs.
        let permitted = |name: &&str| mode == Mode::User || *name != "trusted-net";
        let profiles: Vec<&str> = set.names().filter(permitted).collect();
        let output = mode.act(|| {
            let mut command = world.command("palisade");
            command.args(["profile", "test", "--kernel", "--profiles"]).arg(world.profiles());
            command.args(&profiles).output().unwrap()
        });
        let told = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{mode:?}: {told}{errors}");
        for line in [
            "holds   workspace: write $WORKSPACE/src/main.rs: allow",
            "holds   workspace: write /etc/passwd: deny",
            "holds   workspace: connect 127.0.0.1:8080: allow",
            "holds   readonly: write $WORKSPACE/src/main.rs: deny",
            "holds   readonly: read $WORKSPACE/.env: deny",
            "holds   guarded: read $WORKSPACE/src/credentials/mod.rs: allow",
            "holds   guarded: write $WORKSPACE/.git/config: deny",
            "holds   strict: exec /usr/bin/env: allow",
            "holds   strict: connect 1.1.1.1:443: deny",
            "holds   strict: connect 127.0.0.1:8080: deny",
        ] {
            assert!(told.contains(line), "{mode:?}: {line} is not in\n{told}");
        }
        let count: usize = profiles.iter().map(|name| set.get(name).unwrap().tests().len()).sum();
        assert_eq!(told.lines().count(), count, "{told}");
    }
}

#[test]
fn a_test_that_the_kernel_does_not_keep_is_told() {
    let world = World::new(Mode::User);
    // The policy does not know of mode bits, nor of what is on a host.
    let text = "version = 1\ndescription = \"x\"\nextends = \"workspace\"\n\
                tests = [\"exec /usr/lib/os-release: allow\", \"exec /etc/passwd: deny\",\n\
                \"read /usr/share/no-such-file: allow\"]\n";
    world.add_profile("mine", text);
    let output = Mode::User.act(|| {
        let mut command = world.command("palisade");
        command.args(["profile", "test", "--kernel", "--profiles"]).arg(world.profiles());
        command.arg("mine").output().unwrap()
    });
    let told = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines: Vec<&str> = told.lines().collect();
    let broken = "BROKEN  mine: exec /usr/lib/os-release: allow: the kernel's answer is deny: ";
    assert!(lines[0].starts_with(broken) && lines[0].contains("Permission denied"), "{told}");
    assert_eq!(
        lines[1..],
        [
            "holds   mine: exec /etc/passwd: deny",
            "absent  mine: read /usr/share/no-such-file: allow: not tried, because it does not \
             exist on this host",
        ]
    );
    assert_eq!(output.status.code(), Some(1), "{told}");
}

#[test]
fn a_profile_is_for_whom_it_names() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let text = |uid: u32| {
            format!(
                "version = 1\ndescription = \"x\"\nextends = \"workspace\"\n[who]\nuid = [{uid}]\n"
            )
        };
        world.add_profile("ours", &text(mode.uid()));
        world.add_profile("theirs", &text(mode.uid() + 1));
        let over = |profile: &str| {
            let (stream, daemon) = world.embedded(&[]);
            Sandbox::over(stream, Some(daemon), Open::new(world.workspace()).profile(profile))
        };
        let error = over("theirs").unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::Denied), "{mode:?}: {error}");
        let sandbox = over("ours").unwrap();
        assert_eq!(sandbox.ok("echo in"), "in\n");
    }
}

#[test]
fn a_result_names_the_profile_and_the_filter_that_held() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let text =
            "version = 1\ndescription = \"x\"\nextends = \"workspace\"\n[env]\ndeny = [\"CI\"]\n";
        world.add_profile("mine", text);
        let sandbox = world.open_with("mine");
        let result = sandbox.bash("true");
        let receipt = result.receipt.as_ref().unwrap();
        let digest = Profile::parse("mine", text).unwrap().digest().to_owned();
        assert_eq!((receipt.profile.as_str(), &receipt.profile_digest), ("mine", &digest));
        let filter = receipt.seccomp.as_ref().unwrap();
        assert_eq!(filter.digest.len(), 64, "{filter:?}");
        let denied = json!({"command": "test -z \"$CI\"", "env": {"CI": "1"}});
        let adjusted = sandbox.done("bash", denied).findings;
        let left_out = adjusted.iter().find(|found| found.kind == "adjusted").unwrap();
        let why = "env.deny of profile \"mine\" names it";
        assert!(left_out.why.contains(why), "{left_out:?}");
        let _fine = sandbox.done("bash", json!({"command": "true", "env": {"CJ": "1"}}));
    }
}
