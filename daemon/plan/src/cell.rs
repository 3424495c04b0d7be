//! Messages between a cell and the launcher or the broker.

use crate::{
    CellReceipt, Found, Layer, OverlayFacts, Path, Role, Step,
    change::{Attribute, Before, Change, Changed, Effect, Prepared, Version},
    evidence::Evidence,
    launcher::SessionNumber,
    parts::ActPart,
    record::Recorded,
    search::{Choice, Glob, GlobResult, Grep, GrepResult},
};
use bincode::{Decode, Encode};

/// The number of concurrent file tool calls of a session: one channel and one thread each.
pub const FILE_CHANNELS: usize = 4;

/// Most directories of noise on which a watching program has overlays.
pub const MOST_NOISE: usize = 32;

/// Most bytes of a file in one message.
pub const CHUNK: usize = 256 * 1024;

/// The argument for a cell whose launcher is the system's but does not run as root. When the cell
/// gets its setup it switches to root's uid, without any capability that the launcher does not
/// have.
pub const BEGIN_AS_ROOT: &str = "--begin-as-root";

/// The launcher's only message to a cell. Descriptors: the channels; then the results of a search
/// for hidden names, if there are any; then, for a runner, the session's namespaces in the order of
/// [`Step::EnterNamespaces`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Setup {
    /// The role of the process.
    pub role: Role,
    /// The session that the process belongs to.
    pub session: SessionNumber,
    /// The steps to run, in order.
    pub steps: Vec<Step>,
    /// The number of descriptors that are channels.
    pub channels: u8,
    /// The number of descriptors that are results of a search for hidden names: one or none.
    pub scanned: u8,
}

/// The first message of a cell to the launcher, and the only one that is not an [`OverlayMode`].
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Report {
    /// The namespaces are created. They are the descriptors, in the order of [`Step::Namespaces`].
    /// The launcher may now create runners that enter them.
    Prepared,
    /// The overlays of a transaction are mounted. They are the descriptors. Sent while the process
    /// still has the privilege to mount.
    Overlays,
    /// The findings of a [`Role::Trial`].
    Tried {
        /// Each layer except the PID namespace and the limits, which the launcher determines.
        layers: Vec<(Layer, Found)>,
        /// The kernel's Landlock ABI; 0 if Landlock is unavailable.
        landlock_abi: u32,
        /// The kernel's bitmask of Landlock errata that are fixed.
        landlock_errata: u32,
        /// The availability of overlays that leave the file system below them unchanged.
        overlay: OverlayFacts,
        /// The availability of the kernel's audit records; if yes, the descriptor is the socket.
        records: Found,
        /// The ability of a process to start its own audit session.
        audit_session: Found,
    },
}

/// How the overlays of a transaction can be used. To the launcher it is a request to make them so,
/// and the answer is an [`OverlayReply`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum OverlayMode {
    /// Nobody can change anything in them, not even by a descriptor that was opened before.
    ReadOnly,
    /// Programs can write.
    Writable,
}

/// The launcher's answer to a request for an [`OverlayMode`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct OverlayReply {
    /// The kernel's error number if the overlays could not be changed. `EBUSY` means that a file in
    /// them is open for writing.
    pub done: Result<(), i32>,
}

/// The first message of a cell on its first channel.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Ready {
    /// The cell is confined as the receipt says, and waits for calls. Descriptors: the listeners of
    /// a session with [`crate::Network::Domains`], in the order of [`crate::listeners::listeners`].
    Confined(Box<CellReceipt>),
    /// A step failed; the process has ended.
    Failed {
        /// The name of the step.
        step: String,
        /// The operation that failed, and the kernel's answer.
        why: String,
        /// The cause of the failure.
        fault: Fault,
    },
}

/// The cause of a failure to confine a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Fault {
    /// The host, or the cell itself.
    Host,
    /// The workspace.
    Workspace,
    /// A file system whose files can not be mapped to the session's user.
    Mount,
}

