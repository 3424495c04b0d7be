//! The command line. For a service it is in the unit file, which only root can write, and it sets
//! the ceiling.

use crate::{identity::ClientSocket, privilege::Claim, uids};
use palisade_plan::{
    ceiling::{AllowRoot, Ceiling, Reach},
    uids::{RangeError, UidRange},
};
use std::{path::PathBuf, str::FromStr, time::Duration};

/// The text that `--help` prints.
pub const HELP: &str = "\
palisade-launcher: starts the cells of Palisade. palisaded or systemd starts it, not a person.

Standard input is the socket to the broker, or a listening socket that the broker connects to.

Options (they set the ceiling, which no plan may exceed):
  --system               run as the system's launcher: start cells as the users who connect. It does
                         not start without the capabilities for that [default: only for root]
  --cell PATH            the palisade-cell program [default: beside this program]
  --broker-user NAME     the user who may connect to a listening socket [default: only root]
  --agent-socket PATH    the socket on which clients connect to the broker. The system's launcher
                         takes a client's identity only from a connection that was accepted there
                         [default for a service: /run/palisade/agent.sock]
  --client-cookie N      the same for a broker with one client: the SO_COOKIE of its connection
  --one-call             the client makes one call: start no processes for a second one ahead
  --max-memory BYTES     the most memory of a session
  --max-processes N      the most processes of a session
  --max-cpu PERCENT      the most CPU time of a session; 100 is one core
  --max-sessions N       the most sessions at a time
  --min-uid UID          the lowest uid that may have a session
  --allow-ports PORTS    the TCP ports that sessions may connect to on this network: 53,80,443, any,
                         or none [default: none for root's launcher, any for a user's own]
  --store DIR            the directory for transactions too large for memory [default: none]
  --session-uids A-B     unused uids, for sessions that get their own uid [default: none]
  --kernel-audit WORD    the kernel's records of denials to programs: `use` them if kernel audit is
                         on, `enable` kernel audit while this program runs (needs
                         CAP_AUDIT_CONTROL), or `off`. PALISADE_KERNEL_AUDIT sets the same
                         [default: use]
  --allow-root           allow root to have sessions of a service; they have no capabilities
  --help
";

/// The option that tells the inner launcher that it is one, and the privilege that the outer one
/// found.
pub(crate) const INSIDE: &str = "--inside";
/// The option that makes a process of this program keep the kernel's audit enabled.
pub(crate) const KEEP_AUDIT: &str = "--keep-audit";
/// The option that tells the inner launcher why the kernel's audit could not be enabled.
pub(crate) const AUDIT_TROUBLE: &str = "--audit-trouble";

/// The use of the kernel's audit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KernelAudit {
    /// The kernel's records are read if audit is enabled.
    #[default]
    Use,
    /// Audit is enabled, and disabled again at the end.
    Enable,
    /// The kernel's records are not read.
    Off,
}

impl FromStr for KernelAudit {
    type Err = ArgumentError;
    fn from_str(word: &str) -> Result<Self, ArgumentError> {
        match word {
            "use" => Ok(Self::Use),
            "enable" => Ok(Self::Enable),
            "off" => Ok(Self::Off),
            _ => Err(ArgumentError::KernelAudit(word.to_owned())),
        }
    }
}

/// The processes that are started before a request needs them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StartAhead {
    /// The processes of the next session and of each session's next transaction.
    #[default]
    Always,
    /// The processes of the first session only.
    FirstSession,
}

