//! Hosts that a client wants for one session beside those of its profile. Pure: no I/O.

use crate::{
    Profile, ProfileError,
    net::{NetMode, entry::HostEntry},
    source::WithOrigin,
};
use palisade_plan::listeners::{MAX_DIRECT_PORTS, can_be_direct};

/// The reason that a session does not get a host that its client wants.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AddedHostError {
    /// The text is not an entry of `net.allow`.
    #[error("{entry:?} can not be allowed: {why}")]
    Entry {
        /// The text.
        entry: String,
        /// The reason.
        why: String,
    },
    /// The profile does not allow the host, and the client may not add to it.
    #[error("profile {profile:?} does not allow {entry}")]
    NotAllowed {
        /// The name of the profile.
        profile: String,
        /// The entry.
        entry: String,
    },
    /// The profile denies the host.
    #[error("net.deny of profile {profile:?} has \"{by}\", which includes {entry}")]
    Denied {
        /// The name of the profile.
        profile: String,
        /// The entry of `net.deny`.
        by: String,
        /// The entry.
        entry: String,
    },
    /// The profile's programs use the host's network.
    #[error("profile {0:?} has net.mode = \"ports\", which knows no names")]
    Ports(String),
    /// The profile with the hosts is invalid.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

impl Profile {
    /// Checks that the profile allows these hosts already.
    ///
    /// # Errors
    /// If a text is not an entry of `net.allow`, or the profile does not allow it.
    pub fn allows_hosts(&self, entries: &[String]) -> Result<(), AddedHostError> {
        for entry in self.added(entries)? {
            if !self.settings.net.covers(&entry) {
                let (profile, entry) = (self.name().to_owned(), entry.to_string());
                return Err(AddedHostError::NotAllowed { profile, entry });
            }
        }
        Ok(())
    }

    /// Returns the profile with more allowed hosts. What it denies stays denied.
    ///
    /// # Errors
    /// If a text is not an entry of `net.allow`, or the profile denies it.
    pub fn with_hosts(&self, entries: &[String]) -> Result<Self, AddedHostError> {
        let added = self.added(entries)?;
        let mut settings = self.settings.clone();
        let net = &mut settings.net;
        match net.mode.value {
            NetMode::None | NetMode::Loopback => net.mode = WithOrigin::default(NetMode::Domains),
            NetMode::Domains => {}
            NetMode::Ports => return Err(AddedHostError::Ports(self.name().to_owned())),
        }
        for entry in added {
            if !net.covers(&entry) {
                net.allow.push(WithOrigin::default(entry));
            }
        }
        net.allow.sort_by(|a, b| a.value.cmp(&b.value));
        let ports = net.direct_ports().len();
        if ports > MAX_DIRECT_PORTS {
            let why = format!("{ports} different ports are more than {MAX_DIRECT_PORTS}");
            return Err(AddedHostError::Entry { entry: entries.join(" "), why });
        }
        let direct = net.direct_ports();
        if let Some(said) = net.publish.ports.iter().find(|p| direct.contains(&p.value.0)) {
            let why = format!("net.publish.ports of the profile has port {}", said.value);
            return Err(AddedHostError::Entry { entry: entries.join(" "), why });
        }
        Ok(self.with_settings(settings)?)
    }

    /// Parses entries, and refuses those that the profile denies.
    fn added(&self, entries: &[String]) -> Result<Vec<HostEntry>, AddedHostError> {
        let parse = |text: &String| {
            let wrong = |why: String| AddedHostError::Entry { entry: text.clone(), why };
            let entry = HostEntry::try_from(text.clone()).map_err(wrong)?;
            if let Some(why) = entry.too_wide() {
                return Err(wrong(why));
            }
            if let Some(port) = entry.port.filter(|port| !can_be_direct(*port)) {
                return Err(wrong(format!("port {port} is used inside sessions")));
            }
            let denies = |said: &&WithOrigin<HostEntry>| said.value.denies_all_of(&entry);
            match self.settings.net.deny.iter().find(denies) {
                None => Ok(entry),
                Some(by) => Err(AddedHostError::Denied {
                    profile: self.name().to_owned(),
                    by: by.value.to_string(),
                    entry: entry.to_string(),
                }),
            }
        };
        entries.iter().map(parse).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::EgressDecision;
    use palisade_egress_protocol::host::{Host, HostName, Target};

    fn profile(net: &str) -> Profile {
        let text = format!(
            "version = 1\ndescription = \"test\"\n[fs]\nworkspace = \"write\"\n\
             execute = [\"/usr\"]\n[net]\n{net}\n"
        );
        Profile::parse("test", &text).unwrap()
    }

    fn list(entries: &[&str]) -> Vec<String> {
        entries.iter().map(|entry| (*entry).to_owned()).collect()
    }

    fn is_allowed(profile: &Profile, name: &str, port: u16) -> bool {
        let host = Host::Name(HostName::new(name).unwrap());
        let decision = profile.egress().unwrap().decide(&Target { host, port });
        matches!(decision, EgressDecision::Allow { .. })
    }

    #[test]
    fn a_profile_without_network_gets_exactly_the_added_hosts() {
        for mode in ["none", "loopback"] {
            let base = profile(&format!("mode = {mode:?}"));
            let wider = base.with_hosts(&list(&["packages.example", "git.example:22"])).unwrap();
            assert!(is_allowed(&wider, "packages.example", 443));
            assert!(is_allowed(&wider, "git.example", 22));
            assert!(!is_allowed(&wider, "git.example", 443));
            assert!(!is_allowed(&wider, "other.example", 443));
            assert_ne!(wider.digest(), base.digest());
        }
    }

    #[test]
    fn what_is_denied_stays_denied_and_what_makes_no_sense_is_refused() {
        let base = profile(
            "mode = \"domains\"\nallow = [\"*.files.example\"]\ndeny = [\"bad.files.example\"]",
        );
        let wider = base.with_hosts(&list(&["more.test"])).unwrap();
        assert!(is_allowed(&wider, "more.test", 443) && is_allowed(&wider, "a.files.example", 443));
        assert!(!is_allowed(&wider, "bad.files.example", 443));
        let why = |entry: &str| base.with_hosts(&list(&[entry])).unwrap_err().to_string();
        assert_eq!(
            why("bad.files.example"),
            "net.deny of profile \"test\" has \"bad.files.example\", which includes bad.files.example"
        );
        for wrong in ["", "*", "*.com", "a b", "HTTPS://x.example", "x.example:0", "x.example:53"] {
            let told = why(wrong);
            assert!(told.starts_with(&format!("{wrong:?} can not be allowed: ")), "{told}");
        }
        let ports = profile("mode = \"ports\"\nports = [443]");
        let refused = ports.with_hosts(&list(&["a.example"])).unwrap_err();
        assert_eq!(refused, AddedHostError::Ports("test".to_owned()));
    }

    #[test]
    fn a_host_that_is_allowed_already_needs_nothing() {
        let base = profile("mode = \"domains\"\nallow = [\"*.files.example\"]\nask = true");
        assert_eq!(base.allows_hosts(&list(&["a.files.example", "*.files.example"])), Ok(()));
        for entry in ["files.example", "a.files.example:22", "other.example"] {
            let refused = base.allows_hosts(&list(&[entry])).unwrap_err();
            let told = format!("profile \"test\" does not allow {entry}");
            assert_eq!(refused.to_string(), told);
        }
        assert!(profile("mode = \"none\"").allows_hosts(&list(&["a.example"])).is_err());
        assert_eq!(base.with_hosts(&list(&["a.files.example"])).unwrap().digest(), base.digest());
    }
}
