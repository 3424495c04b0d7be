//! A change of files, in two phases. First the cell prepares a [`Change`]: it works out everything
//! that would be different, sends the present contents, and changes nothing. Then `Commit` makes
//! all of the change or none of it, and `Abandon` discards it.
//!
//! The messages on a file channel, in order: `FileRequest::Change` and the `Content` that it needs.
//! From the cell, a `FileReply::Before` for each path with its `Content`, then `Prepared`. From the
//! broker, `Commit` or `Abandon`; from the cell, `Changed` or `Abandoned`.
//!
//! A list that is too long for one message is sent in parts ([`crate::parts`]) before the message
//! that it belongs to: `FileRequest::Part` before a `Change`, `FileReply::Effects` before
//! `Prepared` and `Changed`, `FileReply::Evidence` before `Prepared`, `FileReply::Wrote` before
//! `Changed`.
//!
//! `Failed` ends the exchange at any point, and then nothing is changed. Before the cell has all of
//! the `Content`, it sends nothing but `Failed`. An `Abandon` that crosses the last answer is
//! ignored.
//!
//! To undo a change, send an [`Act::Restore`] with a [`Restoration`] for each [`Before`], in
//! reverse order: `State` becomes `Put`, `Moved` becomes `Rename` with the names swapped, `Same`
//! becomes `Revert`. The state expected at a path follows from the effects in order. Each effect
//! leaves its print at its path, and a move leaves nothing at the old path. A path that no effect
//! names, such as one below a deleted directory, is expected to be `Absent`. All expectations are
//! checked before anything is restored.

use crate::{Path, evidence::Evidence};
use bincode::{Decode, Encode};

/// A change to prepare. Paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Change {
    /// The action to prepare.
    pub act: Act,
    /// The most bytes a file may have afterwards. For the changes of a program, the most bytes of all
    /// its files together, holes included.
    pub most: u64,
    /// The choice to send the present contents before they are replaced.
    pub keep: Keep,
    /// Most bytes of unified diff to make; 0 for no diff.
    pub diff: u32,
    /// The depth of the evidence about what existed before.
    pub evidence: EvidenceDepth,
}

/// The depth of the evidence that is collected about what existed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum EvidenceDepth {
    /// The paths of the files that existed.
    Paths,
    /// The paths, and the places where their bytes are kept: in git, or in new files with the same
    /// bytes.
    Full,
}

/// The choice to send first the contents that a change would lose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Keep {
    /// All of them are sent. A change that would lose more than these limits is refused.
    Sent {
        /// Most bytes of file contents in all.
        bytes: u64,
        /// Most entries.
        entries: u32,
    },
    /// The contents are not sent: the change is a trial, or a permanent deletion.
    Nothing,
}

/// The action of a change.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Act {
    /// Write a file; its `Content` follows.
    Write {
        /// The file.
        path: Path,
        /// The treatment of a file that already exists.
        mode: WriteMode,
    },
    /// Replace text in files.
    Edit {
        /// The files, each at most once.
        files: Vec<FileEdits>,
    },
    /// Apply a patch; its `Content` (the text) follows.
    Patch {
        /// The directory that its paths are relative to.
        base: Path,
    },
    /// Delete a file, a link or a tree.
    Delete {
        /// The path to delete.
        path: Path,
        /// True if directories may be deleted too.
        recursive: bool,
    },
    /// Rename something.
    Move {
        /// The present path.
        from: Path,
        /// The new path.
        to: Path,
        /// True if a file at the new path may be replaced.
        overwrite: bool,
    },
    /// Create a directory and its parents.
    MakeDir {
        /// The directory.
        path: Path,
    },
    /// Put back what an earlier change replaced. `Content` follows for each file, in order, the
    /// last piece of each with `end`.
    Restore {
        /// The entries in the order in which they are restored: the reverse of the change's own.
        entries: Vec<Restoration>,
        /// True to restore even where something has changed since.
        force: bool,
    },
    /// Make real what a program did in its transaction. Valid only in that transaction, when the
    /// program has ended; it may be prepared any number of times until one is committed.
    Settle {
        /// Paths of effects to leave uncommitted, each with everything below it. For a move, the
        /// old path leaves out both.
        leave: Vec<Path>,
        /// The treatment of paths that somebody else changed as well.
        conflicts: Conflicts,
    },
    /// Roll back commits of transactions that were interrupted in this workspace. Not valid in a
    /// transaction. Changes nothing else, and nothing at all if no commit was interrupted.
    Resolve {
        /// The digests of changes whose commit was begun. Only these are rolled back, since a
        /// program may have left files that look like a commit. With `None`, interrupted commits
        /// are only reported, and only those that had not begun are cleaned up.
        begun: Option<Vec<[u8; 32]>>,
    },
}

