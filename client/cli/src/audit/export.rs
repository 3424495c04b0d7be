//! `palisade audit export`: writes the log for other programs, people and models.

use super::log::{Directory, read};
use crate::{failure::Failure, print};
use clap::{Args, ValueEnum};
use palisade_audit::{Filter, Markdown, Messages, Style, ocsf};

/// Export the log, or the history of a session
#[derive(Debug, Args)]
#[command(after_help = "\
Texts are printed as they are in the log: recognised secrets are [redacted], and each text is cut to
8 KiB.

Examples:
  palisade audit export --format jsonl > audit.jsonl
  palisade audit export --format md --session SESSION > history.md
  palisade audit export --format ocsf > events.jsonl
  palisade audit export --format messages --style openai --session SESSION")]
pub(super) struct Export {
    /// The output format: for programs, people or a model
    #[arg(long, value_name = "FORMAT")]
    format: ExportFormat,
    /// Export only this session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// The API style of --format messages
    #[arg(long, value_name = "STYLE", default_value = "anthropic")]
    style: MessageStyle,
    #[command(flatten)]
    directory: Directory,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ExportFormat {
    /// The records as they are in the log, one JSON object per line
    Jsonl,
    /// Markdown, with a section for each call
    Md,
    /// A JSON array of messages for a model: tool calls and results
    Messages,
    /// Events of the Open Cybersecurity Schema Framework 1.3, one JSON object per line
    Ocsf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum MessageStyle {
    /// `tool_use` and `tool_result` blocks
    Anthropic,
    /// `tool_calls` and messages of the role `tool`
    Openai,
}

impl Export {
    pub(super) fn perform(self) -> Result<u8, Failure> {
        let mut reader = self.directory.reader()?;
        let filter = Filter { session: self.session, ..Filter::default() };
        let mut markdown = Markdown::default();
        let mut messages = Messages::new(match self.style {
            MessageStyle::Anthropic => Style::Anthropic,
            MessageStyle::Openai => Style::Openai,
        });
        read(&mut reader, &filter, |sighted| match self.format {
            ExportFormat::Jsonl => print::bytes(&sighted.line),
            ExportFormat::Ocsf => print::line(&ocsf(&sighted).to_string()),
            ExportFormat::Md => print::bytes(markdown.add(&sighted.entry).as_bytes()),
            ExportFormat::Messages => {
                messages.add(&sighted.entry);
                Ok(())
            }
        })?;
        if self.format == ExportFormat::Messages {
            print::json(&messages.finish())?;
        }
        Ok(0)
    }
}
