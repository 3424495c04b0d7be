//! A call with valid arguments: what other stages may know of it, and how it runs. Runs in the
//! broker.

use crate::{
    base::{
        attachment::Attachment,
        outcome::Outcome,
        preview::Preview,
        task::{self, DirectoryPolicy, Task, ValidatedTask, WaitMode},
    },
    cells::{
        context::Context,
        session::Session,
        transaction::Transaction,
        turn::{Company, QueuePlace},
    },
    changes::guard::{EffectsReview, Route},
    tools::Tool,
};
use palisade_policy::Commands;
use palisade_protocol::{Call, CallId, Finding, Guard, ToolName, WireError};
use serde_json::Value;
use std::{sync::Arc, time::Duration};
use tokio_util::sync::CancellationToken;

/// A call with valid arguments.
#[derive(Debug)]
pub(crate) struct CheckedCall {
    pub(super) call: Call,
    pub(super) context: Context,
    /// Its place in the session's queue; `None` once its turn has come.
    pub(super) place: Option<QueuePlace>,
    pub(super) tool: Arc<Tool>,
    pub(super) validated: ValidatedTask,
    /// The preview of a change, in a dry run.
    pub(super) preview: Option<Preview>,
    /// The route of its program.
    pub(super) route: Route,
    /// The programs that its text names.
    pub(super) commands: Commands,
    /// The report of a dry run whose program is run in a transaction.
    pub(super) report: Option<Value>,
    /// The transaction it runs in, once that exists.
    pub(super) transaction: Option<Transaction>,
}

impl CheckedCall {
    /// Returns the tool's own name, not an alias.
    pub(crate) fn tool(&self) -> &ToolName {
        &self.tool.spec.name
    }

    /// Returns the tool.
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

    /// Returns what was changed in the call so that it may run.
    pub(crate) fn adjusted(&self) -> &[Finding] {
        &self.validated.adjusted
    }

    pub(crate) const fn context(&self) -> &Context {
        &self.context
    }

    /// Returns the preview of a change, in a dry run.
    pub(crate) const fn preview(&self) -> Option<&Preview> {
        self.preview.as_ref()
    }

    /// Returns `true` if a dry run really runs the program, in a transaction that is then
    /// discarded. That needs a program that ends and can change only the workspace.
    pub(crate) fn is_trial_run(&self) -> bool {
        let Task::Run(program) = &self.validated.task else { return false };
        let profile = &self.context.session.profile;
        self.call.options.dry_run
            && self.context.session.guard() >= Guard::Auto
            && program.manner == WaitMode::Foreground
            && profile.writes_workspace()
            && !profile.writes_beyond()
    }

    /// Sets the report so far of a dry run that is run in a transaction.
    pub(crate) fn with_report(self, report: Value) -> Self {
        Self { report: Some(report), ..self }
    }

    /// Sets another route and other programs, after the arguments were changed.
    pub(crate) fn with_route(self, route: Route, commands: Commands) -> Self {
        Self { route, commands, ..self }
    }

    /// Returns the company in which the call runs. A program that leaves the session's directory as
    /// it is may run beside others like it, unless it changes the workspace directly.
    pub(crate) fn company(&self) -> Company {
        match (&self.validated.task, self.route) {
            (Task::Run(program), Route::Reading | Route::Transaction(_))
                if program.final_directory() == DirectoryPolicy::Left =>
            {
                Company::Shared
            }
            _ => Company::Alone,
        }
    }

    /// Sets the route of the call's program, which decides in which company it runs.
    pub(super) fn take_route(&mut self, route: Route) {
        self.route = route;
        if let Some(place) = &self.place {
            place.declare(self.company());
        }
    }

    /// Returns `true` if the call runs in a transaction.
    pub(crate) fn wants_transaction(&self) -> bool {
        let runs = matches!(self.validated.task, Task::Run(_));
        (runs && matches!(self.route, Route::Transaction(_))) || self.is_trial_run()
    }

    /// Returns `true` if the call starts a job that watches the live workspace.
    pub(crate) fn watches(&self) -> bool {
        let Task::Run(program) = &self.validated.task else { return false };
        self.route == Route::Reading && program.route == task::RouteChoice::Watch
    }

    /// Returns `true` if the call's route is reading, and hidden names would be visible there, also those
    /// that are made while it runs.
    pub(crate) fn may_see_hidden(&self) -> bool {
        let session = &self.context.session;
        matches!(self.validated.task, Task::Run(_))
            && self.route == Route::Reading
            && session.restricts_names()
            && session.profile.hides()
    }

    /// Switches the call to a transaction, in which hidden names are invisible.
    pub(crate) const fn hide(&mut self) {
        self.route = Route::Transaction(EffectsReview::Required);
    }

    /// Sets the call's transaction.
    pub(crate) fn enter(&mut self, transaction: Transaction) {
        self.transaction = Some(transaction);
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.tool.spec.metadata.read_only
    }

    /// Returns the attachment that comes with the call.
    pub(crate) const fn attachment(&self) -> Option<&Attachment> {
        self.context.input.as_ref()
    }

    pub(crate) const fn attachment_mut(&mut self) -> Option<&mut Attachment> {
        self.context.input.as_mut()
    }

    /// Returns the token that is cancelled when the caller cancels the call.
    pub(crate) fn cancelling(&self) -> CancellationToken {
        self.context.cancel.clone()
    }

    /// Waits until the caller cancels the call.
    pub(crate) async fn cancelled(&self) {
        self.context.cancel.cancelled().await;
    }

    /// Replaces the call's arguments, which are validated again.
    pub(crate) fn with(self, call: Call) -> Result<Self, Box<Outcome>> {
        match validated(&self.tool, &call, &self.context.session) {
            Ok(validated) => Ok(Self { call, validated, ..self }),
            Err(error) => Err(Box::new(error.into())),
        }
    }
}

/// Returns the task of a call, and its timeout.
pub(super) fn validated(
    tool: &Tool,
    call: &Call,
    session: &Session,
) -> Result<ValidatedTask, WireError> {
    let place = (&*session.profile, &session.scene);
    task::validate(&tool.spec, call, tool.parse(call)?, place)
}
