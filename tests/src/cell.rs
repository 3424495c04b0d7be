//! Drives a cell without broker and launcher, with any list of steps. So a layer can be tested
//! alone, and a step can be left out.

use crate::{Mode, binary};
use palisade_channel::{Channel, Datagrams};
use palisade_plan::{
    CellReceipt, Facts, Found, HeldNetwork, Identity, LaunchPlan, Layer, Role, Step,
    cell::{
        FILE_CHANNELS, OverlayMode, OverlayReply, Ready, Report, Run, RunReply, RunRequest, Setup,
        Stdin, Streams,
    },
    steps,
};
use palisade_policy::{ProfileSet, Scene};
use rustix::{
    mount::{FsPickFlags, fsconfig_reconfigure, fsconfig_set_flag, fspick},
    net::{AddressFamily, SocketFlags, SocketType, socketpair},
};
use std::{
    io::Read as _,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    path::Path,
    process::{Child, Command, Stdio},
};

/// Returns the plan of the built-in `workspace` profile for a workspace. No names are hidden or
/// protected, because that needs a broker.
#[must_use]
pub fn plan(workspace: &Path) -> LaunchPlan {
    plan_with_home(workspace, Path::new("/home/tester"))
}

/// Returns the same plan for a user with this home.
#[must_use]
pub fn plan_with_home(workspace: &Path, home: &Path) -> LaunchPlan {
    let profiles = ProfileSet::new([]).expect("the built-in profiles load");
    let scene = Scene {
        workspace: workspace.to_owned(),
        home: Some(home.to_owned()),
        user: "tester".to_owned(),
        uid: own().uid,
        gid: own().gid,
    };
    let plan = profiles.get("workspace").expect("it is built in").plan(&scene).expect("a plan");
    LaunchPlan { names: Default::default(), ..plan }
}

/// Returns the identity that cells run as: an ordinary user, or the tests' own user if that is not
/// root.
#[must_use]
pub fn own() -> Identity {
    let uid = Mode::User.uid();
    let gid = if is_root() { uid } else { rustix::process::getegid().as_raw() };
    Identity { uid, gid }
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns the facts of a host that has everything but cgroups, which are the launcher's task.
#[must_use]
pub fn facts() -> Facts {
    Facts {
        kernel: "test".to_owned(),
        privileged: is_root(),
        user_namespace: Found::Yes("test".to_owned()),
        layers: Layer::ALL
            .into_iter()
            .map(|layer| (layer, Found::Yes("test".to_owned())))
            .collect(),
        landlock_abi: 7,
        landlock_errata: 0,
        overlay: palisade_plan::OverlayFacts::all(Found::Yes("test".to_owned())),
        records: Found::No("test".to_owned()),
        audit_session: Found::No("test".to_owned()),
        cgroup: palisade_plan::CgroupFacts::default(),
        ports: Found::Yes("test".to_owned()),
    }
}

/// The PID namespace of a cell's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pids {
    /// The cell's process is the first of its own PID namespace.
    Own,
    /// The cell's process sees the tests' processes.
    Shared,
}

/// A runner with any list of steps.
#[derive(Debug)]
pub struct Cell {
    child: Child,
    pub(crate) channel: Channel,
    /// The channel on which a transaction is settled: committed or discarded.
    pub(crate) settling: Option<Channel>,
    /// The confinement that the cell reports.
    pub receipt: CellReceipt,
    /// The network that the first process of the session reports.
    pub network: HeldNetwork,
    /// The listeners that it has sent.
    pub listeners: Vec<OwnedFd>,
    // Held open, because a cell ends when its launcher does.
    _control: Datagrams,
    _files: Option<Box<(Child, Datagrams, Vec<Channel>)>>,
}

fn pair(kind: SocketType) -> (OwnedFd, OwnedFd) {
    socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).expect("socketpair")
}

/// Starts the cell's program as a launcher would: with capabilities over namespaces of its own.
fn start(pids: Pids, stderr: Stdio) -> (Child, Datagrams) {
    start_as(pids, stderr, if is_root() { Mode::System } else { Mode::User })
}

fn start_as(pids: Pids, stderr: Stdio, mode: Mode) -> (Child, Datagrams) {
    let fork = is_root();
    mode.act(|| start_here(pids, stderr, mode, fork))
}

