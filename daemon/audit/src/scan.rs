//! Searches the newest part of the log for records with certain text. Lines without it are not
//! parsed, so that a search does not take long. Archives are not searched. Runs in the broker.

use crate::{
    error::ReadError,
    files::{Directory, unread},
    line::Entry,
    lines::next_line,
    source::is_gone,
    time::Timestamp,
};
use memchr::memmem::Finder;
use std::{
    fs::File,
    io::BufReader,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// The part of the log that is searched.
#[derive(Debug, Clone, Copy)]
pub struct ScanBounds {
    /// Files that were written last before this time are not searched.
    pub since: Timestamp,
    /// The most bytes of files that are searched, the newest first.
    pub most_bytes: u64,
}

/// Passes each record of which the line contains one of `texts` to `each`, file by file. A line that
/// is not a record is skipped.
///
/// # Errors
/// If the log can not be read.
pub fn scan(
    directory: &Path,
    bounds: ScanBounds,
    texts: &[&str],
    mut each: impl FnMut(Entry, &[u8]),
) -> Result<(), ReadError> {
    let finders: Vec<Finder<'_>> = texts.iter().map(|text| Finder::new(text.as_bytes())).collect();
    for path in newest(&Directory(directory.to_owned()), bounds)? {
        let file = match File::open(&path).map_err(unread("read", &path)) {
            Ok(file) => file,
            // It was archived meanwhile.
            Err(error) if is_gone(&error) => continue,
            Err(error) => return Err(error),
        };
        let mut file = BufReader::with_capacity(256 * 1024, file);
        while let Some(line) = next_line(&mut file).map_err(unread("read", &path))? {
            if finders.iter().any(|finder| finder.find(&line).is_some())
                && let Ok(entry) = Entry::parse(&line)
            {
                each(entry, &line);
            }
        }
    }
    Ok(())
}

/// Returns the files that are searched, in the order in which they were begun.
fn newest(log: &Directory, bounds: ScanBounds) -> Result<Vec<PathBuf>, ReadError> {
    let mut files = Vec::new();
    for path in log.chains()?.into_values().flatten().map(|name| log.path(&name)) {
        match path.metadata().map_err(unread("read", &path)) {
            Ok(found) => {
                let written = found.modified().unwrap_or(SystemTime::UNIX_EPOCH);
                let since = written.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
                let millis = i64::try_from(since.as_millis()).unwrap_or(i64::MAX);
                if millis >= bounds.since.millis() {
                    files.push((millis, path, found.len()));
                }
            }
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error),
        }
    }
    files.sort_by(|one, other| other.cmp(one));
    let mut room = bounds.most_bytes;
    let fits = |file: &(i64, PathBuf, u64)| match room.checked_sub(file.2) {
        Some(left) => {
            room = left;
            true
        }
        None => false,
    };
    let mut chosen: Vec<PathBuf> =
        files.into_iter().take_while(fits).map(|(_, path, _)| path).collect();
    chosen.reverse();
    Ok(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Log, Options,
        record::{Record, SessionClose},
    };

    #[test]
    fn only_lines_with_the_text_are_parsed_and_only_new_files_are_read() {
        let directory = tempfile::tempdir().unwrap();
        let log = Log::open(directory.path(), Options::new("test")).unwrap();
        for session in ["one", "two"] {
            let record = SessionClose { session: session.to_owned(), calls: 0 };
            drop(log.append(&Record::SessionClose(record)).unwrap());
        }
        let found = |bounds: ScanBounds, texts: &[&str]| {
            let mut found = Vec::new();
            let each = |entry: Entry, line: &[u8]| {
                assert_eq!(Entry::parse(line).unwrap(), entry);
                found.extend(entry.record.session().map(str::to_owned));
            };
            scan(directory.path(), bounds, texts, each).unwrap();
            found
        };
        let all = ScanBounds { since: Timestamp::from_millis(0), most_bytes: u64::MAX };
        assert_eq!(found(all, &["\"session\":\"two\""]), ["two"]);
        assert_eq!(found(all, &["session_close"]), ["one", "two"]);
        assert_eq!(found(all, &[]), [""; 0]);
        let later = Timestamp::from_millis(Timestamp::now().millis() + 60_000);
        assert_eq!(found(ScanBounds { since: later, ..all }, &["session_close"]), [""; 0]);
        assert_eq!(found(ScanBounds { most_bytes: 1, ..all }, &["session_close"]), [""; 0]);
    }
}
