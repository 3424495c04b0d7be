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
    /// The daemon's operator socket [default: $PALISADE_OPERATOR_SOCKET, or a running daemon's]
    #[arg(long, value_name = "PATH", help_heading = "Daemon")]
    pub(crate) operator_socket: Option<PathBuf>,
}

/// Connects as an operator. There is no private daemon as a fallback: it would have no approval
/// requests.
pub(crate) async fn connect(options: &OperatorOptions) -> Result<Operator, Failure> {
    let root = rustix::process::geteuid().is_root();
    let named = std::env::var_os("PALISADE_OPERATOR_SOCKET");
    let mut last = None;
    for path in places(options, named, std::env::var_os("XDG_RUNTIME_DIR"), root) {
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
    let root = rustix::process::geteuid().is_root();
    let named = std::env::var_os("PALISADE_OPERATOR_SOCKET").filter(|path| !path.is_empty());
    if options.operator_socket.is_some() || named.is_some() {
        return Ok((connect(options).await?, None));
    }
    for path in places(options, None, std::env::var_os("XDG_RUNTIME_DIR"), root) {
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
    let root = rustix::process::geteuid().is_root();
    let named = std::env::var_os("PALISADE_OPERATOR_SOCKET").filter(|path| !path.is_empty());
    match agent_socket {
        Some(path) if options.operator_socket.is_none() && named.is_none() => {
            vec![path.with_file_name("operator.sock")]
        }
        Some(_) | None => places(options, named, std::env::var_os("XDG_RUNTIME_DIR"), root),
    }
}

fn places(
    options: &OperatorOptions,
    named: Option<OsString>,
    runtime: Option<OsString>,
    root: bool,
) -> Vec<PathBuf> {
    if let Some(path) = &options.operator_socket {
        return vec![path.clone()];
    }
    if let Some(path) = named.filter(|path| !path.is_empty()) {
        return vec![PathBuf::from(path)];
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
        let (named, runtime) = (Some("/b".into()), Some("/run/user/7".into()));
        assert_eq!(places(&option, named.clone(), runtime.clone(), false), [Path::new("/a")]);
        assert_eq!(places(&none, named, runtime.clone(), false), [Path::new("/b")]);
        let usual = ["/run/user/7/palisade/operator.sock", SYSTEM].map(PathBuf::from);
        assert_eq!(places(&none, Some("".into()), runtime.clone(), false), usual);
        assert_eq!(places(&none, None, runtime, true), [Path::new(SYSTEM)]);
        assert_eq!(places(&none, None, Some("relative".into()), false), [Path::new(SYSTEM)]);
    }
}
