//! `palisade profile check`: checks whether files are valid profiles, and says what to change.

use super::{Directories, load};
use crate::{failure::Failure, paint::harmless, print};
use clap::Args;
use std::path::{Path, PathBuf};

/// The exit status if a file is not a valid profile.
const BROKEN: u8 = 1;

/// Check profiles: reports file, line, column, key, the error and how to fix it
#[derive(Debug, Args)]
#[command(after_help = "\
The profiles' own tests are checked too. The files may extend each other and the profiles in the
default directory.

Exit status: 0 all files are valid; 1 a file is not.")]
pub(crate) struct Check {
    #[command(flatten)]
    directories: Directories,
    /// The profiles to check
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl Check {
    pub(crate) fn perform(self) -> Result<u8, Failure> {
        let usual = load::files(&load::directories(&self.directories))?;
        let mut given = Vec::new();
        for path in &self.files {
            given.push(load::File::read(path)?);
        }
        let whole = match load::set(&load::with(given.clone(), usual.clone())) {
            Ok(set) => {
                for path in &self.files {
                    let name = stem(path);
                    let tests = set.get(&name).map_or(0, |profile| profile.tests().len());
                    let shown = harmless(&path.display().to_string());
                    print::line(&format!("{shown}: valid profile; {tests} tests pass"))?;
                }
                return Ok(0);
            }
            Err(error) => error.to_string(),
        };
        // Each file is loaded alone, so that each gets its own error.
        let mut told = Vec::new();
        for file in given {
            if let Err(error) = load::set(&load::with(vec![file], usual.clone())) {
                told.push(error.to_string());
            }
        }
        if !told.contains(&whole) {
            told = vec![whole];
        }
        for error in told {
            print::line(&harmless(&error))?;
        }
        Ok(BROKEN)
    }
}

fn stem(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}
