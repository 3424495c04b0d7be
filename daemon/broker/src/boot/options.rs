//! The command line of `palisaded`. Only parses it, without side effects. Runs in the broker.

use crate::{
    base::services::AllowedServices,
    boot::config::{AllowedPorts, LogFilter, UpstreamProxy},
};
use clap::Parser;
use std::path::PathBuf;

/// The daemon that AI agents run their tools through, confined.
#[derive(Debug, Clone, Default, Parser)]
#[command(name = "palisaded", version, about)]
pub struct Options {
    /// Configuration file [default: /etc/palisade/palisaded.toml for root, else
    /// $XDG_CONFIG_HOME/palisade/palisaded.toml, if it exists]
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Check the configuration, the profiles and the daemon's directories, print what would be
    /// done, and exit; the exit status is 78 if something is wrong, and the message names file,
    /// line and key
    #[arg(long)]
    pub check: bool,
    /// Print every setting in force and where it comes from, as a configuration file, and exit
    #[arg(long, conflicts_with = "check")]
    pub dump_config: bool,
    /// The agent socket [default: /run/palisade/agent.sock for root, else
    /// $XDG_RUNTIME_DIR/palisade/agent.sock]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// The operator socket, where approval requests are answered [default: operator.sock beside the
    /// agent socket]
    #[arg(long, value_name = "PATH")]
    pub operator_socket: Option<PathBuf>,
    /// The provider socket, where other processes register tools [default: provider.sock beside the
    /// agent socket]
    #[arg(long, value_name = "PATH")]
    pub provider_socket: Option<PathBuf>,
    /// A directory of profiles; may be given several times
    #[arg(long, value_name = "DIR")]
    pub profiles: Vec<PathBuf>,
    /// With --embedded, load only this profile and those that it extends; sessions of other profiles
    /// can not be opened [default: every profile; without a name: the default profile]
    #[arg(long, value_name = "NAME", requires = "embedded", require_equals = true, num_args = 0..=1,
          default_missing_value = palisade_policy::DEFAULT)]
    pub only_profile: Option<String>,
    /// The directory of the output store and the audit log [default: /var/lib/palisade for root,
    /// else $XDG_STATE_HOME/palisade]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// When audit records are forced to disk: `always` (before each call, costs milliseconds each)
    /// or a longest delay. Records survive the daemon's end in any case; this protects against
    /// power loss [default: 50ms]
    #[arg(long, value_name = "WHEN")]
    pub audit_sync: Option<palisade_audit::Sync>,
    /// The user that the daemon switches to if root starts it [default: palisade, else an unused
    /// uid]
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// The socket of a launcher that runs as its own service; without it, the daemon starts a
    /// launcher
    #[arg(long, value_name = "PATH")]
    pub launcher_socket: Option<PathBuf>,
    /// The socket of a service that starts egress rooms, which carry the connections of sessions with
    /// net.mode = "domains"; without it, the daemon starts them
    #[arg(long, value_name = "PATH")]
    pub egress_socket: Option<PathBuf>,
    /// The HTTP proxy of this network, HOST:PORT, through which egress rooms connect to other hosts;
    /// https://HOST:PORT if it speaks TLS, credential:NAME@HOST:PORT if it wants a password [default:
    /// none, they connect by themselves]
    #[arg(long, value_name = "HOST:PORT")]
    pub egress_proxy: Option<UpstreamProxy>,
    /// The directory with a file for each credential of net.rule, for egress rooms that the daemon
    /// starts [default: /etc/palisade/credentials for root, else $XDG_CONFIG_HOME/palisade/credentials]
    #[arg(long, value_name = "DIR")]
    pub credentials: Option<PathBuf>,
    /// The TCP ports that sessions may connect to on the host's network, if their profile has
    /// net.mode = "ports": 53,80,443, any, or none. Applies to the launcher that the daemon starts
    /// [default: none if root starts it, any if a user does]
    #[arg(long, value_name = "PORTS", conflicts_with = "launcher_socket")]
    pub allow_ports: Option<AllowedPorts>,
    /// The services of this host that sessions may use, if net.host of their profile names them:
    /// ports and paths of Unix sockets, separated by commas, any, or none [default: none if root
    /// starts the daemon, any if a user does]
    #[arg(long, value_name = "SERVICES")]
    pub allow_host: Option<AllowedServices>,
    /// The ports of sessions that may be published on this host's loopback, if net.publish of their
    /// profile names them: ports separated by commas, any, or none [default: none if root starts the
    /// daemon, any if a user does]
    #[arg(long, value_name = "PORTS")]
    pub allow_publish: Option<AllowedServices>,
    /// Serve the one client that is connected to standard input, and exit with it
    #[arg(long)]
    pub embedded: bool,
    /// With --embedded, serve the one operator that is connected to standard output
    #[arg(long, requires = "embedded")]
    pub operator_stdout: bool,
    /// With --embedded, prepare nothing for a second call. More calls work, but begin more slowly
    #[arg(long, requires = "embedded")]
    pub one_call: bool,
    /// With --embedded, let a call take as long as a job of its profile: limits.job_ms instead of
    /// limits.max_timeout_ms, and at most 24 hours
    #[arg(long, requires = "embedded")]
    pub long_calls: bool,
    /// With --embedded, standard input is a listening socket: serve the clients of this user that connect
    /// to it, from the background, and exit after this many milliseconds without one
    #[arg(long, value_name = "MS", requires = "embedded",
          conflicts_with_all = ["operator_stdout", "one_call"])]
    pub linger_ms: Option<u64>,
    /// At the start, try to escape from a session of each profile; refuse to serve profiles that
    /// are not proved
    #[arg(long)]
    pub prove_at_start: bool,
    /// Run the named escape attempts; used inside a session that is being proved
    #[arg(long, hide = true, num_args = 1.., value_name = "ATTEMPT")]
    pub attempt: Vec<String>,
    /// What to log, as in RUST_LOG: `info`, `palisade_broker=debug`, ...
    #[arg(long, value_name = "FILTER")]
    pub log: Option<LogFilter>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        use clap::CommandFactory as _;
        Options::command().debug_assert();
    }
}
