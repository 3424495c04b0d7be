//! The launcher of the service, in a systemd booted for the test: a user of its own with a few
//! capabilities, what it does for sessions as that, and what it refuses. That takes root; an ordinary
//! user's is refused the name of the system's.

use palisade_tests::{Booted, Mode, binary, rooms::until, text};
use serde_json::Value;
use std::process::{Command, Stdio};

const BROKER: &str = "palisaded.service";
const LAUNCHER: &str = "palisade-launcher.service";

/// The launcher's user is nobody's but its own, it starts with all that it needs or not at all, and
/// what it does for sessions it does without being root.
#[test]
fn the_launcher_is_a_user_of_its_own() {
    for mode in Mode::all() {
        match mode {
            Mode::System => {
                let booted = Booted::with_service();
                takes_over_what_a_launcher_of_roots_left(&booted);
                serves_two_users(&booted);
                has_no_session_of_its_own(&booted);
                does_not_start_with_less(&booted);
                gives_sessions_uids_of_their_own(&booted);
                says_what_keeps_it_from_making_namespaces(&booted);
            }
            Mode::User => {
                let mut launcher = Command::new(binary("palisade-launcher"));
                launcher.arg("--system").stdin(Stdio::null());
                let refused = mode.act(|| launcher.output().expect("it starts"));
                assert_eq!(refused.status.code(), Some(1));
                let why = "(--system) lacks CAP_SYS_ADMIN, CAP_SYS_CHROOT, CAP_SETUID, ";
                assert!(text(&refused.stderr).contains(why), "{}", text(&refused.stderr));
            }
        }
    }
}

/// By the drop-in that the documentation has for it.
fn gives_sessions_uids_of_their_own(booted: &Booted) {
    let page = include_str!("../../../docs/operations.md");
    let (_, rest) = page.split_once("### Uids of sessions\n").expect("the documentation");
    let drop_in = rest.split("```ini\n").nth(1).and_then(|rest| rest.split("```").next());
    let write = format!(
        "rm -rf /etc/systemd/system/{LAUNCHER}.d; mkdir /etc/systemd/system/{LAUNCHER}.d
         cat >/etc/systemd/system/{LAUNCHER}.d/uids.conf <<'E'\n{}E
         echo 'identity = \"throwaway\"' >/etc/palisade/palisaded.toml
         systemctl daemon-reload; systemctl restart {LAUNCHER} {BROKER}",
        drop_in.expect("a drop-in")
    );
    booted.ok(&["bash", "-euc", &write]);
    let line = "--workspace /srv/disk/alice/work -- 'id -u; id -un; cat kept; echo own >own'";
    assert_eq!(booted.served(line), "600000\nalice\nkept\n");
    let made = booted.ok(&["stat", "-c", "%U:%G %a", "/srv/disk/alice/work/own"]);
    assert_eq!(made, "alice:alice 644");
    // The root of this system is an overlay, which can not be mapped.
    let refused = booted.through("alice", "-- 'touch made'");
    assert_eq!(refused.status.code(), Some(125), "{}", text(&refused.stderr));
    assert!(text(&refused.stderr).contains("\"/\" (overlay) can not be mapped"), "{refused:?}");
    assert!(!booted.ok(&["ls", "/home/alice/work"]).contains("made"));
}

/// Units that forbid namespaces, the launcher's and that of an ordinary user's daemon: nothing is run with
/// less, and who is refused is told which line of which unit has to be another.
fn says_what_keeps_it_from_making_namespaces(booted: &Booted) {
    let directory = format!("/etc/systemd/system/{LAUNCHER}.d");
    let with = |drop_in: &str| {
        let write = format!(
            "rm -rf {directory}/less.conf; {drop_in}
             systemctl daemon-reload; systemctl restart {LAUNCHER} {BROKER}"
        );
        booted.ok(&["bash", "-euc", &write]);
    };
    let refused = |output: std::process::Output, why: &[&str]| {
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(why.iter().all(|why| said.contains(why)), "{said}");
        assert!(!booted.ok(&["ls", "/srv/disk/alice/work"]).contains("forbidden"), "{said}");
    };
    let line = "--workspace /srv/disk/alice/work -- 'touch forbidden'";
    // Uids of their own take a user namespace, which a unit can forbid.
    let less = "RestrictNamespaces=\\nRestrictNamespaces=cgroup ipc mnt net pid uts";
    with(&format!("printf '[Service]\\n{less}\\n' >{directory}/less.conf"));
    let user = "make a user namespace (a unit's RestrictNamespaces= has to allow `user`)";
    refused(booted.through("alice", line), &["step \"mapping\" of the cell failed: ", user]);
    let none = format!(
        "rm /etc/palisade/palisaded.toml {directory}/uids.conf
         printf '[Service]\\nRestrictNamespaces=yes\\n' >{directory}/less.conf"
    );
    with(&none);
    let filter = "a system call filter is in force: RestrictNamespaces= of the unit must allow ";
    let wanted = format!("{filter}cgroup, ipc, mnt, net, pid, user and uts");
    refused(booted.through("alice", line), &["the profile requires mount, ", &wanted]);
    let doctor = booted.line_of("alice", "palisade doctor").output().expect("nsenter");
    let doctor = text(&doctor.stdout);
    assert!(
        doctor.contains(&wanted) && doctor.contains("`systemctl cat palisade-launcher`"),
        "{doctor}"
    );
    with("true");
    assert_eq!(booted.served("-- 'echo served'"), "served\n");
    let own = |setting: &str| {
        let line = "cd /srv/disk/alice/work && palisade run --profiles /etc/palisade/profiles -- \
                    'touch forbidden; ls'";
        let unit = ["systemd-run", "--uid=alice", "--gid=alice", "--wait", "--pipe", "--quiet"];
        let home = ["--setenv=HOME=/home/alice", setting, "bash", "-c", line];
        booted.run(&[&unit[..], &home].concat())
    };
    let wanted = format!("{filter}`user`; the filter of a container must allow unshare(2)");
    let forbidden = own("--property=RestrictNamespaces=yes");
    refused(
        forbidden,
        &["the profile requires mount, ", "user namespaces are unavailable: unshare: ", &wanted],
    );
    let allowed = own("--property=RestrictNamespaces=no");
    assert!(text(&allowed.stdout).contains("forbidden\n"), "{}", text(&allowed.stderr));
}

