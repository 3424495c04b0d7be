//! `palisade mcp wrap`: a server of the Model Context Protocol that runs confined, and a relay between
//! it and the agent. The relay passes on only what it knows, and believes nothing that the server says
//! about itself.

mod agent;
mod approval;
mod backoff;
mod flow;
mod inner;
mod input;
mod label;
mod life;
mod message;
mod output;
mod pin;
mod relay;
mod result;
mod started;
mod tool_list;

use crate::serve;
pub(crate) use inner::InnerServer;
pub(crate) use message::printable;

use agent::{AgentReader, AgentWriter};
use life::ServerSetup;
use palisade_options::{WorkspaceError, WrapOptions};
use pin::{PinError, PinFile};
use relay::{Relay, RelayOptions};
use sha2::{Digest as _, Sha256};
use std::{
    collections::BTreeMap,
    env, fs, io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::mpsc, time::timeout};

/// The time that the processes of the server may take to end.
const GRACE: Duration = Duration::from_secs(10);

/// The maximum number of the agent's requests that may wait for the server.
const MAX_QUEUED: usize = 64;

/// The reason the server can not be wrapped.
#[derive(Debug, thiserror::Error)]
pub(crate) enum WrapError {
    #[error("can not start: {0}")]
    Start(#[source] io::Error),
    #[error("{0}; {hint}", hint = WorkspaceError::HINT)]
    Workspace(#[from] WorkspaceError),
    #[error("neither XDG_STATE_HOME nor HOME is an absolute path; give --workspace and --pin")]
    NoState,
    #[error("can not make {}: {source}; give --workspace and --pin", path.display())]
    State { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Pin(#[from] PinError),
    #[error("{0}")]
    Server(String),
}

/// Serves until the end of standard input or a signal, or accepts the server's tools.
pub(crate) fn run(options: &WrapOptions) -> Result<(), WrapError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(WrapError::Start)?;
    let ended = runtime.block_on(wrap(options));
    // A pending read of standard input must not delay the exit.
    runtime.shutdown_background();
    ended
}

async fn wrap(options: &WrapOptions) -> Result<(), WrapError> {
    let name = options.name.clone().unwrap_or_else(|| default_name(&options.command));
    let workspace = match &options.workspace {
        Some(path) => path.clone(),
        None => own_directory(&state_directory(&name)?)?,
    };
    let pin = match &options.pin {
        Some(path) => path.clone(),
        None => state_directory(&name)?.join("tools.json"),
    };
    let terms = options.terms(workspace);
    let setup = ServerSetup {
        name,
        open: terms.open()?,
        profile: terms.profile,
        connection: terms.connection,
        command: options.command.clone(),
        environment: BTreeMap::new(),
        timeout: options.timeout,
    };
    let agent = Arc::new(AgentWriter::new());
    let relay_options = RelayOptions {
        max_output: usize::try_from(options.max_output).unwrap_or(usize::MAX),
        accept_command: accept_command(env::args().skip(2)),
    };
    let mut relay = Relay::new(setup, PinFile::new(pin), Arc::clone(&agent), relay_options);
    let signalled = serve::signalled().map_err(WrapError::Start)?;
    let served = if options.accept_tools {
        tokio::select! {
            accepted = relay.accept_tools() => accepted,
            () = signalled => Ok(()),
        }
    } else {
        let (queue, requests) = mpsc::channel(MAX_QUEUED);
        let reader = AgentReader::new(agent, queue);
        tokio::select! {
            () = reader.run() => {}
            () = relay.serve(requests) => {}
            () = signalled => {}
        }
        Ok(())
    };
    if timeout(GRACE, relay.close()).await.is_err() {
        eprintln!(
            "warning: the session did not end within {GRACE:?}; the daemon goes on ending it"
        );
    }
    served
}

/// Makes a name from the server's command: the program's, and a digest of all words.
fn default_name(command: &[String]) -> String {
    let program = command.first().map(Path::new).and_then(Path::file_name).unwrap_or_default();
    let plain = |c: &char| c.is_ascii_alphanumeric() || "._-".contains(*c);
    let program: String = program.to_string_lossy().chars().filter(plain).take(40).collect();
    let digest = palisade_text::hex(&Sha256::digest(command.join("\0")));
    format!("server-{program}-{}", digest.get(..8).unwrap_or_default())
}

/// Returns the directory of a server's own files. It is not below the state directory of a daemon, which
/// shares that with no session.
fn state_directory(name: &str) -> Result<PathBuf, WrapError> {
    let absolute = |variable| {
        env::var_os(variable).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute())
    };
    let state = absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local/state")))
        .ok_or(WrapError::NoState)?;
    Ok(state.join("palisade-mcp").join(name))
}

/// Makes the directory that a server has in place of a workspace.
fn own_directory(state: &Path) -> Result<PathBuf, WrapError> {
    let path = state.join("workspace");
    match fs::DirBuilder::new().recursive(true).mode(0o700).create(&path) {
        Ok(()) => Ok(path),
        Err(source) => Err(WrapError::State { path, source }),
    }
}

/// Returns the command with which a person accepts the server's tools, as a shell line.
fn accept_command(words: impl Iterator<Item = String>) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    let quoted = words.map(|word| {
        if !word.is_empty() && word.chars().all(plain) {
            word
        } else {
            format!("'{}'", word.replace('\'', "'\\''"))
        }
    });
    let words: Vec<String> = quoted.collect();
    format!("palisade mcp wrap --accept-tools {}", words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_default_name_tells_commands_apart() {
        let name = |words: &[&str]| {
            default_name(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())
        };
        let git = name(&["/usr/bin/mcp-server-git"]);
        assert!(git.starts_with("server-mcp-server-git-"), "{git}");
        assert_eq!(git.len(), "server-mcp-server-git-".len() + 8);
        assert_ne!(git, name(&["/usr/bin/mcp-server-git", "x"]));
        assert!(name(&["/a/we ird\n$"]).starts_with("server-weird-"));
    }

    #[test]
    fn the_command_that_accepts_tools_can_be_pasted() {
        let words = ["--name", "a", "--", "node", "it's", ""].map(str::to_owned);
        assert_eq!(
            accept_command(words.into_iter()),
            "palisade mcp wrap --accept-tools --name a -- node 'it'\\''s' ''"
        );
    }
}
