//! `palisade tools`: lists the tools, for people and for models.

mod formats;

use crate::{approve::asking, disconnect::disconnect, failure::Failure, paint, print};
use clap::{Args, ValueEnum};
use palisade_client::fenced;
use palisade_options::Connection;

/// List the tools and their arguments, for people or in the format of a model's API
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  palisade tools                           all, with their arguments
  palisade tools bash read_file            only these
  palisade tools --format openai           for \"tools\" of OpenAI's API
  palisade tools --format openai-strict    the same with \"strict\": true
  palisade tools --format anthropic        for \"tools\" of Anthropic's API
  palisade tools --format mcp              as an MCP server lists them
  palisade tools --format prompt           for the prompt of a model that has no tool calling
  palisade tools --format json | jq '.[].metadata'")]
pub(crate) struct Tools {
    /// Names or aliases of tools [default: all]
    names: Vec<String>,
    /// The output format
    #[arg(long, value_enum, default_value_t = ToolFormat::Text)]
    format: ToolFormat,
    #[command(flatten)]
    connection: Connection,
}

/// The format in which tools are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum ToolFormat {
    /// For people
    Text,
    /// Everything known about each tool
    Json,
    /// OpenAI function calling
    Openai,
    /// OpenAI function calling in strict mode: every argument is required or null
    OpenaiStrict,
    /// Anthropic tool use
    Anthropic,
    /// Model Context Protocol
    Mcp,
    /// The text that teaches a model to call tools by fenced blocks
    Prompt,
}

impl Tools {
    pub(crate) async fn perform(self) -> Result<u8, Failure> {
        let client = asking::connect_to_read(&self.connection).await?;
        let status = match client.tools_named(&self.names).await {
            Ok(tools) => self.print(&tools),
            Err(error) => Err(error.into()),
        };
        disconnect(&client, status).await
    }

    fn print(&self, tools: &[palisade_client::ToolSpec]) -> Result<u8, Failure> {
        match self.format {
            ToolFormat::Text => print::bytes(formats::text(tools, paint::stdout()).as_bytes())?,
            ToolFormat::Json => print::json(&tools)?,
            ToolFormat::Openai => print::json(&formats::openai(tools))?,
            ToolFormat::OpenaiStrict => print::json(&formats::openai_strict(tools))?,
            ToolFormat::Anthropic => print::json(&formats::anthropic(tools))?,
            ToolFormat::Mcp => print::json(&formats::mcp(tools))?,
            ToolFormat::Prompt => print::bytes(fenced::prompt(tools).as_bytes())?,
        }
        Ok(0)
    }
}
