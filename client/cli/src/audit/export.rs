//! `palisade audit export`: the log for other programs, people and models.

use super::{Directory, read};
use crate::{failure::Failure, print};
use clap::{Args, ValueEnum};
use palisade_audit::{Filter, Markdown, Messages, Reader, Style};

/// Write the log, or the history of a session, for others to read
#[derive(Debug, Args)]
#[command(after_help = "\
Text is as it stands in the log: secrets that were recognised are [redacted], and of each text at
most 8 KiB is there.

Examples:
  palisade audit export --format jsonl > audit.jsonl
  palisade audit export --format md --session SESSION > history.md
  palisade audit export --format messages --style openai --session SESSION")]
pub(super) struct Export {
    /// For programs, for people, or for a model
    #[arg(long, value_name = "FORMAT")]
    format: Format,
    /// Only the history of a session
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Whose messages, with --format messages
    #[arg(long, value_name = "STYLE", default_value = "anthropic")]
    style: MessageStyle,
    #[command(flatten)]
    directory: Directory,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// The records as they stand in the log, a JSON object a line
    Jsonl,
    /// Markdown, a section for each call
    Md,
    /// A JSON array of the messages a model expects: its tool calls and their results
    Messages,
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
        let mut reader = Reader::new(&self.directory.find()?);
        let filter = Filter { session: self.session, ..Filter::default() };
        let mut markdown = Markdown::default();
        let mut messages = Messages::new(match self.style {
            MessageStyle::Anthropic => Style::Anthropic,
            MessageStyle::Openai => Style::Openai,
        });
        read(&mut reader, &filter, |sighted| match self.format {
            Format::Jsonl => print::bytes(&sighted.line),
            Format::Md => print::bytes(markdown.add(&sighted.entry).as_bytes()),
            Format::Messages => {
                messages.add(&sighted.entry);
                Ok(())
            }
        })?;
        if self.format == Format::Messages {
            print::json(&messages.finish())?;
        }
        Ok(0)
    }
}
