//! Reads the records of all chains of a directory, once or repeatedly as they are written.

use crate::{
    chain::Chain,
    error::ReadError,
    files::{Directory, unread},
    line::Entry,
    record::Kind,
};
use std::{
    collections::HashMap,
    fs::File,
    io::{self, BufRead, BufReader, Read as _, Seek as _, SeekFrom},
    path::{Path, PathBuf},
};

/// Most bytes of a line. No record comes near that.
const LINE: u64 = 4 << 20;

/// The place of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogPosition {
    /// The file's name.
    pub file: String,
    /// The line number, from 1.
    pub line: u64,
}

/// A record with its place.
#[derive(Debug, Clone, PartialEq)]
pub struct LocatedRecord {
    /// The record's chain.
    pub chain: Chain,
    /// The record's place.
    pub place: LogPosition,
    /// The record.
    pub entry: Entry,
    /// The line as it is in the file, with its newline.
    pub line: Vec<u8>,
}

/// Selects records; a field that is `None` selects all.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only records of this session.
    pub session: Option<String>,
    /// Only records of this call.
    pub call_id: Option<String>,
    /// Only records of this kind.
    pub kind: Option<Kind>,
}

impl Filter {
    /// Whether a record is selected.
    #[must_use]
    pub fn matches(&self, entry: &Entry) -> bool {
        let record = &entry.record;
        self.session.as_deref().is_none_or(|session| record.session() == Some(session))
            && self.call_id.as_deref().is_none_or(|call| record.call_id() == Some(call))
            && self.kind.is_none_or(|kind| record.kind() == kind)
    }
}

/// Reads a directory, continuing where the last read ended.
#[derive(Debug)]
pub struct Reader {
    directory: Directory,
    /// The number of bytes and lines read from each file.
    read: HashMap<String, (u64, u64)>,
}

impl Reader {
    /// Creates a reader that starts at the beginning.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        Self { directory: Directory(PathBuf::from(directory)), read: HashMap::new() }
    }

    /// Passes all new records to `each`, chain by chain. An incomplete last line is left for the
    /// next read.
    ///
    /// # Errors
    /// If a file can not be read, or if `each` fails.
    pub fn read<E: From<ReadError>>(
        &mut self,
        mut each: impl FnMut(Result<LocatedRecord, ReadError>) -> Result<(), E>,
    ) -> Result<(), E> {
        for (chain, files) in self.directory.chains()? {
            for name in files {
                self.read_file(chain, &name, &mut each)?;
            }
        }
        Ok(())
    }

    fn read_file<E: From<ReadError>>(
        &mut self,
        chain: Chain,
        name: &str,
        each: &mut impl FnMut(Result<LocatedRecord, ReadError>) -> Result<(), E>,
    ) -> Result<(), E> {
        let path = self.directory.path(name);
        let failed = unread("read", &path);
        let (offset, number) = self.read.entry(name.to_owned()).or_default();
        let mut file = File::open(&path).map_err(&failed)?;
        file.seek(SeekFrom::Start(*offset)).map_err(&failed)?;
        let mut file = BufReader::new(file);
        while let Some(line) = next_line(&mut file).map_err(&failed)? {
            if line.last() != Some(&b'\n') && (line.len() as u64) < LINE {
                break;
            }
            *offset += line.len() as u64;
            *number += 1;
            let place = LogPosition { file: name.to_owned(), line: *number };
            each(match Entry::parse(&line) {
                Ok(entry) => Ok(LocatedRecord { chain, place, entry, line }),
                Err(error) => {
                    let (file, line) = (place.file, place.line);
                    Err(ReadError::NotARecord { file, line, why: error.to_string() })
                }
            })?;
        }
        Ok(())
    }
}

/// Reads the next line with its newline; the last line may have none. A line that is too long is
/// returned in pieces.
pub(crate) fn next_line(file: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    file.take(LINE).read_until(b'\n', &mut line)?;
    Ok((!line.is_empty()).then_some(line))
}
