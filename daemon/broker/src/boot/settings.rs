//! Resolves the options on this host: paths, profiles, the user to run as. Runs in the broker,
//! before it serves and when it reloads.

use crate::{
    base::{
        live::LiveSettings,
        own::DaemonPaths,
        quotas::Quotas,
        reach::OpenDirectories,
        roles::{Identity, Roles, SessionUids},
        services::AllowedServices,
    },
    boot::{
        config::{AllowedPorts, Config, ConfigError, KeySource, LogFilter, Offered, Presence},
        effective::{EffectiveConfig, ValueOrigin},
        options::Options,
        ownership,
        privilege::{self, Account},
    },
    cells::analyst::ExpectedCalls,
    front::{prove::proofs::ProofSchedule, scrape::Address},
};
use palisade_audit::{RetentionPolicy, Sync};
use palisade_egress_protocol::OperatorProxy;
use palisade_policy::ProfileSet;
use std::{
    io,
    path::{Path, PathBuf},
    time::Duration,
};

mod choose;
mod endpoints;
mod error;
mod profiles;
mod started;

pub(crate) use endpoints::{ClientEndpoint, OperatorEndpoint, ReportTargets};
pub use error::SettingsError;
pub(crate) use profiles::{CallTime, LoadedProfiles, ProfilePlaces};
pub(crate) use started::StartedBy;

/// The default time, in milliseconds, that running calls may take to finish when the daemon stops.
const DRAIN_MS: u32 = 10_000;

/// The configuration of the system's daemon.
const SYSTEM_CONFIG: &str = "/etc/palisade/palisaded.toml";

/// All settings, decided before anything is done.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) client_endpoint: ClientEndpoint,
    pub(crate) operator_endpoint: OperatorEndpoint,
    /// The time without clients after which a daemon that a command left running ends.
    pub(crate) linger: Option<Duration>,
    /// The directory of the sockets of such daemons, if there is one.
    pub(crate) lingers_in: Option<PathBuf>,
    /// The socket for providers; `None` in a private daemon.
    pub(crate) provider_socket: Option<PathBuf>,
    pub(crate) profiles: ProfilePlaces,
    pub(crate) state: StateDirectory,
    /// The user to switch to; `None` if an ordinary user starts the daemon, which then keeps its
    /// user.
    pub(crate) account: Option<Account>,
    pub(crate) launcher_socket: Option<PathBuf>,
    /// The socket of a service that starts egress rooms.
    pub(crate) egress_socket: Option<PathBuf>,
    /// The HTTP proxy of this network, for egress rooms.
    pub(crate) egress_proxy: Option<OperatorProxy>,
    /// The directory of credentials.
    pub(crate) credentials: CredentialDirectory,
    /// The TCP ports to allow, passed to the launcher that the daemon starts.
    pub(crate) allow_ports: Option<AllowedPorts>,
    /// The services of this host that profiles may let sessions use.
    allow_host: AllowedServices,
    /// The ports that profiles may let sessions publish.
    allow_publish: AllowedServices,
    /// The default uid that sessions run with.
    identity: Identity,
    /// The uids that a launcher started by the daemon may give to sessions.
    pub(crate) session_uids: Option<SessionUids>,
    pub(crate) log: LogFilter,
    pub(crate) audit_sync: Sync,
    pub(crate) retention: RetentionPolicy,
    /// The key that signs the audit log, if any.
    pub(crate) audit_key: Option<KeySource>,
    pub(crate) expected_calls: ExpectedCalls,
    pub(crate) proving: ProofSchedule,
    /// The time that running calls may take to finish when the daemon stops.
    drain: Duration,
    roles: Roles,
    quotas: Quotas,
    /// The address for metrics scrapes, if any.
    pub(crate) metrics: Option<Address>,
    pub(crate) report_targets: ReportTargets,
    /// Every value in force, with its origin.
    pub(crate) effective: EffectiveConfig,
    /// The directories and files where configuration and profiles are looked for.
    configured: Vec<PathBuf>,
}

