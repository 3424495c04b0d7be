//! The audit log: append-only JSON lines, each with the SHA-256 of the line before it. The broker
//! writes it. Anybody who may read its directory can verify, read and export it.
//!
//! A line is `{"seq", "time", "prev", "kind", …}`. `prev` is the SHA-256 of the previous line with
//! its newline, so that `sed -n 7p FILE | sha256sum` prints the `prev` of line 8. In the first line
//! of a chain it is 64 zeros. The first line of a later file has the hash of the last line of the
//! file before.
//!
//! # What is guaranteed
//! [`Log::append`] returns a [`Ticket`] only when the kernel has the whole line (`write(2)`), so
//! that it survives any end of the daemon, even SIGKILL.
//!
//! A setting ([`Sync`]) decides how records survive a power failure. By default all are flushed to
//! disk (`fdatasync(2)`) within 50 ms. At most the last 50 ms are lost then, and the next start
//! records that in the log. With `always`, each line is on disk before its ticket is returned.
//!
//! # What is not
//! The chain has no secret: somebody with write access to the directory can create another chain
//! that verifies. But they can not create one that contains a head (`SEQ:HASH`) that was noted
//! elsewhere, or one that is signed with a key that they do not have. [`verify_with`] accepts such
//! a head as an anchor, and the public key.

mod account;
mod archive;
mod chain;
mod clean;
mod connection;
mod decision;
mod denial;
mod diagnose;
mod effects;
mod error;
mod export;
mod files;
mod flush;
mod hash;
mod key;
mod later;
mod line;
mod lines;
mod log;
mod names;
mod observer;
mod options;
mod read;
mod record;
mod redact;
mod repair;
mod retention;
mod scan;
mod source;
mod stats;
mod time;
mod tokens;
mod verify;
mod writer;

pub use account::Account;
pub use archive::{
    ARCHIVE_DIRECTORY, ArchiveDefect, ArchiveError, Archiver, CompleteFile, Manifest,
};
pub use chain::Chain;
pub use clean::{CleanJson, CleanText};
pub use connection::{Connection, ConnectionAlarm, ConnectionVerdict, Count};
pub use decision::{
    Answer, Decision, DecisionMaker, Grant, GrantAct, LostPath, RequestContent, RequestKey,
    RequestRecord, Review,
};
pub use denial::LayerDenial;
pub use diagnose::{BadRecord, TamperKind};
pub use effects::{CommittedEffect, Effects};
pub use error::{AuditError, ReadError};
pub use export::{Markdown, Messages, Style, ocsf};
pub use files::Head;
pub use flush::{Sync, SyncError};
pub use hash::{Digest, Hash, HashError};
pub use key::{KeyError, PublicKey, SignatureFault, SignatureText, SigningKey};
pub use line::Entry;
pub use log::Log;
pub use observer::{RecordObserver, WrittenRecord};
pub use read::{Filter, LocatedRecord, LogPosition, Reader};
pub use record::{
    ArchiveAct, ArchiveEvent, Call, CallResult, Claim, Finding, HeadFault, JobEnd, Judgement, Kind,
    Record, Repair, Rollback, Rotate, SessionClose, SessionOpen, Start, StoredDataDeletion,
    Thinking, TornEnd,
};
pub use redact::REDACTED;
pub use retention::{LogVolume, RetentionPolicy, RetentionReport};
pub use scan::{ScanBounds, scan};
pub use stats::Stats;
pub use time::Timestamp;
pub use verify::{ArchiveFault, ChainReport, Verification, VerifyOptions, verify, verify_with};
pub use writer::{Options, Ticket};
