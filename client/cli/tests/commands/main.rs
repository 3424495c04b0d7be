//! The command line: its help and usage errors, and each command against a daemon that a test scripts.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test that can not go on fails; helpers are not seen as tests"
)]

mod analyze;
mod audit;
mod fake;
mod help;
mod operators;
mod profiles;
mod scripted;
mod setup;
mod terminal;
