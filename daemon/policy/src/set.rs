//! The set of available profiles: the built-in ones and the operator's. Pure: no I/O.

use crate::{
    Owner, Profile, ProfileError, Source, document::Document, examples, keys::nearest,
    resolve::resolve, written::ProfileText,
};
use palisade_protocol::ToolName;
use std::{collections::BTreeMap, sync::LazyLock};

/// The profile of a session that does not name one.
pub const DEFAULT: &str = "workspace";

/// Makes the source of a built-in profile, with the file name that errors and explanations show.
macro_rules! builtin {
    ($name:literal) => {
        Source {
            name: $name,
            file: concat!("built-in ", $name),
            text: include_str!(concat!("../../profiles/", $name, ".toml")),
            owner: Owner::Builtin,
        }
    };
}

/// Returns the name and the text of each built-in profile. The default comes first.
#[must_use]
pub fn builtin() -> Vec<(&'static str, &'static str)> {
    BUILTIN.iter().map(|source| (source.name, source.text)).collect()
}

const BUILTIN: [Source<'static>; 7] = [
    builtin!("workspace"),
    builtin!("readonly"),
    builtin!("build"),
    builtin!("guarded"),
    builtin!("strict"),
    builtin!("trusted-net"),
    builtin!("autonomous"),
];

static BUILTINS: LazyLock<Result<ProfileSet, ProfileError>> =
    LazyLock::new(|| ProfileSet::default().with(BUILTIN));

/// Profiles by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProfileSet {
    profiles: BTreeMap<String, Profile>,
}

impl Profile {
    /// Parses a profile with no special owner, which may extend built-in profiles only.
    ///
    /// # Errors
    /// If a key is unknown, contradictory or out of bounds; the error has the line and the key.
    pub fn parse(name: &str, text: &str) -> Result<Self, ProfileError> {
        let file = format!("{name}.toml");
        let source = Source { name, file: &file, text, owner: Owner::Other };
        let set = ProfileSet::new([source])?;
        set.get(name).cloned().ok_or_else(|| ProfileError::Duplicate(name.to_owned()))
    }
}

