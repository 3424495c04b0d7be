//! A separate systemd for a test, with the service installed in it as its README says.

use crate::{Place, answers::text, binary, world::BINARIES};
use std::{
    fs,
    io::{BufRead as _, BufReader},
    path::Path,
    process::{Child, Command, Output, Stdio},
};

/// The files of the `systemd` directory, by name.
pub const UNITS: [(&str, &str); 12] = [
    ("palisaded.service", include_str!("../../systemd/palisaded.service")),
    ("palisaded.socket", include_str!("../../systemd/palisaded.socket")),
    ("palisade-operator.socket", include_str!("../../systemd/palisade-operator.socket")),
    ("palisade-provider.socket", include_str!("../../systemd/palisade-provider.socket")),
    ("palisade-launcher.service", include_str!("../../systemd/palisade-launcher.service")),
    ("palisade-launcher.socket", include_str!("../../systemd/palisade-launcher.socket")),
    ("palisade-egress@.service", include_str!("../../systemd/palisade-egress@.service")),
    ("palisade-egress.socket", include_str!("../../systemd/palisade-egress.socket")),
    ("palisade-metrics.socket", include_str!("../../systemd/palisade-metrics.socket")),
    ("palisade.slice", include_str!("../../systemd/palisade.slice")),
    ("palisade.sysusers.conf", include_str!("../../systemd/palisade.sysusers.conf")),
    ("palisade.tmpfiles.conf", include_str!("../../systemd/palisade.tmpfiles.conf")),
];
/// The drop-ins that make the kernel's audit records available: unit, name, text.
pub const KERNEL_AUDIT: [(&str, &str, &str); 2] = [
    (
        "palisade-launcher.service",
        "kernel-audit.conf",
        include_str!("../../systemd/kernel-audit.conf"),
    ),
    (
        "palisaded.service",
        "kernel-audit-broker.conf",
        include_str!("../../systemd/kernel-audit-broker.conf"),
    ),
];
const README: &str = include_str!("../../systemd/README.md");
const BOOT: &str = include_str!("../boot-systemd.sh");

/// A booted systemd, in namespaces and on a file system of its own. It ends when this value is
/// dropped, or with the test's process, however that ends.
#[derive(Debug)]
pub struct Booted {
    script: Child,
    pid: String,
    _source: Place,
}

impl Booted {
    /// Boots, installs the service, and lets `alice` use it. There is also a user `bob`, who may
    /// not.
    #[must_use]
    pub fn with_service() -> Self {
        let booted = Self::boot(source());
        booted.ok(&["bash", "-euc", &format!("cd /src\n{}", readme_blocks()[0])]);
        booted.people();
        booted
    }

    /// Creates two users, one of whom may use the service.
    fn people(&self) {
        for (user, uid) in [("alice", "4343"), ("bob", "4344")] {
            self.ok(&["useradd", "--create-home", "--uid", uid, user]);
            self.ok(&["install", "-d", "-o", user, "-g", user, &format!("/home/{user}/work")]);
        }
        let usermod = readme_blocks()[1].lines().next().expect("a line for a user");
        self.ok(&["bash", "-euc", usermod]);
    }

    /// Boots, installs a package by the README's line, and lets `alice` use the service. `made` is
    /// the package's file, which is copied to the source tree.
    #[must_use]
    pub fn with_package(made: &Path) -> Self {
        let source = source();
        fs::copy(made, source.path().join(made.file_name().expect("a name"))).expect("copy");
        let booted = Self::boot(source);
        let blocks = readme_blocks();
        booted.ok(&["bash", "-euc", &format!("cd /src\n{}", blocks[3])]);
        booted.people();
        booted
    }

    fn boot(source: Place) -> Self {
        let mut script = Command::new("bash")
            .args(["-c", BOOT, "boot-systemd.sh"])
            .arg(source.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("bash");
        let mut line = String::new();
        let stdout = script.stdout.take().expect("piped");
        BufReader::new(stdout).read_line(&mut line).expect("read");
        let pid = line.trim().strip_prefix("ready ").map(str::to_owned);
        let mut booted = Self { script, pid: String::new(), _source: source };
        booted.pid = pid.expect("systemd is up; else the script said why not");
        booted
    }

    /// Runs a program in the booted system, as root.
    #[must_use]
    pub fn run(&self, argv: &[&str]) -> Output {
        self.command(argv).stdin(Stdio::null()).output().expect("nsenter")
    }

    /// Runs a program in the booted system that must succeed; returns its standard output without
    /// trailing white space.
    pub fn ok(&self, argv: &[&str]) -> String {
        let output = self.run(argv);
        let text = |bytes| String::from_utf8_lossy(bytes).trim_end().to_owned();
        assert!(output.status.success(), "{argv:?}: {}\n{}", output.status, text(&output.stderr));
        text(&output.stdout)
    }

    /// Runs `palisade run` as a user, through the service, with these arguments.
    #[must_use]
    pub fn through(&self, user: &str, words: &str) -> Output {
        let run = format!("palisade run --socket /run/palisade/agent.sock {words}");
        self.line_of(user, &run).stdin(Stdio::null()).output().expect("nsenter")
    }

    /// Runs `palisade run` as alice, which must succeed; returns its standard output.
    #[must_use]
    pub fn served(&self, words: &str) -> String {
        let output = self.through("alice", words);
        assert!(output.status.success(), "{words}: {}\n{}", output.status, text(&output.stderr));
        text(&output.stdout)
    }

    /// Returns a command for a shell line in a user's `work` directory, with the groups and
    /// environment of a new login.
    #[must_use]
    pub fn line_of(&self, user: &str, line: &str) -> Command {
        let line = format!("cd ~/work && {line}");
        let ids = ["setpriv", "--reuid", user, "--regid", user, "--init-groups", "--reset-env"];
        self.command(&[&ids[..], &["bash", "-c", &line]].concat())
    }

    fn command(&self, argv: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["--target", &self.pid, "--all", "--root", "--wd"])
            .args(argv)
            .env_clear()
            .env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        command
    }

    /// Returns the main process of a service, once it has one.
    #[must_use]
    pub fn main_pid(&self, unit: &str) -> Option<u32> {
        let pid = self.ok(&["systemctl", "show", "--property=MainPID", "--value", unit]);
        pid.parse().ok().filter(|pid| *pid != 0)
    }

    /// Returns a field of `/proc/PID/status` in the booted system, words separated by one space.
    #[must_use]
    pub fn status(&self, pid: u32, field: &str) -> String {
        let status = self.ok(&["cat", &format!("/proc/{pid}/status")]);
        let line = status.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        line.expect(field).split_whitespace().collect::<Vec<_>>().join(" ")
    }
}

impl Drop for Booted {
    fn drop(&mut self) {
        // The script ends everything when its standard input ends.
        drop(self.script.stdin.take());
        self.script.wait().map(drop).unwrap_or_default();
    }
}

/// Creates a source tree after a build, with what the README needs.
fn source() -> Place {
    let source = Place::new();
    let (built, units) = (source.path().join("target/release"), source.path().join("systemd"));
    fs::create_dir_all(&built).expect("mkdir");
    fs::create_dir(&units).expect("mkdir");
    for name in BINARIES {
        fs::hard_link(binary(name), built.join(name)).expect("link a binary");
    }
    for (name, text) in UNITS {
        fs::write(units.join(name), text).expect("write");
    }
    source
}

/// Returns the README's commands.
#[must_use]
pub fn readme_blocks() -> Vec<&'static str> {
    README
        .split("```sh\n")
        .skip(1)
        .map(|rest| rest.split_once("```").expect("the block ends").0)
        .collect()
}
