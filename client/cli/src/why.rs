//! `palisade why`: says, from the audit log, what was refused to a call, by which layer and line,
//! and what would allow it. With `--trace` the call runs again under a recorder.

use crate::{
    audit::{Directory, RecordsOfCall, records},
    call::id::{self, CallSelector, short},
    exit::TOOL,
    failure::Failure,
    paint::{self, Paint, Style, harmless},
    print,
    profile::{self, Directories, Enforcement, Trace},
};
use clap::Args;
use palisade_audit::{Answer, CallResult, DecisionMaker, LayerDenial, Record};
use serde_json::{Value, json};
use std::mem;

/// Explain what was refused to a call, why, and what would allow it
#[derive(Debug, Args)]
#[command(after_help = "\
Reads your own audit log, and asks the running daemon: it sends you the records of your own calls,
and an operator those of all calls. Only refusals by Palisade that were recorded are shown; a
program's own errors are in its output. If approvers answered a request about the call, their
answers are shown too, with everyone who approved.

Of your own log, the archives in `archive` are read too, and those in the directories that
--archives names. A daemon does not read its archives: for a call in one, its operator runs this
command with the log's directory as --dir.

Refusals of a profile that is only observed are marked as such. For a call that became a job, the
job's refusals are shown once the job has ended.

--trace runs a program's call again and records what it uses: in a private daemon, under the same
profile without a network, in a transaction that is discarded. Nobody is asked for approval. It
shows what was refused, and what exists on this host but not in the session. You must be the user
whose call it was, or root. A call is refused if the log does not have its input and arguments
unchanged.

Exit status: 0 a refusal was recorded, or would have happened; 1 none was, or there is no such call;
125 the call could not be run again.

Examples:
  palisade why last
  palisade why last --trace
  palisade why 01990f3e-71d2
  palisade why CALL_ID --json | jq '.denials[].remedy'")]
pub(crate) struct Why {
    /// A call's id or an unambiguous prefix of it, or `last` for the newest call in the log
    #[arg(value_parser = id::parse)]
    call_id: CallSelector,
    /// Run the call again under a recorder, and show what it was refused and what it did not find
    #[arg(long)]
    trace: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    directory: Directory,
    #[command(flatten)]
    directories: Directories,
}

impl Why {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        if self.trace {
            return print::failure_as_json(self.trace().await, self.json);
        }
        let RecordsOfCall { call_id, records, .. } =
            records(&self.directory, &self.call_id).await?;
        let mut found = CallRecords { called: !records.is_empty(), ..CallRecords::default() };
        records.into_iter().for_each(|record| found.take(record));
        let (denials, observed) = (&found.denials, &found.observed);
        if self.json {
            let message = found.result.as_ref().and_then(|result| result.message.as_ref());
            print::json(&json!({
                "call_id": call_id, "found": found.result.is_some(), "message": message,
                "denials": denials, "observed": observed, "job": found.job,
                "answers": found.answers,
            }))?;
        } else if found.called {
            print::bytes(text(&call_id, &found, paint::stdout()).as_bytes())?;
        } else {
            print::note(&format!("there is no call {call_id:?} in the log and its archives"));
            print::note(
                "hint: a call's id is the `call_id` of its result; see also palisade audit tail",
            );
            print::note(ARCHIVED);
        }
        Ok(if denials.is_empty() && observed.is_empty() { TOOL } else { 0 })
    }

    /// Runs the call again, and says what it attempted in vain.
    async fn trace(&self) -> Result<u8, Failure> {
        let trace = profile::trace(&self.directory, &self.call_id, &self.directories).await?;
        if self.json {
            print::json(&traced_json(&trace))?;
        } else {
            print::bytes(traced(&trace, paint::stdout()).as_bytes())?;
        }
        Ok(if trace.attempts.denied.is_empty() { TOOL } else { 0 })
    }
}

/// The hint for a call that may be in an archive.
const ARCHIVED: &str = "\
hint: if it was archived, name its archive's directory: --archives DIR. A daemon reads no archives;
      root reads those of the service (--dir /var/lib/palisade/audit)";

/// The most paths that are listed of those that exist nowhere.
const MOST_NOWHERE: usize = 5;

fn traced_json(trace: &Trace) -> Value {
    let of = |wanted: Enforcement| {
        let met = trace.attempts.denied.iter().filter(|(met, _)| *met == wanted);
        met.map(|(_, denial)| denial).collect::<Vec<_>>()
    };
    json!({
        "call_id": trace.call_id, "found": true, "profile": trace.profile.name(),
        "traced_by": trace.result.call_id, "exit_code": trace.result.exit_code,
        "refused": of(Enforcement::Refused), "left_out": of(Enforcement::LeftOut),
        "nowhere": trace.attempts.nowhere, "more": trace.attempts.more, "lost": trace.lost,
    })
}

