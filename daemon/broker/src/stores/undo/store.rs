//! The directory of the undo store: a private file for each call, limited in size, deleted when
//! expired. Runs in the broker.

use super::{
    error::UndoError,
    head::Owner,
    holds::DeletionLoss,
    index::{self, Index, RecordStatus},
    record::{self, RecordSummary, StoredUndoRecord},
};
use crate::{base::quotas::UndoBounds, stores::moment::Moment};
use palisade_programs::named;
use palisade_protocol::CallId;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

/// The undo store.
#[derive(Debug, Clone)]
pub(crate) struct Undos {
    pub(super) shared: Arc<UndoStoreInner>,
}

#[derive(Debug)]
pub(super) struct UndoStoreInner {
    /// The directory; `None` means that nothing is stored.
    pub(super) directory: Option<PathBuf>,
    /// The index, read from the directory on first use.
    index: Mutex<Option<Index>>,
    /// The limits of each user.
    pub(super) of_user: Mutex<UndoBounds>,
}

impl Undos {
    pub(crate) fn new(directory: Option<PathBuf>) -> Self {
        let of_user = Mutex::new(UndoBounds::default());
        Self { shared: Arc::new(UndoStoreInner { directory, index: Mutex::new(None), of_user }) }
    }

    /// Reads the record of one call.
    pub(crate) async fn one(
        &self,
        owner: &Owner,
        call: &CallId,
    ) -> Result<StoredUndoRecord, UndoError> {
        let mut records = self.load(owner.clone(), call.clone(), UndoRange::This).await?;
        records.pop().ok_or_else(|| UndoError::None(call.clone()))
    }

    /// Reads the records of all calls of the same session after one, newest first.
    pub(crate) async fn since(
        &self,
        owner: &Owner,
        call: &CallId,
    ) -> Result<Vec<StoredUndoRecord>, UndoError> {
        self.load(owner.clone(), call.clone(), UndoRange::Later).await
    }

    async fn load(
        &self,
        owner: Owner,
        call: CallId,
        reach: UndoRange,
    ) -> Result<Vec<StoredUndoRecord>, UndoError> {
        // Only our own ids are accepted: nothing else may become part of a path.
        uuid::Uuid::parse_str(call.as_str()).map_err(|_| UndoError::None(call.clone()))?;
        let undos = self.clone();
        let work = move || {
            let heads = undos.index(|index| {
                // Another daemon of the user may have written it since.
                if !index.knows(&call)
                    && let Ok(found) = record::read_summary(&undos.path(&call)?)
                {
                    enter(index, found, Moment::now());
                }
                match reach {
                    UndoRange::This => Ok(vec![index.find(&owner, &call)?.clone()]),
                    UndoRange::Later => index.since(&owner, &call),
                }
            })?;
            heads.iter().map(|head| record::read(&undos.path(&head.call_id)?, head)).collect()
        };
        tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
    }

    /// Returns the calls whose changes may or may not have been made, and that are not running now.
    pub(crate) async fn unfinished(&self, owner: &Owner) -> Result<Vec<UnfinishedCall>, UndoError> {
        let (undos, owner) = (self.clone(), owner.clone());
        let work = move || {
            let heads = undos.index(|index| Ok(index.idle(&owner)))?;
            let mut found = Vec::new();
            for head in heads {
                // Records that are damaged, or deleted by now, are skipped.
                if let Ok(StoredUndoRecord { change: Some(change), left: None, .. }) =
                    record::read(&undos.path(&head.call_id)?, &head)
                {
                    found.push(UnfinishedCall { call: head.call_id, change });
                }
            }
            Ok(found)
        };
        tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
    }

    /// Deletes the records of calls that were rolled back: there is nothing to undo.
    pub(crate) fn discard(&self, calls: &[CallId]) -> Result<(), UndoError> {
        for call in calls {
            self.forget(call);
        }
        self.unlink(calls)
    }