/// The treatment of a file that exists already when it is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum WriteMode {
    /// Replaces it.
    Overwrite,
    /// Appends to it.
    Append,
    /// Refuses the write.
    Create,
}

/// The treatment of paths that both the program and somebody else changed during the transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Conflicts {
    /// The first conflict fails the change.
    Refused,
    /// Conflicts are reported, and the program's version replaces the present one.
    Told,
}

/// A path that both the program and somebody else changed during the transaction.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Conflict {
    /// The path.
    pub path: Path,
    /// A short description of what is there now.
    pub theirs: String,
    /// A short description of what the program left there.
    pub ours: String,
}

/// Replacements in one file, applied one after another.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct FileEdits {
    /// The file.
    pub path: Path,
    /// The replacements, in order.
    pub edits: Vec<Replacement>,
}

/// One replacement.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Replacement {
    /// The text to replace. It must occur exactly once, unless `all`.
    pub old: Vec<u8>,
    /// The new text.
    pub new: Vec<u8>,
    /// True if every occurrence is replaced.
    pub all: bool,
}

/// The name and value of an extended attribute.
pub type Attribute = (Vec<u8>, Vec<u8>);

/// The state of a path. A file's bytes follow as `Content`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum State {
    /// Nothing is there.
    Absent,
    /// A regular file.
    File {
        /// Permission bits.
        mode: u32,
        /// Size in bytes.
        size: u64,
        /// Modification time, in seconds and nanoseconds.
        mtime: (i64, u32),
    },
    /// A directory. Its contents have entries of their own.
    Directory {
        /// Permission bits.
        mode: u32,
    },
    /// A symbolic link.
    Symlink {
        /// The target of the link.
        target: Path,
    },
    /// A FIFO, socket or device. It can be deleted or moved, but not put back.
    Other,
}

/// The state of a path before a change. For a move, that of the old path.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Before {
    /// The present state, which will be replaced.
    State {
        /// The absolute path, with links resolved as the tool resolves them.
        path: Path,
        /// The present state.
        state: State,
    },
    /// The entry will be renamed and stay otherwise the same.
    Moved {
        /// The present path.
        from: Path,
        /// The path after the change.
        to: Path,
    },
    /// The entry stays the same regular file, with another mode or with bytes appended. No content
    /// follows.
    Same {
        /// The file.
        path: Path,
        /// The file's present mode, size and time.
        was: InodeState,
        /// SHA-256 of its present contents, if they can be read.
        digest: Option<[u8; 32]>,
    },
}

/// The state of a regular file, to be restored in the same inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct InodeState {
    /// Permission bits.
    pub mode: u32,
    /// Size in bytes; anything beyond was appended.
    pub size: u64,
    /// Modification time, in seconds and nanoseconds.
    pub mtime: (i64, u32),
}

/// One step of undoing a change.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Restoration {
    /// Restore the earlier state of a path.
    Put {
        /// The path.
        path: Path,
        /// The fingerprint of what the change left there; anything else is a conflict.
        expect: Print,
        /// The earlier state. A file's bytes follow as `Content`.
        state: State,
        /// The extended attributes of a file.
        attributes: Vec<Attribute>,
    },
    /// Rename something back.
    Rename {
        /// The present path.
        from: Path,
        /// The earlier path.
        to: Path,
        /// The fingerprint of what the change left at the present path.
        expect: Print,
    },
    /// Restore mode, size and time of a regular file in place, so that it stays the same inode.
    Revert {
        /// The file.
        path: Path,
        /// The fingerprint of what the change left there; anything else is a conflict.
        expect: Print,
        /// The earlier state.
        was: InodeState,
    },
}

