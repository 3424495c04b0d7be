//! The `read_file` tool: reads a regular file's bytes, all of them or some lines, in bounded
//! memory. Runs in the cell.

use super::{
    NeededMode, Stop, checked, failure, look, not_opened, not_regular, notebook, open, refused,
    shown,
};
use palisade_channel::Channel;
use palisade_plan::{
    Path,
    cell::{CHUNK, Conversion, FileError, FileErrorKind, FileReply, Form, Part},
};
use palisade_workspace::View;
use rustix::{
    buffer::spare_capacity,
    fs::{CWD, FileType, OFlags, SeekFrom, Stat},
    io::Errno,
};
use std::os::fd::OwnedFd;

/// The maximum number of bytes skipped in search of a line.
const SCANNED: u64 = 256 * 1024 * 1024;

/// The first buffer size for a file that does not report its size, like those of `/proc`.
const UNKNOWN: usize = 16 * 1024;

/// Reads a regular file and sends it.
///
/// A file that reports its size is read up to the size it had when it was opened. If it has grown
/// since, the reply says that it is not complete. One that reports 0 is read up to `most` bytes. An
/// error of the file system may come after some pieces.
///
/// A FIFO, device, socket or directory is never read from, and never waited for.
pub(crate) fn read(
    channel: &Channel,
    path: &Path,
    part: Part,
    most: u64,
    form: Form,
    view: &View,
) -> Result<(), Stop> {
    let (file, stat) = open_regular(path)?;
    look::show(&file, path, "open", view)?;
    let source = SourceFile { path, file, size: u64::try_from(stat.st_size).unwrap_or(0), most };
    let mut pieces = Pieces { channel, last: None, bytes: 0 };
    let (complete, made) = match form {
        Form::AsIs => (source.part(&mut pieces, part)?, Conversion::AsIs),
        Form::Notebook => source.notebook(&mut pieces, part)?,
    };
    pieces.finish(source.size, complete, stat.st_mode & 0o7777, made)
}

fn open_regular(path: &Path) -> Result<(OwnedFd, Stat), FileError> {
    // Non-blocking: a FIFO opens at once, and is then refused.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = open(CWD, checked(path)?, flags)
        .map_err(|e| not_opened("open", path, e, NeededMode::Read))?;
    let stat = rustix::fs::fstat(&file).map_err(|e| refused("look at", path, e))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok((file, stat)),
        FileType::Directory => {
            Err(not_regular(path, FileType::Directory, ": use list_files for a directory"))
        }
        kind @ (FileType::Symlink
        | FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown) => Err(not_regular(path, kind, "")),
    }
}

struct SourceFile<'a> {
    path: &'a Path,
    file: OwnedFd,
    size: u64,
    most: u64,
}

