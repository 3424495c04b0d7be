//! Edits and patches: each form, each refusal, and properties of any text.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test that can not go on fails; helpers are not seen as tests"
)]

mod begin;
mod edit;
mod properties;
mod unified;
