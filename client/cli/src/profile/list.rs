//! `palisade profile list`: lists the profiles of this host.

use super::{Directories, load};
use crate::{failure::Failure, paint::harmless, print};
use clap::Args;
use serde_json::json;

/// List the profiles of this host, each with its description
#[derive(Debug, Args)]
pub(crate) struct List {
    /// Print one JSON object per line
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    directories: Directories,
}

impl List {
    pub(crate) fn perform(self) -> Result<u8, Failure> {
        let files = load::files(&load::directories(&self.directories))?;
        let names = load::names(&files);
        let longest = names.iter().map(|name| name.len()).max().unwrap_or(0);
        for name in names {
            let profile = match load::only(name, &files) {
                Ok(Some(profile)) => profile,
                Ok(None) => continue,
                // One that is not valid hides no other.
                Err(error) => {
                    print::failure(&load::bad(&error));
                    continue;
                }
            };
            let (name, description) = (profile.name(), profile.description());
            if self.json {
                print::json(&json!({
                    "name": name, "description": description, "file": profile.file(),
                    "extends": profile.extends(), "digest": profile.digest(),
                }))?;
            } else {
                print::line(&format!("{name:longest$}  {}", harmless(description)))?;
            }
        }
        Ok(0)
    }
}
