//! Builds the session's root: the part of the file system that it sees. Runs in the cell, while it
//! has privilege.

use crate::{
    accounts::Accounts,
    borrowed::{self, BorrowedIdentity},
    certificates,
    failure::StepFailure,
    fixed,
    kernel::{self, Recursive},
    mapping,
    mounts::{self, NO_DEV, NO_EXEC, NO_SUID, READ_ONLY},
    outer_repository, own_mounts, tree_place, worktree,
};
use palisade_plan::{
    Access, Bind, DEVICES, Identity, MissingPath, NameServers, ProcView, RESOLV_CONF, Root, Tmpfs,
    TreePlace, authority::TRUSTED_CERTIFICATES, ceiling,
};
use palisade_workspace::{MainRepository, OuterRepository};
use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags},
    io::Errno,
    mount::UnmountFlags,
};
use std::{
    collections::BTreeSet,
    io::{self, Write as _},
    os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd},
    path::{Path, PathBuf},
};

/// The links in `/dev` that every program may expect.
const DEVICE_LINKS: [(&str, &str); 5] = [
    ("ptmx", "pts/ptmx"),
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];

/// An entry to place in the new root.
pub(crate) enum RootEntry {
    Directory(OwnedFd),
    File(OwnedFd),
    Link(PathBuf),
    /// A file in the root's own file system, with this content.
    Text(Vec<u8>),
    /// A directory that can not be renamed or deleted, because it is a bind mount of itself.
    Pinned,
}

/// The entries of the new root, by path.
type RootEntries = Vec<(PathBuf, RootEntry)>;

/// The maximum size of the root's own file system: directories, and the session's account files.
const ROOT_BYTES: &str = "64m";

/// The `/etc/resolv.conf` of a session with its own name server.
const OWN_NAME_SERVER: &[u8] = b"nameserver 127.0.0.1\n";

/// The directories of the host that the session's commits change, and the repository around them.
pub(crate) struct CommitTargets {
    /// The main repository, if the workspace is a linked worktree of git.
    pub(crate) main: Option<MainRepository>,
    /// The places of the workspace and of the main repository.
    pub(crate) trees: Vec<TreePlace>,
    /// The repository in whose working tree the workspace is a directory.
    pub(crate) outer: Option<OuterRepository>,
}

