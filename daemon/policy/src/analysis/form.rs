//! The syntax tree of a shell text, as any parser can make it. The analysis knows no shell grammar,
//! and the parser knows no rules.

use palisade_protocol::Span;
use std::sync::Arc;

/// Commands in sequence.
pub type Body = Arc<Vec<Node>>;

/// One node of a script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A simple command: a program, a builtin or a function, or assignments only.
    Simple(Simple),
    /// A pipeline: the output of each node is the input of the next.
    Pipeline(Vec<Node>),
    /// Grouped commands with common redirections.
    Group {
        /// The shell in which the commands run, and the certainty that they run.
        runs: Runs,
        /// The commands.
        body: Body,
        /// The redirections of the group as a whole.
        redirects: Vec<Redirect>,
    },
    /// A loop over words.
    For {
        /// The loop's variable.
        variable: String,
        /// The words that the loop iterates over; `None` for the positional parameters.
        values: Option<Vec<Word>>,
        /// The loop body.
        body: Body,
        /// The redirections of the loop as a whole.
        redirects: Vec<Redirect>,
    },
    /// A function definition.
    Function {
        /// The name of the function.
        name: String,
        /// The body of the function.
        body: Body,
        /// The position of the definition.
        span: Span,
    },
    /// Words of `case` and `[[`, which are expanded but not run.
    Words(Vec<Word>),
    /// An arithmetic command or condition.
    Arithmetic(Word),
}

/// The way in which a group runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Runs {
    /// In this shell, always.
    Here,
    /// In this shell, conditionally: a branch, a loop, or what follows `&&`.
    Perhaps,
    /// In a subshell.
    Apart,
}

/// A simple command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Simple {
    /// The assignments before the words.
    pub assignments: Vec<Assignment>,
    /// The program and its arguments, before expansion.
    pub words: Vec<Word>,
    /// The redirections of the command.
    pub redirects: Vec<Redirect>,
    /// The position of the command.
    pub span: Span,
}

/// An assignment `name=value`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    /// The variable, without a subscript.
    pub name: String,
    /// The assigned value.
    pub value: Value,
    /// The mode of the assignment: replace or append.
    pub mode: Assign,
    /// The position of the assignment.
    pub span: Span,
}

/// The operator of an assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assign {
    /// `=`
    Replace,
    /// `+=`
    Append,
    /// `a[i]=`
    Element,
}

/// The value of an assignment.
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
    /// The kind of the redirection.
    pub kind: RedirectKind,
    /// The file, or the text of a here-document or here-string.
    pub word: Word,
}

/// The kind of a redirection.
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
    /// Duplicates another descriptor.
    Duplicate,
    /// A here-document or here-string.
    Text,
}

/// A word before expansion.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Word {
    /// The pieces of the word, in order.
    pub pieces: Vec<Piece>,
    /// The word as it was written.
    pub text: String,
    /// The position of the word.
    pub span: Span,
}

/// The quoting of a piece, which decides whether the shell splits it into fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quoting {
    /// The piece is split.
    Bare,
    /// The piece is not split.
    Quoted,
}

/// A piece of a word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// Literal text, as the program receives it.
    Text(String, Quoting),
    /// A pattern for file names.
    Glob(String),
    /// A home directory, written with a tilde.
    Tilde(String),
    /// A variable or parameter.
    Parameter {
        /// The name: `x`, `1`, `@`.
        name: String,
        /// The operation on the value.
        operation: Operation,
        /// The quoting, which decides whether the value is split into fields.
        quoting: Quoting,
    },
    /// `$(…)`; `None` if its text can not be parsed.
    Command(Option<Body>, Quoting),
    /// `<(…)` or `>(…)`; `None` if its text can not be parsed.
    Process(Option<Body>),
    /// `$((…))`, with the expansions in it.
    Arithmetic(Vec<Piece>, String),
    /// Text whose value is unknown.
    Unknown(String),
}

/// The operation of an expansion on a variable's value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operation {
    /// The value itself.
    Plain,
    /// All elements of an array.
    All,
    /// This text, if the variable has no value.
    Default(Vec<Piece>),
    /// This text, if the variable has a value.
    Alternative(Vec<Piece>),
    /// A transformation of the value, with these expansions in it.
    Other(Vec<Piece>),
}

/// The reason why a text could not be parsed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseError {
    /// The text is not valid shell syntax.
    #[error("it is not a shell command that can be parsed ({0})")]
    Syntax(String),
    /// The text is too long or nested too deeply to be analysed.
    #[error("it is too long or nested too deeply to be analysed")]
    TooMuch,
}

/// A parser of shell text. The analysis calls it for the whole text, and again for every text that
/// is passed to a shell.
pub trait Parse {
    /// Parses a text.
    ///
    /// # Errors
    /// If the text is not valid shell syntax, or exceeds a limit.
    fn parse(&self, text: &str) -> Result<Body, ParseError>;
}
