//! Renders a call for an approver: what would happen, rendered from what would run. Pure: no I/O.

use super::{
    changes,
    request::{Subject, attached_line, canonical},
};
use crate::{
    base::{
        attachment::Attachment,
        task::{DirectoryPolicy, JobTask, Program, SessionTask, Task},
    },
    cells::checkers::programs,
};
use palisade_policy::is_asked;
use palisade_protocol::{
    Call, Finding, RawPath, Target, ToolName, View, ViewLine, arguments::ServerTools,
};

/// The most lines of a program that are shown.
const LINES: usize = 400;

/// The most bytes of a provided tool's arguments in its line; the approval request has all of them.
const PROVIDED_LINE: usize = 2 * 1024;

impl Subject<'_> {
    /// Renders what would happen.
    pub(super) fn view(&self) -> View {
        if let Some(preview) = &self.seen.change {
            let mut view = changes::view(preview, self.seen, self.findings);
            view.lines.extend(self.attachment.map(|held| ViewLine {
                text: format!("with {}", attached_line(&held.tally().digest())),
                findings: Vec::new(),
            }));
            return view;
        }
        let mut lines = Vec::new();
        match self.task {
            Task::Run(program) => {
                lines = run_lines(program, self.findings);
                let line = |held: &Attachment| ViewLine {
                    text: format!("standard input: {}", attached_line(&held.tally().digest())),
                    findings: Vec::new(),
                };
                lines.extend(self.attachment.map(line));
            }
            // Only its output is reviewed, and that says what the change did.
            Task::Change(_) => {}
            Task::Read { .. } => lines.push(self.line("read")),
            Task::Errand(SessionTask::ServerCall(_)) => {
                lines.push(server_call_line(self.tool, self.call));
            }
            Task::Errand(SessionTask::ServerTools(tools)) => {
                lines = server_tools_lines(self.tool, tools);
            }
            Task::Errand(
                SessionTask::TodoRead | SessionTask::TodoWrite(_) | SessionTask::ToolSearch { .. },
            ) => lines.push(own_line(self.tool)),
            Task::Fetch(request) => lines.push(ViewLine {
                text: palisade_text::escape_line(&format!("fetch {}", request.url)),
                findings: Vec::new(),
            }),
            Task::Provided { .. } => lines.push(provided_line(self.tool, self.call)),
            Task::Check { paths } => {
                for (_, program) in programs(self.session, paths) {
                    lines.extend(run_lines(&program, self.findings));
                }
            }
            Task::Look { .. } => lines.push(self.line("look at")),
            Task::List { .. } => lines.push(self.line("list")),
            Task::Job(task) => lines.push(ViewLine {
                text: palisade_text::escape_line(&of_job(task)),
                findings: Vec::new(),
            }),
            Task::Glob(_) | Task::Grep(_) => lines.push(self.line("search")),
        }
        let targets = self.seen.targets.iter().map(|target| Target {
            path: RawPath(target.real.clone()),
            there: target.there().map(str::to_owned),
            size: target.found.as_ref().map_or(0, |found| found.size),
            lost: target.found.is_some() && matches!(self.task, Task::Run(_) | Task::Check { .. }),
        });
        View { lines, targets: targets.collect(), ..View::default() }
    }

    fn line(&self, act: &str) -> ViewLine {
        let path = self.seen.targets.first().map(|target| target.real.as_slice());
        let path = String::from_utf8_lossy(path.unwrap_or_default());
        let findings = (0..).zip(self.findings).filter(|(_, found)| is_asked(found));
        ViewLine {
            text: palisade_text::escape_line(&format!("{act} {path}")),
            findings: findings.map(|(number, _)| number).collect(),
        }
    }
}

fn of_job(task: &JobTask) -> String {
    match task {
        JobTask::Output { job, .. } => format!("read the output of job {job}"),
        JobTask::Input { job, typed } => format!("send input to job {job}: {:?}", typed.data),
        JobTask::Kill { job, signal: None } => format!("end job {job}"),
        JobTask::Kill { job, signal: Some(signal) } => format!("send job {job} signal {signal}"),
        JobTask::Commit { job, .. } => format!("commit the changes of job {job} so far"),
        JobTask::List(_) => "list the jobs".to_owned(),
    }
}

/// The line for a call that is about the session itself.
fn own_line(tool: &ToolName) -> ViewLine {
    ViewLine { text: format!("{tool}, in the session itself"), findings: Vec::new() }
}

/// The line for a call that a process outside the sandbox answers.
fn provided_line(tool: &ToolName, call: &Call) -> ViewLine {
    line_with_arguments(&format!("the provider of {tool} runs it, outside the sandbox"), call)
}

/// The line for a call of an MCP server's tool.
fn server_call_line(tool: &ToolName, call: &Call) -> ViewLine {
    line_with_arguments(&format!("{tool}, run by the MCP server in its own sandbox"), call)
}