/// Builds the session's root and switches to it. If the session has a uid of its own, `users` maps
/// the files that it owns where it may write.
pub(crate) fn make(
    root: &Root,
    users: Option<BorrowedFd<'_>>,
) -> Result<CommitTargets, StepFailure> {
    if root.runs.is_throwaway() != users.is_some() {
        return Err(StepFailure::Setup("nothing says whose files are the session's".into()));
    }
    let own = root.runs.own;
    let (mut pieces, targets) = resolve_all(root, users)?;
    if let Some(main) = &targets.main {
        pieces.push((worktree::RECORD.into(), RootEntry::Text(main.record())));
    }
    if let Some(outer) = &targets.outer {
        pieces.extend(outer_repository::entries(outer)?);
    }
    if let Some(authority) = &root.authority {
        let text = certificates::trusted(authority)?;
        pieces.push((TRUSTED_CERTIFICATES.into(), RootEntry::Text(text)));
    }
    if root.name_servers == NameServers::Session {
        pieces.push((RESOLV_CONF.into(), RootEntry::Text(OWN_NAME_SERVER.to_vec())));
    }
    for tmpfs in &root.tmpfs {
        pieces.push((tmpfs.path.as_path().to_owned(), RootEntry::Directory(private(tmpfs, own)?)));
    }
    fixed::add(root, &mut pieces)?;
    pieces.push(("/dev".into(), RootEntry::Directory(dev()?)));
    pieces.push(("/proc".into(), RootEntry::Directory(proc(root.proc)?)));
    // Paths nearer to the root go first, so that no mount hides another one below it.
    pieces.sort_by_key(|(path, _)| path.components().count());

    let options = [("mode", "0755".into()), ("size", ROOT_BYTES.into())];
    let new = mounts::new("tmpfs", &options, NO_SUID | NO_DEV)
        .map_err(StepFailure::kernel("new root"))?;
    let here = rustix::fs::open("/", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .map_err(StepFailure::kernel("open /"))?;
    mounts::attach(new.as_fd(), here.as_fd(), Path::new(""))
        .map_err(StepFailure::kernel("attach new root"))?;
    let mut placed = BTreeSet::new();
    for (path, piece) in &pieces {
        // Where no other piece is at or above a path, only this process can write: that is the new
        // root's own file system.
        let owner = path.ancestors().any(|above| placed.contains(above)).then_some(own);
        place(new.as_fd(), path, piece, owner)
            .map_err(StepFailure::kernel(format!("place {}", path.display())))?;
        placed.insert(path.as_path());
    }
    if root.authority.is_some() {
        certificates::cover(new.as_fd())?;
    }
    make_dev(new.as_fd())?;
    pivot(&new)?;
    own_mounts::hide_keys()?;
    if users.is_some() {
        mapping::check(&root.workspace.path)?;
    }
    Ok(targets)
}

/// Resolves every bind with the rights of the session's peer, so that nobody gets a path that they
/// could not reach themselves.
fn resolve_all(
    root: &Root,
    users: Option<BorrowedFd<'_>>,
) -> Result<(RootEntries, CommitTargets), StepFailure> {
    let borrowed = BorrowedIdentity::take_for_lookup(root.runs.peer)?;
    let mut pieces = Vec::with_capacity(root.binds.len() + 8);
    let own =
        |bind: &&Bind| root.name_servers == NameServers::Session && bind.path == RESOLV_CONF.into();
    let binds = root.binds.iter().filter(|bind| !own(bind));
    let binds = binds.map(|bind| (bind, resolve(bind, root, users)));
    let sockets = root.sockets.iter().map(|socket| (socket, resolve_socket(socket)));
    for (bind, resolved) in binds.chain(sockets) {
        match resolved {
            Ok(piece) => pieces.push((bind.path.as_path().to_owned(), piece)),
            Err(StepFailure::Kernel { source, .. })
                if skipped(&source) && bind.missing == MissingPath::Skip => {}
            Err(failure) => return Err(failure),
        }
    }
    let (workspace, tree) = resolve_workspace(root, users)?;
    pieces.push((root.workspace.path.as_path().to_owned(), RootEntry::Directory(workspace)));
    let mut trees = vec![tree];
    let main = match worktree::find(&root.workspace.path, root.runs.peer)? {
        Some((main, common)) if may_mount(&main, root) => {
            trees.push(tree_place::of(&common));
            let mount = mount_repository(&main, &common, root, users)?;
            pieces.push((main.path.as_path().to_owned(), RootEntry::Directory(mount)));
            Some(main)
        }
        Some(_) | None => None,
    };
    let outer = outer_repository::find(&root.workspace.path);
    borrowed.give_back()?;
    Ok((pieces, CommitTargets { main, trees, outer }))
}

/// Returns `true` if no other mount of the session is at or below the directory of a repository.
fn may_mount(main: &MainRepository, root: &Root) -> bool {
    let binds = root.binds.iter().chain(&root.sockets).map(|bind| &bind.path);
    let mut all = binds.chain(root.tmpfs.iter().map(|tmpfs| &tmpfs.path)).chain(&root.empty);
    !all.any(|path| path.as_path().starts_with(main.path.as_path()))
}

/// Copies the mount of a linked worktree's main repository, with the workspace's own access.
fn mount_repository(
    main: &MainRepository,
    common: &OwnedFd,
    root: &Root,
    users: Option<BorrowedFd<'_>>,
) -> Result<OwnedFd, StepFailure> {
    let bind = Bind { path: main.path.clone(), ..root.workspace.clone() };
    let attributes = attributes(&bind, root) | NO_EXEC;
    match users {
        Some(users) => mapped(&bind, common, attributes, users),
        None => mounts::copy(common.as_fd(), attributes)
            .map_err(StepFailure::kernel(format!("bind {:?}", bind.path))),
    }
}

/// Returns `true` if the error says that a path is missing, or out of reach for this identity. For
/// the session that is the same.
pub(crate) fn skipped(error: &std::io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR | libc::EACCES))
}

fn attributes(bind: &Bind, root: &Root) -> u64 {
    let always = NO_SUID | NO_DEV;
    match bind.access {
        Access::Write => always,
        Access::Execute | Access::Device => always | READ_ONLY,
        Access::List | Access::Read if is_below_executable(bind, root) => {
            always | READ_ONLY | NO_EXEC
        }
        Access::List | Access::Read => always | READ_ONLY,
    }
}

