//! Promise 9, for programs: what the kernel refused them is told from its own records, with layer,
//! right, target and rule, for exactly the call that was refused; and where there are no records,
//! that is said and nothing is guessed.

use palisade_client::Open;
use palisade_plan::{Access, Grant, MissingPath, Step, Tcp};
use palisade_protocol::{CallResult, Denial};
use palisade_tests::{Cell, KernelAudit, Mode, Pids, Sandbox, World, rooms};
use serde_json::json;
use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::Path,
    time::{Duration, Instant},
};

/// A host whose kernel tells. Where it does not (an ordinary user's tests, a container), the daemon
/// must say so: that is checked instead.
fn audited(test: impl FnOnce(&World)) {
    match KernelAudit::on() {
        Ok(audit) => {
            assert!(audit.is_on());
            test(&World::new(Mode::System));
        }
        Err(why) => {
            // Once for all of the tests.
            static SAID: std::sync::Once = std::sync::Once::new();
            SAID.call_once(|| {
                eprintln!("the kernel's audit can not be had: {why}");
                let mode = Mode::all()[0];
                assert_unknown(&World::new(mode).open(), mode);
            });
        }
    }
}

/// A session of the default profile, opened once it was known that records come.
fn told(world: &World) -> Sandbox {
    once_told(|| world.open())
}

/// Opens sessions until one of them began with the knowledge that records come. A session waits
/// 3 ms for that, which a busy host may take for longer.
fn once_told(open: impl Fn() -> Sandbox) -> Sandbox {
    let limit = Instant::now() + Duration::from_secs(60);
    loop {
        let sandbox = open();
        if sandbox.session.receipt().unrecorded.is_empty() {
            return sandbox;
        }
        assert!(Instant::now() < limit, "{:?}", sandbox.session.receipt().unrecorded);
    }
}

fn assert_unknown(sandbox: &Sandbox, mode: Mode) {
    let result = sandbox.bash("mkdir /run/x; false");
    assert!(result.stderr.contains("Permission denied"), "{mode:?}: {}", result.stderr);
    assert_eq!(result.denials, [], "{mode:?}");
    let unknown: Vec<_> = result.receipt.as_ref().unwrap().unrecorded.iter().collect();
    let layers: Vec<_> = unknown.iter().map(|unknown| unknown.layer.as_str()).collect();
    assert_eq!(layers, ["landlock", "seccomp"], "{mode:?}");
    for unknown in unknown {
        let expected = match mode {
            Mode::System => "no kernel audit records arrive: ",
            Mode::User => "listen for audit records: ",
        };
        assert!(unknown.why.starts_with(expected), "{mode:?}: {}", unknown.why);
    }
}

/// Makes an attempt that must be refused; the call fails, so that it is known what was.
fn refused(sandbox: &Sandbox, attempt: &str, answer: &str) -> CallResult {
    let result = sandbox.bash(&format!("./probe {attempt}; exit 3"));
    assert_eq!(result.stdout, format!("{attempt}={answer}\n"), "{}", result.stderr);
    assert_eq!(result.exit_code, Some(3), "{attempt}");
    assert_eq!(result.receipt.as_ref().unwrap().unrecorded, [], "{attempt}");
    result
}

fn one(result: &CallResult) -> &Denial {
    let [denial] = &result.denials[..] else { panic!("{:#?}", result.denials) };
    denial
}

