//! The output store: output that did not fit into a result, on disk, for its owner to page through.
//! It is stored for a day, within a quota for each user. Runs in the broker.

mod files;
mod shelf;

use crate::{
    base::quotas::{ByteQuota, OverQuotaAction, QuotaFull, SPOOL_BYTES},
    stores::moment::{Age, Moment},
};
use files::{Meta, read_page, scan, write_meta};
use palisade_protocol::{CallId, ErrorCode, OutputPage, OutputQuery, WireError};
use shelf::{MAX_AGE, OVERHEAD, SpoolIndex, SpoolStatus};
use std::{
    fs::{self, OpenOptions},
    io,
    os::unix::fs::OpenOptionsExt as _,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime},
};
use tokio::io::AsyncWriteExt as _;

/// The most bytes that all spools together may hold: those of four users at their default quota.
const MAX_TOTAL: u64 = 4 * SPOOL_BYTES;
/// The file beside the directory of spools that was written when they were last swept.
const SWEPT: &str = "../swept";

/// The output store: the directory of all spools.
#[derive(Debug, Clone)]
pub(crate) struct Spools {
    shared: Arc<SpoolStoreInner>,
}

#[derive(Debug)]
struct SpoolStoreInner {
    /// The directory; `None` means that no output is stored.
    directory: Option<PathBuf>,
    /// The index, read from the directory on first use.
    shelf: Mutex<Option<SpoolIndex>>,
    /// The quota of each user.
    of_user: Mutex<ByteQuota>,
}

