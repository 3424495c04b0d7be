//! The denials of the system call filter, from inside a whole session: the kernel's exact answer,
//! the host as it was, and beside each refusal what ordinary programs still do.

use palisade_plan::SyscallAction;
use palisade_tests::{Mode, Sandbox, World, rooms::until};
use std::{fs, os::unix::fs::OpenOptionsExt as _, process::Command};

/// A session of each kind of daemon.
fn each(act: impl Fn(&World, &Sandbox)) {
    for mode in Mode::all() {
        let world = World::new(mode);
        let sandbox = world.open();
        act(&world, &sandbox);
        world.assert_canary_untouched();
    }
}

/// Returns the state of the host that these calls would change.
fn host() -> Vec<String> {
    let files = [
        "/proc/sys/kernel/hostname",
        "/proc/sys/kernel/domainname",
        "/proc/sys/kernel/tainted",
        "/proc/sys/kernel/kexec_load_disabled",
        "/proc/swaps",
        "/proc/self/mountinfo",
    ];
    // Not every kernel has every one of them; then it is absent before and after.
    files.iter().map(|file| fs::read_to_string(file).unwrap_or_default()).collect()
}

/// Calls that the filter refuses by their ordinary number.
const REFUSED: [&str; 30] = [
    "keyctl",
    "add_key",
    "request_key",
    "bpf",
    "perf_event_open",
    "userfaultfd",
    "io_uring_setup",
    "io_uring_enter",
    "io_uring_register",
    "mount",
    "umount2",
    "pivot_root",
    "chroot",
    "open_tree",
    "move_mount",
    "fsopen",
    "unshare",
    "setns",
    "clone3",
    "open_by_handle_at",
    "name_to_handle_at",
    "process_vm_readv",
    "process_vm_writev",
    "kcmp",
    "init_module",
    "finit_module",
    "kexec_load",
    "kexec_file_load",
    "reboot",
    "settimeofday",
];

#[test]
fn every_refused_call_is_killed_under_its_x32_number() {
    each(|_, sandbox| {
        let attempts = REFUSED.map(|name| format!("x32:{name}"));
        let mut table: Vec<_> = attempts.iter().map(|a| (a.as_str(), "SIGSYS")).collect();
        // Ordinary calls too: there is no second table of calls at all.
        table.extend([("x32:getpid", "SIGSYS"), ("x32:openat", "SIGSYS"), ("sys:getpid", "ok")]);
        sandbox.holds(&table);
    });
}

#[test]
fn the_32_bit_door_is_shut() {
    // getpid, open, socketcall, ptrace, execve, mount as int 0x80 numbers them.
    each(|_, sandbox| {
        sandbox.holds(&[
            ("int80:20", "SIGSYS"),
            ("int80:5", "SIGSYS"),
            ("int80:102", "SIGSYS"),
            ("int80:26", "SIGSYS"),
            ("int80:11", "SIGSYS"),
            ("int80:21", "SIGSYS"),
            ("sys:getpid", "ok"),
        ]);
    });
}

#[test]
fn unknown_numbers_do_not_exist() {
    each(|_, sandbox| {
        sandbox.holds(&[
            ("sys:500", "ENOSYS"),
            ("sys:511", "ENOSYS"),
            ("sys:600", "ENOSYS"),
            ("sys:1000", "ENOSYS"),
            ("sys:1073741823", "ENOSYS"),
            // With the bit of x32 in it.
            ("sys:-1", "SIGSYS"),
            ("sys:getpid", "ok"),
        ]);
    });
}

#[test]
fn io_uring_does_not_exist_and_event_loops_do() {
    each(|_, sandbox| {
        sandbox.holds(&[
            ("sys:io_uring_setup:8:buf", "ENOSYS"),
            ("sys:io_uring_enter:0:1:0:0:0:0", "ENOSYS"),
            ("sys:io_uring_register:0:0:buf:1", "ENOSYS"),
        ]);
        let loop_ = "import select; e = select.epoll(); print(e.fileno() > 2)";
        assert_eq!(sandbox.ok(&format!("python3 -c '{loop_}'")), "True\n");
    });
}

