//! Shows an approval request to an approver, rendered from what will run. Nothing that the agent
//! wrote can control the terminal, or look like a line of this program's own: each line of it has a
//! mark in front, also where a narrow terminal breaks it.

use crate::{
    call::id,
    paint::{Paint, Style},
    visible::{columns::Width, lines, visible},
};
use palisade_client::{ApprovalId, ApprovalRequest, Finding, Review, Target};
use palisade_protocol::{ReverseThinking, Severity};
use std::time::Duration;

/// The name that approval requests about network connections have in place of a tool's.
const CONNECT: &str = "net.connect";

/// The mark in front of what continues a line of the agent's.
const GOES_ON: &str = "  … ";

/// The mark in front of what continues a named value.
const VALUE_GOES_ON: &str = "        … ";

/// The letters in front of an approval request's id.
const ID_PREFIX: &str = "q-";

/// The lines of a card, broken to a width.
struct Card {
    text: String,
    width: Width,
    paint: Paint,
}

/// Formats the whole approval request, with a newline after each line.
pub(crate) fn render(
    request: &ApprovalRequest,
    left: Duration,
    width: Width,
    paint: Paint,
) -> String {
    let mut card = Card { text: String::new(), width, paint };
    card.headline(request, left);
    for (name, value) in origin(request, width) {
        card.value(name, &visible(&value));
    }
    card.ran(request);
    card.say("");
    card.acts(request);
    request.view.targets.iter().for_each(|target| card.touched(target));
    if let Some(diff) = &request.view.diff {
        card.say("");
        lines(diff).for_each(|line| card.marked(("", "… "), &line, diff_style(&line)));
        if request.view.diff_cut {
            card.styled("  the diff was cut; it is longer than shown", Style::Warning);
        }
    }
    if let Some(output) = &request.output {
        card.say("");
        card.say("the agent would see this output:");
        lines(output).for_each(|line| card.marked(("  | ", GOES_ON), &line, None));
    }
    card.agent_statements(request);
    card.text
}

/// Summarizes an approval request in one line, for queues and logs.
pub(crate) fn summary(request: &ApprovalRequest) -> String {
    let act = match request.view.lines.as_slice() {
        [] => visible(request.arguments.as_str()),
        [one] => visible(&one.text),
        [first, rest @ ..] => format!("{} (and {} more)", visible(&first.text), rest.len()),
    };
    let kind = match request.review {
        Review::Input => "",
        Review::Output => " output",
        Review::Effects => " changes",
    };
    format!("{}{kind}: {act}", request.tool)
}

/// Formats a duration in minutes and seconds.
pub(crate) fn clock(time: Duration) -> String {
    match time.as_secs() {
        seconds @ 0..60 => format!("{seconds}s"),
        seconds => format!("{}m{:02}s", seconds / 60, seconds % 60),
    }
}

/// Returns the first part of an approval request's id, which `palisade answer` takes.
pub(crate) fn short_id(request: &ApprovalId) -> String {
    let full = request.as_str();
    match full.strip_prefix(ID_PREFIX) {
        Some(rest) => format!("{ID_PREFIX}{}", id::short(rest)),
        None => full.to_owned(),
    }
}

impl Card {
    /// Adds a line as it is.
    fn say(&mut self, line: &str) {
        self.text.push_str(line);
        self.text.push('\n');
    }

    fn styled(&mut self, line: &str, style: Style) {
        let line = self.paint.apply(style, line);
        self.say(&line);
    }

    /// Adds a line after a mark, and what is left of it on lines after another.
    fn marked(&mut self, (mark, next): (&str, &str), line: &str, style: Option<Style>) {
        let pieces = self.width.wrap(line, mark, next);
        for (piece, mark) in pieces.iter().zip(std::iter::once(mark).chain(std::iter::repeat(next)))
        {
            let line = format!("{mark}{piece}");
            match style {
                Some(style) => self.styled(&line, style),
                None => self.say(&line),
            }
        }
    }

    fn headline(&mut self, request: &ApprovalRequest, left: Duration) {
        let asked = match request.review {
            Review::Input if request.tool.as_str() == CONNECT => ": a program wants to connect",
            Review::Input => " wants to run",
            Review::Output => " finished. May the agent see its output?",
            Review::Effects => " finished. Keep its changes?",
        };
        let id = match self.width {
            Width::Columns(_) => short_id(&request.id),
            Width::Unlimited => request.id.to_string(),
        };
        let line = format!("{}{asked} ── {id} ── {} left", request.tool, clock(left));
        self.marked(("── ", "   "), &line, Some(Style::Hint));
    }

