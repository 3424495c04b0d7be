//! `job_list`: lists the session's jobs. Runs in the broker. Pure: no I/O.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::base::task::{JobFilter, JobTask, ParsedArguments, Task};
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, ToolSpec, WireError, arguments as wire,
};

pub(super) const DESCRIPTION: Description = Description {
    name: "job_list",
    aliases: &[],
    text: "Lists the jobs of this session: number, state, size of the output, command.",
    traits: Traits::ReadOnly,
    class: PermissionClass::Readonly,
    operation: AuditOperation::Read,
    search: "background processes running jobs list",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<ParsedArguments, WireError> {
    let wire::JobList { running } = schema::parse(tool, call)?;
    let which = if running { JobFilter::Running } else { JobFilter::All };
    Ok(Task::Job(JobTask::List(which)).into())
}
