//! The calls of a connection that are under way, by their request ids. Runs in the broker.

use crate::base::outcome::Fault;
use palisade_protocol::{ErrorCode, Input, RequestId, WireError};
use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// The calls under way.
#[derive(Debug, Clone, Default)]
pub(crate) struct CallHandles(Arc<Mutex<HashMap<RequestId, CallHandle>>>);

/// The handles by which a call under way can be influenced.
#[derive(Debug)]
pub(crate) struct CallHandle {
    pub(crate) cancel: CancellationToken,
    pub(crate) input: Option<mpsc::Sender<Input>>,
    pub(crate) fault: Fault,
    /// The number of calls: more than one for a batch.
    pub(crate) calls: usize,
}

/// Removes the entry of a call when it is dropped.
#[derive(Debug)]
pub(crate) struct CallHandleGuard {
    flights: CallHandles,
    id: RequestId,
}

impl CallHandles {
    fn map(&self) -> MutexGuard<'_, HashMap<RequestId, CallHandle>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn count(&self) -> usize {
        self.map().values().map(|flight| flight.calls).sum()
    }

    /// The request ids of the calls under way, in order.
    pub(crate) fn ids(&self) -> Vec<RequestId> {
        let mut ids: Vec<RequestId> = self.map().keys().copied().collect();
        ids.sort_unstable();
        ids
    }

    /// Adds a call, unless its id is in use.
    pub(crate) fn start(
        &self,
        id: RequestId,
        flight: CallHandle,
    ) -> Result<CallHandleGuard, WireError> {
        match self.map().entry(id) {
            Entry::Occupied(_) => Err(WireError::new(
                ErrorCode::InvalidRequest,
                format!("a call with id {id} is under way"),
                "give each request an id of its own",
            )),
            Entry::Vacant(place) => {
                place.insert(flight);
                Ok(CallHandleGuard { flights: self.clone(), id })
            }
        }
    }

    /// Cancels a call.
    pub(crate) fn cancel(&self, id: RequestId) -> Result<(), WireError> {
        match self.map().get(&id) {
            Some(flight) => {
                flight.cancel.cancel();
                Ok(())
            }
            None => Err(WireError::new(
                ErrorCode::NotFound,
                format!("no call with id {id} is under way"),
                "it may have ended already",
            )),
        }
    }

    /// Cancels all calls.
    pub(crate) fn cancel_all(&self) {
        self.map().values().for_each(|flight| flight.cancel.cancel());
    }

    /// Ends a call because its attachment is invalid; its result says so.
    pub(crate) fn fail(&self, id: RequestId, error: WireError) {
        if let Some(flight) = self.map().get(&id) {
            flight.fault.set(error);
            flight.cancel.cancel();
        }
    }

    /// Returns the channel for a piece of a call's attachment; `None` if the call has ended or
    /// takes none. After the last piece none is accepted.
    pub(crate) fn input(&self, input: &Input) -> Option<mpsc::Sender<Input>> {
        let mut flights = self.map();
        let flight = flights.get_mut(&input.call)?;
        if input.end { flight.input.take() } else { flight.input.clone() }
    }

    /// Ends the calls whose attachments will never be complete.
    pub(crate) fn no_more_input(&self) {
        for flight in self.map().values().filter(|flight| flight.input.is_some()) {
            flight.fault.set(WireError::new(
                ErrorCode::InvalidRequest,
                "the attachment is incomplete: the client stopped sending",
                "send the last piece with `end` before closing",
            ));
            flight.cancel.cancel();
        }
    }
}

impl Drop for CallHandleGuard {
    fn drop(&mut self) {
        self.flights.map().remove(&self.id);
    }
}
