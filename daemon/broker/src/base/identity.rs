//! The fixed properties of a session: whose it is, where it works, and under which profile. Pure.

use crate::base::peer::Peer;
use palisade_plan::record::Recording;
use palisade_policy::{Profile, Scene};
use palisade_protocol::{Ask, Guard, RawPath, SessionId, limits};
use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

/// The properties of a session that never change.
#[derive(Debug)]
pub(crate) struct SessionIdentity {
    pub(crate) id: SessionId,
    /// The client that opened the session.
    pub(crate) peer: Peer,
    pub(crate) workspace: RawPath,
    pub(crate) profile: Arc<Profile>,
    pub(crate) ask: Ask,
    /// The guard of `bash` that the client wanted.
    pub(crate) guard: Guard,
    /// The client's choice to record the accesses of programs or not.
    pub(crate) recording: Recording,
    pub(crate) scene: Scene,
    pub(crate) opened: Instant,
}

impl SessionIdentity {
    pub(crate) const fn uid(&self) -> u32 {
        self.peer.uid
    }

    /// Returns the name of the session's profile, and whether it is only observed.
    pub(crate) fn profile_shown(&self) -> String {
        let name = self.profile.name();
        match self.profile.observed_under() {
            Some(under) => format!("{name} (observed under {under}, not enforced)"),
            None => name.to_owned(),
        }
    }
}

/// The directory in which a session's next call starts.
#[derive(Debug)]
pub(crate) struct WorkingDirectory(Mutex<Vec<u8>>);

impl WorkingDirectory {
    pub(crate) const fn new(path: Vec<u8>) -> Self {
        Self(Mutex::new(path))
    }

    pub(crate) fn get(&self) -> Vec<u8> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sets the directory. Returns whether it can be a path; if not, nothing is set.
    pub(crate) fn set(&self, path: Vec<u8>) -> bool {
        let is_path =
            path.first() == Some(&b'/') && !path.contains(&0) && path.len() <= limits::MAX_PATH;
        if is_path {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = path;
        }
        is_path
    }
}
