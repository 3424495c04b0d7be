//! What launcher and broker say to a cell, and the cell to them.

use crate::{
    CellReceipt, Found, Layer, OverlayFacts, Path, Role, Step,
    change::{Before, Change, Changed, Effect, Prepared, Version},
    launcher::SessionNumber,
    parts::ActPart,
    record::Recorded,
    search::{Choice, Glob, Globbed, Grep, Grepped},
};
use bincode::{Decode, Encode};

/// How many file tool calls a session can have under way at once: one channel, one thread each.
pub const FILE_CHANNELS: usize = 4;

/// The most bytes of a file in one message.
pub const CHUNK: usize = 256 * 1024;

/// The argument of a cell whose launcher is the system's and not root: with its setup it takes on
/// root's uid, and none of root's capabilities that the launcher has not.
pub const BEGIN_AS_ROOT: &str = "--begin-as-root";

/// From the launcher, once. Descriptors: the channels, then what was found of hidden names, if it
/// was, then (for a runner) the session's namespaces in the order of [`Step::EnterNamespaces`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Setup {
    /// What the process is to become.
    pub role: Role,
    /// Whose it is.
    pub session: SessionNumber,
    /// What to do to itself, in order.
    pub steps: Vec<Step>,
    /// How many of the descriptors are channels.
    pub channels: u8,
    /// How many of them say what was found of hidden names: one or none.
    pub scanned: u8,
}

/// From a cell to the launcher, once.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Report {
    /// Its namespaces are made; they are the descriptors, in the order of [`Step::Namespaces`].
    /// The launcher may now make runners that enter them.
    Prepared,
    /// What a [`Role::Trial`] found.
    Tried {
        /// Each layer but the PID namespace and the limits, which are the launcher's to find.
        layers: Vec<(Layer, Found)>,
        /// 0 if there is no Landlock.
        landlock_abi: u32,
        /// The kernel's bitmask of fixed errata.
        landlock_errata: u32,
        /// Whether a file system can be laid over another, and what is under it is as it was.
        overlay: OverlayFacts,
        /// Whether the kernel's audit records can be listened for; the socket is the descriptor.
        records: Found,
        /// Whether a process can begin an audit session of its own.
        audit_session: Found,
    },
}

/// The first message of a cell on its first channel.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Ready {
    /// Confined, as the receipt says, and waiting for calls.
    Confined(Box<CellReceipt>),
    /// A step failed; the process has ended.
    Failed {
        /// Which step.
        step: String,
        /// What it was doing, and the kernel's answer.
        why: String,
        /// Whose fault it was.
        fault: Fault,
    },
}

/// What kept a cell from being confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Fault {
    /// The host, or the cell itself.
    Host,
    /// The workspace.
    Workspace,
    /// A file system whose files can not be shown as the session's own.
    Mount,
}

/// From the broker to a runner.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum RunRequest {
    /// Start a program. Descriptors: its standard input, output and error, or none where it gets a
    /// terminal. Only when none runs.
    Run(Run),
    /// Signal every process of the call.
    Signal(i32),
    /// Stop every process of the call, so that what it did until now can be settled. Only in a
    /// transaction. [`RunReply::Frozen`] is the answer, unless the program has just ended.
    Freeze,
    /// Let them go on.
    Thaw,
}

/// A program to start.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Run {
    /// The program and its arguments; never empty.
    pub argv: Vec<Vec<u8>>,
    /// All of its environment, `NAME=value` each.
    pub environment: Vec<Vec<u8>>,
    /// Where a program that is named without a slash is looked for: directories, with colons
    /// between them. Not the environment's own `PATH`, which may name what a session writes.
    pub search: Vec<u8>,
    /// Where it starts; absolute.
    pub cwd: Path,
    /// A shell line too long to be an argument. It goes to a descriptor that the program reads
    /// as `/proc/self/fd/3`.
    pub script: Option<Vec<u8>>,
    /// What its three streams are.
    pub streams: Streams,
    /// The name under which the program's Landlock domain is made, at most 15 bytes: the kernel's
    /// records of what it refuses tell it. None if there are no records to be. A runner whose program
    /// did not end with status 0 has a system call refused to itself under that name before it
    /// answers: the record of that is the last of the program's.
    pub mark: Option<Vec<u8>>,
}

