//! The `list_files` tool: lists a directory or a tree, sorted by the bytes of the paths, in bounded
//! memory and with few descriptors. Names are bytes and stay so. Runs in the cell.

use super::{
    LONGEST_PATH, NeededMode, Stop, WalkDepth, about_no_process, checked,
    choose::Chooser,
    failure, look, not_opened, open, open_with, refused,
    rules::{Kind, Rules, Scope, Sources},
    shown,
    smallest::{ItemKind, ListItem, ListedParts, MOST_HELD, MOST_SEEN, OVERHEAD, SmallestItems},
    watch::CallWatch,
};
use palisade_channel::Channel;
use palisade_plan::{
    Path,
    cell::{Entry, EntryKind, FileError, FileErrorKind, FileReply},
    search::Choice,
};
use palisade_workspace::View;
use rustix::{
    fs::{AtFlags, CWD, OFlags, ResolveFlags},
    io::Errno,
};
use std::{
    collections::VecDeque,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

/// The maximum number of entries of a tree.
const MOST_IN_TREE: u64 = 200_000;

/// The maximum size of a reply's entries in bytes: it must fit into one message.
const MOST_ANSWERED: usize = 3 * 1024 * 1024;

/// The number of directories that are kept open on the way down.
const KEPT_OPEN: usize = 16;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NONBLOCK);

/// The request for a listing.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Listing<'a> {
    /// The directory to list.
    pub(crate) path: &'a Path,
    /// The depth to list.
    pub(crate) reach: WalkDepth,
    /// The number of entries to skip.
    pub(crate) skip: u64,
    /// The maximum number of entries to return.
    pub(crate) limit: u64,
    /// The choice of entries to list.
    pub(crate) choice: &'a Choice,
}

/// Lists a directory from the entry after `skip` on, and returns at most `limit` entries. Returns
/// fewer if the reply would be too large, though `total` counts more.
///
/// Links are listed and not followed. A directory that can not be opened is listed and not entered.
/// An entry whose path is too long for any tool is left out, and the reply says `more`. The tree's
/// own ignore rules apply to a tree; a single directory is listed completely.
pub(crate) fn list(channel: &Channel, asked: &Listing<'_>, view: &View) -> Result<FileReply, Stop> {
    let Listing { path, reach, skip, limit, choice } = *asked;
    let mut chooser = Chooser::new(choice, view)?;
    let root = open(CWD, checked(path)?, DIRECTORY).map_err(|error| match error {
        Errno::NOTDIR => {
            let message = format!("{} is not a directory: use read_file for a file", shown(path));
            failure(FileErrorKind::Invalid, Some(error), message)
        }
        _ => not_opened("list", path, error, NeededMode::Read),
    })?;
    let watch = CallWatch::new(channel);
    look::show(&root, path, "list", view)?;
    let real = look::real(&root).unwrap_or_else(|| path.clone());
    chooser.begin(&real.0);
    let scope = match reach {
        WalkDepth::Tree => chooser.scope(),
        WalkDepth::One => Scope::default(),
    };
    let mut walk = Walk::new(asked, &chooser, &watch, scope);
    let most = match reach {
        WalkDepth::One => MOST_SEEN.min(skip.saturating_add(limit)),
        WalkDepth::Tree => 2 * MOST_IN_TREE,
    };
    let rules = walk.rules(walk.scope.rules.as_ref(), root.as_fd());
    let found =
        walk.read(root.as_fd(), rules.as_ref(), most).map_err(|e| refused("list", path, e))?;
    let (seen, cut) = (found.seen, found.cut);
    walk.push(root, found, rules);
    walk.run()?;
    let total = match reach {
        WalkDepth::One if cut && walk.page.is_empty() && limit > 0 && skip < seen => {
            return Err(too_many(path, skip).into());
        }
        WalkDepth::One => seen,
        WalkDepth::Tree => walk.counted,
    };
    Ok(FileReply::Listed { real, entries: walk.page, total, more: walk.more })
}

fn too_many(path: &Path, skip: u64) -> FileError {
    let message = format!(
        "{} has too many entries to list those after the first {skip}: use a command for this \
         directory",
        shown(path)
    );
    failure(FileErrorKind::TooLarge, None, message)
}