fn start_here(pids: Pids, stderr: Stdio, mode: Mode, fork: bool) -> (Child, Datagrams) {
    let (ours, theirs) = pair(SocketType::SEQPACKET);
    let mut command = Command::new("unshare");
    if mode == Mode::User {
        command.args(["--user", "--map-current-user", "--keep-caps"]);
        if fork {
            // Forked, so that the cell's parent is not the thread that became an ordinary user and
            // ends. A cell dies with its parent.
            command.args(["--fork", "--kill-child"]);
        }
    }
    if pids == Pids::Own {
        command.args(["--pid", "--fork", "--kill-child"]);
    } else if mode == Mode::System {
        // `unshare` without a namespace to create is an error; this one does not affect the cell.
        command.arg("--uts");
    }
    let child = command
        .arg(binary("palisade-cell"))
        .stdin(Stdio::from(theirs))
        .stderr(stderr)
        .spawn()
        .expect("unshare, of util-linux, starts a cell");
    (child, Datagrams::new(ours))
}

/// Starts two cells' processes that wait for their setup. The second can enter the namespaces of
/// the first: an ordinary user's cells must be in one user namespace, as below one launcher.
fn start_pair(pids: Pids) -> ((Child, Datagrams), (Child, Datagrams)) {
    if is_root() {
        return (start(pids, Stdio::inherit()), start(pids, Stdio::inherit()));
    }
    let (first, theirs) = pair(SocketType::SEQPACKET);
    let (second, others) = pair(SocketType::SEQPACKET);
    let cell = match pids {
        Pids::Own => "unshare --pid --fork --kill-child \"$0\"",
        Pids::Shared => "\"$0\"",
    };
    // The second cell's socket is passed as standard output. The shell waits for both cells.
    let script = format!("{cell} <&1 >/dev/null & {cell} >/dev/null; wait");
    let child = Command::new("unshare")
        .args(["--user", "--map-current-user", "--keep-caps", "bash", "-c", &script])
        .arg(binary("palisade-cell"))
        .stdin(Stdio::from(theirs))
        .stdout(Stdio::from(others))
        .spawn()
        .expect("unshare, of util-linux, starts two cells");
    // Each of the two cells is ended by its own socket; `child` is the shell that runs both.
    let stand_in = Command::new("true").spawn().expect("true");
    ((child, Datagrams::new(first)), (stand_in, Datagrams::new(second)))
}

/// The reason a cell could not be set up: the step that failed, and why.
pub(crate) type Refused = (String, String);

fn hear(channel: &Channel) -> Result<(CellReceipt, Vec<OwnedFd>), Refused> {
    match channel.receive::<Ready>().expect("a channel") {
        Some((Ready::Confined(receipt), listeners)) => Ok((*receipt, listeners)),
        Some((Ready::Failed { step, why, .. }, _)) => Err((step, why)),
        None => Err(("start".to_owned(), "it died".to_owned())),
    }
}

impl Cell {
    /// Starts a runner that takes exactly these steps.
    ///
    /// # Errors
    /// The step that failed, and why.
    pub fn with_steps(steps: Vec<Step>, pids: Pids) -> Result<Self, Refused> {
        Self::runner(steps, pids, &[], None, Stdio::inherit())
    }

    /// Starts a runner with these steps and a given standard error.
    ///
    /// # Errors
    /// The step that failed, and why.
    pub fn with_stderr(steps: Vec<Step>, pids: Pids, stderr: Stdio) -> Result<Self, Refused> {
        Self::runner(steps, pids, &[], None, stderr)
    }

    /// Starts a runner with these steps, always as an ordinary user in a user namespace.
    ///
    /// # Errors
    /// The step that failed, and why.
    pub fn as_user(steps: Vec<Step>, pids: Pids) -> Result<Self, Refused> {
        let started = start_as(pids, Stdio::inherit(), Mode::User);
        Self::set_up(started, Role::Runner, steps, &[], None)
    }

    fn runner(
        steps: Vec<Step>,
        pids: Pids,
        namespaces: &[OwnedFd],
        files: Option<Box<(Child, Datagrams, Vec<Channel>)>>,
        stderr: Stdio,
    ) -> Result<Self, Refused> {
        Self::set_up(start(pids, stderr), Role::Runner, steps, namespaces, files)
    }

    fn set_up(
        (child, control): (Child, Datagrams),
        role: Role,
        steps: Vec<Step>,
        namespaces: &[OwnedFd],
        files: Option<Box<(Child, Datagrams, Vec<Channel>)>>,
    ) -> Result<Self, Refused> {
        let count: u8 = if role == Role::Transaction { 2 } else { 1 };
        let (ours, theirs): (Vec<_>, Vec<_>) = (0..count).map(|_| pair(SocketType::STREAM)).unzip();
        let setup = Setup { role, session: 1, steps, channels: count, scanned: 0 };
        let fds: Vec<_> = theirs.iter().chain(namespaces).map(|fd| fd.as_fd()).collect();
        control.send(&setup, &fds).expect("setup");
        drop(theirs);
        let mut channels = ours.into_iter().map(Channel::new);
        let channel = channels.next().expect("one");
        let settling = channels.next();
        let (receipt, listeners) = hear(&channel)?;
        let network = receipt.network.clone();
        if role == Role::Transaction {
            let control = control.as_fd().try_clone_to_owned().expect("a descriptor");
            // An ordinary user's cells are in the user namespace of the shell that started them.
            let shell = files.as_ref().map(|files| files.0.id()).filter(|_| !is_root());
            std::thread::spawn(move || change_overlays(&Datagrams::new(control), shell));
        }
        Ok(Self {
            child,
            channel,
            settling,
            receipt,
            network,
            listeners,
            _control: control,
            _files: files,
        })
    }