impl ProfileSet {
    /// Makes a set of the built-in profiles and the given ones, which may extend them and each
    /// other. A given profile can not replace a built-in one: `workspace` means the same on every
    /// host.
    ///
    /// # Errors
    /// If one of the given texts is not a valid profile, or its name is already used.
    pub fn new<'a>(given: impl IntoIterator<Item = Source<'a>>) -> Result<Self, ProfileError> {
        BUILTINS.clone()?.with(given)
    }

    fn with<'a>(
        mut self,
        given: impl IntoIterator<Item = Source<'a>>,
    ) -> Result<Self, ProfileError> {
        let mut files = BTreeMap::new();
        for source in given {
            source
                .name
                .parse::<ToolName>()
                .map_err(|e| e.to_string().replace("tool name", "profile name"))
                .map_err(|why| ProfileError::Name { name: source.name.to_owned(), why })?;
            let document = Document::read(source)?;
            let written = document.values::<ProfileText>()?;
            let taken = self.profiles.contains_key(source.name);
            if files.insert(source.name, (document, written)).is_some() || taken {
                return Err(ProfileError::Duplicate(source.name.to_owned()));
            }
        }
        while let Some(name) = self.next(&files)? {
            let Some((document, written)) = files.remove(name) else { break };
            let parents: Vec<_> = written
                .parents()
                .iter()
                .filter_map(|parent| self.profiles.get(parent))
                // A profile extends what another one says, and not what is enforced while that one
                // is observed.
                .map(|profile| &profile.meant().settings)
                .collect();
            let under = written.under().and_then(|under| self.profiles.get(under)).cloned();
            let settings = resolve(&document, written, &parents)?;
            let mut profile = Profile::new(document.source(), settings)?;
            examples::check(&profile)?;
            if let Some(under) = under {
                if under.observed_under().is_some() {
                    let why = format!("{:?} is itself only observed", under.name());
                    return Err(document.wrong("observe", why, "name one that is enforced"));
                }
                profile = profile.observed(&under)?;
            }
            self.profiles.insert(name.to_owned(), profile);
        }
        Ok(self)
    }

    /// Returns a file all of whose parents are loaded; `None` if no file is left.
    fn next<'a>(
        &self,
        files: &BTreeMap<&'a str, (Document<'a>, ProfileText)>,
    ) -> Result<Option<&'a str>, ProfileError> {
        let mut waits = None;
        for (name, (document, written)) in files {
            let extends = written.parents().iter().map(|parent| ("extends", parent));
            let needed = extends.chain(written.under().map(|under| ("observe", under)));
            let missing = needed.into_iter().find(|(_, one)| !self.profiles.contains_key(*one));
            let Some((key, parent)) = missing else { return Ok(Some(*name)) };
            let at = match key {
                "extends" => written.extends.as_ref().map(|extends| extends.span().start),
                _ => written.observe.as_ref().map(|under| under.span().start),
            };
            let wrong = |why, hint| document.wrong_at(at.unwrap_or(0), key, why, hint);
            if !files.contains_key(parent.as_str()) {
                let known = self.names().chain(files.keys().copied()).filter(|known| known != name);
                let known: Vec<&str> = known.collect();
                let hint = match nearest(parent, known.iter().copied()) {
                    Some(near) => format!("did you mean {near:?}?"),
                    None => format!("the profiles are {}", known.join(", ")),
                };
                return Err(wrong(format!("there is no profile {parent:?}"), hint));
            }
            waits.get_or_insert_with(|| {
                let (why, hint) = match key {
                    "extends" => ("extends", "a profile can not extend itself"),
                    _ => ("needs", "a profile is observed under another"),
                };
                wrong(format!("{parent:?} {why} {name:?} in turn"), hint.to_owned())
            });
        }
        waits.map_or(Ok(None), Err)
    }

    /// Returns the set without one profile. Profiles that extend it stay in the set.
    #[must_use]
    pub fn without(mut self, name: &str) -> Self {
        self.profiles.remove(name);
        self
    }

    /// Returns a profile by name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&Profile> {
        self.profiles.get(name)
    }

    /// Returns all names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.profiles.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source<'a>(name: &'a str, text: &'a str) -> Source<'a> {
        Source { name, file: "test.toml", text, owner: Owner::Other }
    }

    #[test]
    fn the_built_in_profiles_are_there() {
        let set = ProfileSet::new([]).unwrap();
        assert_eq!(
            set.names().collect::<Vec<_>>(),
            ["autonomous", "build", "guarded", "readonly", "strict", "trusted-net", "workspace"]
        );
        assert_eq!(set.get(DEFAULT).unwrap().name(), "workspace");
        assert_eq!(builtin()[0].0, DEFAULT);
        assert_eq!(set.get("nothing"), None);
    }

    #[test]
    fn a_given_profile_is_added_and_can_not_replace_another() {
        let (_, text) = builtin()[0];
        let set = ProfileSet::new([source("mine", text)]).unwrap();
        assert_eq!(set.names().count(), builtin().len() + 1);
        assert_ne!(set.get("mine").unwrap().digest(), set.get("workspace").unwrap().digest());
        for twice in [vec![source("workspace", text)], vec![source("mine", text); 2]] {
            let name = twice[0].name.to_owned();
            assert_eq!(ProfileSet::new(twice), Err(ProfileError::Duplicate(name)));
        }
    }

    #[test]
    fn profiles_extend_each_other_in_any_order_and_never_in_a_circle() {
        let child = |parent: &str| {
            format!(
                "version = 1\ndescription = \"x\"\nextends = {parent:?}\n[limits]\nprocesses = 9\n"
            )
        };
        let (a, b) = (child("b"), child("workspace"));
        let set = ProfileSet::new([source("a", &a), source("b", &b)]).unwrap();
        assert_eq!(set.get("a").unwrap().extends(), ["b"]);
        let b = child("a");
        let error = ProfileSet::new([source("a", &a), source("b", &b)]).unwrap_err().to_string();
        assert_eq!(
            error,
            "test.toml:3:11: extends: \"b\" extends \"a\" in turn; a profile can not extend itself"
        );
    }
}
