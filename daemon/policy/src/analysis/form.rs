//! What a shell text is to the analysis: a small tree that some parser made. The analysis never
//! sees a shell grammar, and the parser never sees a rule.

use palisade_protocol::Span;
use std::sync::Arc;

/// Commands in order.
pub type Body = Arc<Vec<Node>>;

/// One step of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A program, a builtin or a function, or assignments alone.
    Simple(Simple),
    /// Each one's output is the next one's input.
    Pipeline(Vec<Node>),
    /// Commands with redirections of their own.
    Group {
        /// Whether they run in this shell, for certain.
        runs: Runs,
        /// The commands.
        body: Body,
        /// Of the group as a whole.
        redirects: Vec<Redirect>,
    },
    /// A loop over words.
    For {
        /// The loop's variable.
        variable: String,
        /// What it goes through; none for the positional parameters.
        values: Option<Vec<Word>>,
        /// What is done each time.
        body: Body,
        /// Of the loop as a whole.
        redirects: Vec<Redirect>,
    },
    /// A definition.
    Function {
        /// Its name.
        name: String,
        /// What a call runs.
        body: Body,
        /// Where.
        span: Span,
    },
    /// Words that are expanded and not run: of `case` and `[[`.
    Words(Vec<Word>),
    /// An arithmetic command or condition.
    Arithmetic(Word),
}

/// How a group runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runs {
    /// In this shell, always.
    Here,
    /// In this shell, perhaps: a branch, a loop, what follows `&&`.
    Perhaps,
    /// In a shell of its own.
    Apart,
}

/// A simple command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Simple {
    /// Before the words.
    pub assignments: Vec<Assignment>,
    /// The program and its arguments, before expansion.
    pub words: Vec<Word>,
    /// Of this command.
    pub redirects: Vec<Redirect>,
    /// Where.
    pub span: Span,
}

/// `name=value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The variable, without a subscript.
    pub name: String,
    /// What it becomes.
    pub value: Value,
    /// Replaces or appends.
    pub mode: Assign,
    /// Where.
    pub span: Span,
}

/// How a variable is assigned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assign {
    /// `=`
    Replace,
    /// `+=`
    Append,
    /// `a[i]=`
    Element,
}

/// What is assigned.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value {
    /// One word.
    Scalar(Word),
    /// A list.
    Array(Vec<Word>),
}

/// A redirection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redirect {
    /// What it does.
    pub kind: RedirectKind,
    /// The file, or the text of a here-document or here-string.
    pub word: Word,
}

/// What a redirection does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RedirectKind {
    /// `<`
    Read,
    /// `>`, `>|`, `&>`, `>&` to a file.
    Truncate,
    /// `>>`, `&>>`
    Append,
    /// `<>`
    ReadWrite,
    /// To or from another descriptor.
    Duplicate,
    /// A here-document or here-string.
    Text,
}

/// A word before expansion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// Its pieces, in order.
    pub pieces: Vec<Piece>,
    /// As it was written.
    pub text: String,
    /// Where.
    pub span: Span,
}

/// Whether the shell splits a piece into fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quoting {
    /// It does.
    Bare,
    /// It does not.
    Quoted,
}

/// A piece of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Text as the program gets it.
    Text(String, Quoting),
    /// A pattern for file names.
    Glob(String),
    /// A home directory.
    Tilde(String),
    /// A variable or parameter.
    Parameter {
        /// Its name: `x`, `1`, `@`.
        name: String,
        /// What is done to the value.
        operation: Operation,
        /// Whether the value is split.
        quoting: Quoting,
    },
    /// `$(…)`; none if it can not be parsed.
    Command(Option<Body>, Quoting),
    /// `<(…)` or `>(…)`.
    Process(Option<Body>),
    /// `$((…))`, with the expansions in it.
    Arithmetic(Vec<Piece>, String),
    /// Something that the text does not tell.
    Unknown(String),
}

/// What an expansion does with a variable's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// The value.
    Plain,
    /// All elements of an array.
    All,
    /// This, if it has no value.
    Default(Vec<Piece>),
    /// This, if it has a value.
    Alternative(Vec<Piece>),
    /// Something made of the value, with these expansions in it.
    Other(Vec<Piece>),
}

/// Why a text has no form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unparsed {
    /// Not a shell text.
    #[error("it is not a shell command that can be parsed ({0})")]
    Syntax(String),
    /// Too long or too deep to look at.
    #[error("it is too long or nested too deeply to be analysed")]
    TooMuch,
}

/// A parser of shell text. The analysis calls it for the whole text, and again for each text that
/// it finds to be handed to a shell.
pub trait Parse {
    /// The form of a text.
    ///
    /// # Errors
    /// If it is not a shell text, or is over a limit.
    fn parse(&self, text: &str) -> Result<Body, Unparsed>;
}
