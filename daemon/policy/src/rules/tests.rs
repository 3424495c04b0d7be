//! Tests of rules, alone and combined.

use super::*;
use crate::analysis::{Nature, unproven};
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
fn a_command_allowed_by_name_needs_no_proof_that_it_only_reads() {
    let judged = |rules: &str, facts: &Facts| {
        let profile = parse("destructive", rules).unwrap();
        answer(&profile, Ask::Destructive, "bash", facts)
    };
    let unproven = unproven(Nature::Acts, &[]).unwrap();
    let line = |lines: &[&str]| Facts { findings: vec![unproven.clone()], ..bash(lines) };
    let make = rule("allow", "tools = [\"bash\"]\ncommand = [\"make\"]");
    assert_eq!(judged(&make, &line(&["make all"])), Verdict::Allow);
    assert_eq!(judged(&make, &line(&["make all", "tee log"])), Verdict::Ask);
    assert_eq!(judged(&make, &Facts { commands: Commands::Unknown, ..line(&[]) }), Verdict::Ask);
    assert_eq!(judged(&make, &line(&[])), Verdict::Ask);
    // A loss in the same line is still asked about.
    let mut loss = line(&["make all"]);
    loss.findings.extend(asked("rm victim").findings);
    assert_eq!(judged(&make, &loss), Verdict::Ask);
    // A rule about other findings is no answer to this one.
    let plants = rule("allow", "command = [\"make\"]\nfindings = [\"plant\"]");
    assert_eq!(judged(&plants, &line(&["make all"])), Verdict::Ask);
    let other = rule("allow", "command = [\"cargo\"]");
    assert_eq!(judged(&other, &line(&["make all"])), Verdict::Ask);
}

