//! Tells somebody of each record after it was written. Runs in the broker.

use crate::{chain::Chain, record::Record, time::Timestamp};
use std::{fmt, sync::Arc};

/// A record that was written.
#[derive(Debug, Clone, Copy)]
pub struct WrittenRecord<'a> {
    /// The record's chain.
    pub chain: Chain,
    /// The record's number.
    pub seq: u64,
    /// The time of the record.
    pub time: Timestamp,
    /// The record itself.
    pub record: &'a Record,
    /// The line as it is in the file, with its newline.
    pub line: &'a [u8],
}

/// A function that is told of each record, in order. It must not wait: nothing else is written
/// meanwhile. Clones share it.
#[derive(Clone)]
pub struct RecordObserver(Arc<dyn Fn(&WrittenRecord<'_>) + Send + std::marker::Sync>);

impl RecordObserver {
    /// Creates an observer from a function.
    #[must_use]
    pub fn new(tell: impl Fn(&WrittenRecord<'_>) + Send + std::marker::Sync + 'static) -> Self {
        Self(Arc::new(tell))
    }

    pub(crate) fn tell(&self, written: &WrittenRecord<'_>) {
        (self.0)(written);
    }
}

impl fmt::Debug for RecordObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RecordObserver")
    }
}
