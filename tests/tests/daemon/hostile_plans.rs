//! A broker that was taken over sends hostile plans to a real launcher. Each is refused with its
//! reason, and nothing of it is seen from outside; the unchanged plan works.

use palisade_plan::{
    Access, Bind, Compare, Condition, Grant, LaunchPlan, Layer, MissingPath, Network,
    SyscallAction, SyscallRule, Tmpfs,
    cell::{End, RunReply},
    launcher::Refusal,
    names::NameList,
};
use palisade_tests::{
    Mode, World, plan, run,
    taken_over::{TakenOverBroker, client_uid, give_to_client},
};
use std::{fs, os::unix::fs::PermissionsExt as _};

type Change = Box<dyn Fn(&mut LaunchPlan)>;

/// A world whose workspace and outside are the clients'.
fn world(mode: Mode) -> World {
    let world = World::new(mode);
    give_to_client(&world.workspace());
    give_to_client(&world.outside());
    world
}

fn bind(path: &str, access: Access) -> Change {
    let bind = Bind { path: path.into(), access, missing: MissingPath::Skip };
    Box::new(move |plan| plan.binds.push(bind.clone()))
}

fn workspace(path: &str, access: Access) -> Change {
    let bind = Bind { path: path.into(), access, missing: MissingPath::Refuse };
    Box::new(move |plan| {
        let old = std::mem::replace(&mut plan.workspace, bind.clone()).path;
        for grant in plan.grants.iter_mut().filter(|grant| grant.path == old) {
            (grant.path, grant.access) = (bind.path.clone(), bind.access);
        }
    })
}

fn grant(path: &str, access: Access) -> Change {
    let grant = Grant { path: path.into(), access, missing: MissingPath::Skip };
    Box::new(move |plan| plan.grants.push(grant.clone()))
}

fn tmpfs(path: &str, bytes: u64, mode: u32) -> Change {
    let tmpfs = Tmpfs { path: path.into(), bytes, mode };
    Box::new(move |plan| plan.tmpfs.push(tmpfs.clone()))
}

fn changed(change: impl Fn(&mut LaunchPlan) + 'static) -> Change {
    Box::new(change)
}

/// Replaces the rule for a system call, or adds one.
fn syscall(
    number: u32,
    clauses: Vec<(Vec<Condition>, SyscallAction)>,
    otherwise: SyscallAction,
) -> Change {
    let rule = SyscallRule { number, clauses, otherwise };
    Box::new(move |plan| {
        plan.syscalls.retain(|rule| rule.number != number);
        plan.syscalls.push(rule.clone());
    })
}

fn allow(number: u32) -> Change {
    syscall(number, vec![], SyscallAction::Allow)
}

const EPERM: SyscallAction = SyscallAction::Errno(1);

fn equal(argument: u8, value: u64) -> Condition {
    let mask = u64::from(u32::MAX);
    Condition { argument, wide: false, mask, compare: Compare::Equal, value }
}

