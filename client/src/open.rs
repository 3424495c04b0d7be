//! What a session is asked to be.

use crate::Error;
use palisade_protocol::{Ask, Guard, OpenOptions, RawPath};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// What a session is asked to be; kept so that [`Session::reconnect`](crate::Session::reconnect)
/// can ask for the same.
///
/// ```
/// use palisade_client::{Ask, Open};
/// let open = Open::new("/srv/project").profile("workspace").ask(Ask::Sensitive);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "give it to Client::open"]
pub struct Open {
    workspace: PathBuf,
    profile: Option<String>,
    options: OpenOptions,
}

impl Open {
    /// A session in this directory, which it sees at the same path. A relative path starts at
    /// this process's own directory.
    pub fn new(workspace: impl AsRef<Path>) -> Self {
        Self {
            workspace: workspace.as_ref().to_owned(),
            profile: None,
            options: OpenOptions::default(),
        }
    }

    /// Which profile; the daemon's default one if this is not said.
    pub fn profile(mut self, name: impl Into<String>) -> Self {
        self.profile = Some(name.into());
        self
    }

    /// When to ask; refused where it is laxer than the profile's own.
    pub fn ask(mut self, ask: Ask) -> Self {
        self.options.ask = Some(ask);
        self
    }

    /// How `bash` is held; refused where it is laxer than the profile's own.
    pub fn guard(mut self, guard: Guard) -> Self {
        self.options.guard = Some(guard);
        self
    }

    /// Has results tell what programs used, in `data.recorded`. A daemon of another's does not
    /// allow it unless its configuration names this user.
    pub fn record(mut self) -> Self {
        self.options.record = true;
        self
    }

    /// Lets the session outlive its connection for so long, as far as the profile allows, to be
    /// [resumed](crate::Client::resume). An embedded daemon does not allow it.
    pub fn resumable(mut self, grace: Duration) -> Self {
        self.options.grace_ms = Some(u64::try_from(grace.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// What a session that was resumed had been opened with.
    pub(crate) fn from_wire(open: palisade_protocol::Open) -> Self {
        let palisade_protocol::Open { workspace, profile, options } = open;
        Self { workspace: workspace.as_path().to_owned(), profile, options }
    }

    pub(crate) fn to_wire(&self) -> Result<palisade_protocol::Open, Error> {
        let workspace = std::path::absolute(&self.workspace)
            .map_err(|source| Error::Workspace { path: self.workspace.clone(), source })?;
        Ok(palisade_protocol::Open {
            workspace: RawPath::from(workspace),
            profile: self.profile.clone(),
            options: self.options.clone(),
        })
    }
}
