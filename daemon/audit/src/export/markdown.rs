//! Exports the history as Markdown for people, record by record. Pure: no I/O.

use crate::{
    clean::CleanText,
    decision::{Answer, Grant, RequestRecord},
    effects::{CommittedEffect, Effects},
    line::Entry,
    record::{ArchiveAct, Call, CallResult, Claim, Finding, JobEnd, Record, SessionOpen, Thinking},
};
use palisade_text::escape_lines;
use std::fmt::Write as _;

/// Writes Markdown for records in the order of the log.
#[derive(Debug, Default)]
pub struct Markdown {
    calls: u64,
}

impl Markdown {
    /// Returns the text for one record; empty for records that are not about a session.
    pub fn add(&mut self, entry: &Entry) -> String {
        let time = entry.time;
        match &entry.record {
            Record::SessionOpen(open) => session(open, &time.to_string()),
            Record::SessionClose(close) => {
                format!("*{time}: the session ended after {} calls.*\n\n", close.calls)
            }
            Record::Call(made) => {
                self.calls += 1;
                call(self.calls, made, &time.to_string())
            }
            Record::ApprovalRequest(request) => asked(request),
            Record::Answer(answer) => answered(answer),
            Record::Effects(effects) => changed(effects),
            Record::Result(result) => outcome(result),
            Record::JobEnd(end) => job_end(end, &time.to_string()),
            Record::Connection(connection) => {
                format!("**Network**: {}\n\n", span(&connection.summary()))
            }
            Record::Repair(repair) => {
                let torn = repair.torn.as_ref().map_or(0, |torn| torn.bytes);
                let calls: Vec<_> = repair.unfinished.iter().map(|id| span(id)).collect();
                let calls = if calls.is_empty() { "none".to_owned() } else { calls.join(", ") };
                format!(
                    "> **The log was repaired** at {time}: {torn} bytes were cut off after record \
                     {}; calls without a result: {calls}.\n\n",
                    repair.found.seq
                )
            }
            Record::Grant(grant) => granted(grant),
            Record::TakenBack(back) => format!(
                "> **An interrupted commit was rolled back** at {time}: {} paths were \
                 restored.\n\n",
                back.paths
            ),
            Record::Forgotten(gone) => format!(
                "> **Stored data of calls was deleted** at {time}, by {}.\n\n",
                span(&gone.by)
            ),
            Record::Archive(archive) if archive.act == ArchiveAct::Deleted => format!(
                "> **An archive of the log was deleted** at {time}: {}, with all records up to \
                 {}.\n\n",
                span(&archive.file),
                archive.last.seq
            ),
            Record::Start(_) | Record::Rotate(_) | Record::Archive(_) | Record::Signature(_) => {
                String::new()
            }
        }
    }
}

fn changed(effects: &Effects) -> String {
    let mut text = format!("**Changes**: {}\n\n", effects.summary());
    let mut list = |effects: &[CommittedEffect]| {
        for effect in effects {
            let from = effect.from.as_ref().map(|from| format!(" from {}", span(from.as_str())));
            let to = effect.target.as_ref().map(|to| format!(" to {}", span(to.as_str())));
            let entries = effect.entries.map(|count| format!(", {count} entries"));
            let digest = effect.sha256.map(|sha256| format!(", sha256 {sha256}"));
            text.push_str(&format!(
                "- {} {}{}{}: {} → {} bytes{}{}\n",
                effect.effect,
                span(effect.path.as_str()),
                from.unwrap_or_default(),
                to.unwrap_or_default(),
                effect.size_before,
                effect.size,
                entries.unwrap_or_default(),
                digest.unwrap_or_default()
            ));
        }
    };
    list(&effects.effects);
    list(&effects.last);
    if effects.left_out > 0 {
        let left_out = effects.left_out;
        text.push_str(&format!(
            "- {left_out} more are not listed; digest of all: {}\n",
            effects.digest
        ));
    }
    text.push('\n');
    text
}

fn job_end(end: &JobEnd, time: &str) -> String {
    let how = match (end.signal, end.exit_code, &end.error) {
        (Some(signal), ..) => format!("by signal {signal}"),
        (None, Some(code), _) => format!("with status {code}"),
        (None, None, Some(error)) => format!("with {}", span(error)),
        (None, None, None) => "for an unknown reason".to_owned(),
    };
    format!(
        "*{time}: job {} of call {} ended {how} after {} ms and {} bytes of output.*\n\n",
        end.job,
        span(&end.call_id),
        end.duration_us.div_ceil(1000),
        end.output_bytes
    )
}

fn session(open: &SessionOpen, time: &str) -> String {
    let SessionOpen { session, uid, profile, ask, workspace, .. } = open;
    let runs_as = open.runs_as.map(|uid| format!(" as uid {uid}")).unwrap_or_default();
    format!(
        "# Session {}\n\n{time}, uid {uid}{runs_as}, profile {}, ask {}, workspace {}\n\n",
        span(session),
        span(profile),
        span(ask),
        span(workspace.as_str())
    )
}

