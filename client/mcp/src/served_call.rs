//! The call of a client for which another server is asked: who hears what the request is doing, and
//! where its result is kept.

use crate::{
    activity::Activity,
    pages::{Pages, reads_on},
};
use std::sync::Arc;
use tokio::sync::watch;

/// The call of a client for which another server is asked.
#[derive(Debug)]
pub(crate) struct ServedCall {
    pub(crate) told: watch::Sender<Activity>,
    pub(crate) remainder: Remainder,
}

/// The way to what a result leaves out.
#[derive(Debug)]
pub(crate) enum Remainder {
    /// It is lost: the tool has to be asked for less.
    Lost,
    /// It is kept under the id of the call, and `read_output` reads it.
    Kept { call: String, pages: Arc<Pages> },
}

impl ServedCall {
    /// Makes one for a request that no call of a client waits for.
    pub(crate) fn none() -> Self {
        Self { told: watch::Sender::new(Activity::Running), remainder: Remainder::Lost }
    }

    /// Makes one for the requests that come first, while the server starts.
    pub(crate) fn until_started(&self) -> Self {
        Self { told: self.told.clone(), remainder: Remainder::Lost }
    }
}

impl Remainder {
    /// Says how to get what is left out of a text, from this byte on.
    pub(crate) fn describe(&self, offset: usize) -> String {
        match self {
            Self::Lost => "ask the tool for less".to_owned(),
            Self::Kept { call, .. } => reads_on(call, offset),
        }
    }

    /// Keeps the whole text of a result.
    pub(crate) fn keep(&self, text: &str) {
        match self {
            Self::Lost => {}
            Self::Kept { call, pages } => pages.keep(call, text),
        }
    }
}
