//! Sample names that a profile hides or protects, for testing the profile. Pure: no I/O.

use crate::{
    Profile,
    names::{PatternList, to_lists},
};
use palisade_plan::names::{Kind, Matcher};

/// Sample names, relative to the workspace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Samples {
    /// The name of a hidden file.
    pub hidden: Option<String>,
    /// The name of a hidden file that the session could create, because the workspace is writable.
    pub made: Option<String>,
    /// The name of a protected file.
    pub protected: Option<String>,
    /// A protected file in a directory that is not protected.
    pub below: Option<String>,
}

impl Profile {
    /// Returns one sample name of each kind that the profile has.
    #[must_use]
    pub fn samples(&self) -> Samples {
        let (hide, protect) = (&self.settings.fs.hide, &self.settings.fs.protect);
        let (hidden, protected) = (sample(hide), sample(protect));
        let below = protected.as_ref().map(|name| format!("below/{name}"));
        let below = below.filter(|path| means(protect, path) && !means(protect, "below"));
        let made = hidden.clone().filter(|_| self.writes_workspace());
        Samples { hidden, made, protected, below }
    }
}

fn means(lists: &[PatternList], path: &str) -> bool {
    let matcher = Matcher::new(&to_lists(lists)).unwrap_or_default();
    matcher.covers(path.as_bytes(), Kind::Other).is_some()
}

fn sample(lists: &[PatternList]) -> Option<String> {
    let patterns = lists.iter().flat_map(|list| &list.0).map(|said| said.value.0.as_str());
    let mut names = patterns.filter(|text| !text.contains(['!', '[', '\\'])).map(|text| {
        let inside = if text.ends_with('/') { "file" } else { "" };
        let plain = text.trim_start_matches('/').trim_start_matches("**/");
        plain.replace("**", "x").replace(['*', '?'], "x") + inside
    });
    names.find(|name| means(lists, name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ProfileSet;

    #[test]
    fn there_is_one_of_each_kind_that_a_profile_has() {
        let set = ProfileSet::new([]).unwrap();
        let of = |name| set.get(name).unwrap().samples();
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(of("workspace"), Samples::default());
        assert_eq!(of("readonly"), Samples { hidden: some(".env"), ..Samples::default() });
        let guarded = Samples {
            hidden: some(".env"),
            made: some(".env"),
            protected: some(".vscode"),
            below: some("below/.vscode"),
        };
        assert_eq!(of("guarded"), guarded);
    }

    #[test]
    fn patterns_are_filled_in() {
        let listed = |text: &str| {
            let value = crate::names::NameEntry(text.to_owned());
            vec![PatternList(vec![crate::source::WithOrigin { value, at: None }])]
        };
        for (pattern, name) in [
            ("*.pem", "x.pem"),
            ("secrets/", "secrets/file"),
            ("**/.git/config", ".git/config"),
            ("/a/**/b?", "a/x/bx"),
        ] {
            assert_eq!(sample(&listed(pattern)).as_deref(), Some(name));
        }
        assert_eq!(sample(&listed("[ab]c")), None);
    }
}