/// A spool (the full output of one call) that is being written.
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
        let of_user = Mutex::new(ByteQuota { bytes: SPOOL_BYTES, past: OverQuotaAction::Refused });
        Self { shared: Arc::new(SpoolStoreInner { directory, shelf: Mutex::new(None), of_user }) }
    }

    /// Sets the quota of each user from now on.
    pub(crate) fn allow(&self, of_user: ByteQuota) {
        *self.shared.of_user.lock().unwrap_or_else(PoisonError::into_inner) = of_user;
    }

    fn bound(&self) -> ByteQuota {
        *self.shared.of_user.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn paths(&self, call: &CallId) -> Option<(PathBuf, PathBuf)> {
        let directory = self.shared.directory.as_ref()?;
        Some((directory.join(call.as_str()), directory.join(format!("{call}.meta"))))
    }

    /// Begins a spool of at most `room` bytes.
    pub(crate) async fn create(&self, call: &CallId, uid: u32, room: u64) -> io::Result<Spool> {
        let (path, meta) =
            self.paths(call).ok_or_else(|| io::Error::other("no output is stored"))?;
        let (spools, call) = (self.clone(), call.clone());
        tokio::task::spawn_blocking(move || {
            let now = Moment::now();
            let gone = spools.shelf(|shelf| {
                let ByteQuota { bytes, past } = spools.bound();
                let mut gone = match past {
                    OverQuotaAction::OldestGo => shelf.make_room_of(uid, room, bytes, now),
                    OverQuotaAction::Refused => Vec::new(),
                };
                // Other calls have used up the quota since this call began.
                if shelf.used(uid).saturating_add(OVERHEAD) > bytes {
                    return Err(io::ErrorKind::QuotaExceeded.into());
                }
                gone.extend(shelf.make_room(room, MAX_TOTAL, now));
                shelf.add(call.clone(), uid, 0, (Age::new(now), SpoolStatus::Open));
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

    /// Refuses a call if its user's quota has less left than `least` bytes for the call's output.
    pub(crate) async fn check(&self, uid: u32, least: u64) -> Result<(), QuotaFull> {
        let more = least.saturating_add(OVERHEAD);
        let (ByteQuota { bytes: most, past }, now) = (self.bound(), Moment::now());
        if past == OverQuotaAction::OldestGo {
            return Ok(());
        }
        let look = move |shelf: &mut SpoolIndex| {
            let left = most.saturating_sub(shelf.used(uid));
            let oldest = shelf.oldest(uid, now);
            // Entries that have expired need not wait for the hourly sweep.
            let stale = left < more && oldest.is_some_and(|age| age >= MAX_AGE);
            let gone = if stale { shelf.expire(Some(uid), MAX_AGE, now) } else { Vec::new() };
            let used = shelf.used(uid);
            let oldest = shelf.oldest(uid, now).map(|age| MAX_AGE.saturating_sub(age));
            let full = QuotaFull { uid, used, most, more, oldest };
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
                    tracing::warn!(%error, "old output could not be deleted");
                }
                answer
            }
            // The call runs without a spool, and its result says so.
            Err(error) => {
                tracing::warn!(%error, "the output store can not be read");
                Ok(())
            }
        }
    }

    /// Deletes a spool that nobody may see.
    pub(crate) async fn remove(&self, call: &CallId) {
        let (spools, gone) = (self.clone(), vec![call.clone()]);
        let removed = tokio::task::spawn_blocking(move || {
            spools.unlink(&gone)?;
            spools.shelf(|shelf| Ok(gone.iter().map(|call| shelf.remove(call)).sum::<u64>()))
        });
        match removed.await {
            Ok(Ok(_)) => {}
            Ok(Err(error)) => tracing::error!(%error, %call, "stored output could not be deleted"),
            Err(error) => tracing::error!(%error, %call, "stored output could not be deleted"),
        }
    }

    /// Returns the size of each user's spools.
    pub(crate) fn users(&self) -> Vec<(u32, u64)> {
        self.shelf(|shelf| Ok(shelf.users())).unwrap_or_default()
    }

    /// Returns the size of one user's spools.
    pub(crate) fn used(&self, uid: u32) -> u64 {
        self.shelf(|shelf| Ok(shelf.used(uid))).unwrap_or_default()
    }

    /// Deletes spools that are at least `age` old, of one user or of all. Returns their number and
    /// size.
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

    /// Returns a page of a spool. Another user's spool is reported as missing.
    pub(crate) async fn page(&self, query: OutputQuery, uid: u32) -> Result<OutputPage, WireError> {
        let call = query.call_id.clone();
        let missing = || {
            WireError::new(
                ErrorCode::NotFound,
                format!("no full output of call {call} is stored"),
                "a result has `spool` if its full output is stored; it is stored for a day",
            )
        };
        // Only our own ids are accepted: nothing else may become part of a path.
        uuid::Uuid::parse_str(call.as_str()).map_err(|_| missing())?;
        let (path, meta) = self.paths(&call).ok_or_else(missing)?;
        let page = tokio::task::spawn_blocking(move || read_page(&path, &meta, query, uid)).await;
        match page {
            Ok(Ok(Some(page))) => Ok(page),
            Ok(Ok(None)) => Err(missing()),
            Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => Err(missing()),
            Ok(Err(error)) => {
                tracing::warn!(%error, %call, "can not read stored output");
                Err(WireError::new(ErrorCode::FileSystem, "the stored output can not be read", ""))
            }
            Err(error) => Err(WireError::new(ErrorCode::Internal, error.to_string(), "")),
        }
    }

    /// Deletes expired spools, then the oldest of the user with the most until the rest fits.
    /// Returns how many were deleted.
    pub(crate) fn sweep(&self, now: Moment) -> io::Result<usize> {
        let Some(directory) = &self.shared.directory else { return Ok(0) };
        let gone = self.shelf(|shelf| {
            // Include files that other daemons or an earlier one left there.
            scan(directory, shelf, now)?;
            let mut gone = shelf.expire(None, MAX_AGE, now);
            gone.extend(shelf.make_room(0, MAX_TOTAL, now));
            Ok(gone)
        })?;
        self.unlink(&gone)?;
        Ok(gone.len())
    }

    /// Notes that the stores are swept now, for [`Self::since_sweep`] of other daemons.
    pub(crate) fn note_sweep(&self) -> io::Result<()> {
        let Some(directory) = &self.shared.directory else { return Ok(()) };
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(true).mode(0o600);
        options.open(directory.join(SWEPT))?.set_modified(SystemTime::now())
    }

    /// Returns the time since a daemon last swept this directory, if one ever did. A time in the
    /// future counts as none.
    pub(crate) fn since_sweep(&self) -> Option<Duration> {
        let swept = fs::symlink_metadata(self.shared.directory.as_ref()?.join(SWEPT)).ok()?;
        swept.modified().ok()?.elapsed().ok()
    }

    fn unlink(&self, gone: &[CallId]) -> io::Result<()> {
        for call in gone {
            let Some((path, meta)) = self.paths(call) else { continue };
            // The file that names the owner goes last, so that no spool is ever without an owner.
            for path in [path, meta] {
                match fs::remove_file(path) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                    Ok(()) | Err(_) => {}
                }
            }
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Option<SpoolIndex>> {
        self.shared.shelf.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shelf<T>(&self, act: impl FnOnce(&mut SpoolIndex) -> io::Result<T>) -> io::Result<T> {
        let mut shelf = self.lock();
        if shelf.is_none()
            && let Some(directory) = &self.shared.directory
        {
            let mut found = SpoolIndex::default();
            scan(directory, &mut found, Moment::now())?;
            *shelf = Some(found);
        }
        act(shelf.get_or_insert_default())
    }
}

impl Spool {
    /// Appends as many of the bytes as the spool and its user's quota allow.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let wanted = self.room.min(bytes.len() as u64);
        let most = self.spools.bound().bytes;
        let granted = self.spools.shelf(|shelf| Ok(shelf.take(&self.call, wanted, most)))?;
        // Once something is cut, nothing more is written, so that every stored byte is at its right
        // offset.
        self.room = if granted < wanted { 0 } else { self.room - granted };
        let fits = usize::try_from(granted).unwrap_or(usize::MAX);
        self.file.write_all(bytes.get(..fits).unwrap_or_default()).await
    }

    /// Appends bytes as [`Self::write`] does, and makes them readable before it returns.
    pub(crate) async fn write_through(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write(bytes).await?;
        self.file.flush().await
    }

    /// Completes the spool of a call that printed `total` bytes.
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
