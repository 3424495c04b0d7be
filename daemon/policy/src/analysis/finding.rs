//! The findings of the analysis, and how they are settled once it is known which targets exist.

use crate::{
    Commands,
    facts::{DESTRUCTIVE, SUSPECTED, UNPROVEN},
    is_asked,
};
use bincode::{Decode, Encode};
use palisade_protocol::{Ask, Finding, Severity, Span};
use serde::Deserialize;

/// The kind of a finding.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A program that is in no table.
    UnknownProgram,
    /// Code in an argument, all of which was analysed.
    NestedCode,
    /// Code of the workspace that is run through an ordinary entry point.
    WorkspaceCode,
    /// It is unknown from the text what would run.
    Hidden,
    /// A word or a piece of code that may be destructive; its effect is unknown.
    Suspected,
    /// Something that existed before would be lost.
    #[default]
    Destructive,
}

impl Kind {
    /// Returns the name of the kind in findings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnknownProgram => "unknown_program",
            Self::NestedCode => "nested_code",
            Self::WorkspaceCode => "workspace_code",
            Self::Hidden => "hidden",
            Self::Suspected => SUSPECTED,
            Self::Destructive => DESTRUCTIVE,
        }
    }

    /// Returns the severity if no table entry sets one.
    #[must_use]
    pub const fn severity(self) -> Severity {
        match self {
            Self::UnknownProgram | Self::NestedCode | Self::WorkspaceCode => Severity::Notice,
            Self::Hidden | Self::Suspected | Self::Destructive => Severity::Warning,
        }
    }
}

/// The condition under which a target is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Loss {
    /// The target is always lost.
    Always,
    /// The target is lost if it exists.
    IfExists,
    /// The target is lost if it is outside the workspace.
    IfOutside,
}

/// A path that a finding concerns.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct FindingTarget {
    /// The path, relative to the start directory of the command; `None` if it is unknown.
    pub path: Option<String>,
    /// The path as it is written in the text.
    pub shown: String,
    /// The names that would be created in it, if it is a directory.
    pub into: Vec<String>,
    /// The condition under which it is lost.
    pub loss: Loss,
}

/// A finding, before it is settled.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct RawFinding {
    /// The kind of the finding.
    pub kind: Kind,
    /// The severity of the finding.
    pub severity: Severity,
    /// The program that the finding concerns.
    pub program: String,
    /// The arguments of the program.
    pub arguments: Vec<String>,
    /// The position, in bytes of the whole text.
    pub span: Span,
    /// The explanation, in one sentence.
    pub why: String,
    /// The paths that would be lost; empty if the finding does not depend on paths.
    pub targets: Vec<FindingTarget>,
    /// True if the paths are certainly of this host, because the shell of the text opens them itself:
    /// a redirection outside of nested code, which might run on another host.
    pub is_local: bool,
}

impl RawFinding {
    /// Makes a finding about a whole text.
    #[must_use]
    pub fn whole(kind: Kind, text: &str, why: &str) -> Self {
        let end = u32::try_from(text.len()).unwrap_or(u32::MAX);
        Self {
            kind,
            severity: kind.severity(),
            program: String::new(),
            arguments: Vec::new(),
            span: Span { start: 0, end },
            why: why.to_owned(),
            targets: Vec::new(),
            is_local: false,
        }
    }
}

/// A program, builtin or function that would be run.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct AnalysedCommand {
    /// The program and its arguments; unknown parts are shown as they were written.
    pub argv: Vec<String>,
    /// The position, in bytes of the whole text. A command that a wrapper or a nested shell starts
    /// has the position of the outer command.
    pub span: Span,
}

/// The result of the analysis of a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandAnalysis {
    /// The findings, before they are settled.
    pub found: Vec<RawFinding>,
    /// The commands, including those that other commands start.
    pub commands: Vec<AnalysedCommand>,
    /// The nature of the text: proven to read only, or not.
    pub nature: Nature,
}

/// The nature of a text: proven to read only, or not.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub enum Nature {
    /// The text may do more than read, or that is unknown.
    #[default]
    Acts,
    /// The text is proven to read only, as long as each name means the system's program.
    Reads,
}

impl CommandAnalysis {
    /// Returns the commands in the form that the judge needs; unknown if any of them is hidden.
    #[must_use]
    pub fn commands(&self) -> Commands {
        if self.found.iter().any(|found| found.kind == Kind::Hidden) {
            return Commands::Unknown;
        }
        Commands::Known(self.commands.iter().map(|started| started.argv.clone()).collect())
    }
}

/// The kind of file at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existence {
    /// Nothing is there.
    Missing,
    /// A directory.
    Directory,
    /// Another kind of file, or unknown.
    Present,
}

/// The place where a command would run. The default methods are for callers that can not look.
pub trait PathLookup {
    /// Returns what is at a path, which is absolute or relative to the start directory of the
    /// command.
    fn look(&self, path: &str) -> Existence {
        let _unseen = path;
        Existence::Present
    }

    /// Returns `true` if a path is outside the workspace.
    fn is_outside(&self, path: &str) -> bool {
        path.starts_with(['/', '~', '$']) || path.split('/').any(|part| part == "..")
    }
}

/// A place that can not be looked at: every path is assumed to exist.
#[derive(Debug, Clone, Copy)]
pub struct Nowhere;

impl PathLookup for Nowhere {}

/// Settles the findings: drops those whose targets are not lost, and converts the rest for a
/// result.
#[must_use]
pub fn settle(found: Vec<RawFinding>, place: &dyn PathLookup) -> Vec<Finding> {
    found.into_iter().filter_map(|found| settle_one(found, place)).collect()
}

fn settle_one(found: RawFinding, place: &dyn PathLookup) -> Option<Finding> {
    let depends = !found.targets.is_empty();
    let targets: Vec<String> =
        found.targets.iter().filter(|t| is_lost(t, place)).map(|t| t.shown.clone()).collect();
    if depends && targets.is_empty() {
        return None;
    }
    Some(Finding {
        kind: found.kind.name().to_owned(),
        why: found.why,
        severity: found.severity,
        program: found.program,
        arguments: found.arguments,
        span: Some(found.span),
        targets,
    })
}

fn is_lost(target: &FindingTarget, place: &dyn PathLookup) -> bool {
    let Some(path) = &target.path else {
        return true;
    };
    match target.loss {
        Loss::Always => true,
        Loss::IfOutside => place.is_outside(path),
        Loss::IfExists => match place.look(path) {
            Existence::Missing => false,
            Existence::Present => true,
            Existence::Directory if target.into.is_empty() => true,
            Existence::Directory => target.into.iter().any(|name| {
                let inside = format!("{}/{name}", path.trim_end_matches('/'));
                place.look(&inside) != Existence::Missing
            }),
        },
    }
}

/// Returns a finding about a text that is not proven to read only; `None` if it is, or if one of its
/// findings requires approval already. It is for a command whose changes nothing holds back.
#[must_use]
pub fn unproven(nature: Nature, findings: &[Finding]) -> Option<Finding> {
    let is_unproven = nature != Nature::Reads && !findings.iter().any(is_asked);
    is_unproven.then(|| Finding::new(SUSPECTED, Severity::Warning, UNPROVEN))
}

/// Returns `true` if findings of the analysis require approval of a call, under an ask mode.
#[must_use]
pub fn asks(ask: Ask, findings: &[Finding]) -> bool {
    match ask {
        Ask::Never => false,
        Ask::Destructive => findings.iter().any(is_asked),
        Ask::Sensitive | Ask::Always => true,
    }
}