/// Returns `true` if a bind lies below a directory whose programs may run, such as the private
/// home. Landlock's rule for that directory also covers the mounts below it, so the mount itself
/// must deny execution. Elsewhere Landlock denies it, and leaves a record. Binds in the workspace
/// are exempt: its programs run, whether or not that part of it may be written.
fn is_below_executable(bind: &Bind, root: &Root) -> bool {
    let is_below = |above: &palisade_plan::Path| {
        *above != bind.path && bind.path.as_path().starts_with(above.as_path())
    };
    let runs =
        root.binds.iter().filter(|other| matches!(other.access, Access::Write | Access::Execute));
    let private = root.tmpfs.iter().map(|tmpfs| &tmpfs.path);
    !is_below(&root.workspace.path) && runs.map(|other| &other.path).chain(private).any(is_below)
}

fn resolve(
    bind: &Bind,
    root: &Root,
    users: Option<BorrowedFd<'_>>,
) -> Result<RootEntry, StepFailure> {
    let act = || StepFailure::kernel(format!("bind {:?}", bind.path));
    let fd = mounts::resolve(bind.path.as_path()).map_err(act())?;
    let stat = rustix::fs::fstat(&fd).map_err(act())?;
    let accounts = Accounts::at(bind.path.as_path()).filter(|_| users.is_some());
    Ok(match (FileType::from_raw_mode(stat.st_mode), accounts) {
        (FileType::Symlink, _) => {
            let target = rustix::fs::readlinkat(&fd, "", Vec::new()).map_err(act())?;
            RootEntry::Link(palisade_plan::Path(target.into_bytes()).as_path().to_owned())
        }
        (FileType::Directory, _) => {
            check_resolved(bind, &fd)?;
            RootEntry::Directory(copy(bind, &fd, root, users)?)
        }
        (FileType::RegularFile, Some(accounts)) => {
            let host = std::fs::read(bind.path.as_path())
                .map_err(StepFailure::kernel(format!("read {:?}", bind.path)))?;
            RootEntry::Text(accounts.of_session(&host, &root.runs))
        }
        (
            FileType::RegularFile
            | FileType::Fifo
            | FileType::Socket
            | FileType::CharacterDevice
            | FileType::BlockDevice
            | FileType::Unknown,
            _,
        ) => {
            check_resolved(bind, &fd)?;
            RootEntry::File(copy(bind, &fd, root, users)?)
        }
    })
}

/// Resolves a Unix socket of the host. A mount of its own shows it, and nothing beside it. Whether
/// the session may connect is decided by the socket's mode, when it does.
fn resolve_socket(bind: &Bind) -> Result<RootEntry, StepFailure> {
    let act = || StepFailure::kernel(format!("find the socket {:?}", bind.path));
    let fd = mounts::resolve(bind.path.as_path()).map_err(act())?;
    let stat = rustix::fs::fstat(&fd).map_err(act())?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::Socket {
        return Err(StepFailure::Setup(format!(
            "{:?} of net.host.sockets is not a socket; name the socket itself, not a directory or a \
             link",
            bind.path
        )));
    }
    check_resolved(bind, &fd)?;
    let attributes = NO_SUID | NO_DEV | NO_EXEC | READ_ONLY;
    let copy = mounts::copy(fd.as_fd(), attributes);
    let failed = StepFailure::kernel(format!("mount the socket {:?}", bind.path));
    copy.map(RootEntry::File).map_err(failed)
}

/// Checks where a bind really leads. The launcher has checked the text of its path, in which a link
/// may stand for any other directory.
fn check_resolved(bind: &Bind, fd: &OwnedFd) -> Result<(), StepFailure> {
    let real = std::fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd()))
        .map_err(StepFailure::kernel(format!("find where {:?} leads", bind.path)))?;
    if real == bind.path.as_path() {
        return Ok(());
    }
    ceiling::check_resolved(&real, bind.access)
        .map_err(|error| StepFailure::Setup(format!("{:?} leads elsewhere: {error}", bind.path)))
}

/// Copies the mounts of a bind. If the session may write there, its files show as owned by the
/// session; otherwise ownership is unchanged.
fn copy(
    bind: &Bind,
    fd: &OwnedFd,
    root: &Root,
    users: Option<BorrowedFd<'_>>,
) -> Result<OwnedFd, StepFailure> {
    let attributes = attributes(bind, root);
    match users.filter(|_| bind.access == Access::Write) {
        Some(users) => mapped(bind, fd, attributes, users),
        None => mounts::copy(fd.as_fd(), attributes)
            .map_err(StepFailure::kernel(format!("bind {:?}", bind.path))),
    }
}

