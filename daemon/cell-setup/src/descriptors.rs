//! Closes the descriptors that a process inherited or does not need any more. Runs in the cell, while
//! it has privilege.
#![allow(unsafe_code)]

use crate::{
    detach,
    failure::StepFailure,
    kernel,
    steps::{StepInputs, StepResults},
};
use palisade_workspace::Layers;
use std::os::fd::AsRawFd as _;

/// Closes every descriptor except those that the steps' inputs and results name, and makes
/// `/dev/null` the standard streams.
pub(crate) fn close_others(
    given: &mut StepInputs,
    taken: &mut StepResults,
) -> Result<(), StepFailure> {
    (given.overlay_users, given.scanned) = (None, None);
    (taken.users, taken.store) = (None, None);
    let made = taken.made.iter().chain(&taken.overlays).chain(&given.namespaces);
    let layers = taken.layers.iter().flat_map(Layers::roots);
    let layers = layers.flat_map(|layers| [&layers.lower, &layers.upper]);
    let listeners = taken.listeners.iter().chain(&taken.inward);
    let outer = taken.outer.iter().filter_map(|outer| outer.index.as_ref());
    let landlock = taken.landlock.iter().flat_map(|l| [Some(&l.ruleset), l.apart.as_ref()]);
    let owned = made.chain(layers).chain(listeners).chain(landlock.flatten());
    let owned = owned.map(|fd| fd.as_raw_fd()).chain(outer.map(|index| index.as_raw_fd()));
    let keep: Vec<_> = owned.chain(given.keep.iter().copied()).collect();
    detach::standard_streams()?;
    // SAFETY: `owned` is every descriptor that the inputs and results of steps own, now that four of
    // them were dropped above. `given.keep` has those that `enter` owns besides: the channels, the
    // launcher's socket and the file of the OOM score.
    unsafe { kernel::close_all_but(&[&[0, 1, 2], keep.as_slice()].concat()) }
        .map_err(StepFailure::kernel("close_range"))
}
