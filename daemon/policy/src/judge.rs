//! The judge: decides from a profile, an ask mode and a tool's metadata whether a call is allowed,
//! needs approval or is denied. Runs in the broker, before anything else happens to a call. Pure:
//! no I/O.

use crate::{
    Profile,
    facts::{ADJUSTED, DESTRUCTIVE, Facts, MUTATING_TOOL, PLANT},
    rules::{self, Rule, Ruling},
    transactions::Unreviewed,
};
use palisade_protocol::{
    ApprovalOutcome, Ask, AuditOperation, Checkpoint, DecidedBy, Denial, ErrorCode, Finding, Guard,
    Severity, ToolName, ToolSpec, WireError,
};
use std::fmt;

/// The judge's decision about a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// The call may run.
    Allow(Grant),
    /// The call needs approval.
    Ask(RequiredApproval),
    /// The call is denied.
    Deny(Refusal),
}

/// Permission to run one call of one tool. Only the judge can make one, or an approval of an
/// approval request that the judge made.
#[derive(Debug, PartialEq, Eq, Clone)]
pub struct Grant {
    tool: ToolName,
    findings: Vec<Finding>,
    checkpoint: Option<Checkpoint>,
    /// True if a rule of the profile allows the call.
    allowed_by_rule: bool,
}

impl Grant {
    pub(crate) const fn new(tool: ToolName, findings: Vec<Finding>) -> Self {
        Self { tool, findings, checkpoint: None, allowed_by_rule: false }
    }

    /// Returns `true` if an approver or a rule approved the losses that the findings name.
    #[must_use]
    pub fn approves_losses(&self) -> bool {
        let is_approver =
            |checkpoint: &Checkpoint| !matches!(checkpoint.by, DecidedBy::AgentClient(_));
        self.allowed_by_rule || self.checkpoint.as_ref().is_some_and(is_approver)
    }

    /// Returns the tool that may run.
    #[must_use]
    pub const fn tool(&self) -> &ToolName {
        &self.tool
    }

    /// Returns the findings about the call.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Records the approver's answer in this permission.
    #[must_use]
    pub fn approved(self, checkpoint: Checkpoint) -> Self {
        Self { checkpoint: Some(checkpoint), ..self }
    }

    /// Returns the approver's answer, if approval was needed.
    #[must_use]
    pub const fn checkpoint(&self) -> Option<&Checkpoint> {
        self.checkpoint.as_ref()
    }
}

/// An approval request: a call that waits for an approver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RequiredApproval {
    tool: ToolName,
    reason: AskReason,
    rule: String,
    findings: Vec<Finding>,
}

/// The reason for which a call or its effects need approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum AskReason {
    /// A rule of the profile, by its name.
    Rule(String),
    /// The ask mode.
    Mode(Ask),
    /// The effects: a change outside the transaction to the same path.
    Conflict,
    /// The effects: a file that a program outside the sandbox would run or obey.
    Plant,
    /// The effects: losses, and nothing else.
    Losses,
}

impl fmt::Display for AskReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rule(name) => name,
            Self::Mode(ask) => return write!(f, "ask = {:?}", ask_name(*ask)),
            Self::Conflict => "transactions: conflicting changes need approval",
            Self::Plant => {
                "transactions: files that a program outside the sandbox would run or obey need \
                 approval"
            }
            Self::Losses => "transactions: losses need approval",
        })
    }
}

impl RequiredApproval {
    pub(crate) fn new(tool: ToolName, reason: AskReason, findings: Vec<Finding>) -> Self {
        let rule = reason.to_string();
        Self { tool, reason, rule, findings }
    }

    /// Returns `true` if losses are the only effects that need approval.
    #[must_use]
    pub fn is_about_losses(&self) -> bool {
        self.reason == AskReason::Losses
    }

