//! The directories of one test on the host: a workspace, something outside it, and a daemon.
#![allow(unsafe_code)]

use crate::{Mode, Place, Sandbox};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    os::unix::{fs::PermissionsExt as _, net::UnixStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
};

/// The programs that a daemon and its tests need.
pub(crate) const BINARIES: [&str; 8] = [
    "palisade",
    "palisade-mcp",
    "palisaded",
    "palisade-launcher",
    "palisade-cell",
    "palisade-analyst",
    "palisade-egress",
    "probe",
];

/// The default profile for tests of confinement: no approval is requested, and changes take effect
/// at once.
pub const UNASKED: &str = "unasked";

static STAGE: OnceLock<Place> = OnceLock::new();

/// Deletes the copied binaries at exit, because statics are not dropped and the binaries are large.
extern "C" fn leave_stage() {
    if let Some(stage) = STAGE.get() {
        fs::remove_dir_all(stage.path()).unwrap_or_default();
    }
}

/// Returns the directory with copies of the binaries, which every user can run.
fn stage() -> &'static Path {
    STAGE
        .get_or_init(|| {
            // SAFETY: `leave_stage` takes no arguments and may be called once, at any time.
            let registered = unsafe { libc::atexit(leave_stage) };
            assert_eq!(registered, 0, "atexit");
            let stage = Place::new();
            let test = std::env::current_exe().expect("the test has a path");
            let built = test.ancestors().nth(2).expect("tests are in target/PROFILE/deps");
            for name in BINARIES.into_iter().chain(["builder"]) {
                let from = built.join(name);
                assert!(from.exists(), "{} is not built: cargo build --workspace", from.display());
                fs::copy(&from, stage.path().join(name)).expect("copy a binary");
            }
            stage
        })
        .path()
}

/// Returns the path of one of the project's binaries, of `probe`, or of `builder`.
#[must_use]
pub fn binary(name: &str) -> PathBuf {
    stage().join(name)
}

/// The directories of one test.
#[derive(Debug)]
pub struct World {
    /// The owner of the daemon.
    pub mode: Mode,
    directory: Place,
}

