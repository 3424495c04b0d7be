//! The roles that the configuration gives to peers, by uid, gid and systemd unit. Runs in the
//! broker. Pure except for looking up user and group names.

use crate::base::who::PeerIdentity;
use palisade_plan::{
    SessionUid,
    uids::{RangeError, UidRange},
};
use palisade_protocol::{ErrorCode, Request, Right, Senders, WireError};
use serde::{Deserialize, Serialize};

/// The role of a peer, which limits its requests. The socket it connected to and its credentials
/// decide it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    /// Makes tool calls.
    Agent,
    /// Answers approval requests, and manages remembered approvals and sessions.
    Operator,
    /// Provides tools of its own and answers calls to them.
    Provider,
}

/// A user, group or systemd unit that a role names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct Principal {
    text: String,
    kind: PrincipalKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum PrincipalKind {
    Uid(u32),
    Gid(u32),
    Unit(String),
}

impl TryFrom<String> for Principal {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let number = |word: &str| {
            word.parse::<u32>().map_err(|_| format!("{text:?} does not end in a number"))
        };
        let kind = match text.split_once(':') {
            Some(("uid", word)) => PrincipalKind::Uid(number(word)?),
            Some(("gid", word)) => PrincipalKind::Gid(number(word)?),
            Some(("user", name)) => match nix::unistd::User::from_name(name) {
                Ok(Some(user)) => PrincipalKind::Uid(user.uid.as_raw()),
                Ok(None) | Err(_) => return Err(format!("{text:?}: there is no such user")),
            },
            Some(("group", name)) => match nix::unistd::Group::from_name(name) {
                Ok(Some(group)) => PrincipalKind::Gid(group.gid.as_raw()),
                Ok(None) | Err(_) => return Err(format!("{text:?}: there is no such group")),
            },
            Some(("unit", name)) if name.ends_with(".service") || name.ends_with(".scope") => {
                PrincipalKind::Unit(name.to_owned())
            }
            Some(_) | None => {
                return Err(format!(
                    "{text:?} is invalid: use uid:N, gid:N, user:NAME, group:NAME or \
                     unit:NAME.service"
                ));
            }
        };
        Ok(Self { text, kind })
    }
}

impl From<Principal> for String {
    fn from(principal: Principal) -> Self {
        principal.text
    }
}

impl Principal {
    fn is(&self, who: &PeerIdentity) -> bool {
        match &self.kind {
            PrincipalKind::Uid(uid) => who.peer.uid == *uid,
            PrincipalKind::Gid(gid) => who.has_group(*gid),
            PrincipalKind::Unit(unit) => who.is_of_unit(unit),
        }
    }
}

/// The principals that have a role; `None` means everybody whom the socket admits.
type RoleMembers = Option<Vec<Principal>>;

/// The principals of each role.
#[derive(Debug, Clone, Default)]
pub(crate) struct Roles {
    pub(crate) connect: RoleMembers,
    pub(crate) handle: RoleMembers,
    pub(crate) observe: RoleMembers,
    pub(crate) administer: RoleMembers,
    pub(crate) provide: RoleMembers,
    /// The principals that may record accesses. `None` means the daemon's own user and root.
    pub(crate) record: RoleMembers,
    /// The principals whose sessions always get a uid of their own, whatever the default is.
    pub(crate) throwaway: RoleMembers,
}

/// The uid that sessions run with.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Identity {
    /// The uid of the client that opened the session.
    #[default]
    Peer,
    /// A uid of the session's own, from the launcher's range.
    Throwaway,
}

/// The range of uids that the daemon gives to a launcher it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(crate) struct SessionUids(pub(crate) UidRange);

impl TryFrom<String> for SessionUids {
    type Error = RangeError;

    fn try_from(text: String) -> Result<Self, RangeError> {
        text.parse().map(Self)
    }
}

impl From<SessionUids> for String {
    fn from(uids: SessionUids) -> Self {
        uids.0.to_string()
    }
}

impl Roles {
    /// Refuses a peer that may not use a socket at all.
    pub(crate) fn admit(&self, role: Role, who: &PeerIdentity) -> Result<(), WireError> {
        match role {
            Role::Agent => check(&self.connect, who, "connect", "connect as an agent"),
            Role::Provider => check(&self.provide, who, "provide", "register tools"),
            Role::Operator => Ok(()),
        }
    }

    /// Refuses a peer that may not record the accesses of its programs.
    pub(crate) fn check_may_record(&self, who: &PeerIdentity) -> Result<(), WireError> {
        let own = [0, rustix::process::geteuid().as_raw()].contains(&who.peer.uid);
        match &self.record {
            None if own => Ok(()),
            None => check(&Some(Vec::new()), who, "record", "record what programs access"),
            named @ Some(_) => check(named, who, "record", "record what programs access"),
        }
    }

    /// Returns which uid a peer's session runs with.
    pub(crate) fn uid_for(&self, who: &PeerIdentity, usual: Identity) -> SessionUid {
        let named = self.throwaway.iter().flatten().any(|principal| principal.is(who));
        match usual {
            Identity::Peer if !named => SessionUid::Peer,
            Identity::Peer | Identity::Throwaway => SessionUid::Throwaway,
        }
    }