    /// Starts a whole session according to the plan, except for what `change` does to the steps of
    /// each role.
    ///
    /// # Errors
    /// The step that failed, and why.
    pub fn session(
        plan: &LaunchPlan,
        pids: Pids,
        change: impl Fn(Role, Vec<Step>) -> Vec<Step>,
    ) -> Result<Self, Refused> {
        Self::session_of(Role::Runner, plan, pids, change)
    }

    /// Starts a whole session with a runner of this role.
    pub(crate) fn session_of(
        role: Role,
        plan: &LaunchPlan,
        pids: Pids,
        change: impl Fn(Role, Vec<Step>) -> Vec<Step>,
    ) -> Result<Self, Refused> {
        let list = |role| {
            let (list, _) = steps(plan, &facts(), own(), role).expect("steps");
            change(role, list)
        };
        let ((child, control), waiting) = start_pair(pids);
        let (ours, theirs): (Vec<_>, Vec<_>) =
            (0..FILE_CHANNELS).map(|_| pair(SocketType::STREAM)).unzip();
        let setup = Setup {
            role: Role::Files,
            session: 1,
            steps: list(Role::Files),
            channels: u8::try_from(FILE_CHANNELS).expect("few"),
            scanned: 0,
        };
        let fds: Vec<_> = theirs.iter().map(|fd| fd.as_fd()).collect();
        control.send(&setup, &fds).expect("setup");
        drop(theirs);
        let channels: Vec<_> = ours.into_iter().map(Channel::new).collect();
        let namespaces = match control.receive::<Report>() {
            Ok(Some((Report::Prepared, namespaces))) => namespaces,
            Ok(Some((Report::Tried { .. } | Report::Overlays, _)) | None) | Err(_) => Vec::new(),
        };
        let (receipt, listeners) = hear(&channels[0])?;
        let files = Box::new((child, control, channels));
        let mut runner = Self::set_up(waiting, role, list(role), &namespaces, Some(files))?;
        (runner.network, runner.listeners) = (receipt.network, listeners);
        Ok(runner)
    }

    /// Returns a file channel of the session's file tools.
    ///
    /// # Panics
    /// If it is not a whole session.
    #[must_use]
    pub fn file_channel(&self) -> &Channel {
        &self._files.as_ref().expect("a whole session").2[0]
    }

    /// Returns the cell's processes, and what they run.
    #[must_use]
    pub fn processes(&self) -> Vec<crate::processes::Process> {
        let files = self._files.as_ref().map(|files| files.0.id());
        let roots = [Some(self.child.id()), files].into_iter().flatten();
        let roots = roots.filter_map(|pid| i32::try_from(pid).ok());
        roots.flat_map(crate::processes::tree).collect()
    }

    /// Runs a program; returns how it ended and its output.
    #[must_use]
    pub fn run(&self, argv: &[&str], cwd: &Path) -> (RunReply, String) {
        run(&self.channel, argv, cwd)
    }

    /// Runs a program with a given standard input; returns how it ended and its standard output.
    #[must_use]
    pub fn run_on(&self, argv: &[&str], cwd: &Path, stdin: BorrowedFd<'_>) -> (RunReply, String) {
        run_with(&self.channel, argv, cwd, None, stdin)
    }

    /// Makes attempts with the `probe` of a workspace; returns a line of output for each.
    #[must_use]
    pub fn probe(&self, workspace: &Path, attempts: &[&str]) -> Vec<String> {
        self.probe_marked(workspace, attempts, None)
    }

    /// Makes attempts with `probe` under a mark, by which the kernel's records identify what was
    /// refused to it.
    ///
    /// # Panics
    /// If it can not be run.
    #[must_use]
    pub fn probe_marked(
        &self,
        workspace: &Path,
        attempts: &[&str],
        mark: Option<&str>,
    ) -> Vec<String> {
        let probe = workspace.join("probe");
        let probe = probe.to_str().expect("UTF-8");
        let argv: Vec<_> = [probe].into_iter().chain(attempts.iter().copied()).collect();
        let (reply, output) = run_marked(&self.channel, &argv, workspace, mark);
        assert!(matches!(reply, RunReply::Ended { .. }), "probe: {reply:?}");
        output.lines().map(str::to_owned).collect()
    }
}

