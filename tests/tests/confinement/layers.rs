//! Each layer alone holds what it claims: a cell that takes just that step, an attempt that only
//! that step stops, the side effect seen from outside, and a control without the step.

use palisade_plan::{
    Access, Bind, FIRST_UNKNOWN, Grant, MissingPath, NameServers, Namespace, Network, ProcView,
    Root, SetIdBits, Sockets, Step, SyscallAction, SyscallRule, Tcp, Tmpfs,
};
use palisade_tests::{Cell, Mode, Pids, World, own, plan};
use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Stdio};

pub(crate) fn world() -> World {
    World::new(Mode::User)
}

/// Makes the same attempts in a cell with the steps and in one without any.
pub(crate) fn with_and_without(
    world: &World,
    steps: Vec<Step>,
    pids: Pids,
    attempts: &[&str],
) -> [Vec<String>; 2] {
    let held = Cell::with_steps(steps, pids).expect("a cell with the step");
    let free = Cell::with_steps(vec![], Pids::Shared).expect("a cell without");
    [&held, &free].map(|cell| {
        let lines = cell.probe(&world.workspace(), attempts);
        lines
            .into_iter()
            .map(|line| line.rsplit('=').next().unwrap_or_default().to_owned())
            .collect()
    })
}

fn grant(path: &Path, access: Access) -> Grant {
    Grant { path: path.into(), access, missing: MissingPath::Refuse }
}

/// Returns the grants that a program needs to start.
fn system() -> Vec<Grant> {
    let optional =
        |path: &str, access| Grant { path: path.into(), access, missing: MissingPath::Skip };
    vec![
        optional("/usr", Access::Execute),
        optional("/lib", Access::Execute),
        optional("/lib64", Access::Execute),
        optional("/bin", Access::Execute),
        optional("/etc/ld.so.cache", Access::Read),
        optional("/dev", Access::Device),
        optional("/proc", Access::Read),
    ]
}

#[test]
fn landlock_alone_keeps_files_outside_out_of_reach() {
    let world = world();
    let script = world.outside().join("canary");
    let mut grants = system();
    grants.push(grant(&world.workspace(), Access::Write));
    let steps = vec![Step::NoNewPrivileges, Step::Landlock { grants, tcp: Tcp::NotHandled }];
    let outside = world.outside();
    let at = |act: &str, name: &str| format!("{act}:{}", outside.join(name).display());
    let (read, write, list) = (at("read", "canary"), at("append", "canary"), at("list", "."));
    let (make, rename) = (at("mkdir", "new"), format!("rename:{}:stolen", script.display()));
    let link = format!("link:{}:linked", script.display());
    let attempts =
        [read.as_str(), &write, &list, &make, &rename, &link, "write:inside", "read:inside"];
    let held = Cell::with_steps(steps, Pids::Shared).unwrap();
    let lines = held.probe(&world.workspace(), &attempts);
    let answers: Vec<_> = lines.iter().map(|l| l.rsplit('=').next().unwrap()).collect();
    assert_eq!(answers, ["EACCES", "EACCES", "EACCES", "EACCES", "EACCES", "EXDEV", "ok", "ok"]);
    world.assert_canary_untouched();
    // The control: the same attempts succeed where nothing holds them.
    let free = Cell::with_steps(vec![], Pids::Shared).unwrap();
    let lines = free.probe(&world.workspace(), &[&read, &write, &list, &make]);
    assert!(lines.iter().all(|line| line.ends_with("=ok")), "{lines:?}");
    assert!(outside.join("new").is_dir());
}

#[test]
fn landlock_alone_closes_signals_and_abstract_sockets() {
    use std::os::linux::net::SocketAddrExt as _;
    let world = world();
    let name = format!("palisade-layers-{}", std::process::id());
    let address = std::os::unix::net::SocketAddr::from_abstract_name(&name).unwrap();
    let listener = std::os::unix::net::UnixListener::bind_addr(&address).unwrap();
    listener.set_nonblocking(true).unwrap();
    let mut grants = system();
    grants.push(grant(&world.workspace(), Access::Write));
    let steps = vec![Step::NoNewPrivileges, Step::Landlock { grants, tcp: Tcp::NotHandled }];
    let kill = format!("kill:{}:0", std::process::id());
    let connect = format!("abstract:{name}");
    let [held, free] =
        with_and_without(&world, steps, Pids::Shared, &[&kill, &connect, "kill:self:0"]);
    assert_eq!(held, ["EPERM", "EPERM", "ok"]);
    assert_eq!(free[1], "ok", "the listener is there for those who may");
    // The one connection is the control's.
    assert!(listener.accept().is_ok());
    assert!(listener.accept().is_err());
}

