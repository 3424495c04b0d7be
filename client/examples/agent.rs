//! An agent loop with a scripted model instead of a real one. The model is given the tools, makes
//! calls, reads their results, and reads the hint when a call is denied. Needs no network.
//!
//! `cargo run -p palisade-client --example agent`

use palisade_client::{CallResult, Client, Error, ErrorCode, Event, Open, Session, ToolSpec};
use serde_json::{Value, json};
use std::{collections::VecDeque, path::Path};

/// A model's answer: a call to make, or that it is done.
enum Turn {
    Call { tool: &'static str, arguments: Value, reason: &'static str },
    Done(String),
}

/// A model that follows a script, but reacts to denials.
struct Model {
    script: VecDeque<Turn>,
    denials: u32,
}

impl Model {
    fn new() -> Self {
        let call = |tool, arguments, reason| Turn::Call { tool, arguments, reason };
        let script = VecDeque::from([
            call(
                "write_file",
                json!({"path": "sum.py", "content": "print(sum(range(10)))\n"}),
                "a first version of the program",
            ),
            call("bash", json!({"command": "cat sum.py; echo checking >&2; ls"}), "look at it"),
            call("list_files", json!({}), "see what is there"),
            call("bash", json!({"command": "cat /etc/shadow"}), "curious"),
            call("delete_file", json!({"path": "sum.py"}), "clean up"),
        ]);
        Self { script, denials: 0 }
    }

    /// Prints the tools. A real model would get them with its first message.
    fn introduce(tools: &[ToolSpec]) {
        println!("tools:");
        for tool in tools {
            let first = tool.description.split(". ").next().unwrap_or_default();
            println!("  {:<12} {first}", tool.name.as_str());
        }
    }

    fn next(&mut self) -> Turn {
        let told = format!("done; {} of my calls were denied", self.denials);
        self.script.pop_front().unwrap_or(Turn::Done(told))
    }

    /// Handles a result. A real model would get it as a message, by `ModelResult`.
    fn hear(&mut self, result: &CallResult) {
        let Some(error) = &result.error else { return };
        println!("  model hears: {}: {}", error.code.name(), error.message);
        if error.code == ErrorCode::Denied {
            self.denials += 1;
            println!("  model reads the hint: {}", error.hint);
            println!("  model decides: leave it to a person");
        }
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let workspace = tempfile::tempdir()?;
    let client = Client::embedded().await?;
    let outcome = converse(&client, workspace.path()).await;
    client.shutdown().await?;
    Ok(outcome?)
}

async fn converse(client: &Client, workspace: &Path) -> Result<(), Error> {
    let session = client.open(Open::new(workspace)).await?;
    Model::introduce(&client.tools().await?);
    let mut model = Model::new();
    loop {
        match model.next() {
            Turn::Call { tool, arguments, reason } => {
                println!("\n{tool} {arguments}   # {reason}");
                let result = watch(&session, tool, &arguments, reason).await?;
                let status = if result.success { "ok" } else { "failed" };
                println!("  {status} after {} ms", result.execution_time_ms);
                model.hear(&result);
            }
            Turn::Done(told) => {
                println!("\nmodel: {told}");
                return session.close().await;
            }
        }
    }
}

/// Makes a call and prints its output while it arrives.
async fn watch(
    session: &Session,
    tool: &str,
    arguments: &Value,
    reason: &str,
) -> Result<CallResult, Error> {
    let mut running = session.call(tool, arguments).reason(reason).stream().start().await?;
    let mut streamed = false;
    while let Some(event) = running.next().await {
        if let Event::Output { data, .. } = event {
            streamed = true;
            print!("{}", String::from_utf8_lossy(&data));
        }
    }
    let result = running.result().await?;
    if !streamed {
        print!("{}", result.output);
    }
    Ok(result)
}
