//! Output that did not fit into a result, kept on disk for its owner to page through: for a day, and
//! each user's within their own bound. Broker.

mod files;
mod shelf;

use crate::{
    moment::{Age, Moment},
    quotas::{Bound, Full, Kept, Past, SPOOL_BYTES},
};
use files::{Meta, read_page, scan, write_meta};
use palisade_protocol::{CallId, ErrorCode, OutputPage, OutputQuery, WireError};
use shelf::{Hold, MAX_AGE, OVERHEAD, Shelf};
use std::{
    fs::{self, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::io::AsyncWriteExt as _;

/// How much all spools together may hold: those of four users who have as much as they may.
const MAX_TOTAL: u64 = 4 * SPOOL_BYTES;
/// The directory of spools.
#[derive(Debug, Clone)]
pub(crate) struct Spools {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// None: nothing is kept.
    directory: Option<PathBuf>,
    /// Read from the directory when it is first asked.
    shelf: Mutex<Option<Shelf>>,
    /// What one user may have.
    of_user: Mutex<Bound>,
}

/// A spool being written.
#[derive(Debug)]
pub(crate) struct Spool {
    spools: Spools,
    call: CallId,
    file: tokio::fs::File,
    meta: PathBuf,
    uid: u32,
    room: u64,
}

impl Spools {
    pub(crate) fn new(directory: Option<PathBuf>) -> Self {
        let of_user = Mutex::new(Bound { bytes: SPOOL_BYTES, past: Past::Refused });
        Self { shared: Arc::new(Shared { directory, shelf: Mutex::new(None), of_user }) }
    }

    /// Lets one user have this much from now on.
    pub(crate) fn allow(&self, of_user: Bound) {
        *self.shared.of_user.lock().unwrap_or_else(PoisonError::into_inner) = of_user;
    }

    fn bound(&self) -> Bound {
        *self.shared.of_user.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn paths(&self, call: &CallId) -> Option<(PathBuf, PathBuf)> {
        let directory = self.shared.directory.as_ref()?;
        Some((directory.join(call.as_str()), directory.join(format!("{call}.meta"))))
    }

    /// Begins a spool of at most `room` bytes.
    pub(crate) async fn create(&self, call: &CallId, uid: u32, room: u64) -> io::Result<Spool> {
        let (path, meta) = self.paths(call).ok_or_else(|| io::Error::other("none are kept"))?;
        let (spools, call) = (self.clone(), call.clone());
        tokio::task::spawn_blocking(move || {
            let now = Moment::now();
            let gone = spools.shelf(|shelf| {
                let Bound { bytes, past } = spools.bound();
                let mut gone = match past {
                    Past::OldestGo => shelf.make_room_of(uid, room, bytes, now),
                    Past::Refused => Vec::new(),
                };
                // Others have used it up since the call began.
                if shelf.used(uid).saturating_add(OVERHEAD) > bytes {
                    return Err(io::ErrorKind::QuotaExceeded.into());
                }
                gone.extend(shelf.make_room(room, MAX_TOTAL, now));
                shelf.add(call.clone(), uid, 0, (Age::new(now), Hold::Open));
                Ok(gone)
            })?;
            spools.unlink(&gone)?;
            let made = write_meta(&meta, &Meta { uid, total: None }).and_then(|()| {
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)
            });
            let file = match made {
                Ok(file) => tokio::fs::File::from_std(file),
                Err(error) => {
                    spools.shelf(|shelf| Ok(shelf.remove(&call)))?;
                    return Err(error);
                }
            };
            Ok(Spool { spools, call, file, meta, uid, room })
        })
        .await?
    }

    /// Refuses a call of a user who has not so much left for what it may print.
    pub(crate) async fn check(&self, uid: u32, least: u64) -> Result<(), Full> {
        let more = least.saturating_add(OVERHEAD);
        let (Bound { bytes: most, past }, now) = (self.bound(), Moment::now());
        if past == Past::OldestGo {
            return Ok(());
        }
        let look = move |shelf: &mut Shelf| {
            let left = most.saturating_sub(shelf.used(uid));
            let oldest = shelf.oldest(uid, now);
            // What is a day old need not wait for the hour to be swept.
            let stale = left < more && oldest.is_some_and(|age| age >= MAX_AGE);
            let gone = if stale { shelf.expire(Some(uid), MAX_AGE, now) } else { Vec::new() };
            let used = shelf.used(uid);
            let oldest = shelf.oldest(uid, now).map(|age| MAX_AGE.saturating_sub(age));
            let full = Full { kept: Kept::Spools, uid, used, most, more, oldest };
            Ok((gone, if most.saturating_sub(used) < more { Err(full) } else { Ok(()) }))
        };
        let spools = self.clone();
        let looked = if self.lock().is_some() {
            self.shelf(look)
        } else {
            let read = tokio::task::spawn_blocking(move || spools.shelf(look));
            read.await.unwrap_or_else(|error| Err(error.into()))
        };
        match looked {
            Ok((gone, answer)) => {
                if let Err(error) = self.unlink(&gone) {
                    tracing::warn!(%error, "old spools stay");
                }
                answer
            }
            // The result will stand without a spool, and say so.
            Err(error) => {
                tracing::warn!(%error, "what is in spools is not known");
                Ok(())
            }
        }
    }

    /// Removes a spool that nobody is to see.
    pub(crate) async fn remove(&self, call: &CallId) {
        let (spools, gone) = (self.clone(), vec![call.clone()]);
        let removed = tokio::task::spawn_blocking(move || {
            spools.unlink(&gone)?;
            spools.shelf(|shelf| Ok(gone.iter().map(|call| shelf.remove(call)).sum::<u64>()))
        });
        match removed.await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::error!(%error, %call, "a spool that was to go stays"),
            Err(error) => tracing::error!(%error, %call, "a spool that was to go stays"),
        }
    }

    /// What each user's spools take.
    pub(crate) fn users(&self) -> Vec<(u32, u64)> {
        self.shelf(|shelf| Ok(shelf.users())).unwrap_or_default()
    }

    /// What one user's take.
    pub(crate) fn used(&self, uid: u32) -> u64 {
        self.shelf(|shelf| Ok(shelf.used(uid))).unwrap_or_default()
    }

    /// Lets go of what is at least so old, of one user or of all. Says how many went, and their size.
    pub(crate) fn forget(&self, uid: Option<u32>, age: Duration) -> io::Result<(u64, u64)> {
        let now = Moment::now();
        let (gone, bytes) = self.shelf(|shelf| {
            let before: u64 = shelf.users().iter().map(|(_, bytes)| bytes).sum();
            let gone = shelf.expire(uid, age, now);
            let after: u64 = shelf.users().iter().map(|(_, bytes)| bytes).sum();
            Ok((gone, before - after))
        })?;
        self.unlink(&gone)?;
        Ok((gone.len() as u64, bytes))
    }

    /// A page of a spool. A spool of another user is as if it did not exist.
    pub(crate) async fn page(&self, query: OutputQuery, uid: u32) -> Result<OutputPage, WireError> {
        let call = query.call_id.clone();
        let missing = || {
            WireError::new(
                ErrorCode::NotFound,
                format!("there is no spool of call {call}"),
                "a result names its spool if it has one; spools are kept for a day",
            )
        };
        // Ids of ours only: nothing else becomes part of a path.
        uuid::Uuid::parse_str(call.as_str()).map_err(|_| missing())?;
        let (path, meta) = self.paths(&call).ok_or_else(missing)?;
        let page = tokio::task::spawn_blocking(move || read_page(&path, &meta, query, uid)).await;
        match page {
            Ok(Ok(Some(page))) => Ok(page),
            Ok(Ok(None)) => Err(missing()),
            Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => Err(missing()),
            Ok(Err(error)) => {
                tracing::warn!(%error, %call, "can not read a spool");
                Err(WireError::new(ErrorCode::FileSystem, "the spool can not be read", ""))
            }
            Err(error) => Err(WireError::new(ErrorCode::Internal, error.to_string(), "")),
        }
    }

    /// Removes what is too old, then the oldest of whoever has most until the rest fits. Says how many
    /// went.
    pub(crate) fn sweep(&self, now: Moment) -> io::Result<usize> {
        let Some(directory) = &self.shared.directory else { return Ok(0) };
        let gone = self.shelf(|shelf| {
            // What others, or an earlier daemon, left there is swept as well.
            scan(directory, shelf, now)?;
            let mut gone = shelf.expire(None, MAX_AGE, now);
            gone.extend(shelf.make_room(0, MAX_TOTAL, now));
            Ok(gone)
        })?;
        self.unlink(&gone)?;
        Ok(gone.len())
    }

    fn unlink(&self, gone: &[CallId]) -> io::Result<()> {
        for call in gone {
            let Some((path, meta)) = self.paths(call) else { continue };
            // The one that says whose it is goes last, so that none is ever nobody's.
            for path in [path, meta] {
                match fs::remove_file(path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    Ok(()) | Err(_) => {}
                }
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Shelf>> {
        self.shared.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shelf<T>(&self, act: impl FnOnce(&mut Shelf) -> io::Result<T>) -> io::Result<T> {
        let mut shelf = self.lock();
        if shelf.is_none()
            && let Some(directory) = &self.shared.directory
        {
            let mut found = Shelf::default();
            scan(directory, &mut found, Moment::now())?;
            *shelf = Some(found);
        }
        act(shelf.get_or_insert_default())
    }
}

impl Spool {
    /// Adds what still fits.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let wanted = self.room.min(bytes.len() as u64);
        let most = self.spools.bound().bytes;
        let granted = self.spools.shelf(|shelf| Ok(shelf.take(&self.call, wanted, most)))?;
        // What is left out is the end: no byte stands at another's place.
        self.room = if granted < wanted { 0 } else { self.room - granted };
        let fits = usize::try_from(granted).unwrap_or(usize::MAX);
        self.file.write_all(bytes.get(..fits).unwrap_or_default()).await
    }

    /// The same, and it can be read when this returns.
    pub(crate) async fn write_through(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write(bytes).await?;
        self.file.flush().await
    }

    /// Completes it: the call printed `total` bytes.
    pub(crate) async fn finish(mut self, total: u64) -> io::Result<()> {
        self.file.flush().await?;
        let (meta, uid) = (self.meta.clone(), self.uid);
        tokio::task::spawn_blocking(move || write_meta(&meta, &Meta { uid, total: Some(total) }))
            .await?
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        if let Some(shelf) = self.spools.lock().as_mut() {
            shelf.close(&self.call, Moment::now());
        }
    }
}

#[cfg(test)]
mod tests;
