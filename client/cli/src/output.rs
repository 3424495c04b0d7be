//! `palisade output`: prints the full output of an earlier call.

use crate::{
    approve::asking,
    call::id::{self, CallSelector},
    disconnect::disconnect,
    failure::Failure,
    print,
    stream::escape::{Controls, Escaper},
};
use clap::Args;
use palisade_client::{CallId, Client, JobInfo};
use palisade_options::Connection;

/// The length of a whole id.
const FULL_ID: usize = 36;

/// Print the full output of an earlier call
#[derive(Debug, Args)]
#[command(after_help = "\
A result contains only the head and the tail of a long output; its `spool` is the CALL_ID to give
here. For a background job that still runs, the output so far is printed. A file or a pipe gets
every byte. On a terminal, control sequences other than colours and cursor movement are shown as
text; --raw passes all of them on.

The daemon keeps full outputs for a day, up to a quota, and only for the user who made the call.

Examples:
  palisade output last > build.log
  palisade output CALL_ID --offset 1000000 --limit 4096")]
pub(crate) struct Output {
    /// The call's id, from `spool` of its result, or a prefix of it, or `last`
    #[arg(value_parser = id::parse)]
    call_id: CallSelector,
    /// The first byte to print
    #[arg(long, value_name = "N", default_value_t = 0)]
    offset: u64,
    /// The maximum number of bytes to print [default: all]
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Pass on all control sequences to a terminal, not only colours and cursor movement
    #[arg(long)]
    raw: bool,
    #[command(flatten)]
    connection: Connection,
}

impl Output {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        let (mut client, lingering) = asking::connect_to_jobs(&self.connection).await?;
        let newest = |jobs: &[JobInfo]| {
            jobs.iter().map(|job| job.call_id.clone()).filter(|call| self.may_mean(call)).max()
        };
        let holders = lingering.into_iter().filter_map(|(held, jobs)| Some((newest(&jobs)?, held)));
        if let Some((_, holder)) = holders.max_by_key(|(call, _)| call.clone()) {
            client.shutdown().await?;
            client = holder;
        }
        let status = self.page(&client).await;
        disconnect(&client, status).await
    }

    /// Returns whether this call can be the one that is named.
    fn may_mean(&self, call: &CallId) -> bool {
        match &self.call_id {
            CallSelector::Prefix(prefix) => call.as_str().starts_with(prefix.as_str()),
            CallSelector::Last => true,
        }
    }

    async fn page(&self, client: &Client) -> Result<u8, Failure> {
        let call_id = self.call(client).await?;
        let (mut offset, mut left) = (self.offset, self.limit.unwrap_or(u64::MAX));
        let mut escaper = Escaper::stdout(Controls::of(self.raw));
        while left > 0 {
            let limit = self.limit.map(|_| left);
            let page = client.output(&call_id, offset, limit).await?;
            let length = page.data.0.len() as u64;
            if length == 0 {
                if page.total > page.spooled && offset >= page.spooled {
                    let missing = page.total - page.spooled;
                    print::note(&format!(
                        "note: the output store was full; {missing} bytes were not kept"
                    ));
                }
                break;
            }
            if page.offset > offset {
                let missing = page.offset - offset;
                print::note(&format!("note: {missing} bytes were not kept"));
            }
            print::bytes(&escaper.push(&page.data.0))?;
            offset = page.offset + length;
            left = left.saturating_sub(length);
        }
        print::bytes(&escaper.finish())?;
        if client.jobs().await?.jobs.iter().any(|job| job.running && job.call_id == call_id) {
            print::note("note: the job is still running; this is its output so far");
        }
        Ok(0)
    }

    /// Finds the call. The last one is not a call about a job, but the job.
    async fn call(&self, client: &Client) -> Result<CallId, Failure> {
        let prefix = match &self.call_id {
            CallSelector::Prefix(call) if call.as_str().len() == FULL_ID => return Ok(call.clone()),
            CallSelector::Prefix(prefix) => Some(prefix.clone()),
            CallSelector::Last => None,
        };
        let is_last = prefix.is_none();
        let found = client.records(prefix).await?;
        let is_about_job = found.lines.iter().any(|line| line.contains("\"tool\":\"job_"));
        if is_last && is_about_job {
            // Ids begin with the time, so the largest one is the newest.
            let jobs = client.jobs().await?.jobs.into_iter().map(|job| job.call_id);
            return Ok(jobs.max().unwrap_or(found.call_id));
        }
        Ok(found.call_id)
    }
}
