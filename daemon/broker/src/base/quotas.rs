//! Quotas and request rates of each user, and the errors past them. Runs in the broker.

use crate::base::census::SESSIONS_OF_USER;
use palisade_policy::Size;
use palisade_protocol::{ErrorCode, Phase, Request, WireError};
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// The retry time for quotas that become free at an unknown time.
pub(crate) const SOON: Duration = Duration::from_secs(1);
/// The number of tracked users above which idle ones are dropped.
pub(crate) const KNOWN: usize = 1024;

/// The default quota for one user's output store, in bytes: sixteen calls with the most output that
/// is stored.
pub(crate) const SPOOL_BYTES: u64 = 1 << 30;
/// The default quota for one user's undo records, in bytes: four sessions that use up what a
/// profile gives them by default.
const UNDO_BYTES: u64 = 1 << 30;
/// The time for which an undo record is stored, unless the configuration says otherwise.
pub(crate) const UNDO_KEEP: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// The default quota for one user's audit records per day: half a million small calls.
const AUDIT_PER_DAY: Size = Size::gib(1);

/// The quotas of one user. `None` means that only sessions and profiles limit it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quotas {
    pub(crate) sessions: usize,
    pub(crate) calls: Option<u32>,
    pub(crate) jobs: Option<u32>,
    pub(crate) spools: ByteQuota,
    pub(crate) undo: UndoBounds,
    /// The bytes per day for the records of one user's calls; all of them may come at once.
    pub(crate) audit_per_day: Size,
    pub(crate) requests_per_second: Option<u32>,
}

/// A quota of stored bytes for one user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ByteQuota {
    pub(crate) bytes: u64,
    pub(crate) past: OverQuotaAction,
}

/// The limits of one user's undo records, in size and time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UndoBounds {
    /// The value of `quotas.undo_bytes` in the configuration.
    pub(crate) bytes: u64,
    /// The value of `undo.keep` in the configuration.
    pub(crate) keep: Duration,
}

impl Default for UndoBounds {
    fn default() -> Self {
        Self { bytes: UNDO_BYTES, keep: UNDO_KEEP }
    }
}

/// The action when a quota is exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OverQuotaAction {
    /// New calls are refused, and nothing stored is deleted.
    Refused,
    /// The user's oldest entries are deleted: a private daemon has no operator who could decide.
    OldestGo,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            sessions: SESSIONS_OF_USER,
            calls: None,
            jobs: None,
            spools: ByteQuota { bytes: SPOOL_BYTES, past: OverQuotaAction::Refused },
            undo: UndoBounds::default(),
            audit_per_day: AUDIT_PER_DAY,
            requests_per_second: None,
        }
    }
}

impl Quotas {
    /// Refuses calls beyond the number that one user may have under way.
    pub(crate) fn check_calls(self, running: u32, more: u32) -> Result<(), WireError> {
        match self.calls {
            Some(most) if running.saturating_add(more) > most => Err(quota_error(
                format!("{running} calls of this user are already under way"),
                format!("quotas.calls allows {most}; wait for one of them to end"),
                SOON,
            )),
            Some(_) | None => Ok(()),
        }
    }
}

/// Returns the error for an exhausted quota.
pub(crate) fn quota_error(message: String, hint: String, retry: Duration) -> WireError {
    WireError::new(ErrorCode::LimitReached, message, hint).retry_after(retry)
}

/// Error: one user's output store is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the output store of this user holds {used} of {most} bytes, and this call may need {more} \
     more; nothing was done"
)]
pub(crate) struct QuotaFull {
    pub(crate) uid: u32,
    pub(crate) used: u64,
    pub(crate) most: u64,
    pub(crate) more: u64,
    /// The time until the oldest entry expires; `None` if no entry does.
    pub(crate) oldest: Option<Duration>,
}

impl From<QuotaFull> for WireError {
    fn from(full: QuotaFull) -> Self {
        let QuotaFull { uid, oldest, .. } = full;
        let when = match oldest {
            Some(left) => format!("the oldest output expires in {} minutes", minutes(left)),
            None => "no stored output is complete yet".to_owned(),
        };
        let hint = format!(
            "quotas.spool_bytes sets the limit; {when}; an operator can delete it with `palisade \
             forget --user {uid} --only spools`"
        );
        quota_error(full.to_string(), hint, oldest.unwrap_or_default().max(SOON))
    }
}

