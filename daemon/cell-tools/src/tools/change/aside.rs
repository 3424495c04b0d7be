//! Removes an entry from its name by renaming it within its directory. Runs in the cell.

use super::{
    act::{DeletedContents, StepError, is_expected, put_back},
    done::TakenStep,
    names::rename_new,
    spot::EntryLocation,
};
use palisade_workspace::EntryMetadata;
use rustix::io::Errno;

/// Renames an entry to `aside` in the same directory, and checks that it was the expected one.
pub(super) fn remove_as(
    spot: EntryLocation,
    old: &EntryMetadata,
    below: DeletedContents,
    aside: &str,
) -> Result<TakenStep, StepError> {
    let dir = spot.dir()?;
    let aside = aside.to_owned();
    match rename_new((&dir, spot.name.as_slice()), (&dir, aside.as_bytes())) {
        Err(Errno::NOENT) => return Err(StepError::Changed),
        done => done?,
    }
    match is_expected(&dir, aside.as_bytes(), old, below) {
        Ok(true) => {
            drop(dir);
            Ok(TakenStep::Aside { spot, aside, below, fresh: None })
        }
        other => {
            put_back(&dir, &aside, &spot.name)?;
            Err(other.err().map_or(StepError::Changed, StepError::from))
        }
    }
}
