//! Takes a newly executed process to a confined one: it receives the setup, takes the steps and
//! reports the result. Runs in the cell, while it has privilege.

use crate::{
    failure::StepFailure,
    host_support,
    oom_score::OomScore,
    receipt::{self, StepPromises},
    seccomp,
    start_identity::StartIdentity,
    steps::{StepInputs, StepResults, take},
};
use palisade_channel::{Channel, ChannelError, Datagrams};
use palisade_plan::{
    Role,
    cell::{Fault, Ready, Report, Setup},
};
use rustix::process::Signal;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd};

/// The reason why a cell's process could not be confined.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
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
    /// The channel to the broker failed.
    #[error("channel to the broker: {0}")]
    Broker(String),
}

/// A process that has taken all its steps and is confined. It has no privilege.
#[derive(Debug)]
pub struct ConfinedProcess {
    /// The work that it is for.
    pub role: Role,
    /// Its channels to the broker.
    pub channels: Vec<Channel>,
    /// The launcher's socket.
    pub control: Datagrams,
    /// The results of its steps.
    pub results: StepResults,
    /// Makes programs the first victims of the OOM killer.
    pub oom_score: OomScore,
}

/// Takes a cell's process from its start to its confinement. `None` if nothing is left to do: the
/// process was for the setup alone, or the launcher ended. `prepare` does what the session needs
/// before its first call; it runs when the process is confined, and before the broker learns that.
///
/// # Errors
/// If the process could not be confined or prepared; the broker was told, if it was reachable.
pub fn enter(
    identity: StartIdentity,
    prepare: impl FnOnce(&StepResults) -> Result<(), StepFailure>,
) -> Result<Option<ConfinedProcess>, SetupError> {
    // It was executed through a descriptor, so until it is renamed `ps` shows that descriptor's
    // number.
    set_name(c"palisade-cell")?;
    let control = Datagrams::new(take_standard_input()?);
    die_with_the_launcher()?;
    seccomp::prepare_fixed();
    let Some((setup, fds)) = control.receive::<Setup>()? else { return Ok(None) };
    // Not earlier: under cgroup v1 only root may move another user's process into a group.
    identity.take().map_err(|failure| SetupError::Step { step: "begin", failure })?;
    die_with_the_launcher()?;
    if setup.role == Role::Trial {
        let (report, socket) = host_support::run(setup.steps);
        let socket: Vec<_> = socket.iter().map(|socket| socket.as_fd()).collect();
        control.send(&report, &socket)?;
        return Ok(None);
    }
    name_process(&setup)?;
    if setup.role == Role::Sweep {
        confine(&setup, &control, &mut StepInputs::default())?;
        return Ok(None);
    }
    let (channels, mut given) = assign_descriptors(&setup, fds, &control)?;
    let oom_score = OomScore::new().map_err(SetupError::Score)?;
    given.keep.push(oom_score.descriptor());
    let confined = confine(&setup, &control, &mut given).and_then(|(promised, results)| {
        prepare(&results).map_err(|failure| SetupError::Step { step: "prepare", failure })?;
        let receipt = receipt::write(&promised, &results)
            .map_err(|failure| SetupError::Step { step: "receipt", failure })?;
        Ok((receipt, results))
    });
    let (receipt, mut results) = match confined {
        Ok(confined) => confined,
        Err(error) => return Err(fail(&channels, error)),
    };
    // The process keeps none of them: only the egress room accepts.
    let mut listeners = std::mem::take(&mut results.listeners);
    listeners.append(&mut results.inward);
    let sent: Vec<_> = listeners.iter().map(|fd| fd.as_fd()).collect();
    send_ready(&channels, &Ready::Confined(Box::new(receipt)), &sent)?;
    drop(listeners);
    Ok(Some(ConfinedProcess { role: setup.role, channels, control, results, oom_score }))
}