/// The directory with a file for each credential of `net.rule`.
#[derive(Debug)]
pub(crate) enum CredentialDirectory {
    /// It exists. Sessions may not access it.
    There(PathBuf),
    /// It does not exist. Without a path, this user has no default.
    Absent(Option<PathBuf>),
}

/// The state directory, with the output store, the undo store and the audit log.
#[derive(Debug)]
pub(crate) enum StateDirectory {
    /// A configured directory; the daemon does not start without it.
    Given(PathBuf),
    /// The default directory; an embedded daemon starts without it if it can not be created.
    Usual(PathBuf),
    /// No directory: none is configured, and this user has no default.
    Nowhere,
}

impl Settings {
    /// Resolves the options on this host, but does not load profiles. Directories in `reach` are read
    /// through their descriptors where their paths are closed.
    pub(crate) fn resolve(
        options: Options,
        by: StartedBy,
        reach: &OpenDirectories,
    ) -> Result<Self, SettingsError> {
        let (config, config_origin) = by.directory("/etc/palisade", "XDG_CONFIG_HOME", ".config");
        let mut configured: Vec<_> = config.iter().chain(&options.config).cloned().collect();
        let file = read(options.config.as_deref(), config.as_deref(), reach)?;
        let mut effective = EffectiveConfig::default();
        let (client_endpoint, operator_endpoint, provider_socket) =
            choose::endpoints(&options, &file, by, &mut effective)?;
        let usual_credentials = config.as_ref().map(|directory| directory.join("credentials"));
        let usual = config.map(|directory| directory.join("profiles"));
        let typed = (!options.profiles.is_empty()).then_some(options.profiles);
        let default = (Some(usual.iter().cloned().collect()), ValueOrigin::Default);
        let given = typed.is_some() || file.profiles.is_some();
        let directories =
            effective.choose("profiles", typed, file.profiles, default).unwrap_or_default();
        configured.extend(directories.iter().cloned());
        // Whoever starts a daemon for themselves may use every profile.
        let usual_offered = match (by, &client_endpoint) {
            (StartedBy::Root, ClientEndpoint::Socket(_)) => Vec::new(),
            (StartedBy::Root, ClientEndpoint::Embedded) | (StartedBy::User, _) => {
                Offered::ALL.map(|(offered, _)| offered).to_vec()
            }
        };
        let default = (Some(usual_offered), ValueOrigin::Default);
        let offered = effective.choose("offered", None, file.offered, default).unwrap_or_default();
        let given_state = options.state.is_some() || file.state.is_some();
        let usual_state = by.directory("/var/lib/palisade", "XDG_STATE_HOME", ".local/state");
        let state = match effective.choose("state", options.state, file.state, usual_state) {
            Some(path) if given_state => StateDirectory::Given(path),
            Some(path) => StateDirectory::Usual(path),
            None => StateDirectory::Nowhere,
        };
        let default = (Some(Sync::default()), ValueOrigin::Default);
        let audit_sync =
            effective.choose("audit_sync", options.audit_sync, file.audit_sync, default);
        let (retention, audit_key) = choose::audit(file.audit, &mut effective);
        let user = effective.choose("user", options.user, file.user, (None, ValueOrigin::Default));
        let launcher_socket = effective.choose(
            "launcher_socket",
            options.launcher_socket,
            file.launcher_socket,
            (None, ValueOrigin::Default),
        );
        // The service runs as a user of its own, with a launcher that is another service.
        if options.embedded || (by == StartedBy::User && launcher_socket.is_none()) {
            allow_private(Path::new(SYSTEM_CONFIG), reach)?;
        }
        let egress_socket = effective.choose(
            "egress_socket",
            options.egress_socket,
            file.egress_socket,
            (None, ValueOrigin::Default),
        );
        let none = (None, ValueOrigin::Default);
        let egress_proxy =
            effective.choose("egress_proxy", options.egress_proxy, file.egress_proxy, none);
        let default = (usual_credentials, config_origin);
        let credentials =
            effective.choose("credentials", options.credentials, file.credentials, default);
        let credentials = match credentials {
            Some(path) if reach.enter(&path).is_dir() => CredentialDirectory::There(path),
            absent => CredentialDirectory::Absent(absent),
        };
        let allow_ports = effective.choose(
            "allow_ports",
            options.allow_ports,
            file.allow_ports,
            (None, ValueOrigin::Default),
        );
        if allow_ports.is_some() && launcher_socket.is_some() {
            return Err(SettingsError::NotOurLauncher);
        }
        // A user's own sessions may do what that user may do anyway.
        let usual_services = match by {
            StartedBy::Root => AllowedServices::None,
            StartedBy::User => AllowedServices::Any,
        };
        let default = (Some(usual_services.clone()), ValueOrigin::Default);
        let allow_host =
            effective.choose("allow_host", options.allow_host, file.allow_host, default);
        let default = (Some(usual_services), ValueOrigin::Default);
        let allow_publish =
            effective.choose("allow_publish", options.allow_publish, file.allow_publish, default);
        let default = (Some(Identity::default()), ValueOrigin::Default);
        let identity = effective.choose("identity", None, file.identity, default);
        let none = (None, ValueOrigin::Default);
        let session_uids = effective.choose("session_uids", None, file.session_uids, none);
        let prove = effective.choose(
            "prove_at_start",
            options.prove_at_start.then_some(true),
            file.prove_at_start,
            (Some(false), ValueOrigin::Default),
        );
        let proving =
            if prove == Some(true) { ProofSchedule::AtStart } else { ProofSchedule::Never };
        let usual_log = match client_endpoint {
            ClientEndpoint::Socket(_) => LogFilter::default(),
            ClientEndpoint::Embedded => LogFilter::errors(),
        };
        let default = (Some(usual_log), ValueOrigin::Default);
        let log = effective.choose("log", options.log, file.log, default);
        effective.choose(
            "private_daemons",
            None,
            file.private_daemons,
            (Some(true), ValueOrigin::Default),
        );
        let default = (Some(DRAIN_MS), ValueOrigin::Default);
        let drain = effective.choose("drain_ms", None, file.drain_ms, default);
        let account = match by {
            StartedBy::Root => Some(privilege::account(user.as_deref())?),
            StartedBy::User => None,
        };
        let calls = if options.long_calls { CallTime::OfJob } else { CallTime::OfProfile };
        let (given, usual) = if given { (directories, None) } else { (Vec::new(), usual) };
        Ok(Self {
            quotas: choose::quotas(file.quotas, file.undo.keep, &client_endpoint, &mut effective),
            client_endpoint,
            operator_endpoint,
            linger: options.linger_ms.map(Duration::from_millis),
            lingers_in: by.lingering_sockets(),
            provider_socket,
            profiles: ProfilePlaces {
                given,
                usual,
                only: options.only_profile,
                calls,
                by,
                offered,
            },
            state,
            account,
            launcher_socket,
            egress_socket,
            egress_proxy: egress_proxy.map(OperatorProxy::from),
            credentials,
            allow_ports,
            allow_host: allow_host.unwrap_or_default(),
            allow_publish: allow_publish.unwrap_or_default(),
            identity: identity.unwrap_or_default(),
            session_uids,
            log: log.unwrap_or_default(),
            audit_sync: audit_sync.unwrap_or_default(),
            retention,
            audit_key,
            expected_calls: match options.one_call {
                true => ExpectedCalls::One,
                false => ExpectedCalls::Many,
            },
            proving,
            drain: Duration::from_millis(drain.unwrap_or(DRAIN_MS).into()),
            roles: choose::roles(file.roles, &mut effective),
            report_targets: choose::report_targets(
                file.journal,
                file.traces.export,
                file.logs.export,
                &mut effective,
            ),
            metrics: effective.choose(
                "metrics.listen",
                None,
                file.metrics.listen,
                (None, ValueOrigin::Default),
            ),
            effective,
            configured,
        })
    }

