//! The services of this host that the operator lets sessions use, and the ports that they may publish
//! on it. A profile names them; this bounds all profiles. Runs in the broker. Pure: no I/O.

use palisade_policy::Profile;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    fmt,
    path::{Path, PathBuf},
    str::FromStr,
};

/// The services of this host that sessions may use or offer, if their profile names them: `none`,
/// `any`, or ports and paths of Unix sockets, such as `5432,/run/postgresql/.s.PGSQL.5432`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum AllowedServices {
    /// No service.
    #[default]
    None,
    /// Every service that the profile names.
    Any,
    /// Only the listed services.
    Listed(BTreeSet<HostService>),
}

/// A service of this host.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum HostService {
    /// A port of the host's loopback.
    Port(u16),
    /// A Unix socket.
    Socket(PathBuf),
}

impl fmt::Display for HostService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(port) => port.fmt(f),
            Self::Socket(path) => path.display().fmt(f),
        }
    }
}

impl FromStr for HostService {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.parse::<u16>() {
            Ok(port) if port > 0 => Ok(Self::Port(port)),
            _ if Path::new(text).is_absolute() => Ok(Self::Socket(text.into())),
            Ok(_) | Err(_) => Err(format!(
                "{text:?} is neither a port from 1 to 65535 nor the absolute path of a socket"
            )),
        }
    }
}

impl FromStr for AllowedServices {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::None),
            "any" => Ok(Self::Any),
            list => list
                .split(',')
                .map(|one| one.trim().parse())
                .collect::<Result<_, _>>()
                .map(Self::Listed),
        }
    }
}

impl TryFrom<String> for AllowedServices {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl fmt::Display for AllowedServices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("none"),
            Self::Any => f.write_str("any"),
            Self::Listed(services) => f.write_str(&listed(services)),
        }
    }
}

impl From<AllowedServices> for String {
    fn from(services: AllowedServices) -> Self {
        services.to_string()
    }
}

fn listed<'a>(services: impl IntoIterator<Item = &'a HostService>) -> String {
    services.into_iter().map(ToString::to_string).collect::<Vec<_>>().join(",")
}

/// A profile names services of this host that the operator does not allow.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{section} of profile {profile:?} has {services}, which this daemon does not allow")]
pub(crate) struct ServicesError {
    section: &'static str,
    profile: String,
    /// The key of the configuration that allows them.
    pub(crate) key: &'static str,
    /// The services, in the form that the key takes.
    pub(crate) services: String,
}

impl AllowedServices {
    /// Checks that sessions may use all services that a profile names.
    pub(crate) fn check(&self, profile: &Profile) -> Result<(), ServicesError> {
        let ports = profile.host_ports().into_iter().map(HostService::Port);
        let sockets = profile.host_sockets().into_iter().map(HostService::Socket);
        self.refuse(ports.chain(sockets).collect()).map_err(|services| ServicesError {
            section: "net.host",
            profile: profile.name().to_owned(),
            key: "allow_host",
            services,
        })
    }

    /// Checks that sessions may publish all ports that a profile names.
    pub(crate) fn check_published(&self, profile: &Profile) -> Result<(), ServicesError> {
        let ports = profile.published_ports().into_iter().map(HostService::Port);
        self.refuse(ports.collect()).map_err(|services| ServicesError {
            section: "net.publish",
            profile: profile.name().to_owned(),
            key: "allow_publish",
            services,
        })
    }

    /// Returns those services, as text, that are not allowed.
    fn refuse(&self, mut services: Vec<HostService>) -> Result<(), String> {
        match self {
            Self::Any => return Ok(()),
            Self::None => {}
            Self::Listed(most) => services.retain(|one| !most.contains(one)),
        }
        if services.is_empty() { Ok(()) } else { Err(listed(&services)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn profile(host: &str) -> Profile {
        let text = format!(
            "version = 1\ndescription = \"test\"\n[fs]\nworkspace = \"write\"\n\
             execute = [\"/usr\"]\n[net]\nmode = \"domains\"\nask = true\n[net.host]\n{host}\n"
        );
        Profile::parse("test", &text).unwrap()
    }

    #[test]
    fn a_list_is_read_and_written_in_one_form() {
        for text in ["none", "any", "22,5432,/run/a.sock"] {
            assert_eq!(text.parse::<AllowedServices>().unwrap().to_string(), text);
        }
        let spaced: AllowedServices = "5432, 22".parse().unwrap();
        assert_eq!(spaced.to_string(), "22,5432");
        for wrong in ["", "0", "65536", "run/a.sock", "22,", "any,22"] {
            assert!(wrong.parse::<AllowedServices>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn only_what_is_listed_may_be_used() {
        let profile = profile("ports = [22, 5432]\nsockets = [\"/run/a.sock\"]");
        let refused = |allowed: &str| {
            let allowed: AllowedServices = allowed.parse().unwrap();
            allowed.check(&profile).err().map(|error| error.services)
        };
        assert_eq!(refused("any"), None);
        assert_eq!(refused("22,5432,/run/a.sock"), None);
        assert_eq!(refused("none").as_deref(), Some("22,5432,/run/a.sock"));
        assert_eq!(refused("22").as_deref(), Some("5432,/run/a.sock"));
        assert_eq!(AllowedServices::None.check(&self::profile("ports = []")), Ok(()));
        let publishes = self::profile("[net.publish]\nports = [3000, 8000]");
        assert_eq!(AllowedServices::None.check(&publishes), Ok(()));
        let listed: AllowedServices = "8000".parse().unwrap();
        let refused = listed.check_published(&publishes).unwrap_err();
        assert_eq!((refused.key, refused.services.as_str()), ("allow_publish", "3000"));
    }
}
