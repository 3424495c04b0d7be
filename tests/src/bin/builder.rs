//! The task of a builder, from README.md and the client library's documentation alone: an agent that
//! makes calls, gives the results to a model as messages, and approves deletions with a closure. A
//! script stands in for the model. Run by tests/tests/tools/builder.rs.

use palisade_client::{Answer, ApprovalRequest, Embedded, Error, ModelResult, Open, Registration};
use serde_json::json;

/// Approves the loss of one file at a time.
async fn decide(request: ApprovalRequest) -> Answer {
    let lost = request.view.changes.iter().filter(|change| change.lost).count();
    match lost {
        0 | 1 => Answer::approve(),
        _ => Answer::deny("more than one file would be lost").guidance("delete one file at a time"),
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Error> {
    let workspace = std::env::args_os().nth(1).expect("the workspace");
    let (client, operator) = Embedded::new().with_operator().await?;
    let approver =
        tokio::spawn(
            async move { operator.handle(Registration::new("program:builder"), decide).await },
        );
    let session = client.open(Open::new(workspace)).await?;
    println!("{} tools", client.tools().await?.len());
    let turns = [
        ("bash", json!({"command": "echo data > new; cat new"})),
        ("bash", json!({"command": "rm old-1 old-2"})),
        ("bash", json!({"command": "rm old-1"})),
        ("read_file", json!({"path": "missing"})),
    ];
    let mut messages = Vec::new();
    for (number, (tool, arguments)) in turns.into_iter().enumerate() {
        let result = session.call(tool, &arguments).reason("the builder's task").await?;
        let message = ModelResult::new(&result, 30_000).openai_chat(&format!("call-{number}"));
        println!("{tool} {}: {}", result.success, message["content"]);
        messages.push(message);
    }
    session.close().await?;
    approver.abort();
    client.shutdown().await
}
