//! Restores a file after a call that only appended to it or changed its mode or time, and leaves it
//! the same file. Runs in the cell.

use super::{
    cut::Truncation,
    fresh::{FileAttributes, TemporaryFile},
    omitted::Obstacle,
    plan::ModeTarget,
    restore::{Force, conflict},
    spot::EntryLocation,
    stage::{MOST_OPEN, PlannedState, Stage},
    step::Step,
};
use crate::tools::{refused, refused_io};
use palisade_plan::{
    cell::FileError,
    change::{EffectKind, InodeState, Print},
};
use palisade_workspace::EntryMetadata;
use rustix::{
    fs::{FileType, OFlags},
    io::Errno,
};
use sha2::{Digest as _, Sha256};
use std::{fs::File, os::unix::fs::FileExt as _};

/// The number of bytes that are read at once.
const PIECE: usize = 256 * 1024;

/// Plans to restore the size, mode and time of a file. With force, a file that does not have its
/// earlier bytes any more is left as it is and reported.
pub(super) fn revert(
    stage: &mut Stage<'_>,
    spot: &EntryLocation,
    was: InodeState,
    force: Force,
) -> Result<(), FileError> {
    let found = match stage.look(spot)? {
        PlannedState::There(now) if now.kind() != FileType::RegularFile => {
            Err((Some(now), Obstacle::OtherType))
        }
        PlannedState::There(now) if now.size < was.size => Err((Some(now), Obstacle::Shorter)),
        PlannedState::There(now) => Ok(now),
        PlannedState::Absent | PlannedState::Planned(_) => Err((None, Obstacle::Gone)),
    };
    let now = match (found, force) {
        (Ok(now), _) => now,
        (Err((_, obstacle)), Force::Yes) => {
            stage.not_restored.add(&spot.path(), obstacle);
            return Ok(());
        }
        (Err((now, _)), Force::No) => return Err(conflict(spot, now.as_ref(), None)),
    };
    if now.size > was.size {
        return cut(stage, spot, &now, was);
    }
    let path = spot.path();
    if now.mode() != was.mode {
        let digest = super::print::digest(spot, &now, u64::MAX);
        stage.mode(spot, now, was.mode, ModeTarget::Content(digest))?;
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

/// Plans to cut off what was appended. If it can be read, it is copied first, so that the step can
/// be rolled back.
fn cut(
    stage: &mut Stage<'_>,
    spot: &EntryLocation,
    now: &EntryMetadata,
    was: InodeState,
) -> Result<(), FileError> {
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
            let InodeState { size, mtime, .. } = was;
            (Print::Node { dev: now.dev, ino: now.ino, size, mtime }, None)
        }
        Err(error) => return Err(refused("read", &path, error)),
    };
    let sizes = (now.size, was.size);
    stage.effect(path.clone(), EffectKind::Replaced, sizes, print, Some(now));
    let step = Truncation { spot: spot.clone(), old: *now, was, tail };
    stage.plan(path, Some(FileType::RegularFile), Step::Cut(Box::new(step)))
}

/// Returns the digest of the first `size` bytes of a file.
fn first(file: &File, size: u64) -> std::io::Result<[u8; 32]> {
    let mut hash = Sha256::new();
    pieces(file, (0, size), |piece| {
        hash.update(piece);
        Ok(())
    })?;
    Ok(hash.finalize().into())
}

/// Copies a range of a file to a temporary file.
fn rest(
    stage: &mut Stage<'_>,
    spot: &EntryLocation,
    file: &File,
    part: (u64, u64),
) -> Result<TemporaryFile, FileError> {
    let fail = |error: std::io::Error| refused_io("read", &spot.path(), &error);
    let mut tail = stage.fresh(spot, FileAttributes::Past { mode: 0o600, mtime: (0, 0) })?;
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
