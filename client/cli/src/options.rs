//! Options that several subcommands share.

use clap::Args;
use palisade_options::{SessionTerms, duration};
use std::time::Duration;

/// The options of the session and of its output.
#[derive(Debug, Args)]
pub(crate) struct SessionOptions {
    #[command(flatten)]
    pub(crate) terms: SessionTerms,
    /// How long the call may take: 500ms, 30s, 2m
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) timeout: Option<Duration>,
    /// The reason for the call, shown to approvers and recorded in the audit log
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Report what would happen; a command runs in a transaction that is discarded
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print only the whole result, as one JSON object, on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// Print on standard error what was enforced
    #[arg(long, short)]
    pub(crate) verbose: bool,
}
