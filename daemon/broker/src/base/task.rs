//! The task of a call: its arguments, parsed once. Runs in the broker. Pure: no I/O.

mod change;
mod content;

pub(crate) use change::{ChangeTask, EditedFile, UndoRetention, UndoTarget};
pub(crate) use content::Content;

use crate::base::{error::CallError, peer::ConnectionNumber};
use palisade_egress_protocol::fetch::PageRequest;
use palisade_plan::{
    cell::{Link, Part, Size},
    change::Replacement,
    search::{Choice, Glob, Grep},
};
use palisade_policy::{ADJUSTED, JobRoute, Profile, Scene};
use palisade_protocol::{
    Call, ErrorCode, Finding, JsonText, RawPath, Severity, ToolSpec, WireError,
    arguments::{Encoding, ServerTools, TodoItem},
    limits::{MAX_PATH, MAX_TIMEOUT_MS},
};
use serde_json::{Map, Value};
use std::{collections::BTreeMap, time::Duration};

/// The most rows or columns of a terminal.
const MOST_CELLS: u16 = 4096;

/// The task of a call, by kind of tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Task {
    Run(Program),
    Read {
        path: Vec<u8>,
        part: Part,
        encoding: Encoding,
        numbering: Numbering,
    },
    /// Reports what is at a path, or where it leads.
    Look {
        path: Vec<u8>,
        link: Link,
        report: LookReport,
    },
    Change(ChangeTask),
    List {
        path: Vec<u8>,
        recursive: bool,
        skip: u64,
        limit: u64,
        choice: Choice,
    },
    /// Finds files by name; the path is as the call gives it.
    Glob(Glob),
    /// Searches files; the path is as the call gives it.
    Grep(Box<Grep>),
    Job(JobTask),
    Errand(SessionTask),
    /// Gets a page from the network.
    Fetch(PageRequest),
    /// Invokes a provider's tool. The connection's number ties an approval to this provider, not to
    /// another one with the same tool name.
    Provided {
        provider: ConnectionNumber,
        arguments: JsonText,
    },
    /// Runs the profile's checkers, for all files or for these.
    Check {
        paths: Vec<Vec<u8>>,
    },
}

/// A task about the session itself; nothing outside of it changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SessionTask {
    TodoRead,
    TodoWrite(Vec<TodoItem>),
    ToolSearch {
        query: String,
        limit: usize,
    },
    /// A call of an MCP server's tool, which a relay outside of the session carries out with these
    /// arguments.
    ServerCall(Map<String, Value>),
    /// The tools of an MCP server that have changed.
    ServerTools(ServerTools),
}

/// The kind of report about a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LookReport {
    /// The entry: kind, size, mode, owner, times.
    Entry,
    /// The path without links.
    RealPath,
}

/// The choice to prefix lines of text with their numbers or not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbering {
    None,
    Lines,
}

/// A job's number in its session.
pub(crate) type JobNumber = u64;

/// A request about the jobs of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JobTask {
    Output { job: JobNumber, cursor: u64, wait: Duration, limit: Option<u64> },
    Input { job: JobNumber, typed: TypedInput },
    Kill { job: JobNumber, signal: Option<i32> },
    Commit { job: JobNumber, if_refused: RefusalAction },
    List(JobFilter),
}

/// The treatment of a job whose changes were not committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RefusalAction {
    Keep,
    End,
}

/// The jobs that a list includes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum JobFilter {
    All,
    Running,
}

/// Input to a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TypedInput {
    pub(crate) data: String,
    pub(crate) end: bool,
    pub(crate) size: Option<Size>,
}

/// A program to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Program {
    pub(crate) argv: Vec<String>,
    /// A shell line that is too long for `argv`.
    pub(crate) script: Option<String>,
    pub(crate) cwd: Option<Vec<u8>>,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) stdin: Option<Content>,
    pub(crate) directory: DirectoryPolicy,
    pub(crate) manner: WaitMode,
    pub(crate) typing: StdinMode,
    /// The time limit of the program as a job; `None` for no limit.
    pub(crate) lifetime: Option<Duration>,
    /// The size of its terminal, if it gets one.
    pub(crate) terminal: Option<Size>,
    pub(crate) route: RouteChoice,
}

/// The route that a call requests for its program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum RouteChoice {
    /// The route that the profile and the analysis of the command choose.
    #[default]
    Automatic,
    /// A transaction, even if the command seems only to read.
    Transaction,
    /// A job in the live workspace, read-only.
    Watch,
    /// A job in the workspace itself, without a transaction; this needs approval first.
    Direct,
}

