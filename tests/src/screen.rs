//! A shell in a terminal of its own (tmux), and what the terminal shows.

use crate::{Mode, World};
use std::{
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

/// The longest wait for a text.
const PATIENCE: Duration = Duration::from_secs(120);

/// A terminal in which a shell of the world's user runs.
#[derive(Debug)]
pub struct Screen {
    mode: Mode,
    directory: PathBuf,
}

impl Screen {
    /// Opens a terminal of 100 columns and 40 lines in the workspace. `command` has the environment.
    #[must_use]
    pub fn new(world: &World, command: &Command) -> Self {
        let screen = Self { mode: world.mode, directory: world.outside() };
        let variables = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        let variables: Vec<_> = variables.map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
        let workspace = world.workspace();
        screen.mode.act(|| {
            let mut tmux = screen.tmux();
            tmux.env_clear().envs(variables).env("TERM", "xterm-256color").current_dir(workspace);
            tmux.args(["-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "40", "sh"]);
            assert!(tmux.status().expect("tmux").success());
        });
        screen.line("PS1='host> '; stty -g > /dev/null; echo re''ady");
        screen.shows("ready");
        screen
    }

    fn tmux(&self) -> Command {
        let mut tmux = Command::new("tmux");
        tmux.arg("-S").arg(self.directory.join("tmux.sock")).env_remove("TMUX");
        tmux
    }

    fn tell(&self, words: &[&str]) -> String {
        let output = self.mode.act(|| self.tmux().args(words).output().expect("tmux"));
        assert!(output.status.success(), "{words:?}: {output:?}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Types keys, given by tmux's names.
    pub fn keys(&self, keys: &[&str]) {
        self.tell(&[&["send-keys"], keys].concat());
    }

    /// Types a line.
    pub fn line(&self, text: &str) {
        self.tell(&["send-keys", "-l", text]);
        self.keys(&["Enter"]);
    }

    /// Changes the size of the terminal.
    pub fn resize(&self, columns: u16, lines: u16) {
        self.tell(&["resize-window", "-x", &columns.to_string(), "-y", &lines.to_string()]);
    }

    /// Returns what the terminal shows, with the lines that have scrolled out of it.
    #[must_use]
    pub fn text(&self) -> String {
        self.tell(&["capture-pane", "-p", "-J", "-S", "-1000"])
    }

    /// Waits until the terminal shows this text.
    ///
    /// # Panics
    /// If it does not.
    pub fn shows(&self, text: &str) {
        let start = Instant::now();
        loop {
            let shown = self.text();
            if shown.contains(text) {
                return;
            }
            assert!(start.elapsed() < PATIENCE, "no {text:?} in:\n{}", shown.trim_end());
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // The server ends with its only session; it may have ended already.
        self.mode.act(|| self.tmux().arg("kill-server").output().map(drop).unwrap_or_default());
    }
}
