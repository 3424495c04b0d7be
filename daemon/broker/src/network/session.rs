//! A session whose connections an egress room carries: its listeners, its rules, and what is open.
//! Runs in the broker.

use super::{
    connections::{self, OpenConnections},
    credentials::CredentialFile,
    decide::Asking,
    fetch::OpenFetches,
    listeners::SessionListeners,
    refusals::{RefusalCounts, RefusalKey, RefusalRecord},
};
use crate::{
    base::identity::{SessionIdentity, WorkingDirectory},
    cells::{
        refused::RefusedConnections,
        session::{Session, authority::SessionInspection},
    },
    telemetry::Telemetry,
};
use palisade_audit::{
    CleanText, Connection, ConnectionAlarm, ConnectionVerdict, Count, LayerDenial,
};
use palisade_egress_protocol::{Asked, EgressRequest, LOOKUP_PORT, RefusalKind, host::Target};
use palisade_plan::{launcher::SessionNumber, record::Recording};
use palisade_policy::{Act, EgressPolicy};
use palisade_protocol::{CallId, CallOverview, ConnectionInfo, Denial};
use std::{
    sync::{Arc, Weak},
    time::Instant,
};

/// A session whose connections an egress room carries.
#[derive(Debug)]
pub(super) struct NetworkSession {
    pub(super) number: SessionNumber,
    pub(super) identity: Arc<SessionIdentity>,
    pub(super) cwd: Arc<WorkingDirectory>,
    /// Refused connections, for the results of calls.
    pub(super) refused: Arc<RefusedConnections>,
    /// The session itself, for the jobs that run in it.
    pub(super) session: Weak<Session>,
    pub(super) policy: EgressPolicy,
    pub(super) listeners: SessionListeners,
    /// The parts of inspected hosts that every room needs which serves the session.
    inspected: Option<InspectedHosts>,
    pub(super) connections: OpenConnections,
    pub(super) asking: Asking,
    pub(super) fetches: OpenFetches,
    refusals: RefusalCounts,
    pub(super) opened: Instant,
}

/// The parts of a session's inspected hosts that an egress room needs.
#[derive(Debug)]
pub(super) struct InspectedHosts {
    inspection: SessionInspection,
    /// The files of the credentials; none if the room has them from a service manager.
    files: Vec<CredentialFile>,
}

/// A connection that was refused, or tried in vain.
#[derive(Debug)]
pub(super) struct RefusedConnection {
    pub(super) target: Option<Target>,
    pub(super) asked: Option<Asked>,
    pub(super) calls: Vec<CallId>,
    pub(super) reason: String,
    pub(super) kind: RefusalKind,
}

impl NetworkSession {
    /// Prepares a session for an egress room.
    pub(super) fn new(
        session: &Arc<Session>,
        policy: EgressPolicy,
        listeners: SessionListeners,
        files: Vec<CredentialFile>,
    ) -> Self {
        let inspection = session.network.inspection.clone();
        let inspected = inspection.map(|inspection| InspectedHosts { inspection, files });
        Self::of(
            session.number(),
            session.identity(),
            Arc::clone(&session.files.cwd),
            Arc::clone(&session.network.refused),
            (Arc::downgrade(session), policy, listeners, inspected),
        )
    }

    pub(super) fn of(
        number: SessionNumber,
        identity: Arc<SessionIdentity>,
        cwd: Arc<WorkingDirectory>,
        refused: Arc<RefusedConnections>,
        (session, policy, listeners, inspected): (
            Weak<Session>,
            EgressPolicy,
            SessionListeners,
            Option<InspectedHosts>,
        ),
    ) -> Self {
        let (connections, asking, fetches, refusals) = Default::default();
        Self {
            number,
            identity,
            cwd,
            refused,
            session,
            policy,
            listeners,
            inspected,
            connections,
            asking,
            fetches,
            refusals,
            opened: Instant::now(),
        }
    }

    /// Returns the files of credentials that a room needs before it serves the session.
    pub(super) fn credential_files(&self) -> &[CredentialFile] {
        self.inspected.as_ref().map_or(&[], |inspected| &inspected.files)
    }

    /// Returns the request that makes a room serve the session.
    pub(super) fn open_request(&self) -> EgressRequest {
        let inspection = self.inspected.as_ref().map(|inspected| &inspected.inspection);
        EgressRequest::Open {
            session: self.number,
            listeners: self.listeners.kinds(),
            budget: self.policy.budget(),
            named: self.policy.named(),
            denied: self.policy.denied_addresses(),
            host_ports: self.policy.host_ports().to_vec(),
            authority: inspection.map(|inspection| inspection.key.clone()),
            credentials: inspection.map_or_else(Vec::new, |one| one.credentials.clone()),
        }
    }

    /// Returns the calls that run in the session now, those of its jobs included.
    pub(super) fn calls(&self, telemetry: &Telemetry) -> Vec<CallOverview> {
        let mut calls = telemetry.calls_in_progress.running(&self.identity.id);
        let session = self.session.upgrade();
        let jobs = session.iter().flat_map(|session| session.running_jobs());
        for job in jobs {
            if !calls.iter().any(|call| call.call_id == job.call_id) {
                calls.push(job);
            }
        }
        calls
    }

