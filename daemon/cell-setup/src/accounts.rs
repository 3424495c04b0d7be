//! The `/etc/passwd` and `/etc/group` that a session with a uid of its own sees. The peer's entry
//! carries the session's ids, so that programs find their own account. Runs in the cell. Pure: no
//! I/O.

use palisade_plan::Runs;

/// The account name used if the host's file has no entry for the peer.
const NAME: &str = "palisade";

/// A host account file that is rewritten for a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accounts {
    /// `/etc/passwd`.
    Users,
    /// `/etc/group`.
    Groups,
}

impl Accounts {
    /// Returns the account file at `path`, or `None` for any other path.
    pub(crate) fn at(path: &std::path::Path) -> Option<Self> {
        match path.to_str() {
            Some("/etc/passwd") => Some(Self::Users),
            Some("/etc/group") => Some(Self::Groups),
            Some(_) | None => None,
        }
    }

    /// Returns the host's text with the session's ids in the peer's entry.
    pub(crate) fn of_session(self, host: &[u8], runs: &Runs) -> Vec<u8> {
        let (peer, own) = match self {
            Self::Users => (runs.peer.uid, runs.own.uid),
            Self::Groups => (runs.peer.gid, runs.own.gid),
        };
        let mut text = Vec::with_capacity(host.len() + 64);
        let mut named = false;
        for line in host.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let mut fields: Vec<_> = line.split(|byte| *byte == b':').collect();
            let (number, group) = (own.to_string(), runs.own.gid.to_string());
            let id = fields.get(2).and_then(|id| std::str::from_utf8(id).ok()?.parse::<u32>().ok());
            if id == Some(peer) {
                named = true;
                if let Some(field) = fields.get_mut(2) {
                    *field = number.as_bytes();
                }
                if let (Self::Users, Some(field)) = (self, fields.get_mut(3)) {
                    *field = group.as_bytes();
                }
            }
            text.extend(fields.join(&b':'));
            text.push(b'\n');
        }
        if !named {
            let line = match self {
                Self::Users => format!("{NAME}:x:{own}:{}::/:/bin/sh\n", runs.own.gid),
                Self::Groups => format!("{NAME}:x:{own}:\n"),
            };
            text.extend(line.into_bytes());
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_plan::Identity;

    fn said(of: Accounts, host: &str) -> String {
        let runs = Runs {
            own: Identity { uid: 600_001, gid: 600_001 },
            peer: Identity { uid: 1000, gid: 100 },
        };
        String::from_utf8(of.of_session(host.as_bytes(), &runs)).unwrap()
    }

    #[test]
    fn the_session_has_the_peers_name_and_home() {
        let host =
            "root:x:0:0:root:/root:/bin/bash\nalice:x:1000:100:A:/home/alice:/bin/zsh\n+::::::\n";
        assert_eq!(
            said(Accounts::Users, host),
            "root:x:0:0:root:/root:/bin/bash\nalice:x:600001:600001:A:/home/alice:/bin/zsh\n+::::::\n"
        );
        let host = "users:x:100:bob\nalice:x:1000:\n";
        assert_eq!(said(Accounts::Groups, host), "users:x:600001:bob\nalice:x:1000:\n");
    }

    #[test]
    fn who_has_no_account_gets_one() {
        assert_eq!(
            said(Accounts::Users, "r:x:0:0:::"),
            "r:x:0:0:::\npalisade:x:600001:600001::/:/bin/sh\n"
        );
        assert_eq!(said(Accounts::Groups, ""), "palisade:x:600001:\n");
    }
}