/// System calls that the filter refuses, a few of each class: attempt, answer, target.
const CALLS: [(&str, &str, &str); 40] = [
    ("sys:mount:@x:@/tmp:@tmpfs:0:0", "EPERM", "mount"),
    ("sys:umount2:@/tmp:0", "EPERM", "umount2"),
    ("sys:pivot_root:@/tmp:@/tmp", "EPERM", "pivot_root"),
    ("sys:chroot:@/tmp", "EPERM", "chroot"),
    ("sys:unshare:0x10000000", "EPERM", "unshare"),
    ("sys:setns:0:0", "EPERM", "setns"),
    ("sys:clone:0x10000011:0:0:0:0", "EPERM", "clone"),
    ("sys:open_by_handle_at:-100:buf:0", "EPERM", "open_by_handle_at"),
    ("sys:name_to_handle_at:-100:@probe:buf:buf:0", "EPERM", "name_to_handle_at"),
    ("sys:fanotify_init:0:0", "EPERM", "fanotify_init"),
    ("sys:swapon:@/tmp:0", "EPERM", "swapon"),
    ("sys:quotactl:0:0:0:0", "EPERM", "quotactl"),
    ("sys:process_vm_readv:1:buf:1:buf:1:0", "EPERM", "process_vm_readv"),
    ("sys:process_vm_writev:1:buf:1:buf:1:0", "EPERM", "process_vm_writev"),
    ("sys:pidfd_getfd:0:0:0", "EPERM", "pidfd_getfd"),
    ("sys:kcmp:self:self:0:0:0", "EPERM", "kcmp"),
    ("sys:userfaultfd:1", "EPERM", "userfaultfd"),
    ("sys:init_module:buf:1:@x", "EPERM", "init_module"),
    ("sys:delete_module:@x:0", "EPERM", "delete_module"),
    ("sys:kexec_load:0:0:0:0", "EPERM", "kexec_load"),
    ("sys:reboot:0:0:0:0", "EPERM", "reboot"),
    ("sys:bpf:0:buf:64", "EPERM", "bpf"),
    ("sys:perf_event_open:buf:0:-1:-1:0", "EPERM", "perf_event_open"),
    ("sys:keyctl:0:-3:0:0:0", "EPERM", "keyctl"),
    ("sys:add_key:@user:@x:0:0:0", "EPERM", "add_key"),
    ("sys:iopl:3", "EPERM", "iopl"),
    ("sys:modify_ldt:0:buf:16", "EPERM", "modify_ldt"),
    ("sys:settimeofday:buf:0", "EPERM", "settimeofday"),
    ("sys:sethostname:@x:1", "EPERM", "sethostname"),
    ("sys:syslog:3:buf:16", "EPERM", "syslog"),
    ("sys:acct:0", "EPERM", "acct"),
    ("sys:vhangup", "EPERM", "vhangup"),
    ("sys:prlimit64:1:7:0:buf", "EPERM", "prlimit64"),
    ("sys:setpriority:0:1:5", "EPERM", "setpriority"),
    ("sys:sched_setscheduler:1:0:buf", "EPERM", "sched_setscheduler"),
    ("sys:personality:0x0040000", "EPERM", "personality"),
    ("sys:mknod:@node:0x6180:0x103", "EPERM", "mknod"),
    ("chmod:probe:0x9ed", "EPERM", "chmod"),
    ("socket:17:3:3", "EPERM", "socket"),
    ("int80:20", "SIGSYS", "a system call of another architecture"),
];

#[test]
fn a_refused_system_call_is_told_with_its_reason() {
    audited(|world| {
        let sandbox = told(world);
        for (attempt, answer, target) in CALLS {
            let result = refused(&sandbox, attempt, answer);
            let denial = one(&result);
            assert_eq!((denial.layer.as_str(), denial.target.as_str()), ("seccomp", target));
            assert_eq!(denial.remedy, "no profile can allow it", "{attempt}");
            assert!(!denial.rule.contains(" times"), "{attempt}: {}", denial.rule);
            let error = result.error.as_ref().unwrap();
            let (_, sentence) = denial.rule.split_once(": ").unwrap();
            let expected = format!("while it ran, seccomp denied {target}: {sentence}");
            assert!(error.message.ends_with(&expected), "{}", error.message);
        }
        assert!(!world.workspace().join("node").exists());
        world.assert_canary_untouched();
    });
}