/// A program is in a domain below its runner's, also where nobody reads what it is refused.
#[test]
fn landlock_alone_keeps_a_programs_runner_out_of_its_reach() {
    let world = world();
    let mut grants = system();
    grants.push(grant(&world.workspace(), Access::Write));
    let steps = vec![Step::NoNewPrivileges, Step::Landlock { grants, tcp: Tcp::NotHandled }];
    let held = Cell::with_steps(steps, Pids::Shared).unwrap();
    let free = Cell::with_steps(vec![], Pids::Shared).unwrap();
    let line = "kill -0 $PPID && echo runner; kill -0 $$ && echo own";
    let [held, free] =
        [held, free].map(|cell| cell.run(&["bash", "-c", line], &world.workspace()).1);
    assert!(held.starts_with("own\n") && !held.contains("runner\n"), "{held}");
    assert!(held.contains("Operation not permitted"), "{held}");
    assert_eq!(free, "runner\nown\n");
}

/// The kernel copies every rule for every program.
#[test]
fn a_rule_is_left_out_if_a_directory_above_has_as_much_and_only_then() {
    let world = world();
    let (workspace, outside) = (world.workspace(), world.outside());
    fs::create_dir(workspace.join("below")).unwrap();
    fs::write(workspace.join("below/file"), "x").unwrap();
    std::os::unix::fs::symlink(&outside, workspace.join("link")).unwrap();
    let canary = outside.join("canary");
    let (read, append) =
        (format!("read:{}", canary.display()), format!("append:{}", canary.display()));
    let attempts = [read.as_str(), &append, "read:below/file", "append:below/file"];
    let with = |more: &[(&str, Access)]| {
        let mut grants = system();
        grants.push(grant(&workspace, Access::Write));
        grants.extend(more.iter().map(|(name, access)| grant(&workspace.join(name), *access)));
        let steps = vec![Step::NoNewPrivileges, Step::Landlock { grants, tcp: Tcp::NotHandled }];
        let cell = Cell::with_steps(steps, Pids::Shared).unwrap();
        let lines = cell.probe(&workspace, &attempts);
        let answers = lines.iter().map(|line| line.rsplit('=').next().unwrap().to_owned());
        (cell.receipt.landlock_rules, answers.collect::<Vec<_>>())
    };
    let (rules, answers) = with(&[]);
    assert_eq!(answers, ["EACCES", "EACCES", "ok", "ok"]);
    assert_eq!(with(&[("below", Access::Read), ("below/file", Access::Execute)]), (rules, answers));
    // A link inside leads out of the directory above it, so its rule is not left out.
    let (more, answers) = with(&[("below", Access::Read), ("link", Access::Read)]);
    assert_eq!(
        (more, answers),
        (rules + 1, ["ok", "EACCES", "ok", "ok"].map(String::from).to_vec())
    );
    world.assert_canary_untouched();
    // A required path that is missing refuses the cell, covered or not.
    let mut grants = system();
    grants.extend([grant(&workspace, Access::Write), grant(&workspace.join("none"), Access::Read)]);
    let steps = vec![Step::NoNewPrivileges, Step::Landlock { grants, tcp: Tcp::NotHandled }];
    let (step, why) = Cell::with_steps(steps, Pids::Shared).err().unwrap();
    assert_eq!(step, "landlock");
    assert!(why.contains("/none"), "{why}");
}

#[test]
fn landlock_alone_refuses_tcp_where_there_is_no_network_namespace() {
    let world = world();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut grants = system();
    grants.push(grant(&world.workspace(), Access::Write));
    let steps = vec![Step::NoNewPrivileges, Step::Landlock { grants, tcp: Tcp::Refused }];
    let connect = format!("tcp:127.0.0.1:{port}");
    let [held, free] = with_and_without(&world, steps, Pids::Shared, &[&connect, "loopback"]);
    assert_eq!(held, ["EACCES", "EACCES"]);
    assert_eq!(free, ["ok", "ok"]);
    assert!(listener.accept().is_ok(), "the control's connection");
    assert!(listener.accept().is_err(), "and no other");
}