    /// Returns permission for a dry run in a transaction whose effects are always discarded. This
    /// is possible only if the known effects of the call are the only reason to ask.
    ///
    /// # Errors
    /// The unchanged request, if a rule or a stricter ask mode requires approval.
    pub fn allow_trial_run(self) -> Result<Grant, Self> {
        match self.reason {
            AskReason::Mode(Ask::Destructive) => Ok(Grant::new(self.tool, self.findings)),
            AskReason::Mode(Ask::Never | Ask::Sensitive | Ask::Always)
            | AskReason::Rule(_)
            | AskReason::Conflict
            | AskReason::Plant
            | AskReason::Losses => Err(self),
        }
    }

    /// Returns the tool that needs approval.
    #[must_use]
    pub const fn tool(&self) -> &ToolName {
        &self.tool
    }

    /// Returns the findings that explain why approval is needed.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// Returns the ask mode or the rule that requires approval.
    #[must_use]
    pub fn rule(&self) -> &str {
        &self.rule
    }

    /// Turns the request into permission to run, because an approver approved.
    #[must_use]
    pub fn approved(self, checkpoint: Checkpoint) -> Grant {
        let checkpoint = Some(checkpoint);
        Grant { tool: self.tool, findings: self.findings, checkpoint, allowed_by_rule: false }
    }

    /// Turns the request into a refusal, because no approver is connected.
    #[must_use]
    pub fn denied_without_handler(self) -> Refusal {
        let reason = "no approver is connected";
        let remedy = format!(
            "connect an approver, or open the session with a profile that allows {} without \
             approval (here it is required by {})",
            self.tool, self.rule
        );
        let message = format!(
            "{} needs approval ({}), and no approver is connected",
            self.tool,
            why(&self.findings)
        );
        let error = WireError::new(ErrorCode::Denied, message, format!("{reason}; {remedy}"));
        self.denied(error, DecidedBy::Default, reason, remedy)
    }

    /// Turns the request into a refusal, because an approver denied it or nobody answered.
    #[must_use]
    pub fn denied(self, error: WireError, by: DecidedBy, reason: &str, remedy: String) -> Refusal {
        Refusal {
            error,
            denials: vec![Denial {
                layer: "policy".to_owned(),
                rule: self.rule,
                target: self.tool.to_string(),
                remedy,
                at: String::new(),
                opens: String::new(),
            }],
            findings: self.findings,
            checkpoint: Some(Checkpoint {
                decision: ApprovalOutcome::Denied,
                by,
                reason: reason.to_owned(),
            }),
        }
    }
}

/// The refusal of a call, in the fields of its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// The `error` of the result.
    pub error: WireError,
    /// The `findings` of the result.
    pub findings: Vec<Finding>,
    /// The `denials` of the result.
    pub denials: Vec<Denial>,
    /// The `checkpoint` of the result; `None` if no approval was requested.
    pub checkpoint: Option<Checkpoint>,
}

/// The error for an ask mode that is laxer than the profile's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("ask = {:?} is laxer than the profile's {:?}; a session can only be stricter", ask_name(*.wanted), ask_name(*.profile))]
pub struct AskError {
    /// The ask mode that the session requested.
    pub wanted: Ask,
    /// The ask mode of the profile.
    pub profile: Ask,
}

/// Returns the ask mode of a session: the profile's, or the stricter one that was requested.
///
/// # Errors
/// If the requested mode is laxer than the profile's.
pub fn stricter_ask(profile: &Profile, wanted: Option<Ask>) -> Result<Ask, AskError> {
    match wanted {
        None => Ok(profile.ask()),
        Some(wanted) if wanted >= profile.ask() => Ok(wanted),
        Some(wanted) => Err(AskError { wanted, profile: profile.ask() }),
    }
}

/// The reason why a requested guard was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GuardError {
    /// The requested guard is laxer than the profile's.
    #[error("guard = {:?} is laxer than the profile's {:?}; a session can only be stricter", guard_name(*.wanted), guard_name(*.profile))]
    Laxer {
        /// The guard that the session requested.
        wanted: Guard,
        /// The guard of the profile.
        profile: Guard,
    },
    /// The profile makes a directory writable that no transaction can cover.
    #[error("guard = {:?} needs transactions, and {directory:?} in the profile's fs.write is \
             outside of them", guard_name(*.wanted))]
    Unheld {
        /// The guard that the session requested.
        wanted: Guard,
        /// The directory, as the profile writes it.
        directory: String,
    },
}

