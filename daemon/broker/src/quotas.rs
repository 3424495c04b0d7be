//! What one user may have at once and ask in a second, and what they are told past it. Broker.

use crate::census::SESSIONS_OF_USER;
use palisade_protocol::{ErrorCode, Request, WireError};
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// When to try again after what ends at a time that nobody knows.
pub(crate) const SOON: Duration = Duration::from_secs(1);
/// How many users' paces are known before those that stand still are forgotten.
const KNOWN: usize = 1024;

/// What one user may have; none: whatever sessions and profiles allow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quotas {
    pub(crate) sessions: usize,
    pub(crate) calls: Option<u32>,
    pub(crate) jobs: Option<u32>,
    pub(crate) undo_bytes: u64,
    pub(crate) requests_per_second: Option<u32>,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            sessions: SESSIONS_OF_USER,
            calls: None,
            jobs: None,
            undo_bytes: crate::undo::USER_BYTES,
            requests_per_second: None,
        }
    }
}

impl Quotas {
    /// Refuses more calls than one user may have under way.
    pub(crate) fn check_calls(self, running: u32, more: u32) -> Result<(), WireError> {
        match self.calls {
            Some(most) if running.saturating_add(more) > most => Err(past(
                format!("{running} calls of this user are under way already"),
                format!("quotas.calls allows {most}; wait for one of them to end"),
                SOON,
            )),
            Some(_) | None => Ok(()),
        }
    }
}

/// The error of a quota that is used up.
pub(crate) fn past(message: String, hint: String, retry: Duration) -> WireError {
    WireError::new(ErrorCode::LimitReached, message, hint).retry_after(retry)
}

/// How fast each user asks: a second's worth may come at once.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    users: Mutex<HashMap<u32, Bucket>>,
}

#[derive(Debug, Clone, Copy)]
struct Bucket {
    /// When it is empty again, if nothing more comes.
    empty_at: Instant,
}

impl Pace {
    /// Counts a request; refuses one that comes too soon.
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
            return Err(past(
                format!("this user asks more than {rate} times in a second"),
                "quotas.requests_per_second of the daemon's configuration allows no more"
                    .to_owned(),
                filled - limit,
            ));
        }
        bucket.empty_at = filled;
        Ok(())
    }
}

/// Whether a request counts: not what belongs to one that did, nor what ends something.
const fn is_counted(request: &Request) -> bool {
    !matches!(request, Request::Hello(_) | Request::Input(_) | Request::Cancel(_) | Request::Close)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_has_its_number_of_requests_for_each_user() {
        let pace = Pace::default();
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
        // Another user, and what ends something, are not in its way.
        ask(2, 0).unwrap();
        pace.count(1, &Request::Close, quotas, start).unwrap();
        // When it was said, and no more than that.
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
    fn calls_are_counted_together() {
        let quotas = Quotas { calls: Some(3), ..Quotas::default() };
        assert_eq!(quotas.check_calls(2, 1), Ok(()));
        let error = quotas.check_calls(2, 2).unwrap_err();
        assert_eq!((error.code, error.retry_after_ms), (ErrorCode::LimitReached, Some(1000)));
        assert_eq!(Quotas::default().check_calls(9, 9), Ok(()));
    }
}
