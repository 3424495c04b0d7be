//! Output that did not fit into a result, kept on disk for its owner to page through. Broker.

use palisade_protocol::{Bytes, CallId, ErrorCode, OutputPage, OutputQuery, WireError, limits};
use serde::{Deserialize, Serialize};
use std::{
    fs::{self, OpenOptions},
    io::{self, Read as _, Seek as _, SeekFrom, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, SystemTime},
};
use tokio::io::AsyncWriteExt as _;

/// How long a spool is kept.
const MAX_AGE: Duration = Duration::from_secs(24 * 60 * 60);
/// How much all spools together may hold.
const MAX_TOTAL: u64 = 1 << 30;

/// The directory of spools.
#[derive(Debug, Clone)]
pub(crate) struct Spools {
    /// None: nothing is kept.
    directory: Option<PathBuf>,
    /// Bytes that were promised to spools since the last sweep.
    promised: Arc<AtomicU64>,
}

/// Whose a spool is; beside it on disk, so that it outlives the daemon.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Meta {
    uid: u32,
    /// What the call printed in all; unknown while it runs.
    total: Option<u64>,
}

/// A spool being written.
#[derive(Debug)]
pub(crate) struct Spool {
    file: tokio::fs::File,
    meta: PathBuf,
    uid: u32,
    room: u64,
}

impl Spools {
    pub(crate) fn new(directory: Option<PathBuf>) -> Self {
        Self { directory, promised: Arc::default() }
    }

    fn paths(&self, call: &CallId) -> Option<(PathBuf, PathBuf)> {
        let directory = self.directory.as_ref()?;
        Some((directory.join(call.as_str()), directory.join(format!("{call}.meta"))))
    }

    /// Begins a spool of at most `room` bytes.
    pub(crate) async fn create(&self, call: &CallId, uid: u32, room: u64) -> io::Result<Spool> {
        let (path, meta) = self.paths(call).ok_or_else(|| io::Error::other("none are kept"))?;
        let spools = self.clone();
        tokio::task::spawn_blocking(move || {
            // A flood of output must not have to wait for the hour to be swept.
            if spools.promised.fetch_add(room, Ordering::Relaxed) > MAX_TOTAL / 4 {
                spools.sweep(SystemTime::now())?;
            }
            write_meta(&meta, &Meta { uid, total: None })?;
            let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            Ok(Spool { file: tokio::fs::File::from_std(file), meta, uid, room })
        })
        .await?
    }

    /// Removes a spool that nobody is to see.
    pub(crate) async fn remove(&self, call: &CallId) {
        let Some((path, meta)) = self.paths(call) else { return };
        let removed = tokio::task::spawn_blocking(move || {
            std::fs::remove_file(&meta)?;
            std::fs::remove_file(&path)
        });
        match removed.await {
            Ok(Ok(())) => {}
            // It was not begun.
            Ok(Err(error)) if error.kind() == io::ErrorKind::NotFound => {}
            Ok(Err(error)) => tracing::error!(%error, %call, "a spool that was to go stays"),
            Err(error) => tracing::error!(%error, %call, "a spool that was to go stays"),
        }
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

    /// Removes what is too old, then the oldest until the rest fits. Says how many went.
    pub(crate) fn sweep(&self, now: SystemTime) -> io::Result<usize> {
        let Some(directory) = &self.directory else { return Ok(0) };
        self.promised.store(0, Ordering::Relaxed);
        let mut spools = Vec::new();
        for entry in fs::read_dir(directory)? {
            let entry = entry?;
            if let (Ok(found), true) = (entry.metadata(), entry.file_type()?.is_file()) {
                spools.push((found.modified()?, found.len(), entry.path()));
            }
        }
        spools.sort_unstable_by_key(|(modified, ..)| std::cmp::Reverse(*modified));
        let (mut total, mut removed) = (0_u64, 0);
        for (modified, length, path) in spools {
            total = total.saturating_add(length);
            let age = now.duration_since(modified).unwrap_or_default();
            if age > MAX_AGE || total > MAX_TOTAL {
                fs::remove_file(path)?;
                removed += 1;
            }
        }
        Ok(removed)
    }
}

impl Spool {
    /// Adds what still fits.
    pub(crate) async fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        let fits = usize::try_from(self.room).unwrap_or(usize::MAX).min(bytes.len());
        self.room -= fits as u64;
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
        let (meta, uid) = (self.meta, self.uid);
        tokio::task::spawn_blocking(move || write_meta(&meta, &Meta { uid, total: Some(total) }))
            .await?
    }
}

fn write_meta(path: &Path, meta: &Meta) -> io::Result<()> {
    let text = serde_json::to_vec(meta)?;
    let mut options = OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(&text)
}

