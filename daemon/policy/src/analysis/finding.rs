//! What the analysis finds, and what is left of it when somebody has looked whether the targets
//! exist.

use crate::{Commands, is_asked};
use bincode::{Decode, Encode};
use palisade_protocol::{Ask, Finding, Severity, Span};
use serde::Deserialize;

/// What kind of thing was found.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Encode, Decode, Deserialize,
)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A program that no table knows.
    UnknownProgram,
    /// Code in an argument, and all of it was looked at.
    NestedCode,
    /// Runs code of the workspace by an ordinary entry point.
    WorkspaceCode,
    /// What runs can not be known from the text.
    Hidden,
    /// A word or a piece of code that may destroy something; what it does is not known.
    Suspected,
    /// Something that existed before would be lost.
    #[default]
    Destructive,
}

impl Kind {
    /// As it stands in a finding.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnknownProgram => "unknown_program",
            Self::NestedCode => "nested_code",
            Self::WorkspaceCode => "workspace_code",
            Self::Hidden => "hidden",
            Self::Suspected => "suspected",
            Self::Destructive => "destructive",
        }
    }

    /// How much it matters if nothing else says so.
    #[must_use]
    pub const fn severity(self) -> Severity {
        match self {
            Self::UnknownProgram | Self::NestedCode | Self::WorkspaceCode => Severity::Notice,
            Self::Hidden | Self::Suspected | Self::Destructive => Severity::Warning,
        }
    }
}

/// When a target is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
pub enum Loss {
    /// Always.
    Always,
    /// If it exists.
    IfExists,
    /// If it is outside of the workspace.
    IfOutside,
}

/// A path that a finding is about.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Target {
    /// The path, relative to where the command starts; none if the text does not tell it.
    pub path: Option<String>,
    /// As it stands in the text.
    pub shown: String,
    /// Names that would be put into it if it is a directory.
    pub into: Vec<String>,
    /// When it is lost.
    pub loss: Loss,
}

/// Something that the analysis found.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Found {
    /// What kind of thing.
    pub kind: Kind,
    /// How much it matters.
    pub severity: Severity,
    /// The program.
    pub program: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Where, in bytes of the whole text.
    pub span: Span,
    /// One sentence.
    pub why: String,
    /// Without any, it does not depend on paths.
    pub targets: Vec<Target>,
}

impl Found {
    /// A finding about the whole of a text.
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
        }
    }
}

/// A command that would be started, or a builtin or function that would be run.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
pub struct Started {
    /// The program and its arguments; what is not known stands as it was written.
    pub argv: Vec<String>,
    /// Where, in bytes of the whole text. What a wrapper or a nested shell starts has the place of
    /// the command that it came from.
    pub span: Span,
}

/// What the analysis makes of a text.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Analysed {
    /// The findings, not settled yet.
    pub found: Vec<Found>,
    /// The commands, those that others start among them.
    pub commands: Vec<Started>,
    /// Whether it may do more than read.
    pub nature: Nature,
}

/// Whether a text may do more than read.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Encode, Decode)]
pub enum Nature {
    /// It may, or that is not known.
    #[default]
    Acts,
    /// It is proven that it does not, as long as each name means the system's program.
    Reads,
}

impl Analysed {
    /// The commands, as the judge wants them: unknown if anything of them is hidden.
    #[must_use]
    pub fn commands(&self) -> Commands {
        if self.found.iter().any(|found| found.kind == Kind::Hidden) {
            return Commands::Unknown;
        }
        Commands::Known(self.commands.iter().map(|started| started.argv.clone()).collect())
    }
}

/// What is at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Existence {
    /// Nothing.
    Missing,
    /// A directory.
    Directory,
    /// Something else, or it can not be told.
    Present,
}

/// Where a command would run. The default answers are those of somebody who can not look.
pub trait Place {
    /// What is at a path, which is relative to where the command starts, or absolute.
    fn look(&self, path: &str) -> Existence {
        let _unseen = path;
        Existence::Present
    }

    /// Whether a path is outside of the workspace.
    fn is_outside(&self, path: &str) -> bool {
        path.starts_with(['/', '~', '$']) || path.split('/').any(|part| part == "..")
    }
}

/// Nobody can look: everything exists.
#[derive(Debug, Clone, Copy)]
pub struct Nowhere;

impl Place for Nowhere {}

/// What is left of the findings once their targets were looked for, in the form of a result.
#[must_use]
pub fn settle(found: Vec<Found>, place: &dyn Place) -> Vec<Finding> {
    found.into_iter().filter_map(|found| settle_one(found, place)).collect()
}

fn settle_one(found: Found, place: &dyn Place) -> Option<Finding> {
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

fn is_lost(target: &Target, place: &dyn Place) -> bool {
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

/// Whether findings of the analysis make a checkpoint of a call, under a mode.
#[must_use]
pub fn asks(ask: Ask, findings: &[Finding]) -> bool {
    match ask {
        Ask::Never => false,
        Ask::Destructive => findings.iter().any(is_asked),
        Ask::Sensitive | Ask::Always => true,
    }
}
