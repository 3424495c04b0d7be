//! Shows the progress of a long call, and its wait for approval: a line on standard error that is
//! refreshed if that is a terminal. Elsewhere a line tells once that the call waits.

use crate::{approve::card, print};
use indicatif::{ProgressBar, ProgressStyle};
use palisade_client::WAITING_FOR_APPROVAL;
use std::{
    future::pending,
    io::IsTerminal as _,
    time::{Duration, Instant},
};

/// The interval at which the time left is refreshed.
const REFRESH: Duration = Duration::from_secs(1);

/// The activity of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Activity {
    Running,
    Waiting(ApprovalWait),
}

/// A call's wait for approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct ApprovalWait {
    /// The time at which the call is denied.
    ends: Option<Instant>,
    /// The number of approvals that were given, where more are needed.
    approvals: u64,
}

/// A progress line. It appears with the first progress event and is cleared at the end.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    activity: Activity,
}

impl Progress {
    pub(crate) const fn new() -> Self {
        Self { bar: None, activity: Activity::Running }
    }

    /// Returns `true` if standard error is a terminal, so that the line is visible.
    pub(crate) fn is_seen() -> bool {
        std::io::stderr().is_terminal()
    }

    /// Shows the current activity and how much of it is done.
    pub(crate) fn show(&mut self, message: &str, done: u64, total: Option<u64>) {
        if message == WAITING_FOR_APPROVAL {
            let ends =
                total.and_then(|left| Instant::now().checked_add(Duration::from_millis(left)));
            return self.wait(ApprovalWait { ends, approvals: done });
        }
        let waited = matches!(self.activity, Activity::Waiting(_));
        self.activity = Activity::Running;
        if waited {
            // The event only ends the wait.
            return self.clear();
        }
        if !Self::is_seen() {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::no_length();
            bar.set_style(style(total));
            bar
        });
        if let Some(total) = total {
            bar.set_length(total);
        }
        bar.set_message(message.to_owned());
        bar.set_position(done);
        bar.tick();
    }

    /// Shows that the call waits for approval.
    fn wait(&mut self, wait: ApprovalWait) {
        let known = match self.activity {
            Activity::Waiting(known) => Some(known.approvals),
            Activity::Running => None,
        };
        self.activity = Activity::Waiting(wait);
        if Self::is_seen() {
            if known.is_none() {
                self.clear();
            }
            self.refresh();
        } else if known != Some(wait.approvals) {
            print::note(&format!("note: {}", waiting(wait, Instant::now())));
        }
    }

    /// Shows the time left of a wait for approval anew.
    pub(crate) fn refresh(&mut self) {
        let Activity::Waiting(wait) = self.activity else { return };
        if !Self::is_seen() {
            return;
        }
        let bar = self.bar.get_or_insert_with(|| {
            let bar = ProgressBar::no_length();
            bar.set_style(waiting_style());
            bar
        });
        bar.set_message(waiting(wait, Instant::now()));
        bar.tick();
    }

    /// Returns when a line with the time left is due to be refreshed; never if there is none.
    pub(crate) async fn due(&self) {
        match self.activity {
            Activity::Waiting(_) if Self::is_seen() => tokio::time::sleep(REFRESH).await,
            Activity::Waiting(_) | Activity::Running => pending().await,
        }
    }

    /// Clears the line.
    pub(crate) fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

/// Says that a call waits for approval, for how long, and who can answer. Fits into 80 columns.
fn waiting(wait: ApprovalWait, now: Instant) -> String {
    let left = wait.ends.map(|ends| card::clock(ends.saturating_duration_since(now)));
    let left = left.map(|left| format!(", {left} left")).unwrap_or_default();
    match wait.approvals {
        0 => format!("waiting for approval{left} (see palisade pending, palisade approve)"),
        given => format!("waiting for approval, {given} given{left} (see palisade pending)"),
    }
}

fn waiting_style() -> ProgressStyle {
    ProgressStyle::with_template("{spinner} {msg}")
        .unwrap_or_else(|_| ProgressStyle::default_spinner())
}

fn style(total: Option<u64>) -> ProgressStyle {
    let template = match total {
        Some(_) => "{bar:40} {pos}/{len} {msg}",
        None => "{spinner} {msg} {human_pos} ({elapsed})",
    };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_told_with_the_time_left_in_80_columns() {
        let now = Instant::now();
        let ends = |seconds: u64| Some(now + Duration::from_secs(seconds));
        let waiting = |ends, approvals| waiting(ApprovalWait { ends, approvals }, now);
        let text = "waiting for approval, 4m58s left (see palisade pending, palisade approve)";
        assert_eq!(waiting(ends(298), 0), text);
        assert!(text.len() + "⠁ ".len() <= 80);
        assert!(waiting(ends(0), 0).starts_with("waiting for approval, 0s left ("));
        assert!(waiting(None, 0).starts_with("waiting for approval (see palisade"));
        let text = "waiting for approval, 1 given, 4m58s left (see palisade pending)";
        assert_eq!(waiting(ends(298), 1), text);
    }
}