/// A directory on the way down, with its remaining entries.
struct ListLevel {
    items: VecDeque<ListItem>,
    /// The length of its path in the walk's prefix, in bytes.
    prefix: usize,
    dir: Option<OwnedFd>,
    /// The ignore rules that apply in it.
    rules: Option<Arc<Rules>>,
}

struct Walk<'a> {
    path: &'a Path,
    chooser: &'a Chooser<'a>,
    watch: &'a CallWatch<'a>,
    scope: Scope,
    reach: WalkDepth,
    skip: u64,
    limit: u64,
    levels: Vec<ListLevel>,
    /// The path of the last level, with a slash at its end.
    prefix: Vec<u8>,
    items: u64,
    held: usize,
    counted: u64,
    more: bool,
    page: Vec<Entry>,
    /// The bytes that the page may still take; 0 once an entry did not fit.
    room: usize,
}

impl<'a> Walk<'a> {
    const fn new(
        asked: &Listing<'a>,
        chooser: &'a Chooser<'a>,
        watch: &'a CallWatch<'a>,
        scope: Scope,
    ) -> Self {
        Self {
            path: asked.path,
            chooser,
            watch,
            scope,
            reach: asked.reach,
            skip: asked.skip,
            limit: asked.limit,
            levels: Vec::new(),
            prefix: Vec::new(),
            items: 0,
            held: 0,
            counted: 0,
            more: false,
            page: Vec::new(),
            room: MOST_ANSWERED,
        }
    }

    /// Returns the ignore rules that apply in the directory whose path is the prefix.
    fn rules(&self, above: Option<&Arc<Rules>>, dir: BorrowedFd<'_>) -> Option<Arc<Rules>> {
        match self.reach {
            WalkDepth::One => None,
            WalkDepth::Tree => {
                let start = self.scope.base.len() + self.prefix.len();
                self.chooser.rules(above, dir, Sources::ALL, start)
            }
        }
    }

    /// Reads the directory whose path is the prefix.
    fn read(
        &self,
        dir: BorrowedFd<'_>,
        rules: Option<&Arc<Rules>>,
        most: u64,
    ) -> Result<SmallestItems, Errno> {
        let base = self.scope.base.len();
        let above = [self.scope.base.as_slice(), &self.prefix].concat();
        SmallestItems::of(dir, most, |name, kind| {
            let path = [above.as_slice(), name].concat();
            if self.chooser.hides(&path[base..], kind) {
                return ListedParts { entry: false, below: false };
            }
            let entry = self.chooser.takes(&path[base..]);
            if self.reach == WalkDepth::One {
                return ListedParts { entry, below: false };
            }
            let kind = if kind == EntryKind::Directory { Kind::Directory } else { Kind::Other };
            let below = self.chooser.enters(rules, &path, kind);
            ListedParts { entry: entry && below, below }
        })
    }

    fn run(&mut self) -> Result<(), Stop> {
        while let Some(level) = self.levels.last_mut() {
            let Some(item) = level.items.pop_front() else {
                self.levels.pop();
                self.prefix.truncate(self.levels.last().map_or(0, |level| level.prefix));
                continue;
            };
            self.items -= 1;
            self.held -= item.cost();
            self.watch.step(1)?;
            match item.what {
                ItemKind::Entry(_)
                    if self.reach == WalkDepth::Tree && self.counted == MOST_IN_TREE =>
                {
                    self.more = true;
                    break;
                }
                ItemKind::Entry(kind) => self.entry(&item.name, kind)?,
                ItemKind::Below => self.enter(&item.name)?,
            }
        }
        Ok(())
    }

    fn entry(&mut self, name: &[u8], kind: EntryKind) -> Result<(), FileError> {
        let length = self.prefix.len() + name.len();
        if self.path.0.len() + 1 + length > LONGEST_PATH {
            self.more = true;
            return Ok(());
        }
        self.counted += 1;
        if self.counted <= self.skip || self.page.len() as u64 >= self.limit || self.room == 0 {
            return Ok(());
        }
        if length + OVERHEAD > self.room {
            self.room = 0;
            return Ok(());
        }
        self.room -= length + OVERHEAD;
        let size = match kind {
            EntryKind::File => self.size(name)?,
            EntryKind::Directory | EntryKind::Symlink | EntryKind::Other => 0,
        };
        let target = match kind {
            EntryKind::Symlink => self.dir()?.and_then(|dir| look::link_target(dir, name)),
            EntryKind::File | EntryKind::Directory | EntryKind::Other => None,
        };
        // A target that does not fit is left out; the entry is not.
        let room = self.room;
        let target = target.filter(|target| target.0.len() <= room);
        self.room -= target.as_ref().map_or(0, |target| target.0.len());
        let path = Path([self.prefix.as_slice(), name].concat());
        self.page.push(Entry { path, kind, size, target });
        Ok(())
    }

