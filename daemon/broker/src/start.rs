//! From options to a daemon that serves: sockets, directories and launcher first, then privilege
//! is given up, and only then clients are heard. Broker.

mod doors;
mod error;
mod farewell;
mod kept;

pub use error::StartError;

use crate::{
    analyst::Analyst,
    audit::Audit,
    journal::{self, Journal},
    launcher::LauncherError,
    launcher_process::{self, LauncherProcess},
    link::Link,
    listen,
    options::Options,
    privilege::{self, Account},
    prove::proofs::{Proofs, Proving},
    reach::Reach,
    reload::{Filter, Reloader},
    scrape,
    serve::{self, Beside, Listener, Stop},
    server::{Clients, Live, Operators, Server},
    service,
    settings::{Door, OperatorDoor, Settings, StartedBy, Telling},
    spool::Spools,
    state,
    traces::Traces,
    undo::Undos,
};
use doors::{Besides, Entrance};
use kept::Kept;
use palisade_programs::{Program, Search};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{
    io::{self, IsTerminal as _},
    os::unix::net::UnixStream,
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
    /// The one client, to be told if it can not be served after all.
    client: Option<UnixStream>,
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
    /// What the others have directories of.
    reach: Reach,
}

/// Where the launcher comes from.
#[derive(Debug)]
enum LauncherFrom {
    Process(LauncherProcess),
    Socket(PathBuf),
}

impl LauncherFrom {
    async fn link(self) -> Result<Link, LauncherError> {
        match self {
            Self::Process(LauncherProcess { child, socket }) => Link::child(child, socket).await,
            Self::Socket(path) => Link::path(&path).await,
        }
    }
}

/// Starts the daemon; with `--check` says what would be done instead, and returns none.
///
/// # Errors
/// Each with what to do about it.
pub fn start(options: Options) -> Result<Option<Started>, StartError> {
    let client = if options.embedded { doors::client() } else { None };
    match prepare_to_serve(options) {
        Ok(started) => Ok(started.map(|started| Started { client, ..started })),
        Err(error) => Err(error.tell(client)),
    }
}

fn prepare_to_serve(options: Options) -> Result<Option<Started>, StartError> {
    let (check, dump) = (options.check, options.dump_config);
    let by = StartedBy::now();
    let settings = Settings::resolve(options.clone(), by, &Reach::default())?;
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
    let reach = settings.reach();
    let effective = settings.effective.clone();
    let reloader = Reloader::new(options, by, reach.clone(), effective, filter);
    let prepared = prepare(settings, beside.operators.as_ref(), reach)?;
    Ok(Some(Started { entrance, beside, prepared, reloader, client: None }))
}

/// Everything but the doors; privilege is given up on the way.
fn prepare(
    settings: Settings,
    operators: Option<&Entrance>,
    mut reach: Reach,
) -> Result<Prepared, StartError> {
    let operated_by = match (operators, settings.account) {
        (Some(Entrance::Activated(_)), _) | (_, Some(_)) => Operators::System,
        (Some(Entrance::Bound(_) | Entrance::Embedded(_)) | None, None) => {
            Operators::Own(rustix::process::geteuid().as_raw())
        }
    };
    let kept = Kept::make(&settings, &mut reach)?;
    let live = settings.live(&reach);
    let launcher = match &settings.launcher_socket {
        Some(path) => LauncherFrom::Socket(path.clone()),
        None => {
            let (ports, uids) = (settings.allow_ports.as_ref(), settings.session_uids);
            let store = kept.transactions();
            LauncherFrom::Process(launcher_process::start(store.as_deref(), ports, uids)?)
        }
    };
    let (analyst, proofs) = programs(&settings)?;
    raise_descriptors();
    privilege::give_up(settings.account)?;
    let (spools, undos) = kept.stores(&reach);
    let audit = kept.audit(&settings, &reach)?;
    let telling = settings.telling;
    Ok(Prepared {
        operated_by,
        launcher,
        live,
        spools,
        undos,
        audit,
        analyst,
        proofs,
        telling,
        reach,
    })
}

/// The programs that are started by whom the broker becomes, opened while they can be reached: the
/// analyst, again whenever it dies, and this one for proofs.
fn programs(settings: &Settings) -> Result<(Analyst, Proofs), StartError> {
    let for_account = |program: Program| match settings.account {
        Some(Account { uid, gid }) => program.for_user(uid, gid),
        None => Ok(program),
    };
    let analyst = Search::usual().open("palisade-analyst").map_err(StartError::Analyst)?;
    let analyst =
        for_account(analyst).map_err(|error| StartError::Io("copy palisade-analyst", error))?;
    let prover = match settings.proving {
        Proving::Never => None,
        Proving::AtStart => Some(
            Program::own()
                .and_then(for_account)
                .map_err(|error| StartError::Io("open the daemon's own program", error))?,
        ),
    };
    Ok((Analyst::new(Some(analyst)), Proofs::new(settings.proving, prover)))
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
        let Self { entrance, beside, prepared, reloader, client } = self;
        // Its directories are used until the very end.
        let _reach = prepared.reach;
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
        let link = match prepared.launcher.link().await {
            Ok(link) => link,
            Err(error) => return Err(StartError::from(error).tell(client)),
        };
        // From here on the end of its connection is the daemon's, and the other way round.
        drop(client);
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
