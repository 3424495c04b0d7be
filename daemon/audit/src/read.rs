//! Reads records of all chains of a directory, once or again and again as they come.

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

/// No record is nearly as long.
const LINE: u64 = 4 << 20;

/// Where a record stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The name of the file.
    pub file: String,
    /// The line, from 1.
    pub line: u64,
}

/// A record where it stands.
#[derive(Debug, Clone, PartialEq)]
pub struct Sighted {
    /// Its chain.
    pub chain: Chain,
    /// Where.
    pub place: Place,
    /// The record.
    pub entry: Entry,
    /// The line as it is, with its newline.
    pub line: Vec<u8>,
}

/// Which records are wanted: all, but for what is set.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Of this session.
    pub session: Option<String>,
    /// Of this call.
    pub call_id: Option<String>,
    /// Of this kind.
    pub kind: Option<Kind>,
}

impl Filter {
    /// Whether a record is wanted.
    #[must_use]
    pub fn matches(&self, entry: &Entry) -> bool {
        let record = &entry.record;
        self.session.as_deref().is_none_or(|session| record.session() == Some(session))
            && self.call_id.as_deref().is_none_or(|call| record.call_id() == Some(call))
            && self.kind.is_none_or(|kind| record.kind() == kind)
    }
}

/// Reads a directory, from where it was left.
#[derive(Debug)]
pub struct Reader {
    directory: Directory,
    /// How far each file was read: bytes and lines.
    read: HashMap<String, (u64, u64)>,
}

impl Reader {
    /// From the beginning.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        Self { directory: Directory(PathBuf::from(directory)), read: HashMap::new() }
    }

    /// Hands on what is there and was not handed on before, chain by chain. A last line that is
    /// not whole yet waits for the next time.
    ///
    /// # Errors
    /// If a file can not be read, and those of `each`.
    pub fn read<E: From<ReadError>>(
        &mut self,
        mut each: impl FnMut(Result<Sighted, ReadError>) -> Result<(), E>,
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
        each: &mut impl FnMut(Result<Sighted, ReadError>) -> Result<(), E>,
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
            let place = Place { file: name.to_owned(), line: *number };
            each(match Entry::parse(&line) {
                Ok(entry) => Ok(Sighted { chain, place, entry, line }),
                Err(error) => {
                    let (file, line) = (place.file, place.line);
                    Err(ReadError::NotARecord { file, line, why: error.to_string() })
                }
            })?;
        }
        Ok(())
    }
}

/// The next line with its newline; the last one may have none. A line without end comes in pieces.
pub(crate) fn next_line(file: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    file.take(LINE).read_until(b'\n', &mut line)?;
    Ok((!line.is_empty()).then_some(line))
}
