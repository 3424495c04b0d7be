//! Reads configuration and profiles again on SIGHUP: all of it takes effect, or nothing. Runs in
//! the broker.

use crate::{
    base::reach::OpenDirectories,
    boot::{
        effective::EffectiveConfig,
        options::Options,
        service,
        settings::{Settings, SettingsError, StartedBy},
    },
    front::server::Server,
    telemetry::service_status::notify,
};
use sd_notify::NotifyState;
use std::{
    error::Error as _,
    fmt,
    sync::{Arc, Mutex, PoisonError},
};
use tokio::signal::unix::Signal;
use tracing_subscriber::EnvFilter;

/// A function that replaces the filter of the log.
pub(crate) type Filter = Arc<dyn Fn(EnvFilter) -> Result<(), String> + Send + Sync>;

/// The inputs for reading configuration and profiles again.
#[derive(Clone)]
pub(crate) struct Reloader {
    options: Options,
    by: StartedBy,
    reach: OpenDirectories,
    effective: Arc<Mutex<EffectiveConfig>>,
    filter: Filter,
}

impl fmt::Debug for Reloader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reloader").field("options", &self.options).finish_non_exhaustive()
    }
}

/// An error from a reload. The old configuration stays in force.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReloadError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("{0}: only a restart can change it; restore the old value, or restart the daemon")]
    NeedsStart(&'static str),
    #[error("the log filter could not be changed: {0}")]
    Filter(String),
    #[error("reading the configuration was interrupted: {0}")]
    Interrupted(#[from] tokio::task::JoinError),
}

impl Reloader {
    /// Makes a reloader from the options that the daemon was started with and the values in force.
    pub(crate) fn new(
        options: Options,
        by: StartedBy,
        reach: OpenDirectories,
        effective: EffectiveConfig,
        filter: Filter,
    ) -> Self {
        Self { options, by, reach, effective: Arc::new(Mutex::new(effective)), filter }
    }

    /// Reloads on every SIGHUP, also on one that came while the daemon was starting.
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
            server.telemetry.metrics.reloaded(if result.is_ok() { "ok" } else { "refused" });
            match &result {
                Ok(()) => tracing::info!("configuration and profiles were reloaded"),
                Err(error) => tracing::error!(
                    error = chain(error),
                    "not reloaded: the old configuration and profiles stay in force"
                ),
            }
            server.service_status.reloaded(result.map_err(|error| chain(&error)));
            notify(&[NotifyState::Ready]);
            service::tell(&server);
        }
    }

    async fn reload(&self, server: &Server) -> Result<(), ReloadError> {
        let (options, by, reach) = (self.options.clone(), self.by, self.reach.clone());
        let read = move || {
            let settings = Settings::resolve(options, by, &reach)?;
            let live = settings.live(&settings.profiles.load(&reach)?.require_all()?, &reach);
            Ok::<_, SettingsError>((settings, live))
        };
        let (settings, live) = tokio::task::spawn_blocking(read).await??;
        let mut effective = self.effective.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(key) = effective.needs_start(&settings.effective) {
            return Err(ReloadError::NeedsStart(key));
        }
        // The only step here that can fail, so it comes first.
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
