//! Common test helpers: calls that must be refused or must succeed, the same attempt outside, and
//! profiles that differ from the default one in a line.

use crate::{Mode, Sandbox, World};
use palisade_protocol::{CallResult, ErrorCode};
use serde_json::Value;

impl Sandbox {
    /// Calls a tool that must be refused; returns the code and the message.
    #[must_use]
    pub fn refused(&self, tool: &str, arguments: Value) -> (ErrorCode, String) {
        let shown = format!("{tool} {arguments}");
        let result = self.call(tool, arguments);
        match (result.success, result.error) {
            (false, Some(error)) => (error.code, error.message),
            (success, error) => panic!("{shown}: success {success}, error {error:?}"),
        }
    }

    /// Calls a tool that must succeed; returns its result.
    #[must_use]
    pub fn done(&self, tool: &str, arguments: Value) -> CallResult {
        let shown = format!("{tool} {arguments}");
        let result = self.call(tool, arguments);
        assert!(result.success, "{shown}: {:?}", result.error);
        result
    }

    /// Makes attempts with `probe` inside; returns only the answers.
    #[must_use]
    pub fn told(&self, attempts: &[String]) -> Vec<String> {
        let quoted: Vec<String> = attempts.iter().map(|attempt| format!("'{attempt}'")).collect();
        self.probe(&quoted.join(" ")).iter().map(|line| answer(line)).collect()
    }
}

/// Returns what follows the last `=`.
fn answer(line: &str) -> String {
    line.rsplit('=').next().unwrap_or_default().to_owned()
}

/// Returns the structured part of a result.
#[must_use]
pub fn data(result: &CallResult) -> Value {
    let text = result.data.as_ref().expect("a result with data").as_str();
    serde_json::from_str(text).expect("JSON")
}

impl World {
    /// Makes harmless attempts with `probe` on the host as this world's user, as a control.
    #[must_use]
    pub fn told_outside(&self, attempts: &[String]) -> Vec<String> {
        let output = self
            .mode
            .act(|| self.command("probe").args(attempts).output().expect("probe runs outside"));
        let text = String::from_utf8(output.stdout).expect("UTF-8");
        text.lines().map(answer).collect()
    }

    /// Waits until a call has created a file in the workspace.
    pub fn wait_for_empty(&self, name: &str) {
        let path = self.workspace().join(name);
        crate::rooms::until("a call makes its file", || path.exists());
    }

    /// Waits until a call has written something to a file in the workspace.
    pub fn wait_for(&self, name: &str) {
        let path = self.workspace().join(name);
        let is_there = || std::fs::read(&path).is_ok_and(|bytes| !bytes.is_empty());
        let came = (0..1200).any(|_| {
            let came = is_there();
            if !came {
                std::thread::sleep(std::time::Duration::from_millis(50));
            }
            came
        });
        assert!(came, "{} did not come", path.display());
    }
}

/// Creates a world with two sessions: one that does not see `outside`, and one that sees it
/// read-only.
#[must_use]
pub fn both_views(mode: Mode) -> (World, [Sandbox; 2]) {
    let world = World::new(mode);
    world.add_profile("seen", &profile_reading(&world.outside()));
    let views = [world.open(), world.open_with("seen")];
    (world, views)
}

/// Returns the default profile with some of its text replaced. Its own tests are removed, because
/// they are about the original text.
#[must_use]
pub fn profile_with(changes: &[(&str, &str)]) -> String {
    let (name, text) = palisade_policy::builtin()[0];
    assert_eq!(name, "workspace");
    let (head, rest) = text.split_once("tests = [").expect("it has tests");
    let (_, rest) = rest.split_once("]\n\n").expect("they end");
    changes.iter().fold(format!("{head}{rest}"), |text, (from, to)| {
        assert_eq!(text.matches(from).count(), 1, "{from:?} is there once");
        text.replace(from, to)
    })
}

/// Returns the default profile with one more readable directory, and without approval requests.
#[must_use]
pub fn profile_reading(path: &std::path::Path) -> String {
    let last = "    \"$HOME/.cargo/git\",\n";
    let reading = format!("{last}    \"!{}\",\n", path.display());
    profile_with(&[(last, &reading), ("ask = \"destructive\"", "ask = \"never\"")])
}

/// Returns the default profile without approval requests.
#[must_use]
pub fn profile_never_asking() -> String {
    profile_with(&[("ask = \"destructive\"", "ask = \"never\"")])
}

/// Returns a program's output as text.
#[must_use]
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
