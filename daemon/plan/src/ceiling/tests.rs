//! Tests every bound of the ceiling, each beside a plan that passes.

use super::*;
use crate::{
    Access, Bind, Durable, Grant, Limits, MissingPath, Network, Records, SyscallAction,
    SyscallRule, Tmpfs, Transactions, Upper,
};

mod calls;
mod mounts;

const USER: Identity = Identity { uid: 1000, gid: 1000 };

fn bind(path: &str, access: Access) -> Bind {
    Bind { path: path.into(), access, missing: MissingPath::Skip }
}

fn grant(path: &str, access: Access) -> Grant {
    Grant { path: path.into(), access, missing: MissingPath::Skip }
}

fn tmpfs(path: &str, bytes: u64) -> Tmpfs {
    Tmpfs { path: path.into(), bytes, mode: 0o1777 }
}

fn allow(number: u32) -> SyscallRule {
    SyscallRule { number, clauses: vec![], otherwise: SyscallAction::Allow }
}

fn plan() -> LaunchPlan {
    LaunchPlan {
        workspace: bind("/home/u/project", Access::Write),
        binds: vec![bind("/usr", Access::Execute), bind("/etc/passwd", Access::Read)],
        sockets: Vec::new(),
        tmpfs: vec![tmpfs("/tmp", 1 << 20), tmpfs("/run", 1 << 20), tmpfs("/home/u", 1 << 20)],
        home: None,
        empty: vec!["/home/u/.cargo/bin".into()],
        grants: vec![
            grant("/home/u/project", Access::Write),
            grant("/usr", Access::Execute),
            grant("/tmp", Access::Write),
            grant("/dev", Access::Device),
            grant("/proc", Access::Read),
        ],
        syscalls: vec![allow(0), allow(1)],
        network: Network::None,
        inward: 0,
        limits: Limits {
            memory_bytes: 1 << 30,
            processes: 100,
            cpu_percent: 100,
            file_bytes: 1 << 30,
            transaction_bytes: 1 << 30,
            open_files: 1024,
        },
        optional: vec![Layer::Limits],
        transactions: Transactions { upper: Upper::Memory, durable: Durable::Replaced },
        recording: crate::record::Recording::No,
        names: crate::names::Names::default(),
        records: Records::Unread,
        uid: crate::SessionUid::Peer,
        authority: None,
    }
}

fn check(change: impl FnOnce(&mut LaunchPlan)) -> Result<(), CeilingError> {
    let mut plan = plan();
    change(&mut plan);
    Ceiling::default().check(&plan, USER, &mut AcceptedFilters::default())
}

#[test]
fn a_home_that_is_not_private_is_refused() {
    let refused = check(|plan| plan.home = Some("/home/other".into()));
    assert_eq!(refused, Err(CeilingError::NotPrivate("/home/other".into())));
    assert_eq!(check(|plan| plan.home = Some("/home/u".into())), Ok(()));
}

#[test]
fn a_usual_plan_passes() {
    assert_eq!(check(|_| {}), Ok(()));
}

#[test]
fn each_limit_has_its_most_and_is_not_zero() {
    type Set = fn(&mut LaunchPlan, u64);
    let ceiling = Ceiling::default();
    let limits: [(&str, u64, Set); 7] = [
        ("memory_bytes", ceiling.max_memory_bytes, |plan, n| plan.limits.memory_bytes = n),
        ("processes", ceiling.max_processes, |plan, n| plan.limits.processes = n),
        ("cpu_percent", ceiling.max_cpu_percent, |plan, n| plan.limits.cpu_percent = n),
        ("open_files", ceiling.max_open_files, |plan, n| plan.limits.open_files = n),
        ("file_bytes", ceiling.max_file_bytes, |plan, n| plan.limits.file_bytes = n),
        ("transaction_bytes", ceiling.max_transaction_bytes, |plan, n| {
            plan.limits.transaction_bytes = n;
        }),
        ("tmpfs_bytes", ceiling.max_tmpfs_bytes, |plan, n| plan.tmpfs = vec![tmpfs("/tmp", n)]),
    ];
    for (limit, most, set) in limits {
        assert_eq!(check(|plan| set(plan, most)), Ok(()), "{limit}");
        let over = CeilingError::Over { limit, wanted: most + 1, most };
        assert_eq!(check(|plan| set(plan, most + 1)), Err(over));
        assert_eq!(check(|plan| set(plan, 0)), Err(CeilingError::Zero(limit)));
    }
}

