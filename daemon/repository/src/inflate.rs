//! Inflates a zlib stream of a file into buffers whose size the caller limits.

use gix_zlib::{Decompress, FlushDecompress, Status};
use std::fs::File;
use std::os::unix::fs::FileExt;

const FIRST_CHUNK: u64 = 4 << 10;
const CHUNK: u64 = 64 << 10;

/// A zlib stream that begins at an offset of a file.
pub(crate) struct ZlibStream<'file> {
    file: &'file File,
    offset: u64,
    state: &'file mut Decompress,
    buffer: Vec<u8>,
    used: usize,
    /// The remaining bytes of the file to read. A stream can be long and yet contain nothing.
    left: u64,
    ended: bool,
}

impl<'file> ZlibStream<'file> {
    /// Begins a stream with a decompressor that is reused.
    pub(crate) fn new(file: &'file File, offset: u64, state: &'file mut Decompress) -> Self {
        state.reset();
        ZlibStream {
            file,
            offset,
            state,
            buffer: Vec::new(),
            used: 0,
            left: FIRST_CHUNK,
            ended: false,
        }
    }

    /// Allows reading as much of the file as `size` bytes need if they do not compress.
    pub(crate) fn expect(&mut self, size: usize) {
        let size = size as u64;
        self.left = self.left.saturating_add(size).saturating_add(size / 32);
    }

    /// Inflates until `out` is full or the stream ends; `None` if the stream is damaged.
    pub(crate) fn fill(&mut self, out: &mut [u8]) -> Option<usize> {
        let mut written = 0;
        while !self.ended && written < out.len() {
            if self.used == self.buffer.len() && !self.refill()? {
                return None;
            }
            let (before_in, before_out) = (self.state.total_in(), self.state.total_out());
            let rest = out.get_mut(written..)?;
            let status =
                self.state.decompress(self.buffer.get(self.used..)?, rest, FlushDecompress::None);
            self.ended = matches!(status.ok()?, Status::StreamEnd);
            let consumed = usize::try_from(self.state.total_in() - before_in).ok()?;
            let produced = usize::try_from(self.state.total_out() - before_out).ok()?;
            self.used += consumed;
            written += produced;
            if consumed == 0 && produced == 0 && !self.ended {
                return None;
            }
        }
        Some(written)
    }

    /// Returns `true` if the stream ends here, with nothing more to inflate.
    pub(crate) fn finish(&mut self) -> bool {
        self.fill(&mut [0]) == Some(0) && self.ended
    }

    /// Returns `true` if the stream has ended and the file ends with it.
    pub(crate) fn finish_with_file(&mut self) -> bool {
        self.finish() && self.used == self.buffer.len() && self.refill() == Some(false)
    }

    /// Reads more of the file; `Some(false)` at its end.
    fn refill(&mut self) -> Option<bool> {
        let chunk = if self.buffer.is_empty() { FIRST_CHUNK } else { CHUNK };
        let chunk = chunk.min(self.left);
        if chunk == 0 {
            return None;
        }
        self.buffer.resize(usize::try_from(chunk).ok()?, 0);
        let read = loop {
            match self.file.read_at(&mut self.buffer, self.offset) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                other => break other.ok()?,
            }
        };
        self.buffer.truncate(read);
        self.offset += read as u64;
        self.left -= read as u64;
        self.used = 0;
        Some(read > 0)
    }
}

/// Allocates a buffer of `size` zeroes; `None` if there is not enough memory.
pub(crate) fn buffer(size: usize) -> Option<Vec<u8>> {
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(size).ok()?;
    buffer.resize(size, 0);
    Some(buffer)
}

/// Inflates a stream that has exactly `size` bytes.
pub(crate) fn inflate(
    file: &File,
    offset: u64,
    size: usize,
    state: &mut Decompress,
) -> Option<Vec<u8>> {
    let mut stream = ZlibStream::new(file, offset, state);
    stream.expect(size);
    let mut out = buffer(size)?;
    (stream.fill(&mut out)? == size && stream.finish()).then_some(out)
}
