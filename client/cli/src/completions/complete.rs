//! `palisade complete`: prints the values that a shell offers for a word: profiles, tools and ids. Run by
//! the completions, at a key press: it starts no daemon and prints no error.

use crate::{
    failure::Failure,
    operator::{self, OperatorOptions},
    print,
    profile::{Directories, load},
};
use clap::{Args, Command};
use palisade_client::{Client, Operator, UndoQuery};
use palisade_options::{
    Connection,
    connect::{self, DaemonChoice},
};
use std::{collections::BTreeSet, fs, path::Path, time::Duration};

/// The longest time that a key press may wait for a daemon.
const PATIENCE: Duration = Duration::from_secs(2);

/// The name of the daemon's process.
const DAEMON: &str = "palisaded";

/// Print the values for the last word of a command line, one a line
#[derive(Debug, Args)]
#[command(after_help = "\
Run by the scripts that `palisade completions` prints. Prints nothing if there is nothing to offer.
A daemon is asked only if one is running.

Examples:
  palisade complete -- run --profile ''")]
pub(crate) struct Complete {
    /// The words behind the program's name, up to the one that is completed
    #[arg(required = true, allow_hyphen_values = true, value_name = "WORD")]
    words: Vec<String>,
}

/// The kind of values that a word may have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ValueKind {
    Profiles,
    Tools,
    /// Calls that are stored or run as jobs.
    OwnCalls,
    /// Calls and sessions of all users.
    Running,
    /// Approval requests.
    Requests,
}

/// The kind of the operands of each subcommand that has such values.
const OPERANDS: [(&[&str], ValueKind); 14] = [
    (&["call"], ValueKind::Tools),
    (&["undo"], ValueKind::OwnCalls),
    (&["output"], ValueKind::OwnCalls),
    (&["why"], ValueKind::OwnCalls),
    (&["kill"], ValueKind::Running),
    (&["answer"], ValueKind::Requests),
    (&["tx", "show"], ValueKind::Requests),
    (&["tx", "commit"], ValueKind::Requests),
    (&["tx", "discard"], ValueKind::Requests),
    (&["profile", "show"], ValueKind::Profiles),
    (&["profile", "check"], ValueKind::Profiles),
    (&["profile", "explain"], ValueKind::Profiles),
    (&["profile", "test"], ValueKind::Profiles),
    (&["profile", "diff"], ValueKind::Profiles),
];

impl Complete {
    pub(crate) async fn perform(self, definition: &Command) -> Result<u8, Failure> {
        let Some((current, before)) = self.words.split_last() else { return Ok(0) };
        let Some(kind) = kind(before, current, definition) else { return Ok(0) };
        let values = tokio::time::timeout(PATIENCE, values(kind)).await.unwrap_or_default();
        for value in values.iter().filter(|value| value.starts_with(current.as_str())) {
            print::line(value)?;
        }
        Ok(0)
    }
}

/// Returns the kind of values that the last word may have; `None` if a shell knows better.
fn kind(before: &[String], current: &str, definition: &Command) -> Option<ValueKind> {
    let mut command = definition;
    let mut path = Vec::new();
    let mut operands = 0;
    let mut option = None;
    for word in before {
        if option.take().is_some() {
            continue;
        }
        if let Some(name) = word.strip_prefix("--") {
            let arguments = &mut command.get_arguments();
            option = arguments
                .find(|argument| argument.get_long() == Some(name))
                .filter(|argument| argument.get_action().takes_values());
        } else if let Some(found) = command.find_subcommand(word) {
            command = found;
            path.push(found.get_name());
        } else if !word.starts_with('-') {
            operands += 1;
        }
    }
    match option {
        Some(option) => (option.get_long() == Some("profile")).then_some(ValueKind::Profiles),
        None if current.starts_with('-') => None,
        None => {
            let (path, kind) = OPERANDS.iter().find(|(words, _)| **words == path)?;
            let many = matches!(path, ["kill"] | ["profile", "check" | "test" | "diff"]);
            (many || operands == 0).then_some(*kind)
        }
    }
}