#[test]
fn a_path_that_landlock_refused_is_told_with_right_line_and_change() {
    audited(|world| {
        // Readable, and not to be run. Only Landlock refuses that, since it is neither below /tmp nor
        // in anybody's home; so it is something that every host of the tests has.
        let shelf = Path::new("/var/lib/dpkg/info");
        let scripts = fs::read_dir(shelf).unwrap().map(|entry| entry.unwrap().path());
        let mut runnable = scripts
            .filter(|path| fs::metadata(path).unwrap().mode() & 0o111 == 0o111 && path.is_file());
        let program = runnable.next().expect("a package with a script");
        let text = fs::read_to_string(world.profiles().join("unasked.toml")).unwrap();
        let text = text.replacen("read = [", &format!("read = [\n    {shelf:?},"), 1);
        world.add_profile("shelf", &text);
        let sandbox = once_told(|| world.open_with("shelf"));
        let program = program.display();
        let run = format!("exec:{program}");
        let program = program.to_string();
        for (attempt, answer, act, right, target, change) in [
            ("mkdir:/run/x", "EACCES", "write", "fs.make_dir", "/run", ""),
            ("write:/run/x", "EACCES", "write", "fs.make_reg", "/run", ""),
            ("symlink:a:/run/x", "EACCES", "write", "fs.make_sym", "/run", ""),
            ("sys:mknod:@/run/x:0x1180:0", "EACCES", "write", "fs.make_fifo", "/run", ""),
            ("unix_serve:/run/x", "EACCES", "write", "fs.make_sock", "/run", ""),
            (run.as_str(), "EACCES", "exec", "fs.execute", program.as_str(), "fs.execute"),
        ] {
            let result = refused(&sandbox, attempt, answer);
            let denial = one(&result);
            assert_eq!((denial.layer.as_str(), denial.target.as_str()), ("landlock", target));
            assert!(denial.rule.starts_with(&format!("{act}: ")), "{attempt}: {}", denial.rule);
            assert!(denial.rule.ends_with(&format!("({right})")), "{attempt}: {}", denial.rule);
            if change.is_empty() {
                assert!(denial.remedy.starts_with("no profile can allow it"), "{}", denial.remedy);
                assert_eq!((denial.opens.as_str(), denial.at.as_str()), ("", ""), "{attempt}");
            } else {
                assert!(denial.remedy.contains(change), "{attempt}: {}", denial.remedy);
                assert!(denial.opens.contains(target), "{attempt}: {}", denial.opens);
                let line =
                    1 + text.lines().position(|line| line.contains("/var/lib/dpkg/info")).unwrap();
                assert!(denial.at.contains(&format!("shelf.toml:{line}:")), "{}", denial.at);
            }
        }
        // Other processes, and sockets of other calls.
        let result = refused(&sandbox, "kill:1:0", "EPERM");
        let denial = one(&result);
        assert_eq!(denial.layer, "landlock");
        assert!(denial.rule.starts_with("signal: ") && denial.target.starts_with("cell "));
        let name = format!("denials-{}", std::process::id());
        let serve =
            json!({"command": format!("./probe abstract_serve:{name}"), "background": true});
        assert!(sandbox.call("bash", serve).success);
        let limit = Instant::now() + Duration::from_secs(20);
        while !sandbox.ok("cat /proc/net/unix").contains(&name) {
            assert!(Instant::now() < limit, "nothing listens");
        }
        let result = refused(&sandbox, &format!("abstract:{name}"), "EPERM");
        let denial = one(&result);
        assert_eq!((denial.layer.as_str(), &denial.target), ("landlock", &format!("@{name}")));
        assert!(denial.rule.starts_with("connect: "), "{}", denial.rule);
    });
}

