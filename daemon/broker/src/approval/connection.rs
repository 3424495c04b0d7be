//! Asks approvers whether a session may connect to a host: first remembered approvals, then the
//! approvers. The decision is recorded and sent to observers before it takes effect. Runs in the
//! broker.

use super::{
    coverage::{ComparedRequest, ReviewedPart},
    grants::{ApprovalKey, RememberedApproval},
    prepared::{PreparedRequest, Stakes},
    request::asker,
    service::{ApprovalService, summaries},
    verdict::Verdict,
};
use crate::{
    base::identity::{SessionIdentity, WorkingDirectory},
    cells::seen::part,
    telemetry::{
        DecidedCall,
        audit::docket::{CheckpointDecision, SentRequest},
    },
};
use palisade_egress_protocol::host::Target;
use palisade_policy::Facts;
use palisade_protocol::{
    ApprovalOutcome, ApprovalRequest, CallId, CallOverview, Checkpoint, DecidedBy, Finding,
    GrantId, JsonText, NameError, RawPath, Review, Severity, ToolName, View, ViewLine, WireError,
};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

/// The name that approval requests about connections have in place of a tool's.
pub(crate) const TOOL: &str = "net.connect";

/// The call id of an approval request when no call runs.
const NO_CALL: &str = "none";

/// A connection that an approver is asked about.
#[derive(Debug)]
pub(crate) struct ConnectionReview<'a> {
    pub(crate) session: &'a SessionIdentity,
    pub(crate) cwd: &'a WorkingDirectory,
    pub(crate) target: &'a Target,
    /// The calls that run in the session now. One of them, or a program that it left behind, wants
    /// to connect.
    pub(crate) calls: &'a [CallOverview],
}

/// The decision about a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum ConnectionDecision {
    /// The connection may be made.
    Approved {
        by: DecidedBy,
        /// The remembered approval, if it is one: the connection ends with it.
        grant: Option<GrantId>,
    },
    /// It may not. `by` is the default if nobody could be asked.
    Denied { by: DecidedBy, reason: String, guidance: String },
}

impl ConnectionDecision {
    fn default(reason: String) -> Self {
        Self::Denied { by: DecidedBy::Default, reason, guidance: String::new() }
    }
}

/// Asks whether a session may connect to a host.
pub(crate) async fn ask(
    approvals: &ApprovalService,
    review: ConnectionReview<'_>,
) -> ConnectionDecision {
    match decide(approvals, &review).await {
        Ok(decision) => decision,
        Err(error) => ConnectionDecision::default(error.message),
    }
}

/// Returns `true` if a remembered approval covers a connection: then nobody is asked.
pub(crate) fn is_remembered(approvals: &ApprovalService, review: &ConnectionReview<'_>) -> bool {
    review.prepare().is_ok_and(|prepared| approvals.desk.covering(&prepared.claim).is_some())
}

async fn decide(
    approvals: &ApprovalService,
    review: &ConnectionReview<'_>,
) -> Result<ConnectionDecision, WireError> {
    let session = review.session;
    let mut prepared = review.prepare().map_err(internal)?;
    let call_id = prepared.request.call_id.clone();
    let audit = &approvals.telemetry.audit;
    if let Some((id, by)) = approvals.desk.remembered(&prepared.claim) {
        let (by, grant) = (DecidedBy::Remembered(format!("{id} of {by}")), Some(id));
        let checkpoint =
            checkpoint(ApprovalOutcome::Approved, &by, "a remembered approval covers it");
        let answering = CheckpointDecision {
            review: Review::Input,
            checkpoint: &checkpoint,
            remember: None,
            asked: None,
        };
        audit.connection_answered(session, &call_id, answering).await?;
        review.tell(approvals, &prepared.request, &checkpoint, None);
        return Ok(ConnectionDecision::Approved { by, grant });
    }
    let approvers = approvals.desk.announce(&mut prepared)?;
    let time = prepared.time();
    let key = ComparedRequest::of(&prepared.claim).recorded();
    let asked = (&prepared.request, key);
    let mut sent = audit.connection_asked(session, asked, time, &approvers).await?;
    let request = prepared.request.clone();
    let asked_under = approvals.live.profile_digest(session.profile.name());
    let decided = approvals.desk.ask(prepared).await;
    sent.approvals = decided.approvals;
    let verdict = match decided.verdict {
        denied @ Verdict::Denied { .. } => denied,
        _ if approvals.live.profile_digest(session.profile.name()) != asked_under => {
            Verdict::default("the profile changed in the meantime", "try again")
        }
        Verdict::Modified { .. } | Verdict::Replaced { .. } | Verdict::Part { .. } => {
            Verdict::default("the answer did not fit the approval request", "")
        }
        approved @ Verdict::Approved { .. } => approved,
    };
    let (checkpoint, kept, decision) = match verdict {
        Verdict::Approved { by, kept } => {
            let grant = kept.first().map(RememberedApproval::id);
            let decision = ConnectionDecision::Approved { by: by.clone(), grant };
            (checkpoint(ApprovalOutcome::Approved, &by, ""), kept, decision)
        }
        Verdict::Denied { by, reason, guidance } => {
            let checkpoint = checkpoint(ApprovalOutcome::Denied, &by, &reason);
            (checkpoint, Vec::new(), ConnectionDecision::Denied { by, reason, guidance })
        }
        Verdict::Modified { .. } | Verdict::Replaced { .. } | Verdict::Part { .. } => {
            return Ok(ConnectionDecision::default("an answer was taken for another".to_owned()));
        }
    };
    let remember = summaries(&kept);
    let answering = CheckpointDecision {
        review: Review::Input,
        checkpoint: &checkpoint,
        remember: remember.as_deref(),
        asked: Some(&sent),
    };
    audit.connection_answered(session, &call_id, answering).await?;
    for kept in kept {
        if !approvals.desk.holds(&kept) {
            audit.connection_granted(session, &kept.grant(Instant::now())).await?;
            approvals.desk.keep(kept);
        }
    }
    review.tell(approvals, &request, &checkpoint, Some(&sent));
    Ok(decision)
}