/// A request of the broker to a runner.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum RunRequest {
    /// Start a program. Valid only while no program runs. [`RunReply::Streams`] follows first. A
    /// descriptor, if one comes, replaces the standard input that the runner would make.
    Run(Run),
    /// Start a shell ahead of the call that needs it. Ignored while a program runs, and where there
    /// can be none. There is no reply.
    Prepare(PrepareShell),
    /// Send a signal to every process of the call.
    Signal(i32),
    /// Stop every process of the call, so that its changes up to now can be committed. Valid only
    /// in a transaction. The answer is [`RunReply::Frozen`], unless the program has just ended.
    Freeze {
        /// True if the call may have passed files to programs that are not stopped.
        may_share: bool,
    },
    /// Let the stopped processes continue.
    Thaw,
}

/// A program to start.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Run {
    /// The program and its arguments; never empty.
    pub argv: Vec<Vec<u8>>,
    /// The complete environment, as `NAME=value`.
    pub environment: Vec<Vec<u8>>,
    /// Directories, separated by colons, in which a program named without a slash is looked up. The
    /// environment's own `PATH` is not used, since it may name directories that the session can
    /// write.
    pub search: Vec<u8>,
    /// The working directory, as an absolute path.
    pub cwd: Path,
    /// A shell line that is too long for an argument. The program reads it from the descriptor
    /// `/proc/self/fd/3`.
    pub script: Option<Vec<u8>>,
    /// The program's standard streams.
    pub streams: Streams,
    /// The name, at most 15 bytes, under which the program's Landlock domain is created; the
    /// kernel's records of denials contain it. `None` if there are no records.
    ///
    /// If the program did not exit with status 0, the runner itself makes a system call under that
    /// name that is denied, before it answers. The record of that denial is the last one for the
    /// program.
    pub mark: Option<Vec<u8>>,
}

/// A shell to start ahead of a call. It serves a call that starts the same program with `-c` and one
/// line, with the same search path and the same mark.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct PrepareShell {
    /// The shell, as [`Run::argv`] would name it.
    pub program: Vec<u8>,
    /// The search path, as in [`Run::search`].
    pub search: Vec<u8>,
    /// The name of its Landlock domain, as in [`Run::mark`].
    pub mark: Option<Vec<u8>>,
}

/// The standard streams of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Streams {
    /// New pipes that belong to the session's user, at least for standard output and error.
    Pipes(Stdin),
    /// A new terminal of this size inside the cell.
    Terminal(Size),
}

/// The standard input of a program without a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Stdin {
    /// The cell's `/dev/null`.
    Null,
    /// A pipe.
    Pipe,
}

/// The size of a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub struct Size {
    /// Number of lines.
    pub rows: u16,
    /// Number of characters in a line.
    pub cols: u16,
}

/// A reply of a runner to the broker.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum RunReply {
    /// The program could not be started.
    NotStarted {
        /// The operation that failed: `chdir`, `exec`.
        act: String,
        /// The kernel's error number.
        errno: i32,
    },
    /// The program ended, and every process of the call is gone.
    Ended {
        /// The end of the program.
        end: End,
        /// The program's working directory when it ended, if that still exists.
        cwd: Option<Path>,
        /// The number of processes that outlived the program and were killed.
        stragglers: u32,
    },
    /// The program's streams were created. Descriptors: the master side of its terminal; or the other
    /// ends of standard output, of standard error and, if that is a pipe, of standard input.
    Streams {
        /// True if, as far as is known, shells can be started ahead of calls here.
        spares: bool,
    },
    /// Every process of the call is stopped, and requests on the file channel are answered until
    /// they continue. Otherwise, the reason why they can not be stopped.
    Frozen(Option<String>),
    /// The resources and paths that the program used; `Ended` follows. Sent only in a session that
    /// records.
    Recorded(Box<Recorded>),
}

/// The end of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum End {
    /// The program exited with this status.
    Exit(i32),
    /// The program was killed by this signal.
    Signal(i32),
}

