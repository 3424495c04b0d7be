//! The set of available profiles: the built-in ones and the operator's. Pure: no I/O.

use crate::{
    Owner, Profile, ProfileError, Source, document::Document, examples, resolve::resolve,
    written::ProfileText,
};
use palisade_protocol::ToolName;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::LazyLock,
};

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

const BUILTIN: [Source<'static>; 8] = [
    builtin!("workspace"),
    builtin!("readonly"),
    builtin!("build"),
    builtin!("guarded"),
    builtin!("strict"),
    builtin!("trusted-net"),
    builtin!("autonomous"),
    builtin!("container"),
];

static BUILTINS: LazyLock<Result<ProfileSet, ProfileError>> =
    LazyLock::new(|| ProfileSet::default().with(BUILTIN, &mut all_or_nothing));

/// Parsed profiles that are not resolved yet, by name.
type ParsedFiles<'a> = BTreeMap<&'a str, (Document<'a>, ProfileText)>;

/// Profiles by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProfileSet {
    profiles: BTreeMap<String, Profile>,
}

/// A profile that is left out of a set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InvalidProfile {
    /// Its name.
    pub name: String,
    /// The error in it, or in one that it needs.
    pub error: ProfileError,
}

/// Is called with each invalid profile. An error ends the loading of all.
type OnInvalid<'f> = &'f mut dyn FnMut(InvalidProfile) -> Result<(), ProfileError>;

