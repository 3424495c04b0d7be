//! Calls that were answered with a ticket because they take long: they run on, and the same call
//! with the ticket gets their result.

use crate::{activity::Activity, call::FinishedCall};
use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};
use tokio::{sync::watch, task::JoinHandle};
use uuid::Uuid;

/// The maximum number of calls that may wait to be asked for.
const MAX_WAITING: usize = 64;

/// The identity of a call: its tool and its arguments, as canonical JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CallKey {
    pub(crate) tool: String,
    /// The name of the tool's argument for a ticket.
    pub(crate) ticket: &'static str,
    pub(crate) arguments: String,
}

/// A call that is under way. Dropping it ends the call and everything that it started.
#[derive(Debug)]
pub(crate) struct PendingCall {
    pub(crate) key: CallKey,
    pub(crate) task: JoinHandle<FinishedCall>,
    pub(crate) activity: watch::Receiver<Activity>,
}

impl Drop for PendingCall {
    fn drop(&mut self) {
        // The task owns the running call, which is cancelled when it is dropped.
        self.task.abort();
    }
}

/// The reason a ticket is not accepted.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum TicketError {
    #[error(
        "there is no ticket {0:?}: it was used already, or this server was started again since. \
         Nothing was run"
    )]
    Unknown(String),
    #[error("the ticket belongs to another call, {tool} with {arguments}. Nothing was run")]
    OtherCall { tool: String, arguments: String },
}

impl TicketError {
    /// Returns what to do about it.
    pub(crate) const fn hint(&self) -> &'static str {
        match self {
            Self::Unknown(_) => "to repeat the call, omit the ticket",
            Self::OtherCall { .. } => "repeat exactly that call with the ticket",
        }
    }
}

/// The calls that wait to be asked for.
#[derive(Debug, Default)]
pub(crate) struct Tickets {
    waiting: Mutex<HashMap<String, PendingCall>>,
}

impl Tickets {
    /// Keeps a call and returns the ticket for it; gives the call back if too many are kept.
    pub(crate) fn issue(&self, call: PendingCall) -> Result<String, PendingCall> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.len() >= MAX_WAITING {
            return Err(call);
        }
        let ticket = Uuid::new_v4().to_string();
        waiting.insert(ticket.clone(), call);
        Ok(ticket)
    }

    /// Returns the call of a ticket, once, to somebody who makes exactly the same call.
    pub(crate) fn redeem(&self, ticket: &str, key: &CallKey) -> Result<PendingCall, TicketError> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(call) = waiting.remove(ticket) else {
            return Err(TicketError::Unknown(ticket.to_owned()));
        };
        if call.key == *key {
            return Ok(call);
        }
        let CallKey { tool, arguments, .. } = call.key.clone();
        waiting.insert(ticket.to_owned(), call);
        Err(TicketError::OtherCall { tool, arguments })
    }

    /// Ends all calls.
    pub(crate) fn clear(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(arguments: &str) -> CallKey {
        CallKey { tool: "bash".to_owned(), ticket: "ticket", arguments: arguments.to_owned() }
    }

    fn pending(arguments: &str) -> PendingCall {
        let (_, activity) = watch::channel(Activity::Running);
        PendingCall { key: key(arguments), task: tokio::spawn(std::future::pending()), activity }
    }

    #[tokio::test]
    async fn a_ticket_is_for_one_call_and_one_use() {
        let tickets = Tickets::default();
        let ticket = tickets.issue(pending("{\"command\":\"a\"}")).unwrap();
        let other = tickets.redeem(&ticket, &key("{\"command\":\"b\"}")).unwrap_err();
        assert!(matches!(other, TicketError::OtherCall { .. }), "{other}");
        let call = tickets.redeem(&ticket, &key("{\"command\":\"a\"}")).unwrap();
        assert!(!call.task.is_finished());
        let again = tickets.redeem(&ticket, &key("{\"command\":\"a\"}")).unwrap_err();
        assert_eq!(again, TicketError::Unknown(ticket));
    }

    #[tokio::test]
    async fn the_number_of_calls_that_wait_is_limited() {
        let tickets = Tickets::default();
        for _ in 0..MAX_WAITING {
            tickets.issue(pending("{}")).unwrap();
        }
        assert!(tickets.issue(pending("{}")).is_err());
        tickets.clear();
        assert!(tickets.issue(pending("{}")).is_ok());
    }
}
