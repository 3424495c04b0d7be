//! The state of a call's targets when they were inspected. It is shown to approvers, and compared
//! when the call runs, to notice changes in between. Runs in the broker.

use crate::{
    base::{error::CallError, preview::Preview},
    cells::{file::exchange::unexpected, session::Session},
};
use palisade_plan::{
    Path,
    cell::{Contents, EntryDetails, EntryKind, FileReply, FileRequest, Link},
    change::Version,
};
use sha2::{Digest as _, Sha256};

/// Enough of the beginning of a file for a diff.
const CLOSELY: Contents = Contents::Read { head: 64 * 1024 };

/// The targets of a call, and the current directory it starts from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct TargetSnapshot {
    pub(crate) cwd: Vec<u8>,
    pub(crate) targets: Vec<InspectedTarget>,
    /// The preview of a change; it is compared with the actual change when that is made.
    pub(crate) change: Option<Preview>,
}

/// One path of a call and what was found there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InspectedTarget {
    /// The absolute path, as the call named it.
    pub(crate) path: Vec<u8>,
    pub(crate) link: Link,
    /// The path with symbolic links resolved.
    pub(crate) real: Vec<u8>,
    pub(crate) found: Option<EntryDetails>,
}

impl InspectedTarget {
    /// Inspects a path in the cell.
    pub(crate) async fn look(
        session: &Session,
        path: Vec<u8>,
        link: Link,
        contents: Contents,
    ) -> Result<Self, CallError> {
        let failed = |error: crate::cells::channel::ChannelError| session.channel_error(error);
        let Some(mut lease) = session.cell.files.lease().await else {
            return Err(session.channel_error("all its file channels are broken"));
        };
        let request = FileRequest::Look { path: Path(path.clone()), link, contents };
        lease.send(&[request]).await.map_err(failed)?;
        let reply = lease.receive().await.map_err(failed)?;
        let FileReply::Looked { real, found } = reply else { return Err(unexpected(reply)) };
        Ok(Self { path, link, real: real.0, found: found.map(|found| *found) })
    }

    /// Returns the type of what was found, in a word.
    pub(crate) fn there(&self) -> Option<&'static str> {
        self.found.as_ref().map(|found| match found.kind {
            EntryKind::File => "file",
            EntryKind::Directory => "directory",
            EntryKind::Symlink => "symlink",
            EntryKind::Other => "other",
        })
    }

    /// Returns the identity (device, inode, change time) of what was found.
    pub(crate) fn version(&self) -> Option<Version> {
        let found = self.found.as_ref()?;
        Some(Version { dev: found.dev, ino: found.ino, ctime: found.ctime })
    }
}

impl TargetSnapshot {
    /// Returns the versions of all targets except directories, since a directory's own state says
    /// nothing of its content.
    pub(crate) fn files(&self) -> Vec<Version> {
        let files = self.targets.iter().filter(|target| {
            target.found.as_ref().is_some_and(|found| found.kind != EntryKind::Directory)
        });
        files.filter_map(InspectedTarget::version).collect()
    }

    /// Inspects all targets again, this time with their contents.
    pub(crate) async fn inspect_contents(&self, session: &Session) -> Result<Self, CallError> {
        if self.change.is_some() {
            return Ok(Self { cwd: session.cwd(), ..self.clone() });
        }
        let mut targets = Vec::with_capacity(self.targets.len());
        for target in &self.targets {
            targets.push(
                InspectedTarget::look(session, target.path.clone(), target.link, CLOSELY).await?,
            );
        }
        Ok(Self { cwd: session.cwd(), targets, change: None })
    }

    /// Describes the first difference between this state and `now`; `None` if there is none.
    pub(crate) fn changed(&self, now: &Self) -> Option<String> {
        if self.cwd != now.cwd {
            return Some("the session's current directory has changed".to_owned());
        }
        let pairs = self.targets.iter().zip(&now.targets);
        let changed = pairs.into_iter().find(|(before, after)| before != after);
        changed.map(|(before, _)| format!("{:?} has changed", lossy(&before.path)))
    }

    /// Describes the first target that is now another file than when only its metadata was read;
    /// `None` if there is none.
    pub(crate) fn replaced(&self, now: &Self) -> Option<String> {
        let is_other = |(before, after): &(&InspectedTarget, &InspectedTarget)| {
            before.real != after.real || before.version() != after.version()
        };
        let mut pairs = self.targets.iter().zip(&now.targets);
        pairs.find(is_other).map(|(before, _)| format!("{:?} has changed", lossy(&before.path)))
    }

    /// Adds the whole state to a digest.
    pub(crate) fn digest(&self, hash: &mut Sha256) {
        part(hash, &self.cwd);
        part(hash, self.change.as_ref().map_or(&[][..], |change| &change.digest));
        hash.update((self.targets.len() as u64).to_le_bytes());
        for target in &self.targets {
            part(hash, &target.path);
            part(hash, &target.real);
            match &target.found {
                None => hash.update([0]),
                Some(found) => {
                    hash.update([1, found.kind as u8]);
                    for number in [found.dev, found.ino, found.size] {
                        hash.update(number.to_le_bytes());
                    }
                    for (seconds, nanoseconds) in [found.mtime, found.ctime] {
                        hash.update(seconds.to_le_bytes());
                        hash.update(nanoseconds.to_le_bytes());
                    }
                    part(hash, found.digest.as_ref().map_or(&[][..], |digest| digest));
                }
            }
        }
    }
}

/// Adds bytes to a digest with their length in front, so that parts can not be confused.
pub(crate) fn part(hash: &mut Sha256, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}

fn lossy(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(ino: u64, digest: u8) -> InspectedTarget {
        let found = EntryDetails {
            kind: EntryKind::File,
            dev: 1,
            ino,
            mode: 0o644,
            links: 1,
            owner: (0, 0),
            target: None,
            size: 3,
            mtime: (1, 2),
            ctime: (3, 4),
            digest: Some([digest; 32]),
            head: Vec::new(),
        };
        let (path, real) = (b"/w/f".to_vec(), b"/w/f".to_vec());
        InspectedTarget { path, link: Link::Target, real, found: Some(found) }
    }

    fn seen(cwd: &str, targets: Vec<InspectedTarget>) -> TargetSnapshot {
        TargetSnapshot { cwd: cwd.into(), targets, change: None }
    }

    fn digest(seen: &TargetSnapshot) -> Vec<u8> {
        let mut hash = Sha256::new();
        seen.digest(&mut hash);
        hash.finalize().to_vec()
    }

    #[test]
    fn inode_content_absence_and_directory_all_count() {
        let first = seen("/w", vec![target(7, 1)]);
        let mut elsewhere = target(7, 1);
        elsewhere.real = b"/w/g".to_vec();
        let mut gone = target(7, 1);
        gone.found = None;
        for (other, why) in [
            (seen("/w", vec![target(8, 1)]), "\"/w/f\" has changed"),
            (seen("/w", vec![target(7, 2)]), "\"/w/f\" has changed"),
            (seen("/w", vec![elsewhere]), "\"/w/f\" has changed"),
            (seen("/w", vec![gone]), "\"/w/f\" has changed"),
            (seen("/x", vec![target(7, 1)]), "the session's current directory has changed"),
        ] {
            assert_eq!(first.changed(&other).as_deref(), Some(why));
            assert_ne!(digest(&first), digest(&other));
        }
        assert_eq!(first.changed(&first.clone()), None);
        assert_eq!(digest(&first), digest(&first.clone()));
    }
}
