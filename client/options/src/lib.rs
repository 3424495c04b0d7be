//! Options that Palisade's programs for users share, and how they find the daemon. Runs in the
//! process of the user who starts one of them.

pub mod connect;
pub mod duration;
mod listen;
mod mcp;
mod session;
mod wrap;

pub use listen::ListenAddress;
pub use mcp::{McpOptions, ServerName};
pub use session::{AskMode, Connection, GuardMode, SessionTerms, WorkspaceError};
pub use wrap::{McpSubcommand, WrapOptions};
