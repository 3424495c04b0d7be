//! A call whose arguments make sense: what other stages may know of it, and how it runs. Broker.

use crate::{
    attachment::Attachment,
    change::Preview,
    context::Context,
    guard::Route,
    outcome::Outcome,
    session::Session,
    task::{self, Manner, Task, Validated},
    tools::Tool,
    transaction::Transaction,
    turn::Place,
};
use palisade_policy::{Grant, Profile, Search, UpFront};
use palisade_protocol::{Call, CallId, Guard, ToolName, WireError};
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// A call whose arguments make sense.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(super) call: Call,
    pub(super) context: Context,
    /// Until it was its turn.
    pub(super) place: Option<Place>,
    pub(super) tool: Arc<Tool>,
    pub(super) validated: Validated,
    /// What a change would do, in a dry run.
    pub(super) preview: Option<Preview>,
    /// How a program runs.
    pub(super) route: Route,
    /// The report of a dry run whose program is tried.
    pub(super) report: Option<Value>,
    /// Where it runs, once that is made.
    pub(super) transaction: Option<Transaction>,
}

impl Checked {
    /// The tool's own name.
    pub(crate) fn tool(&self) -> &ToolName {
        &self.tool.spec.name
    }

    /// The tool.
    pub(crate) fn described(&self) -> &Tool {
        &self.tool
    }

    pub(crate) fn session(&self) -> &Session {
        &self.context.session
    }

    pub(crate) const fn call(&self) -> &Call {
        &self.call
    }

    pub(crate) const fn call_id(&self) -> &CallId {
        &self.context.call_id
    }

    pub(crate) const fn task(&self) -> &Task {
        &self.validated.task
    }

    pub(crate) const fn timeout(&self) -> Duration {
        self.validated.timeout
    }

    /// What a change would do, in a dry run.
    pub(crate) const fn preview(&self) -> Option<&Preview> {
        self.preview.as_ref()
    }

    /// Whether a dry run of it is a real one, in a transaction: everything that it can change is in
    /// the workspace, and it ends.
    pub(crate) fn is_tried(&self) -> bool {
        let Task::Run(program) = &self.validated.task else { return false };
        let profile = &self.context.session.profile;
        self.call.options.dry_run
            && self.context.session.guard() >= Guard::Auto
            && program.manner == Manner::Foreground
            && program.terminal.is_none()
            && profile.writes_workspace()
            && !profile.writes_beyond()
    }

    /// The same with the report so far of what is tried.
    pub(crate) fn tried(self, report: Value) -> Self {
        Self { report: Some(report), ..self }
    }

    /// The same that runs another way.
    pub(crate) fn routed(self, route: Route) -> Self {
        Self { route, ..self }
    }

    /// The same after somebody said yes: what was known to destroy, and approved, need not be held
    /// back.
    pub(crate) fn approved(self, grant: &Grant) -> Self {
        let known = grant.findings().iter().any(|found| UpFront::Known.asks(found));
        let session = &self.context.session;
        if known && session.guard() == Guard::Auto {
            let veiled = session.is_veiled();
            return self.routed(if veiled { Route::Veiled } else { Route::Direct(Search::Whole) });
        }
        self
    }

    /// Whether it runs in a transaction.
    pub(crate) fn wants_transaction(&self) -> bool {
        // What runs on takes its own when it begins.
        let ends =
            matches!(&self.validated.task, Task::Run(one) if one.manner == Manner::Foreground);
        self.route == Route::Transaction || (self.route == Route::Veiled && ends) || self.is_tried()
    }

    /// Whether it is known to read only, and would be shown what is hidden.
    pub(crate) fn looks_around(&self) -> bool {
        let session = &self.context.session;
        matches!(self.validated.task, Task::Run(_))
            && matches!(self.route, Route::Direct(_))
            && session.is_veiled()
            && session.profile.hides()
    }

    /// From here on what is hidden is hidden from it.
    pub(crate) const fn veil(&mut self) {
        self.route = Route::Veiled;
    }

    /// Gives it its transaction.
    pub(crate) fn enter(&mut self, transaction: Transaction) {
        self.transaction = Some(transaction);
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.tool.spec.metadata.read_only
    }

    /// What was sent along with it.
    pub(crate) const fn attachment(&self) -> Option<&Attachment> {
        self.context.input.as_ref()
    }

    pub(crate) const fn attachment_mut(&mut self) -> Option<&mut Attachment> {
        self.context.input.as_mut()
    }

    /// Tells when the caller does not want it any more.
    pub(crate) fn cancelling(&self) -> CancellationToken {
        self.context.cancel.clone()
    }

    /// Returns when the caller does not want it any more.
    pub(crate) async fn cancelled(&self) {
        self.context.cancel.cancelled().await;
    }

    /// The same with another's arguments, which must fit as well.
    pub(crate) fn with(self, call: Call) -> Result<Self, Box<Outcome>> {
        match validated(&self.tool, &call, &self.context.session.profile) {
            Ok(validated) => Ok(Self { call, validated, ..self }),
            Err(error) => Err(Box::new(error.into())),
        }
    }
}

/// The task of a call, and how long it may take.
pub(super) fn validated(
    tool: &Tool,
    call: &Call,
    profile: &Profile,
) -> Result<Validated, WireError> {
    task::validate(&tool.spec, call, tool.parse(call)?, profile)
}
