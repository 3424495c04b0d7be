//! A change of files, in two phases. A [`Change`] is prepared: the cell works out everything that
//! would be different, sends what is there now, and changes nothing. Then `Commit` does all of it
//! or none, or `Abandon` lets it go.
//!
//! On a file channel: `FileRequest::Change`, the `Content` that it needs, then from the cell a
//! `FileReply::Before` for each path with its `Content`, `Prepared`, from the broker `Commit` or
//! `Abandon`, from the cell `Changed` or `Abandoned`. A list that is too long for one message comes in
//! parts ([`crate::parts`]) before the message that it belongs to: `FileRequest::Part` before a `Change`,
//! `FileReply::Effects` before `Prepared` and `Changed`, `FileReply::Wrote` before `Changed`. `Failed` ends it at any point, and then
//! nothing is changed. The cell sends nothing before it has all of the `Content`, but `Failed`;
//! an `Abandon` that crosses the last answer is passed over.
//!
//! A change is undone by a [`Act::Restore`] with a [`Restoration`] for each [`Before`], in reverse:
//! `State` becomes `Put`, `Moved` becomes `Rename` with the names the other way round, `Same` becomes
//! `Revert`. What is
//! expected at a path is what the effects leave there, taken in order: each its print at its path,
//! and a move nothing at its old one; and `Absent` for a path that no effect names, as what was
//! below a deleted directory. All of it is held against what is there before any of it is done.

use crate::Path;
use bincode::{Decode, Encode};

/// A change to prepare. Paths are absolute.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Change {
    /// What to do.
    pub act: Act,
    /// The most bytes a file may have afterwards.
    pub most: u64,
    /// What becomes of what is there now.
    pub keep: Keep,
    /// How many bytes of unified diff to make; none if 0.
    pub diff: u32,
}

/// Whether what a change would lose is sent first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Keep {
    /// All of it, up to this many bytes and entries; more is refused.
    Sent {
        /// Contents of files, in all.
        bytes: u64,
        /// Entries.
        entries: u32,
    },
    /// It is not wanted: a trial, or a deletion for good.
    Nothing,
}

/// What a change does.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Act {
    /// Write a file; its `Content` follows.
    Write {
        /// Which.
        path: Path,
        /// What to do with what is there.
        mode: WriteMode,
    },
    /// Replace text in files.
    Edit {
        /// Each file once.
        files: Vec<FileEdits>,
    },
    /// Apply a patch; its `Content` (the text) follows.
    Patch {
        /// The directory that its paths are relative to.
        base: Path,
    },
    /// Remove a file, a link or a tree.
    Delete {
        /// Which.
        path: Path,
        /// Also directories.
        recursive: bool,
    },
    /// Give something another name.
    Move {
        /// What.
        from: Path,
        /// Its new name.
        to: Path,
        /// Whether a file that has that name may be lost.
        overwrite: bool,
    },
    /// Make a directory, and those above it.
    MakeDir {
        /// Which.
        path: Path,
    },
    /// Put back what an earlier change replaced. `Content` follows for each file, in order, the
    /// last piece of each with `end`.
    Restore {
        /// In the order in which it is to be done: the reverse of the change's own.
        entries: Vec<Restoration>,
        /// Whether it is done even where something has changed since.
        force: bool,
    },
    /// Do what a program did in its transaction. Only there, when the program has ended; any
    /// number of times until it is committed.
    Settle {
        /// What is left as it is: paths of the effects, each with all below it. Of what was moved,
        /// the old name leaves both.
        leave: Vec<Path>,
        /// What becomes of what somebody else changed as well.
        conflicts: Conflicts,
    },
    /// Take back what commits of transactions did that were cut off in this workspace. Not in a
    /// transaction. Nothing else is changed, and if there are none nothing at all.
    Resolve {
        /// The digests of changes that were begun: nothing else is taken back, since a program may
        /// have left what looks like a commit. None: it is told what seems to be cut off, and only
        /// what had not begun is cleared away.
        begun: Option<Vec<[u8; 32]>>,
    },
}

/// What a write does with what is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum WriteMode {
    /// Replace it.
    Overwrite,
    /// Add to its end.
    Append,
    /// Refuse.
    Create,
}

/// What becomes of paths that the program changed and somebody else too, meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Conflicts {
    /// The first of them fails the change.
    Refused,
    /// They are told, and what the program left there goes over what is there now.
    Told,
}

/// A path that the program changed and somebody else too, meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Conflict {
    /// Which.
    pub path: Path,
    /// What is there now, in a few words.
    pub theirs: String,
    /// What the program left, in a few words.
    pub ours: String,
}

/// Replacements in one file, one after another.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct FileEdits {
    /// Which file.
    pub path: Path,
    /// In order.
    pub edits: Vec<Replacement>,
}

/// One replacement.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Replacement {
    /// What is there; it must be there once, unless `all`.
    pub old: Vec<u8>,
    /// What is to be there.
    pub new: Vec<u8>,
    /// Wherever it is.
    pub all: bool,
}