#[test]
fn private_file_systems_are_counted_together() {
    let most = Ceiling::default().max_tmpfs_bytes;
    let two = |bytes| {
        move |plan: &mut LaunchPlan| {
            plan.tmpfs = vec![tmpfs("/tmp", bytes), tmpfs("/var/tmp", 1)];
        }
    };
    assert_eq!(check(two(most - 1)), Ok(()));
    let over = CeilingError::Over { limit: "tmpfs_bytes", wanted: most + 1, most };
    assert_eq!(check(two(most)), Err(over));
    let over = CeilingError::Over { limit: "tmpfs_bytes", wanted: u64::MAX, most };
    assert_eq!(check(two(u64::MAX)), Err(over));
}

#[test]
fn lists_are_bounded() {
    let most = Ceiling::default().max_grants;
    let grants = |n: u64| vec![grant("/usr", Access::Execute); usize::try_from(n).unwrap()];
    let change = |n| move |plan: &mut LaunchPlan| plan.grants.splice(.., grants(n)).for_each(drop);
    assert_eq!(check(change(most)), Ok(()));
    let over = CeilingError::Over { limit: "grants", wanted: most + 1, most };
    assert_eq!(check(change(most + 1)), Err(over));

    let most = Ceiling::default().max_binds;
    // Three private file systems and the workspace are mounts too.
    let binds = |n: u64| vec![bind("/usr", Access::Execute); usize::try_from(n - 4).unwrap()];
    assert_eq!(check(|plan| plan.binds = binds(most)), Ok(()));
    let over = CeilingError::Over { limit: "binds", wanted: most + 1, most };
    assert_eq!(check(|plan| plan.binds = binds(most + 1)), Err(over));
}

#[test]
fn empty_lists_are_refused() {
    let error = CeilingError::Empty("Landlock rules");
    assert_eq!(check(|plan| plan.grants.clear()), Err(error));
    let error = CeilingError::Empty("system calls that are allowed");
    assert_eq!(check(|plan| plan.syscalls.clear()), Err(error.clone()));
    let refused = SyscallRule { number: 0, clauses: vec![], otherwise: SyscallAction::Errno(1) };
    assert_eq!(check(|plan| plan.syscalls = vec![refused]), Err(error));
}

#[test]
fn identities_are_users() {
    let check = |ceiling: &Ceiling, uid| {
        ceiling.check(&plan(), Identity { uid, gid: 1000 }, &mut AcceptedFilters::default())
    };
    let mut ceiling = Ceiling::default();
    assert_eq!(check(&ceiling, 1000), Ok(()));
    assert_eq!(check(&ceiling, 0), Err(CeilingError::Root));
    for uid in [1, 999] {
        assert_eq!(check(&ceiling, uid), Err(CeilingError::Uid { uid, least: 1000 }));
    }
    ceiling.allow_root = AllowRoot::Yes;
    assert_eq!(check(&ceiling, 0), Ok(()));
    assert_eq!(check(&ceiling, 1), Err(CeilingError::Uid { uid: 1, least: 1000 }));
}

#[test]
fn paths_are_plain() {
    for path in ["", "x", "/a/../b", "/a/./b", "/a//b", "/a/", "/a/..", "/a\0b", ".", "//a"] {
        let not = |what| Err(CeilingError::NotPlain { what, path: path.into() });
        assert_eq!(check(|plan| plan.workspace.path = path.into()), not("workspace"), "{path:?}");
        assert_eq!(check(|plan| plan.binds[0].path = path.into()), not("bind"), "{path:?}");
        assert_eq!(check(|plan| plan.grants[1].path = path.into()), not("grant"), "{path:?}");
        let what = "private file system";
        assert_eq!(check(|plan| plan.tmpfs[0].path = path.into()), not(what), "{path:?}");
    }
    let odd = "/home/u/ .. \n…";
    assert_eq!(check(|plan| plan.binds[0].path = odd.into()), Ok(()));
}

