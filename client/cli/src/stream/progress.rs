//! Shows the progress of a long call: a line on standard error, if that is a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal as _;

/// A progress line. It appears with the first progress event and is cleared at the end.
#[derive(Debug)]
pub(crate) struct Progress(Option<ProgressBar>);

impl Progress {
    pub(crate) const fn new() -> Self {
        Self(None)
    }

    /// Returns `true` if standard error is a terminal, so that the line is visible.
    pub(crate) fn is_seen() -> bool {
        std::io::stderr().is_terminal()
    }

    /// Shows the current activity and how much of it is done.
    pub(crate) fn show(&mut self, message: &str, done: u64, total: Option<u64>) {
        if !Self::is_seen() {
            return;
        }
        let bar = self.0.get_or_insert_with(|| {
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

    /// Clears the line.
    pub(crate) fn clear(&mut self) {
        if let Some(bar) = self.0.take() {
            bar.finish_and_clear();
        }
    }
}

fn style(total: Option<u64>) -> ProgressStyle {
    let template = match total {
        Some(_) => "{bar:40} {pos}/{len} {msg}",
        None => "{spinner} {msg} {human_pos} ({elapsed})",
    };
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner())
}
