//! `palisade completions`: prints shell completions.

use crate::{failure::Failure, print};
use clap::{Args, Command};
use clap_complete::Shell;

/// Print completions for a shell
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  palisade completions bash > ~/.local/share/bash-completion/completions/palisade
  palisade completions zsh > ~/.zfunc/_palisade
  palisade completions fish > ~/.config/fish/completions/palisade.fish")]
pub(crate) struct Completions {
    /// Which shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    pub(crate) fn perform(self, mut definition: Command) -> Result<u8, Failure> {
        let mut text = Vec::new();
        clap_complete::generate(self.shell, &mut definition, "palisade", &mut text);
        print::bytes(&text)?;
        Ok(0)
    }
}