#[test]
fn landlock_alone_keeps_data_from_being_run() {
    let world = world();
    let readable = world.outside();
    fs::copy(world.workspace().join("probe"), readable.join("program")).unwrap();
    let program = format!("exec:{}", readable.join("program").display());
    let mut grants = system();
    grants.push(grant(&world.workspace(), Access::Write));
    grants.push(grant(&readable, Access::Read));
    let steps = vec![Step::NoNewPrivileges, Step::Landlock { grants, tcp: Tcp::NotHandled }];
    let [held, free] = with_and_without(&world, steps, Pids::Shared, &[&program]);
    assert_eq!(held, ["EACCES"]);
    assert_eq!(free, ["silent"], "it ran, and said nothing");
}

/// Returns the steps for a filter whose own rules allow every system call.
fn open_filter(network: Network) -> Vec<Step> {
    let allow = |number| SyscallRule { number, clauses: vec![], otherwise: SyscallAction::Allow };
    let rules = (0..FIRST_UNKNOWN + 10).map(allow).collect();
    vec![
        Step::NoNewPrivileges,
        Step::Seccomp { rules, sockets: Sockets::of(&network), bits: SetIdBits::None },
    ]
}

#[test]
fn the_fixed_rules_hold_whatever_a_filter_allows() {
    let world = world();
    let attempts = [
        "sys:keyctl:0:-3:0:0:0",
        "sys:userfaultfd:1",
        "sys:unshare:0x10000000",
        "sys:io_uring_setup:1:buf",
        "sys:clone3:buf:64",
        "sys:321:0:buf:0",
        "sys:298:buf:0:-1:-1:0",
        "sys:open_by_handle_at:-100:buf:0",
        "sys:kcmp:self:self:0:0:0",
        "sys:430:@tmpfs:0",
        "sys:process_vm_readv:self:buf:1:buf:1:0",
        "socket:40:1:0",
        "socket:17:3:0",
        "sys:prlimit64:1:7:0:buf",
        "chmod:probe-set:0x9ed",
        "sys:mknod:@node:0x2180:0x103",
        "sys:316:-100:@probe-set:-100:@moved:4",
        "sys:clone:0x10000011:0:0:0:0",
        "sys:fcntl:0:1024:0",
    ];
    // Ordinary programs go on.
    let ordinary = ["sys:getpid", "socket:1:1:0", "socket:2:2:0", "sys:memfd_create:@x:0"];
    let file = world.workspace().join("probe-set");
    fs::write(&file, "").unwrap();
    let held = Cell::with_steps(open_filter(Network::Loopback), Pids::Shared).unwrap();
    let all: Vec<_> = attempts.iter().chain(&ordinary).copied().collect();
    let answers = held.probe(&world.workspace(), &all);
    for (attempt, answer) in attempts.iter().zip(&answers) {
        assert_eq!(answer, &format!("{attempt}=EPERM"));
    }
    for (attempt, answer) in ordinary.iter().zip(&answers[attempts.len()..]) {
        assert_eq!(answer, &format!("{attempt}=ok"));
    }
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o6000, 0);
    assert!(!world.workspace().join("node").exists() && !world.workspace().join("moved").exists());
    // System calls that this build does not know, and those of another architecture.
    let unknown = [format!("sys:{FIRST_UNKNOWN}"), "x32:getpid".to_owned()];
    let answers = held.probe(&world.workspace(), &unknown.each_ref().map(String::as_str));
    assert_eq!(answers, [format!("{}=ENOSYS", unknown[0]), format!("{}=SIGSYS", unknown[1])]);
    // The control: without a filter they are not denied.
    let free = Cell::with_steps(vec![], Pids::Shared).unwrap();
    let control = ["sys:unshare:0x10000000", "chmod:probe-set:0x9ed"];
    let answers = free.probe(&world.workspace(), &control);
    assert_eq!(answers, control.map(|attempt| format!("{attempt}=ok")));
}

