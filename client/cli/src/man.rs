//! `palisade man`: the manual pages, generated from the help text.

use crate::{failure::Failure, print};
use clap::{Args, Command};
use std::{io, path::PathBuf};

/// Print the manual page, or write one for each subcommand
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  palisade man | man -l -
  palisade man --dir ~/.local/share/man/man1")]
pub(crate) struct Man {
    /// Write palisade.1 and a page for each subcommand into this directory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Man {
    pub(crate) fn perform(self, definition: Command) -> Result<u8, Failure> {
        // The `help` subcommand needs no page of its own.
        let definition = definition.disable_help_subcommand(true);
        let Some(directory) = self.dir else {
            let mut page = Vec::new();
            clap_mangen::Man::new(definition)
                .render(&mut page)
                .map_err(|error| Failure::output(&error))?;
            print::bytes(&page)?;
            return Ok(0);
        };
        let written = std::fs::create_dir_all(&directory)
            .and_then(|()| clap_mangen::generate_to(definition, &directory));
        written.map(|()| 0).map_err(|error: io::Error| {
            Failure::new(
                format!("can not write manual pages to {}: {error}", directory.display()),
                "name a directory that can be written to",
            )
        })
    }
}