    /// Returns the settings that a reload replaces.
    pub(crate) fn live(&self, profiles: &LoadedProfiles, reach: &OpenDirectories) -> LiveSettings {
        let live = LiveSettings::new(&profiles.set, self.own(reach));
        let invalid = profiles.invalid.iter();
        let invalid = invalid.map(|one| (one.name.clone(), one.error.to_string())).collect();
        let (drain, quotas, identity) = (self.drain, self.quotas, self.identity);
        let (roles, allow_host) = (self.roles.clone(), self.allow_host.clone());
        let allow_publish = self.allow_publish.clone();
        LiveSettings { invalid, drain, roles, quotas, identity, allow_host, allow_publish, ..live }
    }

    /// Opens the directories that a reload reads, before the right to enter them is given up.
    pub(crate) fn reach(&self) -> OpenDirectories {
        let mut reach = OpenDirectories::default();
        if self.account.is_some() {
            let hidden = self.hidden();
            self.configured.iter().chain(&hidden).for_each(|path| reach.hold(path));
        }
        reach
    }

    /// Returns the daemon's own paths, which sessions may not access.
    fn own(&self, reach: &OpenDirectories) -> DaemonPaths {
        DaemonPaths::new(self.hidden(), self.configured.clone(), reach)
    }

    /// Returns the daemon's own paths that are invisible to sessions.
    fn hidden(&self) -> Vec<PathBuf> {
        let state = match &self.state {
            StateDirectory::Given(path) | StateDirectory::Usual(path) => Some(path),
            StateDirectory::Nowhere => None,
        };
        let socket = match &self.client_endpoint {
            ClientEndpoint::Socket(path) => Some(path),
            ClientEndpoint::Embedded => None,
        };
        let operator = match &self.operator_endpoint {
            OperatorEndpoint::Socket(path) => Some(path),
            OperatorEndpoint::Stdout | OperatorEndpoint::None => None,
        };
        let sockets = socket.into_iter().chain(operator).chain(&self.provider_socket);
        let sockets = sockets.chain(&self.launcher_socket).chain(&self.egress_socket);
        let sockets = sockets.chain(&self.lingers_in);
        let credentials = match &self.credentials {
            CredentialDirectory::There(path) => Some(path),
            CredentialDirectory::Absent(_) => None,
        };
        state.into_iter().chain(credentials).chain(sockets).cloned().collect()
    }