/// Returns the text for a traced call.
fn traced(trace: &Trace, paint: Paint) -> String {
    let (attempts, result) = (&trace.attempts, &trace.result);
    let ended = match (result.exit_code, result.timed_out) {
        (_, true) => "it did not end in time".to_owned(),
        (Some(code), false) => format!("exit status {code}"),
        (None, false) => "ended by a signal".to_owned(),
    };
    let mut text = format!("ran again without a network; its changes were discarded: {ended}\n");
    for (met, denial) in &attempts.denied {
        let word = match met {
            Enforcement::Refused => "refused",
            Enforcement::LeftOut => "not in the session, but on this host",
            Enforcement::WouldBe => "would be refused if the profile were enforced",
        };
        text += &refusal(word, denial, paint);
    }
    if attempts.denied.is_empty() {
        text += "the profile refused it nothing, and left out nothing that exists on this host\n";
        for path in attempts.nowhere.iter().take(MOST_NOWHERE) {
            let path = harmless(path);
            text += &format!("missing: {path} (it does not exist on this host either)\n");
        }
    }
    for (count, what) in [
        (u64::try_from(attempts.more).unwrap_or(u64::MAX), "more denials are not shown"),
        (trace.lost, "accesses were not recorded"),
    ] {
        if count > 0 {
            text += &format!("{count} {what}\n");
        }
    }
    text
}

/// The records of a call in the log.
#[derive(Debug, Default)]
struct CallRecords {
    called: bool,
    result: Option<CallResult>,
    /// The job that the call became, once the job has ended.
    job: Option<u64>,
    /// True if the call failed, or the job that it became.
    failed: bool,
    denials: Vec<LayerDenial>,
    observed: Vec<LayerDenial>,
    /// The answers that approvers had a part in.
    answers: Vec<Answer>,
}

impl CallRecords {
    fn take(&mut self, record: Record) {
        let (denials, observed) = match record {
            Record::Result(mut result) => {
                let told = (mem::take(&mut result.denials), mem::take(&mut result.observed));
                self.failed |= !result.success;
                self.result = Some(result);
                told
            }
            Record::JobEnd(end) => {
                self.job = Some(end.job);
                self.failed |= end.exit_code != Some(0);
                (end.denials, end.observed)
            }
            Record::Answer(answer) => {
                if is_of_approvers(&answer) {
                    self.answers.push(answer);
                }
                return;
            }
            Record::Connection(connection) => (connection.denial.into_iter().collect(), Vec::new()),
            Record::Start(_)
            | Record::SessionOpen(_)
            | Record::SessionClose(_)
            | Record::Call(_)
            | Record::ApprovalRequest(_)
            | Record::Repair(_)
            | Record::Rotate(_)
            | Record::Effects(_)
            | Record::TakenBack(_)
            | Record::Forgotten(_)
            | Record::Archive(_)
            | Record::Signature(_)
            | Record::Grant(_) => return,
        };
        // A job that ended while its call still waited has reported the same denials.
        for (all, more) in [(&mut self.denials, denials), (&mut self.observed, observed)] {
            for denial in more {
                if !all.contains(&denial) {
                    all.push(denial);
                }
            }
        }
    }
}

/// Returns `true` if an approver answered now, or gave the approval that is remembered.
fn is_of_approvers(answer: &Answer) -> bool {
    match answer.by {
        DecisionMaker::Person(_) | DecisionMaker::Program(_) | DecisionMaker::Remembered(_) => true,
        DecisionMaker::Rule(_) | DecisionMaker::Default => !answer.approvals.is_empty(),
    }
}

/// Returns the text for a call, from its records.
fn text(call_id: &str, found: &CallRecords, paint: Paint) -> String {
    refusals(call_id, found, paint) + &found.answers.iter().map(answered).collect::<String>()
}

/// Returns the line for an answer of approvers.
fn answered(answer: &Answer) -> String {
    let to = answer.request.as_ref().map(|id| format!(" to {id}")).unwrap_or_default();
    let reason = answer.reason.as_str();
    let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
    let (decision, by) = (answer.decision, answer.deciders());
    format!("{}\n", harmless(&format!("answer{to}: {decision} by {by}{reason}")))
}

fn refusals(call_id: &str, found: &CallRecords, paint: Paint) -> String {
    if found.denials.is_empty() && found.observed.is_empty() {
        let told = match found.result.as_ref().map(|result| (&result.message, result.success)) {
            None => "the call has no result: it is running, or its daemon ended".to_owned(),
            Some((_, true)) => "the call succeeded".to_owned(),
            Some((Some(message), false)) => {
                format!("the call failed: {}", harmless(message.as_str()))
            }
            Some((None, false)) => "the call failed".to_owned(),
        };
        let next = match found.failed {
            true => format!(
                " Missing paths and network errors are not recorded; to find them, run the call again \
                 with `palisade why --trace {}`",
                short(call_id)
            ),
            false => String::new(),
        };
        return format!("{told}\nNo refusal was recorded.{next}\n");
    }
    let refused = found.denials.iter().map(|denial| refusal("refused", denial, paint));
    let word = "would be refused if the profile were enforced";
    let observed = found.observed.iter().map(|denial| refusal(word, denial, paint));
    let mut text = refused.chain(observed).collect::<Vec<_>>().join("\n");
    let message = found.result.as_ref().and_then(|result| result.message.as_ref());
    // Who denied it, and why, is only in the message.
    if let Some(message) = message
        && found.denials.iter().any(|denial| denial.layer.as_str() == "policy")
    {
        text += &format!("the call failed: {}\n", harmless(message.as_str()));
    }
    text
}