    /// Refuses an operator's request if the configuration does not allow it to this peer.
    pub(crate) fn permit(&self, request: &Request, who: &PeerIdentity) -> Result<(), WireError> {
        let right = match request.senders() {
            Senders::Operators(right) => right,
            Senders::Observers => Right::Observe,
            Senders::Approvers => Right::Handle,
            Senders::Everybody | Senders::Agents | Senders::Providers => return Ok(()),
        };
        match right {
            Right::Handle => check(&self.handle, who, "handle", "answer approval requests"),
            Right::Observe => check(&self.observe, who, "observe", "observe sessions"),
            Right::Administer => {
                let what = "administer remembered approvals and sessions";
                check(&self.administer, who, "administer", what)
            }
        }
    }
}

fn check(named: &RoleMembers, who: &PeerIdentity, key: &str, act: &str) -> Result<(), WireError> {
    match named {
        Some(named) if !named.iter().any(|principal| principal.is(who)) => Err(WireError::new(
            ErrorCode::Forbidden,
            format!("this peer ({who}) may not {act}"),
            format!("roles.{key} of the daemon's configuration lists who may"),
        )),
        Some(_) | None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::peer::Peer;

    fn named(texts: &[&str]) -> RoleMembers {
        Some(texts.iter().map(|text| Principal::try_from((*text).to_owned()).unwrap()).collect())
    }

    #[test]
    fn a_role_is_for_whom_it_names_by_uid_group_or_unit() {
        let peer = Peer { uid: 7, gid: 8, pid: Some(9) };
        let who = PeerIdentity::known(peer, vec![27], Some("agent.service"));
        for (texts, admitted) in [
            (&["uid:7"][..], true),
            (&["uid:8"], false),
            (&["gid:8"], true),
            (&["gid:27"], true),
            (&["gid:7"], false),
            (&["unit:agent.service"], true),
            (&["unit:other.service"], false),
            (&["uid:1", "unit:agent.service"], true),
            (&["user:root", "group:root"], false),
            (&[], false),
        ] {
            let roles = Roles { connect: named(texts), ..Roles::default() };
            assert_eq!(roles.admit(Role::Agent, &who).is_ok(), admitted, "{texts:?}");
            // Other roles are not restricted by this one.
            assert_eq!(roles.admit(Role::Provider, &who), Ok(()));
            assert_eq!(roles.permit(&Request::Pending, &who), Ok(()));
        }
        let unknown = PeerIdentity::known(peer, Vec::new(), None);
        let roles = Roles { handle: named(&["unit:agent.service"]), ..Roles::default() };
        let error = roles.permit(&Request::Pending, &unknown).unwrap_err();
        assert_eq!(error.code, ErrorCode::Forbidden);
        assert_eq!(
            error.message,
            "this peer (uid 7, gid 8, unit unknown) may not answer approval requests"
        );
    }

    #[test]
    fn only_its_own_user_and_root_record_unless_others_are_named() {
        let own = rustix::process::geteuid().as_raw();
        let who = |uid| PeerIdentity::known(Peer { uid, gid: 8, pid: Some(9) }, Vec::new(), None);
        let usual = Roles::default();
        for (uid, may) in [(0, true), (own, true), (own.wrapping_add(7), false)] {
            assert_eq!(usual.check_may_record(&who(uid)).is_ok(), may, "{uid}");
        }
        let named = Roles { record: named(&["uid:7"]), ..Roles::default() };
        assert_eq!(named.check_may_record(&who(7)), Ok(()));
        let error = named.check_may_record(&who(0)).unwrap_err();
        assert_eq!(error.code, ErrorCode::Forbidden);
        assert!(error.hint.starts_with("roles.record of"), "{}", error.hint);
    }

    #[test]
    fn a_uid_of_its_own_is_for_all_or_for_whom_the_role_names() {
        let who = PeerIdentity::known(
            Peer { uid: 7, gid: 8, pid: None },
            vec![27],
            Some("agent.service"),
        );
        for (texts, usual, throwaway) in [
            (None, Identity::Peer, false),
            (None, Identity::Throwaway, true),
            (Some(&["unit:agent.service"][..]), Identity::Peer, true),
            (Some(&["gid:27"]), Identity::Peer, true),
            (Some(&["uid:9"]), Identity::Peer, false),
            (Some(&[]), Identity::Throwaway, true),
        ] {
            let roles = Roles { throwaway: texts.and_then(named), ..Roles::default() };
            let expected = if throwaway { SessionUid::Throwaway } else { SessionUid::Peer };
            assert_eq!(roles.uid_for(&who, usual), expected, "{texts:?} {usual:?}");
        }
    }

    #[test]
    fn what_names_nobody_is_refused() {
        for text in ["alice", "uid:", "uid:-1", "gid:x", "unit:", "unit:x", "user:no-such-user"] {
            assert!(Principal::try_from(text.to_owned()).is_err(), "{text}");
        }
    }
}
