//! The settings in force, which a reload replaces all at once. Runs in the broker.

use crate::base::{
    own::DaemonPaths,
    quotas::Quotas,
    roles::{Identity, Roles},
    services::AllowedServices,
};
use palisade_policy::{Profile, ProfileSet};
use std::{
    collections::BTreeMap,
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

/// The settings that a reload replaces, all at once. Open sessions keep those they began with.
#[derive(Debug, Default)]
pub(crate) struct LiveSettings {
    pub(crate) profiles: BTreeMap<String, Arc<Profile>>,
    /// The names of invalid profiles, which no session can have, and the error in each.
    pub(crate) invalid: BTreeMap<String, String>,
    pub(crate) own: DaemonPaths,
    /// The time that running calls may take to finish when the daemon stops.
    pub(crate) drain: Duration,
    pub(crate) roles: Roles,
    pub(crate) quotas: Quotas,
    /// The default uid that sessions run with.
    pub(crate) identity: Identity,
    /// The services of this host that profiles may let sessions use.
    pub(crate) allow_host: AllowedServices,
    /// The ports that profiles may let sessions publish on the host's loopback.
    pub(crate) allow_publish: AllowedServices,
}

impl LiveSettings {
    pub(crate) fn new(profiles: &ProfileSet, own: DaemonPaths) -> Self {
        let profiles = profiles
            .names()
            .filter_map(|name| Some((name.to_owned(), Arc::new(profiles.get(name)?.clone()))))
            .collect();
        Self { profiles, own, ..Self::default() }
    }
}

/// The settings in force.
#[derive(Debug)]
pub(crate) struct SettingsInForce(RwLock<Arc<LiveSettings>>);

impl SettingsInForce {
    pub(crate) fn new(live: LiveSettings) -> Self {
        Self(RwLock::new(Arc::new(live)))
    }

    /// Returns the settings that are in force now.
    pub(crate) fn now(&self) -> Arc<LiveSettings> {
        Arc::clone(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Replaces the settings in force.
    pub(crate) fn replace(&self, live: LiveSettings) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(live);
    }

    /// Returns the digest of the profile that has this name now; a session may use an older one.
    pub(crate) fn profile_digest(&self, name: &str) -> Option<String> {
        self.now().profiles.get(name).map(|profile| profile.digest().to_owned())
    }
}
