//! Takes a newly executed process to a confined one: it receives the setup, takes the steps,
//! reports the result and serves. Runs in the cell.

use crate::{
    beginning::Beginning,
    channel::Channel,
    failure::StepFailure,
    files, kernel,
    receipt::{self, StepPromises},
    runner::{self, CommitResources, RunnerExit, RunnerResources},
    seccomp,
    steps::{StepInputs, StepResults, take},
    trial,
    victim::OomScore,
};
use palisade_channel::{ChannelError, Datagrams};
use palisade_plan::{
    Role,
    cell::{Fault, Ready, Report, Setup},
};
use rustix::process::Signal;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

/// The reason why a cell's process ended.
#[derive(Debug, thiserror::Error)]
pub enum EnterError {
    /// The process was not started by the launcher, or lost its connection to it.
    #[error("no launcher on standard input: {0}")]
    Launcher(#[from] ChannelError),
    /// A system call failed before the first step.
    #[error("{0}: {1}")]
    Kernel(&'static str, rustix::io::Errno),
    /// The file through which programs are made the first victims of the OOM killer could not be
    /// opened.
    #[error("open /proc/self/oom_score_adj: {0}")]
    Score(#[source] std::io::Error),
    /// The setup announces more channels than descriptors came with it, or no channel.
    #[error("a setup for {channels} channels came with {descriptors} descriptors")]
    Setup {
        /// The number of channels announced.
        channels: u8,
        /// The number of descriptors received.
        descriptors: usize,
    },
    /// A step failed, and the broker was told.
    #[error("step {step}: {failure}")]
    Step {
        /// The name of the step.
        step: &'static str,
        /// The reason.
        failure: StepFailure,
    },
    /// The steps of a transaction laid no overlay over the workspace.
    #[error("a transaction's steps laid no layer over the workspace")]
    NoLayers,
    /// The channel to the broker failed.
    #[error("channel to the broker: {0}")]
    Broker(String),
    /// The runner failed.
    #[error(transparent)]
    Runner(#[from] runner::RunnerError),
}

/// Runs a cell's process from its start to its end.
///
/// # Errors
/// Whatever ended the process, except the end of its session.
pub fn enter(beginning: Beginning) -> Result<(), EnterError> {
    // It was executed through a descriptor, so until it is renamed `ps` shows that descriptor's
    // number.
    set_name(c"palisade-cell")?;
    let control = Datagrams::new(take_standard_input()?);
    die_with_the_launcher()?;
    seccomp::prepare_fixed();
    let Some((setup, fds)) = control.receive::<Setup>()? else { return Ok(()) };
    // Not earlier: under cgroup v1 only root may move another user's process into a group.
    beginning.take().map_err(|failure| EnterError::Step { step: "begin", failure })?;
    die_with_the_launcher()?;
    if setup.role == Role::Trial {
        let (report, socket) = trial::run(setup.steps);
        let socket: Vec<_> = socket.iter().map(|socket| socket.as_fd()).collect();
        control.send(&report, &socket)?;
        return Ok(());
    }
    name_process(&setup)?;
    if setup.role == Role::Sweep {
        confine(&setup, &control, &mut StepInputs::default())?;
        return Ok(());
    }
    let (channels, mut given) = assign_descriptors(&setup, fds, &control)?;
    let victim = OomScore::new().map_err(EnterError::Score)?;
    given.keep.push(victim.descriptor());
    match confine(&setup, &control, &mut given) {
        Ok((promised, mut taken)) => {
            let author = taken.git.take().map_or(Ok(()), |git| git.write_author());
            let author = author.map_err(|failure| EnterError::Step { step: "git author", failure });
            let receipt = author.and_then(|()| {
                receipt::write(&promised, &taken)
                    .map_err(|failure| EnterError::Step { step: "receipt", failure })
            });
            match receipt {
                Ok(receipt) => {
                    // The process keeps none of them: only the egress room accepts.
                    let mut listeners = std::mem::take(&mut taken.listeners);
                    listeners.append(&mut taken.inward);
                    let sent: Vec<_> = listeners.iter().map(|fd| fd.as_fd()).collect();
                    send_ready(&channels, &Ready::Confined(Box::new(receipt)), &sent)?;
                    drop(listeners);
                    serve(setup.role, channels, control, taken, victim)
                }
                Err(error) => Err(fail(&channels, error)),
            }
        }
        Err(error) => Err(fail(&channels, error)),
    }
}

/// Returns the launcher's socket, which is the standard input, and replaces that by `/dev/null`.
fn take_standard_input() -> Result<OwnedFd, EnterError> {
    let control = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)
        .map_err(|e| EnterError::Kernel("take standard input", e))?;
    let null = rustix::fs::open("/dev/null", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty())
        .map_err(|e| EnterError::Kernel("open /dev/null", e))?;
    rustix::stdio::dup2_stdin(&null).map_err(|e| EnterError::Kernel("dup2", e))?;
    Ok(control)
}

/// Asks the kernel to kill this process when the launcher ends. Each change of identity cancels
/// this, so it is called again after each one.
fn die_with_the_launcher() -> Result<(), EnterError> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|e| EnterError::Kernel("parent death signal", e))
}

/// Sets the process name that `ps` shows.
fn name_process(setup: &Setup) -> Result<(), EnterError> {
    let role = match setup.role {
        Role::Files => "files",
        Role::Runner => "run",
        Role::Reader => "read",
        Role::Trial => "trial",
        Role::Transaction => "once",
        Role::Sweep => "sweep",
    };
    let name = std::ffi::CString::new(format!("cell {} {role}", setup.session)).unwrap_or_default();
    set_name(&name)
}

fn set_name(name: &std::ffi::CStr) -> Result<(), EnterError> {
    rustix::thread::set_name(name).map_err(|e| EnterError::Kernel("name the process", e))
}

fn assign_descriptors(
    setup: &Setup,
    mut fds: Vec<OwnedFd>,
    control: &Datagrams,
) -> Result<(Vec<Channel>, StepInputs), EnterError> {
    let count = usize::from(setup.channels);
    if count == 0 || fds.len() < count {
        return Err(EnterError::Setup { channels: setup.channels, descriptors: fds.len() });
    }
    let mut namespaces = fds.split_off(count);
    let scanned = match (setup.scanned, namespaces.is_empty()) {
        (0, _) | (_, true) => None,
        (_, false) => Some(namespaces.remove(0)),
    };
    let mut keep: Vec<_> = fds.iter().map(|fd| fd.as_raw_fd()).collect();
    keep.push(control.as_fd().as_raw_fd());
    let channels = fds.into_iter().map(Channel::new).collect();
    Ok((channels, StepInputs { namespaces, overlay_users: None, scanned, keep }))
}

/// Takes the steps. Reports to the launcher as soon as the session's root is mounted, so that it
/// can start runners there.
fn confine(
    setup: &Setup,
    control: &Datagrams,
    given: &mut StepInputs,
) -> Result<(StepPromises, StepResults), EnterError> {
    let promised = StepPromises::by(&setup.steps);
    let mut taken = StepResults::default();
    for step in setup.steps.clone() {
        let name = step.name();
        take(step, given, &mut taken)
            .map_err(|failure| EnterError::Step { step: name, failure })?;
        if name == palisade_plan::Step::NoNewPrivileges.name() {
            die_with_the_launcher()?;
        }
        // From here on no mount is added and no namespace is created.
        if name == palisade_plan::Step::CloseDescriptors.name() && setup.role == Role::Files {
            let made: Vec<_> = taken.made.iter().map(|fd| fd.as_fd()).collect();
            control.send(&Report::Prepared, &made)?;
            taken.made.clear();
        }
    }
    Ok((promised, taken))
}

fn send_ready(
    channels: &[Channel],
    ready: &Ready,
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), EnterError> {
    let first = channels.first().ok_or(EnterError::Setup { channels: 0, descriptors: 0 })?;
    first.send_with(ready, descriptors).map_err(|e| EnterError::Broker(e.to_string()))
}

/// Tells the broker which step failed, and returns the error that ends the process.
fn fail(channels: &[Channel], error: EnterError) -> EnterError {
    let (step, fault) = match &error {
        EnterError::Step { step, failure } => (*step, failure.fault()),
        EnterError::Launcher(_)
        | EnterError::Kernel(..)
        | EnterError::Score(_)
        | EnterError::Setup { .. }
        | EnterError::NoLayers
        | EnterError::Broker(_)
        | EnterError::Runner(_) => ("setup", Fault::Host),
    };
    let ready = Ready::Failed { step: step.to_owned(), why: error.to_string(), fault };
    match send_ready(channels, &ready, &[]) {
        Ok(()) => error,
        Err(unsent) => unsent,
    }
}

fn serve(
    role: Role,
    mut channels: Vec<Channel>,
    control: Datagrams,
    taken: StepResults,
    victim: OomScore,
) -> Result<(), EnterError> {
    match role {
        Role::Files | Role::Trial | Role::Sweep => {
            drop(victim);
            kernel::ignore_file_size_signal();
            watch(control);
            files::serve(channels, taken.seen()).map_err(|e| EnterError::Broker(e.to_string()))
        }
        Role::Runner | Role::Reader => {
            let channel =
                channels.pop().ok_or(EnterError::Setup { channels: 0, descriptors: 0 })?;
            let held =
                RunnerResources { landlock: taken.landlock, victim, recorder: taken.recorder };
            runner::serve(channel, control, held, None)?;
            Ok(())
        }
        Role::Transaction => {
            let Ok([channel, file]) = <[Channel; 2]>::try_from(channels) else {
                return Err(EnterError::Setup { channels: 2, descriptors: 0 });
            };
            let view = taken.seen();
            let Some(mut layers) = taken.layers else { return Err(EnterError::NoLayers) };
            let held =
                RunnerResources { landlock: taken.landlock, victim, recorder: taken.recorder };
            let settling = CommitResources { layers: &mut layers, view: &view, file: &file };
            match runner::serve(channel, control, held, Some(settling))? {
                RunnerExit::Nobody => return Ok(()),
                RunnerExit::Launcher { control, since } => {
                    watch(control);
                    layers.set_since(since);
                }
            }
            kernel::ignore_file_size_signal();
            files::settle(&file, view, layers).map_err(|e| EnterError::Broker(e.to_string()))
        }
    }
}

/// Ends the process when the launcher ends. The death signal alone is not enough: it is lost if the
/// launcher ended before it was requested.
fn watch(control: Datagrams) {
    std::thread::spawn(move || {
        // The launcher sends nothing after the setup, so any message, or the end of the connection,
        // means the end.
        drop(control.receive::<Setup>());
        kernel::exit_now(0);
    });
}