/// The state of a job's standard input: open for later input or closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StdinMode {
    Open,
    Closed,
}

/// The time that a call waits for its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WaitMode {
    /// Until the program ends.
    Foreground,
    /// Not at all.
    Background,
    /// For this long; a program that still runs then becomes a job.
    Yield(Duration),
}

impl Program {
    /// Returns the program's name, for messages.
    pub(crate) fn name(&self) -> String {
        self.argv.first().cloned().unwrap_or_default()
    }

    /// Returns what becomes of the directory in which the program ends. The directory of a call that
    /// names its own is only that call's.
    pub(crate) const fn final_directory(&self) -> DirectoryPolicy {
        match self.cwd {
            Some(_) => DirectoryPolicy::Left,
            None => self.directory,
        }
    }
}

/// The treatment of the current directory in which a program ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DirectoryPolicy {
    /// It becomes the session's current directory: the program is a shell.
    Kept,
    /// It is ignored.
    Left,
}

/// The parsed arguments of a call.
#[derive(Debug)]
pub(crate) struct ParsedArguments {
    pub(crate) task: Task,
    /// The timeout, if the arguments contain one.
    pub(crate) timeout_ms: Option<u64>,
}

impl From<Task> for ParsedArguments {
    fn from(task: Task) -> Self {
        Self { task, timeout_ms: None }
    }
}

/// A call's task and its timeout.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ValidatedTask {
    pub(crate) task: Task,
    pub(crate) timeout: Duration,
    /// The changes that were made to the call so that it may run.
    pub(crate) adjusted: Vec<Finding>,
}

/// Checks a call's parsed arguments against what its profile allows.
pub(crate) fn validate(
    tool: &ToolSpec,
    call: &Call,
    parsed: ParsedArguments,
    (profile, scene): (&Profile, &Scene),
) -> Result<ValidatedTask, WireError> {
    let ParsedArguments { mut task, timeout_ms } = parsed;
    let asked = [("options.timeout_ms", call.options.timeout_ms), ("timeout_ms", timeout_ms)];
    if call.options.attach && !takes_attachment(&task) {
        return Err(invalid("attach", "this call takes no attachment", "leave it out"));
    }
    let mut adjusted = Vec::new();
    if let Task::Run(program) = &mut task {
        adjusted = screen_variables(program, (profile, scene))?;
        if program.manner != WaitMode::Foreground {
            as_job(program, tool, &asked, profile)?;
            let (timeout, _) = timeout(&[], profile)?;
            return Ok(ValidatedTask { task, timeout, adjusted });
        }
    }
    let (timeout, cut) = timeout(&asked, profile)?;
    adjusted.extend(cut);
    Ok(ValidatedTask { task, timeout, adjusted })
}

/// Leaves out the variables that the program may not get; returns a finding for each.
fn screen_variables(
    program: &mut Program,
    (profile, scene): (&Profile, &Scene),
) -> Result<Vec<Finding>, WireError> {
    let left_out = profile.screen_variables(scene, &mut program.environment);
    let left_out = left_out.map_err(|error| WireError::from(CallError::from(error)))?;
    let tell = |variable: palisade_policy::LeftOutVariable| {
        let why = format!("the variable {} was left out: {}", variable.name, variable.why);
        Finding::new(ADJUSTED, Severity::Notice, why)
    };
    Ok(left_out.into_iter().map(tell).collect())
}

/// Sets the time limit and route of a program that runs as a job. Refuses tools whose output must
/// be reviewed first.
fn as_job(
    program: &mut Program,
    tool: &ToolSpec,
    asked: &[(&str, Option<u64>)],
    profile: &Profile,
) -> Result<(), WireError> {
    if profile.reviews_output(tool) {
        return Err(WireError::new(
            ErrorCode::InvalidArguments,
            "the output of this tool must be reviewed first, and the output of a job can not be",
            "run it without `background` and `yield_ms`",
        ));
    }
    let given = asked.iter().filter_map(|(field, asked)| Some((field, (*asked)?)));
    let mut least = profile.max_job_ms();
    for (field, asked) in given {
        if asked == 0 || asked > MAX_TIMEOUT_MS {
            let why = format!("{asked} is not from 1 to {MAX_TIMEOUT_MS}");
            return Err(invalid(field, &why, "leave it out for a job without a time limit"));
        }
        least = Some(least.unwrap_or(asked).min(asked));
    }
    program.lifetime = least.map(Duration::from_millis);
    program.route = job_route(program, profile)?;
    Ok(())
}

