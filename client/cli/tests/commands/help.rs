//! The help, manual and completions of the command line, and its usage errors.

use assert_cmd::Command;
use std::{path::Path, sync::LazyLock};

fn palisade(words: &[&str]) -> std::process::Output {
    let mut command = Command::cargo_bin("palisade").unwrap();
    command.args(words).env("NO_COLOR", "1").env_remove("PALISADE_SOCKET").output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The subcommands that are not hidden. Their manual pages are made from clap's own tree of commands.
static SUBCOMMANDS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let directory = tempfile::tempdir().unwrap();
    let output = palisade(&["man", "--dir", directory.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let pages = std::fs::read_dir(directory.path()).unwrap();
    let names = pages.map(|page| page.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names
        .filter_map(|page| Some(page.strip_prefix("palisade-")?.strip_suffix(".1")?.to_owned()))
        .filter(|name| !name.contains('-'))
        .collect();
    names.sort();
    for known in ["run", "approve", "audit", "man"] {
        assert!(names.iter().any(|name| name == known), "{known} is not in {names:?}");
    }
    names
});

#[test]
fn help_names_every_subcommand() {
    let output = palisade(&["--help"]);
    assert_eq!(output.status.code(), Some(0));
    let help = text(&output.stdout);
    for name in SUBCOMMANDS.iter() {
        assert!(help.contains(&format!("\n  {name} ")), "{name} is not in:\n{help}");
    }
    assert!(help.contains("Examples:"));
}

#[test]
fn every_subcommand_teaches_by_example() {
    for name in SUBCOMMANDS.iter() {
        let output = palisade(&[name.as_str(), "--help"]);
        assert_eq!(output.status.code(), Some(0), "{name}");
        let help = text(&output.stdout);
        assert!(help.contains("Examples:") && help.contains(&format!("palisade {name}")), "{help}");
        assert!(output.stderr.is_empty());
    }
}

#[test]
fn the_exit_statuses_of_run_are_in_its_help() {
    let help = text(&palisade(&["run", "--help"]).stdout);
    for status in ["124", "125", "126", "127", "128+n", "130"] {
        assert!(help.contains(status), "{status} is not in:\n{help}");
    }
}

#[test]
fn the_manual_has_a_page_for_each_subcommand() {
    let directory = tempfile::tempdir().unwrap();
    let target = directory.path().join("man1");
    let output = palisade(&["man", "--dir", target.to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let page = |name: &str| std::fs::read_to_string(target.join(name)).unwrap();
    assert!(page("palisade.1").contains("palisade"));
    for name in SUBCOMMANDS.iter() {
        assert!(page(&format!("palisade-{name}.1")).starts_with(".ie"), "{name}");
    }
    let printed = palisade(&["man"]);
    assert_eq!(text(&printed.stdout), page("palisade.1"));
}

/// The words of a table in the glossary that are not used any more.
fn replaced_words() -> Vec<&'static str> {
    let glossary = include_str!("../../../../docs/glossary.md");
    let (_, table) = glossary.split_once("| say | not |\n|---|---|\n").unwrap();
    let rows = table.lines().take_while(|line| line.starts_with('|'));
    rows.flat_map(|row| row.split('|').nth(2).unwrap().split(',').map(str::trim)).collect()
}

/// A manual page without its title, its examples, its code and the names of commands.
fn prose(page: &str) -> String {
    let lines = page.lines().filter(|line| !line.starts_with("  ") && !line.starts_with(".TH"));
    let text = lines.collect::<Vec<_>>().join(" ").to_lowercase();
    let text: String = text.split('`').step_by(2).collect();
    let without = |text: String, name: &String| {
        text.replace(&format!("palisade {name}"), "").replace(&format!("palisade\\-{name}"), "")
    };
    SUBCOMMANDS.iter().fold(text, without)
}

/// Returns `true` if a text has a word, or its plural.
fn has_word(text: &str, word: &str) -> bool {
    let ends = |at: usize| text[at..].chars().next().is_none_or(|next| !next.is_alphanumeric());
    text.match_indices(word).any(|(at, _)| {
        let begins = text[..at].chars().next_back().is_none_or(|last| !last.is_alphanumeric());
        let end = at + word.len();
        begins && (ends(end) || (text[end..].starts_with('s') && ends(end + 1)))
    })
}

#[test]
fn the_manual_uses_the_words_of_the_glossary() {
    let words = replaced_words();
    assert!(words.contains(&"handler") && words.contains(&"to be had"), "{words:?}");
    assert!(has_word(&prose("asks the\nhandlers"), "handler"), "control");
    let directory = tempfile::tempdir().unwrap();
    let output = palisade(&["man", "--dir", directory.path().to_str().unwrap()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let mut pages = 0;
    for entry in std::fs::read_dir(directory.path()).unwrap().map(Result::unwrap) {
        let page = prose(&std::fs::read_to_string(entry.path()).unwrap());
        let found: Vec<_> = words.iter().filter(|word| has_word(&page, word)).collect();
        assert!(found.is_empty(), "{}: {found:?}", entry.path().display());
        pages += 1;
    }
    assert!(pages > SUBCOMMANDS.len(), "only {pages} pages");
}

#[test]
fn completions_exist_for_each_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let output = palisade(&["completions", shell]);
        assert_eq!(output.status.code(), Some(0), "{shell}");
        assert!(text(&output.stdout).contains("palisade"), "{shell}");
    }
}

#[test]
fn a_socket_nobody_listens_on_is_named_with_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("agent.sock");
    let socket = socket.to_str().unwrap();
    let output = palisade(&["run", "--socket", socket, "--", "true"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(output.stdout.is_empty());
    let told = text(&output.stderr);
    assert!(told.starts_with(&format!("error: can not connect to {socket}: ")), "{told}");
    assert!(told.contains("\nhint: is palisaded running"), "{told}");
}

#[test]
fn with_json_even_a_failure_is_one_object() {
    let output = palisade(&["run", "--json", "--workspace", "/no/such/place", "--", "true"]);
    assert_eq!(output.status.code(), Some(125));
    let stdout = text(&output.stdout);
    let value: serde_json::Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(value["success"], serde_json::json!(false));
    assert_eq!(value["error"]["code"], serde_json::json!("client_failed"));
    assert!(value["error"]["message"].as_str().unwrap().contains("/no/such/place"));
    assert!(!Path::new("/no/such/place").exists());
}

#[test]
fn a_bad_duration_says_what_is_taken() {
    let output = palisade(&["run", "--timeout", "30", "--", "true"]);
    assert_eq!(output.status.code(), Some(125));
    assert!(text(&output.stderr).contains("500ms, 30s, 7d"), "{}", text(&output.stderr));
}

/// Returns what bash offers for the last of these words, by the printed completions.
fn offered(words: &[&str]) -> Vec<String> {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("palisade.bash");
    std::fs::write(&script, palisade(&["completions", "bash"]).stdout).unwrap();
    let line = r#"source "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
        _palisade_values palisade "${COMP_WORDS[COMP_CWORD]}" palisade; printf '%s\n' "${COMPREPLY[@]}""#;
    let program = Path::new(env!("CARGO_BIN_EXE_palisade"));
    let path = std::env::var("PATH").unwrap();
    let output = std::process::Command::new("bash")
        .args(["--norc", "-c", line, "bash"])
        .arg(&script)
        .arg("palisade")
        .args(words)
        .env("PATH", format!("{}:{path}", program.parent().unwrap().display()))
        .env("HOME", directory.path())
        .env("XDG_CONFIG_HOME", directory.path().join("config"))
        .env("XDG_RUNTIME_DIR", directory.path())
        .env("PALISADE_SOCKET", directory.path().join("no.sock"))
        .env("PALISADE_DAEMON", "/bin/false")
        .output()
        .unwrap();
    assert!(output.stderr.is_empty(), "{}", text(&output.stderr));
    text(&output.stdout).lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_profiles_and_leaves_the_rest_to_the_generated_function() {
    assert_eq!(offered(&["run", "--profile", "wo"]), ["workspace"]);
    let all = offered(&["profile", "show", ""]);
    for name in ["readonly", "strict", "workspace"] {
        assert!(all.iter().any(|offered| offered == name), "{name} is not in {all:?}");
    }
    assert_eq!(offered(&["stat"]), ["status"]);
    assert!(offered(&["run", "--prof"]).contains(&"--profile".to_owned()));
}

#[test]
fn completions_of_bash_zsh_and_fish_ask_for_values() {
    for shell in ["bash", "zsh", "fish"] {
        let script = text(&palisade(&["completions", shell]).stdout);
        assert!(script.contains("palisade complete -- "), "{shell}");
    }
    let zsh = text(&palisade(&["completions", "zsh"]).stdout);
    assert_eq!(zsh.matches("_palisade_options() {").count(), 1);
    assert!(
        zsh.ends_with(
            "    _palisade_values \"$@\"\nelse\n    compdef _palisade_values palisade\nfi\n"
        ),
        "{}",
        &zsh[zsh.len() - 300..]
    );
}
