//! `glob` and `grep` of a session: calls that can be refined, and their results as values.

use crate::{Call, CallResult, Error, Session, files::succeeded};
use palisade_protocol::{
    RawPath,
    arguments::{Glob, Grep, GrepMode, Syntax},
};
use serde::{Deserialize, de::DeserializeOwned};
use std::path::Path;

/// The files that `glob` found.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Files {
    /// The files, newest first.
    pub files: Vec<FoundFile>,
    /// The total number of files that match.
    pub total: u64,
    /// True if some of the files are missing from `files`.
    pub truncated: bool,
}

/// A file that `glob` found.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct FoundFile {
    /// The path, in a form that a further call can use.
    pub path: RawPath,
    /// The size in bytes.
    pub size: u64,
}

/// The lines that `grep` found.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Matches {
    /// The lines, sorted by path, then by line number.
    pub matches: Vec<FoundLine>,
    /// The total number of lines that match.
    pub total_lines: u64,
    /// The number of files with a match.
    pub total_files: u64,
    /// True if some of the lines are missing from `matches`.
    pub truncated: bool,
    /// The number of files that were searched.
    pub searched: u64,
    /// The number of files that were not searched.
    pub skipped: Skipped,
}

/// A line that `grep` found, or a context line near one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct FoundLine {
    /// The path, in a form that a further call can use.
    pub path: RawPath,
    /// The line number, from 1.
    pub line: u64,
    /// The start of the match, in bytes from 1.
    pub column: Option<u64>,
    /// The line's text; for a long line, the part around the match.
    pub text: String,
    /// True if this is a context line that does not match itself.
    #[serde(default)]
    pub context: bool,
}

/// The numbers of files that `grep` did not search, by reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Skipped {
    /// Files that are not text.
    pub binary: u64,
    /// Files that are too large.
    pub large: u64,
    /// Files that could not be opened.
    pub unreadable: u64,
}

impl Session {
    /// Prepares a search for files by name: `*.rs` at any depth, `src/**/*.{rs,toml}` below the
    /// current directory.
    ///
    /// ```
    /// # use palisade_client::{Client, Open};
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let directory = tempfile::tempdir()?;
    /// # let client = Client::embedded().await?;
    /// # let session = client.open(Open::new(directory.path())).await?;
    /// session.write_file("src/main.rs", "fn main() {\n    todo!()\n}\n").await?;
    /// let found = session.glob("*.rs").limit(10).files().await?;
    /// assert_eq!(found.files[0].path.as_path(), "src/main.rs");
    /// let found = session.grep("todo!(").literal().within("src").lines().await?;
    /// assert_eq!((found.matches[0].line, found.matches[0].text.as_str()), (2, "    todo!()"));
    /// # client.shutdown().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn glob(&self, pattern: impl Into<String>) -> Call<Glob> {
        let pattern = pattern.into();
        let arguments = Glob { pattern, path: None, limit: None, hidden: true, ignored: false };
        self.call("glob", arguments)
    }

    /// Prepares a search for lines by a regular expression, in the files below the current
    /// directory.
    pub fn grep(&self, pattern: impl Into<String>) -> Call<Grep> {
        let arguments = Grep {
            pattern: pattern.into(),
            path: None,
            glob: None,
            syntax: Syntax::Regex,
            case_insensitive: false,
            multiline: false,
            mode: GrepMode::Content,
            context: None,
            before: None,
            after: None,
            limit: None,
            hidden: true,
            ignored: false,
        };
        self.call("grep", arguments)
    }
}

impl Call<Glob> {
    /// Searches in this directory.
    pub fn within(self, path: impl AsRef<Path>) -> Self {
        self.arguments(|glob| glob.path = Some(RawPath::from(path)))
    }

    /// Returns at most this many files.
    pub fn limit(self, limit: u64) -> Self {
        self.arguments(|glob| glob.limit = Some(limit))
    }

    /// Includes files that `.gitignore` excludes.
    pub fn ignored(self) -> Self {
        self.arguments(|glob| glob.ignored = true)
    }

    /// Makes the call and returns the files that it found.
    ///
    /// # Errors
    /// [`Error::Failed`] with the daemon's reason.
    pub async fn files(self) -> Result<Files, Error> {
        data(&succeeded(self.await?)?)
    }
}

impl Call<Grep> {
    /// Searches in this directory or file.
    pub fn within(self, path: impl AsRef<Path>) -> Self {
        self.arguments(|grep| grep.path = Some(RawPath::from(path)))
    }

    /// Searches only in files that match this glob.
    pub fn glob(self, glob: impl Into<String>) -> Self {
        self.arguments(|grep| grep.glob = Some(glob.into()))
    }

    /// Takes the pattern as literal text.
    pub fn literal(self) -> Self {
        self.arguments(|grep| grep.syntax = Syntax::Literal)
    }

    /// Ignores case.
    pub fn case_insensitive(self) -> Self {
        self.arguments(|grep| grep.case_insensitive = true)
    }

    /// Includes this many lines before and after each match.
    pub fn context(self, lines: u32) -> Self {
        self.arguments(|grep| grep.context = Some(lines))
    }

    /// Returns at most this many matching lines.
    pub fn limit(self, limit: u64) -> Self {
        self.arguments(|grep| grep.limit = Some(limit))
    }

    /// Includes files that `.gitignore` excludes.
    pub fn ignored(self) -> Self {
        self.arguments(|grep| grep.ignored = true)
    }

    /// Makes the call and returns the lines that it found.
    ///
    /// # Errors
    /// [`Error::Failed`] with the daemon's reason, also for an invalid pattern.
    pub async fn lines(self) -> Result<Matches, Error> {
        let call = self.arguments(|grep| grep.mode = GrepMode::Content);
        data(&succeeded(call.await?)?)
    }
}

fn data<T: DeserializeOwned>(result: &CallResult) -> Result<T, Error> {
    let text = result.data.as_ref().map_or("null", |data| data.as_str());
    serde_json::from_str(text)
        .map_err(|error| Error::Protocol(format!("the data of {}: {error}", result.tool)))
}
