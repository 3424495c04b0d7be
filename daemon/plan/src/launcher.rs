//! Messages between broker and launcher, one datagram each.

use crate::{Absent, Facts, HeldLimit, Identity, LaunchPlan, Path, Runs};
use bincode::{Decode, Encode};

/// The number by which broker and launcher name a session.
pub type SessionNumber = u32;

/// The owner of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum SessionOwner {
    /// The client at the other end of the first descriptor.
    Client,
    /// The daemon itself, to try out what a session can do. It runs as nobody, or as the user whose
    /// daemon it is.
    Nobody,
}

/// A request of the broker.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Request {
    /// Starts the conversation. Sent once, first.
    Hello {
        /// The broker's [`crate::BUILD_ID`].
        build_id: String,
    },
    /// Asks for the identity of a client's session in a workspace, which the broker may be unable to
    /// see. Descriptor: the client's socket.
    Identify {
        /// The session's number: chosen by the broker, never used twice.
        session: SessionNumber,
        /// The workspace.
        workspace: Path,
    },
    /// Creates a session's cell. Descriptors: for a client's session, the client's socket (only its
    /// credentials are read); then [`crate::cell::FILE_CHANNELS`] channels for file tools.
    Session {
        /// The session's number: chosen by the broker, never used twice.
        session: SessionNumber,
        /// The owner of the session.
        whose: SessionOwner,
        /// The confinement to enforce.
        plan: Box<LaunchPlan>,
    },
    /// Creates a runner in a session. Descriptor: the runner's channel.
    Runner {
        /// The session.
        session: SessionNumber,
    },
    /// Creates a runner whose programs can only read, even where the session may otherwise write.
    /// Descriptor: the runner's channel.
    Reader {
        /// The session.
        session: SessionNumber,
    },
    /// Creates a runner for one program in a transaction: its changes of the workspace are held
    /// back. Descriptors: the runner's channel, and the file channel on which the changes are
    /// committed when the program has ended, by [`crate::change::Act::Settle`] and nothing else. If
    /// names are hidden, then also the descriptor that came with
    /// [`crate::cell::FileReply::Scanned`].
    Transaction {
        /// The session.
        session: SessionNumber,
    },
    /// Creates a runner for one program that watches: it sees the live workspace read-only, and its
    /// changes of these directories are held back. Descriptors: those of `Transaction`, without the
    /// last.
    Watch {
        /// The session.
        session: SessionNumber,
        /// The directories, relative to the workspace; at most [`crate::cell::MOST_NOISE`].
        directories: Vec<Path>,
    },
    /// Ends a session and everything in it.
    End {
        /// The session.
        session: SessionNumber,
    },
}

/// A reply of the launcher.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Reply {
    /// The answer to `Hello`. Descriptor: a socket that delivers the kernel's audit records, if
    /// [`Facts::records`] says so.
    Welcome {
        /// The launcher's [`crate::BUILD_ID`].
        build_id: String,
        /// The abilities of the host.
        facts: Box<Facts>,
    },
    /// The answer to `Identify`.
    Identified {
        /// The session that was asked about.
        session: SessionNumber,
        /// The identity that the session would run as, or for.
        identity: Identity,
    },
    /// A session's cell was started. The cell itself reports on its channel when it is ready.
    Started {
        /// The session.
        session: SessionNumber,
        /// The identities that the session runs as, and for.
        runs: Runs,
        /// The limits that cgroups enforce.
        limits: Vec<HeldLimit>,
        /// Layers that are missing, which the plan allows.
        absent: Vec<Absent>,
        /// The file whose `oom_kill` line counts processes killed for lack of memory; empty if
        /// there is none.
        oom_file: String,
    },
    /// A request about a session was refused, or its cell could not be started.
    Refused {
        /// The session.
        session: SessionNumber,
        /// The reason.
        refusal: Refusal,
    },
    /// A session has ended and no process of it is left.
    Ended {
        /// The session.
        session: SessionNumber,
    },
    /// The launcher stops serving this broker.
    Fatal {
        /// The reason.
        why: String,
    },
}

/// The reason that the launcher refuses a request.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Refusal {
    /// A required layer is missing on this host.
    LayerMissing(Absent),
    /// The plan violates the ceiling; the text names the limit.
    Ceiling(String),
    /// This peer may not have a session.
    Identity(String),
    /// The workspace can not be used; the text names it and says why.
    Workspace(String),
    /// There is no session of that number, or there is one already.
    Session(String),
    /// The cell could not be started.
    Spawn(String),
    /// Transactions are unavailable here: a program's changes of the workspace can not be held
    /// back.
    Transaction(String),
    /// The session needs its own uid, and none is available here.
    NoUid(String),
    /// Living sessions use every uid reserved for sessions.
    UidsTaken(String),
}
