//! Proves profiles before they are served: escapes, tried in a session of the daemon's own that
//! goes the way of every call. Broker.

pub(crate) mod proofs;

use crate::{
    call,
    context::{Context, Streaming},
    error::SessionError,
    observers::Audience,
    outbox::ToClient,
    outcome::Fault,
    server::Server,
    session::{Session, make::open_own},
    stages::asked::Asked,
};
use palisade_plan::launcher::Refusal;
use palisade_policy::{Profile, Samples, Scene};
use palisade_proof::{Held, Names, Owner, Places, Reach, Row, Trial};
use palisade_protocol::{
    Call, CallId, CallOptions, CallResult, JsonText, Receipt, ToolName, arguments::Bash,
};
use proofs::{Proofs, Proving, Unproved};
use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::{DirBuilderExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Whom sessions of the system's daemon run as that are its own; see the launcher.
const NOBODY: u32 = 65534;

/// Where programs are that a session of every profile has.
const SYSTEM: &str = "/usr";

impl Proofs {
    /// Proves every profile that there is, and says in the log what came of it.
    pub(crate) async fn at_start(&self, server: &Arc<Server>) {
        for (name, profile) in &server.live().profiles {
            match self.require(server, profile).await {
                Ok(()) if self.proving == Proving::Never => return,
                Ok(()) => tracing::info!(profile = name, "the profile is proved"),
                Err(error) => tracing::error!(profile = name, %error, "not proved"),
            }
        }
    }

    /// An error if a profile is to be proved and is not. One that was not tried yet is tried now.
    pub(crate) async fn require(
        &self,
        server: &Arc<Server>,
        profile: &Arc<Profile>,
    ) -> Result<(), SessionError> {
        if self.proving == Proving::Never {
            return Ok(());
        }
        let mut done = self.done.lock().await;
        let proved = match done.get(profile.digest()) {
            Some(proved) => proved.clone(),
            None => {
                let proved = prove(server, profile).await;
                done.insert(profile.digest().to_owned(), proved.clone());
                proved
            }
        };
        proved.map_err(|unproved| SessionError::Unproved {
            name: profile.name().to_owned(),
            why: unproved.to_string(),
        })
    }
}

/// A directory for one proof, gone with this value.
#[derive(Debug)]
struct Top(PathBuf);

impl Top {
    fn new() -> io::Result<Self> {
        // The random part of it: a socket is made in there, whose path must be short.
        let (_, random) = uuid::Uuid::now_v7().as_u64_pair();
        let path = std::env::temp_dir().join(format!("palisade-proof-{random:016x}"));
        DirBuilder::new().mode(0o755).create(&path)?;
        let top = Self(path);
        fs::set_permissions(&top.0, fs::Permissions::from_mode(0o755))?;
        Ok(top)
    }
}

impl Drop for Top {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "something of a proof is left");
        }
    }
}

/// Tries every escape in a session of a profile.
async fn prove(server: &Arc<Server>, profile: &Arc<Profile>) -> Result<(), Unproved> {
    let place = |error| Unproved::Place(Arc::new(error));
    let top = Top::new().map_err(place)?;
    // A service has no network itself.
    let mut places = Places::furnish(&top.0, Reach::NoNetwork).map_err(place)?;
    let program = program(server, &places).map_err(place)?;
    let untried = |why: String| Unproved::Untried(why);
    let scene =
        scene(server, places.workspace()).await.map_err(|error| untried(error.to_string()))?;
    let Samples { hidden, made, protected, below } = profile.samples();
    let own = scene.uid == rustix::process::geteuid().as_raw();
    let owner = if own { Owner::Prover } else { Owner::Another };
    places.name(&Names { hidden, made, protected, below }, owner).map_err(place)?;
    let unasked = Arc::new(profile.for_proof());
    let session = open_own(server, &unasked, scene).await;
    let session = match session {
        Ok(session) => session,
        // Nobody has a session of it, and whoever asks for one is told why.
        Err(SessionError::Refused(Refusal::Ceiling(why))) => {
            drop(places);
            tracing::info!(
                profile = profile.name(),
                why,
                "not permitted by the launcher's ceiling"
            );
            return Ok(());
        }
        Err(error) => return Err(untried(error.to_string())),
    };
    let rows = attempt(server, &session, &program, &places).await;
    session.close().await;
    drop(places);
    match rows?.into_iter().find(|row| !row.verdict.holds()) {
        Some(Row { probe, answer, verdict, .. }) => Err(Unproved::Row {
            probe: probe.name,
            tries: probe.tries,
            layer: probe.layer.name(),
            verdict: verdict.to_string(),
            answer,
        }),
        None => Ok(()),
    }
}

