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

/// Say why a call was refused something, and what would allow it
#[derive(Debug, Args)]
#[command(after_help = "\
From the audit log, so that no daemon needs to be running. Only what a layer of Palisade is known
to have refused is told: a program's own failures are in its output.

What a profile that is only observed would have refused is told as such.

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
        let mut found = None;
        read(&mut reader, &filter, |sighted| {
            if let Record::Result(result) = sighted.entry.record {
                found = Some(result);
            }
            Ok(())
        })?;
        let denials = found.as_ref().map_or(&[][..], |result| &result.denials);
        let observed = found.as_ref().map_or(&[][..], |result| &result.observed);
        if self.json {
            let message = found.as_ref().and_then(|result| result.message.as_ref());
            print::json(&json!({
                "call_id": self.call_id, "found": found.is_some(), "message": message,
                "denials": denials, "observed": observed,
            }))?;
        } else {
            match &found {
                Some(result) => print::bytes(text(result, paint::stdout()).as_bytes())?,
                None => {
                    let id = &self.call_id;
                    print::note(&format!("there is no result of a call {id:?} in the log"));
                }
            }
        }
        Ok(if denials.is_empty() && observed.is_empty() { TOOL } else { 0 })
    }
}

fn text(result: &CallResult, paint: Paint) -> String {
    if result.denials.is_empty() && result.observed.is_empty() {
        let told = match (&result.message, result.success) {
            (_, true) => "the call succeeded".to_owned(),
            (Some(message), false) => format!("the call failed: {}", harmless(message.as_str())),
            (None, false) => "the call failed".to_owned(),
        };
        return format!("{told}\nno layer is known to have refused anything of it\n");
    }
    let refused = result.denials.iter().map(|denial| refusal("refused", denial, paint));
    let word = "would be refused, were the profile enforced";
    let observed = result.observed.iter().map(|denial| refusal(word, denial, paint));
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
    use palisade_audit::{CleanText, Hash};

    fn result(denials: Vec<Denied>) -> CallResult {
        CallResult {
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
            denials,
            observed: Vec::new(),
        }
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
        assert_eq!(text(&result(vec![denial.clone()]), Paint::Plain), expected);
        let observed = CallResult { observed: vec![denial], ..result(Vec::new()) };
        let expected =
            expected.replacen("refused:", "would be refused, were the profile enforced:", 1);
        assert_eq!(text(&observed, Paint::Plain), expected);
        let nothing = text(&result(Vec::new()), Paint::Plain);
        assert_eq!(
            nothing,
            "the call failed: it is not there\nno layer is known to have refused anything of it\n"
        );
    }
}
