//! The `grep` tool: searches the lines of a tree's files with ripgrep's engine, in bounded memory.
//! Runs in the cell.

use super::{
    NeededMode, Stop, checked,
    choose::Chooser,
    failure,
    hits::{FirstFiles, MatchCollector},
    look, not_opened, not_regular, open, open_with, refused,
    walk::{FileVisitor, FoundFile, TreeWalk},
    watch::CallWatch,
};
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{BinaryDetection, MmapChoice, Searcher, SearcherBuilder};
use palisade_channel::Channel;
use palisade_plan::{
    cell::{EntryKind, FileError, FileErrorKind, FileReply},
    search::{Grep, GrepResult, SearchReport, SkippedFiles, Syntax},
};
use palisade_workspace::View;
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

/// The maximum size in bytes of a compiled pattern, and of its cache during a search.
const PATTERN_BYTES: usize = 10 * 1024 * 1024;

/// The maximum nesting depth of a pattern, because its compiler recurses.
const NESTED: u32 = 64;

/// The maximum size of a file that is read in one piece.
const PIECE: u64 = 256 * 1024;

/// The maximum length of a line in a larger file.
const LONGEST_LINE: usize = 4 * 1024 * 1024;

/// The maximum size of a file in which a match may span lines.
const MOST_MULTILINE: u64 = 16 * 1024 * 1024;

const FLAGS: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY);

/// Searches for lines.
///
/// Links below a directory are not followed. Files that are not text, are larger than the request
/// allows, or can not be opened are counted. FIFOs, sockets and devices are never opened.
pub(crate) fn grep(channel: &Channel, request: &Grep, view: &View) -> Result<FileReply, Stop> {
    let mut chooser = Chooser::new(&request.choice, view)?;
    let matcher = matcher(request)?;
    let watch = CallWatch::new(channel);
    let path = &request.path;
    let root = open(CWD, checked(path)?, FLAGS)
        .map_err(|e| not_opened("search", path, e, NeededMode::Read))?;
    let stat = rustix::fs::fstat(&root).map_err(|e| refused("look at", path, e))?;
    look::show(&root, path, "search", view)?;
    let real = look::real(&root).unwrap_or_else(|| path.clone());
    chooser.begin(&real.0);
    let search = || GrepSearch::new(request, &matcher, &watch);
    let (searches, missed) = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => {
            let scope = chooser.scope();
            TreeWalk { root, scope, chooser: &chooser, watch: &watch }.walk(search)?
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
    let mut found = GrepResult { real, more: missed.more, ..GrepResult::default() };
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
    found.files = FirstFiles::new(request.wanted, request.limit).merge(kept);
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
struct GrepSearch<'a> {
    request: &'a Grep,
    matcher: Arc<RegexMatcher>,
    watch: &'a CallWatch<'a>,
    searcher: Searcher,
    buffer: Vec<u8>,
    first: FirstFiles,
    files: u64,
    lines: u64,
    searched: u64,
    skipped: SkippedFiles,
}

impl<'a> GrepSearch<'a> {
    fn new(request: &'a Grep, matcher: &RegexMatcher, watch: &'a CallWatch<'a>) -> Self {
        let (before, after) = match request.wanted {
            SearchReport::Lines { before, after } => (before as usize, after as usize),
            SearchReport::Files | SearchReport::Counts => (0, 0),
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
            // Each thread has its own copy, because threads that share one wait for each other.
            matcher: Arc::new(matcher.clone()),
            watch,
            searcher,
            buffer: Vec::new(),
            first: FirstFiles::new(request.wanted, request.limit),
            files: 0,
            lines: 0,
            searched: 0,
            skipped: SkippedFiles::default(),
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
        let mut gathering = MatchCollector::new(&matcher, self.request.wanted, self.request.limit);
        let done = if size <= whole {
            self.in_one_piece(&file, size, whole.min(self.request.most), &mut gathering)
        } else {
            let mut source = InterruptibleFile { file, watch: self.watch, left: self.request.most };
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
            // Errors of the file system have a number; the searcher's own limit has none.
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
        gathering: &mut MatchCollector<'_>,
    ) -> Result<(), io::Error> {
        self.buffer.clear();
        // A file that reports size 0, like those of `/proc`, may still have content.
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

impl FileVisitor for GrepSearch<'_> {
    fn visit(&mut self, found: &FoundFile<'_>) -> Result<(), Stop> {
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
            // It was deleted or replaced meanwhile.
            Ok(_) | Err(Errno::NOENT | Errno::LOOP | Errno::NXIO | Errno::NODEV) => Ok(()),
            Err(_) => {
                self.skipped.unreadable += 1;
                Ok(())
            }
        }
    }
}

/// A file that ends early when the call is abandoned.
struct InterruptibleFile<'a> {
    file: OwnedFd,
    watch: &'a CallWatch<'a>,
    left: u64,
}

impl Read for InterruptibleFile<'_> {
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
