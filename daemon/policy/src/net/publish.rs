//! `[net.publish]`: the ports of a session that programs of the host may connect to, as they are
//! written and as they apply. Pure: no I/O.

use super::{NetMode, PortEntry};
use crate::{Profile, keys::text, source::WithOrigin};
use serde::{Deserialize, Serialize};
use toml::Spanned;

text! {
    /// The section `[net.publish]` as it is written in a profile.
    #[derive(Debug, Default, Deserialize)]
    #[serde(default, deny_unknown_fields)]
    "net.publish." pub(crate) struct PublishText {
        /// with `mode = "domains"`: ports of the session that programs of the host reach on their
        /// own 127.0.0.1; see [network.md](network.md#a-server-in-the-session)
        ports: Option<Vec<Spanned<PortEntry>>> ["list of up to four ports"], "none";
    }
}

/// The ports of a session that programs of the host may connect to. They need mode `domains`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub(crate) struct PublishedPorts {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) ports: Vec<WithOrigin<PortEntry>>,
}

impl PublishedPorts {
    pub(crate) const fn is_empty(&self) -> bool {
        self.ports.is_empty()
    }

    /// Returns the ports that both profiles publish, if a mode has any.
    pub(crate) fn both(&self, other: &Self, mode: NetMode) -> Self {
        let in_both =
            |said: &&WithOrigin<PortEntry>| other.ports.iter().any(|one| one.value == said.value);
        Self { ports: self.ports.iter().filter(in_both).cloned().collect() }.within(mode)
    }

    /// Returns the ports, if a mode has any.
    pub(crate) fn within(self, mode: NetMode) -> Self {
        match mode {
            NetMode::Domains => self,
            NetMode::None | NetMode::Loopback | NetMode::Ports => Self::default(),
        }
    }
}

impl Profile {
    /// Returns the ports of sessions that programs of the host may connect to.
    #[must_use]
    pub fn published_ports(&self) -> Vec<u16> {
        self.settings.net.publish.ports.iter().map(|said| said.value.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::{Profile, diff, examples};

    fn text(net: &str) -> String {
        format!(
            "version = 1\ndescription = \"x\"\n[fs]\nworkspace = \"write\"\nexecute = [\"/usr\"]\n\
             [net]\n{net}\n"
        )
    }

    #[test]
    fn published_ports_are_in_the_plan_and_in_nothing_that_leads_out() {
        let mine = Profile::parse(
            "mine",
            &text("mode = \"domains\"\n[net.publish]\nports = [8000, 3000]"),
        )
        .unwrap();
        assert_eq!(mine.published_ports(), [3000, 8000]);
        let plan = mine.plan(&examples::scene()).unwrap();
        assert_eq!(plan.inward, palisade_plan::listeners::INWARD_SOCKETS);
        let policy = mine.egress().unwrap();
        assert_eq!(policy.ports(), [80, 443]);
        assert_eq!(policy.published(), [3000, 8000]);
        let none = Profile::parse("mine", &text("mode = \"domains\"\nask = true")).unwrap();
        assert_eq!(none.plan(&examples::scene()).unwrap().inward, 0);
        let told: Vec<_> = diff(&none, &mine).into_iter().map(|one| one.what).collect();
        assert_eq!(told, ["with 3000", "with 8000", "true → false"]);
    }

    #[test]
    fn a_port_that_could_not_be_published_is_refused() {
        for (net, told) in [
            ("[net.publish]\nports = [3000]", "is set, but net.mode is \"loopback\""),
            ("mode = \"domains\"\n[net.publish]\nports = []", "none is asked about"),
            ("mode = \"domains\"\n[net.publish]\nports = [443]", "443 has a listener of Palisade"),
            ("mode = \"domains\"\n[net.publish]\nports = [53]", "53 has a listener of Palisade"),
            (
                "mode = \"domains\"\nallow = [\"a.example:3000\"]\n[net.publish]\nports = [3000]",
                "3000 has a listener of Palisade",
            ),
            ("mode = \"domains\"\n[net.publish]\nports = [1, 2, 3, 4, 5]", "name at most 4"),
            ("mode = \"domains\"\n[net.publish]\nports = [1, 1]", "1 is already listed"),
        ] {
            let wrong = Profile::parse("mine", &text(net)).unwrap_err().to_string();
            assert!(wrong.contains(told), "{net}: {wrong}");
        }
    }
}
