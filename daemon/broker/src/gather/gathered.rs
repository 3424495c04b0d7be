//! What is known of a call, and what was seen of what it would touch. Broker, pure.

use crate::{error::CallError, guard::Route, seen::Seen};
use palisade_policy::Facts;

/// What is known of a call, and what was seen of what it would touch.
#[derive(Debug)]
pub(crate) struct Gathered {
    pub(crate) facts: Facts,
    pub(crate) seen: Seen,
    /// Changes in the session before this was gathered.
    pub(crate) changes: u64,
    /// Why it can not be done, if that is known already. What is denied is not told.
    pub(crate) failed: Option<CallError>,
    /// How it runs, if it is a program.
    pub(crate) route: Route,
}
