//! Proves profiles before they are served: tries escapes in a session of the daemon's own, which
//! passes through the same stages as every call. Runs in the broker.

pub(crate) mod proofs;

use crate::{
    base::{outbox::ClientOutbox, outcome::Fault},
    cells::{
        context::{Context, ProgressReports, Streaming},
        session::{Session, error::SessionError, make::open_own},
    },
    front::server::Server,
    pipeline::{call, stages::asked::RequestedCall},
    telemetry::observers::EventAudience,
};
use palisade_plan::launcher::Refusal;
use palisade_policy::{Profile, Samples, Scene};
use palisade_proof::{
    Confinement, OutsideTargets, Owner, ProverNetwork, RestrictedNames, Row, Trial,
};
use palisade_protocol::{
    Call, CallId, CallOptions, CallResult, JsonText, Receipt, ToolName, arguments::Bash,
};
use proofs::{ProofError, ProofSchedule, Proofs};
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

/// The uid and gid of the system daemon's own sessions; the launcher has the same constant.
const NOBODY: u32 = 65534;

/// The directory whose programs a session of every profile can run.
const SYSTEM: &str = "/usr";

impl Proofs {
    /// Proves every profile and logs the results.
    pub(crate) async fn at_start(&self, server: &Arc<Server>) {
        for (name, profile) in &server.live().profiles {
            match self.require(server, profile).await {
                Ok(()) if self.proving == ProofSchedule::Never => return,
                Ok(()) => tracing::info!(profile = name, "the profile is proved"),
                Err(error) => tracing::error!(profile = name, %error, "the profile is not proved"),
            }
        }
    }

    /// Returns an error if the profile must be proved and is not. A profile that was not tried yet
    /// is tried now.
    pub(crate) async fn require(
        &self,
        server: &Arc<Server>,
        profile: &Arc<Profile>,
    ) -> Result<(), SessionError> {
        if self.proving == ProofSchedule::Never {
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

/// A directory for one proof, deleted when this value is dropped.
#[derive(Debug)]
struct ProofDirectory(PathBuf);

impl ProofDirectory {
    fn new() -> io::Result<Self> {
        // Only the random part of the UUID: a socket is created in there, whose path must be short.
        let (_, random) = uuid::Uuid::now_v7().as_u64_pair();
        let path = std::env::temp_dir().join(format!("palisade-proof-{random:016x}"));
        DirBuilder::new().mode(0o755).create(&path)?;
        let top = Self(path);
        fs::set_permissions(&top.0, fs::Permissions::from_mode(0o755))?;
        Ok(top)
    }
}

impl Drop for ProofDirectory {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "can not delete a proof's directory");
        }
    }
}

/// Tries every escape in a session of the profile.
async fn prove(server: &Arc<Server>, profile: &Arc<Profile>) -> Result<(), ProofError> {
    let place = |error| ProofError::Place(Arc::new(error));
    let top = ProofDirectory::new().map_err(place)?;
    // A service has no network itself.
    let mut places = OutsideTargets::create(&top.0, ProverNetwork::NoNetwork).map_err(place)?;
    let program = program(server, &places).map_err(place)?;
    let untested = |why: String| ProofError::Untested(why);
    let scene =
        scene(server, places.workspace()).await.map_err(|error| untested(error.to_string()))?;
    let Samples { hidden, made, protected, below } = profile.samples();
    let own = scene.uid == rustix::process::geteuid().as_raw();
    let owner = if own { Owner::Prover } else { Owner::Another };
    places.name(&RestrictedNames { hidden, made, protected, below }, owner).map_err(place)?;
    let unasked = Arc::new(profile.for_proof());
    let session = open_own(&server.host, &unasked, scene).await;
    let session = match session {
        Ok(session) => session,
        // Nobody can open a session of this profile, and whoever tries is told why.
        Err(SessionError::Refused(Refusal::Ceiling(why))) => {
            drop(places);
            tracing::info!(
                profile = profile.name(),
                why,
                "the profile is not tried: the launcher's ceiling does not permit it"
            );
            return Ok(());
        }
        Err(error) => return Err(untested(error.to_string())),
    };
    let rows = attempt(server, &session, &program, &places).await;
    session.close().await;
    drop(places);
    match rows?.into_iter().find(|row| !row.verdict.holds()) {
        Some(Row { probe, answer, verdict, .. }) => Err(ProofError::Row {
            probe: probe.name,
            tries: probe.tries,
            layer: probe.layer.name(),
            verdict: verdict.to_string(),
            answer,
        }),
        None => Ok(()),
    }
}

/// Returns the path at which a session can run this program.
fn program(server: &Server, places: &OutsideTargets) -> io::Result<PathBuf> {
    let own = server.proofs.program.as_ref().ok_or(io::ErrorKind::NotFound)?;
    if own.path().starts_with(SYSTEM) {
        Ok(own.path().to_owned())
    } else {
        places.install(&own.entry())
    }
}

/// Returns the identity for the proof: nobody if the launcher can change the user, else this user.
async fn scene(server: &Server, workspace: PathBuf) -> Result<Scene, SessionError> {
    let (uid, gid) = if server.host.link.launcher().await?.facts().privileged {
        (NOBODY, NOBODY)
    } else {
        (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
    };
    Ok(Scene { workspace, home: None, user: "nobody".to_owned(), uid, gid })
}

/// Returns what a session's receipt says is enforced.
fn confinement_of(receipt: &Receipt) -> Confinement {
    Confinement {
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
    places: &OutsideTargets,
) -> Result<Vec<Row>, ProofError> {
    let untested = |why: String| ProofError::Untested(why);
    let opened = server.telemetry.audit.opened(session, &session.receipt()).await;
    opened.map_err(|error| untested(error.to_string()))?;
    let mut trial = Trial::new(places, &confinement_of(&session.receipt()));
    let run = async |words: &[String]| {
        let program = program.to_string_lossy().into_owned();
        let words = words.iter().cloned();
        let argv = [program, "--attempt".to_owned()].into_iter().chain(words).collect();
        run(server, session, argv).await.map_err(untested)
    };
    let result = run(trial.words()).await?;
    if result.stdout.is_empty() {
        let error = result.error.map(|error| error.message);
        return Err(untested(error.unwrap_or_else(|| "it printed nothing".to_owned())));
    }
    let mut rows = trial.read(&result.stdout);
    for mut escape in trial.separate_attempts() {
        while let Some(word) = escape.next().map(str::to_owned) {
            let result = run(&[word]).await?;
            escape.record(result.denials.into_iter().map(|denial| denial.layer).collect());
        }
        rows.push(escape.row());
    }
    Ok(rows)
}

/// Runs a program in the session, through the same stages as every call.
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
        client: ClientOutbox::new(queue),
        streaming: Streaming::ResultOnly,
        reports: ProgressReports::WithOutput,
        input: None,
        tap: None,
        observers: Arc::clone(&server.telemetry.observers),
        audience: EventAudience::Operators,
        room: session.calls.result_room(),
        session: Arc::clone(session),
    };
    let place = session.calls.turns.enqueue();
    let fault = Fault::default();
    let asked = RequestedCall { call, context, place, started: Instant::now(), fault };
    Ok(call::serve(&server.calls, asked).await)
}