/// A request of the broker on a cell's file channel.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum FileRequest {
    /// Read a file.
    Read {
        /// The absolute path.
        path: Path,
        /// The part of the file to read.
        part: Part,
        /// Most bytes to send. A larger file is an error that names the size.
        most: u64,
        /// The conversion of the bytes.
        form: Form,
    },
    /// A piece of a file being written.
    Content {
        /// The bytes of the piece, at most [`CHUNK`].
        data: Vec<u8>,
        /// True if this is the last piece, so that the file can be put in place.
        end: bool,
    },
    /// Abandon the current operation. A write changes nothing; a search ends. A request that comes
    /// too late is ignored.
    Abandon,
    /// Prepare a change of files; see [`crate::change`] for the messages that follow.
    Change(Change),
    /// The first entries of the list that belongs to the change that follows.
    Part(ActPart),
    /// Commit the change that was prepared.
    Commit,
    /// List a directory.
    List {
        /// The absolute path.
        path: Path,
        /// True to list everything below it too.
        recursive: bool,
        /// The number of entries to skip, in sorted order.
        skip: u64,
        /// Most entries to return.
        limit: u64,
        /// The selection of entries. Without `recursive` only its glob is used.
        choice: Choice,
    },
    /// Inspect what a path leads to, without changing anything.
    Look {
        /// The absolute path.
        path: Path,
        /// The treatment of a symbolic link at the end of the path.
        link: Link,
        /// The part of a regular file to read.
        contents: Contents,
    },
    /// Find files by name.
    Glob(Box<Glob>),
    /// Find lines in files.
    Grep(Box<Grep>),
    /// Find the directories of noise in the workspace that a watching program may write: those that
    /// exist, are reached without links, and contain nothing that git tracks.
    Noise {
        /// The patterns of the profile.
        patterns: Vec<String>,
    },
    /// Find the hidden names in the workspace. Descriptor: the stored result of an earlier session,
    /// if there is one.
    Scan {
        /// True if the reply should include a result to store for a later session.
        keep: bool,
    },
}

/// The part of a regular file to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Contents {
    /// Nothing.
    Closed,
    /// All of it for the digest, up to [`LOOK_BYTES`]. At most [`CHUNK`] of its first bytes are
    /// returned.
    Read {
        /// The number of first bytes to return.
        head: u32,
    },
}

/// The treatment of a symbolic link at the end of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Link {
    /// Follow it.
    Target,
    /// Inspect the link itself.
    Itself,
}

/// Most bytes of a file that [`FileRequest::Look`] reads for its digest.
pub const LOOK_BYTES: u64 = 10 * 1024 * 1024;

/// The part of a file to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Part {
    /// The whole file.
    All,
    /// A range of lines, counted from 1.
    Lines {
        /// The first line.
        first: u64,
        /// The number of lines.
        count: u64,
    },
    /// A range of bytes, counted from 0.
    Bytes {
        /// The first byte.
        first: u64,
        /// The number of bytes.
        count: u64,
    },
}

/// The requested conversion of a file's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Form {
    /// Not at all.
    AsIs,
    /// Extract the text of a notebook's cells, if the file is a notebook.
    Notebook,
}

/// The conversion that was made of a file's bytes.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum Conversion {
    /// Not at all: they are the file's own.
    AsIs,
    /// To the text of a notebook's cells.
    Notebook {
        /// The number of cells of the notebook.
        cells: u64,
    },
    /// Not at all, because the file is not a notebook.
    NoNotebook {
        /// The reason that it is not a notebook.
        why: String,
    },
}

