//! Makes a question of a call: what would happen, rendered from what would run, and the digest that
//! an answer is bound to. Broker, pure.

use super::{changes, desk::Inquiry, grants::Claim, visible};
use crate::{
    context::Attachment,
    diagnose,
    seen::{Seen, part},
    session::Session,
    task::{Directory, JobTask, Program, Task},
};
use palisade_plan::text;
use palisade_policy::{Commands, Facts, is_asked};
use palisade_protocol::{
    Asker, Call, CallId, Finding, Question, QuestionId, RawPath, Review, Target, ToolName, View,
    ViewLine,
};
use sha2::{Digest as _, Sha256};
use std::{fmt::Write as _, time::Duration};

/// How many lines of what would be done are shown.
const LINES: usize = 400;

/// How much of a provided tool's arguments stands in its line; the question has them all.
const PROVIDED_LINE: usize = 2 * 1024;

/// Everything that a question is made of.
#[derive(Debug)]
pub(crate) struct Subject<'a> {
    pub(crate) session: &'a Session,
    pub(crate) call_id: &'a CallId,
    pub(crate) tool: &'a ToolName,
    pub(crate) call: &'a Call,
    pub(crate) task: &'a Task,
    /// What was sent along with it, if that was taken in.
    pub(crate) attachment: Option<&'a Attachment>,
    pub(crate) facts: &'a Facts,
    pub(crate) seen: &'a Seen,
    pub(crate) findings: &'a [Finding],
    /// The mode or the rule that asks.
    pub(crate) why: &'a str,
    pub(crate) review: Review,
    /// What the agent would see, in an output review.
    pub(crate) output: Option<String>,
}

impl Subject<'_> {
    /// The call as memory knows it.
    pub(crate) fn claim(&self) -> Claim {
        let mut hash = Sha256::new();
        part(&mut hash, self.tool.as_str().as_bytes());
        part(&mut hash, canonical(self.call).as_bytes());
        part(&mut hash, &self.seen.cwd);
        part(&mut hash, &self.attached());
        part(&mut hash, &provider_of(self.task));
        Claim {
            session: self.session.id.clone(),
            uid: self.session.uid(),
            profile: self.session.profile.name().to_owned(),
            profile_digest: self.session.profile.digest().to_owned(),
            tool: self.tool.clone(),
            exact: hash.finalize().into(),
            facts: self.facts.clone(),
        }
    }

    /// What is to be asked.
    pub(crate) fn inquiry(self, placeholder: QuestionId) -> Inquiry {
        let claim = self.claim();
        let limits = self.session.profile.handlers().clone();
        let patience = self.call.options.timeout_ms.map(Duration::from_millis);
        let question = Question {
            question: placeholder,
            digest: self.digest(),
            review: self.review,
            asker: self.asker(),
            call_id: self.call_id.clone(),
            tool: self.tool.clone(),
            arguments: self.call.arguments.clone(),
            cwd: RawPath(self.seen.cwd.clone()),
            reason: self.call.reason.clone(),
            reverse_thinking: self.call.options.reverse_thinking.clone(),
            findings: self.findings.iter().map(visible_finding).collect(),
            why: visible::line(self.why),
            view: self.view(),
            // What a command did once says nothing of what it does next.
            scopes: if self.review == Review::Effects { Vec::new() } else { limits.scopes() },
            prefix: self.prefix(),
            output: self.output,
            expires_in_ms: 0,
        };
        Inquiry { question, claim, limits, patience }
    }

    /// SHA-256, in hexadecimal, over everything that would run and what it would touch.
    fn digest(&self) -> String {
        let mut hash = Sha256::new();
        let review: &[u8] = match self.review {
            Review::Input => b"palisade input 1",
            Review::Output => b"palisade output 1",
            Review::Effects => b"palisade effects 1",
        };
        for bytes in [
            review,
            self.session.id.as_str().as_bytes(),
            self.session.profile.digest().as_bytes(),
            self.tool.as_str().as_bytes(),
            canonical(self.call).as_bytes(),
            self.output.as_deref().unwrap_or_default().as_bytes(),
            &self.attached(),
        ] {
            part(&mut hash, bytes);
        }
        part(&mut hash, &provider_of(self.task));
        self.seen.digest(&mut hash);
        let mut hex = String::with_capacity(64);
        for byte in hash.finalize() {
            // Writing to a string does not fail.
            write!(hex, "{byte:02x}").ok();
        }
        hex
    }

    /// What the attachment is known by; nothing if there is none.
    fn attached(&self) -> Vec<u8> {
        let held = self.attachment.map(|attachment| attachment.tally().digest());
        held.map(|digest| attached_line(&digest).into_bytes()).unwrap_or_default()
    }

    fn asker(&self) -> Asker {
        let session = self.session;
        let pid = session.peer.pid.unwrap_or(0);
        Asker {
            uid: session.uid(),
            pid,
            unit: unit(pid),
            session: session.id.clone(),
            profile: session.profile.name().to_owned(),
            workspace: session.workspace.clone(),
        }
    }

    /// The first words of the command that is asked about.
    fn prefix(&self) -> Vec<String> {
        let finding =
            self.findings.iter().find(|found| is_asked(found) && !found.program.is_empty());
        let words: Vec<String> = match (finding, &self.facts.commands) {
            (Some(found), _) => {
                std::iter::once(&found.program).chain(&found.arguments).cloned().collect()
            }
            (None, Commands::Known(commands)) => commands.first().cloned().unwrap_or_default(),
            (None, Commands::None | Commands::Unknown) => Vec::new(),
        };
        words.into_iter().take(2).collect()
    }

    fn view(&self) -> View {
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
            // Its output is reviewed: what it did is in there.
            Task::Change(_) => {}
            Task::Read { .. } => lines.push(self.line("read")),
            Task::Errand(_) => lines.push(own_line(self.tool)),
            Task::Provided { .. } => lines.push(provided_line(self.tool, self.call)),
            Task::Check { paths } => {
                for (_, program) in diagnose::programs(self.session, paths) {
                    lines.extend(run_lines(&program, self.findings));
                }
            }
            Task::List { .. } => lines.push(self.line("list")),
            Task::Job(task) => {
                lines.push(ViewLine { text: visible::line(&of_job(task)), findings: Vec::new() })
            }
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
            text: visible::line(&format!("{act} {path}")),
            findings: findings.map(|(number, _)| number).collect(),
        }
    }
}

