//! `job_kill`: ends a job, or sends it a signal. Runs in the broker. Pure: no I/O.

use super::{
    describe::{Description, Traits},
    schema,
};
use crate::base::task::{JobTask, ParsedArguments, Task, invalid};
use palisade_protocol::{
    AuditOperation, Call, PermissionClass, ToolSpec, WireError, arguments as wire,
};

pub(super) const DESCRIPTION: Description = Description {
    name: "job_kill",
    aliases: &[],
    text: "Ends a job: sends TERM to all its processes, then KILL to those that remain. None of \
           them runs when this returns. With signal, sends only that signal.",
    traits: Traits::Aside,
    class: PermissionClass::Bash,
    operation: AuditOperation::Execute,
    search: "background process stop terminate interrupt signal",
};

pub(super) fn parse(tool: &ToolSpec, call: &Call) -> Result<ParsedArguments, WireError> {
    let wire::JobKill { job, signal } = schema::parse(tool, call)?;
    let signal = signal.map(number).transpose()?;
    Ok(Task::Job(JobTask::Kill { job, signal }).into())
}

fn number(signal: wire::Signal) -> Result<i32, WireError> {
    use nix::sys::signal::Signal;
    let refused = |shown: String| {
        let why = format!("there is no signal {shown}");
        invalid("signal", &why, "give a name such as INT, or a number")
    };
    match signal {
        wire::Signal::Number(number) => Signal::try_from(i32::from(number))
            .map(|signal| signal as i32)
            .map_err(|_| refused(number.to_string())),
        wire::Signal::Name(name) => {
            let bare = name.strip_prefix("SIG").unwrap_or(&name);
            format!("SIG{bare}")
                .parse::<Signal>()
                .map(|s| s as i32)
                .map_err(|_| refused(format!("{name:?}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_has_a_name_or_a_number() {
        use wire::Signal::{Name, Number};
        for (signal, expected) in
            [(Name("INT".into()), 2), (Name("SIGKILL".into()), 9), (Number(15), 15)]
        {
            assert_eq!(number(signal), Ok(expected));
        }
        for signal in
            [Name("".into()), Name("int".into()), Name("SIGSIGINT".into()), Number(0), Number(64)]
        {
            let error = number(signal).unwrap_err();
            assert!(error.message.starts_with("`signal`: there is no signal"), "{}", error.message);
        }
    }
}
