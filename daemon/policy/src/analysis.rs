//! Command analysis: determines what a shell command would do, as far as its text shows. Runs in
//! the analyst, next to the parser; the broker settles the findings. Pure: no I/O.
//!
//! Every simple command is examined, however deeply it is nested. What each program does is data,
//! in the tables beside the profiles. If the text does not show what would run, that is itself a
//! finding.

mod analyse;
mod builtins;
mod code;
mod field;
mod finding;
mod form;
mod interpreters;
mod invoke;
mod options;
mod paths;
mod printed;
mod reading;
mod rules;
mod schema;
mod scope;
mod sed;
mod simple;
mod sql;
mod tables;
mod walk;
mod words;
mod wrappers;

pub use analyse::analyse;
pub use finding::{
    AnalysedCommand, CommandAnalysis, Existence, FindingTarget, Kind, Loss, Nature, Nowhere,
    PathLookup, RawFinding, asks, settle, unproven,
};
pub use form::{
    Assign, Assignment, Body, Node, Operation, Parse, ParseError, Piece, Quoting, Redirect,
    RedirectKind, Runs, Simple, Value, Word,
};
pub use printed::unescape;
pub use tables::{TableError, Tables};