/// Returns the route of a job: the one the call requests, if the profile allows it, or the
/// profile's default.
fn job_route(program: &Program, profile: &Profile) -> Result<RouteChoice, WireError> {
    let asked = match program.route {
        RouteChoice::Automatic => None,
        RouteChoice::Transaction => Some(JobRoute::Transaction),
        RouteChoice::Watch => Some(JobRoute::Watch),
        RouteChoice::Direct => Some(JobRoute::Direct),
    };
    match (profile.job_route(asked), program.manner) {
        (Ok(JobRoute::Watch), _) => Ok(RouteChoice::Watch),
        (Ok(JobRoute::Direct), WaitMode::Background) => Ok(RouteChoice::Direct),
        // The rest runs in a transaction, or needs none.
        (Ok(JobRoute::Transaction | JobRoute::Direct), _) => Ok(program.route),
        (Err(route), _) => {
            let allowed: Vec<_> = profile.job_routes().iter().map(|route| route.name()).collect();
            let message = format!("jobs may not use route {:?} here", route.name());
            let hint = match allowed.is_empty() {
                true => "the profile (jobs.routes) allows no jobs".to_owned(),
                false => format!("the profile (jobs.routes) allows {}", allowed.join(", ")),
            };
            Err(WireError::new(ErrorCode::OutsidePolicy, message, hint))
        }
    }
}

/// Checks the size of a terminal.
pub(crate) fn size(rows: u16, cols: u16) -> Result<Size, WireError> {
    for (field, found) in [("rows", rows), ("cols", cols)] {
        if found == 0 || found > MOST_CELLS {
            let why = format!("{found} is not from 1 to {MOST_CELLS}");
            return Err(invalid(field, &why, "24 rows and 80 columns are usual"));
        }
    }
    Ok(Size { rows, cols })
}

const fn takes_attachment(task: &Task) -> bool {
    matches!(
        task,
        Task::Run(Program { stdin: Some(Content::Attached), .. })
            | Task::Change(ChangeTask::Write { content: Content::Attached, .. })
    )
}

/// Returns an `invalid_arguments` error about one argument.
pub(crate) fn invalid(field: &str, why: &str, hint: &str) -> WireError {
    WireError::new(ErrorCode::InvalidArguments, format!("`{field}`: {why}"), hint)
}

/// Checks a path argument and returns its bytes.
pub(crate) fn path(field: &str, path: RawPath) -> Result<Vec<u8>, WireError> {
    let why = match path.0.as_slice() {
        [] => "it is empty",
        bytes if bytes.contains(&0) => "it contains a NUL byte",
        bytes if bytes.len() > MAX_PATH => "it is longer than any path can be",
        _ => return Ok(path.0),
    };
    Err(invalid(field, why, "give an absolute path, or one relative to the current directory"))
}

/// Checks one replacement of text. `place` is the prefix of the field's name.
pub(crate) fn replacement(
    place: &str,
    old: String,
    new: String,
    all: bool,
) -> Result<Replacement, WireError> {
    let (field, hint) = (format!("{place}old_string"), "give the text as it is in the file");
    if old.is_empty() {
        return Err(invalid(&field, "it is empty", hint));
    }
    if old == new {
        let hint = "leave out an edit that changes nothing";
        return Err(invalid(&field, "it is the same as new_string", hint));
    }
    Ok(Replacement { old: old.into_bytes(), new: new.into_bytes(), all })
}

/// Returns a call's timeout. One that is longer than the profile allows is cut, with a finding.
fn timeout(
    asked: &[(&str, Option<u64>)],
    profile: &Profile,
) -> Result<(Duration, Option<Finding>), WireError> {
    let most = profile.max_timeout_ms();
    if let Some((field, _)) = asked.iter().find(|(_, asked)| *asked == Some(0)) {
        let hint = "leave it out for the profile's default";
        return Err(invalid(field, &format!("0 is not from 1 to {most}"), hint));
    }
    let least = asked.iter().filter_map(|(_, asked)| *asked).min();
    let cut = least.filter(|least| *least > most).map(|least| {
        let why = format!(
            "the timeout of {least} ms was cut to {most} ms, the most that profile {:?} allows; a \
             job has no such limit",
            profile.name()
        );
        Finding::new(ADJUSTED, Severity::Notice, why)
    });
    let least = least.unwrap_or_else(|| profile.timeout_ms());
    Ok((Duration::from_millis(least.min(most)), cut))
}

#[cfg(test)]
mod tests;
