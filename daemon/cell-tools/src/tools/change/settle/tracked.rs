//! Protects hidden files in git's index. For the program they are missing, so git sees them as
//! deleted, and `git commit -a` would remove them from the repository. Runs in the cell.
//!
//! This guards against a program's mistakes. A program that makes commits by hand can leave out
//! whatever it likes.

use super::{
    content::open_file,
    found::{LayerChange, directory_of},
};
use crate::tools::{failure, refused_io, shown};
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind},
    names::Kind,
};
use palisade_workspace::{Layers, View};
use rustix::fs::{AtFlags, FileType};
use std::{collections::HashSet, io, os::unix::fs::FileExt as _};

/// The maximum size of an index in bytes that is examined.
const MOST: u64 = 1 << 28;

/// Refuses an index that no longer lists a hidden file which still exists.
pub(super) fn refuse_loss(
    view: &View,
    (all, layers): (&Layers, &Layers),
    item: &LayerChange,
) -> Result<(), FileError> {
    if view.matchers.hidden.is_empty() || item.spot.name != b"index" {
        return Ok(());
    }
    let is_own = view.main.as_ref().is_some_and(|main| {
        layers.path == main.path
            && item.spot.way.strip_prefix(b"worktrees/") == Some(main.name.as_slice())
    });
    let above = match item.spot.way.strip_suffix(b".git") {
        // The index of the worktree that the workspace is.
        _ if is_own => b"",
        Some(above) if above.is_empty() || above.ends_with(b"/") => above,
        Some(_) | None => return Ok(()),
    };
    let path = item.spot.path();
    let Some((old, new)) = both(layers, item).map_err(|e| refused_io("read", &path, &e))? else {
        return Ok(());
    };
    // A file that is not an index lists nothing.
    let (Some(old), Some(new)) = (listed(&old), listed(&new)) else { return Ok(()) };
    let new: HashSet<Vec<u8>> = new.into_iter().collect();
    for name in old.into_iter().filter(|name| !new.contains(name)) {
        let lost = [above, &name].concat();
        let is_hidden = view.matchers.hidden.covers(&lost, Kind::Other).is_some();
        let there = rustix::fs::statat(&all.lower, &lost[..], AtFlags::SYMLINK_NOFOLLOW);
        if is_hidden && there.is_ok() {
            return Err(loss(&all.path.0, &lost, &name));
        }
    }
    Ok(())
}

fn loss(workspace: &[u8], lost: &[u8], name: &[u8]) -> FileError {
    let (path, name) = (Path([workspace, b"/", lost].concat()), shown(&Path(name.to_vec())));
    let message = format!(
        "{} is tracked by git and hidden by the profile, so git sees it as deleted; the command \
         would have removed it from git's index. Name the files to add (git add -- FILE, git \
         commit FILE), or exclude it (git add -A -- . ':(exclude){name}')",
        shown(&path)
    );
    FileError { about: Some(path), ..failure(FileErrorKind::Hidden, None, message) }
}

/// Reads the file in both layers; `None` if it is not in both, or too large.
fn both(layers: &Layers, item: &LayerChange) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
    let (Some(old), Some(new)) = (&item.lower, &item.upper) else { return Ok(None) };
    let files = [old, new].iter().all(|seen| seen.kind() == FileType::RegularFile);
    if !files || old.size.max(new.size) > MOST {
        return Ok(None);
    }
    let read = |layer, seen| -> io::Result<Vec<u8>> {
        let file = open_file(directory_of(layer, &item.spot.way)?, &item.spot.name, seen)?;
        let size = usize::try_from(seen.size).unwrap_or(usize::MAX);
        let mut bytes = vec![0; size];
        file.read_exact_at(&mut bytes, 0).map(|()| bytes)
    };
    Ok(Some((read(&layers.lower, old)?, read(&layers.upper, new)?)))
}

/// Returns the names in an index, whichever hash its repository uses.
fn listed(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    [20, 32].into_iter().find_map(|hash| entries(bytes, hash))
}

/// The form in which names are stored.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NameEncoding {
    /// In full, with each entry padded to eight bytes.
    Whole,
    /// As the difference from the previous name.
    Rest,
}

