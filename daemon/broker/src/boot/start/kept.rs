//! The stores in the state directory: created before privilege is given up, opened after. Runs in
//! the broker.

use super::error::StartError;
use crate::{
    base::reach::OpenDirectories,
    boot::{
        config::KeySource,
        settings::{ClientEndpoint, Settings, StateDirectory},
        state::{self, StateDirectories, StateError},
    },
    stores::{spool::Spools, undo::Undos},
    telemetry::audit::{Audit, LogKeeping},
};
use palisade_audit::SigningKey;
use std::{env, path::PathBuf};

/// The state directories, or why an embedded daemon has none.
#[derive(Debug)]
pub(super) struct StateStores {
    places: Result<StateDirectories, StateError>,
    /// The key that signs the audit log, which only root may be able to read.
    key: Option<SigningKey>,
}

impl StateStores {
    /// Creates the directories and holds them open. An embedded daemon starts without them if no
    /// directory is configured and the default can not be used. Its client is then told why nothing
    /// runs.
    pub(super) fn make(
        settings: &Settings,
        reach: &mut OpenDirectories,
    ) -> Result<Self, StartError> {
        let key = settings.audit_key.as_ref().map(load).transpose()?;
        match (
            state::prepare(&settings.state, settings.account),
            &settings.client_endpoint,
            &settings.state,
        ) {
            (Ok(places), ..) => {
                if settings.account.is_some() {
                    for path in [&places.spool, &places.audit, &places.undo] {
                        reach.hold(path);
                    }
                }
                Ok(Self { places: Ok(places), key })
            }
            (
                Err(error),
                ClientEndpoint::Embedded,
                StateDirectory::Usual(_) | StateDirectory::Nowhere,
            ) => Ok(Self { places: Err(error), key }),
            (Err(error), ClientEndpoint::Embedded | ClientEndpoint::Socket(_), _) => {
                Err(error.into())
            }
        }
    }

    /// Returns the launcher's directory for transactions, by its real path: the launcher refuses
    /// symbolic links.
    pub(super) fn transactions(&self) -> Option<PathBuf> {
        let path = &self.places.as_ref().ok()?.transactions;
        Some(path.canonicalize().unwrap_or_else(|_| path.clone()))
    }

    /// Opens the output store and the undo store.
    pub(super) fn stores(&self, reach: &OpenDirectories) -> (Spools, Undos) {
        let places = self.places.as_ref().ok();
        let spools = Spools::new(places.map(|places| reach.enter(&places.spool)));
        (spools, Undos::new(places.map(|places| reach.enter(&places.undo))))
    }

    /// Opens the audit log, as the user that the broker has switched to.
    pub(super) fn audit(
        self,
        settings: &Settings,
        reach: &OpenDirectories,
    ) -> Result<Audit, StartError> {
        let keeping = LogKeeping { policy: settings.retention, key: self.key };
        let opened = match self.places {
            Ok(places) => {
                let (path, export) =
                    (reach.enter(&places.audit), settings.report_targets.logs.clone());
                Audit::open(&path, settings.audit_sync, keeping, export)
            }
            Err(error) => return Ok(Audit::none(&error.to_string())),
        };
        match (opened, &settings.client_endpoint) {
            (Ok(audit), _) => Ok(audit),
            (Err(error), ClientEndpoint::Embedded) => Ok(Audit::none(&error.to_string())),
            (Err(error), ClientEndpoint::Socket(_)) => Err(error.into()),
        }
    }
}

/// Reads the key that signs the audit log.
fn load(source: &KeySource) -> Result<SigningKey, StartError> {
    let path = match source {
        KeySource::File(path) => path.clone(),
        KeySource::Credential(name) => {
            let directory = env::var_os("CREDENTIALS_DIRECTORY").map(PathBuf::from);
            directory.ok_or_else(|| StartError::NoCredentials(name.clone()))?.join(name)
        }
    };
    Ok(SigningKey::load(&path)?)
}
