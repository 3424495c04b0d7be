//! `grep` in the cell: lines of a tree's files by ripgrep's engine, with its memory bounded.

use super::{
    Stop, checked,
    choose::Chooser,
    failure,
    hits::{First, Gathering},
    look, not_regular, open, open_with, refused,
    walk::{Found, Tree, Visitor},
    watch::Watch,
};
use crate::{channel::Channel, view::View};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder};
use palisade_plan::{
    cell::{EntryKind, FileError, FileErrorKind, FileReply},
    search::{Grep, Grepped, Skipped, Syntax, Wanted},
};
use rustix::{
    buffer::spare_capacity,
    fs::{CWD, FileType, OFlags, ResolveFlags, Stat},
    io::Errno,
};
use std::{
    io::{self, Read},
    os::fd::OwnedFd,
    sync::Arc,
};

/// The most bytes of a compiled pattern, and of what it remembers while it searches.
const PATTERN_BYTES: usize = 10 * 1024 * 1024;

/// How deep a pattern may be nested: its compiler recurses.
const NESTED: u32 = 64;

/// The most bytes of a file that is read in one piece.
const PIECE: u64 = 256 * 1024;

/// The most bytes of a line, in a file that is not.
const LONGEST_LINE: usize = 4 * 1024 * 1024;

/// The most bytes of a file in which a match may go over lines.
const MOST_MULTILINE: u64 = 16 * 1024 * 1024;

const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Looks for lines.
///
/// Links below a directory are not followed. Files that are not text, are larger than the request
/// says, or can not be opened are counted; FIFOs, sockets and devices are never opened.
pub(crate) fn grep(channel: &Channel, request: &Grep, view: &View) -> Result<FileReply, Stop> {
    let mut chooser = Chooser::new(&request.choice, view)?;
    let matcher = matcher(request)?;
    let watch = Watch::new(channel);
    let path = &request.path;
    let root = open(CWD, checked(path)?, FLAGS).map_err(|e| refused("search", path, e))?;
    let stat = rustix::fs::fstat(&root).map_err(|e| refused("look at", path, e))?;
    look::show(&root, path, "search", view)?;
    let real = look::real(&root).unwrap_or_else(|| path.clone());
    chooser.begin(&real.0);
    let search = || Search::new(request, &matcher, &watch);
    let (searches, missed) = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => {
            let scope = chooser.scope();
            Tree { root, scope, chooser: &chooser, watch: &watch }.walk(search)?
        }
        FileType::RegularFile => {
            let mut one = search();
            one.search(root, &stat, b"")?;
            (vec![one], Default::default())
        }
        kind @ (FileType::Symlink
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown) => return Err(not_regular(path, kind, " or a directory").into()),
    };
    let mut found = Grepped { real, more: missed.more, ..Grepped::default() };
    found.skipped.unreadable = missed.unreadable;
    let mut kept = Vec::with_capacity(searches.len());
    for search in searches {
        found.total_files += search.files;
        found.total_lines += search.lines;
        found.searched += search.searched;
        found.skipped.binary += search.skipped.binary;
        found.skipped.large += search.skipped.large;
        found.skipped.unreadable += search.skipped.unreadable;
        kept.push(search.first);
    }
    found.files = First::new(request.wanted, request.limit).merge(kept);
    Ok(FileReply::Grepped(Box::new(found)))
}

fn matcher(request: &Grep) -> Result<RegexMatcher, FileError> {
    let mut builder = RegexMatcherBuilder::new();
    builder
        .case_insensitive(request.case_insensitive)
        .fixed_strings(request.syntax == Syntax::Literal)
        .multi_line(true)
        .size_limit(PATTERN_BYTES)
        .dfa_size_limit(PATTERN_BYTES)
        .nest_limit(NESTED);
    if !request.multiline {
        builder.line_terminator(Some(b'\n'));
    }
    builder.build(&request.pattern).map_err(|error| {
        let over_lines = matches!(error.kind(), grep_regex::ErrorKind::NotAllowed(_));
        let hint = if over_lines { ": set multiline for matches over several lines" } else { "" };
        let message = format!("the pattern can not be used: {error}{hint}");
        failure(FileErrorKind::Invalid, None, message)
    })
}

/// One thread's search.
struct Search<'a> {
    request: &'a Grep,
    matcher: Arc<RegexMatcher>,
    watch: &'a Watch<'a>,
    searcher: Searcher,
    buffer: Vec<u8>,
    first: First,
    files: u64,
    lines: u64,
    searched: u64,
    skipped: Skipped,
}

