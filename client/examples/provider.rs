//! A process that adds a tool to a running daemon: `word_count` counts the words of a text.
//!
//! `cargo run -p palisade-client --example provider -- /run/palisade/provider.sock`

use palisade_client::{Error, Output, ProvidedTool, Provider};
use serde_json::{Value, json};
use std::path::Path;

/// Provides the tool until the connection ends.
pub(crate) async fn provide(socket: &Path) -> Result<(), Error> {
    let schema = json!({
        "type": "object",
        "properties": {"text": {"type": "string", "description": "What to count."}},
        "required": ["text"],
        "additionalProperties": false,
    });
    let tool = ProvidedTool::new("word_count", schema)
        .description("Counts the words of a text.")
        .search_hint("words count length text")
        .read_only();
    let provider = Provider::connect(socket).await?.tool(tool, |call| async move {
        let arguments: Value = call.arguments()?;
        let words = arguments["text"].as_str().unwrap_or_default().split_whitespace().count();
        call.progress("counted", 1, Some(1)).await?;
        Ok(Output::from(format!("{words} words\n")).data(json!({"words": words})))
    });
    provider.serve().await
}

#[tokio::main(flavor = "current_thread")]
#[allow(dead_code, reason = "a test uses the rest of this file")]
async fn main() -> Result<(), Error> {
    let socket = std::env::args_os().nth(1).unwrap_or("/run/palisade/provider.sock".into());
    provide(Path::new(&socket)).await
}