/// This program, where a session can run it.
fn program(server: &Server, places: &Places) -> io::Result<PathBuf> {
    let own = server.proofs.program.as_ref().ok_or(io::ErrorKind::NotFound)?;
    if own.path().starts_with(SYSTEM) {
        Ok(own.path().to_owned())
    } else {
        places.install(&own.entry())
    }
}

/// Who it is tried by: nobody, where the launcher can be somebody else.
async fn scene(server: &Server, workspace: PathBuf) -> Result<Scene, SessionError> {
    let (uid, gid) = if server.link.launcher().await?.facts().privileged {
        (NOBODY, NOBODY)
    } else {
        (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
    };
    Ok(Scene { workspace, home: None, user: "nobody".to_owned(), uid, gid })
}

/// What a session's receipt says of it.
fn held(receipt: &Receipt) -> Held {
    Held {
        missing: receipt.degraded.iter().map(|degraded| degraded.layer.clone()).collect(),
        scopes: receipt.landlock.iter().flat_map(|landlock| landlock.scopes.clone()).collect(),
        network: receipt.network.mode.clone(),
        ports: receipt.network.ports.clone(),
    }
}

async fn attempt(
    server: &Arc<Server>,
    session: &Arc<Session>,
    program: &Path,
    places: &Places,
) -> Result<Vec<Row>, Unproved> {
    let untried = |why: String| Unproved::Untried(why);
    let opened = server.audit.opened(session).await;
    opened.map_err(|error| untried(error.to_string()))?;
    let mut trial = Trial::new(places, &held(&session.receipt()));
    let run = async |words: &[String]| {
        let program = program.to_string_lossy().into_owned();
        let words = words.iter().cloned();
        let argv = [program, "--attempt".to_owned()].into_iter().chain(words).collect();
        run(server, session, argv).await.map_err(untried)
    };
    let result = run(trial.words()).await?;
    if result.stdout.is_empty() {
        let error = result.error.map(|error| error.message);
        return Err(untried(error.unwrap_or_else(|| "it printed nothing".to_owned())));
    }
    let mut rows = trial.read(&result.stdout);
    for mut deed in trial.deeds() {
        while let Some(word) = deed.next().map(str::to_owned) {
            let result = run(&[word]).await?;
            deed.told(result.denials.into_iter().map(|denial| denial.layer).collect());
        }
        rows.push(deed.row());
    }
    Ok(rows)
}

/// Runs a program in the session, by the way of every call.
async fn run(
    server: &Arc<Server>,
    session: &Arc<Session>,
    argv: Vec<String>,
) -> Result<CallResult, String> {
    let told = |error: &dyn std::fmt::Display| error.to_string();
    let bash = Bash { argv: Some(argv), ..Bash::default() };
    let call = Call {
        tool: ToolName::try_from("bash".to_owned()).map_err(|error| told(&error))?,
        arguments: JsonText::render(&bash).map_err(|error| told(&error))?,
        reason: Some("the proof of the profile".to_owned()),
        options: CallOptions::default(),
    };
    let (queue, _) = mpsc::channel(1);
    let id = uuid::Uuid::now_v7().to_string();
    let context = Context {
        spools: server.spools.clone(),
        call_id: CallId::try_from(id).map_err(|error| told(&error))?,
        request: 0,
        cancel: CancellationToken::new(),
        client: ToClient::new(queue),
        streaming: Streaming::ResultOnly,
        input: None,
        tap: None,
        observers: Arc::clone(&server.observers),
        audience: Audience::Operators,
        session: Arc::clone(session),
    };
    let place = session.turns.line_up().await;
    let fault = Fault::default();
    let asked = Asked { call, context, place, started: Instant::now(), fault };
    Ok(call::serve(server, asked).await)
}
