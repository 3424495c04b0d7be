//! A runner that the broker requests for a session.

use palisade_plan::{Path, Role};
use std::os::fd::OwnedFd;

/// A runner that the broker requests.
#[derive(Debug)]
pub(crate) enum RunnerRequest {
    /// A runner for programs, one after another, with its channel.
    Runner([OwnedFd; 1]),
    /// A runner for programs that can only read, with its channel.
    Reader([OwnedFd; 1]),
    /// A runner for one program in a transaction, with its channel and the channel for committing.
    /// The descriptor has the result of a search for names that are hidden from the program.
    Transaction([OwnedFd; 2], Option<OwnedFd>),
    /// A runner for one program that watches, with the same channels and the directories whose
    /// changes are held back.
    Watch([OwnedFd; 2], Vec<Path>),
}

impl RunnerRequest {
    /// Returns the role of the runner's process.
    pub(crate) const fn role(&self) -> Role {
        match self {
            Self::Runner(_) => Role::Runner,
            Self::Reader(_) => Role::Reader,
            Self::Transaction(..) | Self::Watch(..) => Role::Transaction,
        }
    }

    /// Returns the descriptor with the result of a search for hidden names.
    pub(crate) const fn scanned(&self) -> Option<&OwnedFd> {
        match self {
            Self::Runner(_) | Self::Reader(_) | Self::Watch(..) => None,
            Self::Transaction(_, scanned) => scanned.as_ref(),
        }
    }

    /// Returns the runner's channels.
    pub(crate) fn channels(&self) -> &[OwnedFd] {
        match self {
            Self::Runner(channels) | Self::Reader(channels) => channels,
            Self::Transaction(channels, _) | Self::Watch(channels, _) => channels,
        }
    }
}
