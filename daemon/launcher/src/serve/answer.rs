//! Answers the broker's requests. Each plan is checked against the ceiling before anything is
//! started.

use super::Launcher;
use crate::{
    descriptors,
    identity::{self, Clients},
    session::Session,
    wanted::RunnerRequest,
};
use palisade_plan::{
    Absent, BUILD_ID, HeldLimit, Identity, LaunchPlan, Path, Role, Runs, SessionUid, StepError,
    cell::{FILE_CHANNELS, MOST_NOISE},
    launcher::{Refusal, Reply, Request, SessionNumber, SessionOwner},
    steps,
};
use std::os::fd::{AsFd as _, OwnedFd};

/// Most sessions at a time that the daemon has for itself, to try out profiles.
const MOST_OWN: usize = 16;

/// Most runners of one session at a time.
const MOST_RUNNERS: usize = 1024;

/// Returns why directories can not have overlays of their own, if they can not.
fn refuse_noise(directories: &[Path]) -> Option<Refusal> {
    let is_name = |name: &[u8]| !matches!(name, b"" | b"." | b"..") && !name.contains(&0);
    let is_plain = |path: &Path| path.0.split(|byte| *byte == b'/').all(is_name);
    let is_few = (1..=MOST_NOISE).contains(&directories.len());
    let why = "the directories of a watching program are too many, or not below the workspace";
    let is_good = is_few && directories.iter().all(is_plain);
    (!is_good).then(|| Refusal::Transaction(why.to_owned()))
}

impl Launcher {
    /// Handles a request and returns the immediate reply, if there is one.
    pub(super) fn answer(&mut self, request: Request, fds: Vec<OwnedFd>) -> Option<Reply> {
        match request {
            Request::Hello { .. } => Some(Reply::Welcome {
                build_id: BUILD_ID.to_owned(),
                facts: Box::new(self.facts.clone()),
            }),
            Request::Identify { session, workspace } => Some(
                self.identify(&workspace, &fds)
                    .map(|identity| Reply::Identified { session, identity })
                    .unwrap_or_else(|refusal| Reply::Refused { session, refusal }),
            ),
            Request::Session { session, whose, plan } => Some(
                self.open(session, whose, *plan, fds)
                    .unwrap_or_else(|refusal| Reply::Refused { session, refusal }),
            ),
            Request::Runner { session } => {
                let wanted = <[OwnedFd; 1]>::try_from(fds).map(RunnerRequest::Runner);
                self.runner(session, wanted)
            }
            Request::Reader { session } => {
                let wanted = <[OwnedFd; 1]>::try_from(fds).map(RunnerRequest::Reader);
                self.runner(session, wanted)
            }
            Request::Transaction { session } => {
                let mut fds = fds;
                let scanned = if fds.len() > 2 { fds.pop() } else { None };
                let wanted = <[OwnedFd; 2]>::try_from(fds);
                let wanted = wanted.map(|channels| RunnerRequest::Transaction(channels, scanned));
                self.runner(session, wanted)
            }
            Request::Watch { session, directories } => {
                if let Some(refusal) = refuse_noise(&directories) {
                    return Some(Reply::Refused { session, refusal });
                }
                let wanted = <[OwnedFd; 2]>::try_from(fds);
                let wanted = wanted.map(|channels| RunnerRequest::Watch(channels, directories));
                self.runner(session, wanted)
            }
            Request::End { session } => match self.sessions.get_mut(&session) {
                // `Ended` follows when every process of the session is gone.
                Some(known) => {
                    known.begin_end();
                    None
                }
                None => Some(Reply::Ended { session }),
            },
        }
    }

    /// Returns the identity that a client's session would run as, the same as when it is started.
    fn identify(&self, workspace: &Path, fds: &[OwnedFd]) -> Result<Identity, Refusal> {
        match fds {
            [client] => identity::of_client(client.as_fd(), workspace.as_path(), self.clients()),
            _ => Err(wrong_descriptor_count(fds, "a question")),
        }
    }