    /// Describes the published ports and the open connections.
    pub(super) fn infos(&self) -> Vec<ConnectionInfo> {
        let mut infos = self.published_infos();
        infos.extend(self.connections.infos(&self.identity.id));
        infos
    }

    /// Notes that a program may connect to a host, if the session records what its programs use.
    pub(super) fn note_used(&self, target: &Target, asked: Asked) {
        let is_program = match asked {
            Asked::Connect | Asked::Http | Asked::Socks | Asked::Direct | Asked::Request => true,
            Asked::Lookup | Asked::Published | Asked::Fetch => false,
        };
        if let Some(session) = self.session.upgrade().filter(|_| is_program)
            && session.recording == Recording::Yes
        {
            session.network.used_hosts.note(target);
        }
    }

    /// Reports a refusal: to the results of calls, the audit log and the metrics.
    pub(super) fn refuse(&self, telemetry: &Telemetry, refused: RefusedConnection) {
        telemetry.metrics.refused_connection();
        let denial = self.denial(&refused);
        self.refused.note(denial.clone());
        let key = RefusalKey {
            call: refused.calls.first().cloned(),
            target: refused.target.clone(),
            reason: refused.reason.clone(),
            kind: refused.kind,
        };
        match self.refusals.count(key) {
            RefusalRecord::Now => {
                if refused.kind == RefusalKind::Placeholder {
                    let (session, reason) = (&self.identity.id, &refused.reason);
                    tracing::warn!(%session, %reason, "alarm: the placeholder of a credential was sent elsewhere");
                }
                telemetry.audit.connection(&self.identity, self.record(&refused, 1, Some(&denial)));
            }
            RefusalRecord::Later => {}
        }
    }

    /// Ends all connections and fetches, and writes what is left to record.
    pub(super) fn end(&self, telemetry: &Telemetry, failure: &str) {
        self.fetches.forget_all();
        for record in self.connections.end_all(&self.identity.id, failure) {
            telemetry.metrics.ended_connection(&record);
            telemetry.audit.connection(&self.identity, record);
        }
    }

    /// Writes the refusals that were only counted, when the session ends.
    pub(super) fn account(&self, telemetry: &Telemetry) {
        let (repeated, others) = self.refusals.take();
        for (RefusalKey { call, target, reason, kind }, count) in repeated {
            let calls = call.into_iter().collect();
            let refused = RefusedConnection { target, asked: None, calls, reason, kind };
            telemetry.audit.connection(&self.identity, self.record(&refused, count, None));
        }
        if others > 0 {
            let reason = "refused connections that were too many to be told apart".to_owned();
            let (calls, kind) = (Vec::new(), RefusalKind::Ordinary);
            let refused = RefusedConnection { target: None, asked: None, calls, reason, kind };
            telemetry.audit.connection(&self.identity, self.record(&refused, others, None));
        }
    }

    fn denial(&self, refused: &RefusedConnection) -> Denial {
        let asked = refused.target.as_ref();
        let target = asked.map_or_else(String::new, |target| match target.port {
            LOOKUP_PORT => target.host.to_string(),
            _ => target.to_string(),
        });
        // A name is looked up to connect to it, most likely by TLS.
        let connect = asked.map_or_else(String::new, |target| match target.port {
            LOOKUP_PORT => format!("{}:443", target.host),
            _ => target.to_string(),
        });
        let profile = &self.identity.profile;
        let told = palisade_policy::explain(profile, &self.identity.scene, Act::Connect, &connect);
        let told = told.ok().and_then(|told| told.denial());
        let (mut remedy, at, mut opens) =
            told.map(|denial| (denial.remedy, denial.at, denial.opens)).unwrap_or_default();
        if let (Some(Asked::Fetch), Some(target)) = (refused.asked, asked)
            && let Some(change) = palisade_policy::fetch_change(profile, target)
        {
            (remedy, opens) = (change.unseen(), change.opens);
        }
        Denial {
            layer: "network".to_owned(),
            rule: format!("connect: {}", refused.reason),
            target,
            remedy,
            at,
            opens,
        }
    }

    fn record(
        &self,
        refused: &RefusedConnection,
        count: u64,
        denial: Option<&Denial>,
    ) -> Connection {
        let host = refused.target.as_ref().map(|target| target.host.to_string());
        Connection {
            session: self.identity.id.to_string(),
            calls: refused.calls.iter().map(ToString::to_string).collect(),
            host: CleanText::new(&host.unwrap_or_default()),
            port: refused.target.as_ref().map_or(0, |target| target.port),
            asked: refused.asked.map(connections::name).unwrap_or_default().to_owned(),
            verdict: ConnectionVerdict::Deny,
            rule: CleanText::new(&refused.reason),
            address: None,
            server_name: None,
            sent_bytes: 0,
            received_bytes: 0,
            duration_us: 0,
            failure: None,
            count: Count(count),
            alarm: match refused.kind {
                RefusalKind::Ordinary => None,
                RefusalKind::Placeholder => Some(ConnectionAlarm::CredentialPlaceholder),
            },
            denial: denial.map(|denial| LayerDenial {
                layer: CleanText::new(&denial.layer),
                rule: CleanText::new(&denial.rule),
                target: CleanText::new(&denial.target),
                remedy: CleanText::new(&denial.remedy),
                at: CleanText::new(&denial.at),
                opens: CleanText::new(&denial.opens),
            }),
        }
    }
}
