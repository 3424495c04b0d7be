//! Profiles and the judge: what a session may do, decided from text and metadata alone. Pure: no
//! files, no clock, no kernel. It runs in the broker.

pub mod analysis;
mod checkers;
mod entries;
mod environment;
mod facts;
mod handlers;
mod judge;
mod numbers;
mod planning;
mod profile;
mod rules;
mod set;
mod settings;
mod size;
mod syscalls;

pub use checkers::{Checker, CheckerFormat};
pub use environment::EnvironmentError;
pub use facts::{ASKED_KINDS, Commands, Facts, is_asked};
pub use handlers::Handlers;
pub use judge::{AskError, Grant, Judgement, Question, Refusal, judge, stricter_ask};
pub use planning::{PlanError, Scene};
pub use profile::{Profile, ProfileError};
pub use set::{DEFAULT, ProfileSet, builtin};
pub use syscalls::{SyscallEntry, SyscallError, SyscallList};
