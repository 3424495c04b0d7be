//! The options of a session to open.

use crate::Error;
use palisade_protocol::{Ask, Guard, OpenOptions, RawPath};
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

/// The workspace, profile and options of a session to open. A session keeps them so that
/// [`Session::reconnect`](crate::Session::reconnect) can open the same again.
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
    /// Creates a request for a session in this directory, which has the same path inside the
    /// session. A relative path starts at this process's current directory.
    pub fn new(workspace: impl AsRef<Path>) -> Self {
        Self {
            workspace: workspace.as_ref().to_owned(),
            profile: None,
            options: OpenOptions::default(),
        }
    }

    /// Selects a profile; without this the daemon's default profile is used.
    pub fn profile(mut self, name: impl Into<String>) -> Self {
        self.profile = Some(name.into());
        self
    }

    /// Sets when approval is required; refused if laxer than the profile's setting.
    pub fn ask(mut self, ask: Ask) -> Self {
        self.options.ask = Some(ask);
        self
    }

    /// Sets the guard of `bash`; refused if laxer than the profile's setting.
    pub fn guard(mut self, guard: Guard) -> Self {
        self.options.guard = Some(guard);
        self
    }

    /// Makes results list what programs used, in `data.recorded`. A daemon that another user runs
    /// does not allow this unless its configuration names this user.
    pub fn record(mut self) -> Self {
        self.options.record = true;
        self
    }

    /// Lets the session connect to a host, written as in `net.allow` of a profile. A daemon that this
    /// process started for itself adds it to the profile. Any other daemon refuses the session unless
    /// the profile allows the host already.
    pub fn allow_domain(mut self, name: impl Into<String>) -> Self {
        self.options.allow_domains.push(name.into());
        self
    }

    /// Lets the session outlive its connection for this long, as far as the profile allows, so that
    /// it can be [resumed](crate::Client::resume). An embedded daemon does not allow it.
    pub fn resumable(mut self, grace: Duration) -> Self {
        self.options.grace_ms = Some(u64::try_from(grace.as_millis()).unwrap_or(u64::MAX));
        self
    }

    /// Converts the options with which a resumed session was first opened.
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
