//! `palisade call`: calls one tool by name.

pub(crate) mod follow_up;
pub(crate) mod id;
pub(crate) mod undo;

use crate::{
    approve::asking::{self, Approvers},
    disconnect::disconnect,
    exit,
    failure::Failure,
    options::SessionOptions,
    paint, print, receipt,
    run::{configured, report},
    stream::escape::Controls,
    stream::{self, Bytes, Progress},
};
use clap::Args;
use palisade_client::Session;
use palisade_protocol::JsonText;
use std::{io::Read as _, path::PathBuf};

/// Call a tool with JSON arguments and print its output
#[derive(Debug, Args)]
#[command(after_help = "\
Prints the text that a model would read. --json prints the whole result; --raw prints the exact
bytes of a file or of a command's standard output. On a terminal, control sequences other than
colours and cursor movement are shown as text (␛]0;title␇); --raw passes all of them on. `palisade
tools` lists the tools and their arguments.

Exit status: 0 success; 1 the tool failed; for bash the command's own; 124 timed out; 125 Palisade
failed; 126 denied by policy or an approver; 130 interrupted.

Examples:
  palisade call list_files
  palisade call grep --args '{\"pattern\": \"TODO\", \"glob\": \"*.rs\"}'
  palisade call read_file --args '{\"path\": \"src/main.rs\", \"limit\": 20}'
  palisade call read_file --raw --args '{\"path\": \"logo.png\", \"encoding\": \"raw\"}' > logo.png
  jq -n '{path: \"notes.txt\", content: \"hello\"}' | palisade call write_file --args-file -
  palisade call delete_file --args '{\"path\": \"notes.txt\"}' --dry-run")]
pub(crate) struct CallTool {
    /// The tool's name or alias
    tool: String,
    /// The tool's arguments, as a JSON object
    #[arg(long, value_name = "JSON", conflicts_with = "args_file")]
    args: Option<String>,
    /// A file with the arguments; - for standard input
    #[arg(long, value_name = "FILE")]
    args_file: Option<PathBuf>,
    /// Print the exact bytes instead of the text
    #[arg(long, conflicts_with = "json")]
    raw: bool,
    #[command(flatten)]
    session: SessionOptions,
}

impl CallTool {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        print::failure_as_json(self.attempt().await, self.session.json)
    }

    async fn attempt(&self) -> Result<u8, Failure> {
        let arguments = object(self.arguments()?)?;
        let open = self.session.terms.open()?;
        let terms = &self.session.terms;
        let (client, asking, session) =
            asking::open_for(terms, self.session.linger(), open).await?;
        let status = match session {
            Ok(session) => self.call(&session, arguments, &asking).await,
            Err(error) => Err(error.into()),
        };
        drop(asking);
        disconnect(&client, status).await
    }

    fn arguments(&self) -> Result<String, Failure> {
        if let Some(text) = &self.args {
            return Ok(text.clone());
        }
        let Some(path) = &self.args_file else {
            return Ok("{}".to_owned());
        };
        let read = if path.as_os_str() == "-" {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map(|_| text)
        } else {
            std::fs::read_to_string(path)
        };
        read.map_err(|error| {
            Failure::new(
                format!("can not read the arguments from {}: {error}", path.display()),
                "name a file with a JSON object, or - for standard input",
            )
        })
    }

    async fn call(
        &self,
        session: &Session,
        arguments: JsonText,
        approvers: &Approvers,
    ) -> Result<u8, Failure> {
        let call = approvers.announce(session.call(&self.tool, arguments));
        let mut call = configured(call, &self.session);
        let bytes = if self.raw { Bytes::Shown(Controls::Passed) } else { Bytes::Left };
        if self.raw || (Progress::is_seen() && !self.session.json) {
            call = call.stream();
        }
        let (result, _) = stream::watch(call.start().await?, bytes).await?;
        if self.session.json {
            print::json(&result)?;
        } else if self.session.dry_run {
            report(&result)?;
        } else if !self.raw && !result.output.is_empty() {
            let newline = if result.output.ends_with('\n') { "" } else { "\n" };
            let text = format!("{}{newline}", result.output);
            print::output(text.as_bytes(), Controls::Shown)?;
            if let (true, Some(spool)) = (result.truncated, &result.spool) {
                let omitted = result.omitted_bytes;
                print::note(&format!(
                    "note: {omitted} bytes were omitted; palisade output {spool} prints all"
                ));
            }
        }
        receipt::tell(&result, self.session.verbose.into(), paint::stderr());
        Ok(exit::of_result(&result))
    }
}

/// Returns the text if it is a JSON object.
fn object(text: String) -> Result<JsonText, Failure> {
    let hint = "arguments are one JSON object, such as '{\"path\": \"src\"}'";
    match serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&text) {
        Ok(_) => JsonText::parse(text)
            .map_err(|error| Failure::new(format!("the arguments are not JSON: {error}"), hint)),
        Err(error) => {
            Err(Failure::new(format!("the arguments are not a JSON object: {error}"), hint))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_one_object() {
        let text = r#"{"path": "a\u0000b", "n": 1e400}"#;
        assert!(object(text.to_owned()).is_err(), "1e400 is no number");
        let text = r#"{"path": "b"}"#;
        assert_eq!(object(format!(" {text}\n")).unwrap().as_str(), text);
        for text in ["", "[]", "null", "{", "{} {}", "path"] {
            assert_eq!(object(text.to_owned()).unwrap_err().status, 125, "{text}");
        }
    }
}
