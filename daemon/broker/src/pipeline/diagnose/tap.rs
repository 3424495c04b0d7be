//! Passes the output of a checker to its parser. Runs in the broker.

use super::read::CheckerParser;
use crate::cells::context::OutputTap;
use palisade_protocol::Stream;
use std::sync::{Arc, Mutex, PoisonError};

/// Receives the whole output of a program, while the result keeps only its head and tail.
#[derive(Debug, Clone)]
pub(super) struct Tap(pub(super) Arc<Mutex<CheckerParser>>);

impl OutputTap for Tap {
    fn receive(&self, stream: Stream, bytes: &[u8]) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).receive(stream, bytes);
    }
}
