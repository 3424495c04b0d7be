//! Shows an approval request to an approver, rendered from what will run. Nothing that the agent
//! wrote can control the terminal.

use crate::{
    paint::{Paint, Style},
    visible::{lines, visible},
};
use palisade_client::{Finding, Question, Review, Target};
use palisade_protocol::{ReverseThinking, Severity};
use std::time::Duration;

/// The name that approval requests about network connections have in place of a tool's.
const CONNECT: &str = "net.connect";

/// Formats the whole approval request, with a newline after each line.
pub(crate) fn render(question: &Question, left: Duration, paint: Paint) -> String {
    let mut card = String::new();
    let mut say = |line: &str| {
        card.push_str(line);
        card.push('\n');
    };
    say(&headline(question, left, paint));
    for (name, value) in origin(question) {
        say(&format!("{} {}", paint.apply(Style::Strong, &format!("{name:<9}")), visible(&value)));
    }
    ran(question, paint).iter().for_each(|line| say(line));
    say("");
    acts(question, paint).iter().for_each(|line| say(line));
    question.view.targets.iter().for_each(|target| say(&touched(target, paint)));
    if let Some(diff) = &question.view.diff {
        say("");
        lines(diff).for_each(|line| say(&coloured(&line, paint)));
        if question.view.diff_cut {
            say(&paint.apply(Style::Warning, "  the diff was cut; it is longer than shown"));
        }
    }
    if let Some(output) = &question.output {
        say("");
        say("the agent would see this output:");
        lines(output).for_each(|line| say(&format!("  | {line}")));
    }
    agent_statements(question).iter().for_each(|line| say(line));
    card
}

/// Summarizes an approval request in one line, for queues and logs.
pub(crate) fn summary(question: &Question) -> String {
    let act = match question.view.lines.as_slice() {
        [] => visible(question.arguments.as_str()),
        [one] => visible(&one.text),
        [first, rest @ ..] => format!("{} (and {} more)", visible(&first.text), rest.len()),
    };
    let kind = match question.review {
        Review::Input => "",
        Review::Output => " output",
        Review::Effects => " changes",
    };
    format!("{}{kind}: {act}", question.tool)
}

/// Formats a duration in minutes and seconds.
pub(crate) fn clock(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds => format!("{}m{:02}s", seconds / 60, seconds % 60),
    }
}

fn headline(question: &Question, left: Duration, paint: Paint) -> String {
    let asked = match question.review {
        Review::Input if question.tool.as_str() == CONNECT => ": a program wants to connect",
        Review::Input => " wants to run",
        Review::Output => " finished. May the agent see its output?",
        Review::Effects => " finished. Keep its changes?",
    };
    let text = format!("── {}{asked} ── {} ──", question.tool, question.question);
    format!("{} {} left", paint.apply(Style::Hint, &text), clock(left))
}

fn origin(question: &Question) -> Vec<(&'static str, String)> {
    let asker = &question.asker;
    let mut who = vec![format!("uid {}", asker.uid)];
    if asker.pid != 0 {
        who.push(format!("pid {}", asker.pid));
    }
    who.extend(asker.unit.clone());
    who.push(format!("session {}, profile {}", asker.session, asker.profile));
    let mut fields =
        vec![("who", who.join(", ")), ("in", question.cwd.as_path().display().to_string())];
    if asker.workspace != question.cwd {
        fields.push(("workspace", asker.workspace.as_path().display().to_string()));
    }
    fields.push(("why", question.why.clone()));
    fields
}

/// Shows the call that has run, where its changes or its output are reviewed.
fn ran(question: &Question, paint: Paint) -> Vec<String> {
    if question.review == Review::Input {
        return Vec::new();
    }
    let arguments = question.arguments.as_str();
    let parsed = serde_json::from_str::<serde_json::Value>(arguments).unwrap_or_default();
    let text = parsed.get("command").and_then(|command| command.as_str()).unwrap_or(arguments);
    // Marks distinguish further lines of the agent's from this program's own.
    let heads = std::iter::once(paint.apply(Style::Strong, "ran      "))
        .chain(std::iter::repeat("        …".to_owned()));
    lines(text).zip(heads).map(|(line, head)| format!("{head} {line}")).collect()
}