    /// Deletes expired records. Returns how many.
    pub(crate) fn sweep(&self, now: Moment) -> Result<usize, UndoError> {
        let Some(directory) = &self.shared.directory else { return Ok(0) };
        let keep = self.bounds().keep;
        let gone = self.index(|index| {
            // Include files that other daemons or an earlier one left there.
            scan(directory, index, keep, now)?;
            Ok(index.expire(now, keep, None))
        })?;
        self.unlink(&gone)?;
        Ok(gone.len())
    }

    /// Marks a record as complete (or as complete as it will be), with what it holds.
    pub(super) fn free(&self, call: &CallId, holds: DeletionLoss) {
        if let Some(index) = self.lock().as_mut() {
            index.free(call, holds);
        }
    }

    /// Removes a record that is not needed from the index.
    pub(super) fn forget(&self, call: &CallId) {
        if let Some(index) = self.lock().as_mut() {
            index.remove(call);
        }
    }

    pub(super) fn unlink(&self, gone: &[CallId]) -> Result<(), UndoError> {
        for call in gone {
            delete(&self.path(call)?)?;
        }
        Ok(())
    }

    pub(super) fn path(&self, call: &CallId) -> Result<PathBuf, UndoError> {
        let directory = self.shared.directory.as_ref();
        Ok(directory
            .ok_or_else(|| io::Error::other("no undo records are stored"))?
            .join(call.as_str()))
    }

    pub(super) fn lock(&self) -> std::sync::MutexGuard<'_, Option<Index>> {
        self.shared.index.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn index<T>(
        &self,
        act: impl FnOnce(&mut Index) -> Result<T, UndoError>,
    ) -> Result<T, UndoError> {
        let mut index = self.lock();
        if index.is_none()
            && let Some(directory) = &self.shared.directory
        {
            let keep = self.bounds().keep;
            let mut found = Index::default();
            scan(directory, &mut found, keep, Moment::now())?;
            *index = Some(found);
        }
        act(index.get_or_insert_default())
    }

    pub(super) async fn with<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Index) -> Result<T, UndoError> + Send + 'static,
    ) -> Result<T, UndoError> {
        // Once the index was read, using it takes no time.
        if self.shared.index.try_lock().is_ok_and(|index| index.is_some()) {
            return self.index(act);
        }
        let undos = self.clone();
        tokio::task::spawn_blocking(move || undos.index(act)).await.map_err(io::Error::other)?
    }
}

/// A call whose change may or may not have been made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UnfinishedCall {
    pub(crate) call: CallId,
    /// The digest of its change.
    pub(crate) change: [u8; 32],
}

/// The records to load.
#[derive(Debug, Clone, Copy)]
enum UndoRange {
    This,
    Later,
}

fn is_young(path: &Path, keep: Duration) -> bool {
    let modified = fs::symlink_metadata(path).and_then(|found| found.modified());
    modified.is_ok_and(|at| SystemTime::now().duration_since(at).unwrap_or_default() < keep)
}

fn enter(index: &mut Index, RecordSummary { head, bytes, holds }: RecordSummary, now: Moment) {
    let age = index::age(&head, now);
    index.insert(head, bytes, (RecordStatus::Free(holds), age));
}

/// Adds records in the directory that are not in the index. Deletes old files that are not records.
pub(super) fn scan(
    directory: &Path,
    index: &mut Index,
    keep: Duration,
    now: Moment,
) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        // Whoever deleted the directory has deleted its records.
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error),
    };
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.parse().is_ok_and(|call| index.knows(&call)) {
            continue;
        }
        match record::read_summary(&path) {
            Ok(found) if found.head.call_id.as_str() == name => enter(index, found, now),
            // Another daemon may have deleted it meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            // Another daemon may be about to write it.
            Ok(_) | Err(_) if is_young(&path, keep) => {}
            Ok(_) | Err(_) => {
                tracing::warn!(path = %named(&path).display(), "deleting an invalid undo record");
                delete(&path)?;
            }
        }
    }
    Ok(())
}

/// Deletes a file. What another daemon has deleted already is deleted.
fn delete(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        deleted => deleted,
    }
}

#[cfg(test)]
mod tests;
