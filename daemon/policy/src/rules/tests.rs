//! Tests of rules, alone and combined.

use super::*;
use crate::{ASKED_KINDS, Judgement, Profile, judge};
use palisade_protocol::{Ask, JsonText, Severity, ToolMetadata};

fn tool(name: &str) -> ToolSpec {
    let metadata =
        ToolMetadata { destructive: false, requires_checkpoint: false, ..ToolMetadata::default() };
    ToolSpec {
        name: name.parse().unwrap(),
        aliases: Vec::new(),
        description: String::new(),
        schema: JsonText::default(),
        metadata,
    }
}

fn parse(ask: &str, rules: &str) -> Result<Profile, crate::ProfileError> {
    let text = format!(
        "version = 1\ndescription = \"test\"\nask = {ask:?}\n[fs]\nworkspace = \"write\"\n\
         execute = [\"/usr\"]\n{rules}\n"
    );
    Profile::parse("test", &text)
}

fn rule(verdict: &str, rest: &str) -> String {
    format!("[[rules]]\nverdict = {verdict:?}\nwhy = \"{verdict} it\"\n{rest}\n")
}

fn words(line: &str) -> Vec<String> {
    line.split(' ').map(str::to_owned).collect()
}

fn bash(lines: &[&str]) -> Facts {
    let commands = Commands::Known(lines.iter().map(|line| words(line)).collect());
    Facts { commands, workspace: b"/w".to_vec(), ..Facts::default() }
}

fn asked(line: &str) -> Facts {
    let mut finding = Finding::new("destructive", Severity::Warning, "it is gone");
    let mut words = words(line).into_iter();
    finding.program = words.next().unwrap();
    finding.arguments = words.collect();
    Facts { findings: vec![finding], ..bash(&[line]) }
}

fn answer(profile: &Profile, ask: Ask, name: &str, facts: &Facts) -> Verdict {
    match judge(profile, ask, &tool(name), facts) {
        Judgement::Allow(_) => Verdict::Allow,
        Judgement::Ask(_) => Verdict::Ask,
        Judgement::Deny(_) => Verdict::Deny,
    }
}

#[test]
fn the_strictest_wins_whatever_the_order() {
    let (allow, ask, deny) = (
        rule("allow", "command = [\"git\"]"),
        rule("ask", "command = [\"git\", \"push\"]"),
        rule("deny", "command = [\"git\", \"push\", [\"--force\", \"-f\"]]"),
    );
    for rules in [format!("{allow}{ask}{deny}"), format!("{deny}{ask}{allow}")] {
        let profile = parse("destructive", &rules).unwrap();
        for (line, expected) in [
            ("git status", Verdict::Allow),
            ("git push", Verdict::Ask),
            ("/usr/bin/git push origin", Verdict::Ask),
            ("git push --force", Verdict::Deny),
            ("git push -f", Verdict::Deny),
            ("git push origin -f", Verdict::Ask),
        ] {
            let found = answer(&profile, Ask::Destructive, "bash", &bash(&[line]));
            assert_eq!(found, expected, "{line}");
        }
    }
}

#[test]
fn a_deny_rule_holds_in_every_mode_and_for_every_command() {
    let profile = parse("never", &rule("deny", "command = [\"curl\"]")).unwrap();
    for ask in [Ask::Never, Ask::Destructive, Ask::Sensitive, Ask::Always] {
        assert_eq!(answer(&profile, ask, "bash", &bash(&["ls", "curl x"])), Verdict::Deny);
    }
    assert_eq!(answer(&profile, Ask::Never, "bash", &bash(&["ls"])), Verdict::Allow);
    let unknown = Facts { commands: Commands::Unknown, ..Facts::default() };
    assert_eq!(answer(&profile, Ask::Never, "bash", &unknown), Verdict::Deny);
}

#[test]
fn allow_needs_every_command_and_finding_covered() {
    let rules = rule("allow", "tools = [\"bash\"]\ncommand = [\"rm\", \"-r\", \"build\"]");
    let profile = parse("destructive", &rules).unwrap();
    let judged = |facts: &Facts| answer(&profile, Ask::Destructive, "bash", facts);
    assert_eq!(judged(&asked("rm -r build")), Verdict::Allow);
    assert_eq!(judged(&asked("rm -r src")), Verdict::Ask);
    let mut two = asked("rm -r build");
    two.commands = Commands::Known(vec![words("rm -r build"), words("ls")]);
    assert_eq!(judged(&two), Verdict::Ask);
    let mut hidden = asked("rm -r build");
    hidden.findings.push(Finding::new("hidden", Severity::Warning, "it is fetched"));
    assert_eq!(judged(&hidden), Verdict::Ask);
    let unknown = Facts { commands: Commands::Unknown, ..asked("rm -r build") };
    assert_eq!(judged(&unknown), Verdict::Ask);
    // A session with a stricter ask mode still needs approval.
    assert_eq!(answer(&profile, Ask::Always, "bash", &asked("rm -r build")), Verdict::Ask);
}

