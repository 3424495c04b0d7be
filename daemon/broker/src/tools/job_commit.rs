//! `job_commit`: commits what a job has done so far. Broker, pure.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::task::{IfRefused, JobTask, Parsed, Task};
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, ToolSpec, WireError, arguments as wire,
};

pub(super) const DESCRIPTION: Description = Description {
    name: "job_commit",
    aliases: &[],
    text: "Commits what a job that runs in a transaction has changed so far; the job goes on. Its processes \
           stand still meanwhile. A loss is asked about; what is not approved is not committed.",
    traits: Traits::Mutating,
    class: PermissionClass::Bash,
    operation: AuditOperation::Write,
    search: "background process keep changes transaction save",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<Parsed, WireError> {
    let wire::JobCommit { job, if_refused } = schema::parse(tool, call)?;
    let if_refused = match if_refused {
        wire::IfRefused::Keep => IfRefused::Keep,
        wire::IfRefused::End => IfRefused::End,
    };
    Ok(Task::Job(JobTask::Commit { job, if_refused }).into())
}
