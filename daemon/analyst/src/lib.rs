//! The analyst: parses hostile shell text in a small process without privilege, files or network,
//! and answers what it found. The library has both ends: what that process does, and the
//! [`Supervisor`] that starts it, asks it and replaces it.

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

use palisade_policy::analysis::{Analysed, TableError, Tables, analyse};

/// What is made of a text, in this process. For tests and measurements; everybody else asks the
/// [`Supervisor`], since hostile text can exhaust memory or stack here.
///
/// # Errors
/// If a built-in table is broken.
pub fn analyse_here(text: &str) -> Result<Analysed, TableError> {
    let tables = Tables::builtin()?;
    Ok(analyse(text, &Shell::new(), tables))
}