    /// Returns the text of `--check`: what would be done.
    pub(crate) fn describe(&self, profiles: &ProfileSet) -> String {
        let clients = match &self.client_endpoint {
            ClientEndpoint::Socket(path) => format!("listen on {}", path.display()),
            ClientEndpoint::Embedded => "serve the client on standard input".to_owned(),
        };
        let operators = match &self.operator_endpoint {
            OperatorEndpoint::Socket(path) => format!("listen on {}", path.display()),
            OperatorEndpoint::Stdout => "serve the operator on standard output".to_owned(),
            OperatorEndpoint::None => {
                "none, so every call that needs approval is denied".to_owned()
            }
        };
        let providers = self
            .provider_socket
            .as_ref()
            .map_or_else(|| "none".to_owned(), |path| format!("listen on {}", path.display()));
        let state = match &self.state {
            StateDirectory::Given(path) | StateDirectory::Usual(path) => {
                format!("in {}", path.display())
            }
            StateDirectory::Nowhere => "nowhere".to_owned(),
        };
        let user = self.account.map_or_else(
            || format!("as the user who starts it, uid {}", rustix::process::geteuid().as_raw()),
            |account| format!("as uid {}, gid {}", account.uid, account.gid),
        );
        let launcher = self.launcher_socket.as_ref().map_or_else(
            || "start one".to_owned(),
            |path| format!("connect to {}", path.display()),
        );
        let egress = self.egress_socket.as_ref().map_or_else(
            || "start them".to_owned(),
            |path| format!("connect to {}", path.display()),
        );
        let sessions = match (self.identity, self.session_uids) {
            (Identity::Peer, _) => "as the user who opens them".to_owned(),
            (Identity::Throwaway, Some(SessionUids(range))) => {
                format!("each with its own uid from {range}")
            }
            (Identity::Throwaway, None) => {
                "each with its own uid from the launcher's range".to_owned()
            }
        };
        let metrics = self.metrics.as_ref().map_or_else(
            || "not answered".to_owned(),
            |address| {
                let address = String::from(address.clone());
                format!("listen on {address}; the service refuses this: there, enable palisade-metrics.socket")
            },
        );
        let profiles = profiles.names().collect::<Vec<_>>().join(", ");
        format!(
            "clients: {clients}\noperators: {operators}\nproviders: {providers}\nrun: {user}\n\
             launcher: {launcher}\negress rooms: {egress}\nsessions: {sessions}\nfull output and audit log: {state}\n\
             audit log on disk: {}\nmetrics: {metrics}\nprofiles: {profiles}\n",
            self.audit_sync
        )
    }
}

