//! Starts the daemon: creates sockets and directories and starts the launcher, then gives up
//! privilege, and only then serves clients. Runs in the broker.

mod error;
mod farewell;
mod kept;
mod launcher;
mod sockets;

pub use error::StartError;

use crate::{
    base::{live::LiveSettings, reach::OpenDirectories},
    boot::{
        background, launcher_process,
        options::Options,
        privilege::{self, Account},
        reload::{Filter, Reloader},
        service,
        settings::{
            ClientEndpoint, CredentialDirectory, LoadedProfiles, OperatorEndpoint, ReportTargets,
            Settings, StartedBy,
        },
        state,
    },
    cells::analyst::{Analyst, ExpectedCalls},
    front::{
        listen,
        prove::proofs::{ProofSchedule, Proofs},
        scrape,
        serve::{self, Listener, OtherListeners, StopTokens},
        server::{Clients, Operators, Server, ServerParts},
    },
    network::{
        credentials::CredentialStore,
        room_process,
        source::{RoomOrigin, RoomSource},
    },
    stores::{spool::Spools, undo::Undos},
    telemetry::{
        audit::Audit,
        journal::{self, Journal},
        traces::Traces,
    },
    tools::Registry,
};
use kept::StateStores;
use launcher::LauncherFrom;
use palisade_policy::InvalidProfile;
use palisade_programs::{Program, Search};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sockets::{OtherSockets, ServiceSocket};
use std::{
    io::{self, IsTerminal as _},
    os::unix::net::UnixStream,
    path::Path,
    sync::Arc,
};
use tokio::signal::unix::{SignalKind, signal};

/// The limit of open descriptors: more than all connections and their sessions need.
const DESCRIPTORS: u64 = 65536;

/// A daemon without privilege that is ready to serve.
#[derive(Debug)]
pub struct StartedDaemon {
    entrance: ServiceSocket,
    beside: OtherSockets,
    prepared: PreparedDaemon,
    reloader: Reloader,
    /// The client of an embedded daemon, to be told if it can not be served after all.
    client: Option<UnixStream>,
}

/// The parts of a daemon besides its sockets.
#[derive(Debug)]
struct PreparedDaemon {
    /// The uid of the user who started the daemon.
    started_by: u32,
    /// The peers that may be operators.
    operated_by: Operators,
    launcher: LauncherFrom,
    live: LiveSettings,
    spools: Spools,
    undos: Undos,
    audit: Audit,
    analyst: Analyst,
    egress: RoomSource,
    expected_calls: ExpectedCalls,
    proofs: Proofs,
    report_targets: ReportTargets,
    /// The open directories whose paths the other fields use.
    reach: OpenDirectories,
}

/// Starts the daemon. With `--check` or `--dump-config` it prints its report instead and returns
/// `None`.
///
/// # Errors
/// Each error says what to do about it.
pub fn start(options: Options) -> Result<Option<StartedDaemon>, StartError> {
    if options.linger_ms.is_some() {
        background::detach().map_err(|error| StartError::Io("move to the background", error))?;
    }
    let client = if options.embedded { sockets::client() } else { None };
    match prepare_to_serve(options) {
        Ok(started) => Ok(started.map(|started| StartedDaemon { client, ..started })),
        Err(error) => Err(error.tell(client)),
    }
}

fn prepare_to_serve(options: Options) -> Result<Option<StartedDaemon>, StartError> {
    let (check, dump) = (options.check, options.dump_config);
    let by = StartedBy::now();
    let mut settings = Settings::resolve(options.clone(), by, &OpenDirectories::default())?;
    // A service that can not load its profiles makes no sockets. The profile of an embedded daemon
    // is loaded while its launcher starts.
    let profiles = match (&settings.client_endpoint, check || dump) {
        (ClientEndpoint::Embedded, false) => None,
        (ClientEndpoint::Embedded | ClientEndpoint::Socket(_), _) => {
            Some(settings.profiles.load(&OpenDirectories::default())?)
        }
    };
    if dump {
        print!("{}", settings.effective.text());
        return Ok(None);
    }
    let profiles = match profiles {
        Some(profiles) if check => {
            check_places(&settings)?;
            print!("{}", settings.describe(&profiles.require_all()?.set));
            return Ok(None);
        }
        profiles => profiles,
    };
    let filter = log_to_stderr(&settings);
    let (entrance, beside) = sockets::open(&settings)?;
    settings.lingers_in = entrance.lingering_directory().or(settings.lingers_in);
    let reach = settings.reach();
    let effective = settings.effective.clone();
    let reloader = Reloader::new(options, by, reach.clone(), effective, filter);
    let sockets = (&entrance, beside.operators.as_ref());
    let prepared = prepare(settings, sockets, profiles, reach)?;
    Ok(Some(StartedDaemon { entrance, beside, prepared, reloader, client: None }))
}