fn line_with_arguments(what: &str, call: &Call) -> ViewLine {
    let text = canonical(call);
    let shown = text.get(..text.floor_char_boundary(PROVIDED_LINE)).unwrap_or_default();
    let cut = if shown.len() < text.len() { " …" } else { "" };
    plain_line(&format!("{what}: {shown}{cut}"))
}

/// Renders the changed tools of an MCP server: what changed, and the new texts that models read.
fn server_tools_lines(tool: &ToolName, tools: &ServerTools) -> Vec<ViewLine> {
    let changes = tools.changes.join("; ");
    let head = plain_line(&format!("{tool} has other tools than were accepted: {changes}"));
    let texts = tools.texts.iter().flat_map(|text| text.lines()).map(plain_line);
    let mut lines: Vec<ViewLine> = std::iter::once(head).chain(texts).collect();
    let more = lines.len().saturating_sub(LINES);
    if more > 0 {
        lines.truncate(LINES);
        lines.push(plain_line(&format!("… and {more} more lines")));
    }
    lines
}

fn plain_line(text: &str) -> ViewLine {
    ViewLine { text: palisade_text::escape_line(text), findings: Vec::new() }
}

/// Renders a program line by line, each with the findings that are about it.
fn run_lines(program: &Program, findings: &[Finding]) -> Vec<ViewLine> {
    let about = |start: usize, end: usize| -> Vec<u32> {
        let touches = |found: &Finding| {
            found.span.is_some_and(|span| {
                usize::try_from(span.start).is_ok_and(|from| from < end)
                    && usize::try_from(span.end).is_ok_and(|to| to > start)
            })
        };
        (0..).zip(findings).filter(|(_, found)| touches(found)).map(|(number, _)| number).collect()
    };
    let text = match (program.directory, &program.script) {
        (DirectoryPolicy::Left, _) => {
            let words: Vec<String> = program.argv.iter().map(|word| quoted(word)).collect();
            let all = (0..).zip(findings).filter(|(_, found)| is_asked(found));
            let findings = all.map(|(number, _)| number).collect();
            return vec![ViewLine { text: palisade_text::escape_line(&words.join(" ")), findings }];
        }
        (DirectoryPolicy::Kept, Some(script)) => script.as_str(),
        (DirectoryPolicy::Kept, None) => program.argv.last().map_or("", String::as_str),
    };
    let mut lines = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        let body = line.strip_suffix('\n').unwrap_or(line);
        lines
            .push(ViewLine { text: palisade_text::escape_line(body), findings: about(start, end) });
        start = end;
    }
    if lines.len() > LINES {
        let more = lines.len() - LINES;
        let findings = lines.drain(LINES..).flat_map(|line| line.findings).collect();
        lines.push(ViewLine { text: format!("… and {more} more lines"), findings });
    }
    lines
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./=:,@%+".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    if word.chars().any(palisade_text::is_control) {
        return format!("$'{}'", word.escape_debug());
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_protocol::{Severity, Span};

    fn program(text: &str) -> Program {
        Program {
            argv: vec!["bash".to_owned(), "-c".to_owned(), text.to_owned()],
            script: None,
            cwd: None,
            environment: Default::default(),
            stdin: None,
            directory: DirectoryPolicy::Kept,
            manner: crate::base::task::WaitMode::Foreground,
            typing: crate::base::task::StdinMode::Closed,
            lifetime: None,
            terminal: None,
            route: Default::default(),
        }
    }

    #[test]
    fn lines_carry_their_findings() {
        let mut finding = Finding::new("destructive", Severity::Warning, "gone");
        finding.span = Some(Span { start: 3, end: 9 });
        let lines = run_lines(&program("ls\nrm\u{202e} x\nid"), &[finding]);
        let texts: Vec<&str> = lines.iter().map(|line| line.text.as_str()).collect();
        assert_eq!(texts, ["ls", "rm\\u{202e} x", "id"]);
        let marked: Vec<&[u32]> = lines.iter().map(|line| line.findings.as_slice()).collect();
        assert_eq!(marked, [&[][..], &[0], &[]]);
    }

    #[test]
    fn a_long_script_is_cut_and_keeps_its_findings() {
        let mut finding = Finding::new("hidden", Severity::Warning, "x");
        finding.span = Some(Span { start: 2000, end: 2001 });
        let lines = run_lines(&program(&"a\n".repeat(1500)), &[finding]);
        assert_eq!(lines.len(), LINES + 1);
        assert_eq!(lines[LINES].text, "… and 1100 more lines");
        assert_eq!(lines[LINES].findings, [0]);
    }

    #[test]
    fn words_are_quoted_as_a_shell_takes_them() {
        assert_eq!(quoted("a-b/c.d"), "a-b/c.d");
        assert_eq!(quoted("a b"), "'a b'");
        assert_eq!(quoted("it's"), "'it'\\''s'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("a\nb"), "$'a\\nb'");
    }
}
