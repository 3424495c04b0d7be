//! `palisade profile show`: shows a whole profile, including defaults and what it extends, or each
//! system call with its reason.

use super::{Directories, load};
use crate::{failure::Failure, paint::harmless, print};
use clap::Args;
use palisade_policy::{Profile, SyscallEntry};
use serde_json::json;

/// Show a whole profile, with defaults and the profiles it extends
#[derive(Debug, Args)]
pub(crate) struct ShowProfile {
    /// Show the system calls instead, each with the action and the reason
    #[arg(long)]
    seccomp: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    directories: Directories,
    /// The profile: a name, or a file
    #[arg(default_value = palisade_policy::DEFAULT)]
    profile: String,
}

impl ShowProfile {
    pub(crate) fn perform(self) -> Result<u8, Failure> {
        let found = load::find(&self.directories, [self.profile.as_str()])?;
        let Some(profile) = found.first() else { return Ok(0) };
        let text = match (self.seccomp, self.json) {
            (true, json) => {
                let list = profile.syscalls().map_err(|e| Failure::new(e.to_string(), ""))?;
                if json { calls_json(list.entries()) } else { calls(list.entries()) }
            }
            (false, false) => whole(profile)?,
            (false, true) => {
                let tests: Vec<_> = profile.tests().iter().map(ToString::to_string).collect();
                let canonical = profile.canonical().map_err(|error| load::bad(&error))?;
                json!({
                    "name": profile.name(), "file": profile.file(), "digest": profile.digest(),
                    "description": profile.description(), "extends": profile.extends(),
                    "tests": tests, "canonical": canonical,
                    "observed_under": profile.observed_under(),
                })
                .to_string()
                    + "\n"
            }
        };
        print::bytes(text.as_bytes())?;
        Ok(0)
    }
}

fn whole(profile: &Profile) -> Result<String, Failure> {
    let canonical = profile.canonical().map_err(|error| load::bad(&error))?;
    let mut text = format!("# {} ({})\n", profile.name(), harmless(profile.file()));
    text += &format!("# sha256 {}\n", profile.digest());
    if let Some(under) = profile.observed_under() {
        text += &format!("# OBSERVED, NOT ENFORCED: profile {under} is enforced\n");
    }
    if !profile.extends().is_empty() {
        text +=
            &format!("# extends {}; their settings are included\n", profile.extends().join(", "));
    }
    text += "\n";
    // Foreign text: only line ends may reach the terminal as control characters.
    text += &canonical.lines().map(harmless).collect::<Vec<_>>().join("\n");
    Ok(text + "\n")
}

fn calls(entries: &[SyscallEntry]) -> String {
    let mut text = String::new();
    let mut group = "";
    for entry in entries {
        if entry.group != group {
            group = &entry.group;
            text += &format!("{}{group}\n", if text.is_empty() { "" } else { "\n" });
        }
        text += &format!("  {:24} {:8} {}\n", entry.name, entry.otherwise, entry.why);
        for clause in &entry.when {
            text += &format!("  {:24}   {clause}\n", "");
        }
    }
    text + "\nsystem calls that are not listed fail with ENOSYS\n"
}

fn calls_json(entries: &[SyscallEntry]) -> String {
    let line = |entry: &SyscallEntry| {
        json!({
            "name": entry.name, "number": entry.rule.number, "group": entry.group,
            "when": entry.when, "otherwise": entry.otherwise, "why": entry.why,
        })
        .to_string()
    };
    entries.iter().map(line).collect::<Vec<_>>().join("\n") + "\n"
}
