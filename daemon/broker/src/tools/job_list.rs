//! `job_list`: which jobs there are. Broker, pure.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::task::{JobTask, Parsed, Task, Which};
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, ToolSpec, WireError, arguments as wire,
};

pub(super) const DESCRIPTION: Description = Description {
    name: "job_list",
    aliases: &[],
    text: "The jobs of this session: number, state, how much they printed, what they run.",
    traits: Traits::ReadOnly,
    class: PermissionClass::Readonly,
    operation: AuditOperation::Read,
    search: "background processes running jobs list",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<Parsed, WireError> {
    let wire::JobList { running } = schema::parse(tool, call)?;
    let which = if running { Which::Running } else { Which::All };
    Ok(Task::Job(JobTask::List(which)).into())
}