async fn values(kind: ValueKind) -> BTreeSet<String> {
    let asked = match kind {
        ValueKind::Profiles => return profiles().await,
        ValueKind::Tools => tools().await,
        ValueKind::OwnCalls => own_calls().await,
        ValueKind::Running => running().await,
        ValueKind::Requests => requests().await,
    };
    asked.unwrap_or_default()
}

/// Returns the profiles that the running daemon has, or those of this host's files.
async fn profiles() -> BTreeSet<String> {
    if let Some(client) = client().await
        && let Ok(status) = client.status().await
    {
        return status.profiles.into_iter().collect();
    }
    let built_in = palisade_policy::builtin().into_iter().map(|(name, _)| name.to_owned());
    let files = load::directories(&Directories::new(Vec::new())).into_iter();
    let files = files.flat_map(|directory| fs::read_dir(directory).into_iter().flatten().flatten());
    let own = files.filter_map(|entry| {
        let name = entry.file_name().into_string().ok()?;
        name.strip_suffix(".toml").map(str::to_owned)
    });
    built_in.chain(own).collect()
}

async fn tools() -> Option<BTreeSet<String>> {
    let tools = client().await?.tools().await.ok()?;
    Some(tools.into_iter().map(|tool| tool.name.to_string()).collect())
}

async fn own_calls() -> Option<BTreeSet<String>> {
    let client = client().await?;
    let records = client.undo_records(UndoQuery::default()).await.ok()?;
    let jobs = client.jobs().await.ok()?;
    let calls = records.records.into_iter().map(|record| record.call_id.to_string());
    Some(calls.chain(jobs.jobs.into_iter().map(|job| job.call_id.to_string())).collect())
}

async fn running() -> Option<BTreeSet<String>> {
    let overview = operator().await?.overview().await.ok()?;
    let calls = overview.calls.into_iter().map(|call| call.call_id.to_string());
    Some(calls.chain(overview.sessions.into_iter().map(|one| one.session.to_string())).collect())
}

async fn requests() -> Option<BTreeSet<String>> {
    let pending = operator().await?.pending().await.ok()?;
    Some(pending.into_iter().map(|request| request.id.to_string()).collect())
}

/// Connects to the daemon that is running.
async fn client() -> Option<Client> {
    if !is_running() {
        return None;
    }
    match connect::find(&Connection::default()).await {
        Ok(DaemonChoice::Running(client)) => Some(client),
        Ok(DaemonChoice::Private(..)) | Err(_) => None,
    }
}

async fn operator() -> Option<Operator> {
    if !is_running() {
        return None;
    }
    operator::connect(&OperatorOptions::default()).await.ok()
}

/// Returns `true` if a daemon's process is visible. Connecting to the socket of a service that is
/// stopped would start it.
fn is_running() -> bool {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    processes.map(|entry| entry.path()).any(|process| is_daemon(&process))
}

fn is_daemon(process: &Path) -> bool {
    fs::read_to_string(process.join("comm")).is_ok_and(|name| name.trim_end() == DAEMON)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind_of(line: &str) -> Option<ValueKind> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let (current, before) = words.split_last().unwrap();
        kind(before, current, &crate::commands::definition())
    }

    #[test]
    fn a_word_is_completed_by_its_place() {
        for line in
            ["run --profile ", "run --env A=1 --profile wo", "profile show s", "profile diff a "]
        {
            assert_eq!(kind_of(line), Some(ValueKind::Profiles), "{line}");
        }
        assert_eq!(kind_of("call "), Some(ValueKind::Tools));
        assert_eq!(kind_of("undo --json 01"), Some(ValueKind::OwnCalls));
        assert_eq!(kind_of("kill a b"), Some(ValueKind::Running));
        assert_eq!(kind_of("answer "), Some(ValueKind::Requests));
        for line in ["run ", "run --workspace ", "undo --", "profile ", "answer q-1 ", "call bash "]
        {
            assert_eq!(kind_of(line), None, "{line}");
        }
    }

    #[test]
    fn every_subcommand_with_values_exists() {
        for (path, _) in OPERANDS {
            let definition = crate::commands::definition();
            let mut command = &definition;
            for name in path {
                command = command.find_subcommand(name).unwrap();
            }
            assert!(command.get_positionals().next().is_some(), "{path:?}");
        }
    }
}
