//! Profiles and the judge: what a session may do, decided from text and metadata alone. Pure: no
//! files, no clock, no kernel. It runs in the broker.

mod access;
mod act;
mod amend;
pub mod analysis;
mod checkers;
mod diff;
mod document;
mod effects;
mod entries;
mod environment;
mod error;
mod example;
mod examples;
mod explain;
mod facts;
mod handlers;
mod judge;
mod keys;
mod learn;
mod limits;
mod names;
mod net;
mod noise;
mod numbers;
mod observe;
mod planning;
mod profile;
pub mod refused;
mod resolve;
mod rules;
mod samples;
mod set;
mod settings;
mod size;
mod source;
mod stack;
mod syscalls;
mod transactions;
mod variables;
mod who;
mod written;

pub use act::{Act, Decision};
pub use amend::{Addition, amended, merged, turned, widening};
pub use checkers::{Checker, CheckerFormat};
pub use diff::{Difference, Direction, diff};
pub use effects::{CONFLICT, entries_of, judge_effects, losses};
pub use environment::Search;
pub use error::ProfileError;
pub use example::Example;
pub use explain::{Change, ExplainError, Explanation, Place, explain, on_host};
pub use facts::{ASKED_KINDS, Commands, Facts, UpFront, is_asked};
pub use handlers::Handlers;
pub use judge::{
    AskError, Grant, GuardError, Judgement, Question, Refusal, judge, stricter_ask, stricter_guard,
};
pub use keys::{Enforced, KEYS, Key, Takes, nearest};
pub use learn::{Access, Kind, Learned, Right, Run, Wanted, learn};
pub use observe::{would_refuse, would_refuse_tool};
pub use planning::{Scene, error::PlanError};
pub use profile::{Profile, User};
pub use samples::Samples;
pub use set::{DEFAULT, ProfileSet, builtin};
pub use source::{Origin, Owner, Source};
pub use syscalls::{SyscallEntry, SyscallError, SyscallList};
pub use variables::EnvironmentError;
