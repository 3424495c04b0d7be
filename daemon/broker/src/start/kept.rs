//! What a daemon keeps in its state directory, made before privilege is given up and opened after.
//! Broker.

use super::error::StartError;
use crate::{
    audit::Audit,
    reach::Reach,
    settings::{Door, Settings, State},
    spool::Spools,
    state::{self, Places, StateError},
    undo::Undos,
};
use std::path::PathBuf;

/// The directories; or why a private daemon has none.
#[derive(Debug)]
pub(super) struct Kept(Result<Places, StateError>);

impl Kept {
    /// Makes the directories, and holds them. A private daemon for one client starts without them if
    /// there is no usual place, and its client is told why nothing runs.
    pub(super) fn make(settings: &Settings, reach: &mut Reach) -> Result<Self, StartError> {
        match (state::prepare(&settings.state, settings.account), &settings.door, &settings.state) {
            (Ok(places), ..) => {
                if settings.account.is_some() {
                    for path in [&places.spool, &places.audit, &places.undo] {
                        reach.hold(path);
                    }
                }
                Ok(Self(Ok(places)))
            }
            (Err(error), Door::Embedded, State::Usual(_) | State::Nowhere) => Ok(Self(Err(error))),
            (Err(error), Door::Embedded | Door::Socket(_), _) => Err(error.into()),
        }
    }

    /// Where the launcher keeps transactions, by its real path: a link on the way would be refused.
    pub(super) fn transactions(&self) -> Option<PathBuf> {
        let path = &self.0.as_ref().ok()?.transactions;
        Some(path.canonicalize().unwrap_or_else(|_| path.clone()))
    }

    /// What was printed, and what can be undone.
    pub(super) fn stores(&self, reach: &Reach) -> (Spools, Undos) {
        let places = self.0.as_ref().ok();
        let spools = Spools::new(places.map(|places| reach.enter(&places.spool)));
        (spools, Undos::new(places.map(|places| reach.enter(&places.undo))))
    }

    /// The log, opened by whom the broker has become.
    pub(super) fn audit(self, settings: &Settings, reach: &Reach) -> Result<Audit, StartError> {
        let opened = match self.0 {
            Ok(places) => Audit::open(&reach.enter(&places.audit), settings.audit_sync),
            Err(error) => return Ok(Audit::none(&error.to_string())),
        };
        match (opened, &settings.door) {
            (Ok(audit), _) => Ok(audit),
            (Err(error), Door::Embedded) => Ok(Audit::none(&error.to_string())),
            (Err(error), Door::Socket(_)) => Err(error.into()),
        }
    }
}
