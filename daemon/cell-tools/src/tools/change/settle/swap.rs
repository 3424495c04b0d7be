//! Puts in place what the program left. Runs in the cell.

use super::{
    super::{
        act::{DeletedContents, StepError, exchange, free, is_expected},
        aside::remove_as,
        done::TakenStep,
        names::rename_new,
        spot::{DirHandle, EntryLocation},
    },
    back::{give_back, restore_name},
    copy::CommitSource,
    staging::Staging,
};
use palisade_workspace::{EntryMetadata, look};
use rustix::io::Errno;
use std::{os::fd::BorrowedFd, rc::Rc};

/// Puts an entry at its name. What it replaces goes to the place of the new entry in the staging
/// directory.
pub(in super::super) fn place(
    spot: EntryLocation,
    source: CommitSource,
    staging: Rc<Staging>,
    old: Option<(EntryMetadata, DeletedContents)>,
) -> Result<TakenStep, StepError> {
    let (dir, aside) = (spot.dir()?, staging.dir()?);
    let name = source.aside.as_slice();
    let replaced = match old {
        None => {
            free(rename_new((aside, name), (&dir, &spot.name)))?;
            None
        }
        Some((old, below)) => {
            let kept = match exchange((aside, name), (&dir, &spot.name)) {
                Err(Errno::NOENT) => return Err(StepError::Changed),
                Err(Errno::INVAL) => swap_by_names(aside, name, &dir, &spot.name)?,
                done => {
                    done?;
                    name.to_vec()
                }
            };
            match is_expected(aside, &kept, &old, below) {
                Ok(true) => {}
                other => {
                    restore_name(aside, &kept, &dir, &spot.name)?;
                    return Err(other.err().map_or(StepError::Changed, StepError::from));
                }
            }
            Some(kept)
        }
    };
    let id = look(&dir, &spot.name)?.map(|made| made.id());
    drop(dir);
    Ok(TakenStep::Placed { spot, staging, replaced, id, late: source.late })
}

/// Swaps two entries on a file system that can not exchange names. For a moment nothing has the
/// name.
fn swap_by_names(
    aside: BorrowedFd<'_>,
    new: &[u8],
    dir: &DirHandle<'_>,
    name: &[u8],
) -> Result<Vec<u8>, Errno> {
    let kept = [new, b".old"].concat();
    rename_new((dir, name), (aside, &kept))?;
    rename_new((aside, new), (dir, name)).inspect_err(|_| {
        rename_new((aside, &kept), (dir, name)).ok();
    })?;
    Ok(kept)
}

/// Moves an entry that is deleted into the staging directory, until all other steps are taken.
pub(in super::super) fn take_away(
    spot: EntryLocation,
    old: &EntryMetadata,
    below: DeletedContents,
    (staging, kept): (Rc<Staging>, Vec<u8>),
    beside: &str,
) -> Result<TakenStep, StepError> {
    let dir = spot.dir()?;
    match rename_new((&dir, &spot.name), (staging.dir()?, &kept)) {
        Err(Errno::NOENT) => return Err(StepError::Changed),
        // A directory that its owner may not write can be renamed, but not moved elsewhere.
        Err(Errno::ACCESS) if below != DeletedContents::Nothing => {
            drop(dir);
            return remove_as(spot, old, below, beside);
        }
        done => done?,
    }
    match is_expected(staging.dir()?, &kept, old, below) {
        Ok(true) => {}
        other => {
            give_back(&staging, &kept, &dir, &spot.name)?;
            return Err(other.err().map_or(StepError::Changed, StepError::from));
        }
    }
    drop(dir);
    Ok(TakenStep::Taken { spot, staging, kept })
}
