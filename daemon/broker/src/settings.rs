//! What the options mean on this host: paths, profiles, whom to become. Broker, before it serves
//! and when it reloads.

use crate::{
    config::{AllowedPorts, Config, LogFilter, Presence},
    effective::{Effective, Origin},
    options::Options,
    own::Own,
    ownership,
    privilege::{self, Account},
    prove::proofs::Proving,
    quotas::Quotas,
    reach::Reach,
    roles::{Identity, Roles, SessionUids},
    scrape::Address,
    server::Live,
};
use palisade_audit::Sync;
use palisade_policy::ProfileSet;
use std::{
    path::{Path, PathBuf},
    time::Duration,
};

mod choose;
mod doors;
mod error;
mod profiles;
mod started;

pub(crate) use doors::{Door, OperatorDoor, Telling};
pub use error::SettingsError;
pub(crate) use started::StartedBy;

/// How long calls that run have when the daemon stops.
const DRAIN_MS: u32 = 10_000;

/// Everything that is decided before anything is done.
#[derive(Debug)]
pub(crate) struct Settings {
    pub(crate) door: Door,
    pub(crate) operator_door: OperatorDoor,
    /// Where providers come in; none in a private daemon.
    pub(crate) provider_door: Option<PathBuf>,
    pub(crate) profiles: ProfileSet,
    pub(crate) state: State,
    /// Whom to become; none for an ordinary user, who stays who they are.
    pub(crate) account: Option<Account>,
    pub(crate) launcher_socket: Option<PathBuf>,
    /// For the launcher that is started.
    pub(crate) allow_ports: Option<AllowedPorts>,
    /// Whose uid sessions have.
    identity: Identity,
    /// What a launcher of the daemon's own may give them.
    pub(crate) session_uids: Option<SessionUids>,
    pub(crate) log: LogFilter,
    pub(crate) audit_sync: Sync,
    pub(crate) proving: Proving,
    /// How long calls that run have when the daemon stops.
    drain: Duration,
    roles: Roles,
    quotas: Quotas,
    /// Where scrapes come in, if anywhere.
    pub(crate) metrics: Option<Address>,
    pub(crate) telling: Telling,
    /// Every value, with its origin.
    pub(crate) effective: Effective,
    /// Where configuration and profiles are, or would be looked for.
    configured: Vec<PathBuf>,
}

/// Where spools go.
#[derive(Debug)]
pub(crate) enum State {
    /// There, or not at all.
    Given(PathBuf),
    /// There, if it can be made.
    Usual(PathBuf),
    /// This user has no place for it.
    Nowhere,
}

impl Settings {
    /// Finds out what the options mean here. What is in `reach` is read wherever it is.
    pub(crate) fn resolve(
        options: Options,
        by: StartedBy,
        reach: &Reach,
    ) -> Result<Self, SettingsError> {
        let (config, _) = by.directory("/etc/palisade", "XDG_CONFIG_HOME", ".config");
        let mut configured: Vec<_> = config.iter().chain(&options.config).cloned().collect();
        let file = read(options.config.as_deref(), config.as_deref(), reach)?;
        let mut effective = Effective::default();
        let (door, operator_door, provider_door) =
            choose::doors(&options, &file, by, &mut effective)?;
        let usual = config.map(|directory| directory.join("profiles"));
        let typed = (!options.profiles.is_empty()).then_some(options.profiles);
        let default = (Some(usual.iter().cloned().collect()), Origin::Default);
        let given = typed.is_some() || file.profiles.is_some();
        let directories =
            effective.choose("profiles", typed, file.profiles, default).unwrap_or_default();
        configured.extend(directories.iter().cloned());
        let given_state = options.state.is_some() || file.state.is_some();
        let usual_state = by.directory("/var/lib/palisade", "XDG_STATE_HOME", ".local/state");
        let state = match effective.choose("state", options.state, file.state, usual_state) {
            Some(path) if given_state => State::Given(path),
            Some(path) => State::Usual(path),
            None => State::Nowhere,
        };
        let default = (Some(Sync::default()), Origin::Default);
        let audit_sync =
            effective.choose("audit_sync", options.audit_sync, file.audit_sync, default);
        let user = effective.choose("user", options.user, file.user, (None, Origin::Default));
        let launcher_socket = effective.choose(
            "launcher_socket",
            options.launcher_socket,
            file.launcher_socket,
            (None, Origin::Default),
        );
        let allow_ports = effective.choose(
            "allow_ports",
            options.allow_ports,
            file.allow_ports,
            (None, Origin::Default),
        );
        if allow_ports.is_some() && launcher_socket.is_some() {
            return Err(SettingsError::NotOurLauncher);
        }
        let default = (Some(Identity::default()), Origin::Default);
        let identity = effective.choose("identity", None, file.identity, default);
        let none = (None, Origin::Default);
        let session_uids = effective.choose("session_uids", None, file.session_uids, none);
        let prove = effective.choose(
            "prove_at_start",
            options.prove_at_start.then_some(true),
            file.prove_at_start,
            (Some(false), Origin::Default),
        );
        let proving = if prove == Some(true) { Proving::AtStart } else { Proving::Never };
        let usual_log = match door {
            Door::Socket(_) => LogFilter::default(),
            Door::Embedded => LogFilter::errors(),
        };
        let default = (Some(usual_log), Origin::Default);
        let log = effective.choose("log", options.log, file.log, default);
        let default = (Some(DRAIN_MS), Origin::Default);
        let drain = effective.choose("drain_ms", None, file.drain_ms, default);
        let account = match by {
            StartedBy::Root => Some(privilege::account(user.as_deref())?),
            StartedBy::User => None,
        };
        let (given, usual) = if given { (directories, None) } else { (Vec::new(), usual) };
        Ok(Self {
            quotas: choose::quotas(file.quotas, &door, &mut effective),
            door,
            operator_door,
            provider_door,
            profiles: profiles::load(&given, usual.as_deref(), reach)?,
            state,
            account,
            launcher_socket,
            allow_ports,
            identity: identity.unwrap_or_default(),
            session_uids,
            log: log.unwrap_or_default(),
            audit_sync: audit_sync.unwrap_or_default(),
            proving,
            drain: Duration::from_millis(drain.unwrap_or(DRAIN_MS).into()),
            roles: choose::roles(file.roles, &mut effective),
            telling: choose::telling(file.journal, file.traces_export, &mut effective),
            metrics: effective.choose(
                "metrics.listen",
                None,
                file.metrics_listen,
                (None, Origin::Default),
            ),
            effective,
            configured,
        })
    }

