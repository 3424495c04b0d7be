//! The addresses that stand for names within a session. No address is used for two names.

use palisade_egress_protocol::{MAX_SYNTHETIC, host::HostName};
use palisade_plan::listeners::SYNTHETIC;
use std::{collections::HashMap, net::Ipv4Addr};

/// The names of a session that have a synthetic address.
#[derive(Debug, Default)]
pub(crate) struct SyntheticNames {
    names: Vec<HostName>,
    numbers: HashMap<HostName, u32>,
}

impl SyntheticNames {
    /// Returns the address of a name, a new one if it has none; `None` if all are in use.
    pub(crate) fn address_of(&mut self, name: &HostName) -> Option<Ipv4Addr> {
        let number = match self.numbers.get(name) {
            Some(number) => *number,
            None => {
                let number = u32::try_from(self.names.len()).ok()?;
                if self.names.len() >= MAX_SYNTHETIC {
                    return None;
                }
                self.names.push(name.clone());
                self.numbers.insert(name.clone(), number);
                number
            }
        };
        // The first address is left out: it looks like that of a network.
        Some(Ipv4Addr::from_bits(SYNTHETIC.to_bits() + 1 + number))
    }

    /// Returns the name that an address stands for.
    pub(crate) fn name_of(&self, address: Ipv4Addr) -> Option<&HostName> {
        let number = address.to_bits().checked_sub(SYNTHETIC.to_bits())?.checked_sub(1)?;
        self.names.get(usize::try_from(number).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_has_an_address_of_its_own_until_none_is_left() {
        let mut names = SyntheticNames::default();
        let name = |number: usize| HostName::new(format!("n{number}.example")).unwrap();
        let mut seen = std::collections::HashSet::new();
        for number in 0..MAX_SYNTHETIC {
            let address = names.address_of(&name(number)).unwrap();
            assert!(seen.insert(address));
            assert!([18, 19].contains(&address.octets()[1]) && address.octets()[0] == 198);
            assert_eq!(names.name_of(address), Some(&name(number)));
        }
        assert_eq!(names.address_of(&name(MAX_SYNTHETIC)), None);
        assert_eq!(names.address_of(&name(0)), Some(Ipv4Addr::new(198, 18, 0, 1)));
        for unused in [SYNTHETIC, Ipv4Addr::new(198, 19, 0, 0), Ipv4Addr::LOCALHOST] {
            assert_eq!(names.name_of(unused), None);
        }
    }
}
