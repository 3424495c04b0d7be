//! The judge: from a profile, an ask mode and a tool's metadata to allow, ask or deny. It runs in
//! the broker, before anything else happens to a call.

use crate::Profile;
use palisade_protocol::{
    Ask, AuditOperation, Checkpoint, Denial, ErrorCode, Finding, Severity, ToolName, ToolSpec,
    WireError,
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

/// Leave for one call of one tool. Only the judge makes it.
#[derive(Debug, PartialEq, Eq, Clone)]
pub struct Grant {
    tool: ToolName,
    findings: Vec<Finding>,
}

impl Grant {
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
}

/// A call that waits for a checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    tool: ToolName,
    ask: Ask,
    findings: Vec<Finding>,
}

impl Question {
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

    /// The answer where nobody can be asked.
    #[must_use]
    pub fn denied_without_handler(self) -> Refusal {
        let mode = ask_name(self.ask);
        let reason = "no checkpoint handler is attached";
        let remedy = format!(
            "attach a checkpoint handler, or open the session with a profile whose `ask` does not \
             ask about {} (this session's is {mode:?})",
            self.tool
        );
        Refusal {
            error: WireError::new(
                ErrorCode::Denied,
                format!("{} needs the leave of a checkpoint: {}", self.tool, why(&self.findings)),
                format!("{reason}; {remedy}"),
            ),
            denials: vec![Denial {
                layer: "policy".to_owned(),
                rule: format!("ask = {mode:?}"),
                target: self.tool.to_string(),
                remedy,
            }],
            findings: self.findings,
            checkpoint: Some(Checkpoint {
                decision: "denied".to_owned(),
                by: "default".to_owned(),
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

/// Judges a call of a tool. A deny rule holds in every mode.
#[must_use]
pub fn judge(profile: &Profile, ask: Ask, tool: &ToolSpec) -> Judgement {
    let findings = findings(tool);
    if !profile.allows_tool(tool) {
        return Judgement::Deny(refusal(
            tool,
            findings,
            format!("profile {:?} does not allow the tool {}", profile.name(), tool.name),
            "tools",
            format!("allow {} under [tools] of profile {:?}", tool.name, profile.name()),
        ));
    }
    if tool.metadata.audit_operation == AuditOperation::Delete && !profile.allow_delete() {
        return Judgement::Deny(refusal(
            tool,
            findings,
            format!("profile {:?} does not allow deleting", profile.name()),
            "fs.allow_delete",
            format!("set allow_delete = true under [fs] of profile {:?}", profile.name()),
        ));
    }
    // The stricter of the two: a caller can not loosen a profile by handing in another mode.
    let ask = ask.max(profile.ask());
    let asks = match ask {
        Ask::Never => false,
        Ask::Destructive => tool.metadata.destructive || tool.metadata.requires_checkpoint,
        Ask::Sensitive => !tool.metadata.read_only || tool.metadata.requires_checkpoint,
        Ask::Always => true,
    };
    let name = tool.name.clone();
    if asks {
        Judgement::Ask(Question { tool: name, ask, findings })
    } else {
        Judgement::Allow(Grant { tool: name, findings })
    }
}

/// What the metadata tells of a tool.
fn findings(tool: &ToolSpec) -> Vec<Finding> {
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
    rule: &str,
    remedy: String,
) -> Refusal {
    Refusal {
        error: WireError::new(ErrorCode::Denied, message, remedy.clone()),
        findings,
        denials: vec![Denial {
            layer: "policy".to_owned(),
            rule: rule.to_owned(),
            target: tool.name.to_string(),
            remedy,
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