    /// What a reload exchanges.
    pub(crate) fn live(&self, reach: &Reach) -> Live {
        let live = Live::new(&self.profiles, self.own(reach));
        let (drain, quotas, identity) = (self.drain, self.quotas, self.identity);
        Live { drain, roles: self.roles.clone(), quotas, identity, ..live }
    }

    /// Holds what a reload reads or looks at, before the right to enter it is given up.
    pub(crate) fn reach(&self) -> Reach {
        let mut reach = Reach::default();
        if self.account.is_some() {
            let hidden = self.hidden();
            self.configured.iter().chain(&hidden).for_each(|path| reach.hold(path));
        }
        reach
    }

    /// The places that are the daemon's own.
    fn own(&self, reach: &Reach) -> Own {
        Own::new(self.hidden(), self.configured.clone(), reach)
    }

    /// Those of which a session sees nothing.
    fn hidden(&self) -> Vec<PathBuf> {
        let state = match &self.state {
            State::Given(path) | State::Usual(path) => Some(path),
            State::Nowhere => None,
        };
        let socket = match &self.door {
            Door::Socket(path) => Some(path),
            Door::Embedded => None,
        };
        let operator = match &self.operator_door {
            OperatorDoor::Socket(path) => Some(path),
            OperatorDoor::Stdout | OperatorDoor::None => None,
        };
        let sockets = socket.into_iter().chain(operator).chain(&self.provider_door);
        let sockets = sockets.chain(&self.launcher_socket);
        state.into_iter().chain(sockets).cloned().collect()
    }

    /// What would be done, for `--check`.
    pub(crate) fn describe(&self) -> String {
        let door = match &self.door {
            Door::Socket(path) => format!("listen on {}", path.display()),
            Door::Embedded => "serve the client on standard input".to_owned(),
        };
        let operators = match &self.operator_door {
            OperatorDoor::Socket(path) => format!("listen on {}", path.display()),
            OperatorDoor::Stdout => "hear the one on standard output".to_owned(),
            OperatorDoor::None => "none, so whatever would be asked is denied".to_owned(),
        };
        let providers = self
            .provider_door
            .as_ref()
            .map_or_else(|| "none".to_owned(), |path| format!("listen on {}", path.display()));
        let state = match &self.state {
            State::Given(path) | State::Usual(path) => format!("in {}", path.display()),
            State::Nowhere => "nowhere".to_owned(),
        };
        let user = self.account.map_or_else(
            || format!("as it is started, uid {}", rustix::process::geteuid().as_raw()),
            |account| format!("as uid {}, gid {}", account.uid, account.gid),
        );
        let launcher = self.launcher_socket.as_ref().map_or_else(
            || "start one".to_owned(),
            |path| format!("connect to {}", path.display()),
        );
        let sessions = match (self.identity, self.session_uids) {
            (Identity::Peer, _) => "as who opens them".to_owned(),
            (Identity::Throwaway, Some(SessionUids(range))) => format!("each as one of {range}"),
            (Identity::Throwaway, None) => "each as one of the launcher's uids for them".to_owned(),
        };
        let profiles = self.profiles.names().collect::<Vec<_>>().join(", ");
        format!(
            "clients: {door}\noperators: {operators}\nproviders: {providers}\nrun: {user}\nlauncher: {launcher}\nsessions: {sessions}\nspools and audit log: {state}\n\
             audit log on the disk: {}\nprofiles: {profiles}\n",
            self.audit_sync
        )
    }
}

/// The configuration file, if there is one, and nobody else can change it.
fn read(
    named: Option<&Path>,
    usual: Option<&Path>,
    reach: &Reach,
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
