//! Keeps files in git's index that are only not there for the program: to git they look deleted, and
//! a commit of the whole would take them out of the repository. Room: the cell.
//!
//! This is for a program's mistakes. One that makes commits by hand can leave out of them what it likes.

use super::{
    content::open_file,
    found::{Item, directory_of},
};
use crate::{
    overlay::Layers,
    tools::{failure, refused_io, shown},
    view::View,
};
use palisade_plan::{
    Path,
    cell::{FileError, FileErrorKind},
    names::Kind,
};
use rustix::fs::{AtFlags, FileType};
use std::{collections::HashSet, io, os::unix::fs::FileExt as _};

/// What an index of so many bytes lists is not looked at.
const MOST: u64 = 1 << 28;

/// Refuses an index of git's that lists something hidden no more that is still there.
pub(super) fn refuse_loss(view: &View, layers: &Layers, item: &Item) -> Result<(), FileError> {
    if view.veil.hidden.is_empty() || item.spot.name != b"index" {
        return Ok(());
    }
    let above = match item.spot.way.strip_suffix(b".git") {
        Some(above) if above.is_empty() || above.ends_with(b"/") => above,
        Some(_) | None => return Ok(()),
    };
    let path = item.spot.path();
    let Some((old, new)) = both(layers, item).map_err(|e| refused_io("read", &path, &e))? else {
        return Ok(());
    };
    // What is no index lists nothing.
    let (Some(old), Some(new)) = (listed(&old), listed(&new)) else { return Ok(()) };
    let new: HashSet<Vec<u8>> = new.into_iter().collect();
    for name in old.into_iter().filter(|name| !new.contains(name)) {
        let lost = [above, &name].concat();
        let is_hidden = view.veil.hidden.covers(&lost, Kind::Other).is_some();
        let there = rustix::fs::statat(&layers.lower, &lost[..], AtFlags::SYMLINK_NOFOLLOW);
        if is_hidden && there.is_ok() {
            return Err(loss(&item.spot.base.real, &lost, &name));
        }
    }
    Ok(())
}

fn loss(workspace: &[u8], lost: &[u8], name: &[u8]) -> FileError {
    let (path, name) = (Path([workspace, b"/", lost].concat()), shown(&Path(name.to_vec())));
    let message = format!(
        "{} is tracked by git and hidden by the profile, so that to git it looks deleted; the \
         command would have taken it out of git's index. Name what is to be added (git add -- \
         FILE, git commit FILE), or leave it out (git add -A -- . ':(exclude){name}')",
        shown(&path)
    );
    FileError { about: Some(path), ..failure(FileErrorKind::Hidden, None, message) }
}

/// The file of both layers, if there are two.
fn both(layers: &Layers, item: &Item) -> io::Result<Option<(Vec<u8>, Vec<u8>)>> {
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

/// The names in an index, whichever hash its repository has.
fn listed(bytes: &[u8]) -> Option<Vec<Vec<u8>>> {
    [20, 32].into_iter().find_map(|hash| entries(bytes, hash))
}

/// How names are written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Names {
    /// Whole, and an entry fills up to eight bytes.
    Whole,
    /// As what is other than in the name before.
    Rest,
}

fn entries(bytes: &[u8], hash: usize) -> Option<Vec<Vec<u8>>> {
    let form = match (bytes.get(..4)?, number(bytes, 4)?) {
        (b"DIRC", 2 | 3) => Names::Whole,
        (b"DIRC", 4) => Names::Rest,
        _ => return None,
    };
    let (count, end) = (number(bytes, 8)?, bytes.len().checked_sub(hash)?);
    let (mut names, mut at) = (Vec::new(), 12);
    for _ in 0..count {
        // Times, numbers and sizes, the hash, then flags; one of those says that there are more.
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

/// A name, and where the next entry begins.
fn entry(
    bytes: &[u8],
    at: usize,
    start: usize,
    form: Names,
    last: Option<&Vec<u8>>,
) -> Option<(Vec<u8>, usize)> {
    let (kept, start) = match form {
        Names::Whole => (&[][..], start),
        Names::Rest => {
            let (cut, start) = varying(bytes, start)?;
            let last = last.map_or(&[][..], Vec::as_slice);
            (last.get(..last.len().checked_sub(cut)?)?, start)
        }
    };
    let rest = bytes.get(start..)?;
    let length = rest.iter().position(|byte| *byte == 0)?;
    let name = [kept, rest.get(..length)?].concat();
    let end = start + length;
    let next = match form {
        Names::Whole => at + (end - at) / 8 * 8 + 8,
        Names::Rest => end + 1,
    };
    Some((name, next))
}

/// A number of as many bytes as it needs, seven bits in each.
fn varying(bytes: &[u8], mut at: usize) -> Option<(usize, usize)> {
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

    /// An index of these names, as git writes it in a version.
    fn index(version: u32, hash: usize, names: &[&str]) -> Vec<u8> {
        let mut bytes = b"DIRC".to_vec();
        bytes.extend(version.to_be_bytes());
        bytes.extend(u32::try_from(names.len()).unwrap().to_be_bytes());
        let mut last = "";
        for name in names {
            let at = bytes.len();
            bytes.extend(vec![1; 40 + hash]);
            // The third version has more flags, of which one is set.
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
        assert_eq!(varying(&[0x81, 0x02, 9], 0), Some(((1 + 1) * 128 + 2, 2)));
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
