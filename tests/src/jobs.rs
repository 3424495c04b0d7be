//! Starts jobs of a session, and reads them to their end.

use crate::{Sandbox, data};
use palisade_client::JobStatus;
use palisade_protocol::CallResult;
use serde_json::{Value, json};

impl Sandbox {
    /// Starts a job; returns its number.
    ///
    /// # Panics
    /// If it does not run.
    pub fn start_job(&self, mut arguments: Value) -> u64 {
        arguments["background"] = json!(true);
        let result = self.done("bash", arguments);
        assert_eq!((result.exit_code, data(&result)["state"].clone()), (None, json!("running")));
        job_of(&result).job
    }

    /// Returns everything a job prints, up to its end.
    ///
    /// # Panics
    /// If some of the output is left out.
    pub fn whole_job(&self, job: u64) -> (String, JobStatus) {
        let (mut text, mut cursor) = (String::new(), 0);
        loop {
            let asked = json!({"job": job, "cursor": cursor, "wait_ms": 20_000});
            let result = self.done("job_output", asked);
            let status = job_of(&result);
            assert_eq!(status.omitted_bytes, 0, "{status:?}");
            text.push_str(&result.output);
            cursor = status.cursor;
            if status.has_ended() && !status.more {
                return (text, status);
            }
        }
    }
}

/// Returns the job that a result is about.
///
/// # Panics
/// If it is about none.
#[must_use]
pub fn job_of(result: &CallResult) -> JobStatus {
    JobStatus::of(result).unwrap_or_else(|| panic!("{:?} {:?}", result.error, result.data))
}
