//! Operators' commands: finds the operator socket, named or default, and contains the commands that
//! need nothing else.

pub(crate) mod answer;
pub(crate) mod forget;
pub(crate) mod grants;
pub(crate) mod kill;
pub(crate) mod pending;
pub(crate) mod sessions;
pub(crate) mod top;
pub(crate) mod tx;

use crate::failure::Failure;
use clap::Args;
use palisade_client::{Client, Embedded, Error, Operator};
use std::{
    ffi::OsString,
    io::ErrorKind,
    path::{Path, PathBuf},
};

/// The operator socket of the system's daemon.
const SYSTEM: &str = "/run/palisade/operator.sock";

/// The options that select a daemon, for operators.
#[derive(Debug, Default, Args)]
pub(crate) struct OperatorOptions {
    /// The daemon's operator socket [default: $PALISADE_OPERATOR_SOCKET, operator.sock beside
    /// $PALISADE_SOCKET, or a running daemon's]
    #[arg(long, value_name = "PATH", help_heading = "Daemon")]
    pub(crate) operator_socket: Option<PathBuf>,
}

/// Connects as an operator. There is no private daemon as a fallback: it would have no approval
/// requests.
pub(crate) async fn connect(options: &OperatorOptions) -> Result<Operator, Failure> {
    let mut last = None;
    for path in places(options, Surroundings::of_process()) {
        match Operator::connect(&path).await {
            Ok(operator) => return Ok(operator),
            Err(Error::Connect { path, source }) => {
                let told =
                    format!("can not connect to {} as an operator: {source}", path.display());
                // The first failure is the most helpful: it is about the named socket, or the
                // user's own.
                last.get_or_insert(told);
            }
            Err(error) => return Err(error.into()),
        }
    }
    Err(Failure::new(
        last.unwrap_or_default(),
        "is palisaded running, and may this user use its operator socket (for the service: group \
         palisade-operators)? Name it with --operator-socket or $PALISADE_OPERATOR_SOCKET",
    ))
}

/// Connects as an operator, and starts a private daemon if none is running. A private daemon uses
/// the same stored data as this user's later ones.
pub(crate) async fn connect_or_start(
    options: &OperatorOptions,
) -> Result<(Operator, Option<Client>), Failure> {
    let surroundings = Surroundings::of_process();
    if options.operator_socket.is_some() || surroundings.named.is_some() {
        return Ok((connect(options).await?, None));
    }
    for path in places(options, surroundings) {
        match Operator::connect(&path).await {
            Ok(operator) => return Ok((operator, None)),
            Err(Error::Connect { source, .. })
                if matches!(source.kind(), ErrorKind::NotFound | ErrorKind::ConnectionRefused) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let (client, operator) = Embedded::new().with_operator().await?;
    Ok((operator, Some(client)))
}

/// Returns the operator sockets that may belong to the daemon of an agent socket, the likeliest
/// first. The agent socket is `None` if it is a default one.
pub(crate) fn sockets(options: &OperatorOptions, agent_socket: Option<&Path>) -> Vec<PathBuf> {
    let surroundings = Surroundings::of_process();
    let named = std::env::var_os("PALISADE_OPERATOR_SOCKET").filter(|path| !path.is_empty());
    match agent_socket {
        Some(path) if options.operator_socket.is_none() && named.is_none() => {
            vec![beside(path)]
        }
        Some(_) | None => places(options, surroundings),
    }
}

/// The surroundings of this process that say where operator sockets are.
#[derive(Debug, Clone, Default)]
struct Surroundings {
    /// The socket that the environment names: itself, or by the agent socket that it is beside.
    named: Option<PathBuf>,
    runtime: Option<OsString>,
    root: bool,
}

impl Surroundings {
    fn of_process() -> Self {
        let variables = ["PALISADE_OPERATOR_SOCKET", "PALISADE_SOCKET"].map(std::env::var_os);
        let runtime = std::env::var_os("XDG_RUNTIME_DIR");
        Self { named: named(variables), runtime, root: rustix::process::geteuid().is_root() }
    }
}

/// Returns the operator socket that the variables of an operator and of an agent name.
fn named([operator, agent]: [Option<OsString>; 2]) -> Option<PathBuf> {
    let path = |text: Option<OsString>| text.filter(|text| !text.is_empty()).map(PathBuf::from);
    path(operator).or_else(|| path(agent).map(|agent| beside(&agent)))
}

/// Returns the operator socket of the daemon with this agent socket, if its configuration names no
/// other.
fn beside(agent_socket: &Path) -> PathBuf {
    agent_socket.with_file_name("operator.sock")
}

fn places(options: &OperatorOptions, surroundings: Surroundings) -> Vec<PathBuf> {
    let Surroundings { named, runtime, root } = surroundings;
    if let Some(path) = options.operator_socket.clone().or(named) {
        return vec![path];
    }
    let own = runtime
        .filter(|directory| !root && Path::new(directory).is_absolute())
        .map(|directory| Path::new(&directory).join("palisade/operator.sock"));
    own.into_iter().chain([PathBuf::from(SYSTEM)]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_is_named_is_taken() {
        let option = OperatorOptions { operator_socket: Some("/a".into()) };
        let none = OperatorOptions::default();
        let usual = |runtime: &str, root: bool| {
            let runtime = Some(runtime.into());
            places(&none, Surroundings { named: None, runtime, root })
        };
        let named = |operator: Option<&str>, agent: Option<&str>| {
            super::named([operator, agent].map(|text| text.map(OsString::from)))
        };
        let both = named(Some("/b"), Some("/run/p/agent.sock"));
        let given = Surroundings { named: both.clone(), ..Surroundings::default() };
        assert_eq!(places(&option, given.clone()), [Path::new("/a")]);
        assert_eq!(places(&none, given), [Path::new("/b")]);
        // The daemon that agents are told of has its operator socket beside theirs.
        let beside = Some(PathBuf::from("/run/p/operator.sock"));
        assert_eq!(named(None, Some("/run/p/agent.sock")), beside);
        assert_eq!(named(Some(""), Some("/run/p/agent.sock")), beside);
        assert_eq!(named(Some(""), Some("")), None);
        let own = ["/run/user/7/palisade/operator.sock", SYSTEM].map(PathBuf::from);
        assert_eq!(usual("/run/user/7", false), own);
        assert_eq!(usual("/run/user/7", true), [Path::new(SYSTEM)]);
        assert_eq!(usual("relative", false), [Path::new(SYSTEM)]);
    }
}