/// Plans with paths that no session may have, and the launcher's reason.
fn hostile_paths() -> Vec<(Change, &'static str)> {
    use Access::{Device, Execute, Read, Write};
    let plain = "is not a plain absolute path";
    let own = "which no session may see";
    let system = "belongs to the system";
    let running = "belongs to running programs of the host";
    let login = "is a home, or is used by logins, and may not be writable";
    vec![
        (workspace("workspace", Write), plain),
        (workspace("/tmp/../etc", Write), plain),
        (workspace("", Write), plain),
        (bind("/usr/../etc/shadow", Read), plain),
        (bind("/usr/./lib", Read), plain),
        (bind("//etc/shadow", Read), plain),
        (bind("/etc/shadow/", Read), plain),
        (bind("/etc\0/shadow", Read), plain),
        (bind("etc/shadow", Read), plain),
        (grant("/usr/../etc", Execute), plain),
        (tmpfs("/tmp/../etc", 1 << 20, 0o700), plain),
        (changed(|plan| plan.empty.push("/usr/../etc".into())), plain),
        (workspace("/", Write), own),
        (workspace("/", Read), own),
        (bind("/", Read), own),
        (bind("/run", Read), own),
        (bind("/run/palisade/launcher.sock", Read), own),
        (bind("/run/palisade/operator.sock", Write), own),
        (bind("/etc/palisade/palisaded.toml", Write), own),
        (bind("/var/lib", Read), own),
        (bind("/var/lib/palisade/undo", Read), own),
        (workspace("/var/lib/palisade", Write), own),
        (workspace("/etc", Read), own),
        (bind("/usr", Write), system),
        (bind("/etc/cron.d", Write), system),
        (bind("/etc/passwd", Write), system),
        (bind("/boot", Write), system),
        (bind("/lib/modules", Write), system),
        (bind("/dev", Write), system),
        (bind("/dev/kmsg", Write), system),
        (bind("/sys", Write), system),
        (bind("/sys/fs/cgroup", Write), system),
        (bind("/proc/sys", Write), system),
        (workspace("/home", Write), system),
        (grant("/boot", Write), system),
        (tmpfs("/etc", 1 << 20, 0o755), system),
        (tmpfs("/usr/bin/..", 1 << 20, 0o755), plain),
        (tmpfs("/proc", 1 << 20, 0o755), system),
        (bind("/proc", Read), running),
        (bind("/proc/1/root", Read), running),
        (bind("/proc/self/fd/0", Read), running),
        (bind("/run/user/0/bus", Read), running),
        (workspace("/run/user/4242", Write), running),
        (bind("/home/alice", Write), login),
        (bind("/root", Write), login),
        (bind("/home/alice/.ssh", Write), login),
        (bind("/home/alice/.ssh/authorized_keys", Write), login),
        (bind("/srv/people/alice/.bashrc", Write), login),
        (bind("/home/alice/.config/systemd/user", Write), login),
        (workspace("/home/alice/.gnupg", Write), login),
        (bind("/srv/disk", Device), "is granted as a device outside /dev"),
        (grant("/srv/disk", Device), "is granted as a device outside /dev"),
        (grant("/srv/data", Write), "is writable, but in no writable workspace"),
        (grant("/usr/share", Write), "is writable, but in no writable workspace"),
        (tmpfs("/scratch", 1 << 20, 0o4777), "has mode 0o4777"),
    ]
}

/// Plans with limits, lists, layers and networks out of range, and the launcher's reason.
fn hostile_numbers() -> Vec<(Change, &'static str)> {
    let patterns = |plan: &mut LaunchPlan| {
        plan.names.hide.push(NameList(vec!["x".to_owned(); 5000]));
    };
    let ports = |ports: Vec<u16>| changed(move |plan| plan.network = Network::Ports(ports.clone()));
    let hosts =
        |ports: Vec<u16>| changed(move |plan| plan.network = Network::Domains(ports.clone()));
    let few = Grant { path: "/usr".into(), access: Access::Read, missing: MissingPath::Skip };
    let place = Bind { path: "/usr".into(), access: Access::Read, missing: MissingPath::Skip };
    vec![
        (changed(|plan| plan.limits.memory_bytes = 0), "memory_bytes is zero"),
        (changed(|plan| plan.limits.memory_bytes = u64::MAX), "memory_bytes = 1844674407370955"),
        (changed(|plan| plan.limits.processes = 0), "processes is zero"),
        (changed(|plan| plan.limits.processes = 1 << 22), "processes = 4194304 exceeds"),
        (changed(|plan| plan.limits.cpu_percent = 0), "cpu_percent is zero"),
        (changed(|plan| plan.limits.cpu_percent = 100_000), "cpu_percent = 100000 exceeds"),
        (changed(|plan| plan.limits.open_files = 1 << 20), "open_files = 1048576 exceeds"),
        (changed(|plan| plan.limits.file_bytes = u64::MAX), "file_bytes = 1844674407370955"),
        (changed(|plan| plan.limits.transaction_bytes = 0), "transaction_bytes is zero"),
        (tmpfs("/scratch", 0, 0o700), "tmpfs_bytes is zero"),
        (tmpfs("/scratch", u64::MAX, 0o700), "tmpfs_bytes = 18446744073709551615 exceeds"),
        (changed(|plan| plan.grants.clear()), "the plan has no Landlock rules"),
        (changed(|plan| plan.syscalls.clear()), "the plan has no system calls"),
        (changed(move |plan| plan.grants = vec![few.clone(); 2049]), "grants = 2049 exceeds"),
        (changed(move |plan| plan.binds = vec![place.clone(); 2049]), "exceeds the ceiling's 2048"),
        (changed(patterns), "patterns = 5000 exceeds"),
        (changed(|plan| plan.optional = vec![Layer::Landlock]), "landlock may not be optional"),
        (changed(|plan| plan.optional = vec![Layer::Seccomp]), "seccomp may not be optional"),
        (hosts(vec![]), "the plan has no listeners"),
        (hosts(vec![53]), "port 53 can not have a listener"),
        (hosts((1..=13).collect()), "listeners = 13 exceeds"),
        (ports(vec![]), "the plan has no ports"),
        (ports(vec![443, 0]), "0 is not a port"),
        (ports(vec![443; 300]), "ports = 300 exceeds"),
    ]
}

