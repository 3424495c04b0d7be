//! `job_output`: returns the output of a job. Runs in the broker. Pure: no I/O.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::base::task::{JobTask, ParsedArguments, Task, invalid};
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, ToolSpec, WireError, arguments as wire,
};
use std::time::Duration;

/// The longest time that a call may wait for output.
const MOST_WAIT: Duration = Duration::from_secs(600);

pub(super) const DESCRIPTION: Description = Description {
    name: "job_output",
    aliases: &[],
    text: "Returns the output of a job from a cursor on, and whether the job still runs. Pass the \
           cursor of the last result to get only new output; wait_ms waits for new output or for \
           the end.",
    traits: Traits::ReadOnly,
    class: PermissionClass::Readonly,
    operation: AuditOperation::Read,
    search: "background process output log poll wait exit code",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<ParsedArguments, WireError> {
    let wire::JobOutput { job, cursor, wait_ms, limit } = schema::parse(tool, call)?;
    let wait = Duration::from_millis(wait_ms.unwrap_or(0));
    if wait > MOST_WAIT {
        let why = format!("the limit is {}", MOST_WAIT.as_millis());
        return Err(invalid("wait_ms", &why, "wait for less time, and call again"));
    }
    if limit == Some(0) {
        return Err(invalid("limit", "it is 0", "give 1 or more"));
    }
    let task = JobTask::Output { job, cursor: cursor.unwrap_or(0), wait, limit };
    Ok(Task::Job(task).into())
}