#[test]
fn userfaultfd_is_refused_by_call_and_by_device() {
    each(|_, sandbox| {
        sandbox.holds(&[
            ("sys:userfaultfd:0", "EPERM"),
            // UFFD_USER_MODE_ONLY, which needs no privilege outside.
            ("sys:userfaultfd:1", "EPERM"),
            ("stat:/dev/userfaultfd", "ENOENT"),
            ("stat:/dev/null", "ok"),
        ]);
    });
}

#[test]
fn programs_in_the_kernel_and_its_counters_are_refused() {
    each(|_, sandbox| {
        sandbox.holds(&[
            ("sys:bpf:0:buf:64", "EPERM"),
            ("sys:bpf:5:buf:64", "EPERM"),
            ("sys:perf_event_open:buf:0:-1:-1:0", "EPERM"),
            ("sys:lookup_dcookie:0:buf:64", "EPERM"),
            ("sys:getrandom:buf:16:0", "ok"),
        ]);
    });
}

#[test]
fn keyrings_are_out_of_reach() {
    let name = format!("palisade-probe-{}", std::process::id());
    each(|world, sandbox| {
        // To the user's keyring, which all of the user's processes share.
        let add = format!("sys:add_key:@user:@{name}:@x:1:-4");
        let request = format!("sys:request_key:@user:@{name}:0:0");
        sandbox.holds(&[
            (&add, "EPERM"),
            (&request, "EPERM"),
            ("sys:keyctl:0:-3:0:0:0", "EPERM"),
            ("sys:keyctl:0:-4:1:0:0", "EPERM"),
        ]);
        for list in ["/proc/keys", "/proc/key-users"] {
            let read = sandbox.bash(&format!("cat {list}"));
            assert!(read.stderr.contains(&format!("{list}: Permission denied")), "{read:?}");
            assert!(read.stdout.is_empty(), "{read:?}");
            assert!(fs::File::open(list).is_ok(), "control: {list} can be read outside");
        }
        // The control adds to a keyring that ends with its process.
        let control = "sys:add_key:@user:@palisade-control:@x:1:-2".to_owned();
        assert_eq!(world.told_outside(&[control]), ["ok"]);
    });
    let keys = fs::read_to_string("/proc/keys").unwrap_or_default();
    assert!(!keys.contains(&name), "a key came to be");
}

#[test]
fn no_signal_tells_when_others_use_a_directory() {
    // F_NOTIFY, which the kernel answers with a signal for every access.
    let line = "import fcntl, os, signal\nsignal.signal(signal.SIGIO, signal.SIG_IGN)\n\
                try: fcntl.fcntl(os.open('/usr/bin', os.O_RDONLY), 1026, 1); print('ok')\n\
                except OSError as error: print(error.strerror)";
    let outside = Command::new("python3").args(["-c", line]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&outside.stdout), "ok\n");
    each(|_, sandbox| {
        let inside = sandbox.call("bash", serde_json::json!({"argv": ["python3", "-c", line]}));
        assert_eq!(inside.stdout, "Operation not permitted\n", "{inside:?}");
    });
}

/// Takes a write lease (F_SETLEASE) on the file `leased`, says in `answer` what came of it, and stays.
const TAKE_LEASE: &str = "import fcntl, os, signal\nsignal.signal(signal.SIGIO, signal.SIG_IGN)\n\
    file = os.open('leased', os.O_RDWR)\n\
    try: fcntl.fcntl(file, 1024, fcntl.F_WRLCK); answer = 'ok'\n\
    except OSError as error: answer = error.strerror\n\
    open('new', 'w').write(answer); os.rename('new', 'answer'); signal.pause()";