#[test]
fn paths_are_below_the_workspace_or_absolute() {
    let rules = [
        rule("deny", "paths = [\".env*\", \"/w/secrets/**\"]"),
        rule("allow", "tools = [\"write_file\"]\npaths = [\"out/**\"]"),
    ]
    .concat();
    let profile = parse("sensitive", &rules).unwrap();
    let judged = |paths: &[&str]| {
        let paths = paths.iter().map(|path| path.as_bytes().to_vec()).collect();
        let facts = Facts { paths, workspace: b"/w".to_vec(), ..Facts::default() };
        answer(&profile, Ask::Sensitive, "write_file", &facts)
    };
    assert_eq!(judged(&["/w/.env.local"]), Verdict::Deny);
    assert_eq!(judged(&["/w/link", "/w/secrets/key"]), Verdict::Deny);
    assert_eq!(judged(&["/w/out/a", "/w/out/a"]), Verdict::Allow);
    assert_eq!(judged(&["/w/out/a", "/w/src/a"]), Verdict::Ask);
    assert_eq!(judged(&["/w/src/a"]), Verdict::Ask);
}

#[test]
fn findings_are_rules_of_their_own() {
    let profile = parse("never", &rule("ask", "findings = [\"workspace_code\"]")).unwrap();
    let finding = Finding::new("workspace_code", Severity::Notice, "make runs the workspace");
    let facts = Facts { findings: vec![finding], ..bash(&["make"]) };
    assert_eq!(answer(&profile, Ask::Never, "bash", &facts), Verdict::Ask);
    assert_eq!(answer(&profile, Ask::Never, "bash", &bash(&["make"])), Verdict::Allow);
    for kind in ASKED_KINDS {
        let profile = parse("destructive", "").unwrap();
        let finding = Finding::new(kind, Severity::Warning, "x");
        let facts = Facts { findings: vec![finding], ..Facts::default() };
        assert_eq!(answer(&profile, Ask::Destructive, "bash", &facts), Verdict::Ask);
        assert_eq!(answer(&profile, Ask::Destructive, "bash", &bash(&["x"])), Verdict::Allow);
    }
}

#[test]
fn an_example_that_fails_is_in_the_error() {
    for (rest, why) in [
        (
            "command = [\"git\", \"push\"]\nmatch = [\"git push\", \"git pull\"]",
            "the command \"git pull\" in `match` does not match",
        ),
        (
            "command = [\"git\"]\nnot_match = [\"hg push\", \"git push\"]",
            "the command \"git push\" in `not_match` matches",
        ),
        ("paths = [\"a/*\"]\nmatch = [\"a/b/c\"]", "the path \"a/b/c\" in `match` does not match"),
        (
            "paths = [\"a/**\"]\nnot_match = [\"a/b/c\"]",
            "the path \"a/b/c\" in `not_match` matches",
        ),
        ("command = [[]]", "`command` has an empty word or choice"),
        ("paths = [\"../x\"]", "`paths` has an empty glob, or one with `..`"),
        (
            "findings = [\"hidden\"]\nmatch = [\"x\"]",
            "`match` needs a `command` or `paths` to be tested with",
        ),
    ] {
        let error =
            parse("never", &format!("{}{}", rule("allow", "tools = [\"x\"]"), rule("deny", rest)));
        let text = error.unwrap_err().to_string();
        assert_eq!(text, format!("test.toml:11:1: rules, number 2: {why}"));
    }
    let good = "command = [\"git\", [\"push\", \"fetch\"]]\nmatch = [\"git fetch\"]\n\
                not_match = [\"git pull\"]";
    parse("never", &rule("deny", good)).unwrap();
    assert!(parse("never", "[[rules]]\nverdict = \"maybe\"\nwhy = \"x\"").is_err());
    assert!(parse("never", "[[rules]]\nverdict = \"deny\"\nwhy = \" \"").is_err());
}
