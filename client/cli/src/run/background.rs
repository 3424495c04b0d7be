//! `palisade run --background`: a process of its own keeps the session until the job has ended, because
//! a session ends with its connection, and a job with its session.

use super::Run;
use crate::{
    exit::FAILED,
    failure::Failure,
    linger::{self, Linger},
    options::{LONGEST, TimeLimit},
    print, programs,
};
use palisade_client::{Client, JobStatus, Session};
use palisade_options::connect::{self, DaemonChoice, PrivateReason};
use serde_json::{Value, json};
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};

/// The option that makes this program the keeper of the session.
const KEEP: &str = "--keep";

/// The longest time that one request waits for the job's end.
const WAIT: Duration = Duration::from_secs(600);

/// The time for which a daemon stays after the job where none is to stay.
const SHORTEST_REST: Duration = Duration::from_millis(1);

/// The pause between two requests, for a daemon that answers at once.
const PAUSE: Duration = Duration::from_secs(1);

/// Starts the keeper, and prints what it says about the job.
pub(super) async fn start(is_json: bool) -> Result<u8, Failure> {
    // The keeper gets the words of this command behind the subcommand's name.
    let mut words: Vec<_> = std::env::args_os().skip(1).collect();
    words.insert(1.min(words.len()), KEEP.into());
    let keeper = programs::detach(&words).await?;
    let told: Value = serde_json::from_str(&keeper.answer).unwrap_or_default();
    if told["success"] != json!(true) {
        return Err(Failure::from_json(&told, keeper.status().await.unwrap_or(FAILED)));
    }
    if is_json {
        print::bytes(keeper.answer.as_bytes())?;
    } else {
        let call = told["call_id"].as_str().unwrap_or_default();
        print::line(&format!("job {}, call {call}", told["job"]))?;
        print::note(&format!("its output: palisade output {call}"));
        print::note(&format!("its state: palisade jobs; to end it: kill {}", told["pid"]));
    }
    Ok(0)
}

impl Run {
    /// Starts the job, says so in a line of JSON, and stays until the job has ended.
    pub(super) async fn keep(&self) -> Result<u8, Failure> {
        let open = self.session.terms.open()?;
        let variables = super::variables(&self.env, |name| std::env::var_os(name))?;
        let client = self.daemon().await?;
        let session = client.open(open).await?;
        let mut call = self.bash(&session, variables);
        if let Some(TimeLimit::Of(limit)) = self.session.timeout {
            call = call.timeout(limit);
        }
        if let Some(reason) = &self.session.reason {
            call = call.reason(reason);
        }
        let result = call.background().await?;
        if let Some(error) = &result.error {
            return Err(Failure::from(error));
        }
        let Some(status) = JobStatus::of(&result) else {
            return Err(Failure::new("the daemon started no job", ""));
        };
        print::json(&json!({
            "success": true, "call_id": status.call_id, "job": status.job, "session": session.id(),
            "pid": std::process::id(),
        }))?;
        wait(&client, &session, status.job).await?;
        Ok(0)
    }
}

impl Run {
    /// Connects to the running daemon, or to one that stays for as long as the job runs.
    async fn daemon(&self) -> Result<Client, Failure> {
        let terms = &self.session.terms;
        let private = match connect::find(&terms.connection).await? {
            DaemonChoice::Running(client) => return Ok(client),
            DaemonChoice::Private(_, PrivateReason::NotAdmitted) => {
                return Err(Failure::new(
                    "a background run needs the running daemon, and this user may not use it",
                    "ask to be added to the group palisade-users; or run it in the foreground",
                ));
            }
            DaemonChoice::Private(_, PrivateReason::Profiles) => {
                return Err(Failure::new(
                    "a background run does not start a daemon with other directories of profiles",
                    "start one with `palisaded --profiles DIR`; or run it in the foreground",
                ));
            }
            DaemonChoice::Private(private, PrivateReason::NoneRuns) => private,
        };
        let linger = if self.session.no_linger { Linger::Never } else { Linger::AsConfigured };
        let rest = linger.rest()?.unwrap_or(SHORTEST_REST);
        let profile = terms.profile.as_deref();
        if let Some(client) = linger::connect(&private, profile, rest).await {
            return Ok(client);
        }
        // A daemon that ends at once makes the state directory if it is missing, or says what is wrong.
        private.clone().only_profile(profile).start().await?.shutdown().await?;
        linger::connect(&private, profile, rest).await.ok_or_else(|| {
            Failure::new(
                "a background run needs a running daemon, and none can be left running here",
                "start one with `palisaded`, or as a service; or set XDG_RUNTIME_DIR to a directory \
                 that only this user can enter, and have no palisaded.toml",
            )
        })
    }
}

/// Waits until the job has ended and its changes are committed or discarded. SIGTERM ends the job
/// first; SIGHUP, which the end of a terminal sends, does nothing.
async fn wait(client: &Client, session: &Session, job: u64) -> Result<(), Failure> {
    let watch = |kind| {
        signal(kind).map_err(|error| Failure::new(format!("can not watch a signal: {error}"), ""))
    };
    let (_hangups, mut ends) = (watch(SignalKind::hangup())?, watch(SignalKind::terminate())?);
    loop {
        // No job prints this much, so the answer comes when the job has ended or the time is over.
        let ended = session.job_output(job).cursor(u64::MAX).wait(WAIT).timeout(LONGEST);
        tokio::select! {
            answer = ended.into_future() => drop(answer?),
            _ = ends.recv() => drop(session.job_kill(job).timeout(LONGEST).await?),
        }
        let jobs = JobStatus::all_of(&session.job_list().await?);
        if jobs.iter().find(|status| status.job == job).is_none_or(JobStatus::has_ended) {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    session.close().await?;
    client.shutdown().await?;
    Ok(())
}
