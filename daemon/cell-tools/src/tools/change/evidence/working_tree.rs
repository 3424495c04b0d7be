//! One working tree and its repository: what git tracks in it, and which bytes git keeps. Runs in
//! the cell.

use super::{
    super::settle::content,
    linked::RepositoryPlace,
    lost::LostEntry,
    renamed::ListedFiles,
    repositories::{in_repository, lost_path},
    tracked::{TrackedPaths, is_listed},
    trees::Trees,
};
use palisade_plan::evidence::WorkingTreeEvidence;
use palisade_repository::{
    Bounds, ContentQuery, FileType, Repository, RepositoryError, StagingIndex, Tips,
};
use palisade_workspace::View;
use std::{
    io::{Cursor, Read},
    time::{SystemTime, UNIX_EPOCH},
};

/// The maximum age of log entries that count. Git's own maintenance keeps them for at least 30
/// days, and could delete older ones before the undo records expire.
const OLDEST_LOG_ENTRY: u64 = 20 * 24 * 60 * 60;

/// The number of commits that are searched. Bytes that only an older commit has need approval.
const MOST_COMMITS: u64 = 5_000;

/// A working tree whose repository can be read.
#[derive(Debug)]
pub(super) struct WorkingTree {
    pub(super) place: RepositoryPlace,
    top: Vec<u8>,
    /// The repository and its index after the change; `None` if it can not be read.
    later: Option<LaterState>,
}

#[derive(Debug)]
struct LaterState {
    repository: Repository,
    index: StagingIndex,
    tips: Tips,
}

/// Returns the limits for reading a repository.
pub(super) fn bounds() -> Bounds {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let oldest = i64::try_from(now.saturating_sub(OLDEST_LOG_ENTRY)).ok();
    Bounds { oldest_log_entry: oldest, commits: MOST_COMMITS, ..Bounds::default() }
}

impl WorkingTree {
    pub(super) fn open(
        trees: &Trees,
        top: &[u8],
        place: RepositoryPlace,
    ) -> Result<Self, RepositoryError> {
        place.open(trees.before())?;
        let later = place.open(trees.kept()).and_then(|repository| {
            let (index, tips) = (repository.index()?, repository.tips()?);
            Ok(LaterState { repository, index, tips })
        });
        Ok(Self { place, top: top.to_vec(), later: later.ok() })
    }

    /// Returns `true` if git tracks a path after the change.
    pub(super) fn is_tracked(&self, way: &[u8]) -> bool {
        let way = in_repository(&self.top, way);
        self.later.as_ref().is_some_and(|later| is_listed(&later.index, way))
    }

    /// Notes for each file a reachable commit that has its bytes.
    pub(super) fn ask(&self, trees: &Trees, wanted: Vec<(&mut Option<String>, &LostEntry)>) {
        let Some(LaterState { repository, tips, .. }) = &self.later else { return };
        let ways: Vec<Vec<u8>> = wanted
            .iter()
            .map(|(_, lost)| lost_path(lost, &trees.top).unwrap_or_default())
            .collect();
        let queries = wanted.iter().zip(&ways).map(|((_, lost), way)| {
            let (file_type, content) = content_of(lost);
            ContentQuery { path: in_repository(&self.top, way), file_type, content }
        });
        let Ok(answers) = repository.keeps_all(tips, queries) else { return };
        for ((commit, _), answer) in wanted.into_iter().zip(answers) {
            *commit = answer.ok().map(|blob| blob.commit.to_string());
        }
    }

    /// Notes for each file that was renamed without git a reachable commit that has its bytes at the
    /// earlier path. Such a file stays tracked as long as the index lists that path.
    pub(super) fn ask_renamed(
        &self,
        trees: &Trees,
        listed: &ListedFiles<'_>,
        mut wanted: Vec<(&mut WorkingTreeEvidence, &LostEntry)>,
    ) {
        let Some(LaterState { repository, tips, index }) = &self.later else { return };
        let mut earlier = Vec::new();
        for (at, (_, lost)) in wanted.iter().enumerate() {
            let missing = listed.missing(trees, &self.top, lost.seen.file_size());
            earlier.extend(missing.into_iter().map(|path| (at, *lost, path)));
        }
        let queries = earlier.iter().map(|(_, lost, path)| {
            let (file_type, content) = content_of(lost);
            ContentQuery { path, file_type, content }
        });
        let Ok(answers) = repository.keeps_all(tips, queries) else { return };
        for ((at, _, path), answer) in earlier.into_iter().zip(answers) {
            if let (Some((known, _)), Ok(blob)) = (wanted.get_mut(at), answer) {
                known.commit = Some(blob.commit.to_string());
                known.stays_tracked |= is_listed(index, path);
            }
        }
    }
}

/// Returns for each directory of the workspace whether git tracks anything below it. If that can
/// not be found out, it counts as tracked.
pub(crate) fn tracked_below(view: &View, ways: &[Vec<u8>]) -> Vec<bool> {
    let Ok(trees) = Trees::open(view, None, true) else { return vec![true; ways.len()] };
    let mut tracked = TrackedPaths::new(&trees);
    ways.iter().map(|way| tracked.is_tracked(way)).collect()
}

/// Returns the earlier bytes of a file or link, or a stream that fails if they can not be read.
fn content_of(lost: &LostEntry) -> (FileType, Box<dyn Read>) {
    let spot = &lost.spot;
    if lost.seen.kind() == rustix::fs::FileType::Symlink {
        return match spot.link() {
            Ok(target) => (FileType::SymbolicLink, Box::new(Cursor::new(target))),
            Err(_) => (FileType::SymbolicLink, Box::new(FailingReader)),
        };
    }
    let file = spot.dir().and_then(|dir| content::open_file(&dir, &spot.name, &lost.seen));
    match file {
        Ok(file) => (FileType::Regular, Box::new(file)),
        Err(_) => (FileType::Regular, Box::new(FailingReader)),
    }
}

struct FailingReader;

impl Read for FailingReader {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        Err(std::io::Error::other("it can not be read"))
    }
}