/// Returns the launcher's socket, which is the standard input, and replaces that by `/dev/null`.
fn take_standard_input() -> Result<OwnedFd, SetupError> {
    let control = rustix::io::fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)
        .map_err(|e| SetupError::Kernel("take standard input", e))?;
    let null = rustix::fs::open("/dev/null", rustix::fs::OFlags::RDWR, rustix::fs::Mode::empty())
        .map_err(|e| SetupError::Kernel("open /dev/null", e))?;
    rustix::stdio::dup2_stdin(&null).map_err(|e| SetupError::Kernel("dup2", e))?;
    Ok(control)
}

/// Asks the kernel to kill this process when the launcher ends. Each change of identity cancels
/// this, so it is called again after each one.
fn die_with_the_launcher() -> Result<(), SetupError> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|e| SetupError::Kernel("parent death signal", e))
}

/// Sets the process name that `ps` shows.
fn name_process(setup: &Setup) -> Result<(), SetupError> {
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

fn set_name(name: &std::ffi::CStr) -> Result<(), SetupError> {
    rustix::thread::set_name(name).map_err(|e| SetupError::Kernel("name the process", e))
}

fn assign_descriptors(
    setup: &Setup,
    mut fds: Vec<OwnedFd>,
    control: &Datagrams,
) -> Result<(Vec<Channel>, StepInputs), SetupError> {
    let count = usize::from(setup.channels);
    if count == 0 || fds.len() < count {
        return Err(SetupError::Setup { channels: setup.channels, descriptors: fds.len() });
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

/// Takes the steps. Reports to the launcher as soon as everything is mounted.
fn confine(
    setup: &Setup,
    control: &Datagrams,
    given: &mut StepInputs,
) -> Result<(StepPromises, StepResults), SetupError> {
    let promised = StepPromises::by(&setup.steps);
    let mut taken = StepResults::default();
    for step in setup.steps.clone() {
        let name = step.name();
        take(step, given, &mut taken)
            .map_err(|failure| SetupError::Step { step: name, failure })?;
        if name == palisade_plan::Step::NoNewPrivileges.name() {
            die_with_the_launcher()?;
        }
        // From here on no mount is added and no namespace is created.
        if name == palisade_plan::Step::CloseDescriptors.name() {
            report(setup.role, control, &mut taken)?;
        }
    }
    Ok((promised, taken))
}

/// Gives the launcher what it needs for later requests: the session's namespaces, so that it can
/// start runners there, or a transaction's overlays. Nothing that a client chose has run in this
/// process yet.
fn report(role: Role, control: &Datagrams, taken: &mut StepResults) -> Result<(), SetupError> {
    let (made, overlays) = (std::mem::take(&mut taken.made), std::mem::take(&mut taken.overlays));
    let (report, sent) = match role {
        Role::Files => (Report::Prepared, made),
        Role::Transaction => (Report::Overlays, overlays),
        Role::Runner | Role::Reader | Role::Trial | Role::Sweep => return Ok(()),
    };
    let sent: Vec<_> = sent.iter().map(|fd| fd.as_fd()).collect();
    Ok(control.send(&report, &sent)?)
}

fn send_ready(
    channels: &[Channel],
    ready: &Ready,
    descriptors: &[BorrowedFd<'_>],
) -> Result<(), SetupError> {
    let first = channels.first().ok_or(SetupError::Setup { channels: 0, descriptors: 0 })?;
    first.send_with(ready, descriptors).map_err(|e| SetupError::Broker(e.to_string()))
}

/// Tells the broker which step failed, and returns the error that ends the process.
fn fail(channels: &[Channel], error: SetupError) -> SetupError {
    let (step, why, fault) = match &error {
        SetupError::Step { step, failure } => (*step, failure.to_string(), failure.fault()),
        SetupError::Launcher(_)
        | SetupError::Kernel(..)
        | SetupError::Score(_)
        | SetupError::Setup { .. }
        | SetupError::Broker(_) => ("setup", error.to_string(), Fault::Host),
    };
    let ready = Ready::Failed { step: step.to_owned(), why, fault };
    match send_ready(channels, &ready, &[]) {
        Ok(()) => error,
        Err(unsent) => unsent,
    }
}
