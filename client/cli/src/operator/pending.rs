//! `palisade pending`: lists the approval requests that wait for an answer.

use crate::{
    approve::card,
    failure::Failure,
    operator::{self, OperatorOptions},
    paint, print,
    visible::columns::Width,
};
use clap::Args;
use palisade_protocol::Pending;
use std::time::Duration;

/// Show the approval requests that wait for an answer
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  palisade pending
  palisade pending --json | jq -r '.requests[].request'
  palisade answer \"$(palisade pending --json | jq -r '.requests[0].id')\" deny")]
pub(crate) struct ShowPending {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    operator: OperatorOptions,
}

impl ShowPending {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        let operator = operator::connect(&self.operator).await?;
        let requests = operator.pending().await?;
        if self.json {
            print::json(&Pending { requests })?;
        } else if requests.is_empty() {
            print::line("no approval requests are waiting")?;
        } else {
            let (width, paint) = (Width::of_stdout(), paint::stdout());
            let cards = requests.iter().map(|request| {
                card::render(request, Duration::from_millis(request.expires_in_ms), width, paint)
            });
            print::bytes(cards.collect::<Vec<_>>().join("\n").as_bytes())?;
        }
        Ok(0)
    }
}