/// In the host's network: the port that was refused, the profile's line and what would open it.
#[test]
fn a_port_that_was_refused_is_told_with_its_line() {
    audited(|world| {
        let text = "version = 1\ndescription = \"x\"\n[fs]\nworkspace = \"write\"\n\
                    execute = [\"!/usr\", \"/bin\", \"/lib\", \"/lib64\"]\n\
                    [net]\nmode = \"ports\"\nports = [443]\n[layers]\noptional = [\"limits\"]\n";
        world.add_unasked("mine", text);
        let sandbox = once_told(|| {
            let (stream, daemon) = world.embedded(&["--allow-ports", "443"]);
            let open = Open::new(world.workspace()).profile("mine");
            Sandbox::over(stream, Some(daemon), open).expect("a session")
        });
        let result = refused(&sandbox, "tcp:127.0.0.1:9", "EACCES");
        let denial = one(&result);
        assert_eq!((denial.layer.as_str(), denial.target.as_str()), ("landlock", "127.0.0.1:9"));
        assert_eq!(denial.rule, "connect: net.ports allows 443, but not 9 (net.connect_tcp)");
        assert!(denial.remedy.contains("add 9 to net.ports"), "{}", denial.remedy);
        assert!(denial.at.ends_with("mine.toml:8:8"), "{}", denial.at);
        let result = refused(&sandbox, "serve:x", "EACCES");
        assert!(one(&result).rule.starts_with("bind: with net.mode = \"ports\""), "{result:?}");
        let result = refused(&sandbox, "socket:2:2:0", "EPERM");
        let denial = one(&result);
        assert_eq!((denial.layer.as_str(), denial.target.as_str()), ("seccomp", "socket"));
        assert!(denial.rule.contains("Not UDP"), "{}", denial.rule);
        let result = refused(&sandbox, "serve_unbound:x", "EPERM");
        assert_eq!(one(&result).target, "listen");
    });
}

/// Below Landlock alone: what a whole session's mounts and network namespace refuse before it.
#[test]
fn each_right_of_landlock_leaves_a_record_with_the_mark_of_its_program() {
    let audit = match KernelAudit::on() {
        Ok(audit) => audit,
        Err(_) => return audited(|_| ()),
    };
    let world = World::new(Mode::System);
    let outside = world.outside();
    fs::create_dir(outside.join("directory")).unwrap();
    fs::write(outside.join("other"), "x").unwrap();
    let grant =
        |path: &Path, access| Grant { path: path.into(), access, missing: MissingPath::Skip };
    let mut grants: Vec<_> = ["/usr", "/bin", "/lib", "/lib64"]
        .iter()
        .map(|path| grant(Path::new(path), Access::Execute))
        .collect();
    grants.push(grant(&world.workspace(), Access::Write));
    grants.push(grant(Path::new("/proc"), Access::Read));
    grants.push(grant(Path::new("/dev/null"), Access::Device));
    let steps = vec![Step::NoNewPrivileges, Step::Landlock { grants, tcp: Tcp::Refused }];
    let cell = Cell::with_steps(steps, Pids::Shared).unwrap();
    let at = |act: &str, name: &str| format!("{act}:{}", outside.join(name).display());
    let moved = format!("{}:{}", at("rename", "canary"), outside.join("moved").display());
    for (number, (attempt, answer, right)) in [
        (at("read", "canary"), "EACCES", "fs.read_file"),
        (at("list", "directory"), "EACCES", "fs.read_dir"),
        (at("append", "canary"), "EACCES", "fs.write_file"),
        (format!("sys:truncate:@{}:0", outside.join("canary").display()), "EACCES", "fs.truncate"),
        (at("write", "new"), "EACCES", "fs.make_reg"),
        (at("remove", "canary"), "EACCES", "fs.remove_file"),
        (format!("sys:84:@{}", outside.join("directory").display()), "EACCES", "fs.remove_dir"),
        (moved, "EACCES", "fs.remove_file,fs.make_reg"),
        ("tcp:127.0.0.1:9".to_owned(), "EACCES", "net.connect_tcp"),
        ("serve:x".to_owned(), "EACCES", "net.bind_tcp"),
        (format!("kill:{}:0", std::process::id()), "EPERM", "scope.signal"),
        (format!("sys:ptrace:16:{}:0:0", std::process::id()), "EPERM", "ptrace"),
    ]
    .into_iter()
    .enumerate()
    {
        let mark = format!("mark-{number}-{}", std::process::id());
        let records = audit.listen();
        let told = cell.probe_marked(&world.workspace(), &[&attempt], Some(&mark));
        assert_eq!(told, [format!("{attempt}={answer}")]);
        // The host's other records are told apart by the mark.
        let domain = records.until(1424, &format!("comm=\"{mark}\""));
        let (_, rest) = domain.split_once("domain=").unwrap();
        let (domain, rest) = rest.split_once(' ').unwrap();
        assert!(rest.starts_with("status=allocated"), "{attempt}: {rest}");
        let _refused = records.until(1423, &format!("domain={domain} blockers={right}"));
    }
    assert_eq!(fs::read_to_string(world.canary()).unwrap(), "canary\n");
    assert!(outside.join("directory").exists() && !outside.join("new").exists());
}