/// Returns a duration in minutes, rounded up, at least one.
const fn minutes(time: Duration) -> u64 {
    let whole = time.as_secs().div_ceil(60);
    if whole == 0 { 1 } else { whole }
}

/// The request rate of each user; one second's worth may come at once.
#[derive(Debug, Default)]
pub(crate) struct RequestRates {
    users: Mutex<HashMap<u32, Bucket>>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    /// The time at which the bucket is empty again, if no more requests come.
    empty_at: Instant,
}

impl RequestRates {
    /// Counts a request, and refuses it if it exceeds the user's rate.
    pub(crate) fn count(
        &self,
        uid: u32,
        request: &Request,
        quotas: Quotas,
        now: Instant,
    ) -> Result<(), WireError> {
        let (Some(rate), true) = (quotas.requests_per_second, is_counted(request)) else {
            return Ok(());
        };
        let each = Duration::from_secs(1) / rate.max(1);
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if users.len() > KNOWN {
            users.retain(|_, bucket| bucket.empty_at > now);
        }
        let bucket = users.entry(uid).or_insert(Bucket { empty_at: now });
        let filled = bucket.empty_at.max(now) + each;
        let limit = now + Duration::from_secs(1);
        if filled > limit {
            return Err(quota_error(
                format!("this user sends more than {rate} requests per second"),
                "quotas.requests_per_second of the daemon's configuration sets the limit"
                    .to_owned(),
                filled - limit,
            ));
        }
        bucket.empty_at = filled;
        Ok(())
    }
}

/// Returns `true` if a request counts towards the rate. Requests that belong to a counted one, or
/// end something, do not.
const fn is_counted(request: &Request) -> bool {
    match request.phase() {
        Phase::Greeting | Phase::DuringCall | Phase::Closing => false,
        Phase::Opening | Phase::Calling | Phase::Any => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_its_number_of_requests_for_each_user() {
        let pace = RequestRates::default();
        let quotas = Quotas { requests_per_second: Some(4), ..Quotas::default() };
        let start = Instant::now();
        let ask = |uid, millis| {
            pace.count(uid, &Request::Ping, quotas, start + Duration::from_millis(millis))
        };
        for _ in 0..4 {
            ask(1, 0).unwrap();
        }
        let error = ask(1, 0).unwrap_err();
        assert_eq!(error.code, ErrorCode::LimitReached);
        assert_eq!(error.retry_after_ms, Some(250));
        // Another user's requests and a close are not affected.
        ask(2, 0).unwrap();
        pace.count(1, &Request::Close, quotas, start).unwrap();
        // The request passes at the time that the error named, and not before.
        assert_eq!(ask(1, 249).unwrap_err().retry_after_ms, Some(1));
        ask(1, 250).unwrap();
        assert!(ask(1, 250).is_err());
        for _ in 0..4 {
            ask(1, 5_000).unwrap();
        }
        assert!(ask(1, 5_000).is_err());
        pace.count(1, &Request::Ping, Quotas::default(), start).unwrap();
    }

    #[test]
    fn what_is_full_says_which_how_much_and_until_when() {
        let oldest = Some(Duration::from_secs(3601));
        let full = QuotaFull { uid: 7, used: 90, most: 100, more: 20, oldest };
        let error = WireError::from(full);
        assert_eq!((error.code, error.retry_after_ms), (ErrorCode::LimitReached, Some(3_601_000)));
        assert_eq!(
            error.message,
            "the output store of this user holds 90 of 100 bytes, and this call may need 20 more; \
             nothing was done"
        );
        assert_eq!(
            error.hint,
            "quotas.spool_bytes sets the limit; the oldest output expires in 61 minutes; an \
             operator can delete it with `palisade forget --user 7 --only spools`"
        );
        let error = WireError::from(QuotaFull { oldest: None, ..full });
        assert_eq!(error.retry_after_ms, Some(1000));
        assert!(error.hint.ends_with("--only spools`"), "{}", error.hint);
    }

    #[test]
    fn calls_are_counted_together() {
        let quotas = Quotas { calls: Some(3), ..Quotas::default() };
        assert_eq!(quotas.check_calls(2, 1), Ok(()));
        let error = quotas.check_calls(2, 2).unwrap_err();
        assert_eq!((error.code, error.retry_after_ms), (ErrorCode::LimitReached, Some(1000)));
        assert_eq!(Quotas::default().check_calls(9, 9), Ok(()));
    }
}
