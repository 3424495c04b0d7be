//! A call whose arguments make sense: what other stages may know of it, and how it runs. Broker.

use crate::{
    attachment::Attachment,
    change::Preview,
    context::Context,
    guard::{EffectsReview, Route},
    outcome::Outcome,
    session::Session,
    task::{self, Manner, Task, Validated},
    tools::Tool,
    transaction::Transaction,
    turn::Place,
};
use palisade_policy::Profile;
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
            && profile.writes_workspace()
            && !profile.writes_beyond()
    }

    /// The same with the report so far of what is tried.
    pub(crate) fn tried(self, report: Value) -> Self {
        Self { report: Some(report), ..self }
    }

    /// The same by another route: its arguments were changed.
    pub(crate) fn routed(self, route: Route) -> Self {
        Self { route, ..self }
    }

    /// Whether it runs in a transaction.
    pub(crate) fn wants_transaction(&self) -> bool {
        let runs = matches!(self.validated.task, Task::Run(_));
        (runs && matches!(self.route, Route::Transaction(_))) || self.is_tried()
    }

    /// Whether it reads where it would be shown what is hidden.
    pub(crate) fn may_see_hidden(&self) -> bool {
        let session = &self.context.session;
        matches!(self.validated.task, Task::Run(_))
            && self.route == Route::Reading
            && session.is_veiled()
            && session.profile.hides()
    }

    /// From here on it runs in a transaction, in which what is hidden is hidden.
    pub(crate) const fn hide(&mut self) {
        self.route = Route::Transaction(EffectsReview::Required);
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