#[test]
fn nothing_of_the_system_is_writable() {
    let system = [
        "/",
        "/etc",
        "/usr",
        "/bin",
        "/sbin",
        "/lib",
        "/lib64",
        "/boot",
        "/dev",
        "/proc",
        "/sys",
        "/run",
        "/var",
        "/home",
        "/etc/cron.d",
        "/lib/modules",
        "/proc/self",
        "/sys/fs/cgroup",
        "/dev/pts",
    ];
    let mut open = Ceiling::default();
    open.never.clear();
    for path in system {
        let refused = |what, change: fn(&mut LaunchPlan, &str)| {
            let mut plan = plan();
            change(&mut plan, path);
            let error = CeilingError::System { what, path: path.into() };
            assert_eq!(
                open.check(&plan, USER, &mut AcceptedFilters::default()),
                Err(error),
                "{path}"
            );
        };
        refused("workspace", |plan, path| plan.workspace = bind(path, Access::Write));
        refused("bind", |plan, path| plan.binds.push(bind(path, Access::Write)));
        refused("grant", |plan, path| plan.grants.push(grant(path, Access::Write)));
        if path != "/run" {
            refused("private file system", |plan, path| plan.tmpfs.push(tmpfs(path, 1)));
        }
    }
    for path in ["/srv/www", "/usr/src/project", "/var/www", "/dev/shm/x", "/home/u/x", "/tmp/x"] {
        let found = check(|plan| {
            plan.workspace = bind(path, Access::Write);
            plan.grants[0] = grant(path, Access::Write);
        });
        assert_eq!(found, Ok(()), "{path}");
    }
}

#[test]
fn palisades_own_directories_are_in_no_session() {
    for (path, never) in [
        ("/etc/palisade", "/etc/palisade"),
        ("/run/palisade/agent.sock", "/run/palisade"),
        ("/run", "/run/palisade"),
        ("/var/lib", "/var/lib/palisade"),
        ("/", "/etc/palisade"),
    ] {
        for access in [Access::Read, Access::Execute] {
            let error =
                |what| Err(CeilingError::Never { what, path: path.into(), never: never.into() });
            let found = check(|plan| plan.binds.push(bind(path, access)));
            assert_eq!(found, error("bind"), "{path}");
            let found = check(|plan| plan.workspace = bind(path, access));
            assert_eq!(found, error("workspace"), "{path}");
            let found = check(|plan| {
                plan.tmpfs.clear();
                plan.grants.insert(0, grant(path, access));
            });
            assert_eq!(found, error("grant"), "{path}");
        }
    }
    assert_eq!(check(|plan| plan.binds.push(bind("/var/lib/other", Access::Read))), Ok(()));
    assert_eq!(check(|plan| plan.binds.push(bind("/etc/palisade2", Access::Read))), Ok(()));
}

#[test]
fn what_running_programs_have_is_in_no_session() {
    for path in ["/proc", "/proc/1/root", "/run/user/1000", "/run/user/1000/bus"] {
        let error = |what| Err(CeilingError::Running { what, path: path.into() });
        for access in [Access::List, Access::Read, Access::Execute] {
            assert_eq!(check(|plan| plan.binds.push(bind(path, access))), error("bind"), "{path}");
            let found = check(|plan| plan.workspace = bind(path, access));
            assert_eq!(found, error("workspace"), "{path}");
        }
    }
    assert_eq!(check(|plan| plan.binds.push(bind("/run/users", Access::Read))), Ok(()));
}

#[test]
fn what_logins_use_is_never_writable() {
    for path in [
        "/home/u",
        "/root",
        "/home/u/.ssh",
        "/home/u/.ssh/authorized_keys",
        "/srv/homes/u/.gnupg",
        "/home/u/.bashrc",
        "/home/u/.config/systemd",
        "/home/u/.config/autostart/x.desktop",
    ] {
        let error = |what| Err(CeilingError::Login { what, path: path.into() });
        let found = check(|plan| plan.binds.push(bind(path, Access::Write)));
        assert_eq!(found, error("bind"), "{path}");
        let found = check(|plan| plan.workspace = bind(path, Access::Write));
        assert_eq!(found, error("workspace"), "{path}");
        assert_eq!(check_resolved(path.as_ref(), Access::Write), error("bind"));
        assert_eq!(check_resolved(path.as_ref(), Access::Read), Ok(()));
    }
    for path in ["/home/u/.config", "/home/u/ssh", "/home/u/.sshx", "/home/u/systemd/.config"] {
        assert_eq!(check(|plan| plan.binds.push(bind(path, Access::Write))), Ok(()), "{path}");
    }
}