/// In the launcher's own network they also deny what Landlock's port rules do not see.
#[test]
fn the_fixed_rules_for_ports_deny_other_networks() {
    let world = world();
    let steps = open_filter(Network::Ports(vec![443]));
    let attempts = ["socket:2:2:0", "socket:16:3:0", "sys:50:0:1", "socket:2:1:0", "socket:1:1:0"];
    let [held, free] = with_and_without(&world, steps, Pids::Shared, &attempts);
    assert_eq!(held, ["EPERM", "EPERM", "EPERM", "ok", "ok"]);
    assert_eq!([&free[0], &free[1]], ["ok", "ok"]);
}

#[test]
fn seccomp_alone_refuses_what_is_not_on_the_list() {
    let world = world();
    let syscalls = plan(&world.workspace()).syscalls;
    let sockets = Sockets::of(&Network::Loopback);
    let steps = vec![
        Step::NoNewPrivileges,
        Step::Seccomp { rules: syscalls, sockets, bits: SetIdBits::None },
    ];
    let attempts = [
        "sys:keyctl:0:-3:0:0:0",
        "sys:add_key:@user:@x:0:0:0",
        "sys:userfaultfd:1",
        "sys:io_uring_setup:1:buf",
        "sys:unshare:0x10000000",
        "sys:clone:0x10000011:0:0:0:0",
        "sys:clone3:buf:64",
        "sys:personality:0x0040000",
        "socket:40:1:0",
        "socket:2:3:1",
        "socket:16:3:9",
        "sys:600",
        "x32:getpid",
        "sys:sched_setscheduler:1:0:buf",
        "sys:prlimit64:1:7:0:buf",
        "sys:process_vm_readv:1:buf:1:buf:1:0",
        "sys:kcmp:self:self:0:0:0",
        "sys:open_by_handle_at:-100:buf:0",
        "chmod:probe-set:0x9ed",
        "sys:mknod:@node:0x2180:0x103",
        // And what ordinary programs do goes on.
        "sys:getpid",
        "socket:1:1:0",
        "socket:2:1:6",
        "loopback",
        "sys:memfd_create:@x:0",
    ];
    fs::write(world.workspace().join("probe-set"), "").unwrap();
    let cell = Cell::with_steps(steps, Pids::Shared).unwrap();
    let held = cell.probe(&world.workspace(), &attempts);
    let expected = [
        "EPERM", "EPERM", "EPERM", "ENOSYS", "EPERM", "EPERM", "ENOSYS", "EPERM", "EPERM", "EPERM",
        "EPERM", "ENOSYS", "SIGSYS", "EPERM", "EPERM", "EPERM", "EPERM", "EPERM", "EPERM", "EPERM",
        "ok", "ok", "ok", "ok", "ok",
    ];
    for ((attempt, held), expected) in attempts.iter().zip(&held).zip(expected) {
        assert_eq!(held, &format!("{attempt}={expected}"));
    }
    let mode = fs::metadata(world.workspace().join("probe-set")).unwrap().permissions().mode();
    assert_eq!(mode & 0o6000, 0, "no set-id bit was set");
    assert!(!world.workspace().join("node").exists());
}

#[test]
fn int_80_is_killed_by_the_filter_and_by_nothing_else() {
    let world = world();
    let syscalls = plan(&world.workspace()).syscalls;
    let sockets = Sockets::of(&Network::Loopback);
    let steps = vec![
        Step::NoNewPrivileges,
        Step::Seccomp { rules: syscalls, sockets, bits: SetIdBits::None },
    ];
    // 20 is getpid there.
    let [held, free] = with_and_without(&world, steps, Pids::Shared, &["int80:20"]);
    assert_eq!(held, ["SIGSYS"]);
    assert_ne!(free, ["SIGSYS"]);
}

fn root(world: &World) -> Step {
    let plan = plan(&world.workspace());
    Step::Root(Box::new(Root {
        runs: own().into(),
        workspace: plan.workspace,
        binds: plan.binds,
        sockets: Vec::new(),
        tmpfs: plan.tmpfs,
        empty: plan.empty,
        proc: ProcView::Own,
        name_servers: NameServers::Host,
        authority: None,
    }))
}

