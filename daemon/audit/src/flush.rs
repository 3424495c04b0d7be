//! Flushes records to disk, in a separate thread so that no call waits for the disk.

use serde::{Deserialize, Serialize};
use std::{
    fmt,
    fs::File,
    io,
    str::FromStr,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread::{Builder, JoinHandle},
    time::Duration,
};

/// The time when records are flushed to disk. The kernel has them before their ticket is returned
/// in any case; this protects against a power failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Sync {
    /// Each record, before its ticket is returned.
    Always,
    /// All records together, at most this long after the first.
    Within(Duration),
}

/// The text is not a valid [`Sync`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither `always` nor a time from 1ms to 60000ms")]
pub struct SyncError(String);

impl Default for Sync {
    fn default() -> Self {
        Self::Within(Duration::from_millis(50))
    }
}

impl fmt::Display for Sync {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Always => f.write_str("always"),
            Self::Within(time) => write!(f, "{}ms", time.as_millis()),
        }
    }
}

impl FromStr for Sync {
    type Err = SyncError;

    fn from_str(text: &str) -> Result<Self, SyncError> {
        if text == "always" {
            return Ok(Self::Always);
        }
        match text.strip_suffix("ms").and_then(|number| number.parse().ok()) {
            Some(millis @ 1..=60_000) => Ok(Self::Within(Duration::from_millis(millis))),
            Some(_) | None => Err(SyncError(text.to_owned())),
        }
    }
}

impl TryFrom<String> for Sync {
    type Error = SyncError;

    fn try_from(text: String) -> Result<Self, SyncError> {
        text.parse()
    }
}

impl From<Sync> for String {
    fn from(sync: Sync) -> Self {
        sync.to_string()
    }
}

/// The flushing thread and its queue.
#[derive(Debug)]
pub(crate) struct Flusher {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    work: Mutex<FlushWork>,
    wake: Condvar,
}

#[derive(Debug, Default)]
struct FlushWork {
    dirty: Vec<Arc<File>>,
    stop: bool,
    failed: Option<String>,
}

impl Shared {
    fn work(&self) -> MutexGuard<'_, FlushWork> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self, within: Duration) {
        loop {
            let idle = |work: &mut FlushWork| work.dirty.is_empty() && !work.stop;
            let work =
                self.wake.wait_while(self.work(), idle).unwrap_or_else(PoisonError::into_inner);
            // Records that arrive in this time are flushed together.
            let more = self.wake.wait_timeout_while(work, within, |work| !work.stop);
            let mut work = more.unwrap_or_else(PoisonError::into_inner).0;
            let dirty = std::mem::take(&mut work.dirty);
            if dirty.is_empty() && work.stop {
                return;
            }
            drop(work);
            for file in dirty {
                if let Err(error) = file.sync_data() {
                    self.work().failed =
                        Some(format!("can not force records to the disk: {error}"));
                }
            }
        }
    }
}

impl Flusher {
    pub(crate) fn start(within: Duration) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        let theirs = Arc::clone(&shared);
        let thread = Builder::new().name("audit".to_owned()).spawn(move || theirs.run(within))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Queues files that have unflushed data. They are flushed in this order.
    pub(crate) fn dirty(&self, files: [&Arc<File>; 2]) {
        let mut work = self.shared.work();
        let was_idle = work.dirty.is_empty();
        for file in files {
            if !work.dirty.iter().any(|known| Arc::ptr_eq(known, file)) {
                work.dirty.push(Arc::clone(file));
            }
        }
        drop(work);
        if was_idle {
            self.shared.wake.notify_one();
        }
    }

    /// Returns the error of a failed flush: records that were reported as written may be missing.
    pub(crate) fn failed(&self) -> Option<String> {
        self.shared.work().failed.clone()
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.shared.work().stop = true;
        self.shared.wake.notify_one();
        if let Some(thread) = self.thread.take() {
            // The thread does not panic. If it did, its message was printed.
            thread.join().unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_choices_read_back() {
        for text in ["always", "1ms", "50ms", "60000ms"] {
            assert_eq!(text.parse::<Sync>().unwrap().to_string(), text);
        }
        for text in ["", "never", "0ms", "60001ms", "50", "50s", "-1ms"] {
            assert_eq!(text.parse::<Sync>(), Err(SyncError(text.to_owned())));
        }
    }
}