impl World {
    /// Creates a workspace with a `probe` in it, and an `outside` directory with a canary beside
    /// it.
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        let directory = Place::new();
        let world = Self { mode, directory };
        for made in [world.workspace(), world.outside(), world.state(), world.profiles()] {
            fs::create_dir(&made).expect("mkdir");
            world.give(&made);
        }
        fs::copy(binary("probe"), world.workspace().join("probe")).expect("copy probe");
        let text = include_str!("../../daemon/profiles/workspace.toml");
        let unasked = text.replacen("ask = \"destructive\"", "ask = \"never\"", 1);
        let direct = unasked.replacen("guard = \"auto\"", "guard = \"off\"", 1);
        assert!(unasked != text && direct != unasked);
        world.add_profile(UNASKED, &direct);
        fs::write(world.canary(), "canary\n").expect("write");
        world.give(&world.canary());
        world
    }

    /// Makes the session's user the owner of a path.
    pub fn give(&self, path: &Path) {
        if rustix::process::geteuid().is_root() {
            let id = Some(self.mode.uid());
            std::os::unix::fs::lchown(path, id, id).expect("chown");
        }
    }

    /// Returns the session's workspace.
    #[must_use]
    pub fn workspace(&self) -> PathBuf {
        self.directory.path().join("workspace")
    }

    /// Returns a directory beside the workspace that the session's user owns. Only the sandbox
    /// denies access to it.
    #[must_use]
    pub fn outside(&self) -> PathBuf {
        self.directory.path().join("outside")
    }

    /// Returns the path of a file outside of the workspace.
    #[must_use]
    pub fn canary(&self) -> PathBuf {
        self.outside().join("canary")
    }

    /// Asserts that the canary's contents are unchanged and that it is the only file outside.
    pub fn assert_canary_untouched(&self) {
        assert_eq!(fs::read_to_string(self.canary()).expect("canary"), "canary\n");
        let names: Vec<_> = fs::read_dir(self.outside())
            .expect("outside")
            .flatten()
            .map(|e| e.file_name())
            .collect();
        assert_eq!(names, ["canary"], "something else is outside now");
    }

    /// Returns the daemon's state directory.
    #[must_use]
    pub fn state(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    /// Returns the directory for profiles of this test.
    #[must_use]
    pub fn profiles(&self) -> PathBuf {
        self.directory.path().join("profiles")
    }

    /// Returns the configuration directory of an ordinary user, which does not exist unless a test makes
    /// it.
    #[must_use]
    pub fn user_configuration(&self) -> PathBuf {
        self.directory.path().join("config/palisade")
    }

    /// Adds a profile. Where it has the default timeout of a call, it gets ten times that: on busy
    /// cores, a debug build may need longer than people would wait.
    pub fn add_profile(&self, name: &str, text: &str) {
        let path = self.profiles().join(format!("{name}.toml"));
        let text = text.replacen("\ntimeout_ms = 30_000\n", "\ntimeout_ms = 300_000\n", 1);
        fs::write(&path, text).expect("write profile");
        self.give(&path);
    }

    /// Adds a profile that requests no approval, whatever its text says, for tests of confinement.
    pub fn add_unasked(&self, name: &str, text: &str) {
        const NEVER: &str = "ask = \"never\"\n";
        let asks = |line: &&str| line.starts_with("ask = ");
        let text = match text.lines().find(asks) {
            Some(line) => text.replacen(&format!("{line}\n"), NEVER, 1),
            None => format!("{NEVER}{text}"),
        };
        self.add_profile(name, &text);
    }

    /// Returns a command to run as this world's user, with a clean environment.
    #[must_use]
    pub fn command(&self, name: &str) -> Command {
        let mut command = Command::new(binary(name));
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.directory.path())
            .env("XDG_STATE_HOME", self.state())
            .env("XDG_CONFIG_HOME", self.directory.path().join("config"))
            .env("XDG_RUNTIME_DIR", self.run())
            .env("PALISADE_LINGER", "none")
            .current_dir(self.workspace());
        command
    }

    /// Starts an embedded daemon; returns the client's end of its socket and the process.
    #[must_use]
    pub fn embedded(&self, arguments: &[&str]) -> (UnixStream, Child) {
        self.mode.act(|| {
            let (ours, theirs) = UnixStream::pair().expect("socketpair");
            let child = self
                .command("palisaded")
                .args(["--embedded", "--state"])
                .arg(self.state())
                .arg("--profiles")
                .arg(self.profiles())
                .args(arguments)
                .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
                .stdout(Stdio::null())
                .spawn()
                .expect("start palisaded");
            (ours, child)
        })
    }

    /// Starts an embedded daemon by a shell line that ends in running `"$@"`. The daemon inherits
    /// whatever the line leaves behind (variables, descriptors, a umask, ignored signals).
    /// `starter` runs the shell; the client is this world's user.
    #[must_use]
    pub fn embedded_by(&self, starter: Mode, line: &str) -> (UnixStream, Child) {
        let (ours, theirs) = self.mode.act(|| UnixStream::pair().expect("socketpair"));
        starter.act(|| {
            let daemon = self.command("palisaded");
            let mut shell = Command::new("bash");
            shell.args(["-c", line, "bash"]).arg(daemon.get_program()).env_clear();
            shell.envs(daemon.get_envs().filter_map(|(name, value)| Some((name, value?))));
            let child = shell
                .args(["--embedded", "--state"])
                .arg(self.state())
                .arg("--profiles")
                .arg(self.profiles())
                .current_dir(self.outside())
                .stdin(Stdio::from(std::os::fd::OwnedFd::from(theirs)))
                .stdout(Stdio::null())
                .spawn()
                .expect("start palisaded by bash");
            (ours, child)
        })
    }

    /// Opens a session with the default profile, but without approval requests.
    #[must_use]
    pub fn open(&self) -> Sandbox {
        self.open_with(UNASKED)
    }

    /// Opens a session with a profile.
    #[must_use]
    pub fn open_with(&self, profile: &str) -> Sandbox {
        Sandbox::open(self, profile)
    }

    /// Starts a daemon that listens on sockets.
    #[must_use]
    pub fn daemon(&self) -> Daemon {
        self.daemon_in(&[])
    }

    /// Starts such a daemon. An ordinary user's is in these supplementary groups.
    #[must_use]
    pub fn daemon_in(&self, groups: &[u32]) -> Daemon {
        Daemon::start(self, groups, |_| {})
    }

    /// Starts a daemon with the configuration that [`configure`](Self::configure) wrote. `more`
    /// changes its command.
    #[must_use]
    pub fn configured_daemon(&self, more: impl FnOnce(&mut Command)) -> Daemon {
        Daemon::start(self, &[], |command| {
            command.arg("--config").arg(self.configuration());
            more(command);
        })
    }

    /// Returns the directory of the daemon's sockets. It exists once a daemon was started or
    /// configured.
    #[must_use]
    pub fn run(&self) -> PathBuf {
        self.directory.path().join("run")
    }

    /// Returns the path of the daemon's configuration file.
    #[must_use]
    pub fn configuration(&self) -> PathBuf {
        self.directory.path().join("config").join("palisaded.toml")
    }

    /// Writes the daemon's configuration, with an owner and mode that the daemon accepts.
    pub fn configure(&self, text: &str) {
        let file = self.configuration();
        for directory in [self.run(), self.directory.path().join("config")] {
            self.make_directory(&directory);
        }
        fs::write(&file, text).expect("write the configuration");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("chmod");
        self.give(&file);
    }

    fn make_directory(&self, path: &Path) {
        if !path.exists() {
            fs::create_dir(path).expect("mkdir");
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("chmod");
            self.give(path);
        }
    }
}

