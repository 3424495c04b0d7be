//! Walks a tree with a few threads: by descriptors, following no link, in bounded memory, and only
//! as long as the call is wanted. Room: the cell.

use super::{
    Stop,
    choose::Chooser,
    open_with,
    rules::{Kind, Rules, Scope, Sources},
    smallest,
    watch::Watch,
};
use palisade_plan::cell::EntryKind;
use rustix::{
    fs::{OFlags, RawDir, ResolveFlags},
    io::Errno,
};
use std::{
    num::NonZero,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError},
    thread,
    time::Duration,
};

/// The most threads of one walk.
const MOST_THREADS: usize = 4;

const STACK: usize = 1024 * 1024;

/// How many files are handed out together.
const TOGETHER: usize = 64;

/// The most bytes of names of directories that wait for their turn.
const MOST_WAITING: usize = 32 * 1024 * 1024;

/// The most entries that are looked at in one directory.
const MOST_SEEN: usize = 1_000_000;

const BUFFER: usize = 32 * 1024;

/// How long a thread waits before it looks whether the call is still wanted.
const NAP: Duration = Duration::from_millis(20);

/// A file or link that was found.
#[derive(Debug)]
pub(super) struct Found<'a> {
    /// The directory that it is in.
    pub(super) dir: BorrowedFd<'a>,
    /// Its name there.
    pub(super) name: &'a [u8],
    /// Its path below where the walk began.
    pub(super) path: &'a [u8],
    /// What it is.
    pub(super) kind: EntryKind,
}

/// What is done with what is found; each thread has its own.
pub(super) trait Visitor: Send {
    /// Looks at a regular file or a link that was chosen.
    fn visit(&mut self, found: &Found<'_>) -> Result<(), Stop>;
}

/// What a walk could not look at.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Missed {
    /// Directories that the kernel did not open.
    pub(super) unreadable: u64,
    /// There was more than is looked at.
    pub(super) more: bool,
}

/// A tree to walk.
#[derive(Debug)]
pub(super) struct Tree<'a> {
    pub(super) root: OwnedFd,
    pub(super) scope: Scope,
    pub(super) chooser: &'a Chooser<'a>,
    pub(super) watch: &'a Watch<'a>,
}

enum Job {
    Directory { path: Vec<u8>, rules: Option<Arc<Rules>> },
    Files(Arc<Batch>, Vec<(Vec<u8>, EntryKind)>),
}

/// The directory that files are in.
struct Batch {
    dir: OwnedFd,
    /// Its path, with a slash at its end.
    path: Vec<u8>,
}

impl Tree<'_> {
    /// Walks it. Every visitor that was made comes back.
    pub(super) fn walk<V: Visitor>(
        &self,
        visitor: impl Fn() -> V + Sync,
    ) -> Result<(Vec<V>, Missed), Stop> {
        let first = Job::Directory { path: Vec::new(), rules: self.scope.rules.clone() };
        let queue = Queue::new(first);
        let mut own = visitor();
        // What is small is done before a thread has begun.
        self.take(&queue, &mut own)?;
        let helpers = if queue.lock().jobs.is_empty() { 0 } else { threads() - 1 };
        thread::scope(|scope| {
            let work = || {
                let mut visitor = visitor();
                self.work(&queue, &mut visitor).map(|()| visitor)
            };
            let start = |number| {
                let named = thread::Builder::new().name(format!("walk-{number}"));
                // Where no more threads are allowed, fewer do it.
                named.stack_size(STACK).spawn_scoped(scope, work).ok()
            };
            let helpers: Vec<_> = (0..helpers).filter_map(start).collect();
            let done = self.work(&queue, &mut own);
            let mut visitors = vec![own];
            for helper in helpers {
                match helper.join() {
                    Ok(visitor) => visitors.push(visitor?),
                    Err(fault) => std::panic::resume_unwind(fault),
                }
            }
            done.map(|()| (visitors, queue.lock().missed))
        })
    }

    fn work<V: Visitor>(&self, queue: &Queue, visitor: &mut V) -> Result<(), Stop> {
        while !queue.is_over(self.watch)? {
            self.take(queue, visitor)?;
        }
        Ok(())
    }

    /// Does the next job, if there is one.
    fn take<V: Visitor>(&self, queue: &Queue, visitor: &mut V) -> Result<(), Stop> {
        let Some((job, _busy)) = queue.next() else { return Ok(()) };
        match job {
            Job::Directory { path, rules } => {
                self.watch.step(1)?;
                let (jobs, missed) = self.directory(path, rules.as_ref());
                queue.add(jobs, missed);
            }
            Job::Files(batch, files) => {
                let mut path = batch.path.clone();
                for (name, kind) in &files {
                    self.watch.step(1)?;
                    path.truncate(batch.path.len());
                    path.extend(name);
                    let dir = batch.dir.as_fd();
                    visitor.visit(&Found { dir, name, path: &path, kind: *kind })?;
                }
            }
        }
        Ok(())
    }

    fn directory(&self, mut path: Vec<u8>, above: Option<&Arc<Rules>>) -> (Vec<Job>, Missed) {
        let there: &[u8] = if path.is_empty() { b"." } else { &path };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK | OFlags::NOFOLLOW;
        let way = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let opened = open_with(&self.root, there, flags, way);
        let (dir, listed) = match opened.and_then(|dir| read(dir.as_fd()).map(|read| (dir, read))) {
            Ok(done) => done,
            // It went, or is another thing by now.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Default::default(),
            Err(_) => return (Vec::new(), Missed { unreadable: 1, more: false }),
        };
        if !path.is_empty() {
            path.push(b'/');
        }
        let base = &self.scope.base;
        let start = base.len() + path.len();
        let rules = self.chooser.rules(above, dir.as_fd(), listed.sources, start);
        let rules = rules.as_ref();
        let mut whole = [base.as_slice(), &path].concat();
        let (mut jobs, mut files) = (Vec::new(), Vec::new());
        for (name, kind) in listed.entries {
            whole.truncate(start);
            whole.extend(&name);
            let (is, wanted) = match kind {
                EntryKind::Directory => (Kind::Directory, true),
                EntryKind::File | EntryKind::Symlink => {
                    (Kind::Other, self.chooser.takes(&whole[base.len()..]))
                }
                EntryKind::Other => (Kind::Other, false),
            };
            let hidden = wanted && self.chooser.hides(&whole[base.len()..], kind);
            if !wanted || hidden || !self.chooser.enters(rules, &whole, is) {
                continue;
            }
            if is == Kind::Directory {
                let path = whole[base.len()..].to_vec();
                jobs.push(Job::Directory { path, rules: rules.cloned() });
            } else {
                files.push((name, kind));
            }
        }
        let batch = Arc::new(Batch { dir, path });
        // The last is taken first: files go before directories, which keeps few of them open.
        while !files.is_empty() {
            let rest = files.split_off(files.len().saturating_sub(TOGETHER));
            jobs.push(Job::Files(Arc::clone(&batch), rest));
        }
        (jobs, Missed { unreadable: 0, more: listed.more })
    }
}

