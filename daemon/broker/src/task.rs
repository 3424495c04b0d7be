//! What a call will do: its arguments, parsed once. Broker, pure.

mod change;
mod content;

pub(crate) use change::{ChangeTask, Edited, Kept, Undone};
pub(crate) use content::Content;

use crate::peer::ConnectionNumber;
use palisade_plan::{
    cell::{Part, Size},
    change::Replacement,
    search::{Choice, Glob, Grep},
};
use palisade_policy::{JobRoute, Profile};
use palisade_protocol::{
    Call, ErrorCode, JsonText, RawPath, ToolSpec, WireError,
    arguments::{Encoding, TodoItem},
    limits::{MAX_PATH, MAX_TIMEOUT_MS},
};
use std::{collections::BTreeMap, time::Duration};

/// The most rows or columns of a terminal.
const MOST_CELLS: u16 = 4096;

/// What a call will do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Task {
    Run(Program),
    Read {
        path: Vec<u8>,
        part: Part,
        encoding: Encoding,
        numbering: Numbering,
    },
    Change(ChangeTask),
    List {
        path: Vec<u8>,
        recursive: bool,
        skip: u64,
        limit: u64,
        choice: Choice,
    },
    /// Its path is as the call names it.
    Glob(Glob),
    /// Its path is as the call names it.
    Grep(Box<Grep>),
    Job(JobTask),
    Errand(Errand),
    /// A provider's, which did not change since the call was judged.
    Provided {
        provider: ConnectionNumber,
        arguments: JsonText,
    },
    /// Runs the profile's checkers, of all files or of these.
    Check {
        paths: Vec<Vec<u8>>,
    },
}

/// Something about the session itself; nothing outside of it changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Errand {
    TodoRead,
    TodoWrite(Vec<TodoItem>),
    ToolSearch { query: String, limit: usize },
}

/// Whether a text's lines have their numbers in front.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Numbering {
    None,
    Lines,
}

/// A job's number in its session.
pub(crate) type JobNumber = u64;

/// What is asked of the jobs of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum JobTask {
    Output { job: JobNumber, cursor: u64, wait: Duration, limit: Option<u64> },
    Input { job: JobNumber, typed: Typed },
    Kill { job: JobNumber, signal: Option<i32> },
    Commit { job: JobNumber, if_refused: IfRefused },
    List(Which),
}

/// What becomes of a job whose changes are not committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IfRefused {
    Keep,
    End,
}

/// Which jobs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Which {
    All,
    Running,
}

/// What is typed into a job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Typed {
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
    pub(crate) directory: Directory,
    pub(crate) manner: Manner,
    pub(crate) typing: Typing,
    /// How long it may run as a job.
    pub(crate) lifetime: Option<Duration>,
    /// The size of its terminal, if it gets one.
    pub(crate) terminal: Option<Size>,
    pub(crate) route: RouteChoice,
}

/// Where a call asks its program to run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum RouteChoice {
    /// Wherever the profile and the analysis of its text say.
    #[default]
    Automatic,
    /// In a transaction, also if it seems to read only.
    Transaction,
    /// In the live workspace, read-only, as a job.
    Watch,
    /// In the workspace itself, as a job: that is asked about first.
    Direct,
}

/// Whether a job's standard input stays open for what is typed into it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Typing {
    Open,
    Closed,
}

/// How long a call waits for its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Until its end.
    Foreground,
    /// Not at all.
    Background,
    /// So long; what still runs then becomes a job.
    Yield(Duration),
}

impl Program {
    /// Its name, for messages.
    pub(crate) fn name(&self) -> String {
        self.argv.first().cloned().unwrap_or_default()
    }
}

/// What becomes of the directory that a program ends in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Directory {
    /// A shell's: the session goes on there.
    Kept,
    /// A program's own affair.
    Left,
}

/// What the arguments say.
#[derive(Debug)]
pub(crate) struct Parsed {
    pub(crate) task: Task,
    /// How long it may take, where that is an argument.
    pub(crate) timeout_ms: Option<u64>,
}

impl From<Task> for Parsed {
    fn from(task: Task) -> Self {
        Self { task, timeout_ms: None }
    }
}

/// A call's task and how long it may take.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Validated {
    pub(crate) task: Task,
    pub(crate) timeout: Duration,
}

