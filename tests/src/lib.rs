//! The harness: real binaries, real kernel, as root's service and as an ordinary user's.
//!
//! A test takes a [`World`] for each of [`Mode::all`], opens a [`Sandbox`] in it, makes attempts
//! inside and looks from outside whether anything happened.
#![allow(clippy::expect_used, clippy::panic, reason = "a test that can not go on fails")]

mod answers;
mod beside;
mod booted;
mod cell;
mod desk;
mod effort;
mod furnished;
mod kernel_audit;
mod mode;
mod place;
mod sandbox;
mod transaction;
mod world;

pub mod processes;
pub mod raw;
pub mod rooms;

pub use answers::{both_views, data, profile_never_asking, profile_reading, profile_with, text};
pub use beside::{fill, listed, unconfined};
pub use booted::{Booted, KERNEL_AUDIT, UNITS, readme_blocks};
pub use cell::{Cell, Pids, facts, own, plan, run};
pub use desk::{Desk, destructive, handlers};
pub use effort::{Dice, effort, percentiles, report, resident, setting};
pub use furnished::{CHANGES, furnished, picture};
pub use kernel_audit::{KernelAudit, Listener};
pub use mode::{Mode, ORDINARY, act_as};
pub use place::Place;
pub use sandbox::Sandbox;
pub use transaction::{Draft, Settling, Transaction, Words};
pub use world::{Daemon, UNASKED, World, binary, tree};
