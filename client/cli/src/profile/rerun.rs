//! Runs a call of the audit log again, to find out what it was refused: under the recorder, in a
//! transaction that is discarded, without a network, in a private daemon of this user.
//!
//! The call is judged as it was the first time, by the same profile, and nobody is asked for
//! approval. So it can do no more than the caller of this command could do with `palisade run`.

use super::{
    Directories,
    attempts::{self, FailedAttempts, HostView, RecordedRun},
    learn, load,
    refusals::{RefusalContext, Refusals},
    remedy,
};
use crate::{
    audit::{Directory, RecordsOfCall, TRACED, records},
    call::id::CallSelector,
    disconnect::disconnect,
    failure::Failure,
};
use palisade_audit::{Call, Record, SessionOpen};
use palisade_client::{CallResult, Embedded, Guard, Open, arguments::Bash};
use palisade_policy::{Act, Decision, Profile, ProfileSet, Scene, TargetOwner, explain};
use palisade_protocol::RawPath;
use serde_json::Value;
use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// The time that the call may take when it runs again.
const TIMEOUT: Duration = Duration::from_secs(10 * 60);

/// A call of the log, with everything that is needed to make it again.
#[derive(Debug)]
struct RecordedCall {
    call_id: String,
    arguments: Bash,
    profile: String,
    workspace: PathBuf,
    /// The user id of the client, from the kernel.
    uid: u32,
    /// The user id of the session, if that had its own.
    runs_as: Option<u32>,
    /// The directory of the log that has it; `None` if a daemon sent it.
    log: Option<PathBuf>,
}

/// The trace of a call: what a second run of it attempted, as its profile judges that.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) call_id: String,
    pub(crate) profile: Profile,
    pub(crate) scene: Scene,
    pub(crate) result: CallResult,
    pub(crate) attempts: FailedAttempts,
    /// The number of accesses that were not recorded.
    pub(crate) lost: u64,
}

impl Trace {
    /// Groups what was denied by the change that would allow it, for suggestions.
    pub(super) fn refusals(&self, set: &ProfileSet) -> Refusals {
        self.attempts.refusals(&RefusalContext {
            profile: self.profile.name(),
            call: &self.call_id,
            tool: "bash",
            scene: Some(&self.scene),
            set: Some(set),
        })
    }
}

/// Runs a call of the log again, and judges what it attempted.
pub(crate) async fn trace(
    log: &Directory,
    wanted: &CallSelector,
    directories: &Directories,
) -> Result<Trace, Failure> {
    let recorded = RecordedCall::read(records(log, wanted).await?)?;
    let profile = recorded.profile(directories)?;
    let scene = learn::scene(&recorded.workspace);
    recorded.check_identity(&scene)?;
    let result = recorded.run(&profile, &scene, directories).await?;
    let Some(run) = RecordedRun::of(&result) else { return Err(not_run(&result)) };
    let host = HostView { state: &remedy::there, sets_id: &attempts::sets_id };
    let attempts = attempts::judge(&profile, &scene, &run.accesses, &host);
    Ok(Trace { call_id: recorded.call_id, profile, scene, result, attempts, lost: run.lost })
}

/// Creates the failure for a call that can not be made again.
fn not_kept(what: &str, hint: &str) -> Failure {
    Failure::new(format!("the call can not be run again: {what}"), hint)
}

impl RecordedCall {
    /// Reads a call from its records. Fails if they do not have all that the call was made with.
    fn read(found: RecordsOfCall) -> Result<Self, Failure> {
        let RecordsOfCall { call_id, records, log } = found;
        let (mut call, mut open, mut attached) = (None::<Call>, None::<SessionOpen>, false);
        for record in records {
            if let Record::Result(result) = &record {
                attached = result.attachment.is_some();
            }
            if let Record::Call(made) = record {
                call = Some(made);
            } else if let Record::SessionOpen(opened) = record {
                open = Some(opened);
            }
        }
        let call = call.ok_or_else(|| {
            let hint = "a call's id is the `call_id` of its result; see also palisade audit tail";
            Failure::absent(format!("there is no call {call_id:?} in the log"), hint)
        })?;
        let hint = "its part of the log was deleted; --archives names a directory of archives";
        let open = open
            .ok_or_else(|| not_kept("the log does not have the beginning of its session", hint))?;
        if attached {
            let hint = "make the call with its input in the arguments (`stdin`), or in a file";
            return Err(not_kept("the log does not have its standard input", hint));
        }
        Ok(Self {
            call_id,
            arguments: arguments(&call)?,
            profile: open.profile,
            workspace: PathBuf::from(open.workspace.as_str()),
            uid: open.uid,
            runs_as: open.runs_as,
            log,
        })
    }

    /// Refuses to run the call as anybody but the user it ran as, who may read less.
    fn check_identity(&self, scene: &Scene) -> Result<(), Failure> {
        if let Some(uid) = self.runs_as {
            let told =
                format!("its session had its own user id {uid}, which only the service gives");
            return Err(not_kept(
                &told,
                "try the command with `palisade run` and a profile of yours",
            ));
        }
        // Sessions of root run as the owner of the workspace, then as now.
        let is_same = match self.uid {
            0 => rustix::process::geteuid().is_root(),
            uid => uid == scene.uid,
        };
        if is_same {
            return Ok(());
        }
        let told =
            format!("it was a call of uid {}, and would now run as uid {}", self.uid, scene.uid);
        Err(not_kept(&told, "run this command as the user whose call it was"))
    }