/// A fingerprint of what a change left at a path, by which it is recognised later.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Print {
    /// Nothing is there.
    Absent,
    /// A regular file.
    File {
        /// Permission bits.
        mode: u32,
        /// SHA-256 of its contents.
        digest: [u8; 32],
    },
    /// A directory.
    Directory,
    /// A symbolic link to this.
    Symlink {
        /// The target of the link.
        target: Path,
    },
    /// Something that was moved and not written: a file too large to be read for a digest, or not a
    /// regular file.
    Node {
        /// The device number.
        dev: u64,
        /// The inode number.
        ino: u64,
        /// Size in bytes.
        size: u64,
        /// Modification time, in seconds and nanoseconds.
        mtime: (i64, u32),
    },
    /// A directory with everything below it, as one.
    Tree {
        /// Number of entries, the directory itself included.
        entries: u64,
        /// SHA-256 over names, kinds, modes and contents.
        digest: [u8; 32],
    },
}

/// The effect of a change on one path.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Effect {
    /// The path afterwards, or the earlier path of something deleted.
    pub path: Path,
    /// The kind of effect.
    pub kind: EffectKind,
    /// Size in bytes before, of a regular file.
    pub size_before: u64,
    /// Size in bytes afterwards, of a regular file.
    pub size_after: u64,
    /// The fingerprint of what is there afterwards.
    pub print: Print,
    /// The version of the file that was there before, which shows whether the session itself had
    /// written it.
    pub replaces: Option<Version>,
}

/// Kinds of effects.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum EffectKind {
    /// The path did not exist. A new tree is one effect with a [`Print::Tree`]; its `size_after` is
    /// that of all its files.
    Created,
    /// The contents differ; all of the earlier contents may be gone.
    Replaced,
    /// Bytes were appended, and all earlier bytes are still there.
    Appended,
    /// A part of the file differs, and the caller named the text that was there.
    Edited,
    /// The path is deleted, with everything below it.
    Deleted {
        /// Number of deleted entries, the path itself included.
        entries: u64,
    },
    /// The entry was renamed.
    Moved {
        /// The earlier path.
        from: Path,
    },
    /// Only the mode differs.
    Mode,
    /// Only times or extended attributes differ.
    Touched,
    /// A FIFO or device that a program created in its transaction. It is reported and not
    /// committed.
    Special,
}

/// The result of preparing a change.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Prepared {
    /// The effects, in order.
    pub effects: Vec<Effect>,
    /// Digest of all that will be lost and all that will be there. A different digest means a
    /// different change.
    pub digest: [u8; 32],
    /// A unified diff, if one was asked for.
    pub diff: String,
    /// True if the diff is complete.
    pub diff_complete: bool,
    /// Paths that somebody else changed as well, if conflicts are reported.
    pub conflicts: Vec<Conflict>,
    /// Evidence about what existed before, and where it is kept.
    pub evidence: Box<Evidence>,
}

/// The result of committing a change.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Changed {
    /// The effects, in order.
    pub effects: Vec<Effect>,
    /// Each regular file that the change wrote, in its present version, with the path of its
    /// effect.
    pub wrote: Vec<(Path, Version)>,
    /// The number of occurrences of texts that edits replaced.
    pub replacements: u64,
    /// The digests of interrupted changes that [`Act::Resolve`] has rolled back.
    pub resolved: Vec<[u8; 32]>,
    /// Further remarks for the reader, one sentence each.
    pub notes: Vec<String>,
}

/// One version of one file: device, inode, and time of the last change of any kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Version {
    /// The device number.
    pub dev: u64,
    /// The inode number.
    pub ino: u64,
    /// Change time in seconds and nanoseconds, which no program can set.
    pub ctime: (i64, u32),
}
