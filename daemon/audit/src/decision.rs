//! Records of checkpoints: who was asked for approval, and who decided what. Pure: no I/O.

use crate::{
    clean::CleanText,
    hash::{Digest, Hash},
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The stage of a call that a checkpoint reviews.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Review {
    /// The call, before it runs.
    Input,
    /// The call's changes, before they are committed.
    Effects,
    /// The call's output, before the agent sees it.
    Output,
}

/// An approval request was sent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestRecord {
    /// The id of the approval request.
    #[serde(alias = "question")]
    pub request: String,
    /// The id of the call.
    pub call_id: String,
    /// The id of the call's session.
    pub session: String,
    /// The stage that is reviewed.
    pub review: Review,
    /// Digest of what the approvers were shown. The answer is bound to it.
    pub digest: Hash,
    /// The approvers who were asked.
    pub handlers: Vec<CleanText>,
    /// The time limit for the approvers, in milliseconds.
    pub deadline_ms: u64,
    /// The content that the approvers were shown.
    pub shown: RequestContent,
    /// The parts that a remembered approval is compared with. `None` in records of daemons that did
    /// not write it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<RequestKey>,
}

/// The parts of an approval request that a remembered approval is compared with. Each is absent if
/// it is unknown, if it does not apply, or if it is too long for a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestKey {
    /// The user whose call it was.
    pub uid: u32,
    /// The name of the session's profile.
    pub profile: String,
    /// The tool's name.
    pub tool: String,
    /// Digest of the tool, its arguments and its directory.
    pub exact: Hash,
    /// The commands that need approval, word by word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commands: Option<Vec<Vec<CleanText>>>,
    /// The paths that a file tool would change.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paths: Option<Vec<CleanText>>,
    /// The losses of a command, if nothing else of it needs approval and undo keeps them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub losses: Option<Vec<LostPath>>,
    /// The programs that the command started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub programs: Option<Vec<CleanText>>,
}

/// A loss of a command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LostPath {
    /// The path.
    pub path: CleanText,
    /// The kind of effect: `deleted`, `replaced` and so on.
    pub effect: String,
}

/// The content that an approval request showed, bounded and without secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestContent {
    /// The mode or rule that requires approval.
    pub why: CleanText,
    /// The actions that would be taken, one per line.
    pub lines: CleanText,
    /// The paths or other targets that would be touched.
    pub targets: Vec<CleanText>,
    /// The diff of what would change.
    pub diff: Option<CleanText>,
    /// In an output review, a digest of what the agent would see.
    pub output: Option<Digest>,
}

/// An approver's decision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// Approved as shown.
    Approve,
    /// Approved with other arguments.
    ApproveModified,
    /// Denied.
    Deny,
    /// The output is passed on unchanged.
    Pass,
    /// The output is replaced.
    Replace,
    /// The output is withheld.
    Withhold,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Approve => "approve",
            Self::ApproveModified => "approve_modified",
            Self::Deny => "deny",
            Self::Pass => "pass",
            Self::Replace => "replace",
            Self::Withhold => "withhold",
        })
    }
}

/// The maker of a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "who", content = "name", rename_all = "snake_case")]
pub enum DecisionMaker {
    /// A person at a terminal.
    Person(CleanText),
    /// A program that answers approval requests.
    Program(CleanText),
    /// A rule of the profile.
    Rule(CleanText),
    /// A remembered approval.
    Remembered(CleanText),
    /// Nobody: no approver was connected, or it was late or broken. The decision is then a denial.
    Default,
}

impl fmt::Display for DecisionMaker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Person(name) => write!(f, "person {name}"),
            Self::Program(name) => write!(f, "program {name}"),
            Self::Rule(name) => write!(f, "rule {name}"),
            Self::Remembered(name) => write!(f, "remembered {name}"),
            Self::Default => f.write_str("default"),
        }
    }
}

/// A decision was made.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The id of the approval request, if one was sent.
    #[serde(alias = "question")]
    pub request: Option<String>,
    /// The id of the call.
    pub call_id: String,
    /// The id of the call's session.
    pub session: String,
    /// The stage that was reviewed.
    pub review: Review,
    /// The decision.
    pub decision: Decision,
    /// The maker of the decision.
    pub by: DecisionMaker,
    /// Everyone who approved the request, in the order of their answers, also if it was then denied.
    /// Empty if nobody did, or only the maker of the decision.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvals: Vec<DecisionMaker>,
    /// The reason, in their own words.
    pub reason: CleanText,
    /// Digest of what was shown; `None` if nothing was.
    pub digest: Option<Hash>,
    /// The time and the calls for which the decision is to be remembered.
    pub remember: Option<CleanText>,
}

impl Answer {
    /// Names the maker of the decision, and everyone who approved: `person ann, approved by person ann
    /// and program x`.
    #[must_use]
    pub fn deciders(&self) -> String {
        let approvals: Vec<String> = self.approvals.iter().map(ToString::to_string).collect();
        match approvals.as_slice() {
            [] => self.by.to_string(),
            some => format!("{}, approved by {}", self.by, some.join(" and ")),
        }
    }
}

/// A change of a remembered approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantAct {
    /// The approval was created: it was given for more than one call.
    Made,
    /// The approval was revoked.
    Revoked,
}

impl fmt::Display for GrantAct {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Made => "made",
            Self::Revoked => "revoked",
        })
    }
}

/// A remembered approval was created or revoked. Each use of it is an answer by
/// [`DecisionMaker::Remembered`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// The id of the remembered approval.
    pub grant: String,
    /// The change.
    pub act: GrantAct,
    /// The person or program that created or revoked it.
    pub by: CleanText,
    /// The calls that it covers.
    pub covers: CleanText,
    /// The lifetime in milliseconds; `None` if it lasts until its session ends.
    pub expires_in_ms: Option<u64>,
    /// The session that it is for, or was created in.
    pub session: Option<String>,
    /// The call that it was created with.
    pub call_id: Option<String>,
}
