//! What the broker asks for: each plan held against the ceiling before anything is started.

use super::Launcher;
use crate::{identity, session::Session, wanted::Wanted};
use palisade_plan::{
    Absent, BUILD_ID, HeldLimit, Identity, LaunchPlan, Path, Role, Runs, SessionUid, StepError,
    cell::FILE_CHANNELS,
    launcher::{Refusal, Reply, Request, SessionNumber, Whose},
    steps,
};
use std::os::fd::{AsFd as _, OwnedFd};

impl Launcher {
    /// What there is to say to a request, at once.
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
                let wanted = <[OwnedFd; 1]>::try_from(fds).map(Wanted::Runner);
                self.runner(session, wanted)
            }
            Request::Reader { session } => {
                let wanted = <[OwnedFd; 1]>::try_from(fds).map(Wanted::Reader);
                self.runner(session, wanted)
            }
            Request::Transaction { session } => {
                let mut fds = fds;
                let scanned = if fds.len() > 2 { fds.pop() } else { None };
                let wanted = <[OwnedFd; 2]>::try_from(fds);
                let wanted = wanted.map(|channels| Wanted::Transaction(channels, scanned));
                self.runner(session, wanted)
            }
            Request::End { session } => match self.sessions.get_mut(&session) {
                // `Ended` follows when every process of it is gone.
                Some(known) => {
                    known.begin_end();
                    None
                }
                None => Some(Reply::Ended { session }),
            },
        }
    }

    /// Whom a session of a client's would run as: what its start says, too.
    fn identify(&self, workspace: &Path, fds: &[OwnedFd]) -> Result<Identity, Refusal> {
        match fds {
            [client] => {
                identity::of_client(client.as_fd(), workspace.as_path(), self.facts.privileged)
            }
            _ => Err(wrong_number(fds, "a question")),
        }
    }

    /// Makes a session, if nothing is against its plan.
    fn open(
        &mut self,
        number: SessionNumber,
        whose: Whose,
        plan: LaunchPlan,
        mut fds: Vec<OwnedFd>,
    ) -> Result<Reply, Refusal> {
        if self.sessions.contains_key(&number) {
            return Err(Refusal::Session(format!("there is a session {number} already")));
        }
        let clients = match whose {
            Whose::Client => 1,
            Whose::Nobody => 0,
        };
        if fds.len() != clients + FILE_CHANNELS {
            return Err(wrong_number(&fds, "a session"));
        }
        let identity = match whose {
            Whose::Client => {
                let client = fds.remove(0);
                let workspace = plan.workspace.path.as_path();
                identity::of_client(client.as_fd(), workspace, self.facts.privileged)?
            }
            Whose::Nobody => identity::of_nobody(self.facts.privileged),
        };
        identity::refuse_own(identity, self.facts.privileged)?;
        self.ceiling.check(&plan, identity).map_err(|error| Refusal::Ceiling(error.to_string()))?;
        let runs = self.runs(&plan, identity)?;
        let absent = self.absent(&plan, runs)?;
        let blank = match self.blank.take() {
            Some(blank) => blank,
            None => self.make_blank().map_err(Refusal::Spawn)?,
        };
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
        let session = Session::start(number, blank, plan, runs, &self.facts, &fds)?;
        let oom_file = session.cgroups().map_or_else(String::new, |cgroups| cgroups.oom_file());
        self.sessions.insert(number, session);
        Ok(Reply::Started { session: number, runs, limits, absent, oom_file })
    }

    /// Whom a session runs as that is for somebody.
    fn runs(&mut self, plan: &LaunchPlan, peer: Identity) -> Result<Runs, Refusal> {
        match plan.uid {
            SessionUid::Peer => Ok(peer.into()),
            SessionUid::Throwaway if self.facts.privileged => {
                self.uids.take(peer, self.sessions.values().map(Session::uid))
            }
            SessionUid::Throwaway => Err(Refusal::NoUid(
                "taking on another uid needs privilege, which an ordinary user's daemon has not"
                    .into(),
            )),
        }
    }

    /// Refuses before anything is started if a required layer is missing.
    fn absent(&self, plan: &LaunchPlan, runs: Runs) -> Result<Vec<Absent>, Refusal> {
        match steps(plan, &self.facts, runs, Role::Files) {
            Ok((_, absent)) => Ok(absent),
            Err(StepError::Missing(absent)) => Err(Refusal::LayerMissing(absent)),
            Err(error @ (StepError::Empty(_) | StepError::Transaction(_))) => {
                Err(Refusal::Ceiling(error.to_string()))
            }
        }
    }

    /// Makes a runner; says why if it is refused. The error is descriptors that are too many or
    /// too few.
    fn runner(
        &mut self,
        session: SessionNumber,
        wanted: Result<Wanted, Vec<OwnedFd>>,
    ) -> Option<Reply> {
        let made = match (self.sessions.get_mut(&session), wanted) {
            (None, _) => Err(Refusal::Session(format!("there is no session {session}"))),
            (_, Err(fds)) => Err(wrong_number(&fds, "a runner")),
            (Some(known), Ok(wanted)) => {
                known.runner(session, wanted, &self.facts, &self.spawner, &mut self.stores)
            }
        };
        made.err().map(|refusal| Reply::Refused { session, refusal })
    }
}

/// Why a request with these descriptors is refused.
fn wrong_number(fds: &[OwnedFd], what: &str) -> Refusal {
    if fds.is_empty() {
        // The broker always sends some; the kernel hands over none where there is no room for all.
        return Refusal::Spawn(format!(
            "the launcher has no room for the descriptors of {what}; it may have too few (LimitNOFILE=)"
        ));
    }
    Refusal::Session(format!("{} descriptors for {what}", fds.len()))
}