/// A daemon that listens on sockets.
#[derive(Debug)]
pub struct Daemon {
    /// The daemon's process.
    pub child: Child,
    /// The socket for agents.
    pub socket: PathBuf,
    /// The socket for operators.
    pub operators: PathBuf,
    /// The socket for providers.
    pub providers: PathBuf,
}

impl Daemon {
    fn start(world: &World, groups: &[u32], more: impl FnOnce(&mut Command)) -> Self {
        let run = world.run();
        world.make_directory(&run);
        let socket = run.join("agent.sock");
        let mut command = world.command("palisaded");
        command.arg("--state").arg(world.state()).arg("--profiles").arg(world.profiles());
        command.arg("--socket").arg(&socket).stdin(Stdio::null());
        more(&mut command);
        let child = world.mode.act_in(groups, || command.spawn().expect("start palisaded"));
        let operators = run.join("operator.sock");
        let providers = run.join("provider.sock");
        let mut daemon = Self { child, socket, operators, providers };
        // If an earlier daemon was killed while it started a program, its socket may accept
        // connections for a moment longer.
        let is_its_own = |daemon: &Self, socket: &Path| {
            let peer = UnixStream::connect(socket).ok().map(rustix::net::sockopt::socket_peercred);
            let peer = peer.and_then(Result::ok);
            peer.is_some_and(|peer| peer.pid == Pid::from_child(&daemon.child))
        };
        let silent = |daemon: &Self| {
            let sockets = [&daemon.socket, &daemon.operators, &daemon.providers];
            sockets.iter().any(|socket| !is_its_own(daemon, socket))
        };
        while silent(&daemon) {
            let ended = daemon.child.try_wait().expect("wait");
            assert!(ended.is_none(), "palisaded ended with {ended:?}");
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        daemon
    }

    /// Connects as the world's user.
    #[must_use]
    pub fn connect(&self, mode: Mode) -> UnixStream {
        mode.act(|| UnixStream::connect(&self.socket).expect("connect"))
    }

    /// Sends its process a signal.
    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).expect("kill");
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The process may be gone already; then there is nothing to end.
        self.child.kill().unwrap_or_default();
        self.child.wait().map(drop).unwrap_or_default();
    }
}

/// Lists everything below a directory: path, kind, mode, and contents or target. The probe that
/// every workspace has is left out.
#[must_use]
pub fn tree(top: &Path) -> Vec<String> {
    let mut found = Vec::new();
    walk(top, top, &mut found);
    found.sort();
    found
}

fn walk(top: &Path, directory: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path.strip_prefix(top).expect("below").display().to_string();
        if name == "probe" {
            continue;
        }
        let meta = fs::symlink_metadata(&path).expect("metadata");
        let mode = meta.permissions().mode() & 0o7777;
        let what = if meta.is_symlink() {
            format!("-> {}", fs::read_link(&path).expect("a link").display())
        } else if meta.is_dir() {
            walk(top, &path, found);
            format!("{mode:o}/")
        } else if meta.is_file() {
            format!("{mode:o} {:?}", String::from_utf8_lossy(&fs::read(&path).expect("a file")))
        } else {
            format!("{mode:o}?")
        };
        found.push(format!("{name} {what}"));
    }
}
