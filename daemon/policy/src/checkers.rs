//! A profile's `[[diagnostics]]` settings: the checkers, and how their output is parsed. Pure: no
//! I/O.

use crate::{
    keys::{text, words},
    rules::glob,
};
use serde::{Deserialize, Serialize};

/// The largest number of checkers, because one call runs all of them.
const MOST: usize = 16;

text! {
    /// One `[[diagnostics]]` section: a checker.
    #[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    "diagnostics." pub struct Checker {
        /// the checker's name, shown with what it finds
        name: String, "must be there";
        /// the program and its arguments
        argv: Vec<String> ["list of words"], "must be there";
        /// the format of its output
        format: CheckerFormat, "must be there";
        /// a file of the workspace; without it there is nothing to check
        #[serde(default, skip_serializing_if = "Option::is_none")]
        when: Option<String> ["path"], "always";
        /// the files that it checks
        #[serde(default)]
        paths: Vec<String> ["list of globs"], "all";
    }
}

words! {
    /// The format of a checker's output.
    pub enum CheckerFormat {
        /// One JSON message per line on standard output, as from `cargo --message-format json`.
        CargoJson = "cargo-json",
        /// `path:line:column: severity: message`, on either stream.
        Gcc = "gcc",
    }
}

impl Checker {
    /// Returns the checker's name, which its results show.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the program and its arguments.
    #[must_use]
    pub fn argv(&self) -> &[String] {
        &self.argv
    }

    /// Returns the format of the checker's output.
    #[must_use]
    pub const fn format(&self) -> CheckerFormat {
        self.format
    }

    /// Returns a file at the top of the workspace; without it the checker has nothing to check.
    #[must_use]
    pub fn when(&self) -> Option<&str> {
        self.when.as_deref()
    }

    /// Returns `true` if the checker applies to any of these paths, which are relative to the
    /// workspace. An empty list means all paths.
    #[must_use]
    pub fn covers(&self, paths: &[Vec<u8>]) -> bool {
        let below = |glob: &String, path: &[u8]| {
            // A directory matches if a glob could match anything below it.
            glob::matches(glob.as_bytes(), path) || glob::may_be_below(glob.as_bytes(), path)
        };
        paths.is_empty()
            || self.paths.is_empty()
            || paths.iter().any(|path| self.paths.iter().any(|glob| below(glob, path)))
    }

    fn check(&self) -> Result<(), String> {
        let plain = |path: &String| {
            !path.is_empty()
                && !path.contains('\0')
                && path.split('/').all(|name| !matches!(name, "" | "." | ".."))
        };
        if self.name.trim().is_empty() || self.name.len() > 64 {
            return Err("its name must have 1 to 64 bytes".to_owned());
        }
        if self.argv.first().is_none_or(String::is_empty) {
            return Err("its argv names no program".to_owned());
        }
        if self.argv.iter().any(|word| word.contains('\0')) {
            return Err("its argv has a NUL in it".to_owned());
        }
        if let Some(when) = self.when.as_ref().filter(|when| !plain(when)) {
            return Err(format!("{when:?} is not a name in the workspace"));
        }
        match self.paths.iter().find(|path| !plain(path)) {
            Some(path) => Err(format!("{path:?} is not a glob below the workspace")),
            None => Ok(()),
        }
    }
}

/// Checks a list of checkers.
///
/// # Errors
/// The index of the first invalid checker, and the reason.
pub(crate) fn check(checkers: &[Checker]) -> Result<(), (usize, String)> {
    if checkers.len() > MOST {
        return Err((MOST, format!("there are more than {MOST}")));
    }
    for (number, checker) in checkers.iter().enumerate() {
        checker.check().map_err(|why| (number, why))?;
        let earlier = checkers.iter().take(number);
        if earlier.into_iter().any(|other| other.name == checker.name) {
            return Err((number, format!("{:?} is listed twice", checker.name)));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checker(text: &str) -> Result<Checker, String> {
        let checker: Checker = toml::from_str(text).map_err(|e| e.message().to_owned())?;
        check(std::slice::from_ref(&checker)).map_err(|(_, why)| why)?;
        Ok(checker)
    }

    #[test]
    fn a_checker_is_read_and_bad_ones_say_why() {
        let good = "name = 'c'\nargv = ['cc']\nformat = 'gcc'\n";
        assert_eq!(checker(good).unwrap().format(), CheckerFormat::Gcc);
        for (text, why) in [
            ("name = ''\nargv = ['a']\nformat = 'gcc'", "its name must have 1 to 64 bytes"),
            ("name = 'c'\nargv = []\nformat = 'gcc'", "its argv names no program"),
            ("name = 'c'\nargv = ['a\\u0000']\nformat = 'gcc'", "its argv has a NUL in it"),
        ] {
            let text = text.replace("'a\\u0000'", "\"a\\u0000\"");
            assert_eq!(checker(&text).unwrap_err(), why);
        }
        for path in ["/etc", "../x", "a//b", ""] {
            assert!(checker(&format!("{good}when = '{path}'\n")).is_err(), "{path}");
            assert!(checker(&format!("{good}paths = ['{path}']\n")).is_err(), "{path}");
        }
        assert!(checker("name = 'c'\nargv = ['a']\nformat = 'xml'").is_err());
    }

    #[test]
    fn a_checker_covers_its_globs_and_what_is_above_them() {
        let text =
            "name = 'c'\nargv = ['a']\nformat = 'gcc'\npaths = ['src/**/*.rs', 'Cargo.toml']";
        let checker = checker(text).unwrap();
        let covers = |path: &str| checker.covers(&[path.as_bytes().to_vec()]);
        assert!(covers("src/a.rs") && covers("src/d/a.rs") && covers("Cargo.toml"));
        assert!(covers("src") && covers("src/d"));
        assert!(!covers("docs") && !covers("docs/a.md") && !covers("other/a.rs"));
        assert!(checker.covers(&[]));
    }
}
