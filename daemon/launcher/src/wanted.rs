//! A runner that the broker wants for a session.

use palisade_plan::Role;
use std::os::fd::OwnedFd;

/// A runner that is wanted.
#[derive(Debug)]
pub(crate) enum Wanted {
    /// For programs, one after another, with its channel.
    Runner([OwnedFd; 1]),
    /// The same, for programs that can only read.
    Reader([OwnedFd; 1]),
    /// For one, with its channel and the one on which it is settled, and what was found of names
    /// that are hidden from it.
    Transaction([OwnedFd; 2], Option<OwnedFd>),
}

impl Wanted {
    /// What it is to become.
    pub(crate) const fn role(&self) -> Role {
        match self {
            Self::Runner(_) => Role::Runner,
            Self::Reader(_) => Role::Reader,
            Self::Transaction(..) => Role::Transaction,
        }
    }

    /// What was found of hidden names.
    pub(crate) const fn scanned(&self) -> Option<&OwnedFd> {
        match self {
            Self::Runner(_) | Self::Reader(_) => None,
            Self::Transaction(_, scanned) => scanned.as_ref(),
        }
    }

    /// Its channels.
    pub(crate) fn channels(&self) -> &[OwnedFd] {
        match self {
            Self::Runner(channels) | Self::Reader(channels) => channels,
            Self::Transaction(channels, _) => channels,
        }
    }
}
