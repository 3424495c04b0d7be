//! The end of a transaction: what its program changed is read, judged, reviewed, and then committed
//! or discarded. Runs in the broker.

mod changes;
mod describe;
mod ending;
mod part;
pub(crate) mod resolve;
mod review;
pub(crate) mod settle;
mod undo_room;
pub(crate) mod unsettled;

use std::time::Duration;

/// The time limit for finding out what was changed, and again for committing it.
const SETTLE: Duration = Duration::from_secs(120);