/// Holds what a call's arguments say to what its profile allows.
pub(crate) fn validate(
    tool: &ToolSpec,
    call: &Call,
    parsed: Parsed,
    profile: &Profile,
) -> Result<Validated, WireError> {
    let Parsed { mut task, timeout_ms } = parsed;
    let asked = [("options.timeout_ms", call.options.timeout_ms), ("timeout_ms", timeout_ms)];
    if call.options.attach && !takes_attachment(&task) {
        return Err(invalid("attach", "this call has no use for an attachment", "leave it out"));
    }
    if let Task::Run(program) = &mut task
        && program.manner != Manner::Foreground
    {
        as_job(program, tool, &asked, profile)?;
        return Ok(Validated { task, timeout: timeout(&[], profile)? });
    }
    Ok(Validated { task, timeout: timeout(&asked, profile)? })
}

/// A job's time is another than a call's. What has to be reviewed before it is seen can be none.
fn as_job(
    program: &mut Program,
    tool: &ToolSpec,
    asked: &[(&str, Option<u64>)],
    profile: &Profile,
) -> Result<(), WireError> {
    if profile.reviews_output(tool) {
        return Err(WireError::new(
            ErrorCode::InvalidArguments,
            "the output of this tool is reviewed before it is seen, and a job's can not be",
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

/// Where a job runs: where its call says, if the profile allows that, or where the profile says.
fn job_route(program: &Program, profile: &Profile) -> Result<RouteChoice, WireError> {
    let asked = match program.route {
        RouteChoice::Automatic => None,
        RouteChoice::Transaction => Some(JobRoute::Transaction),
        RouteChoice::Watch => Some(JobRoute::Watch),
        RouteChoice::Direct => Some(JobRoute::Direct),
    };
    match (profile.job_route(asked), program.manner) {
        (Ok(JobRoute::Watch), _) => Ok(RouteChoice::Watch),
        (Ok(JobRoute::Direct), Manner::Background) => Ok(RouteChoice::Direct),
        // What is left is a transaction, or what needs none.
        (Ok(JobRoute::Transaction | JobRoute::Direct), _) => Ok(program.route),
        (Err(route), _) => {
            let allowed: Vec<_> = profile.job_routes().iter().map(|route| route.name()).collect();
            let message = format!("jobs may not run by the route {:?} here", route.name());
            let hint = match allowed.is_empty() {
                true => "the profile (jobs.routes) allows no jobs".to_owned(),
                false => format!("the profile (jobs.routes) allows {}", allowed.join(", ")),
            };
            Err(WireError::new(ErrorCode::OutsidePolicy, message, hint))
        }
    }
}

/// The size of a terminal.
pub(crate) fn size(rows: u16, cols: u16) -> Result<Size, WireError> {
    for (field, found) in [("rows", rows), ("cols", cols)] {
        if found == 0 || found > MOST_CELLS {
            let why = format!("{found} is not from 1 to {MOST_CELLS}");
            return Err(invalid(field, &why, "24 and 80 are usual"));
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

/// An argument that can not be, in the words of `invalid_arguments`.
pub(crate) fn invalid(field: &str, why: &str, hint: &str) -> WireError {
    WireError::new(ErrorCode::InvalidArguments, format!("`{field}`: {why}"), hint)
}

/// The bytes of a path argument.
pub(crate) fn path(field: &str, path: RawPath) -> Result<Vec<u8>, WireError> {
    let why = match path.0.as_slice() {
        [] => "it is empty",
        bytes if bytes.contains(&0) => "it has a NUL byte in it",
        bytes if bytes.len() > MAX_PATH => "it is longer than any path can be",
        _ => return Ok(path.0),
    };
    Err(invalid(field, why, "give an absolute path, or one relative to the current directory"))
}

/// One replacement of text. `place` is what the field's name begins with.
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
        let hint = "leave out what is to stay as it is";
        return Err(invalid(&field, "it is the same as new_string", hint));
    }
    Ok(Replacement { old: old.into_bytes(), new: new.into_bytes(), all })
}

fn timeout(asked: &[(&str, Option<u64>)], profile: &Profile) -> Result<Duration, WireError> {
    let most = profile.max_timeout_ms();
    let mut least = None;
    for (field, asked) in asked {
        let Some(asked) = *asked else { continue };
        if asked == 0 || asked > most {
            let why = format!(
                "{asked} is not from 1 to {most}, which profile {:?} allows",
                profile.name()
            );
            return Err(invalid(field, &why, "leave it out for the profile's default"));
        }
        least = Some(least.unwrap_or(asked).min(asked));
    }
    Ok(Duration::from_millis(least.unwrap_or_else(|| profile.timeout_ms().min(most))))
}

#[cfg(test)]
mod tests;
