//! `palisade top`: shows the daemon's current activity, refreshed regularly.

use crate::{
    failure::Failure,
    operator::{
        self, OperatorOptions,
        sessions::{calls, sessions, summary, table},
    },
    paint::{self, Paint},
    print,
};
use clap::Args;
use palisade_client::Overview;
use palisade_options::duration;
use std::{io::IsTerminal as _, time::Duration};

/// Switch to the terminal's alternate screen, and back.
const ENTER: &str = "\x1b[?1049h\x1b[?25l";
const LEAVE: &str = "\x1b[?25h\x1b[?1049l";
/// Moves the cursor to the top left and clears the screen.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Watch sessions and running calls, for operators
#[derive(Debug, Args)]
#[command(after_help = "\
Needs the operator right to observe. On a terminal, refreshes until Ctrl-C; elsewhere prints once.

Examples:
  palisade top
  palisade top --interval 500ms
  palisade top --once
  palisade top --json | jq '.calls[] | select(.stage == \"checkpoint\")'")]
pub(crate) struct Top {
    /// Print once and exit
    #[arg(long)]
    once: bool,
    /// Print once, as one JSON object
    #[arg(long)]
    json: bool,
    /// How often to refresh
    #[arg(long, value_name = "TIME", default_value = "2s", value_parser = duration::parse)]
    interval: Duration,
    #[command(flatten)]
    operator: OperatorOptions,
}

impl Top {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        let operator = operator::connect(&self.operator).await?;
        if self.json {
            return print::json(&operator.overview().await?).map(|()| 0);
        }
        if self.once || !std::io::stdout().is_terminal() {
            let page = page(&operator.overview().await?, paint::stdout());
            return print::bytes(page.as_bytes()).map(|()| 0);
        }
        print::bytes(ENTER.as_bytes())?;
        let watched = self.watch(&operator).await;
        print::bytes(LEAVE.as_bytes())?;
        watched.map(|()| 0)
    }

    async fn watch(&self, operator: &palisade_client::Operator) -> Result<(), Failure> {
        let interval = self.interval.max(Duration::from_millis(100));
        loop {
            let shown = page(&operator.overview().await?, paint::stdout());
            print::bytes(format!("{CLEAR}{shown}").as_bytes())?;
            tokio::select! {
                // Ends on Ctrl-C, and also if listening for it failed.
                _ = tokio::signal::ctrl_c() => return Ok(()),
                () = tokio::time::sleep(interval) => {}
            }
        }
    }
}

fn page(overview: &Overview, paint: Paint) -> String {
    let mut page = format!("{}\n", summary(overview));
    if !overview.sessions.is_empty() {
        page.push_str(&format!("\n{}", table(&sessions(&overview.sessions), paint)));
    }
    if !overview.calls.is_empty() {
        page.push_str(&format!("\n{}", table(&calls(&overview.calls), paint)));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::sessions::tests::overview;

    #[test]
    fn a_page_has_what_there_is() {
        let mut overview = overview();
        let shown = page(&overview, Paint::Plain);
        assert_eq!(shown.lines().count(), 7, "{shown}");
        overview.sessions.clear();
        overview.calls.clear();
        let shown = page(&overview, Paint::Plain);
        assert_eq!(shown.lines().count(), 1, "{shown}");
    }
}
