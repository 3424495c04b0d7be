//! The command line. As a service its unit file, which only root can write, carries the ceiling.

use crate::{privilege::Claim, uids};
use palisade_plan::{
    ceiling::{AllowRoot, Ceiling, Reach},
    uids::{RangeError, UidRange},
};
use std::{path::PathBuf, str::FromStr, time::Duration};

/// What `--help` prints.
pub const HELP: &str = "\
palisade-launcher: starts Palisade's cells. Started by palisaded, or by systemd; not by hand.

Standard input is the socket to the broker, or a listening socket that it connects to.

Options (the ceiling: no plan may ask for more, whoever asks):
  --system               this is the system's launcher, whoever it runs as: it starts cells as the users who
                         connect, and does not start without the capabilities for that; root's is, if not given
  --cell PATH            the palisade-cell to start; beside this program if not given
  --broker-user NAME     who may connect to a listening socket; root only if not given
  --max-memory BYTES     of a session
  --max-processes N      of a session
  --max-cpu PERCENT      of a session, 100 being one core
  --min-uid UID          the lowest uid that may have a session
  --allow-ports PORTS    what sessions may connect to in this network, by TCP: 53,80,443, any, or none;
                         if not given, none of root's launcher and any of a user's own
  --store DIR            where transactions may keep what is too much for memory; none if not given
  --session-uids A-B     uids that nobody has, for sessions that are to have one of their own; none if
                         not given
  --kernel-audit WORD    the kernel's records of what it refuses to programs: use them where audit is on
                         (the default), enable audit for as long as this program lives (which takes
                         CAP_AUDIT_CONTROL), or off. PALISADE_KERNEL_AUDIT says the same
  --allow-root           root may have sessions of a service, too; they have no capabilities
  --help
";

/// Tells the inner launcher that it is one, and what privilege the outer one settled for.
pub(crate) const INSIDE: &str = "--inside";
/// Makes a process of this program that keeps the kernel's audit on.
pub(crate) const KEEP_AUDIT: &str = "--keep-audit";
/// Tells the inner launcher why the kernel's audit could not be turned on.
pub(crate) const AUDIT_TROUBLE: &str = "--audit-trouble";

/// What is done with the kernel's audit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum KernelAudit {
    /// Its records are read where it is on.
    #[default]
    Use,
    /// It is turned on, and off again at the end.
    Enable,
    /// Its records are not read.
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

/// How the launcher runs.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whose launcher this is.
    pub claim: Claim,
    /// The cell's program.
    pub cell: Option<PathBuf>,
    /// Who may connect.
    pub broker_user: Option<String>,
    /// What no plan may exceed.
    pub ceiling: Ceiling,
    /// What of the network it is to be; else it goes by who started the launcher.
    pub allow_ports: Option<Reach>,
    /// Where transactions may be kept on the disk.
    pub store: Option<PathBuf>,
    /// What is done with the kernel's audit.
    pub kernel_audit: KernelAudit,
    /// Why it could not be turned on, said by the outer launcher to the inner one.
    pub(crate) audit_trouble: Option<String>,
    /// Set by the outer launcher for the inner one; see `nest`.
    pub(crate) inside: Option<String>,
    /// The same, of `pulse`.
    pub(crate) pulse: Option<Duration>,
}

/// What the command line asks for.
#[derive(Debug, Clone)]
pub enum Parsed {
    /// To run.
    Run(Box<Options>),
    /// To keep the kernel's audit on until the end of its input; said by a launcher to itself.
    KeepAudit,
    /// To print [`HELP`].
    Help,
}

/// Why a command line was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentError {
    /// No such option.
    #[error("there is no option {0}")]
    Unknown(String),
    /// An option without its value.
    #[error("{0} needs a value")]
    Missing(String),
    /// Not a range of uids.
    #[error("--session-uids: {0}")]
    Range(#[from] RangeError),
    /// Not a number.
    #[error("{0} needs a whole number above 0, and {1:?} is none")]
    Number(String, String),
    /// Not a list of ports.
    #[error("{0} needs ports such as 53,80,443, or any, or none: {1}")]
    Ports(String, String),
    /// Not a word.
    #[error("--kernel-audit takes use, enable or off, and {0:?} is none of them")]
    KernelAudit(String),
}

/// Reads the command line; `kernel_audit` is what the environment says of that.
///
/// # Errors
/// If it has anything that [`HELP`] does not.
pub fn parse(
    arguments: impl Iterator<Item = String>,
    kernel_audit: Option<String>,
) -> Result<Parsed, ArgumentError> {
    let mut options = Options {
        claim: Claim::Unsaid,
        cell: None,
        broker_user: None,
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
            "--help" | "-h" => return Ok(Parsed::Help),
            "--system" => options.claim = Claim::System,
            "--cell" => options.cell = Some(value()?.into()),
            "--store" => options.store = Some(value()?.into()),
            "--broker-user" => options.broker_user = Some(value()?),
            "--max-memory" => options.ceiling.max_memory_bytes = number(value()?)?,
            "--max-processes" => options.ceiling.max_processes = number(value()?)?,
            "--max-cpu" => options.ceiling.max_cpu_percent = number(value()?)?,
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
            KEEP_AUDIT => return Ok(Parsed::KeepAudit),
            AUDIT_TROUBLE => options.audit_trouble = Some(value()?),
            INSIDE => options.inside = Some(value()?),
            crate::pulse::PULSE => {
                options.pulse = Some(Duration::from_millis(number(value()?)?));
            }
            "--allow-root" => options.ceiling.allow_root = AllowRoot::Yes,
            _ => return Err(ArgumentError::Unknown(option)),
        }
    }
    Ok(Parsed::Run(Box::new(options)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<Parsed, ArgumentError> {
        parse(line.split_whitespace().map(str::to_owned), None)
    }

    #[test]
    fn takes_the_ceiling_from_the_command_line() {
        let line = "--max-memory 5 --min-uid 7 --broker-user p --store /s --allow-ports 443,53 --system \
                    --session-uids 2000-2009";
        let Ok(Parsed::Run(options)) = parsed(line) else { panic!("not parsed") };
        assert_eq!(options.claim, Claim::System);
        assert_eq!(options.store, Some("/s".into()));
        assert_eq!(options.allow_ports, Some(Reach::Ports([53, 443].into())));
        assert_eq!(options.ceiling.max_memory_bytes, 5);
        assert_eq!(options.ceiling.min_uid, 7);
        assert_eq!(options.ceiling.session_uids.map(|range| range.count()), Some(10));
        assert_eq!(options.broker_user.as_deref(), Some("p"));
    }

    #[test]
    fn audit_is_as_the_command_line_says_and_else_as_the_environment_does() {
        let said = |line: &str, environment: Option<&str>| {
            let words = line.split_whitespace().map(str::to_owned);
            match parse(words, environment.map(str::to_owned)) {
                Ok(Parsed::Run(options)) => Ok(options.kernel_audit),
                Ok(Parsed::Help | Parsed::KeepAudit) => panic!("not run"),
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
            Some("--session-uids: \"5\" is no range of uids, as 600000-665535 is one".into())
        );
        for bad in ["0", "-1", "many", "99999999999999999999"] {
            let expected = ArgumentError::Number("--max-memory".into(), bad.into());
            assert_eq!(parsed(&format!("--max-memory {bad}")).err(), Some(expected));
        }
    }
}
