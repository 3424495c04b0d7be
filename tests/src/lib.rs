//! The test harness: real binaries on a real kernel, as a service of root and as a daemon of an
//! ordinary user.
//!
//! A test takes a [`World`] for each of [`Mode::all`], opens a [`Sandbox`] in it, makes attempts
//! inside, and checks from outside whether anything happened.

mod answers;
mod bare_repository;
mod beside;
mod booted;
mod cell;
mod desk;
mod effort;
mod fixture_repository;
mod furnished;
mod jobs;
mod kernel_audit;
mod mcp;
mod mode;
mod named_hosts;
mod place;
mod public_network;
mod random_work;
mod recovery;
mod room_service;
mod sandbox;
mod screen;
mod table;
mod test_authority;
mod transaction;
mod world;

pub mod processes;
pub mod raw;
pub mod rooms;
pub mod taken_over;

pub use answers::{both_views, data, profile_never_asking, profile_reading, profile_with, text};
pub use bare_repository::BareRepository;
pub use beside::{fill, listed, unconfined};
pub use booted::{Booted, KERNEL_AUDIT, UNITS, readme_blocks};
pub use cell::{Cell, Pids, facts, own, plan, plan_with_home, run};
pub use desk::{Desk, destructive, during, handlers};
pub use effort::{Dice, cases, effort, percentiles, report, resident, setting};
pub use fixture_repository::{FixtureRepository, WorkingTree, git_summary, outside};
pub use furnished::{CHANGES, furnished, picture};
pub use jobs::job_of;
pub use kernel_audit::{KernelAudit, Listener};
pub use mcp::{Mcp, mcp_text};
pub use mode::{Mode, ORDINARY, act_as};
pub use named_hosts::{
    CredentialsFrom, GivenCredentials, NamedHosts, WebServer, among_names, hosts_file,
    named_profile,
};
pub use place::Place;
pub use public_network::PublicNetwork;
pub use random_work::{FORGED_PACK, RandomStep, random_steps, random_tree};
pub use recovery::{Disregarded, InitialState};
pub use sandbox::Sandbox;
pub use screen::Screen;
pub use table::{Table, TableCall, TableCase, is_denied};
pub use test_authority::TestAuthority;
pub use transaction::{Draft, Settling, Transaction, Words};
pub use world::{Daemon, UNASKED, World, binary, tree};
