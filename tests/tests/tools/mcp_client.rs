//! The MCP server, as the client of the crate `rmcp` meets it: a client that somebody else wrote,
//! with its own types for every message.

use palisade_tests::{Daemon, Mode, UNASKED, World, processes, rooms::until};
use rmcp::{
    RoleClient, ServiceExt as _,
    model::{CallToolRequest, CallToolRequestParams, CallToolResult, ClientRequest, JsonObject},
    service::{PeerRequestOptions, RunningService},
};
use serde_json::{Value, json};
use std::{
    fs,
    process::{Child, Stdio},
};
use tokio::process::{ChildStdin, ChildStdout};

/// A client of rmcp's, and the server that it uses.
struct RustClient {
    server: Child,
    client: RunningService<RoleClient, ()>,
}

impl RustClient {
    async fn start(world: &World, daemon: &Daemon, profile: &str) -> Self {
        let mut command = world.command("palisade-mcp");
        command.args(["--socket", daemon.socket.to_str().unwrap(), "--profile", profile]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut server = world.mode.act(|| command.spawn().unwrap());
        let output = ChildStdout::from_std(server.stdout.take().unwrap()).unwrap();
        let input = ChildStdin::from_std(server.stdin.take().unwrap()).unwrap();
        let client = ().serve((output, input)).await.unwrap();
        Self { server, client }
    }

    async fn call(&self, tool: &'static str, arguments: Value) -> (bool, String) {
        let params = CallToolRequestParams::new(tool).with_arguments(object(arguments));
        let result: CallToolResult = self.client.call_tool(params).await.unwrap();
        let text = result.content.iter().filter_map(|block| block.as_text());
        let text = text.map(|text| text.text.as_str()).collect();
        (result.is_error == Some(true), text)
    }

    /// Ends the client, and waits for the server to follow.
    async fn end(mut self) {
        self.client.cancel().await.unwrap();
        assert!(self.server.wait().unwrap().success());
    }
}

fn object(value: Value) -> JsonObject {
    value.as_object().unwrap().clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_rmcp_lists_calls_and_is_refused() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let kept = world.workspace().join("kept.txt");
        fs::write(&kept, "precious\n").unwrap();
        world.give(&kept);
        let daemon = world.daemon();
        let client = RustClient::start(&world, &daemon, "workspace").await;
        let server = client.client.peer_info().unwrap();
        let name = server.server_info.as_ref().map(|info| info.name.as_str());
        assert_eq!(name, Some("palisade"), "{mode:?}");
        let tools = client.client.list_all_tools().await.unwrap();
        assert!(tools.len() > 20, "{}", tools.len());
        assert!(tools.iter().all(|tool| tool.input_schema["properties"].is_object()));
        let written = json!({"path": "a.txt", "content": "hello\n"});
        assert!(!client.call("write_file", written).await.0, "{mode:?}");
        assert_eq!(fs::read_to_string(world.workspace().join("a.txt")).unwrap(), "hello\n");
        let (is_error, text) = client.call("bash", json!({"command": "cat a.txt; exit 3"})).await;
        assert!(is_error && text.starts_with("hello\n[exit 3]"), "{mode:?}: {text}");
        // Nobody can approve it.
        let (is_error, text) = client.call("bash", json!({"command": "rm kept.txt"})).await;
        assert!(is_error && text.contains("Denied"), "{mode:?}: {text}");
        assert_eq!(fs::read_to_string(&kept).unwrap(), "precious\n");
        client.end().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_a_client_of_rmcp_cancels_ends_with_everything_it_started() {
    for mode in Mode::all() {
        let world = World::new(mode);
        let daemon = world.daemon();
        let client = RustClient::start(&world, &daemon, UNASKED).await;
        let mark = processes::mark();
        let arguments = object(json!({"command": format!("exec -a {mark} sleep 1000")}));
        let params = CallToolRequestParams::new("bash").with_arguments(arguments);
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let options = PeerRequestOptions::no_options();
        let call = client.client.send_cancellable_request(request, options).await.unwrap();
        let sleeps = || processes::marked(&mark).iter().any(|process| process.name == "sleep");
        until("it sleeps", sleeps);
        call.cancel(Some("enough".into())).await.unwrap();
        until("it has ended", || !sleeps());
        let (_, text) = client.call("bash", json!({"command": "echo on"})).await;
        assert!(text.starts_with("on\n[exit 0]"), "{mode:?}: {text}");
        client.end().await;
    }
}
