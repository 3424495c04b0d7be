//! The ceiling's rule for the network: which ports of the launcher's own network a session may
//! connect to.

use super::error::CeilingError;
use crate::{
    Network,
    listeners::{INWARD_SOCKETS, MAX_DIRECT_PORTS, can_be_direct},
};
use std::{collections::BTreeSet, fmt, str::FromStr};

/// Most ports in one plan. A longer list would in effect allow everything.
const MOST_PORTS: usize = 256;

/// The ports of the launcher's own network that a session may connect to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reach {
    /// No port: every session has its own network.
    Nothing,
    /// TCP connections to these ports.
    Ports(BTreeSet<u16>),
    /// TCP connections to any port.
    EveryPort,
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => f.write_str("no port"),
            Self::Ports(ports) => f.write_str(&listed(ports)),
            Self::EveryPort => f.write_str("any port"),
        }
    }
}

impl FromStr for Reach {
    type Err = String;

    /// Parses the value of `--allow-ports`: `53,80,443`, `any` or `none`.
    fn from_str(text: &str) -> Result<Self, String> {
        let port = |word: &str| match word.trim().parse::<u16>() {
            Ok(port) if port > 0 => Ok(port),
            Ok(_) | Err(_) => Err(format!("{word:?} is not a port from 1 to 65535")),
        };
        match text {
            "none" => Ok(Self::Nothing),
            "any" => Ok(Self::EveryPort),
            list => list.split(',').map(port).collect::<Result<_, _>>().map(Self::Ports),
        }
    }
}

fn listed<'a>(ports: impl IntoIterator<Item = &'a u16>) -> String {
    let ports: Vec<_> = ports.into_iter().map(u16::to_string).collect();
    ports.join(",")
}

impl Reach {
    /// Checks a plan's network against the allowed ports.
    pub(super) fn check(&self, network: &Network) -> Result<(), CeilingError> {
        let ports = match network {
            Network::None | Network::Loopback => return Ok(()),
            Network::Domains(ports) => return check_listeners(ports),
            Network::Ports(ports) => ports,
        };
        if ports.is_empty() {
            return Err(CeilingError::Empty("ports"));
        }
        if ports.len() > MOST_PORTS {
            let wanted = u64::try_from(ports.len()).unwrap_or(u64::MAX);
            return Err(CeilingError::Over { limit: "ports", wanted, most: MOST_PORTS as u64 });
        }
        if ports.contains(&0) {
            return Err(CeilingError::PortZero);
        }
        let refused: BTreeSet<u16> = match self {
            Self::Nothing => ports.iter().copied().collect(),
            Self::Ports(most) => {
                ports.iter().filter(|port| !most.contains(port)).copied().collect()
            }
            Self::EveryPort => BTreeSet::new(),
        };
        if refused.is_empty() {
            return Ok(());
        }
        Err(CeilingError::Ports { ports: listed(&refused), most: self.to_string() })
    }
}

/// Checks the sockets for connections into a session, which only a session with listeners has.
pub(super) fn check_inward(network: &Network, inward: u8) -> Result<(), CeilingError> {
    let most = match network {
        Network::Domains(_) => INWARD_SOCKETS,
        Network::None | Network::Loopback | Network::Ports(_) => 0,
    };
    if inward > most {
        let (wanted, most) = (inward.into(), most.into());
        return Err(CeilingError::Over { limit: "inward sockets", wanted, most });
    }
    Ok(())
}

/// Checks the direct ports of a session in its own network. They open nothing: what connects to them
/// is the session itself, and the broker decides about each connection.
fn check_listeners(ports: &[u16]) -> Result<(), CeilingError> {
    if ports.is_empty() {
        return Err(CeilingError::Empty("listeners"));
    }
    if ports.len() > MAX_DIRECT_PORTS {
        let wanted = u64::try_from(ports.len()).unwrap_or(u64::MAX);
        return Err(CeilingError::Over {
            limit: "listeners",
            wanted,
            most: MAX_DIRECT_PORTS as u64,
        });
    }
    if let Some(port) = ports.iter().find(|port| !can_be_direct(**port)) {
        return Err(CeilingError::ListenerPort(*port));
    }
    let distinct: BTreeSet<u16> = ports.iter().copied().collect();
    if distinct.len() < ports.len() { Err(CeilingError::ListenerTwice) } else { Ok(()) }
}
