//! The judge: from a profile, an ask mode and a tool's metadata to allow, ask or deny. It runs in
//! the broker, before anything else happens to a call.

use crate::{
    Profile,
    facts::Facts,
    rules::{self, Rule, Ruling},
};
use palisade_protocol::{
    Ask, AuditOperation, Checkpoint, Denial, ErrorCode, Finding, Guard, Severity, ToolName,
    ToolSpec, WireError,
};

/// What the judge says of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// It may run.
    Allow(Grant),
    /// A checkpoint decides.
    Ask(Question),
    /// It may not run.
    Deny(Refusal),
}

/// Leave for one call of one tool. The judge makes it, or an approval of what the judge asked.
#[derive(Debug, PartialEq, Eq, Clone)]
pub struct Grant {
    tool: ToolName,
    findings: Vec<Finding>,
    checkpoint: Option<Checkpoint>,
    /// A rule allows it.
    ruled: bool,
}

impl Grant {
    pub(crate) const fn new(tool: ToolName, findings: Vec<Finding>) -> Self {
        Self { tool, findings, checkpoint: None, ruled: false }
    }

    /// Whether the losses that the findings name were approved, by somebody or by a rule.
    #[must_use]
    pub const fn approves_losses(&self) -> bool {
        self.ruled || self.checkpoint.is_some()
    }

    /// The tool that may run.
    #[must_use]
    pub const fn tool(&self) -> &ToolName {
        &self.tool
    }

    /// What was noticed.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The same leave, which somebody gave who was asked.
    #[must_use]
    pub fn approved(self, checkpoint: Checkpoint) -> Self {
        Self { checkpoint: Some(checkpoint), ..self }
    }

    /// What the checkpoint said, if it was asked.
    #[must_use]
    pub const fn checkpoint(&self) -> Option<&Checkpoint> {
        self.checkpoint.as_ref()
    }
}

/// A call that waits for a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    tool: ToolName,
    rule: String,
    findings: Vec<Finding>,
}

impl Question {
    pub(crate) const fn new(tool: ToolName, rule: String, findings: Vec<Finding>) -> Self {
        Self { tool, rule, findings }
    }

    /// Leave to try it where nothing that it does is kept, if what it is known to do is all that
    /// is asked about.
    ///
    /// # Errors
    /// The question, if a rule or a stricter mode asks.
    pub fn tried(self) -> Result<Grant, Self> {
        let mode = format!("ask = {:?}", ask_name(Ask::Destructive));
        if self.rule == mode { Ok(Grant::new(self.tool, self.findings)) } else { Err(self) }
    }

    /// The tool in question.
    #[must_use]
    pub const fn tool(&self) -> &ToolName {
        &self.tool
    }

    /// Why it is asked about.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The mode or the rule that asks.
    #[must_use]
    pub fn rule(&self) -> &str {
        &self.rule
    }

    /// Leave, because somebody entitled to it approved.
    #[must_use]
    pub fn approved(self, checkpoint: Checkpoint) -> Grant {
        let checkpoint = Some(checkpoint);
        Grant { tool: self.tool, findings: self.findings, checkpoint, ruled: false }
    }

    /// The answer where nobody can be asked.
    #[must_use]
    pub fn denied_without_handler(self) -> Refusal {
        let reason = "no checkpoint handler is attached";
        let remedy = format!(
            "attach a checkpoint handler, or open the session with a profile whose `ask` does not \
             ask about {} (here it was {})",
            self.tool, self.rule
        );
        let message =
            format!("{} needs the leave of a checkpoint: {}", self.tool, why(&self.findings));
        let error = WireError::new(ErrorCode::Denied, message, format!("{reason}; {remedy}"));
        self.denied(error, "default", reason, remedy)
    }

    /// Somebody, or the lack of somebody, said no.
    #[must_use]
    pub fn denied(self, error: WireError, by: &str, reason: &str, remedy: String) -> Refusal {
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
                decision: "denied".to_owned(),
                by: by.to_owned(),
                reason: reason.to_owned(),
            }),
        }
    }
}

/// Why a call may not run, in the form that its result has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// For the result's `error`.
    pub error: WireError,
    /// For its `findings`.
    pub findings: Vec<Finding>,
    /// For its `denials`.
    pub denials: Vec<Denial>,
    /// For its `checkpoint`; none if it came to no question.
    pub checkpoint: Option<Checkpoint>,
}

/// Why an ask mode was refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("ask = {:?} is laxer than the profile's {:?}; a session can only be stricter", ask_name(*.wanted), ask_name(*.profile))]
pub struct AskError {
    /// What was wanted.
    pub wanted: Ask,
    /// What the profile has.
    pub profile: Ask,
}

