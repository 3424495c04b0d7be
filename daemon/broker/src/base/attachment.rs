//! The bytes that a client sends after a call, piece by piece, and the count and digest of those
//! received. Runs in the broker.

use palisade_audit::{Digest, Hash};
use palisade_protocol::Input;
use sha2::{Digest as _, Sha256};
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};
use tokio::sync::mpsc;

/// The attachment of a call: its bytes arrive in pieces.
#[derive(Debug)]
pub(crate) struct Attachment {
    pieces: mpsc::Receiver<Input>,
    /// Pieces that were received before they are used.
    held: VecDeque<Input>,
    tally: Tally,
}

/// The size and hash of the pieces received so far.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tally(Arc<Mutex<TallyState>>);

#[derive(Debug, Default)]
struct TallyState {
    bytes: u64,
    hash: Sha256,
}

impl Attachment {
    pub(crate) fn new(pieces: mpsc::Receiver<Input>) -> Self {
        Self { pieces, held: VecDeque::new(), tally: Tally::default() }
    }

    /// Returns the next piece; `None` if there will be no more.
    pub(crate) async fn recv(&mut self) -> Option<Input> {
        if let Some(piece) = self.held.pop_front() {
            return Some(piece);
        }
        self.take().await
    }

    /// Receives the whole attachment, if it is not over `most` bytes. [`recv`](Self::recv) still
    /// returns its pieces afterwards.
    pub(crate) async fn hold(&mut self, most: u64) -> Result<(), String> {
        while !self.held.back().is_some_and(|piece| piece.end) {
            let piece = self.take().await.ok_or("it is incomplete")?;
            self.held.push_back(piece);
            if self.tally.taken().bytes > most {
                return Err(format!("it exceeds {most} bytes"));
            }
        }
        Ok(())
    }

    /// The whole content, once [`hold`](Self::hold) has received it.
    pub(crate) fn held(&self) -> Option<Vec<u8>> {
        self.held.back().filter(|piece| piece.end)?;
        Some(self.held.iter().flat_map(|piece| piece.data.0.iter().copied()).collect())
    }

    async fn take(&mut self) -> Option<Input> {
        let piece = self.pieces.recv().await?;
        self.tally.add(&piece.data.0);
        Some(piece)
    }

    pub(crate) fn tally(&self) -> Tally {
        self.tally.clone()
    }
}

impl Tally {
    fn taken(&self) -> MutexGuard<'_, TallyState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, bytes: &[u8]) {
        let mut taken = self.taken();
        taken.bytes += bytes.len() as u64;
        taken.hash.update(bytes);
    }

    /// The size and digest of what was received so far.
    pub(crate) fn digest(&self) -> Digest {
        let taken = self.taken();
        let sha256: [u8; 32] = taken.hash.clone().finalize().into();
        Digest { bytes: taken.bytes, sha256: Hash::from(sha256) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_protocol::Bytes;

    async fn attachment(pieces: &[&[u8]]) -> Attachment {
        let (sender, receiver) = mpsc::channel(8);
        for (at, piece) in pieces.iter().enumerate() {
            let (data, end) = (Bytes(piece.to_vec()), at + 1 == pieces.len());
            sender.send(Input { call: 1, data, end }).await.unwrap();
        }
        Attachment::new(receiver)
    }

    #[tokio::test]
    async fn what_is_held_is_received_once_and_counted_once() {
        let mut held = attachment(&[b"one", b"two"]).await;
        assert_eq!(held.held(), None);
        held.hold(6).await.unwrap();
        assert_eq!(held.held().as_deref(), Some(&b"onetwo"[..]));
        let before = held.tally().digest();
        assert_eq!(before, Digest { bytes: 6, sha256: Hash::of(b"onetwo") });
        assert_eq!(held.recv().await.unwrap().data.0, b"one");
        assert!(held.recv().await.unwrap().end);
        assert!(held.recv().await.is_none());
        assert_eq!(held.tally().digest(), before);
    }

    #[tokio::test]
    async fn too_much_and_what_breaks_off_is_not_held() {
        let mut long = attachment(&[b"one", b"two"]).await;
        assert_eq!(long.hold(5).await, Err("it exceeds 5 bytes".to_owned()));
        let (sender, receiver) = mpsc::channel(1);
        drop(sender);
        let mut broken = Attachment::new(receiver);
        assert_eq!(broken.hold(5).await, Err("it is incomplete".to_owned()));
    }
}
