//! Nothing of one call or session shows in another, nor in the daemon: limits, umask, current
//! directory, environment, grants.

use palisade_client::Open;
use palisade_protocol::ErrorCode;
use palisade_tests::{
    Mode, Sandbox, UNASKED, World, profile_with,
    rooms::{Rooms, awaited},
};
use serde_json::json;
use std::{collections::BTreeMap, fs, time::Duration};

/// Returns the state of a process that a careless sandbox would change: limits, umask, priority,
/// the domain it could have been put into, and, where the tests may look, its current directory.
fn state(pid: i32) -> BTreeMap<&'static str, String> {
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    let status = read("status");
    let line = |key: &str| {
        let found = status.lines().find(|line| line.starts_with(key));
        found.unwrap_or_default().to_owned()
    };
    let stat = read("stat");
    let fields: Vec<_> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let mut state = BTreeMap::from([
        ("limits", read("limits")),
        ("umask", line("Umask")),
        ("seccomp", line("Seccomp")),
        ("no_new_privs", line("NoNewPrivs")),
        ("signals", line("SigIgn")),
        ("nice", fields[16].to_owned()),
    ]);
    if rustix::process::geteuid().is_root() {
        let cwd = fs::read_link(format!("/proc/{pid}/cwd")).unwrap();
        state.insert("cwd", cwd.display().to_string());
    }
    state
}

/// Changes everything that a program can change of itself.
const CHANGE: &str = "mkdir -p deeper; cd deeper; umask 077; ulimit -Sn 64; ulimit -Hn 64; \
    ulimit -Sf 1; ulimit -c 0; export LEAK=1; renice -n 5 $$ >/dev/null; trap '' TERM; set -f";

#[test]
fn what_a_call_changes_of_itself_changes_neither_the_daemon_nor_the_next_call() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let open = || Open::new(world.workspace()).profile(UNASKED);
        let sandbox = Sandbox::over(daemon.connect(mode), None, open()).unwrap();
        let beside = Sandbox::over(daemon.connect(mode), None, open()).unwrap();
        let show = "umask; ulimit -Sn; ulimit -Hn; ulimit -f; echo ${LEAK-none}; nice; \
            grep SigIgn /proc/self/status; echo $-; grep Cpus_allowed: /proc/self/status";
        let first = sandbox.ok(show);
        assert_eq!(first.lines().next(), Some("0022"));
        // A shell that is just being started for the next call looks like a program.
        let rooms = awaited("cells that wait, and no program", || {
            let rooms = Rooms::of(daemon.child.id());
            let waiting = rooms.cells.iter().filter(|cell| cell.name == "palisade-cell").count();
            (waiting == 2 && rooms.payload.is_empty()).then_some(rooms)
        });
        let look = || rooms.all().map(|room| (room.pid, state(room.pid))).collect::<Vec<_>>();
        let before = look();
        let changed = sandbox.ok(&format!("{CHANGE}; {show}"));
        assert_ne!(changed, first, "control: inside the call it is changed");
        assert!(changed.starts_with("0077\n64\n64\n"), "{changed}");
        // The runner shares one thing with its program, so that the next call starts where this
        // one ended: directory and umask. It sets both anew each time, as is shown below.
        let runner = rooms.cell("cell 1 run").pid;
        for ((pid, before), (_, after)) in before.iter().zip(look()) {
            let mut after = after;
            for key in ["cwd", "umask"] {
                if let (true, Some(value)) = (*pid == runner, before.get(key)) {
                    after.insert(key, value.clone());
                }
            }
            assert_eq!(before, &after, "{:?}", rooms.all().find(|room| room.pid == *pid));
        }
        assert_eq!(sandbox.ok(show), first);
        let workspace = world.workspace().display().to_string();
        // The current directory is a session's, on purpose, and only that session's.
        assert_eq!(sandbox.ok("pwd"), format!("{workspace}/deeper\n"));
        assert_eq!(beside.ok("pwd"), format!("{workspace}\n"));
        assert_eq!(beside.ok(show), first);
        // Files that tools make have the session's umask, not the call's.
        assert!(sandbox.call("write_file", json!({"path": "plain", "content": ""})).success);
        let made = fs::metadata(world.workspace().join("deeper/plain")).unwrap();
        assert_eq!(std::os::unix::fs::PermissionsExt::mode(&made.permissions()) & 0o777, 0o644);
        let fresh = Sandbox::over(daemon.connect(mode), None, open()).unwrap();
        assert_eq!(fresh.ok(show), first);
        assert_eq!(fresh.ok("pwd"), format!("{workspace}\n"));
    }
}