#[test]
fn layers_that_leave_no_record_are_not_guessed_at() {
    audited(|world| {
        let sandbox = told(world);
        for (attempt, answer) in [
            ("read:/etc/shadow", "ENOENT"),
            ("list:/srv", "ENOENT"),
            ("write:/usr/x", "EROFS"),
            ("mkdir:/x", "EROFS"),
            ("remove:/usr/bin/env", "EROFS"),
            ("rename:/usr/bin/env:/usr/bin/x", "EROFS"),
            ("tcp:1.1.1.1:80", "ENETUNREACH"),
            ("udp:1.1.1.1:80", "ENETUNREACH"),
            ("sys:ptrace:16:1:0:0", "EPERM"),
            // Answered as an older kernel would: programs fall back.
            ("sys:clone3:buf:64", "ENOSYS"),
            ("sys:io_uring_setup:1:buf", "ENOSYS"),
            ("sys:600", "ENOSYS"),
        ] {
            assert_eq!(refused(&sandbox, attempt, answer).denials, [], "{attempt}");
        }
        // The control: the same session is told what leaves one.
        assert_eq!(one(&refused(&sandbox, "mkdir:/run/x", "EACCES")).target, "/run");
    });
}

#[test]
fn a_record_is_told_to_its_own_call_and_folded() {
    audited(|world| {
        let (one_, two) = (told(world), told(world));
        // One that ends well is told too, if its records have come by then.
        rooms::until("the records came before the end", || {
            let line = "mkdir /run/a; mkdir /run/b; ./probe sys:mount >/dev/null; sleep 0.1";
            let result = one_.bash(line);
            assert!(result.success);
            let told: Vec<_> = result.denials.iter().map(|denial| denial.target.as_str()).collect();
            let is_folded = |rule: &str| rule.ends_with("(fs.make_dir), 2 times");
            told == ["/run", "mount"] && is_folded(&result.denials[0].rule)
        });
        // At the same time in two sessions, and after one another in one.
        let (left, right) = std::thread::scope(|scope| {
            let left = scope.spawn(|| one_.bash("./probe sys:chroot:@/ sys:mount; exit 1"));
            let right = scope.spawn(|| two.bash("./probe sys:swapon:@/:0 mkdir:/run/x; exit 1"));
            (left.join().unwrap(), right.join().unwrap())
        });
        let targets = |result: &CallResult| {
            let targets = result.denials.iter().map(|denial| denial.target.clone());
            targets.collect::<Vec<_>>()
        };
        assert_eq!(targets(&left), ["chroot", "mount"]);
        assert_eq!(targets(&right), ["swapon", "/run"]);
        assert_eq!(targets(&one_.bash("exit 1")), Vec::<String>::new());
        // A program that makes itself a domain is refused by that, and not by this daemon.
        let result = one_.bash("./probe domains:1; exit 1");
        assert_eq!(targets(&result), Vec::<String>::new(), "{}", result.stdout);
        // Many different ones are bounded, and it is said how many are missing.
        let many =
            "for n in $(seq 0 99); do ./probe unix_serve:/run/$n; mkdir /run/$n; done; exit 1";
        let result = one_.bash(many);
        assert_eq!(targets(&result), ["/run", "/run"]);
        assert!(result.denials[0].rule.ends_with(", 100 times"), "{}", result.denials[0].rule);
        assert_eq!(result.receipt.as_ref().unwrap().unrecorded, []);
    });
}

