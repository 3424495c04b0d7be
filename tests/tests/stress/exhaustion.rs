//! A disk, descriptors or memory run out, and come back; the clock is another. Each is a clear
//! error, nothing is half done, whoever looks can see it, and it mends itself.

use palisade_audit::verify;
use palisade_client::{Error, Open};
use palisade_protocol::{CallResult, ErrorCode};
use palisade_tests::{
    Daemon, Mode, Sandbox, UNASKED, World, profile_with,
    raw::{DIALECTS, Raw},
    rooms::{Before, Rooms, status, until},
};
use serde_json::{Value, json};
use std::{
    fs::{self, File},
    io::Write as _,
    os::unix::process::CommandExt as _,
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

/// Does what it is told by a FIFO beside the daemon, where the daemon's mounts are: fills a disk,
/// empties it, or shows the log to who can not look there.
const KEEPER: &str = r#"while read -r act; do case $act in
    fill) head -c 1G /dev/zero > $disk/filler;;
    free) rm $disk/filler;;
    show) rm -rf $outside/shown; mkdir $outside/shown; cp $state/audit/* $outside/shown/;;
    esac; : > $outside/done; done < $outside/tell > /dev/null 2>&1 & "#;

/// A daemon one of whose directories is a small disk of its own.
struct Narrow {
    sandbox: Sandbox,
    tell: File,
    world: World,
}

impl Narrow {
    fn new(mode: Mode, disk: impl Fn(&World) -> PathBuf, profile: &str) -> Self {
        let world = World::new(mode);
        world.add_unasked("narrow", profile);
        let outside = world.outside();
        rustix::fs::mkfifoat(rustix::fs::CWD, outside.join("tell"), rustix::fs::Mode::RWXU)
            .unwrap();
        world.give(&outside.join("tell"));
        let script = format!(
            "export disk={} outside={} state={}
             mount -t tmpfs -o size=2m,mode=0755,uid={uid},gid={uid} tmpfs $disk || exit
             {KEEPER} exec setpriv --ambient-caps=-all --inh-caps=-all \"$@\"",
            disk(&world).display(),
            outside.display(),
            world.state().display(),
            // In a user namespace it is whoever makes it.
            uid = mode.uid(),
        );
        fs::write(outside.join("start"), script).unwrap();
        world.give(&outside.join("start"));
        let unshare = match mode {
            Mode::System => "unshare --mount",
            Mode::User => "unshare --user --map-current-user --keep-caps --mount",
        };
        let line = format!("exec {unshare} -- bash ../outside/start \"$@\"");
        let (stream, daemon) = world.embedded_by(mode, &line);
        let tell = File::create(outside.join("tell")).unwrap();
        let open = Open::new(world.workspace()).profile("narrow");
        let sandbox = Sandbox::over(stream, Some(daemon), open).unwrap();
        Self { sandbox, tell, world }
    }

    /// Has the keeper do something.
    fn tell(&mut self, act: &str) {
        let done = self.world.outside().join("done");
        fs::remove_file(&done).unwrap_or_default();
        writeln!(self.tell, "{act}").unwrap();
        until(act, || done.exists());
    }

    fn call(&self, tool: &str, arguments: Value) -> CallResult {
        self.sandbox.call(tool, arguments)
    }

    fn assert_log_verifies(&mut self) {
        // A copy made while a record is written may have the record's head and not the record.
        let mut found = None;
        for _ in 0..20 {
            self.tell("show");
            let copied = verify(&self.world.outside().join("shown"), &[]).unwrap();
            if copied.is_good() && !copied.chains.is_empty() {
                return;
            }
            found = Some(copied);
        }
        panic!("{found:?}");
    }
}

fn code(result: &CallResult) -> Option<ErrorCode> {
    result.error.as_ref().map(|error| error.code)
}

#[test]
fn a_full_state_directory_refuses_calls_until_there_is_room() {
    for mode in Mode::all() {
        let mut narrow = Narrow::new(mode, World::state, &profile_with(&[]));
        assert_eq!(narrow.sandbox.ok("echo old > file; cat file"), "old\n");
        narrow.tell("fill");
        // The log has the rest of its last block; then nothing can be recorded, and so done.
        // If the undo record of a change finds no room before that, the change is not made.
        let refused = (0..200).find_map(|n| {
            let result = narrow.call("bash", json!({"command": format!("echo {n} >> file")}));
            result.error.filter(|error| error.code == ErrorCode::AuditFailed)
        });
        let error = refused.expect("a log on a full disk takes no more");
        assert!(error.message.contains("No space left"), "{error}");
        assert!(error.hint.contains("make room"), "{error}");
        let text = fs::read_to_string(narrow.world.workspace().join("file"));
        for (tool, arguments) in [
            ("bash", json!({"command": "echo more >> file"})),
            ("write_file", json!({"path": "file", "content": "new"})),
            ("edit", json!({"path": "file", "old_string": "old", "new_string": "new"})),
            ("delete_file", json!({"path": "file"})),
        ] {
            let result = narrow.call(tool, arguments);
            assert_eq!(code(&result), Some(ErrorCode::AuditFailed), "{mode:?} {tool}");
        }
        let now = fs::read_to_string(narrow.world.workspace().join("file"));
        assert_eq!(now.unwrap(), text.unwrap(), "{mode:?}: something was done");
        let status = narrow.sandbox.wait(narrow.sandbox.client.status()).unwrap();
        assert!(status.broker.starts_with("NOT RECORDING ("), "{}", status.broker);
        narrow.tell("free");
        assert_eq!(narrow.sandbox.ok("echo new > file; cat file"), "new\n");
        let status = narrow.sandbox.wait(narrow.sandbox.client.status()).unwrap();
        assert!(status.broker.starts_with("pid "), "{}", status.broker);
        narrow.assert_log_verifies();
    }
}

/// With room for records, but not for what a call would keep.
#[test]
fn what_does_not_fit_into_the_state_directory_is_said_and_nothing_is_lost() {
    for mode in Mode::all() {
        let mut narrow = Narrow::new(mode, World::state, &profile_with(&[]));
        let large = "x".repeat(3 << 20);
        let path = narrow.world.workspace().join("large");
        fs::write(&path, &large).unwrap();
        narrow.world.give(&path);
        // Content that can not be stored for undo is not lost.
        for (tool, arguments) in [
            ("write_file", json!({"path": "large", "content": "small"})),
            ("delete_file", json!({"path": "large"})),
        ] {
            let result = narrow.call(tool, arguments);
            let error = result.error.unwrap_or_else(|| panic!("{mode:?}: {tool} was done"));
            assert_eq!(error.code, ErrorCode::FileSystem, "{tool}: {error}");
            assert!(error.message.contains("No space left"), "{tool}: {error}");
            assert!(!error.hint.is_empty(), "{tool}: {error}");
            assert!(fs::read_to_string(&path).unwrap() == large, "{mode:?}: {tool} changed it");
        }
        // A result stands without its spool, and says how much of it there is not.
        let result = narrow.sandbox.bash("head -c 4000000 /dev/zero | tr '\\0' y");
        assert!(result.success && result.truncated, "{mode:?}: {:?}", result.error);
        assert_eq!(result.spool, None, "{mode:?}");
        assert!(result.omitted_bytes > 3_000_000, "{mode:?}: {}", result.omitted_bytes);
        // Nothing of these attempts is in the way of the next.
        let small = json!({"path": "small", "content": "small"});
        assert!(narrow.call("write_file", small).success);
        narrow.assert_log_verifies();
    }
}

#[test]
fn a_full_workspace_keeps_its_files_whole() {
    for mode in Mode::all() {
        for guard in ["auto", "transaction"] {
            let guarded = profile_with(&[("guard = \"auto\"", &format!("guard = \"{guard}\""))]);
            let mut narrow = Narrow::new(mode, World::workspace, &guarded);
            let write = |content: &str| json!({"path": "file", "content": content});
            assert!(narrow.call("write_file", write("old")).success);
            let large = "x".repeat(3 << 20);
            let mut attempts = vec![("write_file", write(&large))];
            if guard == "transaction" {
                // All of it or nothing: half a file is not what a command left.
                let line = "head -c 3000000 /dev/zero > file; echo done";
                attempts.push(("bash", json!({ "command": line })));
            }
            for (tool, arguments) in attempts {
                let result = narrow.call(tool, arguments);
                let error = result.error.unwrap_or_else(|| panic!("{mode:?}: {tool} was done"));
                assert_eq!(error.code, ErrorCode::FileSystem, "{tool}: {error}");
                assert!(error.message.to_lowercase().contains("no space left"), "{tool}: {error}");
            }
            assert_eq!(narrow.call("read_file", json!({"path": "file"})).output, "old");
            let listed = narrow.sandbox.ok("ls -A");
            assert_eq!(listed, "file\n", "{mode:?}: something is left over");
            assert!(narrow.call("write_file", write("new")).success);
            assert_eq!(narrow.call("read_file", json!({"path": "file"})).output, "new");
            narrow.assert_log_verifies();
        }
    }
}

/// Sets a limit of a running process. Only who has its uid and gid may do that.
fn limit(pid: i32, what: &str) {
    let id = |name: &str| -> u32 {
        status(pid, name).split_whitespace().next().unwrap().parse().unwrap()
    };
    let mut prlimit = Command::new("prlimit");
    prlimit.args(["--pid", &pid.to_string(), &format!("--{what}")]);
    if rustix::process::geteuid().is_root() {
        prlimit.uid(id("Uid")).gid(id("Gid"));
    }
    assert!(prlimit.status().expect("prlimit of util-linux").success());
}

/// The soft limit of descriptors that a process has.
fn descriptors(pid: i32) -> String {
    let limits = fs::read_to_string(format!("/proc/{pid}/limits")).unwrap();
    let line = limits.lines().find(|line| line.starts_with("Max open files")).unwrap();
    line.split_whitespace().nth(3).unwrap().to_owned()
}

fn over(daemon: &Daemon, world: &World) -> Result<Sandbox, Error> {
    let open = Open::new(world.workspace()).profile(UNASKED);
    Sandbox::over(daemon.connect(world.mode), None, open)
}

#[test]
fn a_broker_without_descriptors_says_so_and_serves_when_it_has_some() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let sandbox = over(&daemon, &world).unwrap();
        assert_eq!(sandbox.ok("echo before"), "before\n");
        let broker = daemon.child.id().cast_signed();
        let usual = descriptors(broker);
        // Below what it has open: not one more.
        limit(broker, "nofile=3:");
        let waiting = daemon.connect(mode);
        for line in ["echo 1 > made", "head -c 400000 /dev/zero"] {
            match sandbox.wait(async { sandbox.session.bash(line).await }) {
                // A call that needs no descriptor goes on.
                Ok(result) if result.success => {}
                Ok(result) => {
                    let error = result.error.unwrap();
                    assert!(!error.message.is_empty(), "{error}");
                }
                Err(error) => panic!("{mode:?}: no typed answer: {error}"),
            }
        }
        // Read back to the limit it had: who came meanwhile is let in without coming again.
        limit(broker, &format!("nofile={usual}:"));
        let mut raw = Raw::greeted(waiting, DIALECTS[0]);
        let reply = raw.ask(palisade_protocol::Request::Ping);
        assert!(matches!(reply, palisade_protocol::Reply::Pong), "{reply:?}");
        assert_eq!(sandbox.ok("echo after; head -c 400000 /dev/zero | wc -c"), "after\n400000\n");
        assert_eq!(over(&daemon, &world).unwrap().ok("echo next"), "next\n");
        let found = verify(&world.state().join("audit"), &[]).unwrap();
        assert!(found.is_good(), "{found:?}");
    }
}

#[test]
fn a_launcher_without_descriptors_refuses_sessions_until_it_has_some() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let sandbox = over(&daemon, &world).unwrap();
        // All that it needs of the launcher is there.
        assert_eq!(sandbox.ok("echo begun"), "begun\n");
        let launcher = Rooms::of(daemon.child.id()).inner.pid;
        let usual = descriptors(launcher);
        limit(launcher, "nofile=3:");
        let mut refused = Vec::new();
        // Cells that were made ahead may be had.
        for _ in 0..8 {
            match over(&daemon, &world) {
                Ok(sandbox) => assert_eq!(sandbox.ok("echo ahead"), "ahead\n"),
                Err(Error::Remote(error)) => refused.push(error),
                Err(error) => panic!("{mode:?}: no typed answer: {error}"),
            }
        }
        assert!(!refused.is_empty(), "{mode:?}: it needs no descriptors");
        assert!(refused.iter().all(|error| !error.message.is_empty()), "{refused:?}");
        limit(launcher, &format!("nofile={usual}:"));
        until("sessions are to be had again", || over(&daemon, &world).is_ok());
        assert_eq!(sandbox.ok("echo the first"), "the first\n");
        assert_eq!(over(&daemon, &world).unwrap().ok("echo next"), "next\n");
    }
}

/// A room that is refused memory ends; what it ran ends with it, and the next start works.
#[test]
fn a_room_without_memory_ends_and_leaves_nothing() {
    for mode in Mode::all() {
        let world = World::new(mode);
        fs::write(world.workspace().join("old"), "old").unwrap();
        world.give(&world.workspace().join("old"));
        for room in ["broker", "launcher", "files"] {
            let before = Before::look();
            let mut daemon = world.daemon();
            let sandbox = over(&daemon, &world).unwrap();
            let rooms = Rooms::of(daemon.child.id());
            let pid = match room {
                "broker" => rooms.broker.pid,
                "launcher" => rooms.inner.pid,
                _ => rooms.cell("cell 1 files").pid,
            };
            limit(pid, "as=4096:");
            let content = vec![b'x'; 8 << 20];
            let write = sandbox.session.call("write_file", json!({"path": "old"})).attach(content);
            match sandbox.wait(async { write.timeout(Duration::from_secs(60)).await }) {
                Ok(result) => assert!(result.success || result.error.is_some(), "{result:?}"),
                Err(Error::Remote(error)) => assert!(!error.message.is_empty()),
                Err(Error::Disconnected(_)) => {}
                Err(error) => panic!("{mode:?} {room}: no typed answer: {error}"),
            }
            assert_whole(&world.workspace().join("old"));
            drop(sandbox);
            daemon.child.kill().unwrap_or_default();
            daemon.child.wait().unwrap();
            drop(daemon);
            before.assert_nothing_left();
            assert_eq!(world.open().ok("echo next"), "next\n", "{mode:?} {room}");
            let found = verify(&world.state().join("audit"), &[]).unwrap();
            assert!(found.is_good(), "{mode:?} {room}: {found:?}");
        }
    }
}

fn assert_whole(path: &Path) {
    let content = fs::read(path).unwrap();
    let new = content.len() == 8 << 20 && content.iter().all(|byte| *byte == b'x');
    assert!(new || content == b"old", "{} bytes", content.len());
}

/// Three years after the machine was started, by the clock that deadlines go by.
#[test]
fn deadlines_hold_whatever_the_machines_clock_says() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let unshare = match mode {
            Mode::System => "unshare",
            Mode::User => "unshare --user --map-current-user",
        };
        let line = format!(
            "exec {unshare} --time --monotonic 100000000 --boottime 100000000 -- \
             setpriv --ambient-caps=-all --inh-caps=-all \"$@\""
        );
        let (stream, daemon) = world.embedded_by(mode, &line);
        let pid = daemon.id().cast_signed();
        let open = Open::new(world.workspace()).profile(UNASKED);
        let sandbox = Sandbox::over(stream, Some(daemon), open).unwrap();
        // The clock is the daemon's: what runs inside is told the same.
        let uptime = sandbox.ok("cut -d. -f1 /proc/uptime").trim().parse::<u64>().unwrap();
        assert!(uptime > 100_000_000, "{mode:?}: {uptime} of {pid}");
        let call = sandbox.session.bash("sleep 1000").timeout(Duration::from_millis(300));
        let result = sandbox.wait(async { call.await }).unwrap();
        assert!(result.timed_out, "{mode:?}: {:?}", result.error);
        assert!(result.execution_time_ms < 60_000, "{mode:?}: {}", result.execution_time_ms);
        let write = json!({"path": "file", "content": "new"});
        let written = sandbox.done("write_file", write);
        assert!(sandbox.done("undo", json!({"call_id": written.call_id.to_string()})).success);
        assert!(!world.workspace().join("file").exists(), "{mode:?}");
        drop(sandbox);
        let found = verify(&world.state().join("audit"), &[]).unwrap();
        assert!(found.is_good(), "{found:?}");
    }
}