fn mapped(
    bind: &Bind,
    fd: &OwnedFd,
    attributes: u64,
    users: BorrowedFd<'_>,
) -> Result<OwnedFd, StepFailure> {
    mounts::copy_mapped(fd.as_fd(), attributes, users)
        .map_err(|error| mapping::mapping_failure(&bind.path, users, &error))
}

/// Resolves the workspace, which must be named by its real path. A link in the path would give one
/// place two names, and only one of them would exist in the root.
fn resolve_workspace(
    root: &Root,
    users: Option<BorrowedFd<'_>>,
) -> Result<(OwnedFd, TreePlace), StepFailure> {
    let bind = &root.workspace;
    let fd = find_workspace(bind)?;
    let attributes = attributes(bind, root);
    let mount = match users {
        // The workspace is mapped even if it is read-only.
        Some(users) => mapped(bind, &fd, attributes, users),
        None => mounts::copy(fd.as_fd(), attributes)
            .map_err(|error| refuse_workspace(bind, error.to_string())),
    }?;
    Ok((mount, tree_place::of(&fd)))
}

fn refuse_workspace(bind: &Bind, why: String) -> StepFailure {
    StepFailure::Workspace { path: bind.path.clone(), why }
}

/// Opens the workspace's directory, with the rights of the session's user.
pub(crate) fn find_workspace(bind: &Bind) -> Result<OwnedFd, StepFailure> {
    mounts::resolve_without_links(bind.path.as_path()).map_err(|error| {
        let why = match error {
            Errno::LOOP => "a component of the path is a symbolic link; give the real path".into(),
            Errno::NOENT => "it does not exist".into(),
            Errno::NOTDIR => "it is not a directory".into(),
            Errno::ACCESS => "the session's user may not enter it".into(),
            other => other.to_string(),
        };
        refuse_workspace(bind, why)
    })
}

fn private(tmpfs: &Tmpfs, identity: Identity) -> Result<OwnedFd, StepFailure> {
    let options = [
        ("size", tmpfs.bytes.to_string()),
        // An inode costs about a kilobyte of kernel memory that `size` does not count.
        ("nr_inodes", (tmpfs.bytes / 4096).clamp(1024, 1_000_000).to_string()),
        ("mode", format!("{:o}", tmpfs.mode)),
        ("uid", identity.uid.to_string()),
        ("gid", identity.gid.to_string()),
    ];
    mounts::new("tmpfs", &options, NO_SUID | NO_DEV)
        .map_err(StepFailure::kernel(format!("private {:?}", tmpfs.path)))
}

fn dev() -> Result<OwnedFd, StepFailure> {
    mounts::new("tmpfs", &[("mode", "0755".into()), ("size", "64k".into())], NO_SUID | NO_EXEC)
        .map_err(StepFailure::kernel("private /dev"))
}

/// Mounts `/proc` read-only. No ordinary program needs to write there, and files in `/proc/sys`
/// that root owns require no capability.
pub(crate) fn proc(view: ProcView) -> Result<OwnedFd, StepFailure> {
    let attributes = READ_ONLY | NO_SUID | NO_DEV | NO_EXEC;
    match view {
        ProcView::Own => {
            mounts::new("proc", &[], attributes).map_err(StepFailure::kernel("own /proc"))
        }
        ProcView::Host => {
            let host =
                mounts::resolve(Path::new("/proc")).map_err(StepFailure::kernel("open /proc"))?;
            mounts::copy(host.as_fd(), attributes).map_err(StepFailure::kernel("bind /proc"))
        }
    }
}