fn entries(bytes: &[u8], hash: usize) -> Option<Vec<Vec<u8>>> {
    let form = match (bytes.get(..4)?, number(bytes, 4)?) {
        (b"DIRC", 2 | 3) => NameEncoding::Whole,
        (b"DIRC", 4) => NameEncoding::Rest,
        _ => return None,
    };
    let (count, end) = (number(bytes, 8)?, bytes.len().checked_sub(hash)?);
    let (mut names, mut at) = (Vec::new(), 12);
    for _ in 0..count {
        // Times, numbers and sizes, the hash, then flags. One flag says that there are more flags.
        let flags = at + 40 + hash;
        let more = bytes.get(flags)? & 0x40 != 0;
        let start = flags + if more { 4 } else { 2 };
        let (name, next) = entry(bytes, at, start, form, names.last())?;
        if name.is_empty() || next > end || names.last().is_some_and(|last| *last > name) {
            return None;
        }
        names.push(name);
        at = next;
    }
    Some(names)
}

/// Returns a name, and where the next entry begins.
fn entry(
    bytes: &[u8],
    at: usize,
    start: usize,
    form: NameEncoding,
    last: Option<&Vec<u8>>,
) -> Option<(Vec<u8>, usize)> {
    let (kept, start) = match form {
        NameEncoding::Whole => (&[][..], start),
        NameEncoding::Rest => {
            let (cut, start) = decode_varint(bytes, start)?;
            let last = last.map_or(&[][..], Vec::as_slice);
            (last.get(..last.len().checked_sub(cut)?)?, start)
        }
    };
    let rest = bytes.get(start..)?;
    let length = rest.iter().position(|byte| *byte == 0)?;
    let name = [kept, rest.get(..length)?].concat();
    let end = start + length;
    let next = match form {
        NameEncoding::Whole => at + (end - at) / 8 * 8 + 8,
        NameEncoding::Rest => end + 1,
    };
    Some((name, next))
}

/// Decodes a number of variable length, with seven bits in each byte.
fn decode_varint(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
    let mut byte = *bytes.get(at)?;
    let mut value = usize::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        at += 1;
        byte = *bytes.get(at)?;
        value = value.checked_add(1)?.checked_mul(128)?.checked_add(usize::from(byte & 0x7f))?;
    }
    Some((value, at + 1))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Builds an index of these names, as git writes it in the given version.
    fn index(version: u32, hash: usize, names: &[&str]) -> Vec<u8> {
        let mut bytes = b"DIRC".to_vec();
        bytes.extend(version.to_be_bytes());
        bytes.extend(u32::try_from(names.len()).unwrap().to_be_bytes());
        let mut last = "";
        for name in names {
            let at = bytes.len();
            bytes.extend(vec![1; 40 + hash]);
            // Version 3 has more flags, one of which is set.
            bytes.extend(if version == 3 { &[0x40, 9, 0x20, 0][..] } else { &[0, 9] });
            if version == 4 {
                let same = name.bytes().zip(last.bytes()).take_while(|(a, b)| a == b).count();
                let cut = last.len() - same;
                assert!(cut < 128);
                bytes.push(u8::try_from(cut).unwrap());
                bytes.extend(name[same..].bytes().chain([0]));
            } else {
                bytes.extend(name.bytes().chain([0]));
                while !(bytes.len() - at).is_multiple_of(8) {
                    bytes.push(0);
                }
            }
            last = name;
        }
        bytes.extend(b"TREE\0\0\0\x04anyx");
        bytes.extend(vec![7; hash]);
        bytes
    }

    #[test]
    fn an_index_of_every_version_is_read() {
        let names = [".env", "a", "a/longer-name-than-eight", "b/.env", "b/c"];
        let expected: Vec<_> = names.iter().map(|name| name.as_bytes().to_vec()).collect();
        for (version, hash) in [(2, 20), (3, 20), (4, 20), (2, 32), (4, 32)] {
            let told = listed(&index(version, hash, &names));
            assert_eq!(told.as_ref(), Some(&expected), "version {version}, {hash}");
            assert_eq!(listed(&index(version, hash, &[])), Some(vec![]));
        }
        assert_eq!(decode_varint(&[0x81, 0x02, 9], 0), Some(((1 + 1) * 128 + 2, 2)));
    }

    #[test]
    fn what_is_none_lists_nothing_and_does_no_harm() {
        let whole = index(2, 20, &["a", "b"]);
        assert_eq!(listed(b""), None);
        assert_eq!(listed(b"DIRC\0\0\0\x09\0\0\0\x01"), None);
        assert_eq!(listed(&index(2, 20, &["b", "a"])), None);
        for end in 0..whole.len() - 12 {
            assert_ne!(listed(&whole[..end]), listed(&whole), "{end}");
        }
        let mut many = whole;
        many[8..12].copy_from_slice(&u32::MAX.to_be_bytes());
        assert_eq!(listed(&many), None);
    }
}
