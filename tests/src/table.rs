//! Tables of calls, each case made in a copy of a repository: without an approver, and with one who
//! approves.

use crate::{
    Desk, Disregarded, FixtureRepository, InitialState, Mode, WorkingTree, profile_with, report,
    tree, unconfined,
};
use palisade_client::Answer;
use palisade_protocol::{CallResult, ErrorCode};
use serde_json::{Value, json};
use std::{fmt, fs, path::Path};

/// A call of a table.
#[derive(Debug, Clone, Copy)]
pub enum TableCall {
    /// A line of bash.
    Bash(&'static str),
    /// Another tool, and its arguments as JSON.
    Tool(&'static str, &'static str),
}

impl TableCall {
    fn parts(self) -> (&'static str, Value) {
        match self {
            Self::Bash(line) => ("bash", json!({"command": line, "timeout_ms": 300_000})),
            Self::Tool(name, arguments) => (name, serde_json::from_str(arguments).expect("JSON")),
        }
    }

    /// Makes the call without an approver.
    #[must_use]
    pub fn make(self, desk: &Desk) -> CallResult {
        let (tool, arguments) = self.parts();
        desk.sandbox.call(tool, arguments)
    }

    /// Makes the call and approves every approval request; also returns their number.
    #[must_use]
    pub fn make_approved(self, desk: &Desk) -> (CallResult, usize) {
        let (tool, arguments) = self.parts();
        let (result, asked) = desk.call(tool, arguments, |_| Some(Answer::approve()));
        (result, asked.len())
    }
}

impl fmt::Display for TableCall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bash(line) => f.write_str(line),
            Self::Tool(name, arguments) => write!(f, "{name} {arguments}"),
        }
    }
}

/// Returns `true` if a call was denied.
#[must_use]
pub fn is_denied(result: &CallResult) -> bool {
    result.error.as_ref().is_some_and(|error| error.code == ErrorCode::Denied)
}

/// The calls of one case, and a shell condition that is true outside once they took effect.
pub type TableCase = (&'static [TableCall], &'static str);

/// A table of cases, and the setup of their repository.
#[derive(Debug, Clone, Copy)]
pub struct Table {
    /// The cases, in groups.
    pub cases: &'static [&'static [TableCase]],
    /// A shell line that is run in the repository before it is copied.
    pub more: &'static str,
    /// The names that are noise.
    pub noise: Disregarded,
    /// The names that git ignores.
    pub ignored: Disregarded,
}

/// Makes the calls of a case in a copy; returns what is wrong with the outcome.
type Attempt = fn(&Table, &Desk, &Path, TableCase) -> Vec<String>;
/// A function that decides whether the case of this number is tried in a mode.
type Selection = fn(Mode, usize) -> bool;

impl Table {
    /// Asserts that no case takes effect without an approver. Some call of it is denied, its
    /// condition is false, and every initial byte is still available.
    ///
    /// # Panics
    /// If a case takes effect.
    pub fn nothing_counts_unasked(&self, what: &str) {
        let what = format!("{what} that counted with no approver");
        self.attempt_all(&what, without_approver, |_, _| true);
    }

    /// Asserts that every case takes effect once it is approved, in the short form in one of the
    /// modes: it is the control.
    ///
    /// # Panics
    /// If no approval is requested, or a case does not take effect.
    pub fn everything_counts_approved(&self, what: &str) {
        let what = format!("{what} that an approver did not decide");
        self.attempt_all(&what, with_approver, Mode::has_turn);
    }

    fn attempt_all(&self, what: &str, attempt: Attempt, is_tried: Selection) {
        let failures: Vec<String> = std::thread::scope(|scope| {
            let start = |mode| {
                let cases = self.cases.concat().into_iter().enumerate();
                let cases = cases.filter(|(at, _)| is_tried(mode, *at)).map(|(_, case)| case);
                let cases: Vec<TableCase> = cases.collect();
                scope.spawn(move || self.attempt_in(mode, what, attempt, &cases))
            };
            let threads: Vec<_> = Mode::all().into_iter().map(start).collect();
            threads.into_iter().flat_map(|thread| thread.join().expect("a mode")).collect()
        });
        assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    }

    fn attempt_in(
        &self,
        mode: Mode,
        what: &str,
        attempt: Attempt,
        cases: &[TableCase],
    ) -> Vec<String> {
        let mut desk = Desk::new(mode, &profile_with(&[]));
        let repository = FixtureRepository::with(&desk.world, WorkingTree::Dirty, self.more);
        let (mut failures, mut count) = (Vec::new(), 0);
        for case in cases {
            let copy = repository.copy(&desk.world, "copy");
            desk.move_to(&copy);
            let wrong = attempt(self, &desk, &copy, *case);
            fs::remove_dir_all(&copy).expect("remove");
            count += usize::from(!wrong.is_empty());
            let calls: Vec<_> = case.0.iter().map(ToString::to_string).collect();
            let calls = calls.join(" ;; ");
            failures.extend(wrong.into_iter().map(|why| format!("{mode:?}: {calls}: {why}")));
        }
        report(&format!("{what}, {mode:?}"), format!("{count} of {}", cases.len()));
        failures
    }
}

fn holds(desk: &Desk, directory: &Path, check: &str) -> bool {
    unconfined(&desk.world, directory, &desk.world.state(), check).status.success()
}

fn without_approver(table: &Table, desk: &Desk, copy: &Path, case: TableCase) -> Vec<String> {
    let (calls, has_counted) = case;
    let (mut wrong, mut denied) = (Vec::new(), false);
    let initial = InitialState::of(&desk.world, copy, table.noise, table.ignored);
    if holds(desk, copy, has_counted) {
        wrong.push(format!("before any call: {has_counted}"));
    }
    for call in calls {
        let before = tree(copy);
        let result = call.make(desk);
        denied |= is_denied(&result);
        if is_denied(&result) && tree(copy) != before {
            wrong.push(format!("denied, and changed something: {call}"));
        }
    }
    if !denied {
        wrong.push("nothing was denied".to_owned());
    }
    if holds(desk, copy, has_counted) {
        wrong.push(format!("afterwards: {has_counted}"));
    }
    let lost = initial.lost(&desk.world, copy);
    if !lost.is_empty() {
        wrong.push(format!("lost: {lost:?}"));
    }
    wrong
}

fn with_approver(_: &Table, desk: &Desk, copy: &Path, case: TableCase) -> Vec<String> {
    let (calls, has_counted) = case;
    desk.attach();
    let (mut wrong, mut requests) = (Vec::new(), 0);
    for call in calls {
        let (result, asked) = call.make_approved(desk);
        requests += asked;
        if !result.success {
            wrong.push(format!("approved, and failed: {call}: {:?}", result.error));
        }
    }
    if requests == 0 {
        wrong.push("nobody was asked".to_owned());
    }
    if !holds(desk, copy, has_counted) {
        wrong.push(format!("approved, and not so afterwards: {has_counted}"));
    }
    wrong
}