/// Returns the guard of a session: the profile's, or the stricter one that was requested.
///
/// # Errors
/// If the requested guard is laxer than the profile's, or if the profile makes a directory writable
/// that no transaction can cover.
pub fn stricter_guard(profile: &Profile, wanted: Option<Guard>) -> Result<Guard, GuardError> {
    let own = profile.guard();
    let wanted = wanted.unwrap_or(own);
    if wanted < own {
        return Err(GuardError::Laxer { wanted, profile: own });
    }
    // The profile's own guard can not fail here: the profile would not have been loaded.
    match profile.unheld_directory().filter(|_| wanted != Guard::Off) {
        Some(directory) => Err(GuardError::Unheld { wanted, directory }),
        None => Ok(wanted),
    }
}

/// Returns the name of a guard in profiles.
pub(crate) const fn guard_name(guard: Guard) -> &'static str {
    match guard {
        Guard::Off => "off",
        Guard::Text => "text",
        Guard::Auto => "auto",
        Guard::Transaction => "transaction",
    }
}

/// Judges a call of a tool. A deny rule applies in every ask mode.
#[must_use]
pub fn judge(profile: &Profile, ask: Ask, tool: &ToolSpec, facts: &Facts) -> Judgement {
    let mut findings = facts.findings.clone();
    findings.extend(findings_of(tool));
    if !profile.allows_tool(tool) {
        return Judgement::Deny(refusal(
            tool,
            findings,
            format!("profile {:?} does not allow the tool {}", profile.name(), tool.name),
            ("tools", profile.file().to_owned()),
            (
                format!("allow {} under [tools] of profile {:?}", tool.name, profile.name()),
                format!("every session of the profile could use {}", tool.name),
            ),
        ));
    }
    if tool.metadata.audit_operation == AuditOperation::Delete && !profile.allow_delete() {
        return Judgement::Deny(refusal(
            tool,
            findings,
            format!("profile {:?} does not allow deleting", profile.name()),
            ("fs.allow_delete", profile.file().to_owned()),
            (
                format!("set allow_delete = true under [fs] of profile {:?}", profile.name()),
                "tools that delete could be used in every session of the profile".to_owned(),
            ),
        ));
    }
    let name = tool.name.clone();
    match rules::ruling(&profile.settings.rules, tool, facts) {
        Ruling::Deny(rule) => return Judgement::Deny(refused_by(profile, tool, rule, findings)),
        Ruling::Ask(rule) => {
            return Judgement::Ask(RequiredApproval::new(
                name,
                AskReason::Rule(rule.name()),
                findings,
            ));
        }
        // A session with a stricter ask mode than the profile still needs approval.
        Ruling::Allow if ask <= profile.ask() => {
            return Judgement::Allow(Grant { allowed_by_rule: true, ..Grant::new(name, findings) });
        }
        Ruling::Allow | Ruling::Silent => {}
    }
    // The stricter of the two modes: a caller can not loosen a profile by passing a laxer mode.
    let ask = ask.max(profile.ask());
    if ask == Ask::Never
        && let Some(refusal) = unreviewed(profile, tool, facts)
    {
        return Judgement::Deny(refusal);
    }
    let checkpointed = tool.metadata.requires_checkpoint;
    let destructive = (tool.metadata.destructive && !facts.is_assessed)
        || checkpointed
        || facts.findings.iter().any(|finding| facts.up_front.asks(finding));
    let asks = match ask {
        Ask::Never => false,
        Ask::Destructive => destructive,
        // A stricter mode asks whenever a laxer one would.
        Ask::Sensitive => !tool.metadata.read_only || destructive,
        Ask::Always => true,
    };
    if asks {
        Judgement::Ask(RequiredApproval::new(name, AskReason::Mode(ask), findings))
    } else {
        Judgement::Allow(Grant::new(name, findings))
    }
}