/// What there is at a path. A file's bytes follow as `Content`.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum State {
    /// Nothing.
    Absent,
    /// A regular file.
    File {
        /// Permission bits.
        mode: u32,
        /// Bytes.
        size: u64,
        /// When its contents changed last.
        mtime: (i64, u32),
    },
    /// A directory; what is in it has entries of its own.
    Directory {
        /// Permission bits.
        mode: u32,
    },
    /// A symbolic link.
    Symlink {
        /// Where it leads.
        target: Path,
    },
    /// A FIFO, socket or device: it can be removed or moved, and not be put back.
    Other,
}

/// What is at a path before a change. For a move, where it is moved from.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Before {
    /// This is there, and will be something else.
    State {
        /// Absolute, with links resolved as the tool resolves them.
        path: Path,
        /// What is there.
        state: State,
    },
    /// It will have another name, and be the same.
    Moved {
        /// Its name now.
        from: Path,
        /// Its name then.
        to: Path,
    },
    /// It will be the same regular file, with another mode or with more at its end. No content
    /// follows.
    Same {
        /// Which.
        path: Path,
        /// What it is now.
        was: Past,
        /// SHA-256 of its contents now, if they can be read.
        digest: Option<[u8; 32]>,
    },
}

/// What a regular file was that is still the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Past {
    /// Permission bits.
    pub mode: u32,
    /// Bytes: what it has beyond them was added.
    pub size: u64,
    /// When its contents changed last.
    pub mtime: (i64, u32),
}

/// How an undone change is undone: one step.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Restoration {
    /// Make a path what it was.
    Put {
        /// Which.
        path: Path,
        /// What the change left there; anything else is a conflict.
        expect: Print,
        /// What it was. A file's bytes follow as `Content`.
        state: State,
    },
    /// Give something its old name back.
    Rename {
        /// Its name now.
        from: Path,
        /// Its old name.
        to: Path,
        /// What the change left there.
        expect: Print,
    },
    /// Make a regular file what it was, and leave it the same one.
    Revert {
        /// Which.
        path: Path,
        /// What the change left there; anything else is a conflict.
        expect: Print,
        /// What it was.
        was: Past,
    },
}

/// To know again what a change left at a path, by what it is and what is in it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Print {
    /// Nothing.
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
        /// Where it leads.
        target: Path,
    },
    /// What was moved and not written: a file too large to be read for this, or no file at all.
    Node {
        /// Device.
        dev: u64,
        /// Inode.
        ino: u64,
        /// Bytes.
        size: u64,
        /// When its contents changed last.
        mtime: (i64, u32),
    },
    /// A directory with all that is in it, as one.
    Tree {
        /// Entries in all, itself included.
        entries: u64,
        /// SHA-256 over names, kinds, modes and contents.
        digest: [u8; 32],
    },
}

/// What happens to one path.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Effect {
    /// Which: where it is afterwards, or was if it is gone.
    pub path: Path,
    /// What happens to it.
    pub kind: EffectKind,
    /// Bytes before, of a regular file.
    pub size_before: u64,
    /// Bytes afterwards, of a regular file.
    pub size_after: u64,
    /// What is there afterwards.
    pub print: Print,
    /// The file that was there before, to know whether the session itself had written it.
    pub replaces: Option<Version>,
    /// Of a directory that is gone: every regular file that went with it, if they are not too many.
    pub below: Option<Vec<Version>>,
}

/// Kinds of effects.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum EffectKind {
    /// It did not exist. A tree that is new is one effect, with a [`Print::Tree`]; its
    /// `size_after` is that of all its files.
    Created,
    /// Its contents are others: all of what it had may be gone.
    Replaced,
    /// It has more than before, and nothing less.
    Appended,
    /// A part of it is different, and the caller named what was there.
    Edited,
    /// It is gone; with everything below it, which is counted here.
    Deleted {
        /// Entries in all, itself included.
        entries: u64,
    },
    /// It has another name.
    Moved {
        /// The old one.
        from: Path,
    },
    /// Only its mode is another.
    Mode,
    /// Only its times or extended attributes are others.
    Touched,
    /// A FIFO or device that a program left in its transaction: it is told of, and not done.
    Special,
}

/// What a change will do.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Prepared {
    /// In order.
    pub effects: Vec<Effect>,
    /// Over all that will be lost and all that will be there: another digest is another change.
    pub digest: [u8; 32],
    /// A unified diff, if one was asked for.
    pub diff: String,
    /// Whether that is all of it.
    pub diff_complete: bool,
    /// What somebody else changed as well, if that is told.
    pub conflicts: Vec<Conflict>,
}

/// What a change did.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
pub struct Changed {
    /// In order.
    pub effects: Vec<Effect>,
    /// Each regular file that the change wrote, as it is now, with the path of its effect.
    pub wrote: Vec<(Path, Version)>,
    /// The digests of the changes that were cut off and are taken back now, by [`Act::Resolve`].
    pub resolved: Vec<[u8; 32]>,
    /// What else there is to say, in sentences.
    pub notes: Vec<String>,
}

/// One state of one file: device, inode, and when anything of it changed last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Encode, Decode)]
pub struct Version {
    /// Device.
    pub dev: u64,
    /// Inode.
    pub ino: u64,
    /// In seconds and nanoseconds; no program can set it.
    pub ctime: (i64, u32),
}
