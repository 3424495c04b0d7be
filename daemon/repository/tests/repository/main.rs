//! Tests of what git keeps and of what a change loses, in ordinary, random and hostile
//! repositories.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test that can not go on fails; helpers are not seen as tests"
)]

mod bounds;
mod compare;
mod configuration;
mod cost;
mod git;
mod head;
mod hostile;
mod keep;
mod objects;
mod sequences;
