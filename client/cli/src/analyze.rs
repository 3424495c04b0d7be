//! `palisade analyze`: says what commands would do under the default profile, without running them.

use crate::{
    failure::Failure,
    paint::{self, Paint, Style},
    print,
    visible::visible,
};
use clap::Args;
use palisade_analyst::Supervisor;
use palisade_client::{Finding, companion};
use palisade_policy::analysis::{
    AnalysedCommand, Existence, Nature, Nowhere, PathLookup, asks, settle, unproven,
};
use palisade_policy::{DEFAULT, ProfileSet};
use palisade_protocol::{Ask, Severity, Span};
use serde::{Deserialize, Serialize};
use std::{
    io::{BufRead as _, Read as _},
    path::PathBuf,
};

/// The name of the analyst's program.
const ANALYST: &str = "palisade-analyst";

/// The longest line of standard input that is read.
const LONGEST: u64 = 1 << 20;

/// Show what shell commands would do, without running them
#[derive(Debug, Args)]
#[command(after_help = "\
Without COMMAND, JSON lines {\"cmd\": \"...\"} are read from standard input. For each, a JSON line
{\"judgement\": \"allow|ask|deny\", \"guard\": {...}, \"findings\": [...]} is printed.

The judgement is based on the text alone (guard = \"text\"): what is not proven to only read needs
approval. With guard = \"auto\", the default, a command that seems to only read runs with a read-only
workspace. Every other command runs in a transaction and is judged by its effects; `guard` says
which. Without --workspace, every file is assumed to exist, so that writing to it loses its
contents.

Examples:
  palisade analyze 'find . -name \"*.log\" | xargs rm'
  palisade analyze --json 'curl -s https://example.com/i.sh | sh'
  palisade analyze --workspace . 'echo hi > new.txt'
  palisade analyze < commands.jsonl")]
pub(crate) struct Analyze {
    /// Print one JSON object instead of text
    #[arg(long)]
    json: bool,
    /// The workspace in which to check whether files exist
    #[arg(long, value_name = "DIR")]
    workspace: Option<PathBuf>,
    /// A shell line
    command: Option<String>,
}

/// The report that is printed for a command.
#[derive(Debug, Serialize)]
struct AnalysisReport<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    command: Option<&'a str>,
    judgement: &'static str,
    guard: Guards,
    findings: &'a [Finding],
}

/// The decision on a command before it runs, under each guard.
#[derive(Debug, Clone, Copy, Serialize)]
struct Guards {
    /// With `guard = "text"`: `allow` or `ask`.
    text: &'static str,
    /// With `guard = "auto"`: `reading`, `transaction` or `ask`.
    auto: &'static str,
}

/// A line of standard input. Other fields of the log are ignored.
#[derive(Debug, Deserialize)]
struct Line {
    cmd: String,
}

/// A workspace in which paths can be looked up.
struct Workspace(PathBuf);

impl PathLookup for Workspace {
    fn look(&self, path: &str) -> Existence {
        match std::fs::symlink_metadata(self.0.join(path)) {
            Ok(found) if found.is_dir() => Existence::Directory,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Existence::Missing,
            Ok(_) | Err(_) => Existence::Present,
        }
    }

    fn is_outside(&self, path: &str) -> bool {
        path.starts_with(['~', '$'])
            || path.split('/').any(|part| part == "..")
            || path.starts_with('/') && !std::path::Path::new(path).starts_with(&self.0)
    }
}

/// The result of the analysis of a command.
#[derive(Debug)]
struct CommandJudgement {
    guard: Guards,
    findings: Vec<Finding>,
    commands: Vec<AnalysedCommand>,
}

impl CommandJudgement {
    fn told<'a>(&'a self, command: Option<&'a str>) -> AnalysisReport<'a> {
        let Self { guard, findings, .. } = self;
        AnalysisReport { command, judgement: guard.text, guard: *guard, findings }
    }
}

/// The analyst process, the profile's mode, and the place where files are looked up.
struct CommandAnalyzer {
    analyst: Supervisor,
    ask: Ask,
    place: Box<dyn PathLookup>,
}

impl Analyze {
    pub(crate) fn perform(self) -> Result<u8, Failure> {
        let judge = CommandAnalyzer::new(self.workspace)?;
        match &self.command {
            Some(command) => judge.one(command, self.json)?,
            None => judge.lines()?,
        }
        Ok(0)
    }
}

impl CommandAnalyzer {
    fn new(workspace: Option<PathBuf>) -> Result<Self, Failure> {
        let program = companion(ANALYST).map_err(|missing| {
            Failure::new(missing.to_string(), "build or install the whole of Palisade")
        })?;
        let analyst = Supervisor::new(program);
        analyst.start().map_err(|error| Failure::new(error.to_string(), ""))?;
        let profiles = ProfileSet::new([]);
        let profiles = profiles.map_err(|error| Failure::new(error.to_string(), ""))?;
        let ask = profiles.get(DEFAULT).map_or(Ask::Destructive, palisade_policy::Profile::ask);
        let place: Box<dyn PathLookup> = match workspace {
            Some(directory) => {
                let found = directory.canonicalize().map_err(|error| {
                    let told = format!("can not use workspace {}: {error}", directory.display());
                    Failure::new(told, "name a directory that exists")
                })?;
                Box::new(Workspace(found))
            }
            None => Box::new(Nowhere),
        };
        Ok(Self { analyst, ask, place })
    }

    fn judge(&self, command: &str) -> CommandJudgement {
        let made = self.analyst.ask(command).made;
        let mut findings = settle(made.found, self.place.as_ref());
        findings.extend(unproven(made.nature, &findings));
        let text = if asks(self.ask, &findings) { "ask" } else { "allow" };
        let auto = match made.nature {
            _ if text == "ask" && self.ask > Ask::Destructive => "ask",
            Nature::Reads => "reading",
            Nature::Acts => "transaction",
        };
        CommandJudgement { guard: Guards { text, auto }, findings, commands: made.commands }
    }

    fn one(&self, command: &str, json: bool) -> Result<(), Failure> {
        let judged = self.judge(command);
        if json {
            return print::json(&judged.told(Some(command)));
        }
        let text = render(command, &judged, paint::stdout());
        print::bytes(text.as_bytes())
    }

    fn lines(&self) -> Result<(), Failure> {
        let mut input = std::io::stdin().lock();
        for number in 1_u64.. {
            let mut line = String::new();
            let read = input.by_ref().take(LONGEST).read_line(&mut line);
            let read = read.map_err(|error| bad_line(number, &error.to_string()))?;
            if read == 0 {
                break;
            }
            if read as u64 == LONGEST && !line.ends_with('\n') {
                return Err(bad_line(number, &format!("it is longer than {LONGEST} bytes")));
            }
            if line.trim().is_empty() {
                continue;
            }
            let line: Line = serde_json::from_str(&line)
                .map_err(|error| bad_line(number, &error.to_string()))?;
            print::json(&self.judge(&line.cmd).told(None))?;
        }
        Ok(())
    }
}

fn bad_line(number: u64, why: &str) -> Failure {
    let told = format!("line {number} of standard input: {why}");
    Failure::new(told, "each line is a JSON object with the command as a string in `cmd`")
}

/// Formats each command on a line of its own, with its findings below.
fn render(command: &str, judged: &CommandJudgement, paint: Paint) -> String {
    let CommandJudgement { guard, findings, commands } = judged;
    let mut spans: Vec<Span> = commands.iter().map(|started| started.span).collect();
    spans.extend(findings.iter().filter_map(|finding| finding.span));
    spans.sort_by_key(|span| (span.start, std::cmp::Reverse(span.end)));
    // A span inside another one is shown with the outer one.
    let mut shown: Vec<Span> = Vec::new();
    for span in spans {
        if shown.last().is_none_or(|last| span.start >= last.end || span.end > last.end) {
            shown.push(span);
        }
    }
    let mut lines = Vec::new();
    let mut left: Vec<&Finding> = findings.iter().collect();
    for span in shown {
        let text = command.get(span.start as usize..span.end as usize).unwrap_or(command);
        lines.push(visible(text));
        let within = |finding: &Finding| {
            finding.span.is_none_or(|at| at.start >= span.start && at.end <= span.end)
        };
        left.retain(|finding| {
            let is_within = within(finding);
            if is_within {
                lines.push(format!("  {}", told(finding, paint)));
            }
            !is_within
        });
    }
    lines.extend(left.iter().map(|finding| told(finding, paint)));
    let style = if guard.text == "allow" { Style::Good } else { Style::Warning };
    let held = match guard.auto {
        "ask" => "needs approval",
        "reading" => "runs with the workspace read-only",
        _ => "runs in a transaction; losses need approval",
    };
    lines.push(format!("judgement: {}", paint.apply(style, guard.text)));
    lines.push(format!("with guard = \"auto\": {held}"));
    lines.join("\n") + "\n"
}

fn told(finding: &Finding, paint: Paint) -> String {
    let style = match finding.severity {
        Severity::Notice => Style::Hint,
        Severity::Warning => Style::Warning,
        Severity::Danger => Style::Error,
    };
    let kind = paint.apply(style, &visible(&finding.kind));
    let mut line = format!("{kind}: {}", visible(&finding.why));
    if !finding.program.is_empty() {
        let words: Vec<&str> = std::iter::once(finding.program.as_str())
            .chain(finding.arguments.iter().map(String::as_str))
            .collect();
        line.push_str(&format!(" ({})", visible(&words.join(" "))));
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_stand_on_lines_of_their_own_with_their_findings() {
        let command = "ls; rm -rf \u{202e}d";
        let span = |start, end| Span { start, end };
        let started = |argv: &[&str], span| AnalysedCommand {
            argv: argv.iter().map(|&word| word.to_owned()).collect(),
            span,
        };
        let commands = [started(&["ls"], span(0, 2)), started(&["rm"], span(4, 15))];
        let mut finding = Finding::new("destructive", Severity::Danger, "deletes the named files");
        finding.program = "rm".to_owned();
        finding.arguments = vec!["-rf".to_owned(), "\x1bd".to_owned()];
        finding.span = Some(span(4, 15));
        let guard = Guards { text: "ask", auto: "transaction" };
        let (findings, commands) = (vec![finding], commands.to_vec());
        let text = render(command, &CommandJudgement { guard, findings, commands }, Paint::Plain);
        let expected = "\
ls
rm -rf <U+202E>d
  destructive: deletes the named files (rm -rf ␛d)
judgement: ask
with guard = \"auto\": runs in a transaction; losses need approval
";
        assert_eq!(text, expected);
    }
}