/// Places one piece and makes the directories above it. In the session's own directories this is
/// done as their `owner`, because the launcher's few capabilities would not permit it otherwise.
fn place(
    root: BorrowedFd<'_>,
    path: &Path,
    piece: &RootEntry,
    owner: Option<Identity>,
) -> io::Result<()> {
    let path = path.strip_prefix("/").unwrap_or(path);
    if let Some(parent) = path.parent() {
        make_directories(root, parent, owner)?;
    }
    match piece {
        RootEntry::Link(target) => {
            let link = || rustix::fs::symlinkat(target, root, path);
            match borrowed::first_as(owner, link)? {
                Ok(()) | Err(Errno::EXIST) => Ok(()),
                Err(error) => Err(error.into()),
            }
        }
        RootEntry::Text(text) => {
            // A file that is there already is the host's.
            let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
            let file = rustix::fs::openat(root, path, flags, Mode::RUSR)?;
            rustix::fs::fchmod(&file, Mode::from_raw_mode(0o444))?;
            std::fs::File::from(file).write_all(text)
        }
        RootEntry::Directory(mount) => {
            make_directories(root, path, owner)?;
            mounts::attach(mount.as_fd(), root, path)
        }
        RootEntry::Pinned => {
            make_directories(root, path, owner)?;
            let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            let open = || rustix::fs::openat(root, path, flags, Mode::empty());
            let itself = borrowed::first_as(owner, open)??;
            let mount = mounts::copy(itself.as_fd(), NO_SUID | NO_DEV)?;
            mounts::attach(mount.as_fd(), root, path)
        }
        RootEntry::File(mount) => {
            let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
            let create = || rustix::fs::openat(root, path, flags, Mode::RUSR);
            borrowed::first_as(owner, create)??;
            mounts::attach(mount.as_fd(), root, path)
        }
    }
}

fn make_directories(root: BorrowedFd<'_>, path: &Path, owner: Option<Identity>) -> io::Result<()> {
    let mut so_far = PathBuf::new();
    for component in path.components() {
        so_far.push(component);
        // Most of them are there already, and to look needs no other identity.
        if rustix::fs::statat(root, &so_far, AtFlags::SYMLINK_NOFOLLOW).is_ok() {
            continue;
        }
        let make = || rustix::fs::mkdirat(root, &so_far, Mode::from_raw_mode(0o755));
        match borrowed::first_as(owner, make)? {
            // Below a read-only bind the directory must exist already; otherwise the mount fails
            // and says so.
            Ok(()) | Err(Errno::EXIST | Errno::ROFS) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn make_dev(root: BorrowedFd<'_>) -> Result<(), StepFailure> {
    let dev = rustix::fs::openat(root, "dev", OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .map_err(StepFailure::kernel("open new /dev"))?;
    for name in DEVICES {
        add_device(&dev, name).map_err(StepFailure::kernel(format!("/dev/{name}")))?;
    }
    for (name, target) in DEVICE_LINKS {
        rustix::fs::symlinkat(target, &dev, name)
            .map_err(StepFailure::kernel(format!("/dev/{name}")))?;
    }
    let pts = terminals()?;
    rustix::fs::mkdirat(&dev, "pts", Mode::from_raw_mode(0o755))
        .map_err(StepFailure::kernel("/dev/pts"))?;
    mounts::attach(pts.as_fd(), dev.as_fd(), Path::new("pts"))
        .map_err(StepFailure::kernel("/dev/pts"))?;
    let mount = rustix::fs::openat(root, "dev", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .map_err(StepFailure::kernel("open new /dev"))?;
    kernel::set_mount_attributes(mount.as_fd(), READ_ONLY, Recursive::No)
        .map_err(StepFailure::kernel("/dev read-only"))
}

/// Mounts a device of the host in the session's `/dev`.
fn add_device(dev: &OwnedFd, name: &str) -> io::Result<()> {
    let host = mounts::resolve(&Path::new("/dev").join(name))?;
    let node = mounts::copy(host.as_fd(), 0)?;
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::openat(dev, name, flags, Mode::RUSR)?;
    mounts::attach(node.as_fd(), dev.as_fd(), Path::new(name))
}

/// Makes a file system of terminals. Every mount of this kind has terminals of its own, and a bound of
/// its own: all sessions and containers share what the host has of them, 3072 by default.
pub(crate) fn terminals() -> Result<OwnedFd, StepFailure> {
    let options = [("ptmxmode", "0666".into()), ("mode", "0620".into()), ("max", "32".into())];
    mounts::new("devpts", &options, NO_SUID | NO_EXEC).map_err(StepFailure::kernel("own /dev/pts"))
}

/// Switches to the new root, and unmounts the old one.
fn pivot(new: &OwnedFd) -> Result<(), StepFailure> {
    rustix::process::fchdir(new).map_err(StepFailure::kernel("chdir new root"))?;
    rustix::process::pivot_root(".", ".").map_err(StepFailure::kernel("pivot_root"))?;
    rustix::mount::unmount(".", UnmountFlags::DETACH)
        .map_err(StepFailure::kernel("umount old root"))?;
    rustix::process::chdir("/").map_err(StepFailure::kernel("chdir /"))?;
    kernel::set_mount_attributes(new.as_fd(), READ_ONLY, Recursive::No)
        .map_err(StepFailure::kernel("root read-only"))
}
