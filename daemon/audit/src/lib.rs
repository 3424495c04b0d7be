//! The audit log: append-only JSON lines, each with the SHA-256 of the line before it. The broker
//! writes it; whoever may read its directory verifies, reads and exports it.
//!
//! A line is `{"seq", "time", "prev", "kind", …}`. `prev` is the SHA-256 of the line before with
//! its newline, so that `sed -n 7p FILE | sha256sum` gives the `prev` of line 8. The first line of
//! a chain has 64 zeros; the first line of a later file has the hash of the last one of the file
//! before.
//!
//! # What is guaranteed
//! [`Log::append`] returns a [`Ticket`] only when the kernel has the whole line (`write(2)`): it
//! outlives any end of the daemon, SIGKILL too. Against a power failure there is a choice
//! ([`Sync`]): by default all that was written is forced to the disk (`fdatasync(2)`) within 50 ms,
//! so that at most the last 50 ms are lost, and the next start then says so in the log; with
//! `always` each line is on the disk before its ticket is given.
//!
//! # What is not
//! The chain has no secret. Who may write to the directory can make another one that verifies.
//! What they can not do is make one that holds a head (`SEQ:HASH`) that was noted elsewhere:
//! [`verify`] takes such an anchor.

mod account;
mod chain;
mod clean;
mod decision;
mod diagnose;
mod effects;
mod error;
mod export;
mod files;
mod flush;
mod hash;
mod later;
mod line;
mod log;
mod names;
mod options;
mod read;
mod record;
mod redact;
mod repair;
mod stats;
mod time;
mod tokens;
mod verify;
mod writer;

pub use account::Account;
pub use chain::Chain;
pub use clean::{CleanJson, CleanText};
pub use decision::{Answer, By, Decision, Grant, GrantAct, Question, Review, Shown};
pub use diagnose::{Bad, What};
pub use effects::{CommittedEffect, Effects};
pub use error::{AuditError, ReadError};
pub use export::{Markdown, Messages, Style};
pub use files::Head;
pub use flush::{Sync, SyncError};
pub use hash::{Digest, Hash, HashError};
pub use line::Entry;
pub use log::Log;
pub use read::{Filter, Place, Reader, Sighted};
pub use record::{
    Call, CallResult, Denied, Finding, Forgotten, HeadFault, JobEnd, Judgement, Kind, Record,
    Repair, Rotate, SessionClose, SessionOpen, Start, TakenBack, Thinking, Torn,
};
pub use redact::REDACTED;
pub use stats::Stats;
pub use time::Timestamp;
pub use verify::{ChainReport, Verification, verify};
pub use writer::{Options, Ticket};