/// Plans whose filter allows what no session may do, and the launcher's reason.
fn hostile_filters() -> Vec<(Change, &'static str)> {
    let samples = [17, 25, 26, 27, 28, 29, 30].map(|bit| (vec![equal(0, 1 << bit)], EPERM));
    let wide = Condition { wide: true, mask: u64::MAX, ..equal(1, 0x5412) };
    let first = vec![(vec![equal(5, 7)], SyscallAction::Allow)];
    let raw = vec![(vec![equal(0, 2), equal(1, 3)], SyscallAction::Allow)];
    let seventh = vec![(vec![equal(6, 0)], EPERM)];
    let outside = Condition { mask: 1, ..equal(0, 2) };
    let long = (0..2500).map(|value| (vec![equal(0, value)], EPERM)).collect();
    let bit = |argument, bit: u32| Condition { mask: 1 << bit, ..equal(argument, 1 << bit) };
    // The last clause denies what must be denied, but that takes too long to find out.
    let last = Condition { mask: 0x7e02_0000, compare: Compare::NotEqual, ..equal(0, 0) };
    let pairs = (0..32).map(|at| (vec![bit(1, at), bit(2, at)], EPERM));
    let pairs = pairs.chain([(vec![last], EPERM)]).collect();
    vec![
        (allow(165), "the filter allows mount:"),
        (allow(272), "the filter allows unshare:"),
        (allow(308), "the filter allows setns:"),
        (allow(435), "the filter allows clone3:"),
        (allow(321), "the filter allows bpf:"),
        (allow(250), "the filter allows keyctl:"),
        (allow(425), "the filter allows io_uring_setup:"),
        (allow(304), "the filter allows open_by_handle_at:"),
        (allow(246), "the filter allows kexec_load:"),
        (allow(430), "the filter allows fsopen:"),
        (allow(56), "the filter allows clone with a new namespace:"),
        (syscall(56, samples.to_vec(), SyscallAction::Allow), "the filter allows clone with a new"),
        (syscall(272, first, EPERM), "the filter allows unshare:"),
        (syscall(16, vec![(vec![wide], EPERM)], SyscallAction::Allow), "the filter allows ioctl"),
        (syscall(41, raw, EPERM), "the filter allows socket of a kind that no session may have:"),
        (allow(53), "the filter allows socketpair of other than Unix sockets:"),
        (allow(90), "the filter allows chmod to a set-id mode:"),
        (allow(259), "the filter allows mknodat of a device:"),
        (allow(316), "the filter allows renameat2 with RENAME_WHITEOUT:"),
        (allow(302), "the filter allows prlimit64 on another process:"),
        (allow(600), "the filter allows system call 600, which this build does not know"),
        (allow(0x4000_0027), "the filter is invalid: 1073741863 is not the number of a system"),
        (syscall(56, pairs, SyscallAction::Allow), "is too long to show that it denies clone"),
        (syscall(39, long, SyscallAction::Allow), "the filter is invalid: "),
        (
            syscall(39, seventh, SyscallAction::Allow),
            "the filter is invalid: system call 39 has no",
        ),
        (syscall(39, vec![], SyscallAction::Errno(0)), "the filter is invalid: system call 39 can"),
        (
            syscall(39, vec![(vec![outside], EPERM)], SyscallAction::Allow),
            "the filter is invalid: system call 39: the value compared",
        ),
        (
            changed(|plan| plan.syscalls.push(plan.syscalls[0].clone())),
            "the filter is invalid: two rules for system call",
        ),
        (
            changed(|plan| {
                for rule in &mut plan.syscalls {
                    (rule.clauses, rule.otherwise) = (vec![], EPERM);
                }
            }),
            "the plan has no system calls that are allowed",
        ),
    ]
}