#[test]
fn the_small_root_alone_hides_the_host() {
    let world = world();
    let steps = vec![Step::Namespaces(vec![Namespace::Mount]), root(&world)];
    let outside = format!("stat:{}", world.canary().display());
    let attempts = [
        outside.as_str(),
        "stat:/root",
        "stat:/etc/shadow",
        "stat:/run/systemd",
        "stat:/sys/kernel",
        "stat:/boot",
        "stat:/dev/vda",
        "write:/usr/new",
        "write:/new",
        "write:/dev/new",
        "write:/proc/sys/kernel/hostname",
        "write:/tmp/new",
        "write:made",
        "read:/usr/bin/env",
        "list:/",
    ];
    let held = Cell::with_steps(steps, Pids::Own).expect("a small root");
    let lines = held.probe(&world.workspace(), &attempts);
    let answers: Vec<_> = lines.iter().map(|l| l.rsplit('=').next().unwrap()).collect();
    let expected = [
        "ENOENT", "ENOENT", "ENOENT", "ENOENT", "ENOENT", "ENOENT", "ENOENT", "EROFS", "EROFS",
        "EROFS", "EROFS", "ok", "ok", "ok", "ok",
    ];
    for ((attempt, answer), expected) in attempts.iter().zip(answers).zip(expected) {
        assert_eq!(answer, expected, "{attempt}");
    }
    assert!(!Path::new("/tmp/new").exists(), "its /tmp is its own");
    assert!(world.workspace().join("made").exists(), "its workspace is the host's");
}

#[test]
fn a_workspace_reached_through_a_link_is_refused() {
    let world = world();
    let link = world.outside().join("link");
    std::os::unix::fs::symlink(world.workspace(), &link).unwrap();
    let plan = plan(&link);
    let root = Root {
        runs: own().into(),
        workspace: Bind {
            path: link.as_path().into(),
            access: Access::Write,
            missing: MissingPath::Refuse,
        },
        binds: plan.binds,
        sockets: Vec::new(),
        tmpfs: vec![Tmpfs { path: "/tmp".into(), bytes: 1 << 20, mode: 0o1777 }],
        empty: Vec::new(),
        proc: ProcView::Own,
        name_servers: NameServers::Host,
        authority: None,
    };
    let steps = vec![Step::Namespaces(vec![Namespace::Mount]), Step::Root(Box::new(root))];
    let (step, why) = Cell::with_steps(steps, Pids::Own).expect_err("refused");
    assert_eq!(step, "root");
    assert!(why.contains("symbolic link"), "{why}");
}

#[test]
fn dropped_capabilities_alone_leave_nothing_in_any_set() {
    let world = world();
    let [held, free] = with_and_without(
        &world,
        vec![Step::Capabilities],
        Pids::Shared,
        &["no_capabilities", "sys:sethostname:@x:1"],
    );
    assert_eq!(held, ["ok", "EPERM"]);
    assert_eq!(free[0], "EINVAL", "without the step there is something left");
}

#[test]
fn locked_securebits_can_not_be_changed_back() {
    let world = world();
    // PR_SET_SECUREBITS, PR_CAPBSET_DROP.
    let attempts = ["sys:prctl:28:0:0:0:0", "sys:prctl:24:21:0:0:0"];
    let [held, free] = with_and_without(&world, vec![Step::Capabilities], Pids::Shared, &attempts);
    assert_eq!(held, ["EPERM", "EPERM"]);
    // Root, and an ordinary user in a user namespace, have the capability until the step.
    assert_eq!(free, ["ok", "ok"]);
}

#[test]
fn no_new_privileges_alone_is_inherited_by_programs() {
    let held = Cell::with_steps(vec![Step::NoNewPrivileges], Pids::Shared).unwrap();
    let free = Cell::with_steps(vec![], Pids::Shared).unwrap();
    let status =
        |cell: &Cell| cell.run(&["grep", "NoNewPrivs", "/proc/self/status"], Path::new("/")).1;
    assert_eq!(status(&held), "NoNewPrivs:\t1\n");
    assert_eq!(status(&free), "NoNewPrivs:\t0\n");
}