fn of_job(task: &JobTask) -> String {
    match task {
        JobTask::Output { job, .. } => format!("read what job {job} printed"),
        JobTask::Input { job, typed } => format!("type into job {job}: {:?}", typed.data),
        JobTask::Kill { job, signal: None } => format!("end job {job}"),
        JobTask::Kill { job, signal: Some(signal) } => format!("send job {job} signal {signal}"),
        JobTask::List(_) => "list the jobs".to_owned(),
    }
}

/// Which provider it is: what was approved of one does not hold for another of the same name.
fn provider_of(task: &Task) -> Vec<u8> {
    if let Task::Provided { provider, .. } = task {
        return provider.to_le_bytes().to_vec();
    }
    Vec::new()
}

/// A call that is about the session itself.
fn own_line(tool: &ToolName) -> ViewLine {
    ViewLine { text: format!("{tool}, in the session itself"), findings: Vec::new() }
}

/// A call that a process outside of the sandbox answers.
fn provided_line(tool: &ToolName, call: &Call) -> ViewLine {
    let text = canonical(call);
    let shown = text.get(..text.floor_char_boundary(PROVIDED_LINE)).unwrap_or_default();
    let cut = if shown.len() < text.len() { " …" } else { "" };
    let text = visible::line(&format!(
        "have the provider of {tool} do it, outside the sandbox: {shown}{cut}"
    ));
    ViewLine { text, findings: Vec::new() }
}

fn visible_finding(finding: &Finding) -> Finding {
    let line = |text: &String| visible::line(text);
    Finding {
        why: line(&finding.why),
        program: line(&finding.program),
        arguments: finding.arguments.iter().map(line).collect(),
        targets: finding.targets.iter().map(line).collect(),
        ..finding.clone()
    }
}

/// The arguments with their keys in one order: the same call has one text.
fn canonical(call: &Call) -> String {
    match serde_json::from_str::<serde_json::Value>(call.arguments.as_str()) {
        Ok(value) => value.to_string(),
        Err(_) => call.arguments.as_str().to_owned(),
    }
}

/// A program line by line, each with the findings that are about it.
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
        (Directory::Left, _) => {
            let words: Vec<String> = program.argv.iter().map(|word| quoted(word)).collect();
            let all = (0..).zip(findings).filter(|(_, found)| is_asked(found));
            let findings = all.map(|(number, _)| number).collect();
            return vec![ViewLine { text: visible::line(&words.join(" ")), findings }];
        }
        (Directory::Kept, Some(script)) => script.as_str(),
        (Directory::Kept, None) => program.argv.last().map_or("", String::as_str),
    };
    let mut lines = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        let body = line.strip_suffix('\n').unwrap_or(line);
        lines.push(ViewLine { text: visible::line(body), findings: about(start, end) });
        start = end;
    }
    if lines.len() > LINES {
        let more = lines.len() - LINES;
        let findings = lines.drain(LINES..).flat_map(|line| line.findings).collect();
        lines.push(ViewLine { text: format!("… and {more} more lines"), findings });
    }
    lines
}

/// A word as a shell would take it.
pub(crate) fn quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "_-./=:,@%+".contains(letter);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    if word.chars().any(text::steers) {
        return format!("$'{}'", word.escape_debug());
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// What is known of something that is not shown itself.
fn attached_line(digest: &palisade_audit::Digest) -> String {
    format!("{} bytes, SHA-256 {}", digest.bytes, digest.sha256)
}

/// The systemd unit of a process, by its control group.
fn unit(pid: u32) -> Option<String> {
    let groups = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let last = groups
        .lines()
        .last()?
        .rsplit('/')
        .find(|part| part.ends_with(".service") || part.ends_with(".scope"))?;
    (last.len() <= 256).then(|| visible::line(last))
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
            directory: Directory::Kept,
            manner: crate::task::Manner::Foreground,
            typing: crate::task::Typing::Closed,
            lifetime: None,
            terminal: None,
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