/// An open of a leased file waits until its holder gives the lease back, or for as long as
/// `fs.lease-break-time` says. One that may not wait fails instead.
#[test]
fn no_open_of_a_file_waits_for_a_session() {
    let file_of = |world: &World| {
        let file = world.workspace().join("leased");
        fs::write(&file, "").unwrap();
        world.give(&file);
    };
    // What the holder says of the lease, and what an open that may not wait comes to.
    let found = |world: &World| {
        let (answer, leased) = ["answer", "leased"].map(|name| world.workspace().join(name)).into();
        until("the holder has an answer", || answer.exists());
        let opened = fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(leased);
        let opened = opened.map(drop).map_err(|error| error.raw_os_error());
        (fs::read_to_string(answer).unwrap(), opened)
    };
    each(|world, sandbox| {
        file_of(world);
        let line = serde_json::json!({"argv": ["python3", "-c", TAKE_LEASE], "background": true});
        let started = sandbox.call("bash", line);
        assert!(started.success, "{:?}", started.error);
        assert_eq!(found(world), ("Operation not permitted".to_owned(), Ok(())));
        // Each also with bits that the kernel does not read, and F_SETDELEG, which newer kernels have.
        sandbox.holds(&[
            ("sys:fcntl:0:1024:0", "EPERM"),
            ("sys:fcntl:0:0x100000400:2", "EPERM"),
            ("sys:fcntl:0:1040:buf", "EPERM"),
            ("sys:fcntl:0:0xffffffff00000410:buf", "EPERM"),
            // F_GETLEASE and F_DUPFD_CLOEXEC.
            ("sys:fcntl:0:1025:0", "ok"),
            ("sys:fcntl:0:1030:3", "ok"),
        ]);
        // The control: the same program, without a sandbox.
        let free = World::new(world.mode);
        file_of(&free);
        let mut holder = free.mode.act(|| {
            let mut python = Command::new("python3");
            python.args(["-c", TAKE_LEASE]).current_dir(free.workspace()).spawn().unwrap()
        });
        let held = found(&free);
        holder.kill().unwrap();
        holder.wait().unwrap();
        assert_eq!(held, ("ok".to_owned(), Err(Some(libc::EWOULDBLOCK))));
    });
}

#[test]
fn mounts_and_roots_stay_as_they_are() {
    let before = host();
    each(|_, sandbox| {
        let inside = sandbox.ok("cat /proc/self/mountinfo");
        sandbox.holds(&[
            ("sys:mount:@none:@/tmp:@tmpfs:0:0", "EPERM"),
            ("sys:mount:@/tmp:@/usr:0:4096:0", "EPERM"),
            ("sys:mount:0:@/usr:0:0x21:0", "EPERM"),
            ("sys:umount2:@/usr:2", "EPERM"),
            ("sys:pivot_root:@/tmp:@/tmp", "EPERM"),
            ("sys:chroot:@/tmp", "EPERM"),
            ("sys:chroot:@.", "EPERM"),
            ("write:/tmp/here", "ok"),
        ]);
        // The escape by a second chroot needs a first one.
        let twice = "import os\nos.mkdir('/tmp/jail')\ntry:\n os.chroot('/tmp/jail')\n\
                     except OSError as e: print(e.errno)\nfor _ in range(20): os.chdir('..')\n\
                     print(os.path.exists('/etc/shadow'))";
        assert_eq!(sandbox.ok(&format!("python3 -c \"{twice}\"")), "1\nFalse\n");
        assert_eq!(sandbox.ok("cat /proc/self/mountinfo"), inside);
    });
    assert_eq!(host(), before);
}

#[test]
fn the_newer_mount_interface_does_not_exist() {
    let before = host();
    each(|_, sandbox| {
        sandbox.holds(&[
            ("sys:open_tree:-100:@/usr:1", "ENOSYS"),
            ("sys:move_mount:0:@:-100:@/tmp:4", "ENOSYS"),
            ("sys:fsopen:@tmpfs:0", "ENOSYS"),
            ("sys:fsconfig:0:6:0:0:0", "ENOSYS"),
            ("sys:fsmount:0:0:0", "ENOSYS"),
            ("sys:fspick:-100:@/usr:0", "ENOSYS"),
            ("sys:mount_setattr:-100:@/usr:0:buf:32", "ENOSYS"),
            // statmount, listmount, open_tree_attr.
            ("sys:457:buf:buf:64:0", "ENOSYS"),
            ("sys:458:buf:buf:8:0", "ENOSYS"),
            ("sys:467:-100:@/usr:1:buf:32", "ENOSYS"),
        ]);
        // Programs fall back to /proc.
        assert!(sandbox.ok("df --output=target .").contains("workspace"));
    });
    assert_eq!(host(), before);
}

/// The flags of new namespaces: time, mount, cgroup, UTS, IPC, user, PID, network.
const NAMESPACES: [(&str, &str); 8] = [
    ("time", "0x80"),
    ("mnt", "0x20000"),
    ("cgroup", "0x2000000"),
    ("uts", "0x4000000"),
    ("ipc", "0x8000000"),
    ("user", "0x10000000"),
    ("pid", "0x20000000"),
    ("net", "0x40000000"),
];

