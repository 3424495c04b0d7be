//! Sandbox profiles and the judge, which decides from text and metadata alone what a session may
//! do. Runs in the broker. Pure: no files, no clock, no kernel.

mod access;
mod act;
mod added_hosts;
mod amend;
pub mod analysis;
mod checkers;
mod diff;
mod document;
mod effects;
mod egress;
mod entries;
mod environment;
mod error;
mod example;
mod examples;
mod explain;
mod facts;
mod handlers;
mod jobs;
mod judge;
mod keys;
mod layers;
mod learn;
mod limits;
mod losses;
mod modes;
mod names;
mod net;
mod noise;
mod numbers;
mod observe;
mod planning;
mod presets;
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
mod toml_text;
mod tools;
mod transactions;
mod variables;
mod who;
mod written;

pub use act::{Act, Decision};
pub use added_hosts::AddedHostError;
pub use amend::{Addition, amended, merged, widening, with_reversed_decision};
pub use checkers::{Checker, CheckerFormat};
pub use diff::{Difference, Direction, diff};
pub use effects::{CONFLICT, entries_of, judge_effects};
pub use egress::{EgressDecision, EgressPolicy};
pub use environment::Search;
pub use error::ProfileError;
pub use example::Example;
pub use explain::{
    Change, ExplainError, Explanation, TargetOwner, explain, explain_bind, fetch_change, on_host,
};
pub use facts::{
    ADJUSTED, ASKED_KINDS, Commands, DESTRUCTIVE, Facts, MUTATING_TOOL, UpFront, is_asked,
};
pub use handlers::{Handlers, LOSSES};
pub use jobs::JobRoute;
pub use judge::{
    AskError, Grant, GuardError, Judgement, Refusal, RequiredApproval, judge, stricter_ask,
    stricter_guard,
};
pub use keys::{AcceptedValues, Key, keys};
pub use learn::{Access, LearnedProfile, RefusedAccess, Right, Run, TargetKind, learn};
pub use losses::{Assessment, Lessons, LossContext, Reason, SessionMemory, UndoRecord, assess};
pub use observe::{would_refuse, would_refuse_tool};
pub use planning::{Scene, error::PlanError};
pub use presets::{PRESETS, Preset, PresetHost, PresetSettings, preset_profile};
pub use profile::{Profile, User};
pub use samples::Samples;
pub use set::{DEFAULT, InvalidProfile, ProfileSet, builtin};
pub use size::Size;
pub use source::{Origin, Owner, Source};
pub use syscalls::{SyscallEntry, SyscallError, SyscallList};
pub use toml_text::{KnownKeys, TomlFault, TomlText};
pub use variables::{EnvironmentError, LeftOutVariable};