/// The options with which the launcher runs.
#[derive(Debug, Clone)]
pub struct Options {
    /// The claim whose launcher this is.
    pub claim: Claim,
    /// The path of the cell's program.
    pub cell: Option<PathBuf>,
    /// The user who may connect.
    pub broker_user: Option<String>,
    /// The connections from which a client's identity may be taken.
    pub client_socket: Option<ClientSocket>,
    /// The processes that are started before a request needs them.
    pub start_ahead: StartAhead,
    /// The bounds that no plan may exceed.
    pub ceiling: Ceiling,
    /// The ports that sessions may connect to. `None`: depends on who started the launcher.
    pub allow_ports: Option<Reach>,
    /// The directory for transactions that are stored on disk.
    pub store: Option<PathBuf>,
    /// The use of the kernel's audit.
    pub kernel_audit: KernelAudit,
    /// The error from enabling the kernel's audit, as the outer launcher tells the inner one.
    pub(crate) audit_trouble: Option<String>,
    /// The privilege, as the outer launcher tells the inner one; see `nest`.
    pub(crate) inside: Option<String>,
    /// The watchdog interval, as the outer launcher tells the inner one; see `pulse`.
    pub(crate) pulse: Option<Duration>,
}

/// The action that the command line asks for.
#[derive(Debug, Clone)]
pub enum CommandLineAction {
    /// Run the launcher.
    Run(Box<Options>),
    /// Keep the kernel's audit enabled until the end of input; only a launcher uses this, for
    /// itself.
    KeepAudit,
    /// Print [`HELP`].
    Help,
}

/// An error in the command line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// The option does not exist.
    #[error("unknown option {0}")]
    Unknown(String),
    /// An option lacks its value.
    #[error("{0} needs a value")]
    Missing(String),
    /// The value is not a range of uids.
    #[error("--session-uids: {0}")]
    Range(#[from] RangeError),
    /// The value is not a number.
    #[error("{0} needs a whole number above 0, not {1:?}")]
    Number(String, String),
    /// The value is not a list of ports.
    #[error("{0} needs ports such as 53,80,443, or any, or none: {1}")]
    Ports(String, String),
    /// The value is not one of the words for the kernel's audit.
    #[error("--kernel-audit takes use, enable or off, not {0:?}")]
    KernelAudit(String),
}

