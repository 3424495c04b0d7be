//! What is recorded of checkpoints: who was asked, and who decided what. Pure.

use crate::{
    clean::CleanText,
    hash::{Digest, Hash},
};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What a checkpoint looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Review {
    /// The call, before it runs.
    Input,
    /// What it changed, before that is kept.
    Effects,
    /// What it printed, before the agent sees it.
    Output,
}

/// A checkpoint was asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// Names the question.
    pub question: String,
    /// The call in question.
    pub call_id: String,
    /// Its session.
    pub session: String,
    /// What is looked at.
    pub review: Review,
    /// Of what was shown; the answer is bound to it.
    pub digest: Hash,
    /// Who was asked.
    pub handlers: Vec<CleanText>,
    /// How long they have.
    pub deadline_ms: u64,
    /// What they were shown.
    pub shown: Shown,
}

/// What was shown with a question, bounded and without secrets.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shown {
    /// The mode or the rule that asks.
    pub why: CleanText,
    /// What would be done, line by line.
    pub lines: CleanText,
    /// What would be touched.
    pub targets: Vec<CleanText>,
    /// What would change.
    pub diff: Option<CleanText>,
    /// What the agent would see, in an output review.
    pub output: Option<Digest>,
}

/// What was decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// As it was shown.
    Approve,
    /// With other arguments.
    ApproveModified,
    /// No.
    Deny,
    /// The output as it is.
    Pass,
    /// Another output.
    Replace,
    /// No output.
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

/// Who decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "who", content = "name", rename_all = "snake_case")]
pub enum By {
    /// Somebody at a terminal.
    Person(CleanText),
    /// A program that answers.
    Program(CleanText),
    /// A rule of the profile.
    Rule(CleanText),
    /// An earlier answer that was to be remembered.
    Remembered(CleanText),
    /// Nobody: no handler, a late or broken one. The answer is then no.
    Default,
}

impl fmt::Display for By {
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

/// Somebody or something decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// The question, if one was asked.
    pub question: Option<String>,
    /// The call.
    pub call_id: String,
    /// Its session.
    pub session: String,
    /// What was looked at.
    pub review: Review,
    /// What was decided.
    pub decision: Decision,
    /// By whom.
    pub by: By,
    /// Why, in their words.
    pub reason: CleanText,
    /// Of what was shown; none if nothing was.
    pub digest: Option<Hash>,
    /// For how long and how widely it is to be remembered.
    pub remember: Option<CleanText>,
}

/// What was done to a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GrantAct {
    /// An approval was given for more than one call.
    Made,
    /// It was taken back.
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

/// An approval is remembered from now on, or not any more. Each use of it is an answer by
/// [`By::Remembered`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Names it.
    pub grant: String,
    /// What was done.
    pub act: GrantAct,
    /// By whom.
    pub by: CleanText,
    /// What it covers.
    pub covers: CleanText,
    /// How long it lasts; none if until its session ends.
    pub expires_in_ms: Option<u64>,
    /// The session it is for, or was made in.
    pub session: Option<String>,
    /// The call it was made with.
    pub call_id: Option<String>,
}