#[test]
fn where_a_link_leads_is_bounded_as_well() {
    let never = CeilingError::Never {
        what: "bind",
        path: "/run/palisade/operator.sock".into(),
        never: "/run/palisade".into(),
    };
    let found = check_resolved("/run/palisade/operator.sock".as_ref(), Access::Read);
    assert_eq!(found, Err(never));
    let system = CeilingError::System { what: "bind", path: "/etc/cron.d".into() };
    assert_eq!(check_resolved("/etc/cron.d".as_ref(), Access::Write), Err(system));
    let gone = CeilingError::NotPlain { what: "bind", path: "(unreachable)/x".into() };
    assert_eq!(check_resolved("(unreachable)/x".as_ref(), Access::Read), Err(gone));
}

#[test]
fn what_is_granted_as_writable_is_mounted_so() {
    for path in ["/srv/data", "/home/u2/data"] {
        let error = CeilingError::Uncovered(path.into());
        assert_eq!(check(|plan| plan.grants.push(grant(path, Access::Write))), Err(error));
        assert_eq!(
            check(|plan| {
                plan.grants.push(grant(path, Access::Write));
                plan.binds.push(bind(path, Access::Write));
            }),
            Ok(())
        );
    }
    let error = CeilingError::Uncovered("/home/u/project".into());
    // This holds although a private file system is mounted around it.
    assert_eq!(check(|plan| plan.workspace.access = Access::Execute), Err(error));
    let error = CeilingError::Device("/srv".into());
    assert_eq!(check(|plan| plan.grants.push(grant("/srv", Access::Device))), Err(error));
    let error = CeilingError::Mode { path: "/tmp".into(), mode: 0o4777 };
    assert_eq!(check(|plan| plan.tmpfs[0].mode = 0o4777), Err(error));
}

#[test]
fn landlock_and_seccomp_are_never_optional() {
    for layer in Layer::ALL {
        let expected = match layer {
            Layer::Landlock | Layer::Seccomp => Err(CeilingError::Layer(layer)),
            Layer::Mount
            | Layer::Pid
            | Layer::Network
            | Layer::Ipc
            | Layer::Uts
            | Layer::Cgroup
            | Layer::Limits
            | Layer::Hide
            | Layer::Protect => Ok(()),
        };
        assert_eq!(check(|plan| plan.optional = vec![layer]), expected, "{layer}");
    }
}

/// Puts a plan into the launcher's own network, with these ports.
fn on_ports(plan: &mut LaunchPlan, ports: &[u16]) {
    plan.network = Network::Ports(ports.to_vec());
}

fn reaching(network: Reach, change: impl FnOnce(&mut LaunchPlan)) -> Result<(), CeilingError> {
    let mut plan = plan();
    change(&mut plan);
    Ceiling { network, ..Ceiling::default() }.check(&plan, USER, &mut AcceptedFilters::default())
}

#[test]
fn listeners_in_a_sessions_own_network_are_few_and_have_ports_of_their_own() {
    let listening = |ports: &[u16]| check(|plan| plan.network = Network::Domains(ports.to_vec()));
    assert_eq!(listening(&[80, 443]), Ok(()));
    let twelve: Vec<u16> = (1..=12).collect();
    assert_eq!(listening(&twelve), Ok(()));
    let thirteen: Vec<u16> = (1..=13).collect();
    for (ports, error) in [
        (&[][..], CeilingError::Empty("listeners")),
        (&thirteen, CeilingError::Over { limit: "listeners", wanted: 13, most: 12 }),
        (&[443, 0], CeilingError::ListenerPort(0)),
        (&[53, 443], CeilingError::ListenerPort(53)),
        (&[443, 61_080], CeilingError::ListenerPort(61_080)),
        (&[80, 443, 80], CeilingError::ListenerTwice),
    ] {
        assert_eq!(listening(ports), Err(error), "{ports:?}");
    }
}