    fn size(&mut self, name: &[u8]) -> Result<u64, FileError> {
        let stat = match self.dir()? {
            Some(dir) => rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok(),
            None => None,
        };
        // If it was deleted meanwhile, it is still listed, because it was there.
        Ok(stat.and_then(|stat| u64::try_from(stat.st_size).ok()).unwrap_or(0))
    }

    /// Enters a directory, if the session can.
    fn enter(&mut self, name: &[u8]) -> Result<(), FileError> {
        let flags = DIRECTORY | OFlags::NOFOLLOW;
        let bare = name.strip_suffix(b"/").unwrap_or(name);
        let Some(dir) = self.dir()? else { return Ok(()) };
        let dir = open_with(dir, bare, flags, ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS);
        let dir = dir.and_then(about_no_process);
        let Some(dir) = self.entered(dir)? else { return Ok(()) };
        let most = 2 * (MOST_IN_TREE - self.counted);
        let before = self.prefix.len();
        self.prefix.extend(name);
        let rules =
            self.rules(self.levels.last().and_then(|level| level.rules.as_ref()), dir.as_fd());
        let found = self.read(dir.as_fd(), rules.as_ref(), most);
        match self.entered(found)? {
            Some(found) => self.push(dir, found, rules),
            None => self.prefix.truncate(before),
        }
        Ok(())
    }

    /// Turns errors that mean that a directory is missing or denied to this session into `None`.
    fn entered<T>(&self, done: Result<T, Errno>) -> Result<Option<T>, FileError> {
        match done {
            Ok(done) => Ok(Some(done)),
            Err(
                Errno::ACCESS
                | Errno::PERM
                | Errno::NOENT
                | Errno::NOTDIR
                | Errno::LOOP
                | Errno::SRCH
                | Errno::INVAL,
            ) => Ok(None),
            Err(error) => Err(refused("list a directory of", self.path, error)),
        }
    }

    /// Returns the directory of the last level; `None` if it no longer exists.
    fn dir(&mut self) -> Result<Option<BorrowedFd<'_>>, FileError> {
        let (Some(top), Some(last)) = (self.levels.first(), self.levels.last()) else {
            return Ok(None);
        };
        if let (None, Some(root)) = (&last.dir, &top.dir) {
            let way = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
            let dir = self.entered(open_with(root, &self.prefix, DIRECTORY, way))?;
            if let Some(last) = self.levels.last_mut() {
                last.dir = dir;
            }
        }
        Ok(self.levels.last().and_then(|last| last.dir.as_ref()).map(AsFd::as_fd))
    }

    fn push(&mut self, dir: OwnedFd, found: SmallestItems, rules: Option<Arc<Rules>>) {
        self.more |= found.more || (found.cut && self.reach == WalkDepth::Tree);
        self.items += found.items.len() as u64;
        self.held += found.held;
        let items = found.items.into_sorted_vec().into();
        self.levels.push(ListLevel { items, prefix: self.prefix.len(), dir: Some(dir), rules });
        // The first stays open, to find the others again.
        if let Some(old @ 1..) = self.levels.len().checked_sub(KEPT_OPEN + 1) {
            self.levels[old].dir = None;
        }
        self.trim();
    }

    /// Drops the items that would come last, when there are too many.
    fn trim(&mut self) {
        let most = match self.reach {
            WalkDepth::One => MOST_SEEN,
            WalkDepth::Tree => 2 * (MOST_IN_TREE - self.counted),
        };
        for level in &mut self.levels {
            while self.items > most || self.held > MOST_HELD {
                let Some(last) = level.items.pop_back() else { break };
                self.items -= 1;
                self.held -= last.cost();
                self.more = true;
            }
        }
    }
}