#[test]
fn no_namespace_is_made_or_entered() {
    each(|_, sandbox| {
        let mut table = Vec::new();
        for (name, flag) in NAMESPACES {
            table.push((format!("sys:unshare:{flag}"), "EPERM"));
            // `clone` takes the exit signal in its low byte, so there is no time namespace by it.
            if name != "time" {
                table.push((format!("sys:clone:{flag}:0:0:0:0"), "EPERM"));
            }
            table.push((format!("clone3:{flag}"), "ENOSYS"));
            table.push((format!("setns:/proc/self/ns/{name}:0"), "EPERM"));
        }
        // Flags above the low 32 bits are no way around: the legacy call does not see them.
        table.push(("sys:clone:0x110000011:0:0:0:0".to_owned(), "EPERM"));
        table.push(("clone3:0".to_owned(), "ENOSYS"));
        // Threads and processes come to be all the same, by the older call.
        table.push(("threads:4".to_owned(), "ok"));
        table.push(("trace_child".to_owned(), "ok"));
        let table: Vec<_> = table.iter().map(|(a, answer)| (a.as_str(), *answer)).collect();
        let links = "readlink /proc/self/ns/*";
        let before = sandbox.ok(links);
        sandbox.holds(&table);
        assert_eq!(sandbox.ok(links), before);
        let result = sandbox.bash("unshare --user --map-root-user id -u");
        assert_eq!((result.exit_code, result.stdout.as_str()), (Some(1), ""));
        assert!(result.stderr.contains("Operation not permitted"), "{}", result.stderr);
    });
}

#[test]
fn the_hosts_kernel_clock_and_names_are_not_for_sessions() {
    let before = host();
    each(|_, sandbox| {
        sandbox.holds(&[
            ("sys:kexec_load:0:0:0:0", "EPERM"),
            ("sys:kexec_file_load:-1:-1:0:0:0", "EPERM"),
            ("sys:init_module:buf:64:@", "EPERM"),
            ("sys:finit_module:0:@:0", "EPERM"),
            ("sys:delete_module:@none:0", "EPERM"),
            // A magic that reboot refuses, should it get there.
            ("sys:reboot:0:0:0:0", "EPERM"),
            ("sys:swapon:@/tmp/none:0", "EPERM"),
            ("sys:swapoff:@/tmp/none", "EPERM"),
            ("sys:acct:@/tmp/none", "EPERM"),
            ("sys:quotactl:0:0:0:0", "EPERM"),
            ("sys:quotactl_fd:0:0:0:0", "EPERM"),
            ("sys:sethostname:@palisade-probe:14", "EPERM"),
            ("sys:setdomainname:@palisade-probe:14", "EPERM"),
            ("sys:syslog:3:buf:64", "EPERM"),
            ("sys:settimeofday:buf:0", "EPERM"),
            ("sys:clock_settime:0:buf", "EPERM"),
            ("sys:adjtimex:buf", "EPERM"),
            ("sys:clock_adjtime:0:buf", "EPERM"),
            ("sys:vhangup", "EPERM"),
            ("vdso", "ok"),
        ]);
        if cfg!(target_arch = "x86_64") {
            sandbox.holds(&[
                ("sys:iopl:3", "EPERM"),
                ("sys:ioperm:0:1:1", "EPERM"),
                ("sys:modify_ldt:0:buf:64", "EPERM"),
                ("sys:modify_ldt:1:buf:16", "EPERM"),
                ("sys:nfsservctl:0:0:0", "EPERM"),
                // create_module, get_kernel_syms, query_module.
                ("sys:174", "EPERM"),
                ("sys:177", "EPERM"),
                ("sys:178", "EPERM"),
            ]);
        }
        sandbox.holds(&[("write:/proc/sys/kernel/hostname", "EROFS")]);
    });
    assert_eq!(host(), before);
}

