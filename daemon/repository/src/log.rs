//! The reflog of a reference: every value that it had, oldest first.

use crate::ObjectId;

/// One line of a reflog.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogEntry {
    /// The value before; `None` if the reference was created.
    pub old: Option<ObjectId>,
    /// The value after; `None` if the reference was deleted.
    pub new: Option<ObjectId>,
    /// The time in seconds since 1970, by the clock of whoever wrote the entry.
    pub time: i64,
}

/// The reflog of one reference, as it was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReferenceLog {
    bytes: Vec<u8>,
    entries: Vec<LogEntry>,
}

impl ReferenceLog {
    /// Parses a reflog. It ignores lines that git cannot parse.
    pub(crate) fn parse(bytes: Vec<u8>, kind: gix_hash::Kind) -> Self {
        let lines = bytes.split_inclusive(|byte| *byte == b'\n');
        let entries = lines.filter_map(|line| entry(line, kind)).collect();
        ReferenceLog { bytes, entries }
    }

    /// Returns the entries, oldest first.
    #[must_use]
    pub fn entries(&self) -> &[LogEntry] {
        &self.entries
    }

    /// Returns `true` if a later reflog begins with all of this one.
    #[must_use]
    pub fn is_prefix_of(&self, later: &ReferenceLog) -> bool {
        later.bytes.starts_with(&self.bytes)
    }
}

impl LogEntry {
    /// Iterates over the objects that the entry names.
    pub fn objects(&self) -> impl Iterator<Item = ObjectId> {
        self.new.into_iter().chain(self.old)
    }
}

fn entry(line: &[u8], kind: gix_hash::Kind) -> Option<LogEntry> {
    let line = line.strip_suffix(b"\n")?;
    let (old, rest) = line.split_at_checked(kind.len_in_hex())?;
    let (new, rest) = rest.strip_prefix(b" ")?.split_at_checked(kind.len_in_hex())?;
    let rest = rest.strip_prefix(b" ")?;
    let head = rest.split(|byte| *byte == b'\t').next()?;
    // Git reads a line as a string that ends at a NUL byte.
    let end_of_mail = head.iter().position(|byte| matches!(byte, b'>' | b'\0'))?;
    if head.get(end_of_mail) != Some(&b'>') {
        return None;
    }
    let when = std::str::from_utf8(head.get(end_of_mail + 1..)?).ok()?.strip_prefix(' ')?;
    let (time, zone) = when.split_once(' ')?;
    let digits = zone.strip_prefix(['+', '-'])?;
    let is_zone = digits.len() == 4 && digits.bytes().all(|digit| digit.is_ascii_digit());
    let id = |hex| ObjectId::from_hex(hex).ok();
    let (old, new) = (id(old)?, id(new)?);
    let present = |id: ObjectId| (!id.is_null()).then_some(id);
    let time = time.parse().ok().filter(|time| is_zone && *time > 0)?;
    Some(LogEntry { old: present(old), new: present(new), time })
}
