//! `palisade top`: shows the daemon's current activity, refreshed regularly.

use crate::{
    failure::Failure,
    operator::{
        self, OperatorOptions,
        sessions::{CALLS_OMITTED, SESSIONS_OMITTED, calls, fitted, sessions, summary, table},
    },
    paint::{self, Paint},
    print,
    visible::columns::Width,
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
            let page = page(&operator.overview().await?, Width::of_stdout(), paint::stdout());
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
            let shown = page(&operator.overview().await?, Width::of_stdout(), paint::stdout());
            print::bytes(format!("{CLEAR}{shown}").as_bytes())?;
            tokio::select! {
                // Ends on Ctrl-C, and also if listening for it failed.
                _ = tokio::signal::ctrl_c() => return Ok(()),
                () = tokio::time::sleep(interval) => {}
            }
        }
    }
}

fn page(overview: &Overview, width: Width, paint: Paint) -> String {
    let mut page = format!("{}\n", summary(overview));
    if !overview.sessions.is_empty() {
        let rows = fitted(sessions(&overview.sessions), SESSIONS_OMITTED, width);
        page.push_str(&format!("\n{}", table(&rows, paint)));
    }
    if !overview.calls.is_empty() {
        let rows = fitted(calls(&overview.calls), CALLS_OMITTED, width);
        page.push_str(&format!("\n{}", table(&rows, paint)));
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operator::sessions::tests::overview;
    use palisade_client::CallStage;

    #[test]
    fn a_page_has_what_there_is() {
        let mut overview = overview();
        let shown = page(&overview, Width::Unlimited, Paint::Plain);
        assert_eq!(shown.lines().count(), 8, "{shown}");
        overview.sessions.clear();
        overview.calls.clear();
        let shown = page(&overview, Width::Unlimited, Paint::Plain);
        assert_eq!(shown.lines().count(), 2, "{shown}");
    }

    /// Names that agents choose, each with a character that acts on a terminal, turns text around or is
    /// not seen.
    #[test]
    fn no_name_acts_on_the_operators_terminal_or_looks_like_another() {
        let hostile = "\0\u{7}\u{8}\t\r\n\u{b}\u{1b}\u{7f}\u{85}\u{9b}\u{61c}\u{200b}\u{200d}\u{200e}\
                       \u{200f}\u{2028}\u{2029}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2066}\u{2067}\
                       \u{2068}\u{2069}\u{feff}\u{e0041}";
        for c in hostile.chars() {
            let mut overview = overview();
            let plain = page(&overview, Width::Unlimited, Paint::Plain);
            let name = format!("a{c}b");
            overview.server = name.clone();
            let session = overview.sessions.first_mut().unwrap();
            session.profile = name.clone();
            session.workspace = name.as_str().into();
            overview.calls.first_mut().unwrap().summary = name.clone();
            for width in [Width::Unlimited, Width::Columns(80)] {
                let shown = page(&overview, width, Paint::Plain);
                assert_eq!(shown.lines().count(), plain.lines().count(), "{c:?}: {shown}");
                let hidden = |c: char| c != '\n' && palisade_text::is_hidden(c);
                assert!(!shown.contains(hidden), "{c:?}: {shown:?}");
                // Each of the four is told from the same without the character.
                assert!(!shown.contains("ab"), "{c:?}: {shown}");
            }
        }
    }

    /// An overview with ids, a workspace and commands of the usual lengths.
    fn busy() -> Overview {
        let mut overview = overview();
        let session = overview.sessions.first_mut().unwrap();
        session.session = "01990f3e-6a00-7c11-9d42-3f0e8a7b6c5d".parse().unwrap();
        session.workspace = "/home/alice/src/a-project-with-a-long-name/services/billing".into();
        let mut read = overview.calls.first().unwrap().clone();
        let run = overview.calls.first_mut().unwrap();
        run.call_id = "01990f3e-71d2-7a3e-8b11-0c5d2a9e4f60".parse().unwrap();
        run.session = session.session.clone();
        run.stage = CallStage::Checkpoint;
        run.time_ms = 65_000;
        run.summary = "cargo test --workspace --all-features -- --nocapture billing::".to_owned();
        read.call_id = "01990f3e-7300-7b22-a1c4-5e6f70819203".parse().unwrap();
        read.session = session.session.clone();
        read.tool = "read_file".parse().unwrap();
        read.stage = CallStage::Execute;
        read.summary = "src/main.rs".to_owned();
        overview.calls.push(read);
        overview
    }

    #[test]
    fn at_80_columns_the_commands_are_there() {
        let shown = page(&busy(), Width::Columns(80), Paint::Plain);
        assert_eq!(
            shown,
            "\
palisaded 0.1.0: sessions 1, calls 2, jobs 2, approval requests 1
memory 12M, in cells 4K

SESSION             UID   PROFILE    TIME   BUSY  JOBS  WORKSPACE
01990f3e-6a00-7c11  1000  workspace  1m01s  1     2     /home/alice/src/a-proje…

CALL                TIME   STAGE       TOOL       COMMAND
01990f3e-71d2-7a3e  1m05s  checkpoint  bash       cargo test --workspace --all-…
01990f3e-7300-7b22  1.2s   execute     read_file  src/main.rs
"
        );
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    }

    #[test]
    fn at_160_columns_everything_is_there() {
        let shown = page(&busy(), Width::Columns(160), Paint::Plain);
        assert_eq!(
            shown,
            "\
palisaded 0.1.0: sessions 1, calls 2, jobs 2, approval requests 1
memory 12M, in cells 4K

SESSION             UID   AS      PID  PROFILE    TIME   CALLS  BUSY  JOBS  MEMORY  WORKSPACE
01990f3e-6a00-7c11  1000  600000  42   workspace  1m01s  3      1     2     4K      \
/home/alice/src/a-project-with-a-long-name/services/billing

CALL                SESSION             TIME   STAGE       TOOL       COMMAND
01990f3e-71d2-7a3e  01990f3e-6a00-7c11  1m05s  checkpoint  bash       \
cargo test --workspace --all-features -- --nocapture billing::
01990f3e-7300-7b22  01990f3e-6a00-7c11  1.2s   execute     read_file  src/main.rs
"
        );
        assert!(shown.lines().all(|line| line.chars().count() <= 160), "{shown}");
    }
}
