//! Reads configuration and profiles again, on SIGHUP: all of it takes effect, or none. Broker.

use crate::{
    effective::Effective,
    options::Options,
    reach::Reach,
    server::Server,
    service,
    settings::{Settings, SettingsError, StartedBy},
    standing::notify,
};
use sd_notify::NotifyState;
use std::{
    error::Error as _,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::signal::unix::Signal;
use tracing_subscriber::EnvFilter;

/// Exchanges the filter of the log.
pub(crate) type Filter = Arc<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>;

/// What is needed to read everything again.
#[derive(Clone)]
pub(crate) struct Reloader {
    options: Options,
    by: StartedBy,
    reach: Reach,
    effective: Arc<Mutex<Effective>>,
    filter: Filter,
}

impl fmt::Debug for Reloader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloader").field("options", &self.options).finish_non_exhaustive()
    }
}

/// Why the old configuration stays.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReloadError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("{0}: only a restart can change it; put the old value back, or restart the daemon")]
    NeedsStart(&'static str),
    #[error("the log's filter could not be exchanged: {0}")]
    Filter(String),
    #[error("reading it was interrupted: {0}")]
    Interrupted(#[from] tokio::task::JoinError),
}

impl Reloader {
    /// Of a daemon that was started with these options and is about to serve by these values.
    pub(crate) fn new(
        options: Options,
        by: StartedBy,
        reach: Reach,
        effective: Effective,
        filter: Filter,
    ) -> Self {
        Self { options, by, reach, effective: Arc::new(Mutex::new(effective)), filter }
    }

    /// Reloads whenever SIGHUP comes, and for one that came while the daemon started.
    pub(crate) fn on_hangup(self, hangup: Signal, server: Arc<Server>) {
        tokio::spawn(self.attend(hangup, server));
    }

    async fn attend(self, mut hangup: Signal, server: Arc<Server>) {
        while hangup.recv().await.is_some() {
            match NotifyState::monotonic_usec_now() {
                Ok(now) => notify(&[NotifyState::Reloading, now]),
                Err(_) => notify(&[NotifyState::Reloading]),
            }
            let result = self.reload(&server).await;
            server.metrics.reloaded(if result.is_ok() { "ok" } else { "refused" });
            match &result {
                Ok(()) => tracing::info!("configuration and profiles were read again"),
                Err(error) => tracing::error!(
                    error = chain(error),
                    "not reloaded: the old configuration and profiles stay in force"
                ),
            }
            server.standing.reloaded(result.map_err(|error| chain(&error)));
            notify(&[NotifyState::Ready]);
            service::tell(&server);
        }
    }

    async fn reload(&self, server: &Server) -> Result<(), ReloadError> {
        let (options, by, reach) = (self.options.clone(), self.by, self.reach.clone());
        let read = move || {
            let settings = Settings::resolve(options, by, &reach)?;
            let live = settings.live(&reach);
            Ok::<_, SettingsError>((settings, live))
        };
        let (settings, live) = tokio::task::spawn_blocking(read).await??;
        let mut effective = self.effective.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = effective.needs_start(&settings.effective) {
            return Err(ReloadError::NeedsStart(key));
        }
        // The only act here that can fail, so it comes first.
        (self.filter)(EnvFilter::new(settings.log.as_str())).map_err(ReloadError::Filter)?;
        server.replace(live);
        *effective = settings.effective;
        Ok(())
    }
}

fn chain(error: &ReloadError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
