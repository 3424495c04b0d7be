//! What broker and launcher say to each other: one datagram a message.

use crate::{Absent, Facts, HeldLimit, Identity, LaunchPlan, Path, Runs};
use bincode::{Decode, Encode};

/// The launcher's number for a session.
pub type SessionNumber = u32;

/// Whose a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Whose {
    /// The client's at the other end of the first descriptor.
    Client,
    /// The daemon's own, to try what a session can do: as nobody, or as the user whose daemon it is.
    Nobody,
}

/// From the broker.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Request {
    /// First, once.
    Hello {
        /// [`crate::BUILD_ID`] of the broker.
        build_id: String,
    },
    /// Say whom a session of a client's in a workspace would run as, which the broker may be unable to
    /// see. Descriptor: that client's socket.
    Identify {
        /// Chosen by the broker, not used twice.
        session: SessionNumber,
        /// The workspace.
        workspace: Path,
    },
    /// Make a session's cell. Descriptors: if it is a client's, that client's socket (only its
    /// credentials are read); then [`crate::cell::FILE_CHANNELS`] channels for file tools.
    Session {
        /// Chosen by the broker, not used twice.
        session: SessionNumber,
        /// Whom it runs as.
        whose: Whose,
        /// What to enforce.
        plan: Box<LaunchPlan>,
    },
    /// Make a runner in a session. Descriptors: its channel.
    Runner {
        /// Which session.
        session: SessionNumber,
    },
    /// Make a runner whose programs can only read what the session may write otherwise.
    /// Descriptors: its channel.
    Reader {
        /// Which session.
        session: SessionNumber,
    },
    /// Make a runner for one program, whose changes of the workspace are held back: a transaction.
    /// Descriptors: its channel, and the file channel on which the changes are settled, by
    /// [`crate::change::Act::Settle`] and nothing else, when the program has ended; then, if names
    /// are hidden, what [`crate::cell::FileReply::Scanned`] brought.
    Transaction {
        /// Which session.
        session: SessionNumber,
    },
    /// End a session and everything in it.
    End {
        /// Which session.
        session: SessionNumber,
    },
}

/// From the launcher.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Reply {
    /// To `Hello`. Descriptor: a socket with the kernel's audit records, where [`Facts::records`]
    /// says so.
    Welcome {
        /// [`crate::BUILD_ID`] of the launcher.
        build_id: String,
        /// What the host can enforce.
        facts: Box<Facts>,
    },
    /// To `Identify`.
    Identified {
        /// Which session was asked about.
        session: SessionNumber,
        /// Whom it would run as, or for.
        identity: Identity,
    },
    /// A session's cell was started; the cell itself says on its channel when it is ready.
    Started {
        /// Which session.
        session: SessionNumber,
        /// Whom it runs as, and for whom.
        runs: Runs,
        /// Limits held by cgroup.
        limits: Vec<HeldLimit>,
        /// Layers that are missing by the plan's leave.
        absent: Vec<Absent>,
        /// The file whose `oom_kill` count tells of kills for want of memory; empty if none.
        oom_file: String,
    },
    /// A request about a session was refused, or its cell could not be started.
    Refused {
        /// Which session.
        session: SessionNumber,
        /// Why.
        refusal: Refusal,
    },
    /// A session is over and nothing of it is left.
    Ended {
        /// Which session.
        session: SessionNumber,
    },
    /// The launcher will not go on with this broker.
    Fatal {
        /// Why.
        why: String,
    },
}

/// Why the launcher refuses.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Refusal {
    /// A required layer is missing on this host.
    LayerMissing(Absent),
    /// The plan is over the ceiling; the text names the limit.
    Ceiling(String),
    /// This peer may not have a session.
    Identity(String),
    /// No such session, or one of that number exists.
    Session(String),
    /// The cell could not be started.
    Spawn(String),
    /// What a program does to the workspace can not be held back here.
    Transaction(String),
    /// The session is to have a uid of its own, and there is none to be had here.
    NoUid(String),
    /// Every uid that sessions may have is a living session's.
    UidsTaken(String),
}
