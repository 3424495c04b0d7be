//! What a profile hides in a workspace: looked for by the cell before each program, and remembered
//! from one session to the next. Broker.

use crate::files::{FileChannels, Lease};
use palisade_plan::cell::FileReply;
use std::{
    collections::HashMap,
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// Of how many workspaces something is remembered.
const MOST: usize = 64;

/// Whose workspace, and by which profile.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) uid: u32,
    pub(crate) workspace: Vec<u8>,
    pub(crate) profile: String,
}

/// What cells kept of their search, for the next in the same workspace. It is theirs: nothing here
/// looks into it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Scans(Arc<Mutex<HashMap<Key, Arc<OwnedFd>>>>);

impl Scans {
    fn get(&self, key: &Key) -> Option<Arc<OwnedFd>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn put(&self, key: Key, kept: OwnedFd) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST && !all.contains_key(&key) {
            // Whichever: it costs one search.
            let first = all.keys().next().cloned();
            first.and_then(|first| all.remove(&first));
        }
        all.insert(key, Arc::new(kept));
    }
}

/// The search of one session.
#[derive(Debug)]
pub(crate) struct Search {
    scans: Scans,
    key: Key,
    begun: AtomicBool,
}

/// What was found.
#[derive(Debug)]
pub(crate) struct Scanned {
    /// How many names are hidden.
    pub(crate) found: u64,
    /// Another, if something else is hidden, or what is around it changed.
    pub(crate) generation: u64,
    /// Which, for the process that hides them.
    pub(crate) file: OwnedFd,
}

impl Search {
    pub(crate) const fn new(scans: Scans, key: Key) -> Self {
        Self { scans, key, begun: AtomicBool::new(false) }
    }

    /// Has the cell look for what is hidden now.
    pub(crate) async fn look(&self, files: &FileChannels) -> Result<Scanned, ScanError> {
        let first = !self.begun.swap(true, Ordering::Relaxed);
        let known = first.then(|| self.scans.get(&self.key)).flatten();
        let (files, scans, key) = (files.clone(), self.scans.clone(), self.key.clone());
        // It is seen through whether or not anybody waits for it: a descriptor comes back.
        let look = async move {
            let mut lease = files.lease().await.ok_or(ScanError::Channel)?;
            let (scanned, read) = ask(&mut lease, Wanted::Found, known.as_deref()).await?;
            if first
                && read > 0
                && let Ok((kept, _)) = ask(&mut lease, Wanted::Kept, None).await
            {
                scans.put(key, kept.file);
            }
            Ok(scanned)
        };
        tokio::spawn(look).await.map_err(|_| ScanError::Channel)?
    }
}

/// What is wanted of the cell.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wanted {
    Found,
    Kept,
}

/// Why nothing was found out.
#[derive(Debug)]
pub(crate) enum ScanError {
    Channel,
    Failed(palisade_plan::cell::FileError),
}

async fn ask(
    lease: &mut Lease,
    wanted: Wanted,
    known: Option<&OwnedFd>,
) -> Result<(Scanned, u64), ScanError> {
    let reply = lease.scan(wanted == Wanted::Kept, known).await;
    match reply.map_err(|_| ScanError::Channel)? {
        (FileReply::Scanned { found, read, generation }, Some(file)) => {
            Ok((Scanned { found, generation, file }, read))
        }
        (FileReply::Failed(failure), _) => Err(ScanError::Failed(failure)),
        (_, _) => Err(ScanError::Channel),
    }
}