impl<'a> Search<'a> {
    fn new(request: &'a Grep, matcher: &RegexMatcher, watch: &'a Watch<'a>) -> Self {
        let (before, after) = match request.wanted {
            Wanted::Lines { before, after } => (before as usize, after as usize),
            Wanted::Files | Wanted::Counts => (0, 0),
        };
        let searcher = SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .memory_map(MmapChoice::never())
            .heap_limit(Some(LONGEST_LINE))
            .multi_line(request.multiline)
            .before_context(before)
            .after_context(after)
            .build();
        Self {
            request,
            // A copy of its own: threads that share one wait for each other.
            matcher: Arc::new(matcher.clone()),
            watch,
            searcher,
            buffer: Vec::new(),
            first: First::new(request.wanted, request.limit),
            files: 0,
            lines: 0,
            searched: 0,
            skipped: Skipped::default(),
        }
    }

    /// Searches an open regular file.
    fn search(&mut self, file: OwnedFd, stat: &Stat, path: &[u8]) -> Result<(), Stop> {
        let size = u64::try_from(stat.st_size).unwrap_or(0);
        let whole = if self.request.multiline { MOST_MULTILINE } else { PIECE };
        if size > self.request.most || (self.request.multiline && size > whole) {
            self.skipped.large += 1;
            return Ok(());
        }
        let matcher = Arc::clone(&self.matcher);
        let mut gathering = Gathering::new(&matcher, self.request.wanted, self.request.limit);
        let done = if size <= whole {
            self.in_one_piece(&file, size, whole.min(self.request.most), &mut gathering)
        } else {
            let mut source = Watched { file, watch: self.watch, left: self.request.most };
            self.searcher.search_reader(&*matcher, &mut source, &mut gathering)
        };
        if self.watch.is_over() {
            return self.watch.step(0);
        }
        match done {
            Ok(()) if gathering.binary => self.skipped.binary += 1,
            Ok(()) => {
                self.searched += 1;
                if gathering.count > 0 {
                    self.files += 1;
                    self.lines += gathering.count;
                    self.first.add(gathering.into_hits(path));
                }
            }
            // The file system's own errors have a number; the searcher's limit has none.
            Err(error) if error.raw_os_error().is_none() => self.skipped.large += 1,
            Err(_) => self.skipped.unreadable += 1,
        }
        Ok(())
    }

    fn in_one_piece(
        &mut self,
        file: &OwnedFd,
        size: u64,
        most: u64,
        gathering: &mut Gathering<'_>,
    ) -> Result<(), io::Error> {
        self.buffer.clear();
        // One that says no size, as those of `/proc`, may have some all the same.
        let wanted = usize::try_from(if size == 0 { most } else { size }).unwrap_or(usize::MAX);
        let at_once = if size == 0 { wanted.min(16 * 1024) } else { wanted };
        loop {
            self.buffer.reserve(at_once.min(wanted - self.buffer.len()));
            match rustix::io::read(file, spare_capacity(&mut self.buffer)) {
                Ok(0) => break,
                Ok(_) if self.buffer.len() >= wanted => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.buffer.truncate(wanted);
        self.searcher.search_slice(&*self.matcher, &self.buffer, gathering)
    }
}

impl Visitor for Search<'_> {
    fn visit(&mut self, found: &Found<'_>) -> Result<(), Stop> {
        if found.kind != EntryKind::File {
            return Ok(());
        }
        let way = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let opened = open_with(found.dir, found.name, FLAGS | OFlags::NOFOLLOW, way)
            .and_then(|file| rustix::fs::fstat(&file).map(|stat| (file, stat)));
        match opened {
            Ok((file, stat)) if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile => {
                self.search(file, &stat, found.path)
            }
            // It went, or is another thing by now.
            Ok(_) | Err(Errno::NOENT | Errno::LOOP | Errno::NXIO | Errno::NODEV) => Ok(()),
            Err(_) => {
                self.skipped.unreadable += 1;
                Ok(())
            }
        }
    }
}

/// A file that is at its end when the call is not wanted any more.
struct Watched<'a> {
    file: OwnedFd,
    watch: &'a Watch<'a>,
    left: u64,
}

impl Read for Watched<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.watch.step(0).is_err() {
            return Ok(0);
        }
        let room = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let read = rustix::io::retry_on_intr(|| rustix::io::read(&self.file, &mut buffer[..room]))?;
        self.left -= read as u64;
        Ok(read)
    }
}