const STATE: &str = "/var/lib/palisade-launcher";

fn takes_over_what_a_launcher_of_roots_left(booted: &Booted) {
    let leave = format!(
        "install -d -m 711 {STATE} && install -d -m 700 {STATE}/3/7/upper && cd {STATE}/3/7 && \
         touch upper/file && chown -R alice: . && chmod 0 upper"
    );
    booted.ok(&["bash", "-euc", &leave]);
    assert_eq!(booted.served("-- 'echo first'"), "first\n");
    until("what was left is removed", || booted.ok(&["ls", "-A", STATE]).is_empty());
    let owned = booted.ok(&["stat", "-c", "%U:%G %a", STATE]);
    assert_eq!(owned, "palisade-launcher:palisade-launcher 711");
}

/// The launcher's command line in a drop-in, with these options besides.
fn with_options(booted: &Booted, options: &str) {
    let command = "/usr/bin/palisade-launcher --system --broker-user palisade";
    let write = format!(
        "mkdir -p /etc/systemd/system/{LAUNCHER}.d
         printf '[Service]\\nExecStart=\\nExecStart=%s\\n' '{command} {options}' \
             >/etc/systemd/system/{LAUNCHER}.d/options.conf
         systemctl daemon-reload; systemctl restart {LAUNCHER} {BROKER} || true"
    );
    booted.ok(&["bash", "-euc", &write]);
}

/// Returns the broker's answer to a client that names a workspace without having looked at it.
fn opened(booted: &Booted, user: &str, whose: &str) -> String {
    let ask = format!(
        "import json, socket
s = socket.socket(socket.AF_UNIX); s.connect('/run/palisade/agent.sock'); f = s.makefile('rw')
for id, method, params in [(1, 'hello', {{'version': 1, 'client': 'test'}}),
                           (2, 'open', {{'workspace': '/srv/disk/{whose}/work'}})]:
    f.write(json.dumps({{'jsonrpc': '2.0', 'id': id, 'method': method, 'params': params}}) + chr(10))
    f.flush(); said = json.loads(f.readline())
print(said['result']['kind'] if 'result' in said else json.dumps(said['error']))"
    );
    let ids = ["setpriv", "--reuid", user, "--regid", user, "--init-groups"];
    booted.ok(&[&ids[..], &["python3", "-c", &ask]].concat())
}