#[test]
fn a_hostile_plan_is_refused_and_does_nothing() {
    for mode in Mode::all() {
        let world = world(mode);
        let (broker, agents) = TakenOverBroker::in_world(&world, &[]);
        let (client, _theirs) = agents.accepted(client_uid());
        let valid = plan(&world.workspace());
        let plans = [hostile_paths(), hostile_numbers(), hostile_filters()];
        let mut number = 0;
        for (change, why) in plans.into_iter().flatten() {
            number += 1;
            let mut plan = valid.clone();
            change(&mut plan);
            match broker.session(number, Some(&client), &plan) {
                Err(Refusal::Ceiling(said)) => {
                    assert!(said.contains(why), "{mode:?}, {number}, {why}: {said}");
                }
                other => panic!("{mode:?}, {number}, {why}: {other:?}"),
            }
        }
        assert!(number >= 60, "{number}");
        broker.assert_no_session();
        world.assert_canary_untouched();
        // The control: the unchanged plan, from the same client, of the same launcher.
        let session = broker.session(1000, Some(&client), &valid).unwrap();
        session.ready.unwrap();
        let runner = broker.runner(1000, None).unwrap();
        let (ended, _) = run(&runner, &["bash", "-c", "echo made > made"], &world.workspace());
        assert!(matches!(ended, RunReply::Ended { end: End::Exit(0), .. }), "{ended:?}");
        assert_eq!(fs::read_to_string(world.workspace().join("made")).unwrap(), "made\n");
        broker.end(1000);
        broker.assert_no_session();
        assert!(broker.close().success());
    }
}

/// Paths whose text is harmless. Where they lead is found out in the cell, with the client's rights.
#[test]
fn a_path_that_leads_elsewhere_is_refused_by_the_cell() {
    for mode in Mode::all() {
        let world = world(mode);
        let (broker, agents) = TakenOverBroker::in_world(&world, &[]);
        let (client, _theirs) = agents.accepted(client_uid());
        let outside = world.state();
        let link = |name: &str, to: &str| {
            std::os::unix::fs::symlink(to, outside.join(name)).unwrap();
            outside.join(name).to_str().unwrap().to_owned()
        };
        let (etc, proc) = (link("etc", "/etc"), link("proc", "/proc/self"));
        let here = link("here", world.workspace().to_str().unwrap());
        fs::create_dir_all(outside.join("home/.ssh")).unwrap();
        fs::write(outside.join("home/.ssh/authorized_keys"), "key\n").unwrap();
        fs::write(outside.join("file"), "").unwrap();
        give_to_client(&outside.join("home"));
        let ssh = link("keys", outside.join("home/.ssh").to_str().unwrap());
        let closed = outside.join("closed");
        fs::create_dir_all(closed.join("project")).unwrap();
        fs::set_permissions(&closed, fs::Permissions::from_mode(0o700)).unwrap();
        let closed = closed.join("project").to_str().unwrap().to_owned();
        let file = outside.join("file").to_str().unwrap().to_owned();
        let required = |path: &str, access| {
            let bind = Bind { path: path.into(), access, missing: MissingPath::Refuse };
            changed(move |plan| plan.binds.push(bind.clone()))
        };
        let mut plans = vec![
            (workspace(&here, Access::Write), "is a symbolic link; give the real path"),
            (workspace(&format!("{etc}/ssl"), Access::Read), "is a symbolic link; give the real"),
            (workspace(&file, Access::Write), "it is not a directory"),
            (workspace("/srv/palisade-missing", Access::Read), "it does not exist"),
            (
                bind(&format!("{etc}/ssl"), Access::Write),
                "leads elsewhere: \"/etc/ssl\" (bind) bel",
            ),
            (bind(&format!("{proc}/ns"), Access::Read), "belongs to running programs of the host"),
            (bind(&format!("{ssh}/authorized_keys"), Access::Write), "may not be writable"),
            (required("/srv/palisade-missing", Access::Read), "No such file or directory"),
            (
                changed(|plan| plan.names.hide.push(NameList(vec!["/".to_owned()]))),
                "\"/\" names nothing",
            ),
        ];
        if mode == Mode::System {
            plans.push((workspace(&closed, Access::Write), "the session's user may not enter it"));
            plans.push((required(&closed, Access::Read), "Permission denied"));
        }
        let valid = plan(&world.workspace());
        for (number, (change, why)) in (1..).zip(plans) {
            let mut plan = valid.clone();
            change(&mut plan);
            // The grants name paths of the valid plan; those that are not in this root do not matter.
            plan.grants.iter_mut().for_each(|grant| grant.missing = MissingPath::Skip);
            let said = match broker.session(number, Some(&client), &plan) {
                Ok(session) => session.ready.expect_err(why).1,
                Err(Refusal::Ceiling(said)) => said,
                Err(other) => panic!("{mode:?}, {why}: {other:?}"),
            };
            assert!(said.contains(why), "{mode:?}, {why}: {said}");
            broker.end(number);
        }
        broker.assert_no_session();
        world.assert_canary_untouched();
        let keys = fs::read_to_string(outside.join("home/.ssh/authorized_keys")).unwrap();
        assert_eq!(keys, "key\n");
    }
}
