//! The launcher's setting of the kernel's audit: turned on for as long as it lives and put back after,
//! however that ends; and the drop-in by which the service has records, in a systemd booted for it.

use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use palisade_tests::{
    Booted, KERNEL_AUDIT, KernelAudit, Mode, World, binary, processes, rooms::until,
};
use serde_json::Value;
use std::{
    os::fd::OwnedFd,
    process::{Child, Command, Stdio},
};

/// A launcher, and the broker's end of its socket.
fn launcher(mode: Mode, arguments: &[&str]) -> (Child, OwnedFd) {
    let kind = SockType::SeqPacket;
    let (ours, theirs) =
        socketpair(AddressFamily::Unix, kind, None, SockFlag::SOCK_CLOEXEC).unwrap();
    let child = mode.act(|| {
        Command::new(binary("palisade-launcher"))
            .args(arguments)
            .env_clear()
            .stdin(Stdio::from(theirs))
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    });
    (child, ours)
}

/// The processes of a launcher: itself, what keeps the audit on, the launcher inside.
fn of(launcher: &Child) -> usize {
    let pid = i32::try_from(launcher.id()).unwrap();
    processes::tree(pid).iter().filter(|one| one.name == "palisade-launch").count()
}

#[test]
fn audit_is_on_while_the_launcher_lives_and_as_before_afterwards() {
    let audit = match KernelAudit::off() {
        Ok(audit) => audit,
        Err(_) => return it_is_said_where_it_can_not_be(),
    };
    assert!(!audit.is_on());
    // It ends because its broker does.
    let (mut child, socket) = launcher(Mode::System, &["--kernel-audit", "enable"]);
    until("audit is on", || audit.is_on());
    until("it is inside", || of(&child) == 3);
    drop(socket);
    assert!(child.wait().unwrap().success());
    assert!(!audit.is_on(), "when the launcher has ended it is off");
    // It is killed, and what keeps the audit on is nobody's child any more.
    let (mut child, _socket) = launcher(Mode::System, &["--kernel-audit", "enable"]);
    until("audit is on", || audit.is_on());
    child.kill().unwrap();
    child.wait().unwrap();
    until("audit is off again", || !audit.is_on());
    // By default nothing is turned on.
    let (mut child, socket) = launcher(Mode::System, &[]);
    until("it is inside", || of(&child) == 2);
    assert!(!audit.is_on());
    drop(socket);
    assert!(child.wait().unwrap().success());
    // Auditing that somebody else has turned on stays on.
    audit.resume();
    let (mut child, socket) = launcher(Mode::System, &["--kernel-audit", "enable"]);
    until("it is inside", || of(&child) == 3);
    drop(socket);
    assert!(child.wait().unwrap().success());
    assert!(audit.is_on());
    drop(audit);
    it_is_said_where_it_can_not_be();
}

/// An ordinary user's launcher can not, says so, and serves all the same.
fn it_is_said_where_it_can_not_be() {
    let (mut child, socket) = launcher(Mode::User, &["--kernel-audit", "enable"]);
    until("it is inside", || of(&child) == 2);
    drop(socket);
    let mut told = String::new();
    std::io::Read::read_to_string(&mut child.stderr.take().unwrap(), &mut told).unwrap();
    child.wait().unwrap();
    assert!(told.contains("kernel audit could not be turned on: "), "{told}");
}

#[test]
fn whether_records_come_is_said_with_the_remedy() {
    let off = KernelAudit::off();
    for mode in Mode::all() {
        let world = World::new(mode);
        let output = mode.act(|| world.command("palisade").args(["doctor", "--json"]).output());
        let output = output.unwrap();
        let told: Value = serde_json::from_slice(&output.stdout).unwrap();
        let records = &told["status"]["records"];
        assert_eq!(records["available"], false, "{mode:?}");
        let advice = match mode {
            Mode::System => "--kernel-audit enable",
            Mode::User => "run it as a system service",
        };
        assert!(records["advice"].as_str().unwrap().contains(advice), "{mode:?}: {records}");
        assert_ne!(records["detail"], "", "{mode:?}");
    }
    drop(off);
}

/// The host's network namespace, as the script that boots leaves it: a booted systemd has another, and
/// `PrivateNetwork=no` leads into that.
const HOST: &str = "[Service]\nNetworkNamespacePath=/run/host-network\n";

#[test]
fn the_drop_in_gives_the_service_the_kernels_records() {
    let Ok(_audit) = KernelAudit::on() else {
        // Without root there is no systemd to boot; what a user's daemon says is shown above.
        return whether_records_come_is_said_with_the_remedy();
    };
    let booted = Booted::with_service();
    let refused = || -> Value {
        let line =
            "palisade run --socket /run/palisade/agent.sock --json -- 'mkdir /run/x; exit 3'";
        let output = booted.line_of("alice", line).output().unwrap();
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let without = refused();
    assert_eq!(without["exit_code"], 3, "{without}");
    assert_eq!(without["denials"], Value::Array(Vec::new()));
    assert_eq!(without["receipt"]["unrecorded"][0]["layer"], "landlock", "{without}");

    let mut install = String::from("set -eu\n");
    for (unit, name, text) in
        KERNEL_AUDIT.into_iter().chain([("palisade-launcher.service", "zz-host.conf", HOST)])
    {
        let directory = format!("/etc/systemd/system/{unit}.d");
        install += &format!("mkdir -p {directory}\ncat > {directory}/{name} <<'END'\n{text}END\n");
    }
    install += "systemctl daemon-reload\n\
                systemctl restart palisade-launcher.service palisaded.service\n";
    booted.ok(&["bash", "-c", &install]);
    // A session that is opened before the first record has come does without; the next does not.
    until("records come", || refused()["receipt"]["unrecorded"] == Value::Array(Vec::new()));
    let with = refused();
    assert_eq!(with["exit_code"], 3, "{with}");
    assert_eq!(with["denials"][0]["layer"], "landlock", "{with}");
    assert_eq!(with["denials"][0]["target"], "/run", "{with}");
    let doctor = "palisade doctor --socket /run/palisade/agent.sock --json";
    let doctor = booted.line_of("alice", doctor).output().unwrap();
    let doctor: Value = serde_json::from_slice(&doctor.stdout).unwrap();
    assert_eq!(doctor["status"]["records"]["available"], true, "{doctor}");
}