/// Prepares everything but the sockets; gives up privilege on the way.
fn prepare(
    settings: Settings,
    (clients, operators): (&ServiceSocket, Option<&ServiceSocket>),
    profiles: Option<LoadedProfiles>,
    mut reach: OpenDirectories,
) -> Result<PreparedDaemon, StartError> {
    let operated_by = match (operators, settings.account) {
        (Some(ServiceSocket::Activated(_)), _) | (_, Some(_)) => Operators::System,
        (
            Some(
                ServiceSocket::Bound(_) | ServiceSocket::Embedded(_) | ServiceSocket::Lingering(..),
            )
            | None,
            None,
        ) => Operators::Own(rustix::process::geteuid().as_raw()),
    };
    let started_by = rustix::process::geteuid().as_raw();
    let kept = StateStores::make(&settings, &mut reach)?;
    let launcher = match &settings.launcher_socket {
        Some(path) => LauncherFrom::Socket(path.clone()),
        None => {
            let (ports, uids) = (settings.allow_ports.as_ref(), settings.session_uids);
            let store = kept.transactions();
            let client = clients.launcher_option()?;
            let calls = settings.expected_calls;
            let store = store.as_deref();
            LauncherFrom::Process(launcher_process::start(store, ports, uids, client, calls)?)
        }
    };
    let profiles = match profiles {
        Some(profiles) => profiles,
        None => match settings.profiles.load(&OpenDirectories::default()) {
            Ok(profiles) => profiles,
            Err(error) => return Err(launcher.abandon(error.into())),
        },
    };
    for InvalidProfile { name, error } in &profiles.invalid {
        tracing::error!(profile = name, %error, "the profile is invalid, so no session can have it");
    }
    let live = settings.live(&profiles, &reach);
    let (analyst, egress, proofs) = programs(&settings)?;
    raise_descriptors();
    privilege::give_up(settings.account)?;
    let (spools, undos) = kept.stores(&reach);
    let audit = kept.audit(&settings, &reach)?;
    let (report_targets, expected_calls) = (settings.report_targets, settings.expected_calls);
    Ok(PreparedDaemon {
        started_by,
        operated_by,
        launcher,
        live,
        spools,
        undos,
        audit,
        analyst,
        egress,
        expected_calls,
        proofs,
        report_targets,
        reach,
    })
}

/// Opens the programs that are started after privilege is given up, while their paths are
/// accessible. These are the analyst and the egress room, which are restarted when they die, and this
/// program, for proofs.
fn programs(settings: &Settings) -> Result<(Analyst, RoomSource, Proofs), StartError> {
    let for_account = |program: Program| match settings.account {
        Some(Account { uid, gid }) => program.for_user(uid, gid),
        None => Ok(program),
    };
    let analyst = Search::usual().open("palisade-analyst").map_err(StartError::Analyst)?;
    let analyst =
        for_account(analyst).map_err(|error| StartError::Io("copy palisade-analyst", error))?;
    let origin = match (&settings.egress_socket, Search::usual().open(room_process::NAME)) {
        (Some(path), _) => RoomOrigin::Socket(path.clone()),
        (None, Ok(program)) => {
            let program = for_account(program);
            let program = program.map_err(|error| StartError::Io("copy palisade-egress", error))?;
            RoomOrigin::Program(program, credentials(settings)?)
        }
        // Only sessions with a network by name need it, and they are refused with this reason.
        (None, Err(missing)) => RoomOrigin::Missing(missing.to_string()),
    };
    let egress = RoomSource { origin, proxy: settings.egress_proxy.clone() };
    let prover = match settings.proving {
        ProofSchedule::Never => None,
        ProofSchedule::AtStart => Some(
            Program::own()
                .and_then(for_account)
                .map_err(|error| StartError::Io("open the daemon's own program", error))?,
        ),
    };
    Ok((Analyst::new(Some(analyst)), egress, Proofs::new(settings.proving, prover)))
}

/// Opens the credentials that root can read and the daemon's user can not. A user's own daemon opens
/// each one when a session needs it.
fn credentials(settings: &Settings) -> Result<CredentialStore, StartError> {
    Ok(match (&settings.credentials, settings.account) {
        (CredentialDirectory::There(path), Some(_)) => CredentialStore::open_all(path)?,
        (CredentialDirectory::There(path), None) => CredentialStore::Directory(path.clone()),
        (CredentialDirectory::Absent(path), _) => CredentialStore::Absent(path.clone()),
    })
}

/// Checks for `--check` that existing directories are safe.
fn check_places(settings: &Settings) -> Result<(), StartError> {
    let agents = match &settings.client_endpoint {
        ClientEndpoint::Socket(path) => Some(path),
        ClientEndpoint::Embedded => None,
    };
    let operators = match &settings.operator_endpoint {
        OperatorEndpoint::Socket(path) => Some(path),
        OperatorEndpoint::Stdout | OperatorEndpoint::None => None,
    };
    for path in agents.into_iter().chain(operators).chain(&settings.provider_socket) {
        listen::check(path)?;
    }
    // Only the service has a launcher's socket, and its sockets are systemd's.
    if settings.launcher_socket.is_some() && settings.metrics.is_some() {
        return Err(StartError::MetricsOfService);
    }
    Ok(state::check(&settings.state, settings.account)?)
}