impl SourceFile<'_> {
    /// Sends a part of the file, and returns whether everything requested was sent.
    fn part(&self, pieces: &mut Pieces<'_>, part: Part) -> Result<bool, Stop> {
        match part {
            Part::All => self.all(pieces),
            Part::Lines { first, count } => self.lines(pieces, first, count),
            Part::Bytes { first, count } => self.bytes(pieces, first, count),
        }
    }

    /// Sends the text of a notebook's cells, or a part of it. Sends the file itself if it is not a
    /// notebook.
    fn notebook(&self, pieces: &mut Pieces<'_>, part: Part) -> Result<(bool, Conversion), Stop> {
        if self.size > self.most {
            return Err(self.too_large().into());
        }
        let mut bytes = Vec::new();
        bytes.reserve_exact(usize::try_from(self.size).unwrap_or(0).saturating_add(1));
        while bytes.len() as u64 <= self.most && self.read_some(&mut bytes)? > 0 {
            bytes.reserve(1);
        }
        let (text, made) = match notebook::render(&bytes) {
            Ok((text, cells)) => (text.into_bytes(), Conversion::Notebook { cells }),
            Err(why) => (bytes, Conversion::NoNotebook { why }),
        };
        let text = match part {
            Part::All => text.as_slice(),
            Part::Lines { first, count } => {
                let (_, start) = pass(&text, first.saturating_sub(1));
                let (_, end) = pass(&text[start..], count);
                &text[start..start + end]
            }
            Part::Bytes { .. } => {
                let message = "a notebook's text has lines, not bytes".into();
                return Err(failure(FileErrorKind::Invalid, None, message).into());
            }
        };
        let sent = usize::try_from(self.most).map_or(text, |most| &text[..text.len().min(most)]);
        sent.chunks(CHUNK).try_for_each(|piece| pieces.push(piece.to_vec()))?;
        Ok((sent.len() == text.len(), made))
    }

    /// Sends bytes from an offset, and returns whether everything requested was sent.
    fn bytes(&self, pieces: &mut Pieces<'_>, first: u64, count: u64) -> Result<bool, Stop> {
        rustix::fs::seek(&self.file, SeekFrom::Start(first))
            .map_err(|e| refused("read", self.path, e))?;
        let mut left = count.min(self.most);
        while left > 0 {
            let most = usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK));
            let mut piece = Vec::with_capacity(most);
            if self.read_some(&mut piece)? == 0 {
                return Ok(true);
            }
            left -= piece.len() as u64;
            pieces.push(piece)?;
        }
        Ok(count <= self.most || first.saturating_add(self.most) >= self.size)
    }

    /// Sends the whole file, and returns whether it was complete.
    fn all(&self, pieces: &mut Pieces<'_>) -> Result<bool, Stop> {
        if self.size > self.most {
            return Err(self.too_large().into());
        }
        let mut left = if self.size == 0 { self.most } else { self.size };
        loop {
            // One byte more than wanted, to see whether there is more.
            let mut piece = self.buffer(left.saturating_add(1));
            self.fill(&mut piece, left)?;
            let at_end = piece.len() < piece.capacity();
            let wanted = usize::try_from(left).unwrap_or(usize::MAX);
            let more = piece.len() > wanted;
            piece.truncate(wanted);
            left -= piece.len() as u64;
            pieces.push(piece)?;
            if more || at_end {
                return Ok(!more);
            }
        }
    }

    /// Sends lines with their line ends, and returns whether everything requested was sent.
    fn lines(&self, pieces: &mut Pieces<'_>, first: u64, count: u64) -> Result<bool, Stop> {
        let Some(mut before) = first.checked_sub(1) else {
            let message = "the first line of a file is line 1: there is no line 0".into();
            return Err(failure(FileErrorKind::Invalid, None, message).into());
        };
        let mut wanted = count;
        let mut passed = 0;
        let mut buffer = self.buffer(self.size.saturating_add(1));
        while wanted > 0 {
            buffer.clear();
            if self.read_some(&mut buffer)? == 0 {
                return Ok(true);
            }
            let mut data = buffer.as_slice();
            if before > 0 {
                let (lines, rest) = pass(data, before);
                before -= lines;
                passed += rest as u64;
                if before > 0 && passed >= SCANNED {
                    return Err(self.line_too_far(first).into());
                }
                data = &data[rest..];
            }
            let (lines, end) = pass(data, wanted);
            wanted -= lines;
            let room = self.most - pieces.bytes;
            if end as u64 > room {
                let room = usize::try_from(room).unwrap_or(end);
                pieces.push(data[..room].to_vec())?;
                return Ok(false);
            }
            pieces.push(data[..end].to_vec())?;
        }
        Ok(true)
    }

    /// Returns a buffer for the bytes that may still come, of at most one piece.
    fn buffer(&self, wanted: u64) -> Vec<u8> {
        let most = if self.size == 0 { UNKNOWN } else { CHUNK };
        Vec::with_capacity(usize::try_from(wanted).map_or(most, |wanted| wanted.min(most)))
    }

    /// Reads until the buffer is full or the file ends. A file that reported its size is taken to
    /// end there, without another read.
    fn fill(&self, buffer: &mut Vec<u8>, left: u64) -> Result<(), FileError> {
        while buffer.len() < buffer.capacity() {
            if self.read_some(buffer)? == 0 || (self.size > 0 && buffer.len() as u64 == left) {
                break;
            }
        }
        Ok(())
    }

    fn read_some(&self, buffer: &mut Vec<u8>) -> Result<usize, FileError> {
        loop {
            match rustix::io::read(&self.file, spare_capacity(buffer)) {
                Ok(bytes) => return Ok(bytes),
                Err(Errno::INTR) => {}
                Err(error) => return Err(refused("read", self.path, error)),
            }
        }
    }

    fn too_large(&self) -> FileError {
        let message = format!(
            "{} has {} bytes, and at most {} can be read at once: read some of its lines",
            shown(self.path),
            self.size,
            self.most
        );
        failure(FileErrorKind::TooLarge, None, message)
    }

    fn line_too_far(&self, first: u64) -> FileError {
        let message = format!(
            "line {first} of {} is not within its first {SCANNED} bytes, which is as far as lines \
             are searched: use a command for this file",
            shown(self.path)
        );
        failure(FileErrorKind::TooLarge, None, message)
    }
}

/// Skips `lines` line ends, or as many as there are. Returns how many, and the offset after them.
fn pass(data: &[u8], lines: u64) -> (u64, usize) {
    let all = memchr::memchr_iter(b'\n', data).count() as u64;
    if all < lines {
        return (all, data.len());
    }
    let last = usize::try_from(lines).ok().and_then(|lines| lines.checked_sub(1));
    let end = last.and_then(|last| memchr::memchr_iter(b'\n', data).nth(last));
    (lines, end.map_or(0, |end| end + 1))
}

/// The pieces of a file that are being sent. The last one is held back, to be sent together with
/// the reply.
struct Pieces<'a> {
    channel: &'a Channel,
    last: Option<Vec<u8>>,
    bytes: u64,
}

impl Pieces<'_> {
    fn push(&mut self, piece: Vec<u8>) -> Result<(), Stop> {
        if piece.is_empty() {
            return Ok(());
        }
        self.bytes += piece.len() as u64;
        if let Some(earlier) = self.last.replace(piece) {
            self.channel.send(&FileReply::Content(earlier))?;
        }
        Ok(())
    }

    fn finish(self, size: u64, complete: bool, mode: u32, made: Conversion) -> Result<(), Stop> {
        let answer = FileReply::Read { bytes: self.bytes, size, complete, mode, made };
        Ok(match self.last {
            Some(piece) => self.channel.send_all(&[FileReply::Content(piece), answer]),
            None => self.channel.send(&answer),
        }?)
    }
}

#[cfg(test)]
mod tests {
    use super::pass;

    #[test]
    fn line_ends_are_skipped_as_many_as_there_are() {
        let text = b"a\n\nbc\nd";
        let skipped: Vec<_> = (0..6).map(|lines| pass(text, lines)).collect();
        assert_eq!(skipped, [(0, 0), (1, 2), (2, 3), (3, 6), (3, 7), (3, 7)]);
        assert_eq!(pass(b"", 0), (0, 0));
        assert_eq!(pass(b"", 1), (0, 0));
    }
}