/// Parses the command line; `kernel_audit` is the environment's setting for the kernel's audit.
///
/// # Errors
/// If there is an option that [`HELP`] does not list, or a value is invalid.
pub fn parse(
    arguments: impl Iterator<Item = String>,
    kernel_audit: Option<String>,
) -> Result<CommandLineAction, ArgumentError> {
    let mut options = Options {
        claim: Claim::Unsaid,
        cell: None,
        broker_user: None,
        client_socket: None,
        start_ahead: StartAhead::default(),
        ceiling: Ceiling::default(),
        allow_ports: None,
        store: None,
        kernel_audit: kernel_audit.map_or(Ok(KernelAudit::default()), |word| word.parse())?,
        audit_trouble: None,
        inside: None,
        pulse: None,
    };
    let mut arguments = arguments;
    while let Some(option) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| ArgumentError::Missing(option.clone()));
        let number = |text: String| match text.parse::<u64>() {
            Ok(number) if number > 0 => Ok(number),
            Ok(_) | Err(_) => Err(ArgumentError::Number(option.clone(), text)),
        };
        match option.as_str() {
            "--help" | "-h" => return Ok(CommandLineAction::Help),
            "--system" => options.claim = Claim::System,
            "--cell" => options.cell = Some(value()?.into()),
            "--store" => options.store = Some(value()?.into()),
            "--one-call" => options.start_ahead = StartAhead::FirstSession,
            "--broker-user" => options.broker_user = Some(value()?),
            "--agent-socket" => {
                options.client_socket = Some(ClientSocket::AcceptedOn(value()?.into()));
            }
            "--client-cookie" => {
                options.client_socket = Some(ClientSocket::Cookie(number(value()?)?));
            }
            "--max-memory" => options.ceiling.max_memory_bytes = number(value()?)?,
            "--max-processes" => options.ceiling.max_processes = number(value()?)?,
            "--max-cpu" => options.ceiling.max_cpu_percent = number(value()?)?,
            "--max-sessions" => options.ceiling.max_sessions = number(value()?)?,
            "--min-uid" => {
                let text = value()?;
                options.ceiling.min_uid = u32::try_from(number(text.clone())?)
                    .map_err(|_| ArgumentError::Number(option.clone(), text))?;
            }
            "--allow-ports" => {
                let ports = value()?.parse();
                options.allow_ports =
                    Some(ports.map_err(|why| ArgumentError::Ports(option.clone(), why))?);
            }
            uids::OPTION => options.ceiling.session_uids = Some(value()?.parse::<UidRange>()?),
            "--kernel-audit" => options.kernel_audit = value()?.parse()?,
            KEEP_AUDIT => return Ok(CommandLineAction::KeepAudit),
            AUDIT_TROUBLE => options.audit_trouble = Some(value()?),
            INSIDE => options.inside = Some(value()?),
            crate::pulse::PULSE => {
                options.pulse = Some(Duration::from_millis(number(value()?)?));
            }
            "--allow-root" => options.ceiling.allow_root = AllowRoot::Yes,
            _ => return Err(ArgumentError::Unknown(option)),
        }
    }
    Ok(CommandLineAction::Run(Box::new(options)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<CommandLineAction, ArgumentError> {
        parse(line.split_whitespace().map(str::to_owned), None)
    }

    #[test]
    fn takes_the_ceiling_from_the_command_line() {
        let line = "--max-memory 5 --min-uid 7 --broker-user p --store /s --allow-ports 443,53 --system \
                    --session-uids 2000-2009 --agent-socket /run/a --max-sessions 9";
        let Ok(CommandLineAction::Run(options)) = parsed(line) else { panic!("not parsed") };
        assert_eq!(options.claim, Claim::System);
        assert_eq!(options.store, Some("/s".into()));
        assert_eq!(options.allow_ports, Some(Reach::Ports([53, 443].into())));
        assert_eq!(options.ceiling.max_memory_bytes, 5);
        assert_eq!(options.ceiling.min_uid, 7);
        assert_eq!(options.ceiling.max_sessions, 9);
        assert_eq!(options.ceiling.session_uids.map(|range| range.count()), Some(10));
        assert_eq!(options.broker_user.as_deref(), Some("p"));
        assert_eq!(options.client_socket, Some(ClientSocket::AcceptedOn("/run/a".into())));
    }

    #[test]
    fn audit_is_as_the_command_line_says_and_else_as_the_environment_does() {
        let said = |line: &str, environment: Option<&str>| {
            let words = line.split_whitespace().map(str::to_owned);
            match parse(words, environment.map(str::to_owned)) {
                Ok(CommandLineAction::Run(options)) => Ok(options.kernel_audit),
                Ok(CommandLineAction::Help | CommandLineAction::KeepAudit) => panic!("not run"),
                Err(error) => Err(error),
            }
        };
        assert_eq!(said("", None), Ok(KernelAudit::Use));
        assert_eq!(said("", Some("enable")), Ok(KernelAudit::Enable));
        assert_eq!(said("--kernel-audit off", Some("enable")), Ok(KernelAudit::Off));
        assert_eq!(said("", Some("on")), Err(ArgumentError::KernelAudit("on".into())));
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        assert_eq!(parsed("--x").err(), Some(ArgumentError::Unknown("--x".into())));
        assert_eq!(parsed("--cell").err(), Some(ArgumentError::Missing("--cell".into())));
        let Some(ArgumentError::Ports(option, _)) = parsed("--allow-ports 0").err() else {
            panic!("a port 0")
        };
        assert_eq!(option, "--allow-ports");
        assert_eq!(
            parsed("--session-uids 5").err().map(|error| error.to_string()),
            Some("--session-uids: \"5\" is not a range of uids, such as 600000-665535".into())
        );
        for bad in ["0", "-1", "many", "99999999999999999999"] {
            let expected = ArgumentError::Number("--max-memory".into(), bad.into());
            assert_eq!(parsed(&format!("--max-memory {bad}")).err(), Some(expected));
        }
    }
}
