//! What a job prints: its end in memory, all of it in its spool, each byte at its place. Broker.

use super::ring::Ring;
use crate::spool::{Spool, Spools};
use palisade_protocol::{CallId, OutputQuery, limits::MAX_CHUNK};
use std::{
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// What a job has printed so far.
#[derive(Debug)]
pub(super) struct Tape {
    ring: Mutex<Ring>,
    spools: Spools,
    call_id: CallId,
    uid: u32,
}

/// The writing end.
#[derive(Debug)]
pub(super) struct Recorder {
    spool: State,
    room: u64,
}

#[derive(Debug)]
enum State {
    NotNeeded,
    Open(Spool),
    Failed,
}

/// Some of what was printed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Stretch {
    /// Where it starts, in the whole.
    pub(super) start: u64,
    pub(super) bytes: Vec<u8>,
}

impl Tape {
    pub(super) fn new(most: usize, spools: Spools, call_id: CallId, uid: u32) -> Self {
        Self { ring: Mutex::new(Ring::new(most)), spools, call_id, uid }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// At most `limit` bytes from `place` on, or from the first place after it that there is.
    pub(super) async fn read(&self, place: u64, limit: usize) -> Stretch {
        let limit = limit.min(MAX_CHUNK);
        if let Some(bytes) = self.ring().from(place, limit) {
            return Stretch { start: place, bytes };
        }
        let query =
            OutputQuery { call_id: self.call_id.clone(), offset: place, limit: Some(limit as u64) };
        if let Ok(page) = self.spools.page(query, self.uid).await
            && !page.data.0.is_empty()
        {
            return Stretch { start: place, bytes: page.data.0 };
        }
        // The spool's own limit was met, or there is none: on with what is in memory.
        let ring = self.ring();
        let start = ring.start().max(place);
        Stretch { start, bytes: ring.from(start, limit).unwrap_or_default() }
    }
}

impl Recorder {
    /// Writes at most `room` bytes to the spool.
    pub(super) const fn new(room: u64) -> Self {
        Self { spool: State::NotNeeded, room }
    }

    /// Takes in what was printed; says how much that is by now.
    pub(super) async fn take(&mut self, tape: &Tape, bytes: &[u8]) -> u64 {
        // In the spool before memory forgets it, so that no reader finds it in neither.
        let written = match &mut self.spool {
            State::NotNeeded if tape.ring().holds(bytes.len()) => Ok(()),
            State::NotNeeded => self.begin(tape, bytes).await,
            State::Open(spool) => spool.write_through(bytes).await,
            State::Failed => Ok(()),
        };
        self.note(tape, written).await;
        let mut ring = tape.ring();
        ring.push(bytes);
        ring.total()
    }

    async fn begin(&mut self, tape: &Tape, bytes: &[u8]) -> io::Result<()> {
        let mut spool = tape.spools.create(&tape.call_id, tape.uid, self.room).await?;
        let held = tape.ring().held();
        spool.write_through(&held).await?;
        spool.write_through(bytes).await?;
        self.spool = State::Open(spool);
        Ok(())
    }

    async fn note(&mut self, tape: &Tape, written: io::Result<()>) {
        if let Err(error) = written {
            tracing::warn!(call = %tape.call_id, %error, "no spool for a job's output");
            self.spool = State::Failed;
            // A disk that it filled is needed for the log.
            tape.spools.remove(&tape.call_id).await;
        }
    }

    /// Completes the spool, so that memory can forget what is in it.
    pub(super) async fn finish(mut self, tape: &Tape) {
        let total = tape.ring().total();
        if matches!(self.spool, State::NotNeeded) && total > 0 {
            let begun = self.begin(tape, &[]).await;
            self.note(tape, begun).await;
        }
        let State::Open(spool) = self.spool else { return };
        match spool.finish(total).await {
            Ok(()) if total <= self.room => tape.ring().clear(),
            Ok(()) => {}
            Err(error) => tracing::warn!(%error, "a job's spool was not completed"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tape(most: usize) -> (tempfile::TempDir, Tape) {
        let directory = tempfile::tempdir().unwrap();
        let spools = Spools::new(Some(directory.path().to_owned()));
        let call_id = uuid::Uuid::now_v7().to_string().parse().unwrap();
        (directory, Tape::new(most, spools, call_id, 7))
    }

    async fn read(tape: &Tape, place: u64, limit: usize) -> (u64, String) {
        let Stretch { start, bytes } = tape.read(place, limit).await;
        (start, String::from_utf8(bytes).unwrap())
    }

    #[tokio::test]
    async fn every_byte_is_at_its_place_in_memory_or_in_the_spool() {
        let (directory, tape) = tape(4);
        let mut recorder = Recorder::new(100);
        assert_eq!(recorder.take(&tape, b"abcd").await, 4);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 0);
        assert_eq!(recorder.take(&tape, b"efghij").await, 10);
        assert_eq!(read(&tape, 0, 3).await, (0, "abc".into()));
        assert_eq!(read(&tape, 3, 100).await, (3, "defghij".into()));
        assert_eq!(read(&tape, 8, 100).await, (8, "ij".into()));
        assert_eq!(read(&tape, 10, 100).await, (10, String::new()));
        recorder.finish(&tape).await;
        assert_eq!(tape.ring().held(), b"");
        assert_eq!(read(&tape, 9, 100).await, (9, "j".into()));
    }

    #[tokio::test]
    async fn what_is_in_neither_is_passed_over() {
        let (_directory, tape) = tape(4);
        let mut recorder = Recorder::new(5);
        recorder.take(&tape, b"abcdefghijkl").await;
        assert_eq!(read(&tape, 2, 100).await, (2, "cde".into()));
        assert_eq!(read(&tape, 5, 100).await, (8, "ijkl".into()));
        recorder.finish(&tape).await;
        assert_eq!(read(&tape, 5, 100).await, (8, "ijkl".into()));
    }

    #[tokio::test]
    async fn a_job_that_printed_little_is_spooled_at_its_end() {
        let (directory, tape) = tape(4);
        let mut recorder = Recorder::new(5);
        recorder.take(&tape, b"abc").await;
        recorder.finish(&tape).await;
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 2);
        assert_eq!(tape.ring().held(), b"");
        assert_eq!(read(&tape, 1, 9).await, (1, "bc".into()));
    }
}