fn read_page(
    path: &Path,
    meta: &Path,
    query: OutputQuery,
    uid: u32,
) -> io::Result<Option<OutputPage>> {
    let meta: Meta = serde_json::from_slice(&fs::read(meta)?)?;
    if meta.uid != uid {
        return Ok(None);
    }
    let mut file = fs::File::open(path)?;
    let spooled = file.metadata()?.len();
    let most = limits::MAX_CHUNK as u64;
    let mut data = Vec::new();
    file.seek(SeekFrom::Start(query.offset.min(spooled)))?;
    file.take(query.limit.unwrap_or(most).min(most)).read_to_end(&mut data)?;
    Ok(Some(OutputPage {
        call_id: query.call_id,
        offset: query.offset,
        data: Bytes(data),
        spooled,
        total: meta.total.unwrap_or(spooled),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt as _;

    fn spools() -> (tempfile::TempDir, Spools, CallId) {
        let directory = tempfile::tempdir().unwrap();
        let spools = Spools::new(Some(directory.path().to_owned()));
        (directory, spools, uuid::Uuid::now_v7().to_string().parse().unwrap())
    }

    fn query(call_id: &CallId, offset: u64, limit: Option<u64>) -> OutputQuery {
        OutputQuery { call_id: call_id.clone(), offset, limit }
    }

    #[tokio::test]
    async fn pages_make_up_the_whole_up_to_the_limit() {
        let (directory, spools, call) = spools();
        let mut spool = spools.create(&call, 7, 8).await.unwrap();
        spool.write(b"01234").await.unwrap();
        spool.write(b"56789").await.unwrap();
        spool.finish(10).await.unwrap();
        let page = spools.page(query(&call, 3, Some(2)), 7).await.unwrap();
        assert_eq!((page.data.0.as_slice(), page.spooled, page.total), (&b"34"[..], 8, 10));
        let page = spools.page(query(&call, 0, None), 7).await.unwrap();
        assert_eq!(page.data.0, b"01234567");
        let page = spools.page(query(&call, u64::MAX, None), 7).await.unwrap();
        assert_eq!((page.data.0.len(), page.offset), (0, u64::MAX));
        for entry in fs::read_dir(directory.path()).unwrap() {
            assert_eq!(entry.unwrap().metadata().unwrap().mode() & 0o777, 0o600);
        }
    }

    #[tokio::test]
    async fn anothers_spool_is_like_none() {
        let (_directory, spools, call) = spools();
        let spool = spools.create(&call, 7, 8).await.unwrap();
        spool.finish(0).await.unwrap();
        spools.page(query(&call, 0, None), 7).await.unwrap();
        let others = spools.page(query(&call, 0, None), 8).await.unwrap_err();
        assert_eq!(others.code, ErrorCode::NotFound);
        let unknown: CallId = uuid::Uuid::now_v7().to_string().parse().unwrap();
        let none = spools.page(query(&unknown, 0, None), 8).await.unwrap_err();
        assert_eq!(none.message.replace(unknown.as_str(), call.as_str()), others.message);
        assert_eq!((none.code, none.hint), (others.code, others.hint));
        for name in ["..", ".", &format!("{call}.meta")] {
            let error = spools.page(query(&name.parse().unwrap(), 0, None), 7).await.unwrap_err();
            assert_eq!(error.code, ErrorCode::NotFound, "{name}");
        }
    }

    #[tokio::test]
    async fn old_spools_are_swept_and_young_ones_are_not() {
        let (directory, spools, call) = spools();
        spools.create(&call, 7, 8).await.unwrap().finish(0).await.unwrap();
        // A clock that was set back makes nothing old.
        for now in [SystemTime::now(), SystemTime::now() - MAX_AGE * 9, SystemTime::UNIX_EPOCH] {
            assert_eq!(spools.sweep(now).unwrap(), 0);
        }
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2);
        assert_eq!(spools.sweep(SystemTime::now() + MAX_AGE * 2).unwrap(), 2);
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
    }

    #[tokio::test]
    async fn a_flood_is_swept_while_it_lasts() {
        let (directory, spools, call) = spools();
        let file = fs::File::create(directory.path().join("old")).unwrap();
        file.set_len(MAX_TOTAL + 1).unwrap();
        file.set_modified(SystemTime::now() - Duration::from_secs(60)).unwrap();
        drop(spools.create(&call, 7, MAX_TOTAL / 4 + 1).await.unwrap());
        assert!(directory.path().join("old").exists());
        let next = uuid::Uuid::now_v7().to_string().parse().unwrap();
        drop(spools.create(&next, 7, 1).await.unwrap());
        assert!(!directory.path().join("old").exists());
        assert!(directory.path().join(call.as_str()).exists());
    }

    #[tokio::test]
    async fn one_that_could_not_be_written_gives_its_room_back() {
        let (directory, spools, call) = spools();
        let mut spool = spools.create(&call, 7, 8).await.unwrap();
        spool.write_through(b"half").await.unwrap();
        spools.remove(&call).await;
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        // Nor is it a fault that there is none.
        spools.remove(&call).await;
        assert_eq!(
            spools.page(query(&call, 0, None), 7).await.unwrap_err().code,
            ErrorCode::NotFound
        );
    }

    #[test]
    fn the_oldest_go_first_when_there_is_too_much() {
        let (directory, spools, _) = spools();
        let now = SystemTime::now();
        for (name, age) in [("old", 200), ("young", 100)] {
            let file = fs::File::create(directory.path().join(name)).unwrap();
            file.set_len(MAX_TOTAL * 3 / 4).unwrap();
            file.set_modified(now - Duration::from_secs(age)).unwrap();
        }
        assert_eq!(spools.sweep(now).unwrap(), 1);
        assert!(directory.path().join("young").exists());
    }
}
