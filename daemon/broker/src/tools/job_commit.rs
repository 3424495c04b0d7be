//! `job_commit`: commits what a job has changed so far. Runs in the broker. Pure: no I/O.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::base::task::{JobTask, ParsedArguments, RefusalAction, Task};
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, ToolSpec, WireError, arguments as wire,
};

pub(super) const DESCRIPTION: Description = Description {
    name: "job_commit",
    aliases: &[],
    text: "Commits what a job that runs in a transaction has changed so far; the job continues. \
           Its processes are paused meanwhile. A loss needs approval; changes that are not \
           approved are not committed.",
    traits: Traits::Mutating,
    class: PermissionClass::Bash,
    operation: AuditOperation::Write,
    search: "background process keep changes transaction save",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<ParsedArguments, WireError> {
    let wire::JobCommit { job, if_refused } = schema::parse(tool, call)?;
    let if_refused = match if_refused {
        wire::IfRefused::Keep => RefusalAction::Keep,
        wire::IfRefused::End => RefusalAction::End,
    };
    Ok(Task::Job(JobTask::Commit { job, if_refused }).into())
}
