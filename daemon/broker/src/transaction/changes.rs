//! What a command changed, with what is lost by it and what somebody else changed as well. Broker,
//! pure.

use super::unsettled::Unsettled;
use crate::{change::Preview, escaped::escaped};
use palisade_plan::change::{Conflict, Effect};
use palisade_policy::{CONFLICT, Facts, losses};
use palisade_protocol::{Finding, Severity};
use std::collections::HashSet;

/// What a command changed.
#[derive(Debug)]
pub(super) struct Changes {
    pub(super) preview: Preview,
    pub(super) facts: Facts,
}

impl Changes {
    pub(super) fn new(of: &Unsettled, preview: Preview) -> Self {
        let facts = facts(of, &preview);
        Self { preview, facts }
    }

    /// What is asked about, or all of it where a rule asks.
    pub(super) fn asked(&self) -> Vec<&Effect> {
        let found = self.facts.findings.iter();
        let targets: HashSet<&str> =
            found.flat_map(|found| found.targets.iter().map(String::as_str)).collect();
        let lost =
            |effect: &&Effect| targets.contains(String::from_utf8_lossy(&effect.path.0).as_ref());
        let asked: Vec<&Effect> = self.preview.effects.iter().filter(lost).collect();
        if asked.is_empty() { self.preview.effects.iter().collect() } else { asked }
    }
}

/// For the judge: the paths, and what would be lost.
pub(super) fn facts(of: &Unsettled, preview: &Preview) -> Facts {
    let (session, tool) = (&of.context.session, &of.tool.spec.name);
    let own = |version| session.wrote(version) || of.approved.contains(&version);
    let workspace = &session.workspace.0;
    let mut findings = losses(&session.profile, tool, workspace, &preview.effects, &own);
    findings.extend(preview.conflicts.iter().map(contested));
    Facts { paths: preview.paths(), findings, ..session.places() }
}

fn contested(conflict: &Conflict) -> Finding {
    let Conflict { path, theirs, ours } = conflict;
    let why = format!(
        "somebody else changed {} while the command ran: there is {theirs} now, and the command \
         left {ours}",
        escaped(&path.0)
    );
    let targets = vec![String::from_utf8_lossy(&path.0).into_owned()];
    Finding { targets, ..Finding::new(CONFLICT, Severity::Warning, why) }
}