    const fn clients(&self) -> Clients<'_> {
        Clients { privileged: self.facts.privileged, socket: self.client_socket.as_ref() }
    }

    /// Creates a session, if its plan is acceptable.
    fn open(
        &mut self,
        number: SessionNumber,
        whose: SessionOwner,
        plan: LaunchPlan,
        mut fds: Vec<OwnedFd>,
    ) -> Result<Reply, Refusal> {
        if self.sessions.contains_key(&number) {
            return Err(Refusal::Session(format!("session {number} already exists")));
        }
        let clients = match whose {
            SessionOwner::Client => 1,
            SessionOwner::Nobody => 0,
        };
        if fds.len() != clients + FILE_CHANNELS {
            return Err(wrong_descriptor_count(&fds, "a session"));
        }
        self.check_count(whose)?;
        let identity = match whose {
            SessionOwner::Client => {
                let client = fds.remove(0);
                let workspace = plan.workspace.path.as_path();
                identity::of_client(client.as_fd(), workspace, self.clients())?
            }
            SessionOwner::Nobody => identity::of_nobody(self.facts.privileged),
        };
        descriptors::check_channels(&fds)?;
        identity::refuse_own(identity, self.facts.privileged)?;
        self.ceiling
            .check(&plan, identity, &mut self.filters)
            .map_err(|error| Refusal::Ceiling(error.to_string()))?;
        let runs = self.runs(&plan, identity)?;
        let absent = self.absent(&plan, runs)?;
        let mut blank = match self.blank.take() {
            Some(blank) => blank,
            None => self.make_blank().map_err(Refusal::Spawn)?,
        };
        if let Err(error) = blank.assign(&mut self.cgroups, identity.uid) {
            blank.end();
            return Err(Refusal::Spawn(format!("cgroup: {error}")));
        }
        let limits = match &blank.cgroups {
            Some(cgroups) => match cgroups.limit(&plan.limits) {
                Ok(limits) => limits,
                Err(error) => {
                    blank.end();
                    return Err(Refusal::Spawn(format!("cgroup limits: {error}")));
                }
            },
            None => Vec::<HeldLimit>::new(),
        };
        let session = Session::start(number, blank, (whose, plan), runs, &self.facts, &fds)?;
        let oom_file = session.cgroups().map_or_else(String::new, |cgroups| cgroups.oom_file());
        self.sessions.insert(number, session);
        Ok(Reply::Started { session: number, runs, limits, absent, oom_file })
    }

    /// Refuses a session if there are too many. Those without a client are few: they have no user
    /// whose quota would count them.
    fn check_count(&self, whose: SessionOwner) -> Result<(), Refusal> {
        let count = |number: usize| u64::try_from(number).unwrap_or(u64::MAX);
        let most = self.ceiling.max_sessions;
        if count(self.sessions.len()) >= most {
            return Err(Refusal::Session(format!(
                "{most} sessions exist, and the launcher allows no more (--max-sessions)"
            )));
        }
        let own = self.sessions.values().filter(|session| session.whose() == SessionOwner::Nobody);
        if whose == SessionOwner::Nobody && own.count() >= MOST_OWN {
            return Err(Refusal::Session(format!("{MOST_OWN} sessions without a client exist")));
        }
        Ok(())
    }

    /// Returns the identities under which a client's session runs.
    fn runs(&mut self, plan: &LaunchPlan, peer: Identity) -> Result<Runs, Refusal> {
        match plan.uid {
            SessionUid::Peer => Ok(peer.into()),
            SessionUid::Throwaway if self.facts.privileged => {
                self.uids.take(peer, self.sessions.values().map(Session::uid))
            }
            SessionUid::Throwaway => Err(Refusal::NoUid(
                "only the system's daemon can give sessions their own uids".into(),
            )),
        }
    }

    /// Refuses the plan, before anything is started, if a required layer is missing.
    fn absent(&self, plan: &LaunchPlan, runs: Runs) -> Result<Vec<Absent>, Refusal> {
        match steps(plan, &self.facts, runs, Role::Files) {
            Ok((_, absent)) => Ok(absent),
            Err(StepError::Missing(absent)) => Err(Refusal::LayerMissing(absent)),
            Err(error @ (StepError::Empty(_) | StepError::Transaction(_))) => {
                Err(Refusal::Ceiling(error.to_string()))
            }
        }
    }

    /// Creates a runner, or returns why it is refused. `wanted` is an error if there are too many
    /// or too few descriptors.
    fn runner(
        &mut self,
        session: SessionNumber,
        wanted: Result<RunnerRequest, Vec<OwnedFd>>,
    ) -> Option<Reply> {
        let made = match (self.sessions.get_mut(&session), wanted) {
            (None, _) => Err(Refusal::Session(format!("there is no session {session}"))),
            (_, Err(fds)) => Err(wrong_descriptor_count(&fds, "a runner")),
            (Some(known), _) if known.runner_count() >= MOST_RUNNERS => {
                Err(Refusal::Session(format!("session {session} has {MOST_RUNNERS} runners")))
            }
            (Some(known), Ok(wanted)) => descriptors::check(&wanted).and_then(|()| {
                known.runner(session, wanted, &self.facts, &self.spawner, &mut self.stores)
            }),
        };
        made.err().map(|refusal| Reply::Refused { session, refusal })
    }
}

/// Returns the refusal of a request with a wrong number of descriptors.
fn wrong_descriptor_count(fds: &[OwnedFd], what: &str) -> Refusal {
    if fds.is_empty() {
        // The broker always sends some. The kernel delivers none if there is no room for all.
        return Refusal::Spawn(format!(
            "the launcher has no free descriptors for {what}; raise its limit (LimitNOFILE=)"
        ));
    }
    Refusal::Session(format!("{} is the wrong number of descriptors for {what}", fds.len()))
}