#[test]
fn nothing_is_typed_into_a_terminal() {
    each(|_, sandbox| {
        // TIOCSTI, TIOCLINUX, TIOCSETD, TIOCCONS, each also with bits that a driver never sees;
        // TIOCSCTTY with the argument that takes a terminal from its session.
        sandbox.holds(&[
            ("ioctl:/dev/ptmx:0x5412", "EPERM"),
            ("ioctl:/dev/ptmx:0x100005412", "EPERM"),
            ("ioctl:/dev/ptmx:0xffffffff00005412", "EPERM"),
            ("ioctl:/dev/ptmx:0x541c", "EPERM"),
            ("ioctl:/dev/ptmx:0x10000541c", "EPERM"),
            ("ioctl:/dev/ptmx:0x5423", "EPERM"),
            ("ioctl:/dev/ptmx:0x100005423", "EPERM"),
            ("ioctl:/dev/ptmx:0x541d", "EPERM"),
            ("sys:ioctl:0:0x540e:1", "EPERM"),
            ("sys:ioctl:0:0x10000540e:1", "EPERM"),
            // Without stealing it gets as far as the file, which is no terminal.
            ("sys:ioctl:0:0x540e:0", "ENOTTY"),
            // The size of a window, as every terminal program asks.
            ("ioctl:/dev/ptmx:0x5413", "ok"),
        ]);
        // A pseudo-terminal of its own works from end to end.
        let pty = "import os, pty; m, s = pty.openpty(); os.write(s, b'x'); print(os.read(m, 1))";
        assert_eq!(sandbox.ok(&format!("python3 -c \"{pty}\"")), "b'x'\n");
    });
}

#[test]
fn there_are_no_devices_but_the_harmless_ones() {
    each(|world, sandbox| {
        let mut table = Vec::new();
        let names = [
            "kvm",
            "loop-control",
            "loop0",
            "mapper/control",
            "fuse",
            "uinput",
            "vfio/vfio",
            "nvidia0",
            "nvidiactl",
            "dri",
            "mem",
            "kmsg",
            "vda",
            "sda",
            "nvme0n1",
            "net/tun",
            "vhost-vsock",
            "vsock",
            "console",
            "tty0",
            "input",
            "userfaultfd",
            "hwrng",
            "cpu",
        ];
        for name in names {
            table.push((format!("ioctl:/dev/{name}:0"), "ENOENT"));
        }
        // Nor can one be made: a character and a block device, by both calls.
        table.push(("sys:mknod:@node:0x21b6:0x101".to_owned(), "EPERM"));
        table.push(("sys:mknodat:-100:@node:0x61b6:0xfe00".to_owned(), "EPERM"));
        table.push(("sys:mknod:@fifo:0x11b6:0".to_owned(), "ok"));
        table.push(("ioctl:/dev/null:0x5413".to_owned(), "ENOTTY"));
        let table: Vec<_> = table.iter().map(|(a, answer)| (a.as_str(), *answer)).collect();
        sandbox.holds(&table);
        assert_eq!(
            sandbox.ok("cd /dev && echo *"),
            "fd full null ptmx pts random shm stderr stdin stdout tty urandom zero\n"
        );
        assert!(!world.workspace().join("node").exists());
        assert!(world.workspace().join("fifo").exists(), "a FIFO may be made");
    });
}

#[test]
fn a_program_can_only_confine_itself_further() {
    each(|_, sandbox| {
        sandbox.holds(&[
            // PR_SET_MM, with bits above the low 32 too, PR_SET_PTRACER, PR_SET_SECUREBITS.
            ("sys:prctl:35:1:0:0:0", "EPERM"),
            ("sys:prctl:0x100000023:1:0:0:0", "EPERM"),
            ("sys:prctl:0x59616d61:1:0:0:0", "EPERM"),
            ("sys:prctl:0x59616d61:-1:0:0:0", "EPERM"),
            ("sys:prctl:28:0:0:0:0", "EPERM"),
            ("listener", "EPERM"),
            ("own_filter", "ok"),
            // PR_SET_NAME.
            ("sys:prctl:15:@mine:0:0:0", "ok"),
        ]);
    });
}

#[test]
fn the_clock_is_read_without_a_call() {
    each(|world, sandbox| {
        sandbox.holds(&[("vdso", "ok")]);
        // The host chooses whether there is a page at the old fixed address: inside it is as
        // outside, and only the time can be asked there.
        let inside = sandbox.probe("vsyscall");
        let outside = world.told_outside(&["vsyscall".to_owned()]);
        assert_eq!(inside, [format!("vsyscall={}", outside[0])]);
    });
}

