//! The analyst: parses hostile shell text in a small process without privilege, files or network,
//! and returns its findings. The library has both ends: the code that runs in the analyst, and the
//! [`Supervisor`] that starts the process, queries it and replaces it.

mod braces;
mod confine;
mod convert;
mod error;
mod message;
mod nesting;
mod parse;
mod patience;
mod process;
mod redirects;
mod serve;
mod supervisor;
mod words;

pub use error::SupervisorError;
pub use message::{Answered, Asked, MAX_TEXT};
pub use parse::Shell;
pub use patience::{Patience, WAIT, WORK};
pub use process::{Process, start};
pub use serve::{ServeError, serve};
pub use supervisor::{Analysis, Supervisor};

use palisade_policy::analysis::{CommandAnalysis, TableError, Tables, analyse};

/// Analyses a text in this process. It is only for tests and measurements. Other callers use the
/// [`Supervisor`], because hostile text can exhaust memory or the stack here.
///
/// # Errors
/// If a built-in table is invalid.
pub fn analyse_here(text: &str) -> Result<CommandAnalysis, TableError> {
    let tables = Tables::builtin()?;
    Ok(analyse(text, &Shell::new(), tables))
}