/// A reply of a cell's file channel to the broker.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub enum FileReply {
    /// A piece of a file being read; `Read` follows the last.
    Content(Vec<u8>),
    /// The file was read completely or up to the limit.
    Read {
        /// The number of bytes that were sent.
        bytes: u64,
        /// The file's size when it was opened.
        size: u64,
        /// True if everything asked for was sent.
        complete: bool,
        /// Permission bits.
        mode: u32,
        /// The conversion that was made of the bytes.
        made: Conversion,
    },
    /// The present state of a path that a change would replace. A file's `Content` follows, with
    /// exactly as many bytes as it has.
    Before(Before),
    /// The extended attributes of the file of the last `Before`, if it has some. Its `Content`
    /// follows.
    Attributes(Vec<Attribute>),
    /// The first effects of the `Prepared` or `Changed` that follows.
    Effects(Vec<Effect>),
    /// The first files of the `Changed` that follows.
    Wrote(Vec<(Path, Version)>),
    /// A part of the evidence about the change whose `Prepared` follows.
    Evidence(Box<Evidence>),
    /// The effects that a change will have if it is committed.
    Prepared(Prepared),
    /// The change was committed.
    Changed(Changed),
    /// A directory was listed.
    Listed {
        /// The real path of the directory, with links resolved.
        real: Path,
        /// The entries, sorted by path.
        entries: Vec<Entry>,
        /// The number of entries in all, as far as they were counted.
        total: u64,
        /// True if there are more entries than were counted.
        more: bool,
    },
    /// The result of inspecting a path.
    Looked {
        /// The path with links resolved, as far as it exists.
        real: Path,
        /// The entry at the path; `None` if the path does not exist.
        found: Option<Box<EntryDetails>>,
    },
    /// The current operation was abandoned.
    Abandoned,
    /// The operation failed, and nothing was changed.
    Failed(FileError),
    /// Progress of the operation; the answer follows.
    Progress {
        /// The number of entries that were examined so far.
        done: u64,
    },
    /// The result of a search for files.
    Globbed(Box<GlobResult>),
    /// The result of a search for lines.
    Grepped(Box<GrepResult>),
    /// The directories of noise, relative to the workspace; at most [`MOST_NOISE`].
    Noise(Vec<Path>),
    /// The result of a search for hidden names. Descriptors: the names found and, if it was asked
    /// for, a result to store. Only a cell with the same workspace and names can use either.
    Scanned {
        /// The number of hidden names that exist now.
        found: u64,
        /// The number of directories that had to be read.
        read: u64,
        /// A number that stays the same if the same names are hidden and nothing else changed
        /// around them.
        generation: u64,
    },
}

/// The entry at a path, in enough detail to notice later that it has changed.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct EntryDetails {
    /// The type of the entry.
    pub kind: EntryKind,
    /// The device number.
    pub dev: u64,
    /// The inode number.
    pub ino: u64,
    /// The permission bits, set-user-ID and sticky bits included.
    pub mode: u32,
    /// The number of names (hard links).
    pub links: u64,
    /// The owner's user id and group id.
    pub owner: (u32, u32),
    /// The target of a symbolic link, as the link says it.
    pub target: Option<Path>,
    /// Size in bytes.
    pub size: u64,
    /// Modification time, in seconds and nanoseconds.
    pub mtime: (i64, u32),
    /// Change time, in seconds and nanoseconds.
    pub ctime: (i64, u32),
    /// SHA-256 of a regular file that can be read and is not larger than [`LOOK_BYTES`].
    pub digest: Option<[u8; 32]>,
    /// The first bytes of the file.
    pub head: Vec<u8>,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Entry {
    /// The path relative to the directory that was listed.
    pub path: Path,
    /// The type of the entry.
    pub kind: EntryKind,
    /// Size in bytes, of a regular file.
    pub size: u64,
    /// The target of a symbolic link, as the link says it.
    pub target: Option<Path>,
}

/// The type of an entry.
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

/// The failure of a file tool.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct FileError {
    /// The kind of failure, for programs.
    pub kind: FileErrorKind,
    /// The kernel's error number; 0 if the failure is not the kernel's.
    pub errno: i32,
    /// The message: what happened and why, in one sentence.
    pub message: String,
    /// The name that is hidden or protected, for those kinds of failure.
    pub about: Option<Path>,
    /// The diff that undoing would make, for a conflict of an undo. The message contains it too.
    pub diff: Option<String>,
}

/// Kinds of file tool failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum FileErrorKind {
    /// The path does not exist.
    NotFound,
    /// The kernel denied access, or the path leads outside.
    OutsidePolicy,
    /// The path is a directory, FIFO, socket or device.
    NotRegular,
    /// The file is larger than allowed.
    TooLarge,
    /// The path already exists.
    AlreadyExists,
    /// The request makes no sense (a NUL byte, an empty path, the workspace itself).
    Invalid,
    /// Any other error of the file system.
    FileSystem,
    /// The text to replace, or the lines around it, was not found.
    NoMatch,
    /// The path has changed since the request was made for it.
    Conflict,
    /// A commit in the workspace was interrupted and is not rolled back yet.
    InterruptedCommit,
    /// The channel can no longer be used.
    Broken,
    /// The profile hides the name, so nothing can be created there.
    Hidden,
    /// The profile protects the name.
    Protected,
    /// The file's own mode does not let the session read it.
    Unreadable,
    /// A file of the transaction is still open for writing, or may be.
    StillOpen,
}
