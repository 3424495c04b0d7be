//! What was typed: the command line. Nothing is touched here. Broker.

use crate::config::{AllowedPorts, LogFilter};
use clap::Parser;
use std::path::PathBuf;

/// The daemon that AI agents run their tools through, confined.
#[derive(Debug, Clone, Default, Parser)]
#[command(name = "palisaded", version, about)]
pub struct Options {
    /// Configuration file. Else /etc/palisade/palisaded.toml for root,
    /// $XDG_CONFIG_HOME/palisade/palisaded.toml for others, if it exists
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Read configuration and profiles, look at the daemon's directories, say what would be done,
    /// and end; with status 78 if something is wrong, naming file, line and key
    #[arg(long)]
    pub check: bool,
    /// Print every value in force and where it comes from, as a configuration file, and end
    #[arg(long, conflicts_with = "check")]
    pub dump_config: bool,
    /// The agent socket [default: /run/palisade/agent.sock for root, else
    /// $XDG_RUNTIME_DIR/palisade/agent.sock]
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// The operator socket, where checkpoints are answered [default: operator.sock beside the agent
    /// socket]
    #[arg(long, value_name = "PATH")]
    pub operator_socket: Option<PathBuf>,
    /// The provider socket, where other processes register tools [default: provider.sock beside the
    /// agent socket]
    #[arg(long, value_name = "PATH")]
    pub provider_socket: Option<PathBuf>,
    /// A directory of profiles; may be given several times
    #[arg(long, value_name = "DIR")]
    pub profiles: Vec<PathBuf>,
    /// Where spools and the audit log are kept [default: /var/lib/palisade for root, else $XDG_STATE_HOME/palisade]
    #[arg(long, value_name = "DIR")]
    pub state: Option<PathBuf>,
    /// When audit records are forced to the disk: `always` (before each call, milliseconds each)
    /// or within a time. They survive the daemon's end in any case; this is for a loss of power
    /// [default: 50ms]
    #[arg(long, value_name = "WHEN")]
    pub audit_sync: Option<palisade_audit::Sync>,
    /// Whom the daemon becomes if it is started by root [default: palisade, else a free uid]
    #[arg(long, value_name = "NAME")]
    pub user: Option<String>,
    /// The socket of a launcher that is a service of its own; else one is started
    #[arg(long, value_name = "PATH")]
    pub launcher_socket: Option<PathBuf>,
    /// What sessions may connect to in this network by TCP, if their profile has net.mode = "ports":
    /// 53,80,443, any, or none; for the launcher that is started [default: none if it is root's, any
    /// of a user's own]
    #[arg(long, value_name = "PORTS", conflicts_with = "launcher_socket")]
    pub allow_ports: Option<AllowedPorts>,
    /// Serve the one client that is connected to standard input, and end with it
    #[arg(long)]
    pub embedded: bool,
    /// With --embedded, hear the one operator who is connected to standard output
    #[arg(long, requires = "embedded")]
    pub operator_stdout: bool,
    /// Try to escape from a session of each profile at the start, and serve none that is not proved
    #[arg(long)]
    pub prove_at_start: bool,
    /// What runs inside a session that is proved
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
