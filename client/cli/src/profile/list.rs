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
        let set = load::set(&files).map_err(|error| load::bad(&error))?;
        let longest = set.names().map(str::len).max().unwrap_or(0);
        for profile in set.names().filter_map(|name| set.get(name)) {
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
