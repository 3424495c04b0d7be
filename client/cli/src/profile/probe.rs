//! Tries one access with bash inside a session, and returns the kernel's answer.

use crate::failure::Failure;
use palisade_client::Session;
use palisade_policy::{Act, Decision, Example, Explanation, Scene, TargetOwner};
use std::{
    env, fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// The C library's texts of two errors of `connect`, in the locale `C`.
const ECONNREFUSED: &str = "Connection refused";
const EACCES: &str = "Permission denied";

/// The outcome of a test.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The kernel answers as the profile's test says.
    Held,
    /// The kernel answers differently; the text says how.
    Broken(String),
    /// The target does not exist on this host.
    Absent,
    /// The access could not be tried, for this reason.
    Untried(String),
}

/// A temporary, empty workspace.
#[derive(Debug)]
pub(super) struct Scratch {
    directory: TempDir,
    path: PathBuf,
}

impl Scratch {
    pub(super) fn new() -> Result<Self, Failure> {
        let failed = |error: std::io::Error| {
            let told = format!("can not create a temporary directory: {error}");
            Failure::new(told, "set TMPDIR to a directory that can be written to")
        };
        let directory =
            tempfile::Builder::new().prefix("palisade-profile-").tempdir().map_err(failed)?;
        let path = directory.path().canonicalize().map_err(failed)?;
        Ok(Self { directory, path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the session's workspace, home and identity.
    pub(super) fn scene(&self) -> Scene {
        Scene {
            workspace: self.path.clone(),
            home: env::var_os("HOME").map(PathBuf::from).filter(|home| home.is_absolute()),
            user: String::new(),
            uid: rustix::process::geteuid().as_raw(),
            gid: rustix::process::getegid().as_raw(),
        }
    }

    /// Creates a program at a path in the workspace that a test targets.
    fn create_target(&self, rest: &str) -> std::io::Result<()> {
        let path = self.directory.path().join(rest.trim_start_matches('/'));
        if path.exists() {
            return Ok(());
        }
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent)?;
        }
        fs::write(&path, "#!/bin/sh\nexit 0\n")?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))
    }

    /// Returns the target's path on the host, if it is a path.
    fn on_host(&self, target: &str) -> Option<PathBuf> {
        let (variable, rest) = target.find('/').map_or((target, ""), |at| target.split_at(at));
        let base = match variable {
            "" => PathBuf::from("/"),
            "$WORKSPACE" => self.path.clone(),
            "$HOME" => env::var_os("HOME").map(PathBuf::from)?,
            "$TMP" => PathBuf::from("/tmp"),
            _ => return None,
        };
        Some(base.join(rest.trim_start_matches('/')))
    }
}

/// Tries a test in a session.
pub(super) async fn attempt(
    session: &Session,
    scratch: &Scratch,
    test: &Example,
    told: &Explanation,
) -> Result<Outcome, Failure> {
    let place = told.place;
    let target = test.target.as_str();
    if let Some(rest) = target.strip_prefix("$WORKSPACE/") {
        scratch.create_target(rest).map_err(|error| Failure::new(error.to_string(), ""))?;
    }
    let host = scratch.on_host(target);
    let missing = |path: &Path| {
        let found = fs::symlink_metadata(path);
        found.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
    };
    // A file that a session writes need not exist, only its directory.
    let needed = match (test.act, &host) {
        (Act::Write, Some(path)) => path.parent().map(Path::to_owned).or_else(|| host.clone()),
        (Act::Read | Act::Execute | Act::Connect | Act::Write, _) => host.clone(),
    };
    let private_write = test.act == Act::Write && place == TargetOwner::Session;
    if needed.is_some_and(|path| missing(&path)) && !private_write {
        return Ok(Outcome::Absent);
    }
    // In the host's network, only Landlock's port rules refuse; any other failure comes from the
    // network itself.
    let on_ports = test.act == Act::Connect && told.layer.name() == "landlock";
    let line = if on_ports { reaching(target) } else { script(test.act, target, place) };
    let result = session.bash(line).reason("palisade profile test").await?;
    if let Some(error) = &result.error
        && result.exit_code.is_none()
    {
        return Ok(Outcome::Untried(error.message.clone()));
    }
    // A change to a protected name is found after the command has ended, and is discarded.
    let by_name = result.denials.iter().any(|one| matches!(one.layer.as_str(), "hide" | "protect"));
    // bash has no other way to tell the kernel's error than the C library's text of it.
    let refused_to_connect = result.stderr.contains(ECONNREFUSED);
    let refused_port = result.stderr.contains(EACCES);
    let found = match (test.act, result.exit_code) {
        (Act::Write, Some(_)) if by_name => Decision::Deny,
        (_, Some(0)) => Decision::Allow,
        (Act::Connect, Some(_)) if on_ports && !refused_port => Decision::Allow,
        // A refused connection means that it reached a host.
        (Act::Connect, Some(_)) if refused_to_connect => Decision::Allow,
        // The program ran, and rejected the option.
        (Act::Execute, Some(code)) if code != 126 && code != 127 => Decision::Allow,
        (_, Some(_)) => Decision::Deny,
        (_, None) => return Ok(Outcome::Untried("the test was ended by a signal".to_owned())),
    };
    if found == test.expected {
        return Ok(Outcome::Held);
    }
    let said = result.stderr.trim();
    let said = if said.is_empty() { "it succeeded" } else { said };
    Ok(Outcome::Broken(format!("the kernel's answer is {found}: {said}")))
}

