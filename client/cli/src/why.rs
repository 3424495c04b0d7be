//! `palisade why`: what of a call was refused, by which layer and line, and what would allow it;
//! from the audit log.

use crate::{
    audit::{Directory, read},
    exit::TOOL,
    failure::Failure,
    paint::{self, Paint, Style, harmless},
    print,
};
use clap::Args;
use palisade_audit::{CallResult, Denied, Filter, Reader, Record};
use serde_json::json;
use std::mem;

/// Say why a call was refused something, and what would allow it
#[derive(Debug, Args)]
#[command(after_help = "\
From the audit log, so that no daemon needs to be running. Only what a layer of Palisade is known
to have refused is told: a program's own failures are in its output.

What a profile that is only observed would have refused is told as such. Of a call that became a job,
what the job was refused is told once that has ended.

Exit status: 0 something was refused, or would have been, and is told; 1 nothing was, or there is no
such call.

Examples:
  palisade why CALL_ID
  palisade why CALL_ID --json | jq '.denials[].remedy'")]
pub(crate) struct Why {
    /// From a result's `call_id`
    call_id: String,
    /// Print it as one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    directory: Directory,
}

impl Why {
    pub(crate) fn perform(self) -> Result<u8, Failure> {
        let mut reader = Reader::new(&self.directory.find()?);
        let filter = Filter { call_id: Some(self.call_id.clone()), ..Filter::default() };
        let mut found = Found::default();
        read(&mut reader, &filter, |sighted| {
            found.take(sighted.entry.record);
            Ok(())
        })?;
        let (denials, observed) = (&found.denials, &found.observed);
        if self.json {
            let message = found.result.as_ref().and_then(|result| result.message.as_ref());
            print::json(&json!({
                "call_id": self.call_id, "found": found.result.is_some(), "message": message,
                "denials": denials, "observed": observed, "job": found.job,
            }))?;
        } else if found.called {
            print::bytes(text(&found, paint::stdout()).as_bytes())?;
        } else {
            print::note(&format!("there is no call {:?} in the log", self.call_id));
            print::note(
                "hint: a call's id is the `call_id` of its result; palisade audit tail shows the last ones",
            );
        }
        Ok(if denials.is_empty() && observed.is_empty() { TOOL } else { 0 })
    }
}

/// What the log has of a call.
#[derive(Debug, Default)]
struct Found {
    called: bool,
    result: Option<CallResult>,
    /// The job that it had become, once that has ended.
    job: Option<u64>,
    denials: Vec<Denied>,
    observed: Vec<Denied>,
}

impl Found {
    fn take(&mut self, record: Record) {
        self.called = true;
        let (denials, observed) = match record {
            Record::Result(mut result) => {
                let told = (mem::take(&mut result.denials), mem::take(&mut result.observed));
                self.result = Some(result);
                told
            }
            Record::JobEnd(end) => {
                self.job = Some(end.job);
                (end.denials, end.observed)
            }
            Record::Start(_)
            | Record::SessionOpen(_)
            | Record::SessionClose(_)
            | Record::Call(_)
            | Record::Question(_)
            | Record::Answer(_)
            | Record::Repair(_)
            | Record::Rotate(_)
            | Record::Effects(_)
            | Record::TakenBack(_)
            | Record::Forgotten(_)
            | Record::Grant(_) => return,
        };
        // A job that ended while its call still waited has told the same.
        for (all, more) in [(&mut self.denials, denials), (&mut self.observed, observed)] {
            for denial in more {
                if !all.contains(&denial) {
                    all.push(denial);
                }
            }
        }
    }
}

fn text(found: &Found, paint: Paint) -> String {
    if found.denials.is_empty() && found.observed.is_empty() {
        let told = match found.result.as_ref().map(|result| (&result.message, result.success)) {
            None => "the call has no result yet, or its daemon ended before it".to_owned(),
            Some((_, true)) => "the call succeeded".to_owned(),
            Some((Some(message), false)) => {
                format!("the call failed: {}", harmless(message.as_str()))
            }
            Some((None, false)) => "the call failed".to_owned(),
        };
        return format!("{told}\nno layer is known to have refused anything of it\n");
    }
    let refused = found.denials.iter().map(|denial| refusal("refused", denial, paint));
    let word = "would be refused, were the profile enforced";
    let observed = found.observed.iter().map(|denial| refusal(word, denial, paint));
    refused.chain(observed).collect::<Vec<_>>().join("\n")
}

fn refusal(word: &str, denial: &Denied, paint: Paint) -> String {
    let head = format!("{word}: {}", harmless(denial.target.as_str()));
    let line = |name: &str, value: &str| format!("  {name:10} {}\n", harmless(value));
    let at = match denial.at.as_str() {
        "" => "no line of a profile says otherwise",
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
    use palisade_audit::{CleanText, Hash, JobEnd};

    fn found(denials: Vec<Denied>, observed: Vec<Denied>) -> Found {
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
        // What a job told again is told once.
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
        let mut found = Found::default();
        [Record::Result(result), Record::JobEnd(end)].into_iter().for_each(|one| found.take(one));
        found
    }

    #[test]
    fn a_refusal_is_told_with_its_line_and_what_would_allow_it() {
        let clean = CleanText::new;
        let denial = Denied {
            layer: clean("mount"),
            rule: clean("read: nothing in the profile names /srv/x, so it is not there"),
            target: clean("/srv/x"),
            remedy: clean("add \"/srv/x\" to fs.read"),
            at: clean(""),
            opens: clean("/srv/x could be read"),
        };
        let expected = "\
refused: /srv/x
  because    read: nothing in the profile names /srv/x, so it is not there
  layer      mount
  line       no line of a profile says otherwise
  to allow   add \"/srv/x\" to fs.read
  opens      /srv/x could be read
";
        let refused = found(vec![denial.clone()], Vec::new());
        assert_eq!((text(&refused, Paint::Plain).as_str(), refused.job), (expected, Some(1)));
        let observed = found(Vec::new(), vec![denial]);
        let expected =
            expected.replacen("refused:", "would be refused, were the profile enforced:", 1);
        assert_eq!(text(&observed, Paint::Plain), expected);
        let nothing = text(&found(Vec::new(), Vec::new()), Paint::Plain);
        assert_eq!(
            nothing,
            "the call failed: it is not there\nno layer is known to have refused anything of it\n"
        );
    }
}