    /// Loads the profile of the call's session.
    fn profile(&self, directories: &Directories) -> Result<Profile, Failure> {
        let found = load::find(directories, [self.profile.as_str()])?;
        let name = &self.profile;
        let Some(profile) = found.into_iter().next() else {
            return Err(not_kept("its profile is missing", "name its directory with --profiles"));
        };
        if profile.observed_under().is_some() {
            let hint = "`palisade why` without --trace says what it would have refused";
            return Err(not_kept(&format!("profile {name} is only observed"), hint));
        }
        if profile.writes_beyond() {
            let told = format!(
                "profile {name} lists directories in fs.unguarded, whose changes no transaction \
                 holds back"
            );
            return Err(not_kept(&told, "try it with a profile without them"));
        }
        Ok(profile)
    }

    /// Makes the call again, in a session of a private daemon that ends with it.
    async fn run(
        &self,
        profile: &Profile,
        scene: &Scene,
        directories: &Directories,
    ) -> Result<CallResult, Failure> {
        let failed = |error: std::io::Error| {
            let told = format!("can not create a directory for the session's profile: {error}");
            Failure::new(told, "set TMPDIR to a directory that can be written to")
        };
        let own = tempfile::Builder::new().prefix("palisade-why-").tempdir().map_err(failed)?;
        fs::write(own.path().join(format!("{TRACED}.toml")), without_network(profile, scene))
            .map_err(failed)?;
        let client = private(self.log.as_deref(), directories).profiles(own.path()).start().await?;
        let went = async {
            let open =
                Open::new(&self.workspace).profile(TRACED).guard(Guard::Transaction).record();
            let session = client.open(open).await?;
            let mut call = session.call("bash", &self.arguments).timeout(TIMEOUT);
            call = call.reason(format!("palisade why --trace {}", self.call_id));
            // A session that can change nothing needs no transaction.
            if profile.writes_workspace() {
                call = call.dry_run();
            }
            Ok(call.await?)
        };
        let went = went.await;
        disconnect(&client, went).await
    }
}

/// Returns the arguments of a call of `bash`, for a program in the foreground that starts where the
/// call started.
fn arguments(call: &Call) -> Result<Bash, Failure> {
    if call.tool != "bash" {
        let told = format!("only programs are traced, and this was a call of {}", call.tool);
        return Err(not_kept(
            &told,
            "what a tool was refused is in its result, and in `palisade why`",
        ));
    }
    match call.altered.as_deref() {
        Some([]) => {}
        None => {
            let told = "its daemon did not record whether the log has its arguments unchanged";
            return Err(not_kept(told, "make the call again, and trace that"));
        }
        Some(altered) => {
            let told = format!("the log does not have its {} as it was sent", altered.join(", "));
            let hint = "secrets are removed from the log, and long text is cut; put them in a file";
            return Err(not_kept(&told, hint));
        }
    }
    let kept = call.arguments.value().clone();
    let arguments: Bash = serde_json::from_value(kept)
        .map_err(|error| not_kept(&format!("its arguments are not valid: {error}"), ""))?;
    let cwd = Path::new(call.cwd.as_str());
    let start = match &arguments.cwd {
        Some(named) => cwd.join(<OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(&named.0)),
        None => cwd.to_owned(),
    };
    Ok(Bash {
        cwd: Some(RawPath::from(start)),
        timeout_ms: None,
        background: false,
        yield_ms: None,
        input: false,
        route: None,
        ..arguments
    })
}

/// Returns a private daemon that writes to the same log, if the log is in a state directory.
fn private(log: Option<&Path>, directories: &Directories) -> Embedded {
    let mut daemon = Embedded::new().only_profile(Some(TRACED));
    if let Some(directory) = log
        && directory.file_name() == Some(OsStr::new("audit"))
        && let Some(state) = directory.parent()
    {
        daemon = daemon.state(state);
    }
    load::directories(directories).iter().fold(daemon, |daemon, directory| {
        daemon.profiles(std::path::absolute(directory).unwrap_or_else(|_| directory.clone()))
    })
}

/// Returns the text of a profile that narrows another one to a private loopback, or to no network at
/// all if the other one has no such loopback.
fn without_network(profile: &Profile, scene: &Scene) -> String {
    let name = toml::Value::String(profile.name().to_owned());
    let own = explain(profile, scene, Act::Connect, "127.0.0.1:1")
        .is_ok_and(|told| told.decision == Decision::Allow && told.place == TargetOwner::Session);
    let mode = if own { "loopback" } else { "none" };
    format!(
        "version = 1\ndescription = \"A session for `palisade why --trace`: without a network.\"\n\
         extends = {name}\n[net]\nmode = \"{mode}\"\n"
    )
}

/// Says why the call was not run again: a rule denies it, or wants approval, or it failed to start.
fn not_run(result: &CallResult) -> Failure {
    let data =
        result.data.as_ref().and_then(|data| serde_json::from_str::<Value>(data.as_str()).ok());
    let text = |name: &str| data.as_ref().and_then(|data| data.get(name)).and_then(Value::as_str);
    match (&result.error, text("judgement")) {
        (Some(error), _) => not_kept(&error.message, &error.hint),
        (None, Some(judgement)) => {
            let why = text("why").unwrap_or_default();
            let told = format!("the decision about it is {judgement:?} ({why})");
            not_kept(
                &told,
                "a second run needs a call that is allowed, or asked about for its losses",
            )
        }
        (None, None) => {
            not_kept("nothing was recorded of it", "check that palisaded has this version")
        }
    }
}
