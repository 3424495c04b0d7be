//! Putting what the program left in its place. Room: the cell.

use super::{
    super::{
        act::{Below, StepError, exchange, free, is_expected},
        aside::remove_as,
        done::Done,
        names::rename_new,
        seen::Seen,
        spot::{Handle, Spot, look},
    },
    back::{give_back, restore_name},
    copy::Source,
    staging::Staging,
};
use rustix::io::Errno;
use std::{os::fd::BorrowedFd, rc::Rc};

/// What is replaced is then where its replacement was.
pub(in super::super) fn place(
    spot: Spot,
    source: Source,
    staging: Rc<Staging>,
    old: Option<(Seen, Below)>,
) -> Result<Done, StepError> {
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
    Ok(Done::Placed { spot, staging, replaced, id, late: source.late })
}

/// On a file system that can not exchange: for a moment nothing has the name.
fn swap_by_names(
    aside: BorrowedFd<'_>,
    new: &[u8],
    dir: &Handle<'_>,
    name: &[u8],
) -> Result<Vec<u8>, Errno> {
    let kept = [new, b".old"].concat();
    rename_new((dir, name), (aside, &kept))?;
    rename_new((aside, new), (dir, name)).inspect_err(|_| {
        rename_new((aside, &kept), (dir, name)).ok();
    })?;
    Ok(kept)
}

/// What is taken away waits until all else is done.
pub(in super::super) fn take_away(
    spot: Spot,
    old: &Seen,
    below: Below,
    (staging, kept): (Rc<Staging>, Vec<u8>),
    beside: &str,
) -> Result<Done, StepError> {
    let dir = spot.dir()?;
    match rename_new((&dir, &spot.name), (staging.dir()?, &kept)) {
        Err(Errno::NOENT) => return Err(StepError::Changed),
        // A directory that its owner may not write can not be moved, but renamed.
        Err(Errno::ACCESS) if below != Below::Nothing => {
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
    Ok(Done::Taken { spot, staging, kept })
}
