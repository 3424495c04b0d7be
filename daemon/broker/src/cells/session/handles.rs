//! The groups of handles that a session has beside its cell: network, files and calls. Runs in the
//! broker.

use super::authority::SessionInspection;
use crate::{
    base::{
        identity::WorkingDirectory,
        results::{CallRoom, ResultRoom},
    },
    cells::{
        commit_lock::WorkspaceLock, hidden_names::HiddenNameSearch, kept::ReplyStore,
        refused::RefusedConnections, turn::Turns, used_hosts::UsedHosts,
    },
    stores::undo::Undos,
};
use palisade_plan::Records;
use palisade_protocol::{Finding, Receipt};
use std::{
    os::fd::OwnedFd,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicU32, AtomicU64},
    },
};

/// A session's receipt, and the part of it that the client was told.
#[derive(Debug)]
pub(super) struct SessionReceipt {
    /// The receipt of the cell, from when it was made.
    pub(super) made: Receipt,
    /// The receipt in the reply to `open`, and its digest.
    pub(super) opening: OnceLock<(Receipt, String)>,
    /// The setting of the session's seccomp filter for audit records.
    pub(super) records: Records,
}

/// A session's network by name.
#[derive(Debug)]
pub(crate) struct SessionNetwork {
    /// The listeners of the network, until an egress room takes them.
    listeners: Mutex<Vec<OwnedFd>>,
    /// The authority and credentials of inspected hosts; `None` if the profile has none.
    pub(crate) inspection: Option<SessionInspection>,
    /// The connections that the session was refused.
    pub(crate) refused: Arc<RefusedConnections>,
    /// The hosts that it was allowed to connect to, if it records.
    pub(crate) used_hosts: UsedHosts,
}

impl SessionNetwork {
    pub(super) fn new(listeners: Vec<OwnedFd>, inspection: Option<SessionInspection>) -> Self {
        Self {
            listeners: Mutex::new(listeners),
            inspection,
            refused: Arc::default(),
            used_hosts: UsedHosts::default(),
        }
    }

    /// Takes the listeners of the network.
    pub(crate) fn take_listeners(&self) -> Vec<OwnedFd> {
        std::mem::take(&mut *self.listeners.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The handles of a session on its workspace: working directory, commit lock, undo and hidden
/// names.
#[derive(Debug)]
pub(crate) struct WorkspaceHandles {
    pub(crate) cwd: Arc<WorkingDirectory>,
    /// Held from when a change is judged until it is committed, so that each change is judged
    /// against what the earlier ones left, those of other sessions included. Never held while an
    /// approver or the client is waited for.
    pub(crate) commits: WorkspaceLock,
    pub(crate) undos: Undos,
    pub(super) hidden_names: HiddenNameSearch,
    /// The number of times that the session's files may have changed.
    pub(super) changes: AtomicU64,
}

/// A session's calls: their order, their number, and their replies.
#[derive(Debug)]
pub(crate) struct SessionCalls {
    pub(crate) turns: Turns,
    pub(crate) replies: ReplyStore,
    /// The room for results that the client has not read.
    pub(crate) results: ResultRoom,
    pub(crate) in_flight: AtomicU32,
    pub(crate) total: AtomicU64,
    /// Findings to add to the session's next result.
    pub(super) untold: Mutex<Vec<Finding>>,
}

impl SessionCalls {
    pub(super) fn new(turns: Turns, results: ResultRoom) -> Self {
        Self {
            turns,
            replies: ReplyStore::default(),
            results,
            in_flight: AtomicU32::new(0),
            total: AtomicU64::new(0),
            untold: Mutex::default(),
        }
    }

    /// The room for the result of one more call.
    pub(crate) fn result_room(&self) -> CallRoom {
        CallRoom::new(self.results.clone())
    }
}
