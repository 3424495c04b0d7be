//! `glob` and `grep` of a session: calls to be refined, and what they found as values.

use crate::{Call, CallResult, Error, Session, files::succeeded};
use palisade_protocol::{
    RawPath,
    arguments::{Glob, Grep, GrepMode, Syntax},
};
use serde::{Deserialize, de::DeserializeOwned};
use std::path::Path;

/// The files that `glob` found, the newest first.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Files {
    /// The newest first.
    pub files: Vec<FoundFile>,
    /// How many there are in all.
    pub total: u64,
    /// Not all of them are in `files`.
    pub truncated: bool,
}

/// A file that `glob` found.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct FoundFile {
    /// As a further call can name it.
    pub path: RawPath,
    /// Bytes.
    pub size: u64,
}

/// The lines that `grep` found.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Matches {
    /// Sorted by path, then by line.
    pub matches: Vec<FoundLine>,
    /// How many lines match in all.
    pub total_lines: u64,
    /// How many files have one.
    pub total_files: u64,
    /// Not all of them are in `matches`.
    pub truncated: bool,
    /// How many files were searched.
    pub searched: u64,
    /// How many were not.
    pub skipped: Skipped,
}

/// A line that `grep` found, or that stands near one.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct FoundLine {
    /// As a further call can name it.
    pub path: RawPath,
    /// From 1.
    pub line: u64,
    /// Where the match begins, in bytes from 1.
    pub column: Option<u64>,
    /// Its text; of a long line what is around the match.
    pub text: String,
    /// It does not match itself.
    #[serde(default)]
    pub context: bool,
}

/// Files that `grep` did not search.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct Skipped {
    /// They are not text.
    pub binary: u64,
    /// They are too large.
    pub large: u64,
    /// They could not be opened.
    pub unreadable: u64,
}

impl Session {
    /// Files by their names: `*.rs` at any depth, `src/**/*.{rs,toml}` below the current directory.
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

    /// Lines by a regular expression, in the files below the current directory.
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
    /// In this directory.
    pub fn within(self, path: impl AsRef<Path>) -> Self {
        self.arguments(|glob| glob.path = Some(RawPath::from(path)))
    }

    /// This many files at most.
    pub fn limit(self, limit: u64) -> Self {
        self.arguments(|glob| glob.limit = Some(limit))
    }

    /// Also what `.gitignore` leaves out.
    pub fn ignored(self) -> Self {
        self.arguments(|glob| glob.ignored = true)
    }

    /// Makes the call: what it found.
    ///
    /// # Errors
    /// [`Error::Failed`] with the daemon's reason.
    pub async fn files(self) -> Result<Files, Error> {
        data(&succeeded(self.await?)?)
    }
}

impl Call<Grep> {
    /// In this directory or file.
    pub fn within(self, path: impl AsRef<Path>) -> Self {
        self.arguments(|grep| grep.path = Some(RawPath::from(path)))
    }

    /// Only in files that match.
    pub fn glob(self, glob: impl Into<String>) -> Self {
        self.arguments(|grep| grep.glob = Some(glob.into()))
    }

    /// The pattern is the text itself.
    pub fn literal(self) -> Self {
        self.arguments(|grep| grep.syntax = Syntax::Literal)
    }

    /// `a` and `A` are the same.
    pub fn case_insensitive(self) -> Self {
        self.arguments(|grep| grep.case_insensitive = true)
    }

    /// With this many lines before and after each.
    pub fn context(self, lines: u32) -> Self {
        self.arguments(|grep| grep.context = Some(lines))
    }

    /// This many matching lines at most.
    pub fn limit(self, limit: u64) -> Self {
        self.arguments(|grep| grep.limit = Some(limit))
    }

    /// Also in what `.gitignore` leaves out.
    pub fn ignored(self) -> Self {
        self.arguments(|grep| grep.ignored = true)
    }

    /// Makes the call: the lines that it found.
    ///
    /// # Errors
    /// [`Error::Failed`] with the daemon's reason, also for a pattern that can not be used.
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
