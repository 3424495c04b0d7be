//! Reads the records of all chains of a directory, once or repeatedly as they are written.

use crate::{
    chain::Chain,
    error::ReadError,
    files::{Directory, unread},
    line::Entry,
    lines::{LINE, next_line},
    record::Kind,
    source::{LogSource, is_gone, sources},
};
use memchr::memmem::Finder;
use std::{
    collections::HashMap,
    io::BufRead,
    path::{Path, PathBuf},
};

/// Most times that the directory is listed, if files are archived meanwhile.
pub(crate) const LISTINGS: usize = 5;

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
    /// Returns `true` if a record is selected.
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
    scope: Scope,
    wanted: WantedLines,
    /// The number of bytes and lines read from each file of the log, also if it is archived now.
    read: HashMap<(Chain, u64), (u64, u64)>,
}

/// The lines that are parsed.
#[derive(Debug)]
enum WantedLines {
    All,
    /// Those with one of these texts. To look for a text is much faster than to parse.
    With(Vec<Finder<'static>>),
}

impl WantedLines {
    /// Returns `true` if a line has to be parsed. One that is no record always has to be, because
    /// it is reported.
    fn contain(&self, line: &[u8]) -> bool {
        match self {
            Self::All => true,
            Self::With(texts) => {
                let is_record = line.starts_with(b"{\"seq\":") && line.ends_with(b"}\n");
                !is_record || texts.iter().any(|text| text.find(line).is_some())
            }
        }
    }
}

/// The records that are read.
#[derive(Debug)]
enum Scope {
    /// Only files of the log.
    Log,
    /// Also the archives beside the log, and those in further directories.
    Archives(Vec<PathBuf>),
}

impl Reader {
    /// Creates a reader that starts at the beginning of the log, without its archives.
    #[must_use]
    pub fn new(directory: &Path) -> Self {
        let directory = Directory(PathBuf::from(directory));
        let (scope, wanted) = (Scope::Log, WantedLines::All);
        Self { directory, scope, wanted, read: HashMap::new() }
    }

    /// Creates a reader that starts at the beginning of the archives: those beside the log, and
    /// those in further directories.
    #[must_use]
    pub fn with_archives(directory: &Path, further: Vec<PathBuf>) -> Self {
        Self { scope: Scope::Archives(further), ..Self::new(directory) }
    }

    /// Skips records whose line has none of these texts. Ids and names of kinds are in a line as they
    /// are.
    #[must_use]
    pub fn only_with(self, texts: &[&str]) -> Self {
        let texts = texts.iter().map(|text| Finder::new(text).into_owned());
        Self { wanted: WantedLines::With(texts.collect()), ..self }
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
        let mut listings = 0;
        loop {
            listings += 1;
            let gone = self.read_listed(&mut each)?;
            match gone {
                None => return Ok(()),
                // The archive that it is in now is read from where reading ended.
                Some(_) if listings < LISTINGS => {}
                Some(error) => return Err(error.into()),
            }
        }
    }

    /// Reads what a listing of the directory names. Returns the error if a file was archived
    /// meanwhile.
    fn read_listed<E: From<ReadError>>(
        &mut self,
        each: &mut impl FnMut(Result<LocatedRecord, ReadError>) -> Result<(), E>,
    ) -> Result<Option<ReadError>, E> {
        let none = Vec::new();
        let further = match &self.scope {
            Scope::Log => &none,
            Scope::Archives(further) => further,
        };
        let chains = sources(&self.directory, further)?;
        let is_log = matches!(self.scope, Scope::Log);
        for (chain, sources) in chains {
            for source in sources {
                let key = (chain, source.first());
                let known = self.read.contains_key(&key);
                match &source {
                    // A reader of the log alone goes on in the archive of a file that it began.
                    LogSource::Archive(_) if is_log && !known => continue,
                    LogSource::Archive(_) | LogSource::File { .. } => {}
                }
                let place = self.read.entry(key).or_default();
                if source.ends_at().is_some_and(|end| place.0 >= end) {
                    continue;
                }
                match source.open(place.0) {
                    Ok(mut file) => {
                        let name = source.name();
                        let origin = (chain, name.as_str(), source.path());
                        let read = read_lines(origin, &mut file, place, &self.wanted, each);
                        match (read?, &source) {
                            (None, _) => {}
                            (Some(error), LogSource::File { .. }) => return Err(error.into()),
                            // What is in other archives and in the log can still be read.
                            (Some(error), LogSource::Archive(_)) => {
                                let why = error.to_string();
                                each(Err(ReadError::Archive { file: name, why }))?;
                            }
                        }
                    }
                    Err(error) if is_gone(&error) => return Ok(Some(error)),
                    Err(error @ ReadError::Archive { .. }) => each(Err(error))?,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(None)
    }
}

/// Passes the rest of a file to `each`, and moves its place forward. Returns the error if the file
/// can not be read.
fn read_lines<E: From<ReadError>>(
    (chain, name, path): (Chain, &str, &Path),
    file: &mut impl BufRead,
    (offset, number): &mut (u64, u64),
    wanted: &WantedLines,
    each: &mut impl FnMut(Result<LocatedRecord, ReadError>) -> Result<(), E>,
) -> Result<Option<ReadError>, E> {
    loop {
        let line = match next_line(file) {
            Ok(Some(line)) => line,
            Ok(None) => break,
            Err(error) => return Ok(Some(unread("read", path)(error))),
        };
        if line.last() != Some(&b'\n') && (line.len() as u64) < LINE {
            break;
        }
        *offset += line.len() as u64;
        *number += 1;
        if !wanted.contain(&line) {
            continue;
        }
        let place = LogPosition { file: name.to_owned(), line: *number };
        each(match Entry::parse(&line) {
            Ok(entry) => Ok(LocatedRecord { chain, place, entry, line }),
            Err(error) => {
                let (file, line) = (place.file, place.line);
                Err(ReadError::NotARecord { file, line, why: error.to_string() })
            }
        })?;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_without_a_wanted_text_are_skipped_unless_they_are_no_records() {
        let reader = Reader::new(Path::new("/")).only_with(&["c-1", "\"kind\":\"call\""]);
        for (line, is_wanted) in [
            (&b"{\"seq\":1,\"kind\":\"result\",\"call_id\":\"c-1\"}\n"[..], true),
            (b"{\"seq\":1,\"kind\":\"call\",\"call_id\":\"c-2\"}\n", true),
            (b"{\"seq\":1,\"kind\":\"result\",\"call_id\":\"c-2\"}\n", false),
            (b"{\"seq\":1,\"kind\":\"result\",\"call_id\":\"c-2\"\n", true),
            (b"\n", true),
        ] {
            assert_eq!(reader.wanted.contain(line), is_wanted, "{:?}", line.escape_ascii());
        }
    }
}
