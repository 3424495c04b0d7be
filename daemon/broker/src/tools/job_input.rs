//! `job_input`: sends input to a job. Runs in the broker. Pure: no I/O.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::base::task::{JobTask, ParsedArguments, Task, TypedInput, invalid, size};
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, ToolSpec, WireError, arguments as wire,
    limits::MAX_CHUNK,
};

pub(super) const DESCRIPTION: Description = Description {
    name: "job_input",
    aliases: &[],
    text: "Sends data to the standard input of a job that was started with input, ends its input, \
           or resizes its terminal (rows and cols). Control keys of a terminal are sent as \
           characters: \\u0003 interrupts.",
    traits: Traits::Mutating,
    class: PermissionClass::Bash,
    operation: AuditOperation::Execute,
    search: "background process stdin type send keys terminal resize",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<ParsedArguments, WireError> {
    let wire::JobInput { job, data, end, rows, cols } = schema::parse(tool, call)?;
    let size = match (rows, cols) {
        (None, None) => None,
        (Some(rows), Some(cols)) => Some(size(rows, cols)?),
        (Some(_), None) => return Err(invalid("cols", "only `rows` is given", "give both")),
        (None, Some(_)) => return Err(invalid("rows", "only `cols` is given", "give both")),
    };
    if data.len() > MAX_CHUNK {
        let why = format!("it has {} bytes, the limit is {MAX_CHUNK}", data.len());
        return Err(invalid("data", &why, "send it in several calls"));
    }
    if data.is_empty() && !end && size.is_none() {
        return Err(invalid("data", "there is nothing to do", "give data, end, or rows and cols"));
    }
    Ok(Task::Job(JobTask::Input { job, typed: TypedInput { data, end, size } }).into())
}
