//! A session uses up only its own resources: processes, memory, files, descriptors, time on the
//! processor. The daemon and other sessions go on.

use palisade_client::{JobStatus, Open};
use palisade_protocol::{CallResult, ErrorCode, LimitReceipt};
use palisade_tests::{
    Mode, Sandbox, UNASKED, World, processes,
    rooms::{self, Rooms},
};
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

/// A session that is soon full.
pub(crate) const PROFILE: &str = r#"
version = 1
description = "for tests of limits"
# What is made does not count as the session's memory, and is seen at once.
guard = "off"
[fs]
workspace = "write"
execute = ["!/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"]
etc = ["passwd", "group", "ld.so.cache"]
[env]
path = ["/usr/bin", "/bin"]
[limits]
memory = "96 MiB"
processes = 40
file_size = "32 MiB"
open_files = 64
tmp = "8 MiB"
kill_grace_ms = 300
[layers]
optional = ["limits"]
"#;

const MIB: u64 = 1 << 20;

fn open(mode: Mode) -> (World, Sandbox) {
    open_as(mode, PROFILE)
}

fn open_as(mode: Mode, profile: &str) -> (World, Sandbox) {
    let world = World::new(mode);
    world.add_unasked("full", profile);
    let sandbox = world.open_with("full");
    (world, sandbox)
}

/// A limit of a session, as its receipt has it.
fn limit(sandbox: &Sandbox, name: &str) -> Option<LimitReceipt> {
    sandbox.session.receipt().limits.iter().find(|limit| limit.name == name).cloned()
}

/// Returns `true` if a cgroup holds a limit for the whole session; else an rlimit does for each process.
fn by_cgroup(sandbox: &Sandbox, name: &str) -> bool {
    limit(sandbox, name).is_some_and(|limit| limit.by.starts_with("cgroup"))
}

/// The one answer of a probe.
fn answer(result: &CallResult) -> &str {
    result.stdout.trim().rsplit('=').next().unwrap_or_default()
}

/// Returns the directory of a controller's cgroups on the host, if there is one.
fn hierarchy(controller: &str) -> Option<PathBuf> {
    let v1 = Path::new("/sys/fs/cgroup").join(controller);
    let all = fs::read_to_string("/sys/fs/cgroup/cgroup.controllers").unwrap_or_default();
    let v2 = all.split_whitespace().any(|name| name == controller);
    if v1.is_dir() { Some(v1) } else { v2.then(|| "/sys/fs/cgroup".into()) }
}

#[test]
fn the_receipt_says_what_holds_each_limit() {
    for mode in Mode::all() {
        let (_world, sandbox) = open(mode);
        for (name, value) in [("memory", 96 * MIB), ("processes", 40)] {
            let found = limit(&sandbox, name).unwrap_or_else(|| panic!("{mode:?}: {name}"));
            assert_eq!(found.value, value, "{mode:?}: {name}");
            if mode == Mode::System && hierarchy("memory").is_some() {
                assert!(found.by.starts_with("cgroup"), "{mode:?}: {name} by {}", found.by);
            } else if !found.by.starts_with("cgroup") {
                assert_eq!(found.by, "rlimit", "{mode:?}: {name}");
            }
        }
        for (name, value) in [("file_size", 32 * MIB), ("open_files", 64), ("core", 0)] {
            let found = limit(&sandbox, name).unwrap_or_else(|| panic!("{mode:?}: {name}"));
            assert_eq!((found.value, found.by.as_str()), (value, "rlimit"), "{mode:?}: {name}");
        }
        // A limit that holds for each process only is said to be less.
        let receipt = sandbox.session.receipt();
        let less = receipt.degraded.iter().any(|degraded| degraded.layer == "limits");
        assert_eq!(less, !by_cgroup(&sandbox, "memory"), "{mode:?}: {:?}", receipt.degraded);
    }
}

#[test]
fn processes_and_threads_are_counted() {
    for mode in Mode::all() {
        let (_world, sandbox) = open(mode);
        let lines = sandbox.probe("forks:8 threads:8 forks:100 threads:100");
        let expected = ["forks:8=ok", "threads:8=ok", "forks:100=EAGAIN", "threads:100=EAGAIN"];
        assert_eq!(lines, expected, "{mode:?}");
        // It was for that call only.
        assert_eq!(sandbox.probe("forks:8"), ["forks:8=ok"], "{mode:?}");
    }
}

