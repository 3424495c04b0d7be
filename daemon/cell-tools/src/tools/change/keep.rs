//! The undo record of a change: collected while it is planned, and sent once all of its content has
//! arrived. Runs in the cell.

use super::{
    settle::content::{attributes, names_others},
    spot::EntryLocation,
};
use crate::tools::{Stop, failure, refused, refused_io, shown};
use palisade_channel::Channel;
use palisade_plan::{
    Path,
    cell::{CHUNK, FileError, FileErrorKind, FileReply},
    change::{Attribute, Before, Keep, State},
};
use palisade_workspace::EntryMetadata;
use rustix::{
    fs::{FileType, OFlags},
    io::Errno,
};
use std::{collections::HashMap, fs::File, os::unix::fs::FileExt as _};

/// The maximum number of messages sent at once. The kernel takes 1024 parts, and each message has
/// two.
const MOST_AT_ONCE: usize = 256;

/// The maximum number of bytes of a file's extended attributes.
const MOST_ATTRIBUTES: usize = 64 * 1024;

/// The maximum number of descriptors held open.
const MOST_OPEN: usize = 64;

/// The entries of an undo record that are to be sent.
#[derive(Debug)]
pub(super) struct UndoRecord {
    keep: Keep,
    entries: Vec<UndoEntry>,
    sources: HashMap<Vec<u8>, File>,
    bytes: u64,
}

#[derive(Debug)]
struct UndoEntry {
    before: Before,
    /// The file whose content follows the entry.
    file: Option<(EntryLocation, EntryMetadata)>,
}

impl UndoRecord {
    pub(super) fn new(keep: Keep) -> Self {
        Self { keep, entries: Vec::new(), sources: HashMap::new(), bytes: 0 }
    }

    /// Returns `true` if an undo record is wanted.
    pub(super) fn wants(&self) -> bool {
        self.keep != Keep::Nothing
    }

    /// Adds an entry without content.
    pub(super) fn before(&mut self, before: Before) -> Result<(), FileError> {
        self.add(before, None)
    }

    /// Adds what is at a spot.
    pub(super) fn spot(
        &mut self,
        spot: &EntryLocation,
        seen: &EntryMetadata,
        link: Option<Vec<u8>>,
    ) -> Result<(), FileError> {
        if self.keep == Keep::Nothing {
            return Ok(());
        }
        let path = spot.path();
        let target = match (seen.kind(), link) {
            (FileType::Symlink, None) => spot.link().map_err(|e| unread_link(&path, e))?,
            (_, link) => link.unwrap_or_default(),
        };
        let state = seen.state(|| target);
        let file = matches!(state, State::File { .. }).then(|| (spot.clone(), *seen));
        self.add(Before::State { path, state }, file)
    }

    /// Adds a regular file that will have another path before it is replaced.
    pub(super) fn at(
        &mut self,
        path: &Path,
        spot: &EntryLocation,
        seen: &EntryMetadata,
    ) -> Result<(), FileError> {
        let state = seen.state(Vec::new);
        let before = Before::State { path: path.clone(), state };
        self.add(before, Some((spot.clone(), *seen)))
    }

    /// Stores a descriptor from which the file at a path can be read.
    pub(super) fn source(&mut self, path: &Path, file: File) {
        if self.keep != Keep::Nothing && self.sources.len() < MOST_OPEN {
            self.sources.insert(path.0.clone(), file);
        }
    }

    fn add(
        &mut self,
        before: Before,
        file: Option<(EntryLocation, EntryMetadata)>,
    ) -> Result<(), FileError> {
        let Keep::Sent { bytes, entries } = self.keep else { return Ok(()) };
        self.bytes = self.bytes.saturating_add(file.as_ref().map_or(0, |(_, seen)| seen.size));
        if self.bytes > bytes || self.entries.len() >= usize::try_from(entries).unwrap_or(0) {
            let message = format!(
                "this would replace more than {bytes} bytes or {entries} entries, the most that \
                 an undo record can hold: nothing was changed"
            );
            return Err(failure(FileErrorKind::TooLarge, None, message));
        }
        self.entries.push(UndoEntry { before, file });
        Ok(())
    }

