//! The clearance of one call. A `ClearedCall` is made only from the judge's grant, or from an
//! approval of what the judge wanted approved. Runs in the broker.

use crate::{
    base::{error::CallError, outcome::Outcome},
    cells::seen::TargetSnapshot,
    changes::change::ChangeClearance,
    pipeline::{
        consult::{self, ApprovedCall},
        dry::report::reported,
        gather::gathered::GatheredFacts,
        services::CallServices,
        stages::checked::CheckedCall,
    },
    telemetry::audit::docket::{CallAudit, JudgeDecision},
};
use palisade_plan::change::{EvidenceDepth, Version};
use palisade_policy::{Grant, Judgement, is_asked};
use palisade_protocol::{Checkpoint, Finding};

/// A call and the judge's decision about it.
#[derive(Debug)]
pub(crate) struct JudgedCall {
    call: CheckedCall,
    gathered: GatheredFacts,
    judgement: Judgement,
}

/// A call that may run.
#[derive(Debug)]
pub(crate) struct ClearedCall {
    call: CheckedCall,
    grant: Grant,
    rests_on: ClearanceBasis,
    /// The paths that the judge knew of.
    paths: Vec<Vec<u8>>,
    /// The files that were inspected, in the state that they had then.
    targets: Vec<Version>,
    /// For a change: how much was found out about what existed before.
    evidence: EvidenceDepth,
}

/// The basis of a clearance. It ends when that changes.
#[derive(Debug)]
enum ClearanceBasis {
    /// The state of the workspace when the session had made this many changes.
    Changes(u64),
    /// The state that an approver was shown.
    Shown(Box<TargetSnapshot>),
}

/// The answer to whether a clearance still holds.
#[derive(Debug)]
pub(crate) enum ClearanceCheck {
    /// The clearance holds.
    Holds(ClearedCall),
    /// Something has changed in between: the call has to be judged again.
    Judge(CheckedCall),
}

impl JudgedCall {
    pub(crate) const fn new(
        call: CheckedCall,
        gathered: GatheredFacts,
        judgement: Judgement,
    ) -> Self {
        Self { call, gathered, judgement }
    }

    /// The judge's decision, for the audit log.
    pub(crate) fn said(&self) -> JudgeDecision<'_> {
        use palisade_audit::Judgement as Word;
        let (judgement, findings) = match &self.judgement {
            Judgement::Allow(grant) => (Word::Allow, grant.findings()),
            Judgement::Ask(request) => (Word::Ask, request.findings()),
            Judgement::Deny(refusal) => (Word::Deny, refusal.findings.as_slice()),
        };
        let read_only = self.call.is_read_only();
        JudgeDecision { tool: self.call.tool(), judgement, findings, read_only }
    }

    /// Passes on an allowed call. Sends an approval request for one that needs approval, and only a
    /// clear approval gives a clearance.
    pub(crate) async fn checkpoint(
        self,
        services: &CallServices,
        docket: &mut CallAudit,
    ) -> Result<ClearedCall, Box<Outcome>> {
        let Self { call, gathered, judgement } = self;
        let evidence = gathered.evidence;
        match judgement {
            Judgement::Allow(grant) => {
                let rests_on = ClearanceBasis::Changes(gathered.changes);
                let targets = gathered.seen.files();
                let paths = gathered.facts.paths;
                Ok(ClearedCall { call, grant, rests_on, paths, targets, evidence })
            }
            Judgement::Deny(refusal) if call.call().options.dry_run => {
                let outcome = reported(&call, "deny", Some(&refusal.error.message));
                let (findings, denials) = (refusal.findings, refusal.denials);
                Err(Box::new(Outcome { findings, denials, ..outcome }))
            }
            Judgement::Deny(refusal) => Err(Box::new(refusal.into())),
            Judgement::Ask(request) if call.call().options.dry_run => {
                let told = consult::would_ask(services, &call, &gathered, &request);
                if !call.is_trial_run() {
                    return Err(consult::dry_run_outcome(&told, &request));
                }
                // Nothing that a trial run does is kept, so its known effects need no approval.
                let grant = request
                    .allow_trial_run()
                    .map_err(|asked| consult::dry_run_outcome(&told, &asked))?;
                let rests_on = ClearanceBasis::Changes(gathered.changes);
                let call = call.with_report(told);
                let paths = gathered.facts.paths;
                Ok(ClearedCall { call, grant, rests_on, paths, targets: Vec::new(), evidence })
            }
            Judgement::Ask(request) => {
                let (paths, known) = (gathered.facts.paths.clone(), gathered.seen.files());
                let consulted = consult::consult(services, docket, call, gathered, request).await?;
                let (call, grant, rests_on, targets) = match consulted {
                    ApprovedCall::Remembered { call, grant, changes } => {
                        (call, grant, ClearanceBasis::Changes(changes), known)
                    }
                    ApprovedCall::Approved { call, grant, seen } => {
                        let targets = seen.files();
                        (call, grant, ClearanceBasis::Shown(seen), targets)
                    }
                };
                Ok(ClearedCall { call, grant, rests_on, paths, targets, evidence })
            }
        }
    }
}

