//! What all connections share. Broker.

use crate::{
    audit::Audit,
    census::Census,
    link::Link,
    own::Own,
    session::Session,
    spool::Spools,
    tools::{Registry, RegistryError},
};
use palisade_policy::{Profile, ProfileSet};
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

/// The daemon's name and release.
pub(crate) const NAME: &str = concat!("palisaded ", env!("CARGO_PKG_VERSION"));

/// What all connections share.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) profiles: BTreeMap<String, Arc<Profile>>,
    pub(crate) registry: Registry,
    pub(crate) link: Link,
    pub(crate) spools: Spools,
    pub(crate) census: Census,
    pub(crate) own: Own,
    pub(crate) audit: Audit,
    sessions: Mutex<Vec<Weak<Session>>>,
}

impl Server {
    pub(crate) fn new(
        profiles: &ProfileSet,
        link: Link,
        spools: Spools,
    ) -> Result<Self, RegistryError> {
        let profiles = profiles
            .names()
            .filter_map(|name| Some((name.to_owned(), Arc::new(profiles.get(name)?.clone()))))
            .collect();
        Ok(Self {
            profiles,
            registry: Registry::new()?,
            link,
            spools,
            census: Census::default(),
            own: Own::default(),
            audit: Audit::none("none was opened"),
            sessions: Mutex::default(),
        })
    }

    /// The same with places of its own that no session gets.
    pub(crate) fn keeping(self, own: Own) -> Self {
        Self { own, ..self }
    }

    /// The same with a log, without which it runs nothing.
    pub(crate) fn recording(self, audit: Audit) -> Self {
        Self { audit, ..self }
    }

    /// Remembers a session for `status`, for as long as it lives.
    pub(crate) fn note(&self, session: &Arc<Session>) {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.retain(|known| known.strong_count() > 0);
        sessions.push(Arc::downgrade(session));
    }

    /// The sessions of a user.
    pub(crate) fn sessions_of(&self, uid: u32) -> Vec<Arc<Session>> {
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.iter().filter_map(Weak::upgrade).filter(|session| session.uid() == uid).collect()
    }
}