/// Returns a shell line that makes the access and exits with 0 only if it succeeded. It changes
/// nothing on the host: a file that did not exist before is deleted again.
fn script(act: Act, target: &str, place: TargetOwner) -> String {
    let word = word(target);
    match (act, place) {
        (Act::Read, _) => {
            format!("if [ -d {word} ]; then ls -- {word} > /dev/null; else : < {word}; fi")
        }
        (Act::Write, TargetOwner::Session) => {
            let (above, _) = target.rsplit_once('/').unwrap_or((target, ""));
            let above = self::word(above);
            format!(
                "if [ -d {word} ]; then : >> {word}/.palisade-trial; else mkdir -p {above} && : >> {word}; fi"
            )
        }
        // The workspace is temporary. The file must really change, because only real changes are
        // refused by name.
        (Act::Write, TargetOwner::Host) if target.starts_with("$WORKSPACE/") => {
            format!("if [ -d {word} ]; then echo > {word}/.palisade-trial; else echo >> {word}; fi")
        }
        (Act::Write, TargetOwner::Host) => format!(
            "if [ -d {word} ]; then : >> {word}/.palisade-trial && rm -f {word}/.palisade-trial; \
             elif [ -e {word} ]; then : >> {word}; else : >> {word} && rm -f {word}; fi"
        ),
        (Act::Execute, _) => format!("{word} --version < /dev/null > /dev/null"),
        (Act::Connect, _) => {
            let (host, port) = target.rsplit_once(':').unwrap_or((target, ""));
            let host = host.trim_start_matches('[').trim_end_matches(']');
            // Errors have the same text whatever the session's language is.
            format!("LC_ALL=C; exec 3<> {}", quoted(&format!("/dev/tcp/{host}/{port}")))
        }
    }
}

/// Returns a shell line that connects in the host's network, with a timeout because nobody may
/// answer.
fn reaching(target: &str) -> String {
    let line = script(Act::Connect, target, TargetOwner::Host);
    format!("timeout 5 bash -c {}", quoted(&line))
}

/// Quotes a target as a word of the shell. A variable gets the value that it has in the session.
fn word(target: &str) -> String {
    let (variable, rest) = target.find('/').map_or((target, ""), |at| target.split_at(at));
    match variable {
        "$HOME" => format!("\"$HOME\"{}", quoted(rest)),
        "$WORKSPACE" => format!("\"$PWD\"{}", quoted(rest)),
        "$TMP" => format!("/tmp{}", quoted(rest)),
        _ => quoted(target),
    }
}

fn quoted(text: &str) -> String {
    if text.is_empty() { String::new() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_words_that_nothing_expands() {
        assert_eq!(word("$HOME/.ssh/id"), "\"$HOME\"'/.ssh/id'");
        assert_eq!(word("$WORKSPACE"), "\"$PWD\"");
        assert_eq!(word("/a b/$(c)/it's"), "'/a b/$(c)/it'\\''s'");
        let connect = script(Act::Connect, "[::1]:80", TargetOwner::Session);
        assert_eq!(connect, "LC_ALL=C; exec 3<> '/dev/tcp/::1/80'");
    }
}
