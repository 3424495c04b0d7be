//! The directory of what is kept: a file for each call, private, bounded and swept. Broker.

use super::{
    bounds::MAX_AGE,
    error::UndoError,
    head::Owner,
    index::{self, Hold, Index},
    record::{self, Record},
};
use crate::{
    moment::Moment,
    quotas::{Bound, Past, UNDO_BYTES},
};
use palisade_programs::named;
use palisade_protocol::CallId;
use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

/// Everything that can be undone.
#[derive(Debug, Clone)]
pub(crate) struct Undos {
    pub(super) shared: Arc<Shared>,
}

#[derive(Debug)]
pub(super) struct Shared {
    /// None: nothing is kept.
    directory: Option<PathBuf>,
    /// Read from the directory when it is first asked.
    index: Mutex<Option<Index>>,
    /// What one user may hold.
    pub(super) of_user: Mutex<Bound>,
}

impl Undos {
    pub(crate) fn new(directory: Option<PathBuf>) -> Self {
        let of_user = Mutex::new(Bound { bytes: UNDO_BYTES, past: Past::Refused });
        Self { shared: Arc::new(Shared { directory, index: Mutex::new(None), of_user }) }
    }

    /// What is kept of one call.
    pub(crate) async fn one(&self, owner: &Owner, call: &CallId) -> Result<Record, UndoError> {
        let mut records = self.load(owner.clone(), call.clone(), Reach::This).await?;
        records.pop().ok_or_else(|| UndoError::None(call.clone()))
    }

    /// What is kept of all calls of its session after one, the newest first.
    pub(crate) async fn since(
        &self,
        owner: &Owner,
        call: &CallId,
    ) -> Result<Vec<Record>, UndoError> {
        self.load(owner.clone(), call.clone(), Reach::Later).await
    }

    async fn load(
        &self,
        owner: Owner,
        call: CallId,
        reach: Reach,
    ) -> Result<Vec<Record>, UndoError> {
        // Ids of ours only: nothing else becomes part of a path.
        uuid::Uuid::parse_str(call.as_str()).map_err(|_| UndoError::None(call.clone()))?;
        let undos = self.clone();
        let work = move || {
            let heads = undos.index(|index| {
                // Another daemon of the user may have made it since.
                if !index.knows(&call)
                    && let Ok((head, bytes)) = record::glance(&undos.path(&call)?)
                {
                    let age = index::age(&head, Moment::now());
                    index.insert(head, bytes, (Hold::Free, age));
                }
                match reach {
                    Reach::This => Ok(vec![index.find(&owner, &call)?.clone()]),
                    Reach::Later => index.since(&owner, &call),
                }
            })?;
            heads.iter().map(|head| record::read(&undos.path(&head.call_id)?, head)).collect()
        };
        tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
    }

    /// The calls of which it is not known whether they were done, and that nobody is doing now.
    pub(crate) async fn unfinished(&self, owner: &Owner) -> Result<Vec<Unfinished>, UndoError> {
        let (undos, owner) = (self.clone(), owner.clone());
        let work = move || {
            let heads = undos.index(|index| Ok(index.idle(&owner)))?;
            let mut found = Vec::new();
            for head in heads {
                // What is damaged, or gone by now, says nothing.
                if let Ok(Record { change: Some(change), left: None, .. }) =
                    record::read(&undos.path(&head.call_id)?, &head)
                {
                    found.push(Unfinished { call: head.call_id, change });
                }
            }
            Ok(found)
        };
        tokio::task::spawn_blocking(work).await.map_err(io::Error::other)?
    }

    /// Calls were taken back: there is nothing of them to undo.
    pub(crate) fn discard(&self, calls: &[CallId]) -> Result<(), UndoError> {
        for call in calls {
            self.forget(call);
        }
        self.unlink(calls)
    }

    /// Removes what is too old. Says how many went.
    pub(crate) fn sweep(&self, now: Moment) -> Result<usize, UndoError> {
        let Some(directory) = &self.shared.directory else { return Ok(0) };
        let gone = self.index(|index| {
            // What others, or an earlier daemon, left there is swept as well.
            *index = scan(directory, std::mem::take(index), now)?;
            Ok(index.expire(now, MAX_AGE, None))
        })?;
        self.unlink(&gone)?;
        Ok(gone.len())
    }

    /// A record is whole, or as whole as it will be.
    pub(super) fn free(&self, call: &CallId) {
        if let Some(index) = self.lock().as_mut() {
            index.free(call);
        }
    }

    /// A record is not needed.
    pub(super) fn forget(&self, call: &CallId) {
        if let Some(index) = self.lock().as_mut() {
            index.remove(call);
        }
    }

    pub(super) fn unlink(&self, gone: &[CallId]) -> Result<(), UndoError> {
        for call in gone {
            match fs::remove_file(self.path(call)?) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
                Ok(()) | Err(_) => {}
            }
        }
        Ok(())
    }

    pub(super) fn path(&self, call: &CallId) -> Result<PathBuf, UndoError> {
        let directory = self.shared.directory.as_ref();
        Ok(directory.ok_or_else(|| io::Error::other("nothing is kept"))?.join(call.as_str()))
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
            *index = Some(scan(directory, Index::default(), Moment::now())?);
        }
        act(index.get_or_insert_default())
    }

    pub(super) async fn with<T: Send + 'static>(
        &self,
        act: impl FnOnce(&mut Index) -> Result<T, UndoError> + Send + 'static,
    ) -> Result<T, UndoError> {
        // Once it was read, looking into it takes no time.
        if self.shared.index.try_lock().is_ok_and(|index| index.is_some()) {
            return self.index(act);
        }
        let undos = self.clone();
        tokio::task::spawn_blocking(move || undos.index(act)).await.map_err(io::Error::other)?
    }
}

/// A call of which it is not known whether it was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unfinished {
    pub(crate) call: CallId,
    /// The digest of its change.
    pub(crate) change: [u8; 32],
}

/// Which calls.
#[derive(Debug, Clone, Copy)]
enum Reach {
    This,
    Later,
}

fn is_young(path: &Path) -> bool {
    let modified = fs::symlink_metadata(path).and_then(|found| found.modified());
    modified.is_ok_and(|at| SystemTime::now().duration_since(at).unwrap_or_default() < MAX_AGE)
}

/// What is in the directory, besides what is known already. What is no record and old is removed.
fn scan(directory: &Path, mut index: Index, now: Moment) -> io::Result<Index> {
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.parse().is_ok_and(|call| index.knows(&call)) {
            continue;
        }
        match record::glance(&path) {
            Ok((head, bytes)) if head.call_id.as_str() == name => {
                let age = index::age(&head, now);
                index.insert(head, bytes, (Hold::Free, age));
            }
            // Another daemon may be about to write it.
            Ok(_) | Err(_) if is_young(&path) => {}
            Ok(_) | Err(_) => {
                tracing::warn!(path = %named(&path).display(), "what can not be undone is removed");
                fs::remove_file(&path)?;
            }
        }
    }
    Ok(index)
}

#[cfg(test)]
mod tests;