impl ClearedCall {
    /// The call, for reading.
    pub(crate) const fn call(&self) -> &CheckedCall {
        &self.call
    }

    /// The call, for the stage that waits for its turn.
    pub(crate) const fn call_mut(&mut self) -> &mut CheckedCall {
        &mut self.call
    }

    /// Checks, just before the call runs, that the judged or approved state has not changed.
    pub(crate) async fn still_holds(self) -> Result<ClearanceCheck, Box<Outcome>> {
        let session = self.call.session();
        match &self.rests_on {
            ClearanceBasis::Changes(changes) if *changes == session.changes() => {
                Ok(ClearanceCheck::Holds(self))
            }
            ClearanceBasis::Changes(_) if self.call.is_read_only() => {
                Ok(ClearanceCheck::Holds(self))
            }
            ClearanceBasis::Changes(_) => Ok(ClearanceCheck::Judge(self.call)),
            ClearanceBasis::Shown(seen) => {
                match seen.changed(&seen.inspect_contents(session).await?) {
                    None => Ok(ClearanceCheck::Holds(self)),
                    Some(what) => Err(Box::new(Outcome {
                        findings: self.grant.findings().to_vec(),
                        checkpoint: self.grant.checkpoint().cloned(),
                        ..CallError::Stale(what).into()
                    })),
                }
            }
        }
    }

    /// Makes the transaction that the call runs in, if it needs one. If none is available and the
    /// profile allows that, the call is judged again by its text.
    pub(crate) async fn hold(mut self) -> Result<ClearanceCheck, Box<Outcome>> {
        if self.call.may_see_hidden() {
            self.call.hide();
        }
        if self.call.watches()
            && let Some(transaction) = self.call.session().watching().await?
        {
            self.call.enter(transaction);
        }
        if !self.call.wants_transaction() {
            return Ok(ClearanceCheck::Holds(self));
        }
        let session = self.call.session();
        match session.transaction().await {
            Ok(transaction) => {
                self.call.enter(transaction);
                Ok(ClearanceCheck::Holds(self))
            }
            Err(CallError::Transaction(error)) if session.may_run_without_transaction() => {
                session.cell.transactions.give_up(error);
                Ok(ClearanceCheck::Judge(self.call))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The effects that a change may have.
    pub(crate) fn leave(&self) -> ChangeClearance {
        if let ClearanceBasis::Shown(seen) = &self.rests_on
            && let Some(change) = &seen.change
        {
            return ChangeClearance::Shown(change.digest);
        }
        let known = self.grant.findings().iter().filter(|found| is_asked(found));
        ChangeClearance::Judged {
            tool: self.call.tool().clone(),
            losses: known.cloned().collect(),
            paths: self.paths.clone(),
            evidence: self.evidence,
        }
    }

    /// The files whose loss was approved with the call, each in the state in which it was shown.
    pub(crate) fn approved_losses(&self) -> Vec<Version> {
        if self.grant.approves_losses() { self.targets.clone() } else { Vec::new() }
    }

    /// Returns the call, to run it once, with its findings and the checkpoint's decision.
    pub(crate) fn into_call(self) -> (CheckedCall, Vec<Finding>, Option<Checkpoint>) {
        (self.call, self.grant.findings().to_vec(), self.grant.checkpoint().cloned())
    }
}
