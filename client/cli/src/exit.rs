//! The exit statuses.

use palisade_client::{CallResult, ErrorClass, ErrorCode, JobStatus, WireError};

/// The tool was called and failed.
pub(crate) const TOOL: u8 = 1;
/// The command line is not valid.
pub(crate) const USAGE: u8 = 2;
/// The deadline ended the command.
pub(crate) const TIMED_OUT: u8 = 124;
/// Palisade failed.
pub(crate) const FAILED: u8 = 125;
/// Policy or an approver denied the call.
pub(crate) const DENIED: u8 = 126;
/// The user pressed Ctrl-C.
pub(crate) const INTERRUPTED: u8 = 130;
/// The reader of standard output is gone.
pub(crate) const BROKEN_PIPE: u8 = 141;

/// Returns the exit status for a result.
pub(crate) fn of_result(result: &CallResult) -> u8 {
    if result.timed_out {
        return TIMED_OUT;
    }
    if result.cancelled {
        return INTERRUPTED;
    }
    of_end(result.error.as_ref(), result.exit_code).unwrap_or(match result.success {
        true => 0,
        false => FAILED,
    })
}

/// Returns the exit status for a job that has ended.
pub(crate) fn of_job(job: &JobStatus) -> u8 {
    if job.timed_out {
        return TIMED_OUT;
    }
    of_end(job.error.as_ref(), job.exit_code).unwrap_or(FAILED)
}

/// Returns the exit status for the end of a command; `None` if there is neither an error nor a status.
fn of_end(error: Option<&WireError>, exit_code: Option<i32>) -> Option<u8> {
    match (error, exit_code) {
        (Some(error), _) if denied(error.code) => Some(DENIED),
        // The command succeeded, but its changes could not be committed.
        (Some(error), Some(0)) if error.code != ErrorCode::Withheld => Some(of_code(error.code)),
        (_, Some(code)) => Some(u8::try_from(code).unwrap_or(FAILED)),
        (Some(error), None) => Some(of_code(error.code)),
        (None, None) => None,
    }
}

/// Returns `true` if policy or an approver denied the call.
pub(crate) fn is_denied(result: &CallResult) -> bool {
    result.error.as_ref().is_some_and(|error| denied(error.code))
}

fn denied(code: ErrorCode) -> bool {
    code.class() == ErrorClass::Denied
}

/// Returns the exit status for an error that came without an exit code.
pub(crate) fn of_code(code: ErrorCode) -> u8 {
    match code.class() {
        ErrorClass::Denied => DENIED,
        ErrorClass::TimedOut => TIMED_OUT,
        ErrorClass::Tool => TOOL,
        ErrorClass::Palisade => FAILED,
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use palisade_client::WireError;

    pub(crate) fn result() -> CallResult {
        CallResult {
            call_id: "c1".parse().unwrap(),
            tool: "bash".parse().unwrap(),
            success: true,
            output: String::new(),
            truncated: false,
            lossy: false,
            execution_time_ms: 1,
            error: None,
            stdout: String::new(),
            stderr: String::new(),
            exit_code: None,
            signal: None,
            timed_out: false,
            cancelled: false,
            oom: false,
            pipe_held: false,
            omitted_bytes: 0,
            spool: None,
            data: None,
            undo: None,
            findings: Vec::new(),
            denials: Vec::new(),
            checkpoint: None,
            route: None,
            receipt_digest: String::new(),
            receipt: Some(Box::default()),
        }
    }

    fn failed(code: ErrorCode, exit_code: Option<i32>) -> CallResult {
        let error = Some(WireError::new(code, "no", ""));
        CallResult { success: false, error, exit_code, ..result() }
    }

    #[test]
    fn the_commands_own_status_comes_through() {
        for code in [0, 1, 2, 124, 125, 126, 127, 128 + 9, 255] {
            let ended = CallResult { exit_code: Some(code), success: code == 0, ..result() };
            assert_eq!(of_result(&ended), code as u8);
            let ended = failed(ErrorCode::CommandFailed, Some(code.max(1)));
            assert_eq!(of_result(&ended), code.max(1) as u8);
        }
    }

    #[test]
    fn a_program_that_is_not_there_is_127_and_anything_impossible_is_125() {
        assert_eq!(of_result(&failed(ErrorCode::SpawnFailed, Some(127))), 127);
        assert_eq!(of_result(&failed(ErrorCode::SpawnFailed, None)), 125);
        assert_eq!(of_result(&CallResult { exit_code: Some(-1), ..result() }), 125);
        assert_eq!(of_result(&CallResult { exit_code: Some(256), ..result() }), 125);
        assert_eq!(of_result(&CallResult { success: false, ..result() }), 125);
    }

    #[test]
    fn deadline_interrupt_and_denial_win_over_the_status_of_what_was_killed() {
        let killed = CallResult { exit_code: Some(137), success: false, ..result() };
        assert_eq!(of_result(&CallResult { timed_out: true, ..killed.clone() }), 124);
        assert_eq!(of_result(&CallResult { cancelled: true, ..killed }), 130);
        assert_eq!(of_result(&failed(ErrorCode::Denied, None)), 126);
        assert_eq!(of_result(&failed(ErrorCode::OutsidePolicy, None)), 126);
    }

    #[test]
    fn a_command_that_succeeded_for_nothing_did_not_succeed() {
        assert_eq!(of_result(&failed(ErrorCode::UndoStoreFull, Some(0))), 1);
        assert_eq!(of_result(&failed(ErrorCode::Conflict, Some(0))), 1);
        assert_eq!(of_result(&failed(ErrorCode::CellFailed, Some(0))), 125);
        assert_eq!(of_result(&failed(ErrorCode::Conflict, Some(3))), 3);
    }

    #[test]
    fn a_tool_that_could_not_is_not_a_failure_of_palisade() {
        assert_eq!(of_result(&result()), 0);
        assert_eq!(of_result(&failed(ErrorCode::NotFound, None)), 1);
        assert_eq!(of_result(&failed(ErrorCode::InvalidArguments, None)), 125);
        assert_eq!(of_result(&failed(ErrorCode::LauncherGone, None)), 125);
        assert_eq!(of_result(&failed(ErrorCode::TimedOut, None)), 124);
    }
}
