//! The output of a job: its end in memory, all of it in the output store, each byte at its offset.
//! Runs in the broker.

use super::ring::Ring;
use crate::stores::spool::{Spool, Spools};
use palisade_protocol::{CallId, OutputQuery, limits::MAX_CHUNK};
use std::{
    io,
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The output of a job so far.
#[derive(Debug)]
pub(crate) struct Tape {
    ring: Mutex<Ring>,
    spools: Spools,
    call_id: CallId,
    uid: u32,
}

/// The writing end of a [`Tape`].
#[derive(Debug)]
pub(crate) struct Recorder {
    spool: JobSpoolState,
    room: u64,
}

#[derive(Debug)]
enum JobSpoolState {
    NotNeeded,
    Open(Spool),
    Failed,
}

/// A part of the output.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct OutputPart {
    /// The offset of the part in the whole output.
    pub(crate) start: u64,
    pub(crate) bytes: Vec<u8>,
}

impl Tape {
    pub(crate) fn new(most: usize, spools: Spools, call_id: CallId, uid: u32) -> Self {
        Self { ring: Mutex::new(Ring::new(most)), spools, call_id, uid }
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.ring.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads at most `limit` bytes from `place` on, or from the first later offset that is
    /// available.
    pub(crate) async fn read(&self, place: u64, limit: usize) -> OutputPart {
        let limit = limit.min(MAX_CHUNK);
        if let Some(bytes) = self.ring().from(place, limit) {
            return OutputPart { start: place, bytes };
        }
        let query =
            OutputQuery { call_id: self.call_id.clone(), offset: place, limit: Some(limit as u64) };
        if let Ok(page) = self.spools.page(query, self.uid).await
            && !page.data.0.is_empty()
        {
            return OutputPart { start: place, bytes: page.data.0 };
        }
        // The stored output is over its limit or missing: continue with what is in memory.
        let ring = self.ring();
        let start = ring.start().max(place);
        OutputPart { start, bytes: ring.from(start, limit).unwrap_or_default() }
    }
}

impl Recorder {
    /// Makes a recorder that stores at most `room` bytes.
    pub(crate) const fn new(room: u64) -> Self {
        Self { spool: JobSpoolState::NotNeeded, room }
    }

    /// Adds output; returns the total so far.
    pub(crate) async fn take(&mut self, tape: &Tape, bytes: &[u8]) -> u64 {
        // Stored before memory drops it, so that a reader always finds it in one of the two.
        let written = match &mut self.spool {
            JobSpoolState::NotNeeded if tape.ring().holds(bytes.len()) => Ok(()),
            JobSpoolState::NotNeeded => self.begin(tape, bytes).await,
            JobSpoolState::Open(spool) => spool.write_through(bytes).await,
            JobSpoolState::Failed => Ok(()),
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
        self.spool = JobSpoolState::Open(spool);
        Ok(())
    }

    async fn note(&mut self, tape: &Tape, written: io::Result<()>) {
        if let Err(error) = written {
            tracing::warn!(call = %tape.call_id, %error, "can not store the full output of a job");
            self.spool = JobSpoolState::Failed;
            // If the output filled the disk, the space is needed for the audit log.
            tape.spools.remove(&tape.call_id).await;
        }
    }

    /// Completes the stored output, so that memory can drop it.
    pub(crate) async fn finish(mut self, tape: &Tape) {
        let total = tape.ring().total();
        if matches!(self.spool, JobSpoolState::NotNeeded) && total > 0 {
            let begun = self.begin(tape, &[]).await;
            self.note(tape, begun).await;
        }
        let JobSpoolState::Open(spool) = self.spool else { return };
        match spool.finish(total).await {
            Ok(()) if total <= self.room => tape.ring().clear(),
            Ok(()) => {}
            Err(error) => tracing::warn!(%error, "could not complete the stored output of a job"),
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
        let OutputPart { start, bytes } = tape.read(place, limit).await;
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
