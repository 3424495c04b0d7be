//! `palisade setup`: what it prints, writes, refuses and checks, in a home of its own.

use assert_cmd::Command;
use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Output,
};

const AGENTS: [&str; 7] = ["claude", "codex", "cursor", "gemini", "vscode", "goose", "opencode"];

/// A home and a workspace, and programs that stand for agents.
struct Place {
    directory: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { directory: tempfile::tempdir().unwrap() };
        for made in [place.home(), place.workspace(), place.programs()] {
            fs::create_dir(made).unwrap();
        }
        place
    }

    fn home(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join("home")
    }

    fn workspace(&self) -> PathBuf {
        self.directory.path().canonicalize().unwrap().join("work \"x\"")
    }

    fn programs(&self) -> PathBuf {
        self.directory.path().join("programs")
    }

    fn setup(&self, words: &[&str]) -> Output {
        let mut command = Command::cargo_bin("palisade").unwrap();
        command.arg("setup").args(words).current_dir(self.workspace()).env_clear();
        let path = format!("{}:/usr/bin:/bin", self.programs().display());
        command.env("HOME", self.home()).env("PATH", path).output().unwrap()
    }

    /// The files that a run has to do with, as it names them.
    fn files(&self, agent: &str) -> Vec<PathBuf> {
        let printed = self.done(&[agent]);
        let named = printed.lines().filter_map(|line| line.strip_prefix("# /"));
        named.map(|path| Path::new("/").join(path)).collect()
    }

    fn done(&self, words: &[&str]) -> String {
        let output = self.setup(words);
        let said = String::from_utf8(output.stdout).unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(0), "{words:?}: {said}{complaint}");
        said
    }

    /// Puts a program there that prints this line.
    fn add_program(&self, name: &str, line: &str) {
        let path = self.programs().join(name);
        fs::write(&path, format!("#!/bin/sh\necho '{line}'\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

#[test]
fn each_agent_is_written_once_and_then_checked() {
    for agent in AGENTS {
        let place = Place::new();
        let printed = place.done(&[agent]);
        let is_marked = ["tried with version", "from its documentation"];
        assert!(is_marked.iter().any(|mark| printed.contains(mark)), "{printed}");
        assert!(printed.contains("# Start: ") && printed.contains("# Not covered: "), "{printed}");
        let files = place.files(agent);
        assert!(!files.is_empty() && files.iter().all(|file| !file.exists()), "{files:?}");
        assert_eq!(place.setup(&[agent, "--check"]).status.code(), Some(1), "{agent}");

        let written = place.done(&[agent, "--write"]);
        for file in &files {
            assert!(written.contains(&format!("created {}", file.display())), "{written}");
            let text = fs::read_to_string(file).unwrap();
            assert!(printed.contains(&text), "{agent}: {text}\nis not in\n{printed}");
        }
        let again = place.done(&[agent, "--write"]);
        assert_eq!(again.matches("unchanged ").count(), files.len(), "{again}");

        for name in ["claude", "codex", "cursor-agent", "gemini", "opencode"] {
            place.add_program(name, "palisade: connected");
        }
        place.done(&[agent, "--check"]);
        for name in ["claude", "codex", "cursor-agent", "gemini", "opencode"] {
            place.add_program(name, "no servers");
        }
        let status = place.setup(&[agent, "--check"]).status.code();
        let has_no_list = ["vscode", "goose"].contains(&agent);
        assert_eq!(status, Some(if has_no_list { 0 } else { 1 }), "{agent}");
    }
}

/// The agent's own word counts, and only about the server: not a path with the same name.
#[test]
fn a_server_that_the_agent_can_not_use_is_not_reported_as_good() {
    let place = Place::new();
    place.done(&["claude", "--write"]);
    for (listed, is_good) in [
        ("palisade: /x/palisade mcp - ✓ Connected", true),
        ("palisade: /x/palisade mcp - ✗ Failed to connect", false),
        ("palisade: /x/palisade mcp - ⏸ Pending approval", false),
        ("palisade: /x/palisade mcp - Disconnected", false),
        ("No MCP servers configured in /src/palisade", false),
        ("/src/palisade: connected", false),
        ("palisade-old: /x/palisade mcp - ✓ Connected", false),
    ] {
        place.add_program("claude", listed);
        let output = place.setup(&["claude", "--check"]);
        let said = String::from_utf8(output.stdout).unwrap();
        assert_eq!(output.status.code(), Some(i32::from(!is_good)), "{listed}: {said}");
        let word = if is_good { "ok" } else { "missing" };
        assert!(said.contains(&format!("{word} claude mcp list")), "{listed}: {said}");
    }
}

#[test]
fn what_is_there_already_is_kept_with_a_backup() {
    let place = Place::new();
    let path = place.home().join(".gemini/settings.json");
    let mine =
        "{\n  // mine\n  \"ui\": {\"theme\": \"dark\"},\n  \"tools\": {\"core\": [\"ls\"]}\n}\n";
    fs::create_dir(path.parent().unwrap()).unwrap();
    fs::write(&path, mine).unwrap();
    let written = place.done(&["gemini", "--write", "--profile", "strict"]);
    let backup = path.with_file_name("settings.json.before-palisade");
    assert!(written.contains(&format!("backup in {}", backup.display())), "{written}");
    assert_eq!(fs::read_to_string(backup).unwrap(), mine);
    let text = fs::read_to_string(&path).unwrap();
    for kept in ["// mine", "\"theme\": \"dark\"", "mcp_palisade_*", "\"--profile\"", "\"strict\""]
    {
        assert!(text.contains(kept), "{kept} is not in {text}");
    }
}

#[test]
fn a_file_that_can_not_be_read_stops_all_of_it() {
    let place = Place::new();
    let settings = place.workspace().join(".claude/settings.json");
    fs::create_dir(settings.parent().unwrap()).unwrap();
    for broken in ["{\"permissions\": ", "{\"permissions\": {\"deny\": \"all\"}}", "\u{0}"] {
        fs::write(&settings, broken).unwrap();
        let output = place.setup(&["claude", "--write"]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(125), "{said}");
        assert!(said.contains("settings.json") && said.contains("no file was changed"), "{said}");
        assert_eq!(fs::read_to_string(&settings).unwrap(), broken);
        let left: Vec<_> = fs::read_dir(place.workspace()).unwrap().collect();
        assert_eq!(left.len(), 1, "{left:?}");
    }
    let goose = place.home().join(".config/goose/config.yaml");
    fs::create_dir_all(goose.parent().unwrap()).unwrap();
    fs::write(&goose, "extensions:\n  developer:\n    enabled: true\n").unwrap();
    assert_eq!(place.setup(&["goose", "--write"]).status.code(), Some(125));
    assert_eq!(fs::read_dir(goose.parent().unwrap()).unwrap().count(), 1);
}
