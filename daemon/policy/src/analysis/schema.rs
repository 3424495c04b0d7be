//! The schema of the tables: entries about programs, variables, paths and words.

use super::finding::Kind;
use palisade_protocol::Severity;
use serde::Deserialize;

/// The way in which a program parses its options.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Style {
    /// Options anywhere; short ones may be combined.
    #[default]
    Gnu,
    /// Options before the first operand only.
    Posix,
    /// Whole words with one dash, as in `find` and `terraform`.
    Words,
    /// As `Gnu`, and the first operand is a group of short options, as in `tar`.
    Bundle,
}

/// The effect of a rule's program on its targets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Effect {
    /// The contents of the targets are replaced.
    #[default]
    Overwrite,
    /// The targets are deleted.
    Delete,
    /// The targets are appended to.
    Append,
    /// The targets leave the workspace, if they are moved outside it.
    Leave,
}

/// One use of a program.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ProgramRule {
    pub(crate) why: String,
    /// The leading operands; `|` separates alternatives.
    #[serde(default)]
    pub(crate) sub: Vec<String>,
    /// Options of which one must be given; `-c value*` has a pattern for the value.
    #[serde(default)]
    pub(crate) any: Vec<String>,
    /// Options that must not be given.
    #[serde(default)]
    pub(crate) none: Vec<String>,
    /// Patterns of which one operand must match one.
    #[serde(default)]
    pub(crate) operand: Vec<String>,
    /// Patterns that no operand may match.
    #[serde(default)]
    pub(crate) not_operand: Vec<String>,
    #[serde(default)]
    pub(crate) at_least: usize,
    pub(crate) at_most: Option<usize>,
    /// The places of the target paths. A rule with places reports nothing if no path is found.
    #[serde(default)]
    pub(crate) targets: Vec<String>,
    #[serde(default)]
    pub(crate) effect: Effect,
    #[serde(default)]
    pub(crate) kind: Kind,
    pub(crate) severity: Option<Severity>,
}

/// The entry of a program.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Program {
    pub(crate) names: Vec<String>,
    pub(crate) why: String,
    #[serde(default)]
    pub(crate) takes: Vec<String>,
    #[serde(default)]
    pub(crate) style: Style,
    /// True if destructive words are searched for among its first operands.
    #[serde(default)]
    pub(crate) verbs: bool,
    #[serde(default)]
    pub(crate) rule: Vec<ProgramRule>,
}

/// The way in which a wrapper gets the command that it runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Inner {
    /// As arguments.
    #[default]
    Argv,
    /// As text for a shell.
    Shell,
    /// In the value of an option only.
    None,
    /// As the arguments after `--`.
    Dashes,
}

/// The entry of a program that runs another program.
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
    /// The number of operands before the command.
    #[serde(default)]
    pub(crate) skip: usize,
    #[serde(default)]
    pub(crate) inner: Inner,
    /// Options whose value is shell text.
    #[serde(default)]
    pub(crate) code: Vec<String>,
    /// Options whose value is a placeholder for the input.
    #[serde(default)]
    pub(crate) mark: Vec<String>,
    /// True if the command gets arguments that are not in the text.
    #[serde(default)]
    pub(crate) appends: bool,
    /// True if a shell reads standard input when no command is given.
    #[serde(default)]
    pub(crate) stdin: bool,
    /// Options of which one must be given for the entry to apply.
    #[serde(default)]
    pub(crate) any: Vec<String>,
    /// Options with which nothing is run.
    #[serde(default)]
    pub(crate) none: Vec<String>,
    pub(crate) kind: Option<Kind>,
}

/// The entry of a program that runs code.
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
    /// Options whose value is a script file.
    #[serde(default)]
    pub(crate) file: Vec<String>,
    /// Modules that only read.
    #[serde(default)]
    pub(crate) harmless: Vec<String>,
    /// The index of the operand that is code.
    pub(crate) operand: Option<usize>,
    /// True if code is read from standard input when no file is named.
    #[serde(default)]
    pub(crate) stdin: bool,
    /// Options with which nothing is run.
    #[serde(default)]
    pub(crate) none: Vec<String>,
}

/// Patterns that are searched for in code of a language.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Language {
    pub(crate) name: String,
    pub(crate) why: String,
    /// Patterns of destructive code.
    #[serde(default)]
    pub(crate) destructive: Vec<String>,
    /// Patterns of code that runs something hidden.
    #[serde(default)]
    pub(crate) hidden: Vec<String>,
}

/// Variables that other programs obey.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Variables {
    pub(crate) names: Vec<String>,
    pub(crate) why: String,
    /// Values without effect.
    #[serde(default)]
    pub(crate) harmless: Vec<String>,
    #[serde(default)]
    pub(crate) kind: Kind,
}

/// Paths with a special role.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Paths {
    pub(crate) names: Vec<String>,
    pub(crate) why: String,
    pub(crate) are: PathRole,
}

/// The role of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PathRole {
    /// Data written there is discarded, and nothing is lost.
    Sink,
    /// Contents without lasting value.
    Scratch,
    /// Another program executes the contents.
    Executed,
    /// A device or a system directory.
    System,
    /// A script that only sets variables.
    Settings,
    /// A directory of the system's programs.
    Programs,
}

/// Words that show what a subcommand does.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Verbs {
    pub(crate) names: Vec<String>,
    pub(crate) why: String,
    pub(crate) of: VerbRole,
}

/// The context in which a word counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum VerbRole {
    /// Operands of programs with `verbs` set, and of unknown programs.
    Program,
    /// The names of scripts.
    Script,
    /// At the beginning of an SQL statement.
    Sql,
    /// Operands of programs with `verbs` set: nothing after the word is a subcommand.
    Reading,
    /// Options that request a dry run.
    Dry,
}

/// The entry of a program that only reads, and the conditions for that.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Reading {
    pub(crate) names: Vec<String>,
    pub(crate) why: String,
    /// The allowed options, all of which must be known from the text; any arguments if absent.
    pub(crate) options: Option<Vec<String>>,
    /// The allowed options that take a value.
    #[serde(default)]
    pub(crate) takes: Vec<String>,
    #[serde(default)]
    pub(crate) style: Style,
    /// The largest number of operands.
    pub(crate) at_most: Option<usize>,
    /// The language of the script in its first operand or in the value of `-e`.
    pub(crate) script: Option<Script>,
    /// The place of the command that it runs.
    pub(crate) inner: Option<ReadingInner>,
}

/// Languages of scripts that can be analysed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Script {
    Sed,
    Awk,
}

/// The place of the command that a reading program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ReadingInner {
    /// After the options.
    BehindOptions,
    /// After the options and one operand.
    BehindOne,
    /// After the options; the command gets further arguments.
    WithMore,
    /// As a shell text in the only operand.
    Shell,
}
