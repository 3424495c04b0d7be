//! Makes a file what it was before a call that left it the same file. Room: the cell.

use super::{
    cut::Cut,
    fresh::{Fresh, Like},
    plan::Known,
    restore::conflict,
    seen::Seen,
    spot::Spot,
    stage::{MOST_OPEN, Node, Stage},
    step::Step,
};
use crate::tools::{refused, refused_io};
use palisade_plan::{
    cell::FileError,
    change::{EffectKind, Past, Print},
};
use rustix::{
    fs::{FileType, OFlags},
    io::Errno,
};
use sha2::{Digest as _, Sha256};
use std::{fs::File, os::unix::fs::FileExt as _};

/// How much is read at once.
const PIECE: usize = 256 * 1024;

/// Plans to make a file what it was.
pub(super) fn revert(stage: &mut Stage<'_>, spot: &Spot, was: Past) -> Result<(), FileError> {
    let now = match stage.look(spot)? {
        Node::There(now) if now.kind() == FileType::RegularFile && now.size >= was.size => now,
        Node::There(now) => return Err(conflict(spot, Some(&now), None)),
        Node::Absent | Node::Planned(_) => return Err(conflict(spot, None, None)),
    };
    if now.size > was.size {
        return cut(stage, spot, &now, was);
    }
    let path = spot.path();
    if now.mode() != was.mode {
        let digest = super::print::digest(spot, &now, u64::MAX);
        stage.mode(spot, now, was.mode, Known::Content(digest))?;
        let print = match digest {
            Some(digest) => Print::File { mode: was.mode, digest },
            None => now.node(),
        };
        let sizes = (now.size, now.size);
        stage.effect(path.clone(), EffectKind::Mode, sizes, print, Some(&now));
    }
    if now.mtime != was.mtime {
        let step = Step::Touch { spot: spot.clone(), old: now, mtime: was.mtime };
        stage.plan(path, Some(FileType::RegularFile), step)?;
    }
    Ok(())
}

/// Plans to take away what was added. What can be read is held until it is done, so that it can be
/// added again.
fn cut(stage: &mut Stage<'_>, spot: &Spot, now: &Seen, was: Past) -> Result<(), FileError> {
    let path = spot.path();
    stage.note(b"cut", &path, None);
    stage.note_part(&was.size.to_le_bytes());
    stage.note_old(now);
    stage.keep_seen(spot, now)?;
    let (print, tail) = match spot.open(OFlags::RDONLY) {
        Ok(file) => {
            let file = File::from(file);
            let digest = first(&file, was.size).map_err(|e| refused_io("read", &path, &e))?;
            let tail = rest(stage, spot, &file, (was.size, now.size))?;
            (Print::File { mode: was.mode, digest }, Some(tail))
        }
        Err(Errno::ACCESS) => {
            let Past { size, mtime, .. } = was;
            (Print::Node { dev: now.dev, ino: now.ino, size, mtime }, None)
        }
        Err(error) => return Err(refused("read", &path, error)),
    };
    let sizes = (now.size, was.size);
    stage.effect(path.clone(), EffectKind::Replaced, sizes, print, Some(now));
    let step = Cut { spot: spot.clone(), old: *now, was, tail };
    stage.plan(path, Some(FileType::RegularFile), Step::Cut(Box::new(step)))
}

/// The digest of a file's first bytes.
fn first(file: &File, size: u64) -> std::io::Result<[u8; 32]> {
    let mut hash = Sha256::new();
    pieces(file, (0, size), |piece| {
        hash.update(piece);
        Ok(())
    })?;
    Ok(hash.finalize().into())
}

/// What a file has from one length to another, aside.
fn rest(
    stage: &mut Stage<'_>,
    spot: &Spot,
    file: &File,
    part: (u64, u64),
) -> Result<Fresh, FileError> {
    let fail = |error: std::io::Error| refused_io("read", &spot.path(), &error);
    let mut tail = stage.fresh(spot, Like::Past { mode: 0o600, mtime: (0, 0) })?;
    pieces(file, part, |piece| tail.write(piece)).map_err(fail)?;
    if stage.open > MOST_OPEN {
        tail.close().map_err(fail)?;
    }
    Ok(tail)
}

fn pieces(
    file: &File,
    (mut at, end): (u64, u64),
    mut take: impl FnMut(&[u8]) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut piece = vec![0; PIECE];
    while at < end {
        let wanted = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
        let piece = piece.get_mut(..wanted).unwrap_or_default();
        file.read_exact_at(piece, at)?;
        take(piece)?;
        at += wanted as u64;
    }
    Ok(())
}
