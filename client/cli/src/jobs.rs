//! `palisade jobs`: lists the jobs of this user's sessions.

use crate::{
    approve::asking,
    disconnect::disconnect,
    failure::Failure,
    paint::{self, Paint, Style, harmless},
    print,
};
use clap::Args;
use palisade_client::{JobInfo, Jobs};
use palisade_options::Connection;

/// List the background jobs of your sessions
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  palisade jobs
  palisade jobs --json | jq '.jobs[] | select(.running)'
  palisade output CALL_ID                     what a job has printed")]
pub(crate) struct ShowJobs {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    connection: Connection,
}

impl ShowJobs {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        let (client, lingering) = asking::connect_to_jobs(&self.connection).await?;
        let shown = match client.jobs().await {
            Ok(Jobs { jobs }) => {
                let lingering = lingering.into_iter().flat_map(|(_, jobs)| jobs);
                self.print(&Jobs { jobs: jobs.into_iter().chain(lingering).collect() })
            }
            Err(error) => Err(error.into()),
        };
        disconnect(&client, shown).await
    }

    fn print(&self, jobs: &Jobs) -> Result<u8, Failure> {
        match self.json {
            true => print::json(jobs),
            false => print::bytes(text(jobs, paint::stdout()).as_bytes()),
        }
        .map(|()| 0)
    }
}

fn text(jobs: &Jobs, paint: Paint) -> String {
    if jobs.jobs.is_empty() {
        return "no jobs\n".to_owned();
    }
    jobs.jobs.iter().map(|job| line(job, paint)).collect()
}

fn line(job: &JobInfo, paint: Paint) -> String {
    let (style, state) = match (job.running, job.exit_code) {
        (true, _) => (Style::Good, "running".to_owned()),
        (false, Some(0)) => (Style::Hint, "ended".to_owned()),
        (false, Some(code)) => (Style::Warning, format!("ended with status {code}")),
        (false, None) => (Style::Warning, "ended".to_owned()),
    };
    format!(
        "{} job {} {}, {} ms, {} bytes, call {}: {}\n",
        job.session,
        job.job,
        paint.apply(style, &state),
        job.time_ms,
        job.output_bytes,
        job.call_id,
        harmless(&job.command)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_for_each_and_a_word_for_none() {
        let job = |running, exit_code, command: &str| JobInfo {
            session: "s-1".parse().unwrap(),
            job: 2,
            call_id: "c-1".parse().unwrap(),
            command: command.to_owned(),
            running,
            exit_code,
            signal: None,
            output_bytes: 7,
            time_ms: 5,
        };
        let paint = Paint::Plain;
        let jobs = vec![job(true, None, "make\u{1b}[2J"), job(false, Some(3), "x")];
        assert_eq!(
            text(&Jobs { jobs }, paint),
            "s-1 job 2 running, 5 ms, 7 bytes, call c-1: make\u{fffd}[2J\n\
             s-1 job 2 ended with status 3, 5 ms, 7 bytes, call c-1: x\n"
        );
        assert_eq!(text(&Jobs { jobs: Vec::new() }, paint), "no jobs\n");
    }
}
