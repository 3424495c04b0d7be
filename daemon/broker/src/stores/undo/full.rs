//! The error of an undo store that has no room for a record. Runs in the broker. Pure: no I/O.

use super::bounds::SpaceUsed;
use crate::base::quotas::SOON;
use palisade_protocol::{ErrorCode, WireError};
use std::{fmt, time::Duration};

/// One user's undo records leave no room for another, and none of them may be deleted yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StoreFull {
    pub(super) uid: u32,
    /// The space that the stored records occupy.
    pub(super) used: SpaceUsed,
    /// The limit of one user's records.
    pub(super) most: SpaceUsed,
    /// The bytes that the new record needs.
    pub(super) more: u64,
    /// The age of the oldest record; `None` if all are being written.
    pub(super) oldest: Option<Duration>,
    pub(super) keep: Duration,
}

impl fmt::Display for StoreFull {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { uid, used, most, more, .. } = self;
        write!(
            f,
            "the undo store of uid {uid} is full: {} records that hold a loss ",
            used.records
        )?;
        if self.lacks_bytes() {
            write!(
                f,
                "take {} of {} bytes, and this call needs at least {more} more",
                used.bytes, most.bytes
            )?;
        } else {
            write!(f, "reach the limit ({})", most.records)?;
        }
        if let Some(oldest) = self.oldest {
            write!(f, "; the oldest is {} old", DurationText(oldest))?;
        }
        Ok(())
    }
}

impl std::error::Error for StoreFull {}

impl StoreFull {
    const fn lacks_bytes(&self) -> bool {
        self.used.bytes.saturating_add(self.more) > self.most.bytes
    }

    /// Returns how long until the oldest record expires.
    fn wait(&self) -> Duration {
        self.oldest.map_or(SOON, |oldest| self.keep.saturating_sub(oldest)).max(SOON)
    }

    fn hint(&self) -> String {
        let Some(oldest) = self.oldest else {
            return "wait for this user's calls that are under way".to_owned();
        };
        let raise = "raise quotas.undo_bytes of the daemon's configuration; or ";
        format!(
            "{}delete old records: `palisade forget --user {} --only undo --older-than {}`; or wait {}, \
             until the oldest has been kept for undo.keep ({})",
            if self.lacks_bytes() { raise } else { "" },
            self.uid,
            DurationText(oldest / 2).short(),
            DurationText(self.wait()),
            DurationText(self.keep),
        )
    }
}

impl From<StoreFull> for WireError {
    fn from(full: StoreFull) -> Self {
        let wait = full.wait();
        Self::new(ErrorCode::UndoStoreFull, full.to_string(), full.hint()).retry_after(wait)
    }
}

/// A duration, shown in the largest unit that fits.
struct DurationText(Duration);

const UNITS: [(u64, &str); 3] = [(24 * 60 * 60, "day"), (60 * 60, "hour"), (60, "minute")];

impl DurationText {
    fn parts(&self) -> (u64, &'static str) {
        let seconds = self.0.as_secs();
        let unit = UNITS.into_iter().find(|(unit, _)| seconds >= *unit);
        let (unit, name) = unit.unwrap_or((1, "second"));
        (seconds / unit, name)
    }

    /// Formats the duration as `--older-than` takes it.
    fn short(&self) -> String {
        let (count, name) = self.parts();
        format!("{}{}", count.max(1), name.get(..1).unwrap_or_default())
    }
}

impl fmt::Display for DurationText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, name) = self.parts();
        write!(f, "{count} {name}{}", if count == 1 { "" } else { "s" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 60 * 60);

    fn full() -> StoreFull {
        StoreFull {
            uid: 7,
            used: SpaceUsed { bytes: 90, records: 3 },
            most: SpaceUsed { bytes: 100, records: 1000 },
            more: 20,
            oldest: Some(DAY * 3),
            keep: DAY * 7,
        }
    }

    #[test]
    fn a_full_store_says_whose_how_old_and_what_to_do() {
        let error = WireError::from(full());
        assert_eq!(error.code, ErrorCode::UndoStoreFull);
        assert_eq!(error.retry_after_ms, Some(4 * 24 * 60 * 60 * 1000));
        assert_eq!(
            error.message,
            "the undo store of uid 7 is full: 3 records that hold a loss take 90 of 100 bytes, and this \
             call needs at least 20 more; the oldest is 3 days old"
        );
        assert_eq!(
            error.hint,
            "raise quotas.undo_bytes of the daemon's configuration; or delete old records: `palisade forget \
             --user 7 --only undo --older-than 1d`; or wait 4 days, until the oldest has been kept for \
             undo.keep (7 days)"
        );
    }

    #[test]
    fn too_many_records_are_told_by_their_number() {
        let most = SpaceUsed { bytes: 1000, records: 3 };
        let message = StoreFull { most, ..full() }.to_string();
        assert!(message.contains("3 records that hold a loss reach the limit (3)"), "{message}");
    }

    #[test]
    fn times_are_in_the_unit_that_tells_them() {
        for (seconds, long, short) in [
            (0, "0 seconds", "1s"),
            (59, "59 seconds", "59s"),
            (60, "1 minute", "1m"),
            (7200, "2 hours", "2h"),
            (86_399, "23 hours", "23h"),
            (86_400, "1 day", "1d"),
        ] {
            let span = DurationText(Duration::from_secs(seconds));
            assert_eq!((span.to_string().as_str(), span.short().as_str()), (long, short));
        }
    }
}
