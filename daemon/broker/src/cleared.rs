//! Leave for one call. A `Cleared` is made from the judge's grant, or from an approval of what the
//! judge asked, and from nothing else. Broker.

use crate::{
    audit::docket::{Docket, Said},
    change::Leave,
    checkpoint::consult::{self, Consulted},
    dry::report::reported,
    error::CallError,
    gather::gathered::Gathered,
    outcome::Outcome,
    seen::Seen,
    server::Server,
    stages::checked::Checked,
};
use palisade_plan::change::Version;
use palisade_policy::{Grant, Judgement, is_asked};
use palisade_protocol::{Checkpoint, Finding};

/// A call and what the judge says of it.
#[derive(Debug)]
pub(crate) struct Judged {
    call: Checked,
    gathered: Gathered,
    judgement: Judgement,
}

/// A call that may run.
#[derive(Debug)]
pub(crate) struct Cleared {
    call: Checked,
    grant: Grant,
    rests_on: RestsOn,
    /// The paths that were judged.
    paths: Vec<Vec<u8>>,
    /// The files that were looked at, as they were then.
    targets: Vec<Version>,
}

/// What a clearance rests on, and ends with.
#[derive(Debug)]
enum RestsOn {
    /// What was known when the session had changed this often.
    Changes(u64),
    /// What an approver was shown.
    Shown(Box<Seen>),
}

/// Whether a clearance still holds.
#[derive(Debug)]
pub(crate) enum Still {
    /// It does.
    Holds(Cleared),
    /// Something has happened in between: the call has to be judged again.
    Judge(Checked),
}

impl Judged {
    pub(crate) const fn new(call: Checked, gathered: Gathered, judgement: Judgement) -> Self {
        Self { call, gathered, judgement }
    }

    /// What the judge says, for the log.
    pub(crate) fn said(&self) -> Said<'_> {
        use palisade_audit::Judgement as Word;
        let (judgement, findings) = match &self.judgement {
            Judgement::Allow(grant) => (Word::Allow, grant.findings()),
            Judgement::Ask(question) => (Word::Ask, question.findings()),
            Judgement::Deny(refusal) => (Word::Deny, refusal.findings.as_slice()),
        };
        let read_only = self.call.is_read_only();
        Said { tool: self.call.tool(), judgement, findings, read_only }
    }

    /// What is allowed goes on. A question goes to the handlers, and only a clear yes comes back.
    pub(crate) async fn checkpoint(
        self,
        server: &Server,
        docket: &mut Docket,
    ) -> Result<Cleared, Box<Outcome>> {
        let Self { call, gathered, judgement } = self;
        match judgement {
            Judgement::Allow(grant) => {
                let rests_on = RestsOn::Changes(gathered.changes);
                let targets = gathered.seen.files();
                Ok(Cleared { call, grant, rests_on, paths: gathered.facts.paths, targets })
            }
            Judgement::Deny(refusal) if call.call().options.dry_run => {
                let outcome = reported(&call, "deny", Some(&refusal.error.message));
                let (findings, denials) = (refusal.findings, refusal.denials);
                Err(Box::new(Outcome { findings, denials, ..outcome }))
            }
            Judgement::Deny(refusal) => Err(Box::new(refusal.into())),
            Judgement::Ask(question) if call.call().options.dry_run => {
                let told = consult::would_ask(server, &call, &gathered, &question);
                if !call.is_tried() {
                    return Err(consult::told_dry(&told, &question));
                }
                // Nothing that it does is kept, so what it is known to do need not be asked about.
                let grant = question.tried().map_err(|asked| consult::told_dry(&told, &asked))?;
                let rests_on = RestsOn::Changes(gathered.changes);
                let call = call.tried(told);
                let paths = gathered.facts.paths;
                Ok(Cleared { call, grant, rests_on, paths, targets: Vec::new() })
            }
            Judgement::Ask(question) => {
                let (paths, known) = (gathered.facts.paths.clone(), gathered.seen.files());
                let consulted = consult::consult(server, docket, call, gathered, question).await?;
                let (call, grant, rests_on, targets) = match consulted {
                    Consulted::Remembered { call, grant, changes } => {
                        (call, grant, RestsOn::Changes(changes), known)
                    }
                    Consulted::Approved { call, grant, seen } => {
                        let targets = seen.files();
                        (call, grant, RestsOn::Shown(Box::new(seen)), targets)
                    }
                };
                Ok(Cleared { call, grant, rests_on, paths, targets })
            }
        }
    }
}

impl Cleared {
    /// The call, to look at.
    pub(crate) const fn call(&self) -> &Checked {
        &self.call
    }

    /// The same for the turn that it waits for.
    pub(crate) const fn call_mut(&mut self) -> &mut Checked {
        &mut self.call
    }

    /// Makes sure, just before it runs, that what was judged or approved is what is there.
    pub(crate) async fn still_holds(self) -> Result<Still, Box<Outcome>> {
        let session = self.call.session();
        match &self.rests_on {
            RestsOn::Changes(changes) if *changes == session.changes() => Ok(Still::Holds(self)),
            RestsOn::Changes(_) if self.call.is_read_only() => Ok(Still::Holds(self)),
            RestsOn::Changes(_) => Ok(Still::Judge(self.call)),
            RestsOn::Shown(seen) => match seen.changed(&seen.closely(session).await?) {
                None => Ok(Still::Holds(self)),
                Some(what) => Err(Box::new(Outcome {
                    findings: self.grant.findings().to_vec(),
                    checkpoint: self.grant.checkpoint().cloned(),
                    ..CallError::Stale(what).into()
                })),
            },
        }
    }

    /// Makes the transaction that the call runs in, if it does. Where there is none to be had, the
    /// call is judged again, by its text.
    pub(crate) async fn hold(mut self) -> Result<Still, Box<Outcome>> {
        if self.call.may_see_hidden() && self.call.session().scanned().await?.found > 0 {
            self.call.hide();
        }
        if !self.call.wants_transaction() {
            return Ok(Still::Holds(self));
        }
        let session = self.call.session();
        match session.transaction().await {
            Ok(transaction) => {
                self.call.enter(transaction);
                Ok(Still::Holds(self))
            }
            Err(CallError::Transaction(error)) if session.may_do_without() => {
                session.transactions.give_up(error);
                Ok(Still::Judge(self.call))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// What a change may do.
    pub(crate) fn leave(&self) -> Leave {
        if let RestsOn::Shown(seen) = &self.rests_on
            && let Some(change) = &seen.change
        {
            return Leave::Shown(change.digest);
        }
        let known = self.grant.findings().iter().filter(|found| is_asked(found));
        Leave::Judged {
            tool: self.call.tool().clone(),
            losses: known.cloned().collect(),
            paths: self.paths.clone(),
        }
    }

    /// The files whose loss was approved with the call, each in the state in which it was shown.
    pub(crate) fn approved_losses(&self) -> Vec<Version> {
        if self.grant.approves_losses() { self.targets.clone() } else { Vec::new() }
    }

    /// The call, to run it once, what was noticed about it, and what the checkpoint said.
    pub(crate) fn into_call(self) -> (Checked, Vec<Finding>, Option<Checkpoint>) {
        (self.call, self.grant.findings().to_vec(), self.grant.checkpoint().cloned())
    }
}