#[test]
fn the_launchers_network_is_opened_by_its_own_word_alone() {
    let over = |ports: &str, most: &str| {
        Err(CeilingError::Ports { ports: ports.to_owned(), most: most.to_owned() })
    };
    let two: Reach = "80,443".parse().unwrap();
    assert_eq!(check(|plan| plan.network = Network::Loopback), Ok(()));
    assert_eq!(check(|plan| on_ports(plan, &[443, 80])), over("80,443", "no port"));
    assert_eq!(reaching(two.clone(), |plan| on_ports(plan, &[443, 80])), Ok(()));
    assert_eq!(reaching(two.clone(), |plan| on_ports(plan, &[443, 22])), over("22", "80,443"));
    assert_eq!(reaching(Reach::EveryPort, |plan| on_ports(plan, &[1, 65535])), Ok(()));
    let told = over("22", "80,443").unwrap_err().to_string();
    assert!(told.contains("start it with --allow-ports 22 "), "{told}");
    for (ports, error) in [
        (vec![], CeilingError::Empty("ports")),
        (vec![443, 0], CeilingError::PortZero),
        (vec![443; 257], CeilingError::Over { limit: "ports", wanted: 257, most: 256 }),
    ] {
        for reach in [Reach::Nothing, two.clone(), Reach::EveryPort] {
            assert_eq!(reaching(reach, |plan| on_ports(plan, &ports)), Err(error.clone()));
        }
    }
}

#[test]
fn ports_are_read_as_the_option_takes_them() {
    assert_eq!("any".parse(), Ok(Reach::EveryPort));
    assert_eq!("none".parse(), Ok(Reach::Nothing));
    assert_eq!(Reach::EveryPort.to_string(), "any port");
    assert_eq!("443, 80,443".parse(), Ok(Reach::Ports([80, 443].into())));
    for bad in ["", "0", "80,", "70000", "-1", "http"] {
        assert!(bad.parse::<Reach>().is_err(), "{bad}");
    }
}

#[test]
fn a_socket_of_the_host_is_neither_palisades_own_nor_a_users() {
    let socket = |path: &str| {
        let bind = bind(path, Access::Read);
        check(|plan| plan.sockets.push(bind))
    };
    assert_eq!(socket("/run/postgresql/.s.PGSQL.5432"), Ok(()));
    for path in ["/run/palisade/agent.sock", "/run/palisade", "/run"] {
        assert!(matches!(socket(path), Err(CeilingError::Never { what: "socket", .. })), "{path}");
    }
    let running = socket("/run/user/1000/bus");
    assert!(matches!(running, Err(CeilingError::Running { what: "socket", .. })), "{running:?}");
    assert!(matches!(socket("/run/../x"), Err(CeilingError::NotPlain { what: "socket", .. })));
}

#[test]
fn sockets_into_a_session_need_a_network_of_its_own_and_are_bounded() {
    let over = |wanted, most| Err(CeilingError::Over { limit: "inward sockets", wanted, most });
    let most = crate::listeners::INWARD_SOCKETS;
    let inward =
        |network: Network, inward| check(|plan| (plan.network, plan.inward) = (network, inward));
    assert_eq!(inward(Network::Domains(vec![80]), most), Ok(()));
    assert_eq!(inward(Network::Domains(vec![80]), most + 1), over(17, 16));
    for network in [Network::None, Network::Loopback] {
        assert_eq!(inward(network, 1), over(1, 0));
    }
}

/// The number of `mount`.
const MOUNT: u32 = 165;

#[test]
fn an_accepted_filter_admits_only_its_equals() {
    let mut filters = AcceptedFilters::default();
    let ceiling = Ceiling::default();
    for _ in 0..2 {
        assert_eq!(ceiling.check(&plan(), USER, &mut filters), Ok(()));
    }
    // One that differs in one rule is examined, each time.
    let mut wider = plan();
    wider.syscalls.push(SyscallRule {
        number: MOUNT,
        clauses: Vec::new(),
        otherwise: SyscallAction::Allow,
    });
    for _ in 0..2 {
        let refused = ceiling.check(&wider, USER, &mut filters).unwrap_err();
        assert!(matches!(refused, CeilingError::Syscall { call: "mount", .. }), "{refused}");
    }
    assert_eq!(ceiling.check(&plan(), USER, &mut filters), Ok(()));
}
