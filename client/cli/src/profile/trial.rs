//! `palisade profile test`: runs a profile's own tests, from its text or really tried in a session.

use super::{
    Directories, load,
    probe::{self, Outcome},
};
use crate::{
    approve::own,
    disconnect::disconnect,
    failure::Failure,
    paint::{self, Paint, Style, harmless},
    print,
};
use clap::Args;
use palisade_client::{Client, Embedded, Open};
use palisade_policy::{Example, Profile, explain};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// The exit status if a test fails.
const FAILED: u8 = 1;

/// The name under which an observed profile is enforced for its tests.
const ENFORCED: &str = "observed-as-enforced";

/// Run a profile's own tests
#[derive(Debug, Args)]
#[command(after_help = "\
Without --kernel, the tests are answered from the profile's text, as whenever it is loaded. With
--kernel, a private daemon opens a session with the profile in an empty directory and tries each
test with bash: it opens, appends to or runs a file, or makes a connection. Targets that do not
exist on this host are reported as absent. All calls are approved automatically. Tests of a profile
that is only observed are tried as if it were enforced.

Exit status: 0 all hold; 1 a test does not hold or can not be tried.

Examples:
  palisade profile test workspace
  palisade profile test --kernel workspace readonly mine.toml")]
pub(crate) struct TestProfiles {
    /// Try each test in a session
    #[arg(long)]
    kernel: bool,
    #[command(flatten)]
    directories: Directories,
    /// The profiles: names, or files
    #[arg(required = true, value_name = "PROFILE")]
    wanted: Vec<String>,
}

impl TestProfiles {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        let found = load::find(&self.directories, self.wanted.iter().map(String::as_str))?;
        for profile in found.iter().filter(|profile| profile.tests().is_empty()) {
            let name = profile.name();
            print::note(&format!(
                "{name} has no tests: add some under `tests`, see docs/profiles.md"
            ));
        }
        if !self.kernel {
            // The profile could be loaded, which means that its tests hold.
            for profile in &found {
                for test in profile.tests() {
                    tell(profile, test, &Outcome::Held, paint::stdout())?;
                }
            }
            return Ok(0);
        }
        let mut directories = load::directories(&self.directories);
        for path in self.wanted.iter().filter(|profile| load::is_file(profile)) {
            directories.push(directory_of(Path::new(path)));
        }
        directories.dedup();
        let private = directories.iter().fold(Embedded::new(), |daemon, directory| {
            daemon.profiles(std::path::absolute(directory).unwrap_or_else(|_| directory.clone()))
        });
        let mut status = 0;
        for profile in &found {
            let (mut private, mut opened) = (private.clone(), profile.name());
            let enforced = enforced(profile)?;
            if let Some(directory) = &enforced {
                private = private.profiles(directory.path());
                opened = ENFORCED;
            }
            // A connection has one session, and a private daemon one connection.
            let name = "program:palisade-profile-test";
            let (client, approving) = own::start(private, name).await?;
            let tried = attempt(&client, opened, profile.as_written()).await;
            drop(approving);
            status = status.max(disconnect(&client, tried).await?);
        }
        Ok(status)
    }
}

fn directory_of(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        Some(_) | None => PathBuf::from("."),
    }
}

/// Creates a directory with a profile that enforces what an observed profile says; `None` if the
/// profile is enforced anyway. An observed profile allows what its base allows, so without this its
/// tests would test the base.
fn enforced(profile: &Profile) -> Result<Option<TempDir>, Failure> {
    let Some(under) = profile.observed_under() else { return Ok(None) };
    let name = profile.name();
    print::note(&format!(
        "{name} is observed under {under}, not enforced: its tests are tried as if it were enforced"
    ));
    let failed = |error: std::io::Error| {
        let told = format!("can not create a directory for the enforced form of {name}: {error}");
        Failure::new(told, "set TMPDIR to a directory that can be written to")
    };
    let directory =
        tempfile::Builder::new().prefix("palisade-enforced-").tempdir().map_err(failed)?;
    // A profile that extends an observed one takes over its rules, and is enforced.
    let text = format!(
        "version = 1\ndescription = \"An observed profile as it would be enforced.\"\n\
         extends = {name:?}\n"
    );
    std::fs::write(directory.path().join(format!("{ENFORCED}.toml")), text).map_err(failed)?;
    Ok(Some(directory))
}

/// Tries a profile's tests in a session of its own.
async fn attempt(client: &Client, opened: &str, profile: &Profile) -> Result<u8, Failure> {
    let scratch = probe::Scratch::new()?;
    let session = client.open(Open::new(scratch.path()).profile(opened)).await?;
    let mut status = 0;
    for test in profile.tests() {
        let told = explain(profile, &scratch.scene(), test.act, &test.target);
        let told = told.map_err(|error| {
            Failure::new(error.to_string(), "the workspace of this test is a temporary directory")
        })?;
        let outcome = probe::attempt(&session, &scratch, test, &told).await?;
        tell(profile, test, &outcome, paint::stdout())?;
        match outcome {
            Outcome::Held | Outcome::Absent => {}
            Outcome::Broken(_) | Outcome::Untried(_) => status = FAILED,
        }
    }
    session.close().await?;
    Ok(status)
}

fn tell(profile: &Profile, test: &Example, outcome: &Outcome, paint: Paint) -> Result<(), Failure> {
    let shown = format!("{}: {}", profile.name(), harmless(&test.to_string()));
    let line = match outcome {
        Outcome::Held => format!("{} {shown}", paint.apply(Style::Good, "holds  ")),
        Outcome::Absent => {
            let mark = paint.apply(Style::Hint, "absent ");
            format!("{mark} {shown}: not tried, because it does not exist on this host")
        }
        Outcome::Broken(why) => {
            let mark = paint.apply(Style::Error, "BROKEN ");
            format!("{mark} {shown}: {} ({})", harmless(why), test.at)
        }
        Outcome::Untried(why) => {
            let mark = paint.apply(Style::Error, "UNTRIED");
            format!("{mark} {shown}: {}", harmless(why))
        }
    };
    print::line(&line)
}