/// Starts logging to stderr; returns the function that replaces the filter later.
fn log_to_stderr(settings: &Settings) -> Filter {
    let filter = tracing_subscriber::EnvFilter::new(settings.log.as_str());
    let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(colour)
        .with_target(false)
        // A message that can not be written is lost; reporting that to the same stream would panic.
        .log_internal_errors(false)
        .without_time()
        .with_filter_reloading();
    let handle = subscriber.reload_handle();
    if let Err(error) = subscriber.try_init() {
        eprintln!("palisaded: logging was set up before: {error}");
    }
    Arc::new(move |filter| handle.reload(filter).map_err(|error| error.to_string()))
}

/// Raises the limit of open descriptors. Called after the launcher was started, which keeps its own
/// limit.
fn raise_descriptors() {
    let now = getrlimit(Resource::Nofile);
    let most = now.maximum.unwrap_or(DESCRIPTORS).min(DESCRIPTORS);
    let wanted = Rlimit { current: Some(most), maximum: now.maximum };
    if now.current.is_some_and(|current| current < most)
        && let Err(error) = setrlimit(Resource::Nofile, wanted)
    {
        tracing::warn!(%error, "the limit of open files could not be raised");
    }
}

impl StartedDaemon {
    /// Serves until SIGTERM or SIGINT, or until the one client of an embedded daemon disconnects.
    ///
    /// # Errors
    /// If the launcher can not be reached, or is of another build.
    pub fn serve(self) -> Result<(), StartError> {
        // One thread: every switch between threads would cost more than the work itself.
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        if let Some(write) = self.prepared.audit.when_idle() {
            // The client gets its result before the record of it is written.
            runtime.on_thread_park(write);
        }
        let runtime = runtime
            .enable_all()
            .max_blocking_threads(4)
            .build()
            .map_err(|error| StartError::Io("start the runtime", error))?;
        runtime.block_on(self.serve_until_stopped())
    }

    async fn serve_until_stopped(self) -> Result<(), StartError> {
        let Self { entrance, beside, prepared, reloader, client } = self;
        // The directories are used until the very end.
        let _reach = prepared.reach;
        let stop = StopTokens::default();
        // The analysts start while the launcher does.
        prepared.analyst.start(prepared.expected_calls);
        serve::stop_on_signals(&stop)
            .map_err(|error| StartError::Io("listen for signals", error))?;
        let clients = match &entrance {
            ServiceSocket::Bound(_) | ServiceSocket::Activated(_) => Clients::Many,
            ServiceSocket::Embedded(_) => Clients::One,
            ServiceSocket::Lingering(..) => Clients::OfUser(prepared.started_by),
        };
        // From here on, SIGHUP does not end a daemon with many clients.
        let hangup = (clients == Clients::Many).then(|| signal(SignalKind::hangup())).transpose();
        let hangup = hangup.map_err(|error| StartError::Io("listen for signals", error))?;
        // Done before the launcher is waited for, because it takes time too.
        let registry = Registry::new()?;
        let link = match prepared.launcher.link().await {
            Ok(link) => link,
            Err(error) => return Err(StartError::from(error).tell(client)),
        };
        // From here on, the connection and the daemon end together.
        drop(client);
        let journal = match prepared.report_targets.journal {
            true => Journal::to(Path::new(journal::SOCKET)),
            false => Journal::default(),
        };
        let traces = prepared.report_targets.traces.map_or_else(Traces::default, Traces::to);
        prepared.audit.logs.start();
        let server = Arc::new(Server::new(ServerParts {
            live: prepared.live,
            link,
            spools: prepared.spools,
            undos: prepared.undos,
            audit: prepared.audit,
            journal,
            traces,
            analyst: prepared.analyst,
            egress: prepared.egress,
            operators: prepared.operated_by,
            proofs: prepared.proofs,
            clients,
            expected_calls: prepared.expected_calls,
            registry,
        }));
        let manager = tokio::spawn(service::attend(Arc::clone(&server)));
        let scrapes =
            beside.scrapes.map(|socket| tokio::spawn(scrape::serve(socket, Arc::clone(&server))));
        if let Some(hangup) = hangup {
            reloader.on_hangup(hangup, Arc::clone(&server));
        }
        let listen = |entrance| {
            match entrance {
                ServiceSocket::Bound(bound) => Listener::bound(bound),
                ServiceSocket::Activated(listener) => Listener::activated(listener),
                ServiceSocket::Embedded(client) => Listener::one(client),
                ServiceSocket::Lingering(listener, rest) => Listener::lingering(listener, rest),
            }
            .map_err(|error| StartError::Io("use the socket", error))
        };
        server.proofs.at_start(&server).await;
        let listener = listen(entrance)?;
        let operators = beside.operators.map(listen).transpose()?;
        let providers = beside.providers.map(listen).transpose()?;
        let beside = OtherListeners { operators, providers };
        serve::serve(listener, beside, server, stop).await;
        manager.abort();
        if let Some(scrapes) = scrapes {
            scrapes.abort();
        }
        Ok(())
    }
}