fn call(number: u64, call: &Call, time: &str) -> String {
    let mut text = format!("## {number}. {} at {time}\n\n", span(&call.tool));
    let mut note = |name: &str, value: String| text.push_str(&format!("- {name}: {value}\n"));
    note("call", span(&call.call_id));
    note("in", span(call.cwd.as_str()));
    if let Some(reason) = &call.reason {
        note("the agent's reason", span(reason.as_str()));
    }
    let dry = if call.dry_run { " (dry run)" } else { "" };
    note("decision", format!("{}{dry}", call.judgement));
    for Finding { kind, why } in &call.findings {
        note("finding", format!("{}: {}", span(kind), span(why.as_str())));
    }
    if let Some(Thinking { assumptions, failure_scenarios, verdict, verdict_reason }) =
        &call.thinking
    {
        let each = |texts: &[CleanText]| {
            texts.iter().map(|text| span(text.as_str())).collect::<Vec<_>>().join("; ")
        };
        note("assumptions", each(assumptions));
        note("failure scenarios", each(failure_scenarios));
        note("verdict", format!("{}: {}", span(verdict.as_str()), span(verdict_reason.as_str())));
    }
    for Claim { name, value } in &call.claims {
        note("claimed by the client", format!("{}: {}", span(name.as_str()), span(value.as_str())));
    }
    text.push('\n');
    let arguments = call.arguments.value();
    let block = match arguments.get("command").and_then(|command| command.as_str()) {
        Some(command) if arguments.as_object().is_some_and(|all| all.len() == 1) => {
            fence("sh", command)
        }
        Some(_) | None => {
            fence("json", &serde_json::to_string_pretty(arguments).unwrap_or_default())
        }
    };
    text.push_str(&block);
    text
}

fn asked(request: &RequestRecord) -> String {
    let handlers: Vec<_> = request.handlers.iter().map(|name| span(name.as_str())).collect();
    let to = if handlers.is_empty() { "nobody".into() } else { handlers.join(", ") };
    let shown = &request.shown;
    let mut text = format!(
        "- approval requested from {to}: request {}, digest {}, because of {}\n",
        span(&request.request),
        span(&request.digest.to_string()),
        span(shown.why.as_str())
    );
    for target in &shown.targets {
        text.push_str(&format!("- shown: {}\n", span(target.as_str())));
    }
    text.push('\n');
    text.push_str(&fence("", shown.lines.as_str()));
    if let Some(diff) = &shown.diff {
        text.push_str(&fence("diff", diff.as_str()));
    }
    text
}

fn granted(grant: &Grant) -> String {
    let time = match grant.expires_in_ms {
        Some(ms) => format!("for {ms} ms"),
        None => "for the session".to_owned(),
    };
    let (id, covers) = (span(&grant.grant), span(grant.covers.as_str()));
    format!(
        "- remembered approval {id} {} by {}: {covers} {time}\n\n",
        grant.act,
        span(grant.by.as_str())
    )
}

fn answered(answer: &Answer) -> String {
    let reason = answer.reason.as_str();
    let reason = if reason.is_empty() { String::new() } else { format!(": {}", span(reason)) };
    let to = answer.request.as_ref().map(|id| format!(" to {}", span(id))).unwrap_or_default();
    let by = span(&answer.deciders());
    format!("- answer{to}: **{}** by {by}{reason}\n\n", answer.decision)
}

fn outcome(result: &CallResult) -> String {
    let how = match (&result.error, result.exit_code) {
        (Some(error), Some(status)) => format!("{}, status {status}", span(error)),
        (Some(error), None) => span(error),
        (None, Some(status)) => format!("status {status}"),
        (None, None) => "done".to_owned(),
    };
    let mut text = format!("Result of {}: {how}", span(&result.call_id));
    let millis = result.duration_us.div_ceil(1000);
    if write!(text, ", {millis} ms\n\n").is_err() {
        return text;
    }
    if let Some(message) = &result.message {
        text.push_str(&format!("> {}\n\n", span(message.as_str())));
    }
    let output = super::output(result);
    if !output.is_empty() {
        text.push_str(&fence("", &output));
    }
    text
}

/// Formats text as a code span on one line, so that it can contain neither Markdown nor terminal
/// control characters.
fn span(text: &str) -> String {
    let text = escape_lines(&text.replace('\n', "⏎"));
    let ticks = "`".repeat(longest_run(&text) + 1);
    let pad = if text.starts_with('`') || text.ends_with('`') { " " } else { "" };
    format!("{ticks}{pad}{text}{pad}{ticks}")
}

/// Formats text as a code block that the text itself can not end.
fn fence(language: &str, text: &str) -> String {
    let ticks = "`".repeat((longest_run(text) + 1).max(3));
    let text = escape_lines(text);
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    format!("{ticks}{language}\n{text}{newline}{ticks}\n\n")
}

fn longest_run(text: &str) -> usize {
    text.split(|c| c != '`').map(str::len).max().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_stays_inside_its_block() {
        assert_eq!(fence("sh", "a\n```\nb"), "````sh\na\n```\nb\n````\n\n");
        assert_eq!(span("a`b``"), "``` a`b`` ```");
        assert_eq!(span("a\n# b"), "`a⏎# b`");
        assert_eq!(span("\u{1b}[2J\u{202e}"), "`\\u{1b}[2J\\u{202e}`");
    }
}
