//! `job_output`: what a job printed. Broker, pure.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::task::{JobTask, Parsed, Task, invalid};
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, ToolSpec, WireError, arguments as wire,
};
use std::time::Duration;

/// The longest that it waits.
const MOST_WAIT: Duration = Duration::from_secs(600);

pub(super) const DESCRIPTION: Description = Description {
    name: "job_output",
    aliases: &[],
    text: "What a job has printed, from a cursor on, and whether it still runs. Pass the cursor of \
           the last result to get only what is new; wait_ms waits for something new or for the end.",
    traits: Traits::ReadOnly,
    class: PermissionClass::Readonly,
    operation: AuditOperation::Read,
    search: "background process output log poll wait exit code",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<Parsed, WireError> {
    let wire::JobOutput { job, cursor, wait_ms, limit } = schema::parse(tool, call)?;
    let wait = Duration::from_millis(wait_ms.unwrap_or(0));
    if wait > MOST_WAIT {
        let why = format!("more than {}", MOST_WAIT.as_millis());
        return Err(invalid("wait_ms", &why, "wait for less, and ask again"));
    }
    if limit == Some(0) {
        return Err(invalid("limit", "no bytes at all", "give 1 or more"));
    }
    let task = JobTask::Output { job, cursor: cursor.unwrap_or(0), wait, limit };
    Ok(Task::Job(task).into())
}