#[test]
fn a_forged_signal_return_meets_the_same_filter() {
    each(|_, sandbox| {
        sandbox.holds(&[
            ("by_sigreturn:keyctl", "EPERM"),
            ("by_sigreturn:unshare", "EPERM"),
            ("by_sigreturn:userfaultfd", "EPERM"),
            ("by_sigreturn:io_uring_setup", "ENOSYS"),
            ("by_sigreturn:getpid", "ok"),
        ]);
        // A call that a signal interrupted is restarted, and a handler returns.
        let script = "import signal, time; signal.signal(signal.SIGALRM, lambda *_: print('rang')); \
                      signal.setitimer(signal.ITIMER_REAL, 0.05); time.sleep(0.2); print('slept')";
        assert_eq!(sandbox.ok(&format!("python3 -c \"{script}\"")), "rang\nslept\n");
    });
}

#[test]
fn filters_of_its_own_do_not_loosen_ours() {
    each(|_, sandbox| {
        // Up to the kernel's limit, then what was refused before still is.
        sandbox.holds(&[("filters", "ok")]);
        // The next call has nothing of them.
        sandbox.holds(&[("filters", "ok"), ("own_filter", "ok"), ("sys:getpid", "ok")]);
        assert_eq!(sandbox.ok("grep Seccomp_filters /proc/self/status"), "Seccomp_filters:\t1\n");
    });
}

/// Calls that can not be tried with nonsense for arguments, each with what it would do.
const UNTRIED: [(&str, u32); 9] = [
    ("rt_sigreturn jumps to nowhere", 15),
    ("pause waits for ever", 34),
    ("fork goes on twice", 57),
    ("vfork goes on twice", 58),
    ("exit ends without an answer", 60),
    ("sync waits for all disks of the host", 162),
    ("exit_group ends without an answer", 231),
    ("uretprobe is kept from all filters by the kernel, and ends who is in no probe", 335),
    ("uprobe likewise", 336),
];

/// What the table allows and the runner of these sessions (`guard = "off"`) does not have.
const OPENAT2: u32 = libc::SYS_openat2 as u32;

/// The highest number that is tried; the kernel's own end well below it.
const LAST: u32 = 600;

#[test]
fn every_number_is_answered_as_the_table_says() {
    let rules = palisade_policy::SyscallList::builtin().unwrap().rules();
    assert!(rules.iter().all(|rule| rule.number < LAST));
    let tried: Vec<u32> =
        (0..LAST).filter(|number| UNTRIED.iter().all(|(_, untried)| untried != number)).collect();
    let attempt = |number: &u32| format!("sys:{number}:-1:-1:-1:-1:-1:-1");
    // Somebody who has no capabilities either.
    let plain = World::new(Mode::User);
    each(|_, sandbox| {
        let mut seen = [0; 3];
        for chunk in tried.chunks(100) {
            let attempts: Vec<String> = chunk.iter().map(attempt).collect();
            let inside = sandbox.told(&attempts);
            assert_eq!(inside.len(), chunk.len(), "from {:?} on", chunk.first());
            for (number, inside) in chunk.iter().zip(inside) {
                let rule = rules.iter().find(|rule| rule.number == *number);
                let action = rule.map(|rule| rule.decide(&[u64::MAX; 6]));
                match action {
                    None => {
                        assert_eq!(inside, "ENOSYS", "{number} is not in the table");
                        seen[0] += 1;
                    }
                    Some(SyscallAction::Errno(errno)) => {
                        let expected = match i32::from(errno) {
                            libc::EPERM => "EPERM",
                            libc::ENOSYS => "ENOSYS",
                            libc::EAFNOSUPPORT => "EAFNOSUPPORT",
                            other => panic!("{number} answers {other}, which no test knows"),
                        };
                        assert_eq!(inside, expected, "{number} is refused by the table");
                        seen[1] += 1;
                    }
                    // A fixed rule takes it from programs whose changes take effect at once.
                    Some(SyscallAction::Allow) if *number == OPENAT2 => {
                        assert_eq!(inside, "ENOSYS");
                    }
                    // With nonsense for arguments the kernel has its own complaints.
                    Some(SyscallAction::Allow) => {
                        if matches!(inside.as_str(), "ENOSYS" | "EPERM" | "SIGSYS") {
                            let outside = plain.told_outside(&[attempt(number)]);
                            assert_eq!(outside, [inside], "{number} is let through by the table");
                        }
                        seen[2] += 1;
                    }
                }
            }
        }
        // The control: all three kinds were met, and many times.
        assert!(seen.iter().all(|count| *count > 50), "{seen:?}");
    });
}