#[test]
fn the_identity_alone_is_the_sessions_and_has_no_groups() {
    if !rustix::process::geteuid().is_root() {
        // An ordinary user's sessions have that user's identity: there is no such step for them.
        let (steps, _) = palisade_plan::steps(
            &plan(&world().workspace()),
            &palisade_tests::facts(),
            own(),
            palisade_plan::Role::Files,
        )
        .unwrap();
        assert!(!steps.iter().any(|step| matches!(step, Step::Identity(_))));
        return;
    }
    let world = world();
    let uid = format!("uid:{}", own().uid);
    let [held, free] = with_and_without(
        &world,
        vec![Step::Identity(own())],
        Pids::Shared,
        &[&uid, "no_groups", "sys:setuid:0", "chown:probe"],
    );
    assert_eq!(held, ["ok", "ok", "EPERM", "EPERM"]);
    assert_eq!(free[0], "EINVAL");
}

#[test]
fn limits_alone_hold_for_each_process() {
    use palisade_plan::{Resource, Rlimit};
    let world = world();
    let limit = |resource, value| Rlimit { resource, value };
    let steps = vec![Step::Rlimits(vec![
        limit(Resource::OpenFiles, 64),
        limit(Resource::FileSize, 1 << 20),
        limit(Resource::Memory, 64 << 20),
        limit(Resource::Core, 0),
    ])];
    let attempts =
        ["descriptors:100", "files:2", "memory:128", "descriptors:20", "files:1", "memory:8"];
    let [held, free] = with_and_without(&world, steps, Pids::Shared, &attempts);
    assert_eq!(held, ["EMFILE", "EFBIG", "ENOMEM", "ok", "ok", "ok"]);
    assert_eq!(free[..3], ["ok", "ok", "ok"]);
}

#[test]
fn detaching_alone_gives_default_signals() {
    let world = world();
    // Rust programs ignore SIGPIPE; a cell is one, and what it starts must not.
    let ignored = |steps: Vec<Step>| {
        let cell = Cell::with_steps(steps, Pids::Shared).unwrap();
        cell.run(&["grep", "-E", "SigIgn|SigBlk", "/proc/self/status"], &world.workspace()).1
    };
    assert_eq!(
        ignored(vec![Step::Detach]),
        "SigBlk:\t0000000000000000\nSigIgn:\t0000000000000000\n"
    );
    let free = ignored(vec![]);
    let mask = free.trim().rsplit('\t').next().and_then(|m| u64::from_str_radix(m, 16).ok());
    assert!(mask.is_some_and(|mask| mask & 0x1000 != 0), "the control ignores SIGPIPE: {free}");
}

#[test]
fn closing_descriptors_alone_lets_go_of_what_was_inherited() {
    let world = world();
    let path = world.outside().join("canary");
    let held_open = |steps: Vec<Step>| {
        let file = fs::File::options().read(true).append(true).open(&path).unwrap();
        rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let _cell = Cell::with_stderr(steps, Pids::Shared, Stdio::from(file)).unwrap();
        let again = fs::File::open(&path).unwrap();
        let lock = rustix::fs::FlockOperation::NonBlockingLockExclusive;
        // Another test's child may hold everything of this process between its birth and its
        // execution, so that a lock that is let go of is not always free at once.
        (0..100).all(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            rustix::fs::flock(&again, lock).is_err()
        })
    };
    assert!(held_open(vec![]), "the control: without the step it is still held");
    // `unshare`, which starts the cell here, holds its own copy only while it waits for a child.
    assert!(!held_open(vec![Step::CloseDescriptors]));
}

#[test]
fn undumpable_alone_puts_the_process_out_of_its_users_reach() {
    let world = world();
    // As an ordinary user: taking on another identity makes a process undumpable anyway.
    let free = Cell::as_user(vec![Step::Capabilities], Pids::Shared).unwrap();
    let held = Cell::as_user(vec![Step::Capabilities, Step::Undumpable], Pids::Shared).unwrap();
    let parent = |cell: &Cell| {
        cell.run(&["bash", "-c", "test -O /proc/$PPID/status; echo $?"], &world.workspace()).1
    };
    assert_eq!(parent(&free), "0\n");
    assert_eq!(parent(&held), "1\n");
}