#[test]
fn a_fork_bomb_fills_its_own_session_only() {
    for mode in Mode::all() {
        let (_world, sandbox) = open(mode);
        let other_world = World::new(mode);
        let other = other_world.open();
        let mark = processes::mark();
        let line = format!("b() {{ b | b & }}; : {mark}; (b) 2>/dev/null & while :; do :; done");
        let call = sandbox.session.bash(line).timeout(Duration::from_secs(120));
        let running = sandbox.wait(call.start()).unwrap();
        // Watched from the host until it has been at its limit for a while.
        let (mut most, mut full) = (0, 0);
        for _ in 0..2000 {
            let now = processes::marked(&mark).len();
            most = most.max(now);
            full += usize::from(now >= 20);
            if full >= 20 {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        assert!(full >= 20, "{mode:?}: it went off: {most}");
        assert_eq!(other.ok("echo unharmed; ls / | wc -l > /dev/null"), "unharmed\n", "{mode:?}");
        sandbox.wait(running.cancel()).unwrap();
        let result = sandbox.wait(running.result()).unwrap();
        assert!(result.cancelled, "{mode:?}: {:?}", result.error);
        assert!(most <= 40, "{mode:?}: {most} processes");
        assert!(processes::marked(&mark).is_empty(), "{mode:?}");
        assert_eq!(sandbox.ok("echo alive"), "alive\n", "{mode:?}");
    }
}

/// Asserts that a session which met its limit has harmed nobody, itself included.
fn assert_unharmed(mode: Mode, sandbox: &Sandbox, other: &Sandbox, daemon_before: u32) {
    assert_eq!(sandbox.ok("echo alive"), "alive\n", "{mode:?}: the session");
    assert_eq!(other.ok("echo alive"), "alive\n", "{mode:?}: another session");
    sandbox.wait(sandbox.client.ping()).unwrap();
    let now = processes::tree(i32::try_from(daemon_before).unwrap());
    assert!(!now.is_empty(), "{mode:?}: the daemon");
}

#[test]
fn a_memory_bomb_is_killed_and_nothing_else_is() {
    for mode in Mode::all() {
        let (_world, sandbox) = open(mode);
        let other_world = World::new(mode);
        let other = other_world.open();
        let daemon = sandbox.daemon.as_ref().unwrap().id();
        for (attempt, fits) in [("memory:400", "memory:16"), ("memfd:14:24", "memfd:2:8")] {
            let result = sandbox.bash(&format!("./probe {fits}"));
            assert_eq!((answer(&result), result.oom), ("ok", false), "{mode:?}: {fits}");
            if by_cgroup(&sandbox, "memory") {
                let result = sandbox.bash(&format!("./probe {attempt}"));
                assert!(result.oom, "{mode:?}: {attempt}: {:?}", result.error);
                // Memory that no process maps is blamed on one after another of the call's own.
                let killed = answer(&result) == "SIGKILL" || result.signal == Some(9);
                assert!(killed, "{mode:?}: {attempt}: {:?}", result.error);
                let code = result.error.map(|error| error.code);
                assert!(
                    matches!(code, None | Some(ErrorCode::CommandFailed)),
                    "{mode:?}: {code:?}"
                );
            } else {
                // A process may not have more; a file, of memory too, may not be larger.
                let (attempt, refused) = match attempt {
                    "memory:400" => (attempt, "ENOMEM"),
                    _ => ("memfd:1:64", "EFBIG"),
                };
                let result = sandbox.bash(&format!("./probe {attempt}"));
                assert_eq!((answer(&result), result.oom), (refused, false), "{mode:?}: {attempt}");
            }
            assert_unharmed(mode, &sandbox, &other, daemon);
            // It is told once, of the call in which it happened.
            assert!(!sandbox.bash("true").oom, "{mode:?}");
        }
    }
}

#[test]
fn programs_are_the_first_to_go() {
    for mode in Mode::all() {
        let (_world, sandbox) = open(mode);
        let daemon = sandbox.daemon.as_ref().unwrap().id();
        let own = fs::read_to_string(format!("/proc/{daemon}/oom_score_adj")).unwrap();
        // The program, one below it, and, once it has started them, the cell's own process.
        let line = "read a < /proc/self/oom_score_adj; echo $a; cat /proc/self/oom_score_adj
            until read a < /proc/1/oom_score_adj; [ $a != 1000 ]; do sleep 0.02; done; echo $a";
        assert_eq!(sandbox.ok(line), format!("1000\n1000\n{own}"), "{mode:?}");
        let attempt = "write:/proc/self/oom_score_adj";
        assert_eq!(sandbox.probe(attempt), [format!("{attempt}=EROFS")], "{mode:?}");
    }
}

#[test]
fn a_whole_session_shares_one_bound_where_there_are_cgroups() {
    for mode in Mode::all() {
        let (_world, sandbox) = open(mode);
        if !by_cgroup(&sandbox, "memory") {
            // Then the receipt says so, see above; and each process has its own bound.
            let result = sandbox.bash("./probe memory:90 & ./probe memory:90; wait");
            assert!(!result.oom, "{mode:?}");
            continue;
        }
        // Each would fit alone; together they do not, and stay until told to go.
        let line = "for i in 1 2 3 4; do (head -c 40m /dev/zero | tail -c 40m | (sleep 2; cat)) >/dev/null & done; wait";
        let result = sandbox.bash(line);
        assert!(result.oom, "{mode:?}: {result:?}");
        let alone = sandbox.bash("(head -c 40m /dev/zero | tail -c 40m | cat) >/dev/null");
        assert!(alone.success && !alone.oom, "{mode:?}: {:?}", alone.error);
    }
}

#[test]
fn many_small_processes_do_not_kill_the_session_they_are_in() {
    // The memory alone is too small: processes of the last call may still be ending.
    let profile = PROFILE.replace("processes = 40", "processes = 400");
    for mode in Mode::all() {
        let (_world, sandbox) = open_as(mode, &profile);
        // Each is about as large as the cell's own processes, and together they are too much.
        let line = "for i in {1..15}; do ./probe memory:16 & done; wait";
        for _ in 0..3 {
            let result = sandbox.bash(line);
            // On a busy host the kernel may blame the shell of the call, while those that it has
            // killed already still go.
            let ended = result.exit_code == Some(0) || (result.signal == Some(9) && result.oom);
            assert!(ended, "{mode:?}: {result:?}");
            assert_eq!(sandbox.ok("echo alive"), "alive\n", "{mode:?}");
        }
    }
}

#[test]
fn files_of_the_workspace_are_not_taken_for_memory() {
    for mode in Mode::all() {
        let (_world, sandbox) = open(mode);
        // More than the memory limit, in the page cache.
        let line = "for i in 1 2 3 4 5 6; do head -c 30m /dev/zero > big-$i; done; cat big-* | wc -c; rm big-*";
        let result = sandbox.bash(line);
        assert!(result.success && !result.oom, "{mode:?}: {:?}", result.error);
        assert_eq!(result.stdout.trim(), (180 * MIB).to_string(), "{mode:?}");
    }
}

/// Returns the cgroups of a daemon's sessions that have a limit of this many bytes, as the host has them.
pub(crate) fn limited_to(broker: u32, file: &str, limit: u64) -> Vec<PathBuf> {
    rooms::cgroups(Rooms::of(broker).inner.pid)
        .into_iter()
        .flat_map(|cgroup| fs::read_dir(cgroup).unwrap().flatten())
        .filter(|user| user.file_type().unwrap().is_dir())
        .flat_map(|user| fs::read_dir(user.path()).unwrap().flatten())
        .map(|entry| entry.path())
        .filter(|session| number_in(&session.join(file)) == Some(limit))
        .collect()
}

pub(crate) fn number_in(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

#[test]
fn buffers_of_sockets_are_bounded_too() {
    // Version 1 of cgroups counts the buffers of TCP sockets by themselves; version 2 with the rest.
    // The limit of cgroup v1 for sockets, and of v2 for all memory; what was used at most of it, and
    // the range of that. The kernel lets what is under way pass; without a limit each of the bombs
    // took more than 190 MiB.
    const V1: (&str, &str) =
        ("memory.kmem.tcp.limit_in_bytes", "memory.kmem.tcp.max_usage_in_bytes");
    const V2: (&str, &str) = ("memory.max", "memory.peak");
    for (mode, bomb) in Mode::all()
        .into_iter()
        .flat_map(|mode| ["tcp_buffers:28", "udp_buffers:50"].map(|b| (mode, b)))
    {
        let (_world, sandbox) = open(mode);
        // More in all than the session may have, held by programs of which each may have its part.
        let line = format!("for i in {{1..8}}; do timeout 10 ./probe {bomb} & done; wait");
        let result = sandbox.bash(&line);
        assert!(result.exit_code == Some(0) || result.oom, "{mode:?}: {bomb}: {result:?}");
        if by_cgroup(&sandbox, "memory") {
            let is_v1 = hierarchy("memory").unwrap().join(V1.0).exists();
            let (limit, most) = if is_v1 { V1 } else { V2 };
            let counted: Vec<_> =
                limited_to(sandbox.daemon.as_ref().unwrap().id(), limit, 96 * MIB)
                    .iter()
                    .map(|session| number_in(&session.join(most)))
                    .collect();
            let [Some(used)] = counted[..] else { panic!("{mode:?}: {bomb}: {counted:?}") };
            // On v2 programs count too, and they take less than this.
            let least = if is_v1 { 4 * MIB } else { 48 * MIB };
            assert!((least..=144 * MIB).contains(&used), "{mode:?}: {bomb}: {used}");
        }
        assert_eq!(sandbox.ok("echo alive"), "alive\n", "{mode:?}: {bomb}");
    }
}

/// Prints the error of each way to huge pages, and of the same without them.
const HUGE_PAGES: &str = "import ctypes, errno\n\
    c = ctypes.CDLL(None, use_errno=True)\n\
    c.mmap.restype = ctypes.c_void_p\n\
    c.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t] + [ctypes.c_int] * 3 + [ctypes.c_long]\n\
    def tell(name, answer):\n\
    \x20   failed = answer in (-1, 2**64 - 1)\n\
    \x20   print(name, errno.errorcode[ctypes.get_errno()] if failed else 'ok')\n\
    size = 2 << 20\n\
    for name, more in (('small', 0), ('huge', 0x40000), ('1 GiB', 0x40000 | 30 << 26)):\n\
    \x20   tell('mmap ' + name, c.mmap(None, size, 3, 0x22 | more, -1, 0))\n\
    for name, flags in (('small', 0), ('huge', 4), ('2 MiB', 4 | 21 << 26)):\n\
    \x20   tell('memfd ' + name, c.memfd_create(b'x', flags))\n\
    for name, flags in (('small', 0o1600), ('huge', 0o5600)):\n\
    \x20   tell('shm ' + name, c.shmget(0, size, flags))\n";

/// The host's pool of huge pages is in no session's limits.
#[test]
fn huge_pages_of_the_host_are_refused() {
    for mode in Mode::all() {
        let (_world, sandbox) = open(mode);
        let arguments = serde_json::json!({"argv": ["python3", "-c", HUGE_PAGES]});
        let expected = "mmap small ok\nmmap huge EPERM\nmmap 1 GiB EPERM\nmemfd small ok\n\
                        memfd huge EPERM\nmemfd 2 MiB EPERM\nshm small ok\nshm huge EPERM\n";
        assert_eq!(sandbox.done("bash", arguments).output, expected, "{mode:?}");
    }
}

/// A user's own daemon leaves half of what that user has to programs outside. A system daemon's
/// sessions have the user's own limit, as SECURITY.md says.
#[test]
fn sessions_leave_inotify_instances_to_their_user() {
    const ALL: &str = "import ctypes, time\nc = ctypes.CDLL(None)\nn = 0\n\
        while c.inotify_init1(0) >= 0: n += 1\nprint(n, flush=True)\ntime.sleep(1000)\n";
    let most = "/proc/sys/fs/inotify/max_user_instances";
    let most = usize::try_from(number_in(Path::new(most)).unwrap()).unwrap();
    for mode in Mode::all().into_iter().filter(|mode| *mode == Mode::User) {
        let (_world, sandbox) =
            open_as(mode, &PROFILE.replace("open_files = 64", "open_files = 4096"));
        let arguments = serde_json::json!({"argv": ["python3", "-c", ALL], "background": true});
        let job = JobStatus::of(&sandbox.done("bash", arguments)).unwrap().job;
        let mut said = String::new();
        rooms::until("all instances", || {
            said += &sandbox.done("job_output", serde_json::json!({"job": job})).output;
            said.ends_with('\n')
        });
        let taken: usize = said.trim().parse().unwrap();
        assert!((1..=most / 2).contains(&taken), "{taken} of {most}");
        // Outside, the same user still gets a quarter of them at once.
        let outside = mode.act(|| {
            let new = || rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::CLOEXEC);
            (0..most / 4).map(|_| new()).collect::<Result<Vec<_>, _>>().map(|held| held.len())
        });
        assert_eq!(outside, Ok(most / 4), "{mode:?}: {taken} were taken");
    }
}

#[test]
fn memory_can_not_be_locked() {
    for mode in Mode::all() {
        let (_world, sandbox) = open(mode);
        assert_eq!(
            sandbox.probe("mlock:16 mlock:128"),
            ["mlock:16=ok", "mlock:128=ENOMEM"],
            "{mode:?}"
        );
    }
}

#[test]
fn a_stack_that_never_ends_kills_its_own_program() {
    for mode in Mode::all() {
        let (_world, sandbox) = open(mode);
        // The abort of the guard page.
        assert_eq!(sandbox.probe("stack sys:getpid"), ["stack=SIG6", "sys:getpid=ok"], "{mode:?}");
        let result = sandbox.bash("ulimit -s");
        assert_ne!(result.stdout.trim(), "unlimited", "{mode:?}");
    }
}

#[test]
fn private_file_systems_fill_up_by_themselves() {
    for mode in Mode::all() {
        let (_world, sandbox) = open(mode);
        for place in ["/tmp", "/var/tmp", "/dev/shm", "$HOME"] {
            let fits = sandbox.bash(&format!("head -c 4m /dev/zero > {place}/fits"));
            assert!(fits.success, "{mode:?}: {place}: {}", fits.stderr);
            let line = format!("head -c 24m /dev/zero > {place}/fill; stat -c %s {place}/fill");
            let result = sandbox.bash(&line);
            assert!(result.stderr.contains("No space left on device"), "{mode:?}: {place}");
            let size: u64 = result.stdout.trim().parse().unwrap();
            assert!(size > 3 * MIB && size <= 4 * MIB, "{mode:?}: {place}: {size}");
            let removed = sandbox.bash(&format!("rm {place}/fill {place}/fits"));
            assert!(removed.success, "{mode:?}: {place}: {}", removed.stderr);
            assert!(!Path::new(place).join("fill").exists(), "{mode:?}: not the host's");
        }
    }
}

#[test]
fn private_file_systems_run_out_of_names_by_themselves() {
    for mode in Mode::all() {
        let (_world, sandbox) = open(mode);
        let lines = sandbox.probe("inodes:/tmp:1000 inodes:/tmp:100000");
        assert_eq!(lines, ["inodes:/tmp:1000=ok", "inodes:/tmp:100000=ENOSPC"], "{mode:?}");
        let count: u64 = sandbox.ok("ls -U /tmp | wc -l").trim().parse().unwrap();
        assert!(count < 4096, "{mode:?}: {count}");
        assert!(!Path::new("/tmp/inode-0").exists(), "{mode:?}: not the host's");
        // Another session has its own.
        let (_other_world, other) = open(mode);
        assert_eq!(other.probe("inodes:/tmp:10"), ["inodes:/tmp:10=ok"], "{mode:?}");
    }
}

#[test]
fn a_root_of_the_session_can_not_be_filled() {
    for mode in Mode::all() {
        let (_world, sandbox) = open(mode);
        let lines = sandbox
            .probe("write:/fill write:/dev/fill write:/run/fill write:/usr/fill write:/tmp/fill");
        let ends: Vec<_> = lines.iter().map(|line| line.rsplit('=').next().unwrap()).collect();
        assert_eq!(ends[..2], ["EROFS", "EROFS"], "{mode:?}");
        assert_eq!(ends[3..], ["EROFS", "ok"], "{mode:?}");
        assert!(["EACCES", "EROFS"].contains(&ends[2]), "{mode:?}: {}", ends[2]);
    }
}

#[test]
fn a_file_has_a_largest_size() {
    for mode in Mode::all() {
        let (world, sandbox) = open(mode);
        assert_eq!(
            sandbox.probe("files:16 files:64"),
            ["files:16=ok", "files:64=EFBIG"],
            "{mode:?}"
        );
        // Without a handler it ends by the signal for it.
        let result = sandbox.bash("exec head -c 64m /dev/zero > large");
        assert_eq!((result.signal, result.exit_code), (Some(25), Some(153)), "{mode:?}");
        let code = result.error.map(|error| error.code);
        assert_eq!(code, Some(ErrorCode::CommandFailed), "{mode:?}");
        let size = fs::metadata(world.workspace().join("large")).unwrap().len();
        assert_eq!(size, 32 * MIB, "{mode:?}");
    }
}

#[test]
fn descriptors_are_counted() {
    for mode in Mode::all() {
        let (_world, sandbox) = open(mode);
        let lines = sandbox.probe("descriptors:32 descriptors:100");
        assert_eq!(lines, ["descriptors:32=ok", "descriptors:100=EMFILE"], "{mode:?}");
        // Neither limit can be raised again.
        let raised = sandbox.bash("ulimit -n 65; ulimit -f unlimited");
        assert_eq!(raised.exit_code, Some(1), "{mode:?}");
        assert_eq!(sandbox.ok("ulimit -n; ulimit -f"), "64\n32768\n", "{mode:?}");
    }
}

/// A session's cgroup of a controller, as the host has it.
fn cgroup_of(controller: &str, pid: i32) -> Option<PathBuf> {
    let lines = fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let path = lines.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let (names, path) = (fields.next()?, fields.next()?);
        let v2 = names.is_empty() && !Path::new("/sys/fs/cgroup").join(controller).exists();
        (v2 || names.split(',').any(|name| name == controller)).then(|| path.to_owned())
    })?;
    Some(hierarchy(controller)?.join(path.trim_start_matches('/')))
}

