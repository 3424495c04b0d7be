//! Options that several subcommands share.

use crate::{duration, failure::Failure};
use clap::{Args, ValueEnum};
use palisade_client::{Ask, Guard, Open};
use std::{path::PathBuf, time::Duration};

/// Which daemon.
#[derive(Debug, Default, Args)]
pub(crate) struct Connection {
    /// The daemon's socket; else $PALISADE_SOCKET, else the default ones, else a private daemon
    #[arg(long, value_name = "PATH", help_heading = "Daemon")]
    pub(crate) socket: Option<PathBuf>,
    /// A directory of profiles, for a private daemon; may be given several times
    #[arg(long, value_name = "DIR", conflicts_with = "socket", help_heading = "Daemon")]
    pub(crate) profiles: Vec<PathBuf>,
}

/// What the session is, and what is shown of it.
#[derive(Debug, Args)]
pub(crate) struct SessionOptions {
    #[command(flatten)]
    pub(crate) connection: Connection,
    /// The profile; the daemon's default one if not given
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,
    /// The directory to work in, seen inside at the same path
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) workspace: PathBuf,
    /// When to ask a checkpoint; can only be stricter than the profile
    #[arg(long, value_name = "MODE")]
    pub(crate) ask: Option<AskMode>,
    /// How what a command does is held to the checkpoint; can only be stricter than the profile
    #[arg(long, value_name = "GUARD")]
    pub(crate) guard: Option<GuardMode>,
    /// How long it may take: 500ms, 30s, 2m
    #[arg(long, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) timeout: Option<Duration>,
    /// Why, in your own words, for approvers and the audit
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Judge and report only; a command runs in a transaction that is discarded
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Print the whole result as one JSON object on standard output, and nothing else there
    #[arg(long)]
    pub(crate) json: bool,
    /// Say on standard error what was enforced
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

/// When a checkpoint is asked, from lax to strict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AskMode {
    /// Never: autonomous; deny rules still hold
    Never,
    /// Before what destroys
    Destructive,
    /// Before every tool that is not read-only
    Sensitive,
    /// Before every call
    Always,
}

impl From<AskMode> for Ask {
    fn from(mode: AskMode) -> Self {
        match mode {
            AskMode::Never => Self::Never,
            AskMode::Destructive => Self::Destructive,
            AskMode::Sensitive => Self::Sensitive,
            AskMode::Always => Self::Always,
        }
    }
}

/// How what a command does is held to the checkpoint, from lax to strict.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum GuardMode {
    /// Not at all
    Off,
    /// By its text: what that does not tell is asked about first
    Text,
    /// By its effects, unless its text proves that it reads or tells that it destroys
    Auto,
    /// By its effects, always
    Transaction,
}

impl From<GuardMode> for Guard {
    fn from(mode: GuardMode) -> Self {
        match mode {
            GuardMode::Off => Self::Off,
            GuardMode::Text => Self::Text,
            GuardMode::Auto => Self::Auto,
            GuardMode::Transaction => Self::Transaction,
        }
    }
}

impl SessionOptions {
    /// The session to ask for; its workspace must exist and is named without symbolic links.
    pub(crate) fn open(&self) -> Result<Open, Failure> {
        let workspace = self.workspace.canonicalize().map_err(|error| {
            Failure::new(
                format!("can not use {} as the workspace: {error}", self.workspace.display()),
                "name a directory that exists with --workspace",
            )
        })?;
        let mut open = Open::new(workspace);
        if let Some(profile) = &self.profile {
            open = open.profile(profile);
        }
        if let Some(ask) = self.ask {
            open = open.ask(ask.into());
        }
        if let Some(guard) = self.guard {
            open = open.guard(guard.into());
        }
        Ok(open)
    }
}