/// Changes the overlay that is its descriptor 3, in the user namespace of a process and in a mount
/// namespace of its own. Its status is the error number.
const CHANGE_OVERLAY: &str = "import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def done(result):
    if result < 0: sys.exit(ctypes.get_errno())
    return result
done(libc.setns(os.open(f'/proc/{sys.argv[1]}/ns/user', os.O_RDONLY), 0x10000000))
done(libc.unshare(0x20000))
context = done(libc.syscall(433, 3, b'', 8))
done(libc.syscall(431, context, 0, sys.argv[2].encode(), None, 0))
done(libc.syscall(431, context, 7, None, None, 0))";

fn change_overlay(mount: &OwnedFd, flag: &str, shell: Option<u32>) -> Result<(), i32> {
    if let Some(shell) = shell {
        // Python does not start on a directory.
        let python = "exec python3 -c \"$@\" 3<&0 </dev/null";
        let status = Command::new("bash")
            .args(["-c", python, "bash", CHANGE_OVERLAY, &shell.to_string(), flag])
            .stdin(mount.try_clone().expect("a descriptor"))
            .status();
        let errno = status.expect("python3").code().expect("it ends by itself");
        return if errno == 0 { Ok(()) } else { Err(errno) };
    }
    let change = || {
        let context = fspick(mount, "", FsPickFlags::FSPICK_EMPTY_PATH)?;
        fsconfig_set_flag(&context, flag)?;
        fsconfig_reconfigure(&context)
    };
    change().map_err(|errno: rustix::io::Errno| errno.raw_os_error())
}

/// Does for a transaction's process what the launcher does: makes its overlays read-only when it asks
/// for that.
fn change_overlays(control: &Datagrams, shell: Option<u32>) {
    let Ok(Some((Report::Overlays, mounts))) = control.receive::<Report>() else { return };
    while let Ok(Some((mode, _))) = control.receive::<OverlayMode>() {
        let flag = if mode == OverlayMode::ReadOnly { "ro" } else { "rw" };
        let done = mounts.iter().try_for_each(|mount| change_overlay(mount, flag, shell));
        if control.send(&OverlayReply { done }, &[]).is_err() {
            return;
        }
    }
}

/// Runs a program through a runner's channel; returns how it ended and its standard output.
///
/// # Panics
/// If the channel is not a runner's.
#[must_use]
pub fn run(channel: &Channel, argv: &[&str], cwd: &Path) -> (RunReply, String) {
    run_marked(channel, argv, cwd, None)
}

fn run_marked(
    channel: &Channel,
    argv: &[&str],
    cwd: &Path,
    mark: Option<&str>,
) -> (RunReply, String) {
    let null = std::fs::File::options().read(true).write(true).open("/dev/null").expect("null");
    run_with(channel, argv, cwd, mark, null.as_fd())
}

fn run_with(
    channel: &Channel,
    argv: &[&str],
    cwd: &Path,
    mark: Option<&str>,
    stdin: BorrowedFd<'_>,
) -> (RunReply, String) {
    let run = RunRequest::Run(Run {
        argv: argv.iter().map(|a| a.as_bytes().to_vec()).collect(),
        environment: vec![b"PATH=/usr/bin:/bin".to_vec(), b"SHLVL=0".to_vec()],
        search: b"/usr/bin:/bin".to_vec(),
        cwd: cwd.into(),
        script: None,
        streams: Streams::Pipes(Stdin::Null),
        mark: mark.map(|mark| mark.as_bytes().to_vec()),
    });
    channel.send_with(&run, &[stdin]).expect("run");
    let receive = || channel.receive::<RunReply>().expect("channel").expect("a reply");
    let (reply, ends) = receive();
    let [stdout, stderr] = ends.try_into().unwrap_or_else(|ends| panic!("{reply:?} {ends:?}"));
    let read = |end: OwnedFd| {
        let mut bytes = Vec::new();
        std::fs::File::from(end).read_to_end(&mut bytes).expect("read");
        bytes
    };
    let (mut output, errors) = std::thread::scope(|scope| {
        let errors = scope.spawn(|| read(stderr));
        (read(stdout), errors.join().expect("read"))
    });
    output.extend(errors);
    (receive().0, String::from_utf8_lossy(&output).into_owned())
}

impl Drop for Cell {
    fn drop(&mut self) {
        let files = self._files.as_mut().map(|files| &mut files.0);
        for child in [Some(&mut self.child), files].into_iter().flatten() {
            child.kill().unwrap_or_default();
            child.wait().map(drop).unwrap_or_default();
        }
    }
}
