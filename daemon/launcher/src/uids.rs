//! Uids reserved for sessions, one uid per session, which nothing else on the host has while the
//! session lives. Root chooses the range. The launcher checks that nobody has these uids, and again
//! whenever the host's account files have changed.

use palisade_plan::{Identity, Runs, launcher::Refusal, uids::UidRange};
use std::{collections::BTreeSet, fs, io, os::unix::fs::MetadataExt as _, path::Path};

/// The option that sets the range.
pub(crate) const OPTION: &str = "--session-uids";

/// The files that assign ids on the host.
const FILES: [&str; 4] = ["/etc/passwd", "/etc/group", "/etc/subuid", "/etc/subgid"];

/// The reason that a range of uids can not be used.
#[derive(Debug, thiserror::Error)]
pub enum UidsError {
    /// Somebody has one of the uids.
    #[error(
        "{OPTION} {range}: {file} assigns {first} to {whose:?}; choose a range that no account \
         has, and keep it free (SUB_UID_MIN and SUB_UID_MAX of /etc/login.defs say where useradd \
         allocates ids)"
    )]
    Taken {
        /// The range.
        range: UidRange,
        /// The file that assigns it.
        file: &'static str,
        /// The first id that is taken there.
        first: u32,
        /// The account or group that has it.
        whose: String,
    },
    /// The file could not be read, so it is not known who has the ids.
    #[error("{OPTION}: can not read {0}: {1}; without it the owners of the uids are unknown")]
    Read(&'static str, #[source] io::Error),
}

/// The identity of a file when it was read, by which a change is noticed.
type FileIdentity = Option<(u64, u64, i64, i64)>;

/// The range of uids, and the next one to use.
#[derive(Debug)]
pub(crate) struct Uids {
    range: Option<UidRange>,
    next: u32,
    seen: [FileIdentity; 4],
}

impl Uids {
    /// Checks and takes a range that nobody has.
    pub(crate) fn new(range: Option<UidRange>) -> Result<Self, UidsError> {
        let next = range.map_or(0, UidRange::first);
        let mut uids = Self { range, next, seen: [None; 4] };
        if let Some(range) = range {
            uids.seen = FILES.map(look);
            check(range)?;
        }
        Ok(uids)
    }

    /// Returns the identities for a session of `peer`, with the next uid of the range that no
    /// living session has. A uid that was just released is the last to be used again.
    pub(crate) fn take(
        &mut self,
        peer: Identity,
        living: impl Iterator<Item = u32>,
    ) -> Result<Runs, Refusal> {
        let Some(range) = self.range else {
            return Err(Refusal::NoUid(format!(
                "the launcher was started without a range of uids ({OPTION} FIRST-LAST)"
            )));
        };
        let seen = FILES.map(look);
        if seen != self.seen {
            check(range).map_err(|error| Refusal::NoUid(error.to_string()))?;
            self.seen = seen;
        }
        let living: BTreeSet<u32> = living.collect();
        let taken = format!("all {} uids of {range} are used by running sessions", range.count());
        let free = range.in_turn(self.next).find(|uid| !living.contains(uid));
        let free = free.ok_or(Refusal::UidsTaken(taken))?;
        self.next = range.after(free);
        Ok(Runs { own: Identity { uid: free, gid: free }, peer })
    }
}

fn look(file: &str) -> FileIdentity {
    let found = fs::metadata(file).ok()?;
    Some((found.ino(), found.len(), found.ctime(), found.ctime_nsec()))
}

/// Refuses a range if somebody has one of its ids.
fn check(range: UidRange) -> Result<(), UidsError> {
    for file in FILES {
        let text = match fs::read(Path::new(file)) {
            Ok(text) => String::from_utf8_lossy(&text).into_owned(),
            // If the file does not exist, it assigns no ids.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => return Err(UidsError::Read(file, error)),
        };
        let taken = match file.starts_with("/etc/sub") {
            true => subordinate(range, &text),
            false => accounts(range, &text),
        };
        if let Some((whose, first)) = taken {
            return Err(UidsError::Taken { range, file, first, whose });
        }
    }
    Ok(())
}

/// Finds an account or group, from lines of `name:password:id:…`, whose id is in the range.
fn accounts(range: UidRange, text: &str) -> Option<(String, u32)> {
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let id = fields.nth(1)?.parse().ok().filter(|id| range.has(*id))?;
        Some((name.to_owned(), id))
    })
}

/// Finds a range of subordinate ids, from lines of `name:first:count`, that overlaps the range.
fn subordinate(range: UidRange, text: &str) -> Option<(String, u32)> {
    text.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        let first: u32 = fields.next()?.parse().ok()?;
        let count = fields.next()?.trim().parse().ok()?;
        range.meets(first, count).then(|| (name.to_owned(), first))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: Identity = Identity { uid: 1000, gid: 1000 };

    fn uids(range: &str) -> Uids {
        Uids::new(Some(range.parse().unwrap())).unwrap()
    }

    fn own(taken: Result<Runs, Refusal>) -> u32 {
        let runs = taken.unwrap();
        assert_eq!((runs.peer, runs.own.gid), (PEER, runs.own.uid));
        runs.own.uid
    }

    #[test]
    fn each_session_has_the_next_that_none_has() {
        let mut uids = uids("3000000000-3000000002");
        let mut living = Vec::new();
        for expected in [3_000_000_000, 3_000_000_001, 3_000_000_002] {
            let uid = own(uids.take(PEER, living.iter().copied()));
            assert_eq!(uid, expected);
            living.push(uid);
        }
        assert_eq!(
            uids.take(PEER, living.iter().copied()),
            Err(Refusal::UidsTaken(
                "all 3 uids of 3000000000-3000000002 are used by running sessions".into()
            ))
        );
        // While the session lives nobody else gets its uid. Afterwards it is used again, in its
        // turn.
        living.remove(1);
        assert_eq!(own(uids.take(PEER, living.iter().copied())), 3_000_000_001);
        living.remove(0);
        assert_eq!(own(uids.take(PEER, living.iter().copied())), 3_000_000_000);
        assert_eq!(own(uids.take(PEER, [].into_iter())), 3_000_000_001);
        assert_eq!(own(uids.take(PEER, [].into_iter())), 3_000_000_002);
    }

    #[test]
    fn without_a_range_there_is_none() {
        let mut none = Uids::new(None).unwrap();
        let refusal = none.take(PEER, [].into_iter());
        assert!(matches!(refusal, Err(Refusal::NoUid(why)) if why.contains("--session-uids")));
    }

    #[test]
    fn what_somebody_has_is_refused() {
        let range = "600000-600009".parse().unwrap();
        let text = "root:x:0:0\nalice:x:600009:600009:\nbroken\n";
        assert_eq!(accounts(range, text), Some(("alice".into(), 600_009)));
        assert_eq!(accounts(range, "bob:x:600010:600001:\n"), None);
        assert_eq!(subordinate(range, "bob:590000:10001\n"), Some(("bob".into(), 590_000)));
        assert_eq!(subordinate(range, "bob:590000:10000\nbroken:1\n"), None);
    }
}