/// The ask mode of a session: the profile's, or a stricter one that was asked for.
///
/// # Errors
/// If what is wanted is laxer than the profile's.
pub fn stricter_ask(profile: &Profile, wanted: Option<Ask>) -> Result<Ask, AskError> {
    match wanted {
        None => Ok(profile.ask()),
        Some(wanted) if wanted >= profile.ask() => Ok(wanted),
        Some(wanted) => Err(AskError { wanted, profile: profile.ask() }),
    }
}

/// Why a guard was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum GuardError {
    /// It is laxer than the profile's.
    #[error("guard = {:?} is laxer than the profile's {:?}; a session can only be stricter", guard_name(*.wanted), guard_name(*.profile))]
    Laxer {
        /// What was wanted.
        wanted: Guard,
        /// What the profile has.
        profile: Guard,
    },
    /// The profile makes a directory writable that no transaction holds.
    #[error("guard = {:?}, and {directory:?} of the profile's fs.write is in no transaction", guard_name(*.wanted))]
    Unheld {
        /// What was wanted.
        wanted: Guard,
        /// The directory, as the profile names it.
        directory: String,
    },
}

/// The guard of a session: the profile's, or a stricter one that was asked for.
///
/// # Errors
/// If what is wanted is laxer than the profile's, or more than can be held of what it makes writable.
pub fn stricter_guard(profile: &Profile, wanted: Option<Guard>) -> Result<Guard, GuardError> {
    let own = profile.guard();
    let wanted = wanted.unwrap_or(own);
    if wanted < own {
        return Err(GuardError::Laxer { wanted, profile: own });
    }
    // With the profile's own guard it would not have been loaded.
    match profile.unheld_directory().filter(|_| wanted != Guard::Off) {
        Some(directory) => Err(GuardError::Unheld { wanted, directory }),
        None => Ok(wanted),
    }
}

/// A guard as a profile says it.
pub(crate) const fn guard_name(guard: Guard) -> &'static str {
    match guard {
        Guard::Off => "off",
        Guard::Text => "text",
        Guard::Auto => "auto",
        Guard::Transaction => "transaction",
    }
}

/// Judges a call of a tool. A deny rule holds in every mode.
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
            return Judgement::Ask(Question { tool: name, rule: rule.name(), findings });
        }
        // Whoever wants to be asked more than the profile says is asked all the same.
        Ruling::Allow if ask <= profile.ask() => {
            return Judgement::Allow(Grant { ruled: true, ..Grant::new(name, findings) });
        }
        Ruling::Allow | Ruling::Silent => {}
    }
    // The stricter of the two: a caller can not loosen a profile by handing in another mode.
    let ask = ask.max(profile.ask());
    let checkpointed = tool.metadata.requires_checkpoint;
    let destructive = tool.metadata.destructive
        || checkpointed
        || facts.findings.iter().any(|finding| facts.up_front.asks(finding));
    let asks = match ask {
        Ask::Never => false,
        Ask::Destructive => destructive,
        // A stricter mode asks about all that a laxer one does.
        Ask::Sensitive => !tool.metadata.read_only || destructive,
        Ask::Always => true,
    };
    if asks {
        let rule = format!("ask = {:?}", ask_name(ask));
        Judgement::Ask(Question { tool: name, rule, findings })
    } else {
        Judgement::Allow(Grant::new(name, findings))
    }
}

/// The refusal by a rule of what a call did.
pub(crate) fn denied_by(profile: &Profile, tool: &ToolSpec, rule: &Rule, facts: &Facts) -> Refusal {
    refused_by(profile, tool, rule, facts.findings.clone())
}

fn refused_by(profile: &Profile, tool: &ToolSpec, rule: &Rule, findings: Vec<Finding>) -> Refusal {
    let message = format!("a rule of profile {:?} denies this: {}", profile.name(), rule.why);
    let at = rule_place(profile, rule);
    let remedy = format!("change the rule at {at}");
    let opens = "what the rule is about, for every session of the profile".to_owned();
    refusal(tool, findings, message, (&rule.name(), at), (remedy, opens))
}

/// Where a rule stands.
fn rule_place(profile: &Profile, rule: &Rule) -> String {
    let said = profile.settings.rules.iter().find(|said| std::ptr::eq(&raw const said.value, rule));
    let at = said.and_then(|said| said.at.as_ref());
    at.map_or_else(|| format!("profile {:?}", profile.name()), ToString::to_string)
}

/// What the metadata tells of a tool.
fn findings_of(tool: &ToolSpec) -> Vec<Finding> {
    let metadata = &tool.metadata;
    let (warning, notice) = (Severity::Warning, Severity::Notice);
    let checkpointed = "wants a checkpoint for every call";
    let candidates = [
        (metadata.destructive, "destructive_tool", warning, "may destroy what existed before"),
        (metadata.requires_checkpoint, "checkpointed_tool", notice, checkpointed),
        (!metadata.read_only, "mutating_tool", notice, "is not read-only"),
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
    findings.first().map_or_else(|| "every call is asked about".to_owned(), |f| f.why.clone())
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