impl ConnectionReview<'_> {
    /// Makes the approval request. Two requests of one session about the same host and port are the
    /// same, whatever else runs.
    fn prepare(&self) -> Result<PreparedRequest, NameError> {
        let session = self.session;
        let tool: ToolName = TOOL.parse()?;
        let limits = session.profile.handlers().clone();
        let exact = digest(&[TOOL.as_bytes(), self.target.to_string().as_bytes()]);
        let first = self.calls.first().map(|call| call.call_id.clone());
        let call_id: CallId = first.map_or_else(|| NO_CALL.parse(), Ok)?;
        let host = self.target.host.to_string();
        let arguments = json!({ "host": host, "port": self.target.port }).to_string();
        let scopes = limits.scopes().into_iter().filter(|scope| scope == "exact_call").collect();
        let request = ApprovalRequest {
            id: "new".parse()?,
            digest: self.digest(),
            review: Review::Input,
            asker: asker(session),
            call_id,
            tool: tool.clone(),
            arguments: JsonText::parse(arguments).unwrap_or_default(),
            cwd: RawPath(self.cwd.get()),
            reason: None,
            reverse_thinking: None,
            findings: vec![Finding::new(
                "network",
                Severity::Warning,
                format!("anything that the session can read may be sent to {host}"),
            )],
            why: "net.ask: no entry of the profile decides about this host and port".to_owned(),
            view: self.view(),
            scopes,
            prefix: Vec::new(),
            remember_ms: limits.remember_ms(),
            quorum: limits.quorum(),
            approved_by: Vec::new(),
            output: None,
            expires_in_ms: 0,
        };
        let claim = ApprovalKey {
            session: session.id.clone(),
            uid: session.uid(),
            profile: session.profile.name().to_owned(),
            profile_digest: session.profile.digest().to_owned(),
            tool,
            exact,
            exact_words: Some(self.target.to_string()),
            facts: Facts::default(),
            part: ReviewedPart::Call,
        };
        Ok(PreparedRequest { request, claim, limits, patience: None, stakes: Stakes::Loss })
    }

    /// SHA-256, in hexadecimal, over what an answer is bound to.
    fn digest(&self) -> String {
        let target = self.target.to_string();
        palisade_text::hex(&digest(&[
            b"palisade connection 1",
            self.session.id.as_str().as_bytes(),
            self.session.profile.digest().as_bytes(),
            target.as_bytes(),
        ]))
    }

    fn view(&self) -> View {
        let connect = format!("connect to {}, port {}", self.target.host, self.target.port);
        let mut lines = vec![ViewLine { text: connect, findings: vec![0] }];
        lines.extend(self.calls.iter().map(|call| {
            let text = format!("while {} runs: {}", call.tool, call.summary);
            ViewLine { text: palisade_text::escape_line(&text), findings: Vec::new() }
        }));
        View { lines, ..View::default() }
    }

    /// Sends a decision to observers.
    fn tell(
        &self,
        approvals: &ApprovalService,
        request: &ApprovalRequest,
        checkpoint: &Checkpoint,
        asked: Option<&SentRequest>,
    ) {
        let decided = DecidedCall {
            call_id: &request.call_id,
            tool: &request.tool,
            arguments: &request.arguments,
            review: Review::Input,
            checkpoint,
            asked,
        };
        approvals.telemetry.decided(self.session, &decided);
    }
}

fn checkpoint(decision: ApprovalOutcome, by: &DecidedBy, reason: &str) -> Checkpoint {
    Checkpoint { decision, by: by.clone(), reason: reason.to_owned() }
}

fn internal(error: NameError) -> WireError {
    WireError::new(palisade_protocol::ErrorCode::Internal, error.to_string(), "")
}

fn digest(parts: &[&[u8]]) -> [u8; 32] {
    let mut hash = Sha256::new();
    parts.iter().for_each(|bytes| part(&mut hash, bytes));
    hash.finalize().into()
}