    /// Adds a named value.
    fn value(&mut self, name: &str, value: &str) {
        let head = format!("{name:<9} ");
        let mut pieces = self.width.wrap(value, &head, VALUE_GOES_ON).into_iter();
        let first = pieces.next().unwrap_or_default();
        let head = self.paint.apply(Style::Strong, &head);
        self.say(&format!("{head}{first}"));
        pieces.for_each(|piece| self.say(&format!("{VALUE_GOES_ON}{piece}")));
    }

    /// Shows the call that has run, where its changes or its output are reviewed.
    fn ran(&mut self, request: &ApprovalRequest) {
        if request.review == Review::Input {
            return;
        }
        let arguments = request.arguments.as_str();
        let parsed = serde_json::from_str::<serde_json::Value>(arguments).unwrap_or_default();
        let text = parsed.get("command").and_then(|command| command.as_str()).unwrap_or(arguments);
        for (at, line) in lines(text).enumerate() {
            match at {
                0 => self.value("ran", &line),
                _ => self.marked((VALUE_GOES_ON, VALUE_GOES_ON), &line, None),
            }
        }
    }

    /// Lists what would be done, one action per line, each followed by its findings.
    fn acts(&mut self, request: &ApprovalRequest) {
        let mut told = vec![false; request.findings.len()];
        for line in &request.view.lines {
            for (at, text) in lines(&line.text).enumerate() {
                let mark = if at == 0 { "  » " } else { GOES_ON };
                self.marked((mark, GOES_ON), &text, None);
            }
            for index in line.findings.iter().filter_map(|index| usize::try_from(*index).ok()) {
                if let Some(finding) = request.findings.get(index) {
                    self.found("    ", finding);
                    told[index] = true;
                }
            }
        }
        if request.view.lines.is_empty() {
            let pretty = serde_json::from_str::<serde_json::Value>(request.arguments.as_str())
                .and_then(|value| serde_json::to_string_pretty(&value));
            let arguments = pretty.unwrap_or_else(|_| request.arguments.as_str().to_owned());
            lines(&arguments).for_each(|line| self.marked(("  ", GOES_ON), &line, None));
        }
        let rest = request.findings.iter().zip(told).filter(|(_, told)| !told);
        rest.for_each(|(finding, _)| self.found("  ", finding));
    }

    fn found(&mut self, indent: &str, finding: &Finding) {
        let (mark, style) = match finding.severity {
            Severity::Notice => ("·", Style::Strong),
            Severity::Warning => ("!", Style::Warning),
            Severity::Danger => ("!!", Style::Error),
        };
        let text = format!("{}: {}", visible(&finding.kind), visible(&finding.why));
        let head = format!("{indent}{mark} ");
        self.marked((&head, &format!("{indent}… ")), &text, Some(style));
    }

    fn touched(&mut self, target: &Target) {
        let path = visible(&target.path.as_path().display().to_string());
        let (head, text, style) = match &target.there {
            Some(kind) => {
                let text = format!("{path} ({}, {} bytes)", visible(kind), target.size);
                match target.lost {
                    true => ("  will be lost: ", text, Some(Style::Error)),
                    false => ("  exists: ", text, None),
                }
            }
            None => ("  new: ", path, Some(Style::Good)),
        };
        self.marked((head, "    … "), &text, style);
    }

    fn agent_statements(&mut self, request: &ApprovalRequest) {
        const MARKS: (&str, &str) = ("  > ", GOES_ON);
        if let Some(reason) = &request.reason {
            self.say("");
            self.say("the agent's reason (not verified):");
            lines(reason).for_each(|line| self.marked(MARKS, &line, None));
        }
        if let Some(thought) = &request.reverse_thinking {
            let ReverseThinking { assumptions, failure_scenarios, verdict, verdict_reason } =
                thought;
            self.say("the agent's own risk review (not verified):");
            for (name, texts) in [("assumes", assumptions), ("could fail", failure_scenarios)] {
                for text in texts {
                    self.marked(MARKS, &format!("{name}: {}", visible(text)), None);
                }
            }
            let text = format!("verdict: {}: {}", visible(verdict), visible(verdict_reason));
            self.marked(MARKS, &text, None);
        }
    }
}

fn origin(request: &ApprovalRequest, width: Width) -> Vec<(&'static str, String)> {
    let asker = &request.asker;
    let mut who = vec![format!("uid {}", asker.uid)];
    if asker.pid != 0 {
        who.push(format!("pid {}", asker.pid));
    }
    who.extend(asker.unit.clone());
    let session = asker.session.as_str();
    let session = if width == Width::Unlimited { session } else { id::short(session) };
    who.push(format!("session {session}, profile {}", asker.profile));
    let mut fields =
        vec![("who", who.join(", ")), ("in", request.cwd.as_path().display().to_string())];
    if asker.workspace != request.cwd {
        fields.push(("workspace", asker.workspace.as_path().display().to_string()));
    }
    fields.push(("why", request.why.clone()));
    fields.extend(approvals(request).map(|told| ("approvals", told)));
    fields
}

