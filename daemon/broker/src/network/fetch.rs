//! Pages that egress rooms get for calls of sessions. Runs in the broker.

use super::{
    error::NetworkError,
    room::RoomCommand,
    rooms::{EgressRooms, stopping},
    session::NetworkSession,
};
use crate::cells::session::Session;
use palisade_egress_protocol::fetch::{FetchedPage, PageFailure, PageRequest};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::{mpsc, oneshot};

/// A page with its content, or the reason why there is none.
pub(crate) type PageResult = Result<(FetchedPage, Vec<u8>), PageFailure>;

/// The fetches of a session that are under way.
#[derive(Debug, Default)]
pub(super) struct OpenFetches(Mutex<FetchTable>);

#[derive(Debug, Default)]
struct FetchTable {
    next: u64,
    open: BTreeMap<u64, OpenFetch>,
}

/// A fetch that is under way. Dropping it tells the call that there will be no page.
#[derive(Debug)]
struct OpenFetch {
    content: Vec<u8>,
    most: u64,
    done: oneshot::Sender<PageResult>,
}

impl OpenFetches {
    fn table(&self) -> MutexGuard<'_, FetchTable> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a fetch of at most `most` bytes, and returns its number.
    fn begin(&self, most: u64) -> (u64, oneshot::Receiver<PageResult>) {
        let mut table = self.table();
        let number = table.next;
        table.next += 1;
        let (done, result) = oneshot::channel();
        table.open.insert(number, OpenFetch { content: Vec::new(), most, done });
        (number, result)
    }

    /// Adds the next bytes of a page. An error means that the room is broken.
    pub(super) fn add(&self, fetch: u64, piece: &[u8]) -> Result<(), NetworkError> {
        // The last pieces may cross the request to end the fetch.
        let mut table = self.table();
        let Some(open) = table.open.get_mut(&fetch) else { return Ok(()) };
        // The limit is checked here, too: memory must not depend on what the room sends.
        if (open.content.len() + piece.len()) as u64 > open.most {
            return Err(NetworkError::Protocol("it sent more of a page than was asked for"));
        }
        open.content.extend_from_slice(piece);
        Ok(())
    }

    /// Hands a page, or the reason why there is none, to its call.
    pub(super) fn finish(&self, fetch: u64, result: Result<FetchedPage, PageFailure>) {
        if let Some(OpenFetch { content, done, .. }) = self.table().open.remove(&fetch) {
            // A call that was cancelled needs no page.
            done.send(result.map(|page| (page, content))).ok();
        }
    }

    /// Removes a fetch. Returns whether it was still under way.
    pub(super) fn forget(&self, fetch: u64) -> bool {
        self.table().open.remove(&fetch).is_some()
    }

    /// Removes all fetches.
    pub(super) fn forget_all(&self) {
        self.table().open.clear();
    }
}

/// A fetch that a call waits for. Dropping it ends the fetch in the room.
struct AwaitedFetch {
    session: Arc<NetworkSession>,
    fetch: u64,
    commands: mpsc::Sender<RoomCommand>,
}

impl Drop for AwaitedFetch {
    fn drop(&mut self) {
        if self.session.fetches.forget(self.fetch) {
            let (commands, number, fetch) =
                (self.commands.clone(), self.session.number, self.fetch);
            // A room whose task has ended gets no pages.
            tokio::spawn(async move {
                commands.send(RoomCommand::EndFetch(number, fetch)).await.ok();
            });
        }
    }
}

impl EgressRooms {
    /// Has the room of a session's user get a page. If the caller stops waiting, the room stops, too.
    pub(crate) async fn fetch(
        &self,
        session: &Session,
        request: PageRequest,
    ) -> Result<PageResult, NetworkError> {
        self.fetch_for(session.uid(), session.number(), request).await
    }

    pub(super) async fn fetch_for(
        &self,
        uid: u32,
        number: palisade_plan::launcher::SessionNumber,
        request: PageRequest,
    ) -> Result<PageResult, NetworkError> {
        let served = self.sessions().into_iter().find(|served| served.number == number);
        let session =
            served.ok_or_else(|| NetworkError::Gone("it serves no session".to_owned()))?;
        let (fetch, result) = session.fetches.begin(request.max_bytes);
        let commands = self.user(uid);
        let awaited = AwaitedFetch { session, fetch, commands };
        let sent = awaited.commands.send(RoomCommand::Fetch(number, fetch, request)).await;
        sent.map_err(|_| stopping())?;
        let result = result.await;
        drop(awaited);
        result.map_err(|_| NetworkError::Gone("it ended before the page was there".to_owned()))
    }
}
