//! The profiles that there are: the built-in ones and those of the operator.

use crate::{Profile, ProfileError};
use std::collections::BTreeMap;

/// The profile of a session that names none.
pub const DEFAULT: &str = "workspace";

/// The built-in profiles: name and text.
#[must_use]
pub fn builtin() -> Vec<(&'static str, &'static str)> {
    vec![
        (DEFAULT, include_str!("../../profiles/workspace.toml")),
        ("readonly", include_str!("../../profiles/readonly.toml")),
    ]
}

/// Profiles by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProfileSet {
    profiles: BTreeMap<String, Profile>,
}

impl ProfileSet {
    /// The built-in profiles and the given ones (name and text). A given one does not stand in
    /// for another: what `workspace` means is the same on every host.
    ///
    /// # Errors
    /// If one of them is not a profile, or its name is taken.
    pub fn new<'a>(
        given: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Self, ProfileError> {
        let mut profiles = BTreeMap::new();
        for (name, text) in builtin().into_iter().chain(given) {
            let profile = Profile::parse(name, text)?;
            if profiles.insert(name.to_owned(), profile).is_some() {
                return Err(ProfileError::Duplicate(name.to_owned()));
            }
        }
        Ok(Self { profiles })
    }

    /// A profile by its name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Profile> {
        self.profiles.get(name)
    }

    /// All names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.profiles.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_profiles_are_there() {
        let set = ProfileSet::new([]).unwrap();
        assert_eq!(set.names().collect::<Vec<_>>(), ["readonly", "workspace"]);
        assert_eq!(set.get(DEFAULT).unwrap().name(), "workspace");
        assert_eq!(set.get("nothing"), None);
    }

    #[test]
    fn a_given_profile_is_added_and_can_not_replace_another() {
        let (_, text) = builtin()[0];
        let set = ProfileSet::new([("mine", text)]).unwrap();
        assert_eq!(set.names().collect::<Vec<_>>(), ["mine", "readonly", "workspace"]);
        assert_ne!(set.get("mine").unwrap().digest(), set.get("workspace").unwrap().digest());
        for twice in [vec![("workspace", text)], vec![("mine", text), ("mine", text)]] {
            let name = twice[0].0.to_owned();
            assert_eq!(ProfileSet::new(twice), Err(ProfileError::Duplicate(name)));
        }
    }
}
