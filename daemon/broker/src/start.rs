//! From options to a daemon that serves: sockets, directories and launcher first, then privilege
//! is given up, and only then clients are heard. Broker.

mod doors;
mod error;

pub use error::StartError;

use crate::{
    analyst::Analyst,
    audit::Audit,
    journal::{self, Journal},
    launcher_process::{self, LauncherProcess},
    link::Link,
    listen,
    options::Options,
    privilege,
    prove::proofs::Proofs,
    reload::{Filter, Reloader},
    scrape,
    serve::{self, Beside, Listener, Stop},
    server::{Clients, Live, Operators, Server},
    service,
    settings::{Door, OperatorDoor, Settings, StartedBy, State, Telling},
    spool::Spools,
    state::{self, Places, StateError},
    traces::Traces,
    undo::Undos,
};
use doors::{Besides, Entrance};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{
    io::{self, IsTerminal as _},
    path::{Path, PathBuf},
    sync::Arc,
};
use tokio::signal::unix::{SignalKind, signal};

/// More than all connections and their sessions need.
const DESCRIPTORS: u64 = 65536;

/// A daemon without privilege that has everything it needs to serve.
#[derive(Debug)]
pub struct Started {
    entrance: Entrance,
    beside: Besides,
    prepared: Prepared,
    reloader: Reloader,
}

/// What a daemon needs besides its doors.
#[derive(Debug)]
struct Prepared {
    /// Who may operate.
    operated_by: Operators,
    launcher: LauncherFrom,
    live: Live,
    spools: Spools,
    undos: Undos,
    audit: Audit,
    analyst: Analyst,
    proofs: Proofs,
    telling: Telling,
}

/// Where the launcher comes from.
#[derive(Debug)]
enum LauncherFrom {
    Process(LauncherProcess),
    Socket(PathBuf),
}

/// Starts the daemon; with `--check` says what would be done instead, and returns none.
///
/// # Errors
/// Each with what to do about it.
pub fn start(options: Options) -> Result<Option<Started>, StartError> {
    let (check, dump) = (options.check, options.dump_config);
    let by = StartedBy::now();
    let settings = Settings::resolve(options.clone(), by)?;
    if dump {
        print!("{}", settings.effective.text());
        return Ok(None);
    }
    if check {
        check_places(&settings)?;
        print!("{}", settings.describe());
        return Ok(None);
    }
    let filter = log_to_stderr(&settings);
    let (entrance, beside) = doors::open(&settings)?;
    let reloader = Reloader::new(options, by, settings.effective.clone(), filter);
    match prepare(settings, beside.operators.as_ref()) {
        Ok(prepared) => Ok(Some(Started { entrance, beside, prepared, reloader })),
        Err(error) => {
            // The client sees the end of the connection only with the end of this process, which
            // has said why by then.
            std::mem::forget((entrance, beside));
            Err(error)
        }
    }
}

/// Everything but the doors; privilege is given up on the way.
fn prepare(settings: Settings, operators: Option<&Entrance>) -> Result<Prepared, StartError> {
    let operated_by = match (operators, settings.account) {
        (Some(Entrance::Activated(_)), _) | (_, Some(_)) => Operators::System,
        (Some(Entrance::Bound(_) | Entrance::Embedded(_)) | None, None) => {
            Operators::Own(rustix::process::geteuid().as_raw())
        }
    };
    let (spools, undos, store, log) = places(&settings)?;
    let live = settings.live();
    let launcher = match settings.launcher_socket {
        Some(path) => LauncherFrom::Socket(path),
        None => {
            let (ports, uids) = (settings.allow_ports.as_ref(), settings.session_uids);
            LauncherFrom::Process(launcher_process::start(store.as_deref(), ports, uids)?)
        }
    };
    raise_descriptors();
    privilege::give_up(settings.account)?;
    let audit = audit(log, &settings.door, settings.audit_sync)?;
    // Started by whom the broker has become, and again whenever it dies.
    let analyst = Analyst::find()?;
    let proofs = Proofs::new(settings.proving);
    let telling = settings.telling;
    Ok(Prepared { operated_by, launcher, live, spools, undos, audit, analyst, proofs, telling })
}

/// What `--check` looks at besides files: directories that are there already must be safe.
fn check_places(settings: &Settings) -> Result<(), StartError> {
    let agents = match &settings.door {
        Door::Socket(path) => Some(path),
        Door::Embedded => None,
    };
    let operators = match &settings.operator_door {
        OperatorDoor::Socket(path) => Some(path),
        OperatorDoor::Stdout | OperatorDoor::None => None,
    };
    for path in agents.into_iter().chain(operators).chain(&settings.provider_door) {
        listen::check(path)?;
    }
    Ok(state::check(&settings.state, settings.account)?)
}

/// Logs; gives the means to log something else later.
fn log_to_stderr(settings: &Settings) -> Filter {
    let filter = tracing_subscriber::EnvFilter::new(settings.log.as_str());
    let colour = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(io::stderr)
        .with_ansi(colour)
        .with_target(false)
        // A message that can not be written is lost; complaining of it to the same place panics.
        .log_internal_errors(false)
        .without_time()
        .with_filter_reloading();
    let handle = subscriber.reload_handle();
    if let Err(error) = subscriber.try_init() {
        eprintln!("palisaded: logging was set up before: {error}");
    }
    Arc::new(move |filter| handle.reload(filter).map_err(|error| error.to_string()))
}

