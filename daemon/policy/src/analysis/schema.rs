//! The tables as they are written: what can be said of programs, variables, paths and words.

use super::finding::Kind;
use palisade_protocol::Severity;
use serde::Deserialize;

/// How a program reads its options.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Style {
    /// Anywhere, short ones in clusters.
    #[default]
    Gnu,
    /// Until the first operand.
    Posix,
    /// One dash, whole words: `find`, `terraform`.
    Words,
    /// Gnu, and the first operand is a cluster: `tar`.
    Bundle,
}

/// What a rule's program does to its targets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Effect {
    /// They get other contents.
    #[default]
    Overwrite,
    /// They are gone.
    Delete,
    /// They get more contents.
    Append,
    /// They are gone from the workspace, if that is where they are not moved to.
    Leave,
}

/// One use of a program.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Rule {
    pub(crate) why: String,
    /// Leading operands; alternatives with `|`.
    #[serde(default)]
    pub(crate) sub: Vec<String>,
    /// One of these options, `-c value*` with a pattern for its value.
    #[serde(default)]
    pub(crate) any: Vec<String>,
    /// None of these.
    #[serde(default)]
    pub(crate) none: Vec<String>,
    /// One operand is like one of these.
    #[serde(default)]
    pub(crate) operand: Vec<String>,
    /// No operand is like one of these.
    #[serde(default)]
    pub(crate) not_operand: Vec<String>,
    #[serde(default)]
    pub(crate) at_least: usize,
    pub(crate) at_most: Option<usize>,
    /// Where the paths are; without any the rule does not hold.
    #[serde(default)]
    pub(crate) targets: Vec<String>,
    #[serde(default)]
    pub(crate) effect: Effect,
    #[serde(default)]
    pub(crate) kind: Kind,
    pub(crate) severity: Option<Severity>,
}

/// A program.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Program {
    pub(crate) names: Vec<String>,
    pub(crate) why: String,
    #[serde(default)]
    pub(crate) takes: Vec<String>,
    #[serde(default)]
    pub(crate) style: Style,
    /// Words that destroy are looked for among its first operands.
    #[serde(default)]
    pub(crate) verbs: bool,
    #[serde(default)]
    pub(crate) rule: Vec<Rule>,
}

/// How a wrapper hands on its command.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Inner {
    /// As arguments.
    #[default]
    Argv,
    /// As text for a shell.
    Shell,
    /// Only in an option.
    None,
    /// Behind `--`.
    Dashes,
}

/// A program that runs another.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Wrapper {
    pub(crate) names: Vec<String>,
    pub(crate) why: String,
    #[serde(default)]
    pub(crate) sub: Vec<String>,
    #[serde(default)]
    pub(crate) takes: Vec<String>,
    #[serde(default)]
    pub(crate) style: Option<Style>,
    /// Operands before the command.
    #[serde(default)]
    pub(crate) skip: usize,
    #[serde(default)]
    pub(crate) inner: Inner,
    /// Options whose value is shell text.
    #[serde(default)]
    pub(crate) code: Vec<String>,
    /// Options whose value stands for what is read.
    #[serde(default)]
    pub(crate) mark: Vec<String>,
    /// The command gets more arguments than the text tells.
    #[serde(default)]
    pub(crate) appends: bool,
    /// Without a command, a shell reads standard input.
    #[serde(default)]
    pub(crate) stdin: bool,
    /// Only with one of these options.
    #[serde(default)]
    pub(crate) any: Vec<String>,
    /// With one of these options nothing is run.
    #[serde(default)]
    pub(crate) none: Vec<String>,
    pub(crate) kind: Option<Kind>,
}

/// A program that runs code.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Interpreter {
    pub(crate) names: Vec<String>,
    pub(crate) why: String,
    pub(crate) language: String,
    #[serde(default)]
    pub(crate) takes: Vec<String>,
    /// Options whose value is code.
    #[serde(default)]
    pub(crate) code: Vec<String>,
    /// Options whose value names a module to run.
    #[serde(default)]
    pub(crate) module: Vec<String>,
    /// Options whose value is a file of code.
    #[serde(default)]
    pub(crate) file: Vec<String>,
    /// Modules that only read.
    #[serde(default)]
    pub(crate) harmless: Vec<String>,
    /// Which operand is code.
    pub(crate) operand: Option<usize>,
    /// Code comes from standard input if no file is named.
    #[serde(default)]
    pub(crate) stdin: bool,
    /// Options with which nothing is run.
    #[serde(default)]
    pub(crate) none: Vec<String>,
}

/// What code of a language looks like.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Language {
    pub(crate) name: String,
    pub(crate) why: String,
    /// What destroys.
    #[serde(default)]
    pub(crate) destructive: Vec<String>,
    /// What runs something that can not be seen.
    #[serde(default)]
    pub(crate) hidden: Vec<String>,
}

/// Variables that other programs act on.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Variables {
    pub(crate) names: Vec<String>,
    pub(crate) why: String,
    /// Values that do nothing.
    #[serde(default)]
    pub(crate) harmless: Vec<String>,
    #[serde(default)]
    pub(crate) kind: Kind,
}

/// Paths that mean something.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Paths {
    pub(crate) names: Vec<String>,
    pub(crate) why: String,
    pub(crate) are: PathRole,
}

/// What a path is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PathRole {
    /// What is written there is gone, and nothing is lost.
    Sink,
    /// Contents of no lasting worth.
    Scratch,
    /// Another program executes what it says.
    Executed,
    /// A device or a directory of the system.
    System,
    /// A script that only sets variables.
    Settings,
    /// Where the system's programs are.
    Programs,
}

/// Words that say what a subcommand does.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Verbs {
    pub(crate) names: Vec<String>,
    pub(crate) why: String,
    pub(crate) of: VerbRole,
}

/// Where a word counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum VerbRole {
    /// Of programs that are marked for it, and of unknown ones.
    Program,
    /// Of scripts.
    Script,
    /// At the beginning of an SQL statement.
    Sql,
    /// Of programs that are marked: nothing behind it is a subcommand.
    Reading,
    /// Options that only tell what would be done.
    Dry,
}

/// A program that is known to do nothing but read, and with what.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reading {
    pub(crate) names: Vec<String>,
    pub(crate) why: String,
    /// Only with these options, and only if it can be told which there are; with whatever
    /// arguments if absent.
    pub(crate) options: Option<Vec<String>>,
    /// Those of the options that have a value.
    #[serde(default)]
    pub(crate) takes: Vec<String>,
    #[serde(default)]
    pub(crate) style: Style,
    /// How many operands it may have.
    pub(crate) at_most: Option<usize>,
    /// Its first operand, or the value of `-e`, is a script.
    pub(crate) script: Option<Script>,
    /// It runs a command.
    pub(crate) inner: Option<ReadingInner>,
}

/// Scripts that can be looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Script {
    Sed,
    Awk,
}

/// Where the command stands that a reading program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReadingInner {
    /// Behind the options.
    BehindOptions,
    /// Behind the options and one operand.
    BehindOne,
    /// Behind the options, and it gets more arguments.
    WithMore,
    /// As a shell line in its only operand.
    Shell,
}