#[test]
fn two_sessions_in_one_workspace_have_each_its_own_grants() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let reading = [
            ("workspace = \"write\"", "workspace = \"read\""),
            ("allow_delete = true", "allow_delete = false"),
            ("[tools]\ndeny = []", "[tools]\ndeny = [\"write_file\"]"),
        ];
        world.add_unasked("reading", &profile_with(&reading));
        let daemon = world.daemon();
        let over = |profile: &str| {
            let open = Open::new(world.workspace()).profile(profile);
            Sandbox::over(daemon.connect(mode), None, open).unwrap()
        };
        let (writer, reader) = (over(UNASKED), over("reading"));
        fs::write(world.workspace().join("shared"), "first\n").unwrap();
        world.give(&world.workspace().join("shared"));
        // Both at once, each over and over, so that their calls lie between each other's.
        let write = "for n in $(seq 200); do echo $n > shared || exit 1; done; echo wrote";
        let read = "for n in $(seq 200); do (echo bad > shared) 2>/dev/null && exit 1; \
            (touch made) 2>/dev/null && exit 2; test -s shared && cat shared > /dev/null; done; echo kept out";
        let calls = [(&writer, write), (&reader, read), (&writer, write), (&reader, read)];
        let running: Vec<_> = calls
            .iter()
            .map(|(sandbox, line)| {
                let call = sandbox.session.bash(*line).timeout(Duration::from_secs(300));
                (sandbox, sandbox.wait(async { call.start().await }).unwrap())
            })
            .collect();
        for n in 0..20 {
            let path = format!("by-tool-{n}");
            let arguments = || json!({"path": path, "content": "x"});
            let refused = reader.call("write_file", arguments());
            assert_eq!(refused.error.unwrap().code, ErrorCode::Denied);
            assert!(!world.workspace().join(&path).exists());
            assert!(reader.call("list_files", json!({"path": "."})).success);
        }
        let results: Vec<_> = running
            .into_iter()
            .map(|(sandbox, running)| sandbox.wait(running.result()).unwrap().stdout)
            .collect();
        assert_eq!(results, ["wrote\n", "kept out\n", "wrote\n", "kept out\n"]);
        let told = reader.probe("write:shared append:shared remove:shared mkdir:made read:shared");
        assert_eq!(
            told,
            [
                "write:shared=EROFS",
                "append:shared=EROFS",
                "remove:shared=EROFS",
                "mkdir:made=EROFS",
                "read:shared=ok"
            ]
        );
        assert_eq!(fs::read_to_string(world.workspace().join("shared")).unwrap(), "200\n");
        assert!(!world.workspace().join("made").exists());
        // Each has its own private files, in the same place.
        assert_eq!(writer.ok("echo mine > /tmp/private; cat /tmp/private"), "mine\n");
        assert_eq!(reader.probe("stat:/tmp/private"), ["stat:/tmp/private=ENOENT"]);
        // The end of one is not the end of the other's rights, nor the beginning.
        drop(writer);
        assert_eq!(reader.probe("write:shared"), ["write:shared=EROFS"]);
        drop(reader);
        assert_eq!(over(UNASKED).probe("write:shared"), ["write:shared=ok"]);
    }
}
