//! The share of the log that each user fills, and the error that a user over their share gets. Runs
//! in the broker.

use crate::base::quotas::{KNOWN, SOON, quota_error};
use palisade_audit::Account;
use palisade_policy::Size;
use palisade_protocol::WireError;
use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);

/// The log volume of one user: it drains at one day's share per day.
#[derive(Debug)]
struct Volume {
    account: Account,
    filled: f64,
    at: Instant,
}

/// The log volume of every user.
#[derive(Debug, Default)]
pub(super) struct Volumes(Mutex<HashMap<u32, Volume>>);

impl Volumes {
    fn users(&self) -> MutexGuard<'_, HashMap<u32, Volume>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the account on which a user's records are counted.
    pub(super) fn account(&self, uid: u32, now: Instant) -> Account {
        let mut users = self.users();
        if users.len() > KNOWN {
            users.retain(|_, volume| {
                volume.account.is_shared() || now.duration_since(volume.at) < DAY
            });
        }
        let new = || Volume { account: Account::default(), filled: 0.0, at: now };
        users.entry(uid).or_insert_with(new).account.clone()
    }

    /// Denies a call of a user who has filled their share of the log. A call under way is recorded
    /// to its end, and its records count.
    #[allow(clippy::cast_precision_loss, reason = "a quota is not counted to the byte")]
    pub(super) fn check(&self, uid: u32, share: Size, now: Instant) -> Result<(), WireError> {
        let mut users = self.users();
        let Some(volume) = users.get_mut(&uid) else { return Ok(()) };
        let (share_bytes, rate) = (share.bytes() as f64, share.bytes() as f64 / DAY.as_secs_f64());
        let drained = now.duration_since(volume.at).as_secs_f64() * rate;
        volume.filled = (volume.filled - drained).max(0.0) + volume.account.take() as f64;
        volume.at = now;
        if volume.filled < share_bytes {
            return Ok(());
        }
        let over = Duration::try_from_secs_f64((volume.filled - share_bytes) / rate);
        let wait = over.unwrap_or(DAY).max(SOON);
        Err(quota_error(
            format!(
                "this user's calls have filled {share} of the audit log within a day; nothing was \
                 done"
            ),
            format!(
                "the daemon's quotas.audit_per_day is the limit; try again in {} s",
                wait.as_secs().max(1)
            ),
            wait,
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_audit::{Log, Options, Record, SessionClose};
    use palisade_protocol::ErrorCode;

    fn share(bytes: &str) -> Size {
        serde_json::from_str(bytes).unwrap()
    }

    #[test]
    fn a_share_is_one_users_and_drains_in_a_day() {
        let directory = tempfile::tempdir().unwrap();
        let log = Log::open(directory.path(), Options::new("test")).unwrap();
        let volumes = Volumes::default();
        let start = Instant::now();
        let close = || Record::SessionClose(SessionClose { session: "s".repeat(8000), calls: 1 });
        assert_eq!(volumes.check(1, share("16000"), start), Ok(()));
        drop(log.append_for(&volumes.account(1, start), &close()).unwrap());
        assert_eq!(volumes.check(1, share("16000"), start), Ok(()), "half of it");
        log.defer_for(volumes.account(1, start), close).unwrap();
        assert_eq!(volumes.check(1, share("16000"), start), Ok(()), "not written yet");
        log.catch_up().unwrap();
        let error = volumes.check(1, share("16000"), start).unwrap_err();
        assert_eq!(error.code, ErrorCode::LimitReached);
        assert!(error.message.contains("16000 B of the audit log within a day"), "{error}");
        // The user is some 340 bytes over, and 16,000 bytes drain per day.
        let wait = Duration::from_millis(error.retry_after_ms.unwrap());
        assert!(wait > DAY / 100 && wait < DAY / 20, "{wait:?}");
        assert_eq!(volumes.check(2, share("16000"), start), Ok(()), "another's");
        assert!(volumes.check(1, share("16000"), start + wait / 2).is_err());
        assert_eq!(volumes.check(1, share("16000"), start + wait + SOON), Ok(()));
        assert_eq!(volumes.check(1, share("\"1 MiB\""), start + wait + SOON), Ok(()));
    }
}