#[test]
fn time_on_the_processor_is_shared_out() {
    for mode in Mode::all() {
        let world = World::new(mode);
        world.add_unasked("slow", &PROFILE.replace("[limits]", "[limits]\ncpu_percent = 20"));
        let daemon = world.daemon();
        fs::set_permissions(&daemon.socket, fs::Permissions::from_mode(0o666)).unwrap();
        let open = Open::new(world.workspace()).profile("slow");
        let sandbox = Sandbox::over(daemon.connect(mode), None, open).unwrap();
        if !by_cgroup(&sandbox, "cpu") {
            assert!(limit(&sandbox, "cpu").is_none(), "{mode:?}: it is not said to be held");
            continue;
        }
        assert_eq!(limit(&sandbox, "cpu").unwrap().value, 20, "{mode:?}");
        let mark = processes::mark();
        // Four that never rest, until they are told to; a fifth of one processor for all.
        let line = format!(
            ": {mark}; for i in 1 2 3 4; do while [ ! -e enough ]; do :; done & done; wait"
        );
        let call = sandbox.session.bash(line).timeout(Duration::from_secs(120));
        let running = sandbox.wait(call.start()).unwrap();
        let throttled = (0..1000).find_map(|_| {
            std::thread::sleep(Duration::from_millis(50));
            let pid = processes::marked(&mark).first()?.pid;
            let stat = fs::read_to_string(cgroup_of("cpu", pid)?.join("cpu.stat")).ok()?;
            let count = stat.lines().find_map(|line| line.strip_prefix("nr_throttled "))?;
            count.trim().parse().ok().filter(|count: &u64| *count > 2)
        });
        // Others are not held up by it: a session of the same daemon, another user's where there can
        // be one.
        let place = World::new(Mode::User);
        let other = if mode == Mode::System { Mode::User } else { mode };
        let open = Open::new(place.workspace()).profile(UNASKED);
        let other = Sandbox::over(daemon.connect(other), None, open).unwrap();
        for n in 0..20 {
            assert_eq!(other.ok(&format!("echo {n}")), format!("{n}\n"), "{mode:?}");
        }
        let pid = other.ok("echo $$; id -u");
        assert!(pid.ends_with(&format!("{}\n", Mode::User.uid())), "{mode:?}: {pid}");
        fs::write(world.workspace().join("enough"), "").unwrap();
        let result = sandbox.wait(running.result()).unwrap();
        assert!(result.success, "{mode:?}: {:?}", result.error);
        assert!(throttled.is_some(), "{mode:?}: the kernel held it back");
    }
}