/// Lists what would be done, one action per line, each followed by its findings.
fn acts(question: &Question, paint: Paint) -> Vec<String> {
    let mut told = vec![false; question.findings.len()];
    let mut shown = Vec::new();
    for line in &question.view.lines {
        // A mark in front distinguishes the agent's lines from this program's own.
        let marks = std::iter::once("»").chain(std::iter::repeat("…"));
        shown.extend(lines(&line.text).zip(marks).map(|(text, mark)| format!("  {mark} {text}")));
        for index in line.findings.iter().filter_map(|index| usize::try_from(*index).ok()) {
            if let Some(finding) = question.findings.get(index) {
                shown.push(format!("    {}", found(finding, paint)));
                told[index] = true;
            }
        }
    }
    if question.view.lines.is_empty() {
        let pretty = serde_json::from_str::<serde_json::Value>(question.arguments.as_str())
            .and_then(|value| serde_json::to_string_pretty(&value));
        let arguments = pretty.unwrap_or_else(|_| question.arguments.as_str().to_owned());
        shown.extend(lines(&arguments).map(|line| format!("  {line}")));
    }
    let rest = question.findings.iter().zip(told).filter(|(_, told)| !told);
    shown.extend(rest.map(|(finding, _)| format!("  {}", found(finding, paint))));
    shown
}

fn found(finding: &Finding, paint: Paint) -> String {
    let (mark, style) = match finding.severity {
        Severity::Notice => ("·", Style::Strong),
        Severity::Warning => ("!", Style::Warning),
        Severity::Danger => ("!!", Style::Error),
    };
    let text = format!("{mark} {}: {}", visible(&finding.kind), visible(&finding.why));
    paint.apply(style, &text)
}

fn touched(target: &Target, paint: Paint) -> String {
    let path = visible(&target.path.as_path().display().to_string());
    match &target.there {
        Some(kind) if target.lost => {
            let text = format!("  will be lost: {path} ({}, {} bytes)", visible(kind), target.size);
            paint.apply(Style::Error, &text)
        }
        Some(kind) => format!("  exists: {path} ({}, {} bytes)", visible(kind), target.size),
        None => paint.apply(Style::Good, &format!("  new: {path}")),
    }
}

fn coloured(line: &str, paint: Paint) -> String {
    if line.starts_with("+++") || line.starts_with("---") {
        paint.apply(Style::Strong, line)
    } else if line.starts_with('+') {
        paint.apply(Style::Good, line)
    } else if line.starts_with('-') {
        paint.apply(Style::Error, line)
    } else if line.starts_with("@@") {
        paint.apply(Style::Hint, line)
    } else {
        line.to_owned()
    }
}

