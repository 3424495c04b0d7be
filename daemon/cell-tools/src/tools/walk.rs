//! Walks a tree with a few threads: by descriptor, without following links, in bounded memory, and
//! only until the call is abandoned. Runs in the cell.

use super::{
    Stop, about_no_process,
    choose::Chooser,
    open_with,
    rules::{Kind, Rules, Scope, Sources},
    smallest,
    watch::CallWatch,
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

/// The maximum number of threads of one walk.
const MOST_THREADS: usize = 4;

const STACK: usize = 1024 * 1024;

/// The number of files that make one job.
const TOGETHER: usize = 64;

/// The maximum number of bytes of directory names that wait to be visited.
const MOST_WAITING: usize = 32 * 1024 * 1024;

/// The maximum number of entries that are read in one directory.
const MOST_SEEN: usize = 1_000_000;

const BUFFER: usize = 32 * 1024;

/// The time that a thread waits before it checks whether the call was abandoned.
const NAP: Duration = Duration::from_millis(20);

/// A file or link that was found.
#[derive(Debug)]
pub(super) struct FoundFile<'a> {
    /// The directory that it is in.
    pub(super) dir: BorrowedFd<'a>,
    /// Its name there.
    pub(super) name: &'a [u8],
    /// Its path relative to the start of the walk.
    pub(super) path: &'a [u8],
    /// Its kind.
    pub(super) kind: EntryKind,
}

/// The callback of a walk; each thread has its own.
pub(super) trait FileVisitor: Send {
    /// Visits a regular file or a link that was chosen.
    fn visit(&mut self, found: &FoundFile<'_>) -> Result<(), Stop>;
}

/// The parts of a tree that a walk could not visit.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct UnvisitedParts {
    /// The number of directories that could not be opened.
    pub(super) unreadable: u64,
    /// True if there were more entries than are visited.
    pub(super) more: bool,
}

/// A tree to walk.
#[derive(Debug)]
pub(super) struct TreeWalk<'a> {
    pub(super) root: OwnedFd,
    pub(super) scope: Scope,
    pub(super) chooser: &'a Chooser<'a>,
    pub(super) watch: &'a CallWatch<'a>,
}

enum Job {
    Directory { path: Vec<u8>, rules: Option<Arc<Rules>> },
    Files(Arc<Batch>, Vec<(Vec<u8>, EntryKind)>),
}

/// The directory of a batch of files.
struct Batch {
    dir: OwnedFd,
    /// Its path, with a slash at its end.
    path: Vec<u8>,
}

impl TreeWalk<'_> {
    /// Walks the tree, and returns the visitors of all threads.
    pub(super) fn walk<V: FileVisitor>(
        &self,
        visitor: impl Fn() -> V + Sync,
    ) -> Result<(Vec<V>, UnvisitedParts), Stop> {
        let first = Job::Directory { path: Vec::new(), rules: self.scope.rules.clone() };
        let queue = Queue::new(first);
        let mut own = visitor();
        // A small tree is done before a thread has started.
        self.take(&queue, &mut own)?;
        let helpers = if queue.lock().jobs.is_empty() { 0 } else { threads() - 1 };
        thread::scope(|scope| {
            let work = || {
                let mut visitor = visitor();
                self.work(&queue, &mut visitor).map(|()| visitor)
            };
            let start = |number| {
                let named = thread::Builder::new().name(format!("walk-{number}"));
                // Where no more threads are allowed, fewer do the work.
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

    fn work<V: FileVisitor>(&self, queue: &Queue, visitor: &mut V) -> Result<(), Stop> {
        while !queue.is_over(self.watch)? {
            self.take(queue, visitor)?;
        }
        Ok(())
    }

    /// Does the next job, if there is one.
    fn take<V: FileVisitor>(&self, queue: &Queue, visitor: &mut V) -> Result<(), Stop> {
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
                    visitor.visit(&FoundFile { dir, name, path: &path, kind: *kind })?;
                }
            }
        }
        Ok(())
    }

    fn directory(
        &self,
        mut path: Vec<u8>,
        above: Option<&Arc<Rules>>,
    ) -> (Vec<Job>, UnvisitedParts) {
        let there: &[u8] = if path.is_empty() { b"." } else { &path };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NONBLOCK | OFlags::NOFOLLOW;
        let way = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let opened = open_with(&self.root, there, flags, way).and_then(about_no_process);
        let (dir, listed) = match opened.and_then(|dir| read(dir.as_fd()).map(|read| (dir, read))) {
            Ok(done) => done,
            // It was deleted or replaced meanwhile.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Default::default(),
            Err(_) => return (Vec::new(), UnvisitedParts { unreadable: 1, more: false }),
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
        // The last job is taken first: files before directories, so that few directories stay open.
        while !files.is_empty() {
            let rest = files.split_off(files.len().saturating_sub(TOGETHER));
            jobs.push(Job::Files(Arc::clone(&batch), rest));
        }
        (jobs, UnvisitedParts { unreadable: 0, more: listed.more })
    }
}

/// The entries of a directory.
#[derive(Default)]
struct DirectoryListing {
    entries: Vec<(Vec<u8>, EntryKind)>,
    sources: Sources,
    more: bool,
}

fn read(dir: BorrowedFd<'_>) -> Result<DirectoryListing, Errno> {
    let mut listed = DirectoryListing::default();
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

/// Returns how many threads a walk uses.
fn threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| {
        thread::available_parallelism().map_or(1, NonZero::get).clamp(1, MOST_THREADS)
    })
}

/// The jobs that are still to be done.
struct Queue {
    state: Mutex<QueueState>,
    bell: Condvar,
}

struct QueueState {
    jobs: Vec<Job>,
    /// The number of threads that may still add jobs.
    busy: usize,
    /// The bytes of the directory names that wait.
    waiting: usize,
    missed: UnvisitedParts,
}

/// A job under way. Dropping it marks the job as ended, even after a panic.
struct JobGuard<'a>(&'a Queue);

impl Drop for JobGuard<'_> {
    fn drop(&mut self) {
        self.0.lock().busy -= 1;
        self.0.bell.notify_all();
    }
}

impl Queue {
    fn new(first: Job) -> Self {
        let waiting = first.cost();
        let state =
            QueueState { jobs: vec![first], busy: 0, waiting, missed: UnvisitedParts::default() };
        Self { state: Mutex::new(state), bell: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self) -> Option<(Job, JobGuard<'_>)> {
        let mut state = self.lock();
        let job = state.jobs.pop()?;
        state.waiting -= job.cost();
        state.busy += 1;
        drop(state);
        Some((job, JobGuard(self)))
    }

    /// Waits for a job, and returns whether the walk is over. It is when no job is left and no
    /// thread is busy.
    fn is_over(&self, watch: &CallWatch<'_>) -> Result<bool, Stop> {
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

    fn add(&self, jobs: Vec<Job>, missed: UnvisitedParts) {
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
    /// Returns the bytes that count as waiting. Files do not wait for long, so they count as 0.
    fn cost(&self) -> usize {
        match self {
            Self::Directory { path, .. } => path.len() + smallest::OVERHEAD,
            Self::Files(..) => 0,
        }
    }
}
