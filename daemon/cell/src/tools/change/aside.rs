//! Takes something away by giving it another name where it is. Room: the cell.

use super::{
    act::{Below, StepError, is_expected, put_back},
    done::Done,
    names::rename_new,
    seen::Seen,
    spot::Spot,
};
use rustix::io::Errno;

/// Takes something away by giving it another name where it is.
pub(super) fn remove_as(
    spot: Spot,
    old: &Seen,
    below: Below,
    aside: &str,
) -> Result<Done, StepError> {
    let dir = spot.dir()?;
    let aside = aside.to_owned();
    match rename_new((&dir, spot.name.as_slice()), (&dir, aside.as_bytes())) {
        Err(Errno::NOENT) => return Err(StepError::Changed),
        done => done?,
    }
    match is_expected(&dir, aside.as_bytes(), old, below) {
        Ok(true) => {
            drop(dir);
            Ok(Done::Aside { spot, aside, below, fresh: None })
        }
        other => {
            put_back(&dir, &aside, &spot.name)?;
            Err(other.err().map_or(StepError::Changed, StepError::from))
        }
    }
}