#[test]
fn paths_are_below_the_workspace_or_absolute() {
    let rules = [
        rule("deny", "changes = true\npaths = [\".env*\", \"/w/secrets/**\"]"),
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
        ("changes = true\ncommand = [\"git\"]", "`changes` needs `paths`"),
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

fn refusal(profile: &str) -> String {
    let text = format!("version = 1\ndescription = \"test\"\n{profile}");
    Profile::parse("test", &text).map_or_else(|error| error.to_string(), |_| "loaded".to_owned())
}

const FILES: &str = "[fs]\nworkspace = \"write\"\nexecute = [\"/usr\"]\n";

#[test]
fn a_rule_about_paths_that_programs_would_not_obey_is_refused() {
    let hint = "rules do not bind programs; hide it with fs.hide; or, where only changes matter, \
                protect it with fs.protect or set `changes = true`; or name only file tools in \
                rules.tools";
    for verdict in ["deny", "ask"] {
        for rest in [
            "paths = [\"secrets/**\"]",
            "paths = [\"secrets/**\"]\ntools = [\"read_file\", \"shell\"]",
            "paths = [\"secrets/**\"]\ncommand = [\"cat\"]",
        ] {
            let told = refusal(&format!("{FILES}{}", rule(verdict, rest)));
            let expected = "programs of \"bash\" could read \"secrets/**\"";
            assert_eq!(told, format!("test.toml:6:1: rules.paths: {expected}: {hint}"), "{rest}");
        }
        for (top, rest) in [
            ("", "tools = [\"read_file\", \"edit\"]"),
            ("[tools]\ndeny = [\"bash\"]\n", ""),
            ("[tools]\nallow = [\"read_file\"]\n", ""),
            ("", "changes = true"),
            ("", "findings = [\"destructive\"]"),
        ] {
            let text = rule(verdict, &format!("paths = [\"secrets/**\"]\n{rest}"));
            assert_eq!(refusal(&format!("{FILES}{top}{text}")), "loaded", "{top}{rest}");
        }
    }
    let allowed = rule("allow", "paths = [\"secrets/**\"]");
    assert_eq!(refusal(&format!("{FILES}{allowed}")), "loaded");
    // A guard that does not judge what programs do.
    let text = rule("ask", "changes = true\npaths = [\"secrets/**\"]");
    for (guard, loads) in [("auto", true), ("transaction", true), ("text", false), ("off", false)] {
        let told = refusal(&format!("guard = {guard:?}\n{FILES}{text}"));
        assert_eq!(told == "loaded", loads, "{guard}: {told}");
        assert!(loads || told.contains("could change \"secrets/**\""), "{guard}: {told}");
    }
    // `diagnostics` runs programs too, if there are any checkers.
    let checker = "[[diagnostics]]\nname = \"x\"\nargv = [\"make\"]\nformat = \"gcc\"\n";
    let text = rule("deny", "paths = [\"secrets/**\"]\ntools = [\"diagnostics\"]");
    assert_eq!(refusal(&format!("{FILES}{text}")), "loaded");
    let told = refusal(&format!("{FILES}{text}{checker}"));
    assert!(told.contains("programs of \"diagnostics\" could read"), "{told}");
}

#[test]
fn a_hidden_path_may_be_in_a_rule() {
    let loads = |hide: &str, glob: &str| {
        let text = rule("deny", &format!("paths = [{glob:?}]"));
        refusal(&format!("{FILES}hide = {hide}\n{text}")) == "loaded"
    };
    for (hide, glob, expected) in [
        ("[\"secrets/\"]", "secrets/**", true),
        ("[\"secrets/\"]", "$WORKSPACE/secrets/**", true),
        ("[\"secrets/\"]", "a/secrets/b/*.txt", true),
        ("[\"/secrets/\"]", "secrets/key", true),
        ("[\"/secrets/\"]", "a/secrets/key", false),
        ("[\"secrets/\"]", "secrets", false),
        ("[\"secrets\"]", "secrets", true),
        ("[\"secrets/\"]", "secrets*/**", false),
        ("[\"*.pem\"]", "**/*.pem", true),
        ("[\"*.pem\"]", "a/*.pem", true),
        ("[\"/a/*.pem\"]", "a/*.pem", true),
        ("[\"/a/*.pem\"]", "*/*.pem", false),
        ("[\"*.pem\"]", "a.pem", true),
        ("[\"*.pem\", \"!a.pem\"]", "a.pem", false),
        ("[\"*.pem\", \"!a.pem\"]", "*.pem", false),
        ("[[\"*.pem\", \"!a.pem\"], [\"a.*\"]]", "a.pem", true),
        ("[\"*.pem\"]", "*.key", false),
        ("[\"$SECRETS\"]", ".env", true),
        ("[\"secrets/\"]", "/w/secrets/**", false),
        ("[\"secrets/\"]", "$HOME/secrets/**", false),
    ] {
        assert_eq!(loads(hide, glob), expected, "hide = {hide}, paths = [{glob:?}]");
    }
}

#[test]
fn a_profile_can_not_widen_a_rule_to_tools_that_it_does_not_bind() {
    let base = format!(
        "version = 1\ndescription = \"x\"\n{FILES}[tools]\nallow = [\"read_file\"]\n{}",
        rule("deny", "paths = [\"secrets/**\"]")
    );
    fn source<'a>(name: &'a str, text: &'a str) -> crate::Source<'a> {
        crate::Source { name, file: "test.toml", text, owner: crate::Owner::Root }
    }
    let child = |rest: &str| {
        let text = format!("version = 1\ndescription = \"x\"\n{rest}");
        crate::ProfileSet::new([source("base", &base), source("child", &text)])
            .map(|_| ())
            .map_err(|error| error.to_string())
    };
    assert_eq!(child("extends = \"base\"\n"), Ok(()));
    for wider in [
        "extends = \"base\"\nwiden = true\n[tools]\nallow = [\"bash\"]\n",
        // What is enforced has the tools of the base.
        "extends = \"base\"\nobserve = \"workspace\"\n",
    ] {
        let told = child(wider).unwrap_err();
        assert!(told.contains("programs of \"bash\" could read \"secrets/**\""), "{told}");
    }
}

#[test]
fn a_rule_about_changes_does_not_match_reading() {
    let profile = parse("never", &rule("deny", "changes = true\npaths = [\"kept/**\"]")).unwrap();
    let facts =
        Facts { paths: vec![b"/w/kept/a".to_vec()], workspace: b"/w".to_vec(), ..Facts::default() };
    let mut reading = tool("read_file");
    reading.metadata.read_only = true;
    let is_denied =
        |tool: &ToolSpec| matches!(judge(&profile, Ask::Never, tool, &facts), Judgement::Deny(_));
    assert!(is_denied(&tool("write_file")) && !is_denied(&reading));
    assert!(!profile.withholds(&reading, b"/w", b"/w/kept/a", &facts));
    let done = crate::judge_effects(&profile, Ask::Never, &tool("bash"), &facts);
    assert!(matches!(done, Judgement::Deny(_)));
}