/// Says how many approvals are needed and who has given one, where one is not enough.
fn approvals(request: &ApprovalRequest) -> Option<String> {
    match (request.quorum, request.approved_by.as_slice()) {
        (0 | 1, []) => None,
        (0 | 1, by) => {
            Some(format!("given by {}; an approver of a higher priority decides", by.join(", ")))
        }
        (needed, []) => Some(format!("{needed} are needed; none is given yet")),
        (needed, by) => Some(format!("{needed} are needed; given by {}", by.join(", "))),
    }
}

/// Adds to a line about an approval how many more are needed.
pub(crate) fn with_missing(line: String, missing: u64) -> String {
    match missing {
        0 => line,
        1 => format!("{line}; 1 more approval is needed"),
        more => format!("{line}; {more} more approvals are needed"),
    }
}

/// Returns the style of a line of a diff.
fn diff_style(line: &str) -> Option<Style> {
    if line.starts_with("+++") || line.starts_with("---") {
        Some(Style::Strong)
    } else if line.starts_with('+') {
        Some(Style::Good)
    } else if line.starts_with('-') {
        Some(Style::Error)
    } else if line.starts_with("@@") {
        Some(Style::Hint)
    } else {
        None
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn request() -> ApprovalRequest {
        serde_json::from_str(include_str!("../../tests/commands/approval_request.json")).unwrap()
    }

    fn render(request: &ApprovalRequest, left: Duration, paint: Paint) -> String {
        super::render(request, left, Width::Unlimited, paint)
    }

    /// A request with ids, paths and texts of the usual lengths.
    fn usual() -> ApprovalRequest {
        let mut asked = request();
        asked.id = "q-01990f3e-7300-7b22-a1c4-5e6f70819203".parse().unwrap();
        asked.asker.session = "01990f3e-6a00-7c11-9d42-3f0e8a7b6c5d".parse().unwrap();
        asked.asker.profile = "workspace".to_owned();
        asked.review = Review::Effects;
        let directory = "/home/alice/src/a-project-with-a-long-name/services/billing";
        asked.cwd = directory.into();
        let command = "cargo clean && rm -r target/doc generated && ./scripts/generate --all \
                       --output generated --format json\nwhy       approved";
        let arguments = serde_json::json!({ "command": command }).to_string();
        asked.arguments = palisade_protocol::JsonText::parse(arguments).unwrap();
        asked.view.lines.truncate(1);
        asked.view.lines[0].text = format!("delete {directory}/generated (directory, 3 entries)");
        asked.findings.truncate(1);
        asked.findings[0].why =
            "it deleted 3 files that existed before, and 1 of them is in no commit of the repository"
                .to_owned();
        asked.view.targets.truncate(1);
        asked.view.targets[0].path = format!("{directory}/generated").as_str().into();
        let line = "-pub const ADDRESS: &str = \"https://billing.internal.example/v2/invoices/2026-11/open\"; // production";
        asked.view.diff = Some(format!("@@ -1 +0,0 @@\n{line}\n"));
        asked.reason = Some(
            "the generated files are stale, and the generator does not overwrite what it finds\n\
             [y] approved"
                .to_owned(),
        );
        asked
    }

    fn card_at(columns: usize) -> String {
        let left = Duration::from_secs(55);
        super::render(&usual(), left, Width::Columns(columns), Paint::Plain)
    }

    #[test]
    fn at_80_columns_it_breaks_at_words_and_keeps_its_marks() {
        let shown = card_at(80);
        assert_eq!(
            shown,
            "\
── bash finished. Keep its changes? ── q-01990f3e-7300-7b22 ── 55s left
who       uid 1000, pid 4711, agent.service, session 01990f3e-6a00-7c11, profile
        … workspace
in        /home/alice/src/a-project-with-a-long-name/services/billing
workspace /home/me/project
why       ask = destructive
ran       cargo clean && rm -r target/doc generated && ./scripts/generate --all
        … --output generated --format json
        … why       approved

  » delete /home/alice/src/a-project-with-a-long-name/services/billing/generated
  … (directory, 3 entries)
    ! destructive: it deleted 3 files that existed before, and 1 of them is in
    … no commit of the repository
  will be lost: /home/alice/src/a-project-with-a-long-name/services/billing/
    … generated (directory, 4096 bytes)

@@ -1 +0,0 @@
-pub const ADDRESS: &str =
… \"https://billing.internal.example/v2/invoices/2026-11/open\"; // production

the agent's reason (not verified):
  > the generated files are stale, and the generator does not overwrite what it
  … finds
  > [y] approved
"
        );
        assert!(shown.lines().all(|line| line.chars().count() <= 80), "{shown}");
    }

    #[test]
    fn at_160_columns_little_breaks() {
        let shown = card_at(160);
        assert_eq!(
            shown,
            "\
── bash finished. Keep its changes? ── q-01990f3e-7300-7b22 ── 55s left
who       uid 1000, pid 4711, agent.service, session 01990f3e-6a00-7c11, profile workspace
in        /home/alice/src/a-project-with-a-long-name/services/billing
workspace /home/me/project
why       ask = destructive
ran       cargo clean && rm -r target/doc generated && ./scripts/generate --all --output generated --format json
        … why       approved

  » delete /home/alice/src/a-project-with-a-long-name/services/billing/generated (directory, 3 entries)
    ! destructive: it deleted 3 files that existed before, and 1 of them is in no commit of the repository
  will be lost: /home/alice/src/a-project-with-a-long-name/services/billing/generated (directory, 4096 bytes)

@@ -1 +0,0 @@
-pub const ADDRESS: &str = \"https://billing.internal.example/v2/invoices/2026-11/open\"; // production

the agent's reason (not verified):
  > the generated files are stale, and the generator does not overwrite what it finds
  > [y] approved
"
        );
        assert!(shown.lines().all(|line| line.chars().count() <= 160), "{shown}");
    }

    #[test]
    fn a_break_gives_the_agent_no_line_of_its_own() {
        let mut asked = usual();
        let spoof = format!("x{}will be lost: nothing", " ".repeat(200));
        asked.reason = Some(spoof.clone());
        asked.view.lines[0].text = spoof.clone();
        asked.findings[0].why = spoof.clone();
        asked.output = Some(spoof.clone());
        asked.view.diff = Some(format!("+{spoof}\n"));
        asked.cwd = spoof.as_str().into();
        for columns in [20, 40, 80, 160] {
            let width = Width::Columns(columns);
            let shown = super::render(&asked, Duration::ZERO, width, Paint::Plain);
            let own = |line: &str| line.trim_start().starts_with("will be lost: ");
            assert_eq!(shown.lines().filter(|line| own(line)).count(), 1, "{columns}: {shown}");
        }
    }

    #[test]
    fn everything_that_matters_is_shown() {
        let shown = render(&request(), Duration::from_secs(60), Paint::Plain);
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
        let painted = render(&request(), Duration::from_secs(60), Paint::Colours);
        assert!(painted.contains("\x1b[1;31m  will be lost:"), "{painted}");
    }

    #[test]
    fn nothing_that_an_agent_wrote_acts() {
        let hostile = "x\u{1b}[2J\u{202e}\r\u{9b}y";
        let mut asked = request();
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
        let mut asked = request();
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
        let mut asked = request();
        asked.view.lines.clear();
        let shown = render(&asked, Duration::ZERO, Paint::Plain);
        assert!(shown.contains("  {\n    \"command\": \"rm -r build; echo done > log\"\n  }\n"));
        assert!(shown.contains("  ! destructive: rm removes files\n"), "{shown}");
        assert!(summary(&asked).starts_with("bash: {\"command\":"));
    }

    #[test]
    fn a_diff_that_is_cut_says_so() {
        let mut asked = request();
        asked.view.diff_cut = true;
        let shown = render(&asked, Duration::ZERO, Paint::Plain);
        assert!(shown.contains("+done\n  the diff was cut; it is longer than shown\n"), "{shown}");
    }

    #[test]
    fn a_connection_is_told_in_plain_words() {
        let mut asked = request();
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
    fn approvals_are_told_where_one_is_not_enough() {
        let mut asked = request();
        let told = |asked: &ApprovalRequest| {
            let shown = render(asked, Duration::ZERO, Paint::Plain);
            shown.lines().find_map(|line| line.strip_prefix("approvals ").map(str::to_owned))
        };
        assert_eq!(told(&asked), None);
        asked.quorum = 2;
        assert_eq!(told(&asked).unwrap(), "2 are needed; none is given yet");
        asked.approved_by = vec!["handler:program:\u{1b}[2J".to_owned()];
        assert_eq!(told(&asked).unwrap(), "2 are needed; given by handler:program:␛[2J");
        asked.quorum = 1;
        let low = "given by handler:program:␛[2J; an approver of a higher priority decides";
        assert_eq!(told(&asked).unwrap(), low);
        let line = |missing| with_missing("approved q-1".to_owned(), missing);
        assert_eq!(line(0), "approved q-1");
        assert_eq!(line(1), "approved q-1; 1 more approval is needed");
        assert_eq!(line(2), "approved q-1; 2 more approvals are needed");
    }

    #[test]
    fn one_line_sums_it_up() {
        assert_eq!(summary(&request()), "bash: rm -r build (and 1 more)");
        assert_eq!(clock(Duration::from_millis(59_999)), "59s");
        assert_eq!(clock(Duration::from_secs(125)), "2m05s");
    }
}