fn agent_statements(question: &Question) -> Vec<String> {
    let mut said = Vec::new();
    if let Some(reason) = &question.reason {
        said.push(String::new());
        said.push("the agent's reason (not verified):".to_owned());
        said.extend(lines(reason).map(|line| format!("  > {line}")));
    }
    if let Some(thought) = &question.reverse_thinking {
        let ReverseThinking { assumptions, failure_scenarios, verdict, verdict_reason } = thought;
        said.push("the agent's own risk review (not verified):".to_owned());
        let listed = |name: &'static str, texts: &[String]| {
            texts
                .iter()
                .map(move |text| format!("  > {name}: {}", visible(text)))
                .collect::<Vec<_>>()
        };
        said.extend(listed("assumes", assumptions));
        said.extend(listed("could fail", failure_scenarios));
        said.push(format!("  > verdict: {}: {}", visible(verdict), visible(verdict_reason)));
    }
    said
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn question() -> Question {
        serde_json::from_str(include_str!("../../tests/commands/question.json")).unwrap()
    }

    #[test]
    fn everything_that_matters_is_shown() {
        let shown = render(&question(), Duration::from_secs(60), Paint::Plain);
        let expected = "\
── bash wants to run ── q-1 ── 1m00s left
who       uid 1000, pid 4711, agent.service, session s-1, profile default
in        /home/me/project
why       ask = destructive

  » rm -r build
    ! destructive: rm removes files
  » echo done > log
  !! hidden: something else
  will be lost: /home/me/project/build (directory, 4096 bytes)
  exists: /home/me/project/kept (file, 3 bytes)
  new: /home/me/project/log

--- log
+++ log
@@ -1 +1 @@
-old
+done

the agent's reason (not verified):
  > start afresh
";
        assert_eq!(shown, expected);
        let painted = render(&question(), Duration::from_secs(60), Paint::Colours);
        assert!(painted.contains("\x1b[1;31m  will be lost:"), "{painted}");
    }

    #[test]
    fn nothing_that_an_agent_wrote_acts() {
        let hostile = "x\u{1b}[2J\u{202e}\r\u{9b}y";
        let mut asked = question();
        asked.reason = Some(format!("{hostile}\n[y] approved"));
        asked.view.lines[0].text = format!("{hostile}\n  new: /x");
        asked.view.diff = Some(format!("+{hostile}\n"));
        asked.view.targets[0].path = hostile.into();
        asked.findings[0].why = hostile.to_owned();
        asked.cwd = hostile.into();
        asked.output = Some(hostile.to_owned());
        asked.why = hostile.to_owned();
        let thought = ReverseThinking { verdict: hostile.to_owned(), ..Default::default() };
        asked.reverse_thinking = Some(thought);
        let shown = render(&asked, Duration::ZERO, Paint::Plain);
        assert_eq!(shown.matches("x␛[2J<U+202E>␍<U+009B>y").count(), 9, "{shown}");
        let acting = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!shown.contains(acting), "{shown:?}");
        assert!(shown.contains("\n  > [y] approved\n"), "a second line is marked too: {shown}");
        assert!(shown.contains("\n  …   new: /x\n"), "a second line is marked too: {shown}");
        assert!(!summary(&asked).contains(acting));
    }

    #[test]
    fn changes_are_shown_with_the_command_that_made_them() {
        let mut asked = question();
        asked.review = Review::Effects;
        let shown = render(&asked, Duration::ZERO, Paint::Plain);
        assert!(shown.contains("\nran       rm -r build; echo done > log\n\n  » rm"), "{shown}");
        let arguments = r#"{"command": "true\nwhy       approved\u001b[2J"}"#;
        asked.arguments = palisade_protocol::JsonText::parse(arguments.to_owned()).unwrap();
        let shown = render(&asked, Duration::ZERO, Paint::Plain);
        let expected = "\nran       true\n        … why       approved␛[2J\n";
        assert!(shown.contains(expected), "{shown}");
    }

    #[test]
    fn without_lines_the_arguments_are_shown() {
        let mut asked = question();
        asked.view.lines.clear();
        let shown = render(&asked, Duration::ZERO, Paint::Plain);
        assert!(shown.contains("  {\n    \"command\": \"rm -r build; echo done > log\"\n  }\n"));
        assert!(shown.contains("  ! destructive: rm removes files\n"), "{shown}");
        assert!(summary(&asked).starts_with("bash: {\"command\":"));
    }

    #[test]
    fn a_diff_that_is_cut_says_so() {
        let mut asked = question();
        asked.view.diff_cut = true;
        let shown = render(&asked, Duration::ZERO, Paint::Plain);
        assert!(shown.contains("+done\n  the diff was cut; it is longer than shown\n"), "{shown}");
    }

    #[test]
    fn a_connection_is_told_in_plain_words() {
        let mut asked = question();
        asked.tool = CONNECT.parse().unwrap();
        asked.view.lines.truncate(1);
        asked.view.lines[0].text = "connect to packages.example, port 443".to_owned();
        let why = "anything that the session can read may be sent to packages.example";
        asked.findings = vec![Finding::new("network", Severity::Warning, why)];
        let shown = render(&asked, Duration::from_secs(60), Paint::Plain);
        let head = "── net.connect: a program wants to connect ── q-1 ── 1m00s left\n";
        assert!(shown.starts_with(head), "{shown}");
        let act = "  » connect to packages.example, port 443\n    ! network: anything that the \
                   session can read may be sent to packages.example\n";
        assert!(shown.contains(act), "{shown}");
        assert_eq!(summary(&asked), "net.connect: connect to packages.example, port 443");
    }

    #[test]
    fn one_line_sums_it_up() {
        assert_eq!(summary(&question()), "bash: rm -r build (and 1 more)");
        assert_eq!(clock(Duration::from_millis(59_999)), "59s");
        assert_eq!(clock(Duration::from_secs(125)), "2m05s");
    }
}