/// What a program's streams are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Streams {
    /// The descriptors that came along.
    Given,
    /// A terminal of the cell's own, of this size. [`RunReply::Terminal`] comes first then.
    Terminal(Size),
}

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Size {
    /// Lines.
    pub rows: u16,
    /// Characters in a line.
    pub cols: u16,
}

/// From a runner to the broker.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum RunReply {
    /// The program could not be started.
    NotStarted {
        /// What was being done: `chdir`, `exec`.
        act: String,
        /// The kernel's answer.
        errno: i32,
    },
    /// The program ended, and every process of the call is gone.
    Ended {
        /// How.
        end: End,
        /// Where the program was when it ended, if that still exists.
        cwd: Option<Path>,
        /// Processes that outlived the program and were killed.
        stragglers: u32,
    },
    /// The program's terminal was made. Descriptor: its master side.
    Terminal,
    /// Every process of the call is stopped, and requests on the file channel are answered until
    /// they go on; or why that can not be.
    Frozen(Option<String>),
    /// What the program used; `Ended` follows. Only of a session that records.
    Recorded(Box<Recorded>),
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum End {
    /// With this status.
    Exit(i32),
    /// By this signal.
    Signal(i32),
}

/// From the broker to a cell's file channel.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum FileRequest {
    /// Read a file.
    Read {
        /// Absolute.
        path: Path,
        /// What of it.
        part: Part,
        /// The most bytes to send; more is an error that names the size.
        most: u64,
        /// What to make of them.
        form: Form,
    },
    /// A piece of a file being written.
    Content {
        /// Its bytes, at most [`CHUNK`].
        data: Vec<u8>,
        /// It was the last: put the file in place.
        end: bool,
    },
    /// Give up what is under way. A write changes nothing; a search ends. One that comes too late
    /// means nothing.
    Abandon,
    /// Prepare a change of files; [`crate::change`] says what follows.
    Change(Change),
    /// The first entries of the list of the change that follows.
    Part(ActPart),
    /// Do what was prepared.
    Commit,
    /// List a directory.
    List {
        /// Absolute.
        path: Path,
        /// Also what is below.
        recursive: bool,
        /// Entries to pass over, in sorted order.
        skip: u64,
        /// Entries at most.
        limit: u64,
        /// Which entries. Without `recursive` only its glob counts.
        choice: Choice,
    },
    /// Look at what a path leads to, and change nothing.
    Look {
        /// Absolute.
        path: Path,
        /// Whether a link at its end is what is meant.
        link: Link,
        /// How far to look into a regular file.
        contents: Contents,
    },
    /// Look for files by their names.
    Glob(Box<Glob>),
    /// Look for lines in files.
    Grep(Box<Grep>),
    /// Find the names in the workspace that are hidden. Descriptor: what an earlier session kept
    /// of this, if there is any.
    Scan {
        /// Whether what there is to keep for a later session is wanted.
        keep: bool,
    },
}

/// How far to look into a regular file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Contents {
    /// Not at all.
    Closed,
    /// All of it for the digest, up to [`LOOK_BYTES`], and this many of its first bytes to send, at
    /// most [`CHUNK`].
    Read {
        /// How many.
        head: u32,
    },
}

/// What a symbolic link at the end of a path stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Link {
    /// What it leads to.
    Target,
    /// Itself.
    Itself,
}

/// The most bytes of a file that [`FileRequest::Look`] reads for its digest.
pub const LOOK_BYTES: u64 = 10 * 1024 * 1024;

/// What of a file to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Part {
    /// All of it.
    All,
    /// Lines, the first being 1.
    Lines {
        /// The first.
        first: u64,
        /// How many.
        count: u64,
    },
    /// Bytes, the first being 0.
    Bytes {
        /// The first.
        first: u64,
        /// How many.
        count: u64,
    },
}

/// What to make of a file's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Form {
    /// Themselves.
    AsIs,
    /// The text of a notebook's cells, if it is one.
    Notebook,
}

/// What was made of a file's bytes.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Made {
    /// Nothing: they are its own.
    AsIs,
    /// The text of a notebook's cells.
    Notebook {
        /// How many there are.
        cells: u64,
    },
    /// Nothing, since it is no notebook.
    NoNotebook {
        /// What is wrong with it.
        why: String,
    },
}