fn all_or_nothing(invalid: InvalidProfile) -> Result<(), ProfileError> {
    Err(invalid.error)
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
        BUILTINS.clone()?.with(given, &mut all_or_nothing)
    }

    /// Makes a set like [`ProfileSet::new`], but leaves invalid profiles out, and those that need
    /// them. Returns these too.
    ///
    /// # Errors
    /// If a built-in profile is invalid.
    pub fn valid<'a>(
        given: impl IntoIterator<Item = Source<'a>>,
    ) -> Result<(Self, Vec<InvalidProfile>), ProfileError> {
        let mut left_out = Vec::new();
        let set = BUILTINS.clone()?.with(given, &mut |invalid| {
            left_out.push(invalid);
            Ok(())
        })?;
        Ok((set, left_out))
    }

    /// Makes a set of one profile, and of the profiles that it extends or is observed under. No
    /// other profile is looked at, so none of them can be the reason of an error. The set is empty
    /// if there is no profile of this name.
    ///
    /// `given` are the names of all given profiles, once for each file. `find` returns the source of
    /// one of them; it is called only for those that are needed.
    ///
    /// # Errors
    /// If a needed profile is invalid, its name is used twice, or `find` fails.
    pub fn only<'a, E: From<ProfileError>>(
        name: &str,
        given: &[&str],
        mut find: impl FnMut(&str) -> Result<Option<Source<'a>>, E>,
    ) -> Result<Self, E> {
        let mut files = ParsedFiles::new();
        let mut wanted = vec![name.to_owned()];
        while let Some(name) = wanted.pop() {
            if files.contains_key(name.as_str()) {
                continue;
            }
            let builtin = BUILTIN.into_iter().find(|source| source.name == name);
            let owners = given.iter().filter(|other| **other == name).count();
            if owners + usize::from(builtin.is_some()) > 1 {
                return Err(ProfileError::Duplicate(name).into());
            }
            let source = match builtin {
                Some(source) => Some(source),
                None => find(&name)?,
            };
            // A parent that does not exist is reported when the profile that names it is resolved.
            let Some(source) = source else { continue };
            let (document, written) = parse(source)?;
            wanted.extend(written.parents().iter().cloned());
            wanted.extend(written.under().cloned());
            files.insert(source.name, (document, written));
        }
        let others = given.iter().copied().chain(BUILTIN.iter().map(|source| source.name));
        let others = others.collect::<Vec<_>>();
        Ok(Self::default().resolve(files, &others, BTreeSet::new(), &mut all_or_nothing)?)
    }

    fn with<'a>(
        self,
        given: impl IntoIterator<Item = Source<'a>>,
        on_invalid: OnInvalid<'_>,
    ) -> Result<Self, ProfileError> {
        let mut files = ParsedFiles::new();
        let (mut names, mut left_out) = (BTreeSet::new(), BTreeSet::new());
        for source in given {
            let name = source.name;
            let parsed = match names.insert(name) && !self.profiles.contains_key(name) {
                true => parse(source),
                // None of several files with one name is preferred.
                false => Err(ProfileError::Duplicate(name.to_owned())),
            };
            match parsed {
                Ok(parsed) => {
                    files.insert(name, parsed);
                }
                Err(error) => {
                    files.remove(name);
                    left_out.insert(name);
                    on_invalid(InvalidProfile { name: name.to_owned(), error })?;
                }
            }
        }
        self.resolve(files, &[], left_out, on_invalid)
    }

    /// Adds parsed profiles, parents first. `others` are more names that a message may suggest, and
    /// `left_out` those of invalid profiles.
    fn resolve<'a>(
        mut self,
        mut files: ParsedFiles<'a>,
        others: &[&str],
        mut left_out: BTreeSet<&'a str>,
        on_invalid: OnInvalid<'_>,
    ) -> Result<Self, ProfileError> {
        loop {
            let (name, resolved) = match self.next(&files, others, &left_out) {
                Ok(None) => return Ok(self),
                Ok(Some(name)) => match files.remove(name) {
                    Some((document, written)) => (name, self.profile(&document, written)),
                    None => return Ok(self),
                },
                Err((name, error)) => {
                    files.remove(name);
                    (name, Err(error))
                }
            };
            match resolved {
                Ok(profile) => {
                    self.profiles.insert(name.to_owned(), profile);
                }
                Err(error) => {
                    left_out.insert(name);
                    on_invalid(InvalidProfile { name: name.to_owned(), error })?;
                }
            }
        }
    }

    /// Makes a profile of a file all of whose parents are in the set.
    fn profile(
        &self,
        document: &Document<'_>,
        written: ProfileText,
    ) -> Result<Profile, ProfileError> {
        let parents: Vec<_> = written
            .parents()
            .iter()
            .filter_map(|parent| self.profiles.get(parent))
            // A profile extends what another one says, and not what is enforced while that one is
            // observed.
            .map(|profile| &profile.as_written().settings)
            .collect();
        let under = written.under().and_then(|under| self.profiles.get(under)).cloned();
        let settings = resolve(document, written, &parents)?;
        let profile = Profile::new(document.source(), settings)?;
        // The tests of built-in profiles always give the same results, which a test of this crate
        // checks.
        if document.source().owner != Owner::Builtin {
            examples::check(&profile)?;
        }
        match under {
            Some(under) if under.observed_under().is_some() => {
                let why = format!("{:?} is itself only observed", under.name());
                Err(document.wrong("observe", why, "name one that is enforced"))
            }
            Some(under) => profile.observed(&under),
            None => Ok(profile),
        }
    }

    /// Returns a file all of whose parents are loaded; `None` if no file is left. An error is that
    /// of the file it names.
    fn next<'a>(
        &self,
        files: &ParsedFiles<'a>,
        others: &[&str],
        left_out: &BTreeSet<&'a str>,
    ) -> Result<Option<&'a str>, (&'a str, ProfileError)> {
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
            let wrong = |why, hint| (*name, document.wrong_at(at.unwrap_or(0), key, why, hint));
            if left_out.contains(parent.as_str()) {
                let hint = "correct that one first".to_owned();
                return Err(wrong(format!("the profile {parent:?} is invalid"), hint));
            }
            if !files.contains_key(parent.as_str()) {
                let is_new = |other: &&str| {
                    !self.profiles.contains_key(*other) && !files.contains_key(*other)
                };
                let others = others.iter().copied().filter(is_new);
                let known = self.names().chain(files.keys().copied()).chain(others);
                let known: Vec<&str> = known.filter(|known| known != name).collect();
                let hint = match palisade_text::nearest(parent, known.iter().copied()) {
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

    /// Returns the set with profiles that let a call take as long as a job.
    ///
    /// # Errors
    /// If the digest of a profile can not be computed.
    pub fn with_long_calls(mut self) -> Result<Self, ProfileError> {
        for profile in self.profiles.values_mut() {
            *profile = profile.with_long_calls()?;
        }
        Ok(self)
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

/// Parses a profile's text, and checks its name.
fn parse(source: Source<'_>) -> Result<(Document<'_>, ProfileText), ProfileError> {
    source
        .name
        .parse::<ToolName>()
        .map_err(|e| e.to_string().replace("tool name", "profile name"))
        .map_err(|why| ProfileError::Name { name: source.name.to_owned(), why })?;
    let document = Document::read(source)?;
    let written = document.values::<ProfileText>()?;
    Ok((document, written))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_invalid_profile_is_left_out_with_those_that_need_it() {
        let valid = "version = 1\ndescription = \"x\"\n";
        let child = |parent: &str| format!("{valid}extends = \"{parent}\"\n");
        let texts = [
            ("good", child("readonly")),
            ("unknown-key", format!("{valid}nonsense = 1\n")),
            ("failing-test", format!("{valid}tests = [\"write /usr: allowed\"]\n")),
            ("child", child("unknown-key")),
            ("grandchild", child("child")),
            ("turn", child("return")),
            ("return", child("turn")),
            ("twice", child("readonly")),
            ("twice", child("readonly")),
            ("workspace", child("readonly")),
            ("orphan", child("missing")),
        ];
        let sources: Vec<_> = texts.iter().map(|(name, text)| source(name, text)).collect();
        let (set, invalid) = ProfileSet::valid(sources.iter().copied()).unwrap();
        let own: Vec<_> = set.names().filter(|name| !is_builtin(name)).collect();
        assert_eq!(own, ["good"]);
        // A built-in profile stays what it is.
        assert_eq!(set.get("workspace"), ProfileSet::new([]).unwrap().get("workspace"));
        let mut told: Vec<_> = invalid.iter().map(|one| one.name.as_str()).collect();
        told.sort_unstable();
        let expected = texts.iter().map(|(name, _)| *name).filter(|name| *name != "good");
        let mut expected: Vec<_> = expected.collect();
        expected.sort_unstable();
        expected.dedup();
        assert_eq!(told, expected);
        let why =
            |name: &str| invalid.iter().find(|one| one.name == name).unwrap().error.to_string();
        assert!(
            why("child").contains("the profile \"unknown-key\" is invalid"),
            "{}",
            why("child")
        );
        assert!(why("grandchild").contains("the profile \"child\" is invalid"));
        // All of them or none: the strict form refuses the same.
        assert!(ProfileSet::new(sources).is_err());
    }

    fn is_builtin(name: &str) -> bool {
        BUILTIN.iter().any(|source| source.name == name)
    }

    fn source<'a>(name: &'a str, text: &'a str) -> Source<'a> {
        Source { name, file: "test.toml", text, owner: Owner::Other }
    }

    #[test]
    fn the_built_in_profiles_are_there() {
        let set = ProfileSet::new([]).unwrap();
        assert_eq!(
            set.names().collect::<Vec<_>>(),
            [
                "autonomous",
                "build",
                "container",
                "guarded",
                "readonly",
                "strict",
                "trusted-net",
                "workspace"
            ]
        );
        assert_eq!(set.get(DEFAULT).unwrap().name(), "workspace");
        assert_eq!(builtin()[0].0, DEFAULT);
        assert_eq!(set.get("nothing"), None);
    }

    /// A start of the daemon relies on this: it does not run them again.
    #[test]
    fn the_tests_of_built_in_profiles_pass() {
        let set = ProfileSet::new([]).unwrap();
        let profiles: Vec<_> = set.names().filter_map(|name| set.get(name)).collect();
        assert!(profiles.iter().map(|profile| profile.tests().len()).sum::<usize>() > 50);
        for profile in profiles {
            assert_eq!(examples::check(profile), Ok(()), "{}", profile.name());
        }
    }

    #[test]
    fn tests_of_a_given_profile_run_whether_it_is_loaded_alone_or_with_all() {
        let text = "version = 1\ndescription = \"x\"\nextends = \"workspace\"\n\
                    tests = [\"read $WORKSPACE/file: deny\"]\n";
        let mine = source("mine", text);
        let failed = ProfileSet::new([mine]).unwrap_err();
        assert!(matches!(&failed, ProfileError::Test { .. }), "{failed}");
        assert_eq!(alone("mine", &[mine]), Err(failed));
    }

    fn alone(name: &str, given: &[Source<'static>]) -> Result<ProfileSet, ProfileError> {
        let names: Vec<_> = given.iter().map(|source| source.name).collect();
        let find = |name: &str| Ok(given.iter().find(|source| source.name == name).copied());
        ProfileSet::only(name, &names, find)
    }

    #[test]
    fn a_profile_loaded_alone_is_the_same_as_one_of_all() {
        let base = "version = 1\ndescription = \"x\"\nextends = \"readonly\"\n";
        let top = "version = 1\ndescription = \"x\"\nextends = \"base\"\nobserve = \"build\"\n";
        let given = [source("base", base), source("top", top), source("broken", "nonsense")];
        let all = ProfileSet::new([given[0], given[1]]).unwrap();
        for name in all.names() {
            assert_eq!(alone(name, &given).unwrap().get(name), all.get(name), "{name}");
        }
        let top = alone("top", &given).unwrap();
        let needed = ["base", "build", "readonly", "top", "workspace"];
        assert_eq!(top.names().collect::<Vec<_>>(), needed);
        assert_eq!(alone("missing", &given), Ok(ProfileSet::default()));
        let broken = alone("broken", &given).unwrap_err().to_string();
        assert!(broken.starts_with("test.toml:1:"), "{broken}");
    }

    #[test]
    fn names_that_are_used_twice_and_missing_parents_are_errors_of_the_profile_that_needs_them() {
        let text = "version = 1\ndescription = \"x\"\nextends = \"build\"\n";
        let lost = "version = 1\ndescription = \"x\"\nextends = \"mime\"\n";
        let circle = "version = 1\ndescription = \"x\"\nextends = \"circle\"\n";
        let mine = [source("build", text), source("mine", text), source("mine", text)];
        let twice = |name: &str| Err(ProfileError::Duplicate(name.to_owned()));
        assert_eq!(alone("build", &mine), twice("build"));
        assert_eq!(alone("mine", &mine), twice("mine"));
        assert_eq!(alone("mine", &mine[..2]), twice("build"));
        assert!(alone("strict", &mine).is_ok(), "it extends neither");
        let given = [source("lost", lost), source("mine", text), source("circle", circle)];
        let told = alone("lost", &given).unwrap_err().to_string();
        let expected = "extends: there is no profile \"mime\"; did you mean \"mine\"?";
        assert_eq!(told, format!("test.toml:3:11: {expected}"));
        let told = alone("circle", &given).unwrap_err().to_string();
        assert!(told.ends_with("a profile can not extend itself"), "{told}");
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
