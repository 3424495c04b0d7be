//! The arguments of `bash` and of the tools for its jobs.

use crate::RawPath;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Arguments of `bash`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Bash {
    /// A shell line, run by `bash -c`. Give this or `argv`, not both.
    #[serde(skip_serializing_if = "Option::is_none", alias = "cmd")]
    pub command: Option<String>,
    /// A program and its arguments, run without a shell.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub argv: Option<Vec<String>>,
    /// Milliseconds after which everything the call started is killed.
    #[serde(skip_serializing_if = "Option::is_none", alias = "timeout")]
    pub timeout_ms: Option<u64>,
    /// The directory to start in; absolute, or relative to the session's current directory.
    #[cfg_attr(feature = "schema", schemars(with = "Option<String>"))]
    #[serde(
        skip_serializing_if = "Option::is_none",
        alias = "workdir",
        alias = "working_directory"
    )]
    pub cwd: Option<RawPath>,
    /// Variables to add to the session's environment.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// The text that the program reads on standard input; empty if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stdin: Option<String>,
    /// What the command does, in a few words, for people who review it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Run as a background job and return its id at once. Then use `job_output`, `job_input`,
    /// `job_kill` and `job_list`. A job has no time limit unless `timeout_ms` is given, and ends
    /// with the session.
    #[serde(skip_serializing_if = "std::ops::Not::not", alias = "run_in_background")]
    pub background: bool,
    /// Wait this many milliseconds; a command that is still running then becomes a job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub yield_ms: Option<u64>,
    /// Keep a job's standard input open for `job_input`.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub input: bool,
    /// Run on a terminal: output and errors are one stream, with the terminal's control codes.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub pty: bool,
    /// Rows of the terminal, 24 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rows: Option<u16>,
    /// Columns of the terminal, 80 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cols: Option<u16>,
    /// Where the command runs; chosen by the daemon if absent. `watch` and `direct` are for jobs
    /// only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<BashRoute>,
}

/// Where a `bash` call asks to run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BashRoute {
    /// In a transaction over the workspace; its effects are judged before they are committed.
    Transaction,
    /// In the live workspace, mounted read-only, for a job that watches it.
    Watch,
    /// In the workspace itself, for a job; needs approval before it starts.
    Direct,
}

/// Arguments of `job_output`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct JobOutput {
    /// The job's id.
    pub job: u64,
    /// Where to continue: the `cursor` of the last result. From the start if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<u64>,
    /// How many milliseconds to wait for new output or for the job's end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wait_ms: Option<u64>,
    /// The maximum number of bytes to return.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u64>,
}

/// Arguments of `job_input`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct JobInput {
    /// The job's id. The job must have been started with `input`.
    pub job: u64,
    /// The text to write; end a line with a newline.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub data: String,
    /// End the job's standard input after `data`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub end: bool,
    /// The new number of rows of the job's terminal; needs `cols`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rows: Option<u16>,
    /// The new number of columns of the job's terminal; needs `rows`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cols: Option<u16>,
}

/// Arguments of `job_commit`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct JobCommit {
    /// The job's id.
    pub job: u64,
    /// What happens to the job if its changes are not committed: `keep` lets it continue with them,
    /// `end` ends it and discards them.
    #[serde(default, skip_serializing_if = "IfRefused::is_keep")]
    pub if_refused: IfRefused,
}

/// What happens to a job whose changes are not committed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum IfRefused {
    /// The job continues with its changes.
    #[default]
    Keep,
    /// The job ends, and its changes are discarded.
    End,
}

impl IfRefused {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    fn is_keep(&self) -> bool {
        *self == Self::Keep
    }
}

/// Arguments of `job_kill`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct JobKill {
    /// The job's id.
    pub job: u64,
    /// The signal to send to every process of the job, by name or number. If absent: TERM, then
    /// KILL for processes that remain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signal: Option<Signal>,
}

/// A signal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum Signal {
    /// `INT`, `SIGINT`.
    Name(String),
    /// `2`.
    Number(u8),
}

/// Arguments of `job_list`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct JobList {
    /// List only jobs that are still running.
    pub running: bool,
}
