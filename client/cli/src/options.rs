//! Options that several subcommands share.

use crate::linger::Linger;
use clap::Args;
use palisade_options::{SessionTerms, duration};
use std::{str::FromStr, time::Duration};

/// The longest time that can be asked for. A profile's own longest (`limits.max_timeout_ms`) is at
/// most this, and counts.
pub(crate) const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// The time that a call may take, as given with `--timeout`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeLimit {
    /// At most this long.
    Of(Duration),
    /// As long as the daemon lets a call take.
    Longest,
}

impl TimeLimit {
    /// Returns the time to ask the daemon for, which cuts it to the profile's longest.
    pub(crate) const fn duration(self) -> Duration {
        match self {
            Self::Of(time) => time,
            Self::Longest => LONGEST,
        }
    }
}

impl FromStr for TimeLimit {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "none" => Ok(Self::Longest),
            _ => duration::parse(text).map(Self::Of).map_err(|error| format!("{error}; or none")),
        }
    }
}

/// The options of the session and of its output.
#[derive(Debug, Args)]
pub(crate) struct SessionOptions {
    #[command(flatten)]
    pub(crate) terms: SessionTerms,
    /// How long the call may take: 500ms, 30s, 2m; none is as long as the daemon allows
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<TimeLimit>,
    /// The reason for the call, shown to approvers and recorded in the audit log
    #[arg(long, value_name = "TEXT")]
    pub(crate) reason: Option<String>,
    /// Report what would happen; a command runs in a transaction that is discarded
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// End a private daemon with the command, and use none that an earlier command left running
    #[arg(long, help_heading = "Daemon")]
    pub(crate) no_linger: bool,
    /// Print only the whole result, as one JSON object, on standard output
    #[arg(long)]
    pub(crate) json: bool,
    /// Print on standard error what was enforced
    #[arg(long, short)]
    pub(crate) verbose: bool,
}

impl SessionOptions {
    /// Returns how long a private daemon may stay, and its calls may take.
    pub(crate) const fn linger(&self) -> Linger {
        match (self.timeout, self.no_linger) {
            (Some(TimeLimit::Longest), _) => Linger::WithOneLongCall,
            (Some(TimeLimit::Of(_)) | None, true) => Linger::Never,
            (Some(TimeLimit::Of(_)) | None, false) => Linger::AsConfigured,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_limit_is_a_duration_or_none() {
        assert_eq!("2m".parse(), Ok(TimeLimit::Of(Duration::from_secs(120))));
        assert_eq!("none".parse(), Ok(TimeLimit::Longest));
        for text in ["None", "0s", "", "forever"] {
            let error = text.parse::<TimeLimit>().unwrap_err();
            assert!(error.ends_with("; or none"), "{error}");
        }
    }
}
