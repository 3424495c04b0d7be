//! The hidden names in a workspace. The cell searches for them before each program, and its search
//! state is reused by the next session. Runs in the broker.

use crate::cells::files::{FileChannels, Lease};
use palisade_plan::cell::FileReply;
use std::{
    collections::HashMap,
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

/// The number of workspaces whose search state is stored.
const MOST: usize = 64;

/// The key of a stored search state: user, workspace and profile.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct ScanKey {
    pub(crate) uid: u32,
    pub(crate) workspace: Vec<u8>,
    pub(crate) profile: String,
}

/// The search states of cells, for the next cell in the same workspace. They belong to the cells;
/// the broker does not read them.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScanStates(Arc<Mutex<HashMap<ScanKey, Arc<OwnedFd>>>>);

impl ScanStates {
    fn get(&self, key: &ScanKey) -> Option<Arc<OwnedFd>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned()
    }

    fn put(&self, key: ScanKey, kept: OwnedFd) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if all.len() >= MOST && !all.contains_key(&key) {
            // A user with many workspaces takes the place of no other user's.
            let count = |uid: u32| all.keys().filter(|key| key.uid == uid).count();
            let most = all.keys().max_by_key(|key| count(key.uid)).cloned();
            most.and_then(|most| all.remove(&most));
        }
        all.insert(key, Arc::new(kept));
    }
}

/// The search for hidden names in one session.
#[derive(Debug)]
pub(crate) struct HiddenNameSearch {
    scans: ScanStates,
    key: ScanKey,
    started: AtomicBool,
}

/// The result of a search.
#[derive(Debug)]
pub(crate) struct ScanResult {
    /// A number that changes when other names are hidden, or when something around them changed.
    pub(crate) generation: u64,
    /// The list of hidden names, for the process that hides them.
    pub(crate) file: OwnedFd,
}

impl HiddenNameSearch {
    pub(crate) const fn new(scans: ScanStates, key: ScanKey) -> Self {
        Self { scans, key, started: AtomicBool::new(false) }
    }

    /// Has the cell search for the names that are hidden now.
    pub(crate) async fn scan(&self, files: &FileChannels) -> Result<ScanResult, ScanError> {
        let first = !self.started.swap(true, Ordering::Relaxed);
        let known = first.then(|| self.scans.get(&self.key)).flatten();
        let (files, scans, key) = (files.clone(), self.scans.clone(), self.key.clone());
        // Runs to its end even if the caller stops waiting: a descriptor comes back.
        let look = async move {
            let mut lease = files.lease().await.ok_or(ScanError::Channel)?;
            let (scanned, read) = ask(&mut lease, ScanRequest::Found, known.as_deref()).await?;
            if first
                && read > 0
                && let Ok((kept, _)) = ask(&mut lease, ScanRequest::Kept, None).await
            {
                scans.put(key, kept.file);
            }
            Ok(scanned)
        };
        tokio::spawn(look).await.map_err(|_| ScanError::Channel)?
    }
}

/// The request to the cell: for the hidden names, or for its search state.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ScanRequest {
    Found,
    Kept,
}

/// An error from the search.
#[derive(Debug)]
pub(crate) enum ScanError {
    Channel,
    Failed(palisade_plan::cell::FileError),
}

async fn ask(
    lease: &mut Lease,
    wanted: ScanRequest,
    known: Option<&OwnedFd>,
) -> Result<(ScanResult, u64), ScanError> {
    let reply = lease.scan(wanted == ScanRequest::Kept, known).await;
    match reply.map_err(|_| ScanError::Channel)? {
        (FileReply::Scanned { read, generation, .. }, Some(file)) => {
            Ok((ScanResult { generation, file }, read))
        }
        (FileReply::Failed(failure), _) => Err(ScanError::Failed(failure)),
        (_, _) => Err(ScanError::Channel),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_user_with_many_workspaces_keeps_no_other_users_search_from_being_stored() {
        let states = ScanStates::default();
        let key = |uid: u32, number: usize| ScanKey {
            uid,
            workspace: number.to_string().into_bytes(),
            profile: String::new(),
        };
        let file = || OwnedFd::from(std::fs::File::open("/dev/null").unwrap());
        states.put(key(1, 0), file());
        (0..MOST * 2).for_each(|number| states.put(key(2, number), file()));
        assert!(states.get(&key(1, 0)).is_some());
        assert!(states.get(&key(2, MOST * 2 - 1)).is_some());
        assert_eq!(states.0.lock().unwrap().len(), MOST);
    }
}
