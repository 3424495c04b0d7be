//! Asks the user who typed `run` or `call`. They are the only operator of their private daemon, if
//! they are at a terminal.

use crate::{
    approve::person::{self, ApproverMode, Person},
    approve::terminal::{self, Terminal},
    failure::Failure,
    linger::{self, Linger},
    print,
};
use palisade_client::{Call, Client, Error, ErrorCode, JobInfo, Open, Registration, Session};
use palisade_options::{
    Connection, SessionTerms,
    connect::{self, Daemon, DaemonChoice, PrivateReason},
};
use std::io::IsTerminal as _;
use tokio::task::AbortHandle;

/// While this value lives, approval requests are shown at the terminal.
#[derive(Debug)]
pub(crate) struct TerminalApprover(AbortHandle);

impl Drop for TerminalApprover {
    fn drop(&mut self) {
        self.0.abort();
        terminal::restore();
    }
}

/// The approvers of a command's calls.
#[derive(Debug)]
pub(crate) enum Approvers {
    /// The user, at this terminal.
    Here { _approver: TerminalApprover },
    /// Those who may use the operator socket of a running daemon.
    Operators,
    /// Nobody: a private daemon has no operator socket.
    Nobody,
}

impl Approvers {
    /// Sets that a call reports its wait for approval, if others answer and the user would not know.
    pub(crate) fn announce<A>(&self, call: Call<A>) -> Call<A> {
        match self {
            Self::Operators => call.progress(),
            Self::Here { .. } | Self::Nobody => call,
        }
    }
}

/// Connects as [`connect::connect`] does. The approval requests of a private daemon are shown at
/// the terminal, if there is one.
pub(crate) async fn connect(options: &Connection) -> Result<(Client, Approvers), Failure> {
    start(connect::find(options).await?).await
}

/// Connects for a command that makes no call, so that nothing is asked.
pub(crate) async fn connect_to_read(options: &Connection) -> Result<Client, Failure> {
    let (client, daemon) = connect::connect(options).await?;
    tell_of(daemon);
    Ok(client)
}

/// Connects as [`connect_to_read`] does. Where no daemon is running, returns those too that earlier
/// commands left running and that have jobs, each with its jobs.
pub(crate) async fn connect_to_jobs(
    options: &Connection,
) -> Result<(Client, Vec<(Client, Vec<JobInfo>)>), Failure> {
    let (client, daemon) = connect::connect(options).await?;
    tell_of(daemon);
    let lingering = match daemon {
        Daemon::Private(PrivateReason::NoneRuns) => linger::with_jobs().await,
        Daemon::Private(PrivateReason::Profiles | PrivateReason::NotAdmitted) | Daemon::Running => {
            Vec::new()
        }
    };
    Ok((client, lingering))
}

fn tell_of(daemon: Daemon) {
    if let Some(notice) = daemon.notice() {
        print::note(&format!("note: {notice}"));
    }
}

/// Opens a session on these terms, to make one call in it. A private daemon loads only the session's
/// profile. It is one that earlier commands left running, or is left running for later ones, except if
/// approval requests are shown at the terminal. Then it is this command's own, and prepares nothing for
/// another call.
pub(crate) async fn open_for(
    terms: &SessionTerms,
    linger: Linger,
    open: Open,
) -> Result<(Client, Approvers, Result<Session, Error>), Failure> {
    let rest = linger.rest()?;
    let (private, why) = match connect::find(&terms.connection).await? {
        DaemonChoice::Private(private, why) => (private, why),
        DaemonChoice::Running(client) => {
            let session = client.open(open).await;
            return Ok((client, Approvers::Operators, session));
        }
    };
    let profile = terms.profile.as_deref();
    let rest = rest.filter(|_| why != PrivateReason::Profiles && here().is_none());
    if let Some(rest) = rest
        && let Some(client) = linger::connect(&private, profile, rest).await
    {
        let session = client.open(open.clone()).await;
        if !session.as_ref().is_err_and(is_of_the_daemon) {
            tell(why);
            return Ok((client, Approvers::Nobody, session));
        }
    }
    let private = match linger {
        Linger::WithOneLongCall => private.long_calls(),
        Linger::Never | Linger::AsConfigured => private,
    };
    let private = private.only_profile(profile).one_call();
    let (client, asking) = start(DaemonChoice::Private(private, why)).await?;
    let session = client.open(open).await;
    Ok((client, asking, session))
}

/// Returns `true` if a session failed because of the state of the daemon, not because of the
/// request: it is ending, or has as many sessions as it may.
fn is_of_the_daemon(error: &Error) -> bool {
    match error.wire() {
        Some(wire) => matches!(
            wire.code,
            ErrorCode::LimitReached | ErrorCode::ShuttingDown | ErrorCode::LauncherGone
        ),
        None => true,
    }
}

/// Tells the user why the daemon is private, if they should know.
fn tell(why: PrivateReason) {
    if let Some(notice) = why.notice() {
        print::note(&format!("note: {notice}"));
    }
}

async fn start(found: DaemonChoice) -> Result<(Client, Approvers), Failure> {
    let private = match found {
        DaemonChoice::Running(client) => return Ok((client, Approvers::Operators)),
        DaemonChoice::Private(private, why) => {
            tell(why);
            private
        }
    };
    let Some(terminal) = here() else {
        return Ok((private.start().await?, Approvers::Nobody));
    };
    let (client, operator) = private.with_operator().await?;
    operator.register(Registration::new(person::name())).await?;
    let person = Person::new(operator, terminal, ApproverMode::Own);
    let task = tokio::spawn(async move {
        if let Err(failure) = person.serve().await {
            print::failure(&failure);
        }
    });
    Ok((client, Approvers::Here { _approver: TerminalApprover(task.abort_handle()) }))
}

/// Opens the terminal, if a person there sees this program's messages.
fn here() -> Option<Terminal> {
    if std::io::stderr().is_terminal() { Terminal::open().ok() } else { None }
}