#[test]
fn a_job_and_the_log_and_the_command_line_tell_it_too() {
    audited(|world| {
        let sandbox = told(world);
        let command = json!({"command": "mkdir /run/x; exit 1", "background": true});
        let started = sandbox.call("bash", command);
        let data: serde_json::Value =
            serde_json::from_str(started.data.as_ref().unwrap().as_str()).unwrap();
        let job = json!({"job": data["job"], "wait_ms": 20_000});
        let limit = Instant::now() + Duration::from_secs(20);
        let ended = loop {
            let data = sandbox.call("job_output", job.clone()).data.unwrap();
            let data: serde_json::Value = serde_json::from_str(data.as_str()).unwrap();
            if data["state"] == "ended" {
                break data;
            }
            assert!(Instant::now() < limit, "{data}");
        };
        assert_eq!(ended["denials"][0]["target"], "/run");
        let result = refused(&sandbox, "mkdir:/run/x", "EACCES");
        drop(sandbox);
        let mut why = world.command("palisade");
        why.arg("why").arg(result.call_id.as_str()).arg("--dir").arg(world.state().join("audit"));
        let told = why.output().unwrap();
        let text = String::from_utf8(told.stdout).unwrap();
        assert_eq!(told.status.code(), Some(0), "{text}");
        assert!(text.contains("refused: /run\n") && text.contains("  layer      landlock\n"));
        let mut run = world.command("palisade");
        run.args(["run", "-v", "--profile", "unasked", "--profiles"]).arg(world.profiles());
        run.arg("--workspace").arg(world.workspace()).args(["--", "mkdir /run/x"]);
        let told = run.output().unwrap();
        let text = String::from_utf8(told.stderr).unwrap();
        assert!(text.contains("landlock refused /run: write: "), "{text}");
    });
}

#[test]
fn where_there_are_no_records_that_is_said() {
    // An ordinary user has none, whether audit is on or not; root has none while it is off.
    let off = KernelAudit::off();
    for mode in Mode::all() {
        assert_unknown(&World::new(mode).open(), mode);
    }
    drop(off);
    if Mode::all().contains(&Mode::System) {
        let _on = KernelAudit::on();
        assert_unknown(&World::new(Mode::User).open(), Mode::User);
    }
}

#[test]
fn records_that_stop_coming_are_missed_and_said_to_be() {
    let audit = match KernelAudit::on() {
        Ok(audit) => audit,
        Err(_) => return audited(|_| ()),
    };
    let world = World::new(Mode::System);
    let daemon = world.daemon();
    let open = || {
        let open = Open::new(world.workspace()).profile("unasked");
        Sandbox::over(daemon.connect(world.mode), None, open).unwrap()
    };
    let sandbox = once_told(open);
    assert_eq!(one(&refused(&sandbox, "mkdir:/run/x", "EACCES")).target, "/run");
    audit.pause();
    let result = sandbox.bash("mkdir /run/x; exit 1");
    audit.resume();
    assert_eq!(result.denials, []);
    let missing: Vec<_> =
        result.receipt.as_ref().unwrap().unrecorded.iter().map(|one| one.layer.as_str()).collect();
    // It is known by then, or by the time that the call has ended, that audit was turned off.
    assert_eq!(missing[..2], ["landlock", "seccomp"]);
    // Whoever opens a session finds out that they come again.
    let limit = Instant::now() + Duration::from_secs(20);
    while sandbox.bash("mkdir /run/x; exit 1").denials.is_empty() {
        assert!(Instant::now() < limit, "they do not come again");
        drop(open());
    }
    assert_eq!(one(&refused(&once_told(open), "mkdir:/run/x", "EACCES")).target, "/run");
}
