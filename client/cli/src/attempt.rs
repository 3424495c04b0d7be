//! `palisade attempt`: run by `doctor --prove` inside a session. It makes attempts and prints the
//! results, nothing else.

use crate::{failure::Failure, print};
use clap::Args;

/// Make attempts, and print the kernel's answer to each
#[derive(Debug, Args)]
#[command(after_help = "\
Run by `palisade doctor --prove` inside a session.

Examples:
  palisade attempt 'read /dev/null' loopback")]
pub(crate) struct Attempt {
    /// An attempt; its target, if it has one, follows after a space
    #[arg(required = true, value_name = "ATTEMPT")]
    words: Vec<String>,
}

impl Attempt {
    pub(crate) fn perform(self) -> Result<u8, Failure> {
        print::bytes(palisade_proof::report(&self.words).as_bytes())?;
        Ok(0)
    }
}