/// From a cell's file channel to the broker.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum FileReply {
    /// A piece of a file being read; `Read` follows the last.
    Content(Vec<u8>),
    /// The file was read.
    Read {
        /// Bytes sent.
        bytes: u64,
        /// The file's size when it was opened.
        size: u64,
        /// Whether everything asked for was sent.
        complete: bool,
        /// Mode bits.
        mode: u32,
        /// What was made of its bytes.
        made: Made,
    },
    /// What a change would replace; a file's `Content` follows, exactly as many bytes as it has.
    Before(Before),
    /// The first effects of the `Prepared` or `Changed` that follows.
    Effects(Vec<Effect>),
    /// The first files of the `Changed` that follows.
    Wrote(Vec<(Path, Version)>),
    /// What a change will do, if it is committed.
    Prepared(Prepared),
    /// The change was done.
    Changed(Changed),
    /// A directory was listed.
    Listed {
        /// Where the directory really is, links resolved.
        real: Path,
        /// Sorted by path.
        entries: Vec<Entry>,
        /// How many there are in all, as far as they were counted.
        total: u64,
        /// There are more than were counted.
        more: bool,
    },
    /// Something is there, or nothing.
    Looked {
        /// The path with links resolved, as far as it exists.
        real: Path,
        /// What is there.
        found: Option<Box<Looked>>,
    },
    /// What was under way was given up.
    Abandoned,
    /// It could not be done, and nothing was changed.
    Failed(FileError),
    /// How far it is; the answer follows.
    Progress {
        /// Entries that were looked at.
        done: u64,
    },
    /// Files were looked for.
    Globbed(Box<Globbed>),
    /// Lines were looked for.
    Grepped(Box<Grepped>),
    /// Hidden names were looked for. Descriptors: which were found, and if it was asked for, what
    /// there is to keep. Only a cell of the same workspace and names can make use of either.
    Scanned {
        /// How many are there now.
        found: u64,
        /// Directories that had to be read.
        read: u64,
        /// The same number as before if the same is hidden, and nothing else changed around it.
        generation: u64,
    },
}

/// What is at a path: enough to notice that it is something else later.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Looked {
    /// What it is.
    pub kind: EntryKind,
    /// Device.
    pub dev: u64,
    /// Inode.
    pub ino: u64,
    /// Bytes.
    pub size: u64,
    /// When its contents changed last, in seconds and nanoseconds.
    pub mtime: (i64, u32),
    /// When anything of it changed last, in seconds and nanoseconds.
    pub ctime: (i64, u32),
    /// SHA-256 of a regular file that can be read and is not over [`LOOK_BYTES`].
    pub digest: Option<[u8; 32]>,
    /// Its first bytes.
    pub head: Vec<u8>,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Entry {
    /// Relative to the directory that was listed.
    pub path: Path,
    /// What it is.
    pub kind: EntryKind,
    /// Bytes, of a regular file.
    pub size: u64,
}

/// What an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum EntryKind {
    /// A regular file.
    File,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A FIFO, socket or device.
    Other,
}

/// Why a file tool could not do it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct FileError {
    /// For programs.
    pub kind: FileErrorKind,
    /// The kernel's answer, 0 if it was not asked.
    pub errno: i32,
    /// What happened and why, in one sentence.
    pub message: String,
    /// The name that is hidden or protected, for those kinds.
    pub about: Option<Path>,
}

/// Kinds of file tool failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum FileErrorKind {
    /// Nothing there.
    NotFound,
    /// The kernel refused it, or it leads outside.
    OutsidePolicy,
    /// A directory, FIFO, socket or device.
    NotRegular,
    /// Larger than allowed.
    TooLarge,
    /// It exists.
    AlreadyExists,
    /// The request makes no sense (a NUL byte, an empty path, the workspace itself).
    Invalid,
    /// The file system's own reasons.
    FileSystem,
    /// What was to be replaced, or the lines around it, is not there.
    NoMatch,
    /// What is there is not what it was about: it changed since.
    Conflict,
    /// The channel is of no more use.
    Broken,
    /// It has a name that the profile hides: nothing can be made there.
    Hidden,
    /// It has a name that the profile protects.
    Protected,
}
