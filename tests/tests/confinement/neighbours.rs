//! A call can do nothing to processes that are not its own: the runner, the rooms of the daemon,
//! another session's calls. To its own children it does what debuggers and shells do.

use palisade_tests::{
    Mode, Sandbox, World, processes,
    rooms::{awaited, until},
};
use std::fs;

/// A session of each kind of daemon.
fn each(act: impl Fn(&World, &Sandbox)) {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        act(&world, &sandbox);
        world.assert_canary_untouched();
    }
}

/// A file of the runner's in a `/proc` that is mounted read-only: to root it is its own file, to
/// others not even that.
fn read_only(world: &World) -> &'static str {
    match world.mode {
        Mode::System => "EROFS",
        Mode::User => "EACCES",
    }
}

#[test]
fn ptrace_reaches_only_its_own_children() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let (sandbox, other) = (world.open(), world.open());
        let daemon = sandbox.daemon.as_ref().unwrap().id();
        let mark = format!("7{}.5", std::process::id());
        let sleeper = other.wait(other.session.bash(format!("sleep {mark}")).start()).unwrap();
        let victim = loop {
            let found = processes::marked(&format!("sleep {mark}"));
            if let Some(found) = found.iter().find(|p| p.name == "sleep") {
                break found.pid;
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
        };
        let mut table = Vec::new();
        // Attach and seize: the runner, this test's daemon, and a call of another session.
        for (pid, answer) in
            [(1, "EPERM"), (daemon.try_into().unwrap(), "ESRCH"), (victim, "ESRCH")]
        {
            table.push((format!("sys:ptrace:16:{pid}:0:0"), answer));
            table.push((format!("sys:ptrace:0x4206:{pid}:0:0"), answer));
        }
        table.push(("traceme".to_owned(), "ok"));
        table.push(("trace_child".to_owned(), "ok"));
        let table: Vec<_> = table.iter().map(|(a, answer)| (a.as_str(), *answer)).collect();
        sandbox.holds(&table);
        for pid in [daemon, victim.try_into().unwrap()] {
            let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
            assert!(status.contains("TracerPid:\t0\n"), "{pid} is traced");
        }
        other.wait(sleeper.cancel()).unwrap();
        let result = other.wait(sleeper.result()).unwrap();
        assert!(result.cancelled);
    }
}

#[test]
fn no_process_reaches_into_another_ones_memory() {
    each(|world, sandbox| {
        sandbox.holds(&[
            ("sys:process_vm_readv:1:buf:1:buf:1:0", "EPERM"),
            ("sys:process_vm_writev:1:buf:1:buf:1:0", "EPERM"),
            ("sys:process_vm_readv:self:buf:1:buf:1:0", "EPERM"),
            ("sys:process_madvise:0:buf:1:8:0", "EPERM"),
            ("sys:process_mrelease:0:0", "EPERM"),
            ("append:/proc/1/mem", read_only(world)),
            ("read:/proc/1/mem", "EACCES"),
            // Its own is its own.
            ("stat:/proc/self/mem", "ok"),
            ("memory:1", "ok"),
        ]);
    });
}

#[test]
fn pidfds_reach_no_further_than_kill() {
    each(|_, sandbox| {
        let daemon = sandbox.daemon.as_ref().unwrap().id();
        let (open, signal) =
            (format!("sys:pidfd_open:{daemon}:0"), format!("signal_by_pidfd:{daemon}:9"));
        sandbox.holds(&[
            (&open, "ESRCH"),
            (&signal, "ESRCH"),
            ("signal_by_pidfd:1:9", "EPERM"),
            ("signal_by_pidfd:1:0", "EPERM"),
            ("sys:pidfd_getfd:0:0:0", "EPERM"),
            ("signal_by_pidfd:self:0", "ok"),
        ]);
        let daemon = i32::try_from(daemon).unwrap();
        assert!(processes::all().iter().any(|p| p.pid == daemon), "the daemon is alive");
        assert_eq!(sandbox.ok("echo and so is the runner"), "and so is the runner\n");
    });
}

#[test]
fn kernel_objects_of_processes_can_not_be_told_apart() {
    each(|_, sandbox| {
        sandbox.holds(&[
            ("sys:kcmp:self:self:0:0:0", "EPERM"),
            ("sys:kcmp:1:self:2:0:0", "EPERM"),
            ("sys:get_robust_list:1:buf:buf", "EPERM"),
            ("sys:get_robust_list:self:buf:buf", "EPERM"),
            ("sys:get_robust_list:0:buf:buf", "ok"),
        ]);
    });
}

