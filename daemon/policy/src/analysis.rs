//! Command analysis: what a shell command would do, as far as its text tells. Pure; it runs in the
//! analyst, next to the parser, and its findings are settled in the broker.
//!
//! Every simple command is looked at, wherever it hides; what a program does is data, in the
//! tables beside the profiles. What can not be known from the text is itself a finding.

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
    Analysed, Existence, Found, Kind, Loss, Nature, Nowhere, Place, Started, Target, asks, settle,
};
pub use form::{
    Assign, Assignment, Body, Node, Operation, Parse, Piece, Quoting, Redirect, RedirectKind, Runs,
    Simple, Unparsed, Value, Word,
};
pub use printed::unescape;
pub use tables::{TableError, Tables};