/// Refuses a call under `transactions.unreviewed = "undoable"` that nobody reviews: if it makes a
/// plant, or has a loss that undo could not restore.
pub(crate) fn unreviewed(profile: &Profile, tool: &ToolSpec, facts: &Facts) -> Option<Refusal> {
    if profile.settings.transactions.unreviewed == Unreviewed::Allow {
        return None;
    }
    let is_refused = |finding: &&Finding| {
        finding.kind == PLANT || (facts.is_permanent && finding.kind == DESTRUCTIVE)
    };
    let found = facts.findings.iter().find(is_refused)?;
    let why = if found.kind == PLANT {
        "a program outside the sandbox would run or obey it"
    } else {
        "undo could not restore what it replaces"
    };
    let message =
        format!("profile {:?} never asks for approval, and {why}: {}", profile.name(), found.why);
    Some(refusal(
        tool,
        facts.findings.clone(),
        message,
        ("transactions.unreviewed", profile.file().to_owned()),
        (
            "use a session whose profile asks for approval, with an approver connected".to_owned(),
            "every session of the profile could make changes that undo can not restore".to_owned(),
        ),
    ))
}

/// Makes the refusal for effects that a rule denies.
pub(crate) fn denied_by(profile: &Profile, tool: &ToolSpec, rule: &Rule, facts: &Facts) -> Refusal {
    refused_by(profile, tool, rule, facts.findings.clone())
}

fn refused_by(profile: &Profile, tool: &ToolSpec, rule: &Rule, findings: Vec<Finding>) -> Refusal {
    let message = format!("a rule of profile {:?} denies this: {}", profile.name(), rule.why);
    let at = rule_place(profile, rule);
    let remedy = format!("change the rule at {at}");
    let opens = "every session of the profile could do what the rule denies".to_owned();
    refusal(tool, findings, message, (&rule.name(), at), (remedy, opens))
}

/// Returns the source position of a rule.
fn rule_place(profile: &Profile, rule: &Rule) -> String {
    let said = profile.settings.rules.iter().find(|said| std::ptr::eq(&raw const said.value, rule));
    let at = said.and_then(|said| said.at.as_ref());
    at.map_or_else(|| format!("profile {:?}", profile.name()), ToString::to_string)
}

/// Returns the findings that follow from a tool's metadata.
fn findings_of(tool: &ToolSpec) -> Vec<Finding> {
    let metadata = &tool.metadata;
    let (warning, notice) = (Severity::Warning, Severity::Notice);
    let checkpointed = "needs approval for every call";
    let candidates = [
        (metadata.destructive, "destructive_tool", warning, "may destroy existing data"),
        (metadata.requires_checkpoint, "checkpointed_tool", notice, checkpointed),
        (!metadata.read_only, MUTATING_TOOL, notice, "is not read-only"),
    ];
    candidates
        .into_iter()
        .filter(|(holds, ..)| *holds)
        .map(|(_, kind, severity, why)| {
            Finding::new(kind, severity, format!("{} {why}", tool.name))
        })
        .collect()
}

fn why(findings: &[Finding]) -> String {
    let reason = findings.iter().find(|finding| finding.kind != ADJUSTED);
    reason.map_or_else(|| "every call needs approval".to_owned(), |f| f.why.clone())
}

fn refusal(
    tool: &ToolSpec,
    findings: Vec<Finding>,
    message: String,
    (rule, at): (&str, String),
    (remedy, opens): (String, String),
) -> Refusal {
    Refusal {
        error: WireError::new(ErrorCode::Denied, message, remedy.clone()),
        findings,
        denials: vec![Denial {
            layer: "policy".to_owned(),
            rule: rule.to_owned(),
            target: tool.name.to_string(),
            remedy,
            at,
            opens,
        }],
        checkpoint: None,
    }
}

const fn ask_name(ask: Ask) -> &'static str {
    match ask {
        Ask::Never => "never",
        Ask::Destructive => "destructive",
        Ask::Sensitive => "sensitive",
        Ask::Always => "always",
    }
}

#[cfg(test)]
mod tests;