/// A directory's entries.
#[derive(Default)]
struct Listed {
    entries: Vec<(Vec<u8>, EntryKind)>,
    sources: Sources,
    more: bool,
}

fn read(dir: BorrowedFd<'_>) -> Result<Listed, Errno> {
    let mut listed = Listed::default();
    let mut buffer = Vec::with_capacity(BUFFER);
    let mut entries = RawDir::new(dir, buffer.spare_capacity_mut());
    while let Some(entry) = entries.next() {
        let entry = match entry {
            Err(Errno::INTR) => continue,
            entry => entry?,
        };
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        if listed.entries.len() == MOST_SEEN {
            listed.more = true;
            break;
        }
        listed.sources.note(name);
        listed.entries.push((name.to_vec(), smallest::kind(dir, name, entry.file_type())));
    }
    Ok(listed)
}

/// How many threads a walk has.
fn threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| {
        thread::available_parallelism().map_or(1, NonZero::get).clamp(1, MOST_THREADS)
    })
}

/// What is still to be done.
struct Queue {
    state: Mutex<State>,
    bell: Condvar,
}

struct State {
    jobs: Vec<Job>,
    /// Threads that may still add some.
    busy: usize,
    /// Bytes of the names that wait.
    waiting: usize,
    missed: Missed,
}

/// A job under way. However it ends, it ends.
struct Busy<'a>(&'a Queue);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.lock().busy -= 1;
        self.0.bell.notify_all();
    }
}

impl Queue {
    fn new(first: Job) -> Self {
        let waiting = first.cost();
        let state = State { jobs: vec![first], busy: 0, waiting, missed: Missed::default() };
        Self { state: Mutex::new(state), bell: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<(Job, Busy<'_>)> {
        let mut state = self.lock();
        let job = state.jobs.pop()?;
        state.waiting -= job.cost();
        state.busy += 1;
        drop(state);
        Some((job, Busy(self)))
    }

    /// Waits for a job; there will be none if nobody is busy.
    fn is_over(&self, watch: &Watch<'_>) -> Result<bool, Stop> {
        let mut state = self.lock();
        loop {
            if !state.jobs.is_empty() {
                return Ok(false);
            }
            if state.busy == 0 {
                self.bell.notify_all();
                return Ok(true);
            }
            watch.step(0)?;
            let waited = self.bell.wait_timeout(state, NAP);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn add(&self, jobs: Vec<Job>, missed: Missed) {
        let mut state = self.lock();
        state.missed.unreadable += missed.unreadable;
        state.missed.more |= missed.more;
        for job in jobs {
            let cost = job.cost();
            if cost > 0 && state.waiting + cost > MOST_WAITING {
                state.missed.more = true;
                continue;
            }
            state.waiting += cost;
            state.jobs.push(job);
        }
        drop(state);
        self.bell.notify_all();
    }
}

impl Job {
    /// What of it counts as waiting: the files of a directory do not wait for long.
    fn cost(&self) -> usize {
        match self {
            Self::Directory { path, .. } => path.len() + smallest::OVERHEAD,
            Self::Files(..) => 0,
        }
    }
}