    /// Sends all entries, and then the messages in `last`.
    pub(super) fn send(mut self, channel: &Channel, last: Vec<FileReply>) -> Result<(), Stop> {
        let (mut messages, mut bytes) = (Vec::new(), 0);
        for UndoEntry { before, file } in self.entries {
            bytes += 256;
            messages.push(FileReply::Before(before));
            if let Some((spot, seen)) = file {
                let path = spot.path();
                let file = open(&spot, &seen, self.sources.remove(&path.0))?;
                let attributes = kept_attributes(&path, &file)?;
                if !attributes.is_empty() {
                    bytes += MOST_ATTRIBUTES;
                    messages.push(FileReply::Attributes(attributes));
                }
                bytes += content(channel, (&path, &file), &seen, &mut messages)?;
            }
            if bytes > CHUNK || messages.len() > MOST_AT_ONCE {
                crate::tools::go_on(channel)?;
                channel.send_all(&std::mem::take(&mut messages))?;
                bytes = 0;
            }
        }
        messages.extend(last);
        Ok(channel.send_all(&messages)?)
    }
}

/// Opens a file whose content is kept, unless it is open already.
fn open(
    spot: &EntryLocation,
    seen: &EntryMetadata,
    source: Option<File>,
) -> Result<File, FileError> {
    let path = spot.path();
    let file = match source {
        Some(file) => file,
        None => File::from(spot.open(OFlags::RDONLY).map_err(|e| not_kept(&path, e))?),
    };
    let stat = rustix::fs::fstat(&file).map_err(|e| refused("look at", &path, e))?;
    if EntryMetadata::from(&stat) == *seen { Ok(file) } else { Err(changed(&path)) }
}

/// Returns the attributes of a file that undo restores.
fn kept_attributes(path: &Path, file: &File) -> Result<Vec<Attribute>, FileError> {
    let mut attributes =
        attributes(file).map_err(|error| refused("read the attributes of", path, error))?;
    attributes.retain(|attribute| !names_others(attribute));
    let bytes: usize = attributes.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > MOST_ATTRIBUTES {
        let message = format!(
            "{} has {bytes} bytes of extended attributes, and an undo record holds at most \
             {MOST_ATTRIBUTES}: nothing was changed",
            shown(path)
        );
        return Err(failure(FileErrorKind::TooLarge, None, message));
    }
    Ok(attributes)
}

/// Adds the content of a file to `messages`, and sends some of them when they become too large.
fn content(
    channel: &Channel,
    (path, file): (&Path, &File),
    seen: &EntryMetadata,
    messages: &mut Vec<FileReply>,
) -> Result<usize, Stop> {
    let (mut at, mut held) = (0, 0);
    while at < seen.size {
        let wanted = usize::try_from(seen.size - at).unwrap_or(CHUNK).min(CHUNK);
        let mut piece = vec![0; wanted];
        file.read_exact_at(&mut piece, at).map_err(|error| {
            if error.kind() == std::io::ErrorKind::UnexpectedEof {
                return changed(path);
            }
            refused_io("keep the content of", path, &error)
        })?;
        at += wanted as u64;
        held += wanted;
        messages.push(FileReply::Content(piece));
        if held > CHUNK {
            crate::tools::go_on(channel)?;
            channel.send_all(&std::mem::take(messages))?;
            held = 0;
        }
    }
    Ok(held)
}

/// Returns the error for a file whose content can not be kept for undo.
fn not_kept(path: &Path, errno: Errno) -> FileError {
    if errno != Errno::ACCESS {
        return refused("keep the content of", path, errno);
    }
    let message = format!(
        "the mode of {} does not let this session read it, and undo keeps what is deleted or \
         replaced: nothing was changed ({errno})",
        shown(path)
    );
    failure(FileErrorKind::Unreadable, Some(errno), message)
}

/// Returns the error for a link that could not be read.
pub(super) fn unread_link(path: &Path, errno: Errno) -> FileError {
    if errno == Errno::STALE { changed(path) } else { refused("read the link", path, errno) }
}

/// Returns the error for an entry that changed after the change was prepared.
pub(super) fn changed(path: &Path) -> FileError {
    let message = format!(
        "{} was changed by another program meanwhile; nothing was changed: try again",
        shown(path)
    );
    failure(FileErrorKind::Conflict, Some(Errno::STALE), message)
}