fn refusal(word: &str, denial: &LayerDenial, paint: Paint) -> String {
    let head = format!("{word}: {}", harmless(denial.target.as_str()));
    let line = |name: &str, value: &str| format!("  {name:10} {}\n", harmless(value));
    let at = match denial.at.as_str() {
        "" => "none: the default applies",
        at => at,
    };
    let mut text = format!("{}\n", paint.apply(Style::Error, &head));
    text += &line("because", denial.rule.as_str());
    text += &line("layer", denial.layer.as_str());
    text += &line("line", at);
    for (name, value) in [("to allow", &denial.remedy), ("opens", &denial.opens)] {
        if !value.as_str().is_empty() {
            text += &line(name, value.as_str());
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_audit::{CleanText, Decision, Hash, JobEnd, Review};

    fn found(denials: Vec<LayerDenial>, observed: Vec<LayerDenial>) -> CallRecords {
        let result = CallResult {
            call_id: "c".to_owned(),
            session: "s".to_owned(),
            success: false,
            error: Some("not_found".to_owned()),
            message: Some(CleanText::new("it is not there")),
            exit_code: None,
            signal: None,
            output: None,
            output_bytes: 0,
            output_digest: Hash::of(b""),
            data_digest: None,
            attachment: None,
            omitted_bytes: 0,
            duration_us: 1,
            denials: denials.clone(),
            observed: observed.clone(),
        };
        // A denial that the job reports again is listed once.
        let end = JobEnd {
            call_id: "c".to_owned(),
            session: "s".to_owned(),
            job: 1,
            exit_code: Some(0),
            signal: None,
            error: None,
            output_bytes: 0,
            duration_us: 1,
            denials,
            observed,
        };
        let mut found = CallRecords::default();
        [Record::Result(result), Record::JobEnd(end)].into_iter().for_each(|one| found.take(one));
        found
    }

    #[test]
    fn the_answers_of_approvers_are_told_with_everyone_who_approved() {
        let person = |name: &str| DecisionMaker::Person(CleanText::new(name));
        let answer = |by: DecisionMaker, approvals: &[DecisionMaker]| Answer {
            request: Some("q-1".to_owned()),
            call_id: "c".to_owned(),
            session: "s".to_owned(),
            review: Review::Input,
            decision: Decision::Deny,
            by,
            approvals: approvals.to_vec(),
            reason: CleanText::new("no"),
            digest: None,
            remember: None,
        };
        let both = [person("ann"), person("bob")];
        let expected =
            "answer to q-1: deny by person eve, approved by person ann and person bob: no\n";
        for (answer, expected) in [
            (answer(person("eve"), &both), expected),
            (answer(person("eve"), &[]), "answer to q-1: deny by person eve: no\n"),
            (
                answer(DecisionMaker::Default, &both[..1]),
                "answer to q-1: deny by default, approved by person ann: no\n",
            ),
            (answer(DecisionMaker::Default, &[]), ""),
        ] {
            let mut found = found(Vec::new(), Vec::new());
            let before = text("c", &found, Paint::Plain);
            found.take(Record::Answer(answer));
            assert_eq!(text("c", &found, Paint::Plain), format!("{before}{expected}"));
        }
    }

    #[test]
    fn a_refusal_is_told_with_its_line_and_what_would_allow_it() {
        let clean = CleanText::new;
        let denial = LayerDenial {
            layer: clean("mount"),
            rule: clean("read: profile workspace does not include /srv/x"),
            target: clean("/srv/x"),
            remedy: clean("add \"/srv/x\" to fs.read"),
            at: clean(""),
            opens: clean("/srv/x could be read"),
        };
        let expected = "\
refused: /srv/x
  because    read: profile workspace does not include /srv/x
  layer      mount
  line       none: the default applies
  to allow   add \"/srv/x\" to fs.read
  opens      /srv/x could be read
";
        let refused = found(vec![denial.clone()], Vec::new());
        assert_eq!((text("c", &refused, Paint::Plain).as_str(), refused.job), (expected, Some(1)));
        let observed = found(Vec::new(), vec![denial]);
        let expected =
            expected.replacen("refused:", "would be refused if the profile were enforced:", 1);
        assert_eq!(text("c", &observed, Paint::Plain), expected);
        let nothing = text("c", &found(Vec::new(), Vec::new()), Paint::Plain);
        assert_eq!(
            nothing,
            "the call failed: it is not there\nNo refusal was recorded. Missing paths and network \
             errors are not recorded; to find them, run the call again with `palisade why --trace c`\n"
        );
    }
}
