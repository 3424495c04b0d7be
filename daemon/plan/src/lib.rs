//! The data that broker, launcher and cells exchange: plans, steps, host facts and messages. Pure:
//! no kernel, no files, no clock.
//!
//! The broker resolves a profile into a [`LaunchPlan`]. The launcher checks the plan against the
//! [`ceiling`], turns it into [`Step`]s and sends those to a cell, which runs them in order.

pub mod authority;
pub mod ceiling;
pub mod cell;
pub mod change;
pub mod codec;
pub mod evidence;
pub mod journal;
pub mod launcher;
pub mod listeners;
pub mod names;
pub mod parts;
pub mod plants;
pub mod record;
pub mod search;
pub mod secrets;
pub mod uids;

mod cover;
mod effects;
mod facts;
mod filter;
mod launch;
mod layer;
mod namespace;
mod path;
mod receipt;
mod step;
mod steps;

pub use cover::Cover;
pub use facts::{CgroupFacts, CgroupVersion, Facts, Found, KERNEL_RECORDS, OverlayFacts};
pub use filter::{
    Compare, Condition, FIRST_UNKNOWN, FilterError, FixedRule, Instruction, NetworkSockets,
    SetIdBits, Sockets, SyscallAction, SyscallRule, assemble, fixed_rules,
};
pub use launch::{
    Access, Bind, Durable, Grant, LaunchPlan, Limits, MissingPath, Network, Records, SessionUid,
    Tmpfs, Transactions, Upper,
};
pub use layer::Layer;
pub use namespace::Namespace;
pub use path::Path;
pub use receipt::{Absent, CellReceipt, DirectoryIdentity, HeldLimit, HeldNetwork, TreePlace};
pub use step::{
    DEVICES, Identity, MountRights, MountsBelow, NameServers, NoiseOverlays, Overlay, ProcView,
    RESOLV_CONF, Resource, Rlimit, Role, Root, Runs, Step, Store, Tcp,
};
pub use steps::{StepError, steps, watch};

/// Identifies the build. Processes of different builds refuse to talk to each other.
pub const BUILD_ID: &str = env!("PALISADE_BUILD_ID");
