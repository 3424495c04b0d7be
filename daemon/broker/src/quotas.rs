//! What one user may have at once and ask in a second, and what they are told past it. Broker.

use crate::census::SESSIONS_OF_USER;
use palisade_policy::Size;
use palisade_protocol::{ErrorCode, Request, WireError};
use std::{
    collections::HashMap,
    fmt,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

/// When to try again after what ends at a time that nobody knows.
pub(crate) const SOON: Duration = Duration::from_secs(1);
/// How many users' paces are known before those that stand still are forgotten.
pub(crate) const KNOWN: usize = 1024;

/// How much one user's spools may hold, if nothing else is said: sixteen calls that print as much as
/// is kept.
pub(crate) const SPOOL_BYTES: u64 = 1 << 30;
/// The same of what can be undone: four sessions that fill what a profile gives them by default.
pub(crate) const UNDO_BYTES: u64 = 1 << 30;

/// How much of the audit log one user may fill in a day, if nothing else is said: half a million
/// small calls.
const AUDIT_PER_DAY: Size = Size::gib(1);

/// What one user may have; none: whatever sessions and profiles allow.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Quotas {
    pub(crate) sessions: usize,
    pub(crate) calls: Option<u32>,
    pub(crate) jobs: Option<u32>,
    pub(crate) spools: Bound,
    pub(crate) undo: Bound,
    /// How much the records of one user's calls may take in a day; a day's worth may come at once.
    pub(crate) audit_per_day: Size,
    pub(crate) requests_per_second: Option<u32>,
}

/// How much of one user's calls may be kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bound {
    pub(crate) bytes: u64,
    pub(crate) past: Past,
}

/// What happens past a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Past {
    /// Calls are refused, and nothing goes for them.
    Refused,
    /// The user's oldest go: a private daemon has no operator who could decide.
    OldestGo,
}

impl Default for Quotas {
    fn default() -> Self {
        Self {
            sessions: SESSIONS_OF_USER,
            calls: None,
            jobs: None,
            spools: Bound { bytes: SPOOL_BYTES, past: Past::Refused },
            undo: Bound { bytes: UNDO_BYTES, past: Past::Refused },
            audit_per_day: AUDIT_PER_DAY,
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

/// What is kept of a user's calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kept {
    /// Output that can be paged through.
    Spools,
    /// What calls replaced.
    Undo,
}

impl Kept {
    const fn key(self) -> &'static str {
        match self {
            Self::Spools => "quotas.spool_bytes",
            Self::Undo => "quotas.undo_bytes",
        }
    }
}

impl fmt::Display for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Spools => "the output",
            Self::Undo => "what can be undone",
        })
    }
}

/// One user may have no more of their calls kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "{kept} of this user's calls takes {used} of {most} bytes, and this call may need {more} more; \
     nothing was done"
)]
pub(crate) struct Full {
    pub(crate) kept: Kept,
    pub(crate) uid: u32,
    pub(crate) used: u64,
    pub(crate) most: u64,
    pub(crate) more: u64,
    /// In how long the oldest goes by itself; none if nothing does.
    pub(crate) oldest: Option<Duration>,
}

impl From<Full> for WireError {
    fn from(full: Full) -> Self {
        let Full { kept, uid, oldest, .. } = full;
        let what = match kept {
            Kept::Spools => "spools",
            Kept::Undo => "undo",
        };
        let when = match oldest {
            Some(left) => format!("the oldest goes by itself in {} minutes", minutes(left)),
            None => "nothing of it is complete yet".to_owned(),
        };
        let hint = format!(
            "{} allows no more; {when}; an operator lets go of it with `palisade forget --user \
             {uid} --only {what}`",
            kept.key()
        );
        past(full.to_string(), hint, oldest.unwrap_or_default().max(SOON))
    }
}

/// Whole minutes, and at least one.
const fn minutes(time: Duration) -> u64 {
    let whole = time.as_secs().div_ceil(60);
    if whole == 0 { 1 } else { whole }
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
    fn what_is_full_says_which_how_much_and_until_when() {
        let oldest = Some(Duration::from_secs(3601));
        let full = Full { kept: Kept::Undo, uid: 7, used: 90, most: 100, more: 20, oldest };
        let error = WireError::from(full);
        assert_eq!((error.code, error.retry_after_ms), (ErrorCode::LimitReached, Some(3_601_000)));
        assert_eq!(
            error.message,
            "what can be undone of this user's calls takes 90 of 100 bytes, and this call may need \
             20 more; nothing was done"
        );
        assert_eq!(
            error.hint,
            "quotas.undo_bytes allows no more; the oldest goes by itself in 61 minutes; an operator \
             lets go of it with `palisade forget --user 7 --only undo`"
        );
        let error = WireError::from(Full { kept: Kept::Spools, oldest: None, ..full });
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