/// Calls, jobs, hidden names, and transactions in memory and on the disk, each as who asked.
fn serves_two_users(booted: &Booted) {
    let profile = palisade_tests::profile_with(&[
        ("[transactions]\n", "[transactions]\nupper = \"disk\"\n"),
        ("[fs]\n", "[fs]\nhide = [\".env\"]\n"),
    ]);
    // A file system that both the store and the workspaces are on, and that layers can be on.
    let prepare = format!(
        "usermod --append --groups palisade-users bob
         mkdir -p /etc/palisade/profiles /srv/disk
         cat >/etc/palisade/profiles/disk.toml <<'E'\n{profile}\nE
         mount -t tmpfs tmpfs /srv/disk
         install -d -m 711 -o palisade-launcher /srv/disk/store
         for who in alice bob; do
             install -d -m 700 -o $who -g $who /srv/disk/$who /srv/disk/$who/work
             cd /srv/disk/$who/work
             echo secret >.env; echo kept >kept
             echo 'import os; os.remove(\"kept\")' >wipe.py
             printf 'echo here\\nexec sleep 1000\\n' >wait.sh
             chown $who: .env *
         done"
    );
    booted.ok(&["bash", "-euc", &prepare]);
    with_options(booted, "--store /srv/disk/store");
    for (user, other, uid) in [("alice", "bob", "4343"), ("bob", "alice", "4344")] {
        let run = |options: &str, line: &str| {
            booted
                .through(user, &format!("--workspace /srv/disk/{user}/work {options} -- '{line}'"))
        };
        for (profile, env) in [("--profile disk", ""), ("", "secret\n")] {
            let said = run(profile, "id -u; id -G; cat .env; echo mine >>made; stat -c %u:%g made");
            let expected = format!("{uid}\n{uid}\n{env}{uid}:{uid}\n");
            assert_eq!(text(&said.stdout), expected, "{}", text(&said.stderr));
            let denied = run(profile, "python3 wipe.py");
            assert_eq!(denied.status.code(), Some(126), "{}", text(&denied.stderr));
            assert_eq!(booted.ok(&["cat", &format!("/srv/disk/{user}/work/kept")]), "kept");
        }
        // With the session's rights, not with the launcher's: what is another's stays so.
        assert_eq!(opened(booted, user, user), "opened");
        let denied = opened(booted, user, other);
        assert!(denied.contains("the session's user may not enter it"), "{denied}");
        let job = r#"palisade call bash --json --args '{"command": "id -u; sleep 100", "background": true}'"#;
        let job = booted.line_of(user, job).stdin(Stdio::null()).output().expect("nsenter");
        let job: Value = serde_json::from_slice(&job.stdout).expect("JSON");
        assert_eq!(
            (&job["success"], &job["receipt"]["uid"].to_string()),
            (&true.into(), &uid.to_owned()),
            "{job}"
        );
    }
    let line = "exec palisade run --socket /run/palisade/agent.sock --workspace /srv/disk/alice/work \
                --profile disk -- 'sh wait.sh'";
    let mut call = booted.line_of("alice", line);
    let call = call.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut call = call.spawn().expect("nsenter");
    let kept = || {
        let find = ["find", "/srv/disk/store", "-mindepth", "1", "-maxdepth", "2"];
        let kept = booted.ok(&[&find[..], &["-printf", "%d %u %m\n"]].concat());
        kept.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    let layers =
        |kept: &[String]| kept.iter().filter(|one| *one == "2 palisade-launcher 700").count();
    until("a layer is on the disk", || {
        let kept = kept();
        layers(&kept) > 0 && layers(&kept) + 1 == kept.len()
    });
    booted.ok(&["pkill", "-f", "^palisade run .*wait.sh"]);
    assert!(!call.wait().expect("wait").success());
    until("it is removed with its call", || kept() == ["1 palisade-launcher 700"]);
}

/// Whatever the ceiling says.
fn has_no_session_of_its_own(booted: &Booted) {
    let prepare = "useradd --system low; for who in palisade-launcher low; do
                   install -d -o $who /srv/disk/own-$who; done";
    booted.ok(&["bash", "-euc", prepare]);
    let run = |user: &str| {
        let line = format!(
            "cd /srv/disk/own-{user} && palisade run --socket /run/palisade/agent.sock -- 'touch made; id -un'"
        );
        let ids = ["setpriv", "--reuid", user, "--regid", "palisade-users", "--clear-groups"];
        booted.run(&[&ids[..], &["bash", "-c", &line]].concat())
    };
    let refused = |user: &str, why: &str| {
        let refused = run(user);
        assert_eq!(refused.status.code(), Some(125), "{}", text(&refused.stderr));
        assert!(text(&refused.stderr).contains(why), "{}", text(&refused.stderr));
        assert_eq!(booted.ok(&["ls", &format!("/srv/disk/own-{user}")]), "");
    };
    refused("low", "the lowest that the ceiling allows is 1000");
    with_options(booted, "--min-uid 1");
    assert_eq!(text(&run("low").stdout), "low\n");
    refused("palisade-launcher", "is the launcher's own, and no session may run as it");
    // Nor is it the broker.
    with_options(booted, "--broker-user palisade-launcher");
    let journal = || booted.ok(&["journalctl", "--no-pager", "-u", LAUNCHER]);
    let why = "the launcher itself runs as palisade-launcher; the broker must run as another user";
    until("it says why", || journal().contains(why));
    booted.ok(&["rm", "-r", &format!("/etc/systemd/system/{LAUNCHER}.d")]);
}

fn does_not_start_with_less(booted: &Booted) {
    let write = format!(
        "mkdir -p /etc/systemd/system/{LAUNCHER}.d
         printf '[Service]\\nAmbientCapabilities=~CAP_KILL CAP_SETPCAP\\n' \
             >/etc/systemd/system/{LAUNCHER}.d/less.conf
         systemctl daemon-reload; systemctl stop {LAUNCHER} {BROKER}"
    );
    booted.ok(&["bash", "-euc", &write]);
    assert_ne!(booted.run(&["systemctl", "start", LAUNCHER]).status.code(), Some(0));
    let journal = booted.ok(&["journalctl", "--no-pager", "-u", LAUNCHER]);
    assert!(journal.contains("(--system) lacks CAP_SETPCAP, CAP_KILL; "), "{journal}");
}