/// Returns the scheduling and the limits of a process, as the kernel tells them.
fn treatment(pid: i32) -> Vec<String> {
    let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
    let stat = read("stat");
    let fields: Vec<_> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    // Priority, nice, real-time priority, policy: fields 18, 19, 40 and 41, the state being 3.
    let mut found: Vec<_> = [18, 19, 40, 41]
        .iter()
        .map(|n| fields.get(n - 3).map_or_else(String::new, |field| (*field).to_owned()))
        .collect();
    found.push(read("limits"));
    found.push(read("oom_score_adj"));
    found.extend(read("status").lines().filter(|l| l.starts_with("Cpus_allowed")).map(Into::into));
    found
}

#[test]
fn scheduling_and_limits_of_others_stay_as_they_are() {
    each(|world, sandbox| {
        let daemon = i32::try_from(sandbox.daemon.as_ref().unwrap().id()).unwrap();
        // A first call, so that this session's cells have settled; those made ahead for others are
        // still about to, and a shell that waits becomes the next call's.
        assert_eq!(sandbox.ok("echo settled"), "settled\n");
        let all = processes::tree(daemon);
        let is_child_of_cell =
            |one: &processes::Process| all.iter().any(|p| p.pid == one.parent && p.is_cell());
        let settled = |p: &&processes::Process| p.name != "palisade-cell" && !is_child_of_cell(p);
        let rooms: Vec<_> = all.iter().filter(settled).map(|p| p.pid).collect();
        assert!(rooms.len() >= 4, "broker, launcher and two cells: {rooms:?}");
        // A runner has the score of a program for the moment in which it starts one, as it does to
        // have a shell wait.
        let treated = || rooms.iter().map(|pid| treatment(*pid)).collect::<Vec<_>>();
        let before = awaited("no runner starts a program", || {
            let now = treated();
            let is_starting = |one: &Vec<String>| one.contains(&"1000\n".to_owned());
            (!now.iter().any(is_starting)).then_some(now)
        });
        let mut table = Vec::new();
        for pid in [daemon, 1] {
            table.extend([
                (format!("sys:prlimit64:{pid}:7:buf:0"), "EPERM"),
                (format!("sys:prlimit64:{pid}:7:0:buf"), "EPERM"),
                (format!("sys:setpriority:0:{pid}:19"), "EPERM"),
                (format!("sys:sched_setscheduler:{pid}:0:buf"), "EPERM"),
                (format!("sys:sched_setparam:{pid}:buf"), "EPERM"),
                (format!("sys:sched_setattr:{pid}:buf:0"), "EPERM"),
                (format!("sys:sched_setaffinity:{pid}:8:buf"), "EPERM"),
                (format!("sys:ioprio_set:1:{pid}:0x6000"), "EPERM"),
                (format!("sys:migrate_pages:{pid}:8:buf:buf"), "EPERM"),
                (format!("sys:move_pages:{pid}:0:0:0:0:0"), "EPERM"),
            ]);
        }
        table.extend([
            (format!("append:/proc/{daemon}/oom_score_adj"), "ENOENT"),
            ("append:/proc/1/oom_score_adj".to_owned(), read_only(world)),
            // A whole group's and a whole user's, and with bits that the kernel does not see.
            ("sys:setpriority:1:0:19".to_owned(), "EPERM"),
            ("sys:setpriority:2:0:19".to_owned(), "EPERM"),
            ("sys:ioprio_set:3:0:0x6000".to_owned(), "EPERM"),
            (format!("sys:setpriority:0x100000000:{daemon}:19"), "EPERM"),
            // Its own it may.
            ("sys:setpriority:0:0:5".to_owned(), "ok"),
            ("sys:ioprio_set:1:0:0x6000".to_owned(), "ok"),
            ("sys:prlimit64:0:7:0:buf".to_owned(), "ok"),
            ("sys:sched_setscheduler:0:0:buf".to_owned(), "ok"),
        ]);
        let table: Vec<_> = table.iter().map(|(a, answer)| (a.as_str(), *answer)).collect();
        sandbox.holds(&table);
        until("others are treated as before", || treated() == before);
    });
}
