//! What a call would touch, as it was when somebody looked: to show it, and to notice when it is
//! something else by the time the call runs. Broker.

use crate::{change::Preview, error::CallError, session::Session};
use palisade_plan::{
    Path,
    cell::{Contents, EntryKind, FileReply, FileRequest, Link, Looked},
    change::Version,
};
use sha2::{Digest as _, Sha256};

/// Enough of a file's beginning for a diff.
const CLOSELY: Contents = Contents::Read { head: 64 * 1024 };

/// What a call would touch, and from where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) cwd: Vec<u8>,
    pub(crate) targets: Vec<SeenTarget>,
    /// What a change would do. It is held against what it turns out to do when it is made.
    pub(crate) change: Option<Preview>,
}

/// One path and what is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SeenTarget {
    /// Absolute, as it was named.
    pub(crate) path: Vec<u8>,
    pub(crate) link: Link,
    /// Where it leads.
    pub(crate) real: Vec<u8>,
    pub(crate) found: Option<Looked>,
}

impl SeenTarget {
    /// Looks at a path in the cell.
    pub(crate) async fn look(
        session: &Session,
        path: Vec<u8>,
        link: Link,
        contents: Contents,
    ) -> Result<Self, CallError> {
        let failed = |error: crate::channel::ChannelError| session.channel_error(error);
        let Some(mut lease) = session.files.lease().await else {
            return Err(session.channel_error("all its file channels are broken"));
        };
        let request = FileRequest::Look { path: Path(path.clone()), link, contents };
        lease.send(&[request]).await.map_err(failed)?;
        match lease.receive().await.map_err(failed)? {
            FileReply::Looked { real, found } => {
                Ok(Self { path, link, real: real.0, found: found.map(|found| *found) })
            }
            FileReply::Failed(failure) => Err(CallError::File(failure)),
            FileReply::Content(_)
            | FileReply::Read { .. }
            | FileReply::Listed { .. }
            | FileReply::Before(_)
            | FileReply::Effects(_)
            | FileReply::Wrote(_)
            | FileReply::Prepared(_)
            | FileReply::Changed(_)
            | FileReply::Globbed(_)
            | FileReply::Scanned { .. }
            | FileReply::Grepped(_)
            | FileReply::Progress { .. }
            | FileReply::Abandoned => {
                Err(CallError::Cell("it answered another request".to_owned()))
            }
        }
    }

    /// What is there, in a word.
    pub(crate) fn there(&self) -> Option<&'static str> {
        self.found.as_ref().map(|found| match found.kind {
            EntryKind::File => "file",
            EntryKind::Directory => "directory",
            EntryKind::Symlink => "symlink",
            EntryKind::Other => "other",
        })
    }

    /// The state of what is there.
    pub(crate) fn version(&self) -> Option<Version> {
        let found = self.found.as_ref()?;
        Some(Version { dev: found.dev, ino: found.ino, ctime: found.ctime })
    }
}

impl Seen {
    /// The files among the targets, as they were. A directory's state says nothing of what is below.
    pub(crate) fn files(&self) -> Vec<Version> {
        let files = self.targets.iter().filter(|target| {
            target.found.as_ref().is_some_and(|found| found.kind != EntryKind::Directory)
        });
        files.filter_map(SeenTarget::version).collect()
    }

    /// Looks at all of it again, and into the files.
    pub(crate) async fn closely(&self, session: &Session) -> Result<Self, CallError> {
        if self.change.is_some() {
            return Ok(Self { cwd: session.cwd(), ..self.clone() });
        }
        let mut targets = Vec::with_capacity(self.targets.len());
        for target in &self.targets {
            targets
                .push(SeenTarget::look(session, target.path.clone(), target.link, CLOSELY).await?);
        }
        Ok(Self { cwd: session.cwd(), targets, change: None })
    }

    /// What is different now, in words; none if nothing is.
    pub(crate) fn changed(&self, now: &Self) -> Option<String> {
        if self.cwd != now.cwd {
            return Some("the session's current directory is another".to_owned());
        }
        let pairs = self.targets.iter().zip(&now.targets);
        let changed = pairs.into_iter().find(|(before, after)| before != after);
        changed.map(|(before, _)| format!("{:?} is not what it was", lossy(&before.path)))
    }

    /// What is another thing now than what was only looked at before; none if nothing is.
    pub(crate) fn replaced(&self, now: &Self) -> Option<String> {
        let is_other = |(before, after): &(&SeenTarget, &SeenTarget)| {
            before.real != after.real || before.version() != after.version()
        };
        let mut pairs = self.targets.iter().zip(&now.targets);
        pairs
            .find(is_other)
            .map(|(before, _)| format!("{:?} is not what it was", lossy(&before.path)))
    }

    /// Adds all of it to a digest.
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

/// Adds bytes to a digest with their length in front: no border can be moved.
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

    fn target(ino: u64, digest: u8) -> SeenTarget {
        let found = Looked {
            kind: EntryKind::File,
            dev: 1,
            ino,
            size: 3,
            mtime: (1, 2),
            ctime: (3, 4),
            digest: Some([digest; 32]),
            head: Vec::new(),
        };
        let (path, real) = (b"/w/f".to_vec(), b"/w/f".to_vec());
        SeenTarget { path, link: Link::Target, real, found: Some(found) }
    }

    fn seen(cwd: &str, targets: Vec<SeenTarget>) -> Seen {
        Seen { cwd: cwd.into(), targets, change: None }
    }

    fn digest(seen: &Seen) -> Vec<u8> {
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
            (seen("/w", vec![target(8, 1)]), "\"/w/f\" is not what it was"),
            (seen("/w", vec![target(7, 2)]), "\"/w/f\" is not what it was"),
            (seen("/w", vec![elsewhere]), "\"/w/f\" is not what it was"),
            (seen("/w", vec![gone]), "\"/w/f\" is not what it was"),
            (seen("/x", vec![target(7, 1)]), "the session's current directory is another"),
        ] {
            assert_eq!(first.changed(&other).as_deref(), Some(why));
            assert_ne!(digest(&first), digest(&other));
        }
        assert_eq!(first.changed(&first.clone()), None);
        assert_eq!(digest(&first), digest(&first.clone()));
    }
}