/// Refuses a private daemon if the system's configuration does. That protects nobody who runs a
/// changed program; it keeps people from using a daemon that the service does not see by accident.
fn allow_private(system: &Path, reach: &OpenDirectories) -> Result<(), SettingsError> {
    let config = match Config::read(system, Presence::Usual, reach) {
        // The operator keeps the file to themselves.
        Err(ConfigError::Read { source, .. })
            if source.kind() == io::ErrorKind::PermissionDenied =>
        {
            return Ok(());
        }
        config => config?,
    };
    match config.and_then(|config| config.private_daemons) {
        Some(said) if !said.value => Err(SettingsError::PrivateDaemon { at: said.at }),
        Some(_) | None => Ok(()),
    }
}

/// Reads the configuration file, if it exists. Refuses it if another user can change it.
fn read(
    named: Option<&Path>,
    usual: Option<&Path>,
    reach: &OpenDirectories,
) -> Result<Config, SettingsError> {
    let (path, presence) = match (named, usual) {
        (Some(path), _) => (path.to_owned(), Presence::Named),
        (None, Some(directory)) => (directory.join("palisaded.toml"), Presence::Usual),
        (None, None) => return Ok(Config::default()),
    };
    let Some(config) = Config::read(&path, presence, reach)? else { return Ok(Config::default()) };
    ownership::check(&path, reach)?;
    if let Some(directory) = path.parent().filter(|_| presence == Presence::Usual) {
        ownership::check(directory, reach)?;
    }
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_system_configuration_decides_about_private_daemons() {
        let directory = tempfile::tempdir().unwrap();
        let (file, reach) = (directory.path().join("palisaded.toml"), OpenDirectories::default());
        let decide = |text: &str| {
            fs::write(&file, text).unwrap();
            allow_private(&file, &reach).map_err(|error| error.to_string())
        };
        assert!(allow_private(&file, &reach).is_ok(), "there is none");
        assert_eq!(decide("drain_ms = 1\n"), Ok(()));
        assert_eq!(decide("private_daemons = true\n"), Ok(()));
        let refused = decide("drain_ms = 1\nprivate_daemons = false\n").unwrap_err();
        assert!(refused.contains("palisaded.toml:2:19)"), "{refused}");
        assert!(refused.contains("the group palisade-users"), "{refused}");
        // A file that can not be understood allows nothing.
        assert!(decide("private_daemon = false\n").is_err());
    }
}