/// The spools, what can be undone, where the launcher keeps transactions, and the directory of the
/// log.
type Kept = (Spools, Undos, Option<PathBuf>, Result<PathBuf, StateError>);

/// What is kept. A private daemon for one client starts without them
/// if there is no usual place, and its client is told why nothing runs.
fn places(settings: &Settings) -> Result<Kept, StartError> {
    match (state::prepare(&settings.state, settings.account), &settings.door, &settings.state) {
        (Ok(Places { spool, audit, undo, transactions }), ..) => {
            Ok((Spools::new(Some(spool)), Undos::new(Some(undo)), Some(transactions), Ok(audit)))
        }
        (Err(error), Door::Embedded, State::Usual(_) | State::Nowhere) => {
            Ok((Spools::new(None), Undos::new(None), None, Err(error)))
        }
        (Err(error), Door::Embedded | Door::Socket(_), _) => Err(error.into()),
    }
}

/// The log, opened by whom the broker has become.
fn audit(
    directory: Result<PathBuf, StateError>,
    door: &Door,
    sync: palisade_audit::Sync,
) -> Result<Audit, StartError> {
    let opened = match directory {
        Ok(directory) => Audit::open(&directory, sync),
        Err(error) => return Ok(Audit::none(&error.to_string())),
    };
    match (opened, door) {
        (Ok(audit), _) => Ok(audit),
        (Err(error), Door::Embedded) => Ok(Audit::none(&error.to_string())),
        (Err(error), Door::Socket(_)) => Err(error.into()),
    }
}

/// After the launcher was started, which keeps its own limit.
fn raise_descriptors() {
    let now = getrlimit(Resource::Nofile);
    let most = now.maximum.unwrap_or(DESCRIPTORS).min(DESCRIPTORS);
    let wanted = Rlimit { current: Some(most), maximum: now.maximum };
    if now.current.is_some_and(|current| current < most)
        && let Err(error) = setrlimit(Resource::Nofile, wanted)
    {
        tracing::warn!(%error, "the limit of descriptors stays as it is");
    }
}

impl Started {
    /// Serves until SIGTERM or SIGINT, or until the one client of an embedded daemon leaves.
    ///
    /// # Errors
    /// If the launcher can not be reached, or is of another build.
    pub fn serve(self) -> Result<(), StartError> {
        // One thread: every hand-over between threads would cost more than the work itself.
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        if let Some(write) = self.prepared.audit.when_idle() {
            // The client has its result before anybody writes a record of it.
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
        let Self { entrance, beside, prepared, reloader } = self;
        let stop = Stop::default();
        serve::stop_on_signals(&stop)
            .map_err(|error| StartError::Io("listen for signals", error))?;
        let clients = match &entrance {
            Entrance::Bound(_) | Entrance::Activated(_) => Clients::Many,
            Entrance::Embedded(_) => Clients::One,
        };
        // From here on a hang-up does not end what many are served by.
        let hangup = (clients == Clients::Many).then(|| signal(SignalKind::hangup())).transpose();
        let hangup = hangup.map_err(|error| StartError::Io("listen for signals", error))?;
        let link = match prepared.launcher {
            LauncherFrom::Process(LauncherProcess { child, socket }) => {
                Link::child(child, socket).await?
            }
            LauncherFrom::Socket(path) => Link::path(&path).await?,
        };
        let journal = match prepared.telling.journal {
            true => Journal::to(Path::new(journal::SOCKET)),
            false => Journal::default(),
        };
        let traces = prepared.telling.traces.map_or_else(Traces::default, Traces::to);
        let server = Arc::new(
            Server::new(prepared.live, link, prepared.spools)?
                .operated_by(prepared.operated_by)
                .analysing(prepared.analyst)
                .undoing(prepared.undos)
                .recording(prepared.audit)
                .proving(prepared.proofs)
                .telling(journal, traces)
                .for_clients(clients),
        );
        let manager = tokio::spawn(service::attend(Arc::clone(&server)));
        let scrapes =
            beside.scrapes.map(|socket| tokio::spawn(scrape::serve(socket, Arc::clone(&server))));
        if let Some(hangup) = hangup {
            reloader.on_hangup(hangup, Arc::clone(&server));
        }
        let listen = |entrance| {
            match entrance {
                Entrance::Bound(bound) => Listener::bound(bound),
                Entrance::Activated(listener) => Listener::activated(listener),
                Entrance::Embedded(client) => Listener::one(client),
            }
            .map_err(|error| StartError::Io("use the socket", error))
        };
        server.proofs.at_start(&server).await;
        let listener = listen(entrance)?;
        let operators = beside.operators.map(listen).transpose()?;
        let providers = beside.providers.map(listen).transpose()?;
        let beside = Beside { operators, providers };
        serve::serve(listener, beside, server, stop).await;
        manager.abort();
        if let Some(scrapes) = scrapes {
            scrapes.abort();
        }
        Ok(())
    }
}
