//! `palisade tools`: what can be called, for people and for models.

mod formats;

use crate::{connect, failure::Failure, options::Connection, paint, print, run};
use clap::{Args, ValueEnum};
use palisade_client::fenced;

/// List the tools and their arguments, for people or as a model's API takes them
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  palisade tools                           all, with their arguments
  palisade tools bash read_file            these
  palisade tools --format openai           for \"tools\" of OpenAI's API
  palisade tools --format anthropic        for \"tools\" of Anthropic's API
  palisade tools --format mcp              as an MCP server lists them
  palisade tools --format prompt           for the prompt of a model that has no tool calling
  palisade tools --format json | jq '.[].metadata'")]
pub(crate) struct Tools {
    /// Names or aliases; all if none is given
    names: Vec<String>,
    /// How to print them
    #[arg(long, value_enum, default_value_t = Format::Text)]
    format: Format,
    #[command(flatten)]
    connection: Connection,
}

/// How tools are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For people
    Text,
    /// Everything known of them
    Json,
    /// OpenAI function calling
    Openai,
    /// Anthropic tool use
    Anthropic,
    /// Model Context Protocol
    Mcp,
    /// The text that teaches a model to call tools by fenced blocks
    Prompt,
}

impl Tools {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        let (client, _) = connect::connect(&self.connection).await?;
        let status = match client.tools_named(&self.names).await {
            Ok(tools) => self.print(&tools),
            Err(error) => Err(error.into()),
        };
        run::end(&client, status).await
    }

    fn print(&self, tools: &[palisade_client::ToolSpec]) -> Result<u8, Failure> {
        match self.format {
            Format::Text => print::bytes(formats::text(tools, paint::stdout()).as_bytes())?,
            Format::Json => print::json(&tools)?,
            Format::Openai => print::json(&formats::openai(tools))?,
            Format::Anthropic => print::json(&formats::anthropic(tools))?,
            Format::Mcp => print::json(&formats::mcp(tools))?,
            Format::Prompt => print::bytes(fenced::prompt(tools).as_bytes())?,
        }
        Ok(0)
    }
}
