//! A client of the Model Context Protocol that writes its messages itself, and the server that it
//! started.

use crate::{Daemon, UNASKED, World};
use serde_json::{Value, json};
use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

/// A server and the client's ends of its pipes.
#[derive(Debug)]
pub struct Mcp {
    /// The server's process.
    pub child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    requests: u64,
    /// Messages that came before what was waited for.
    pub seen: Vec<Value>,
}

impl Mcp {
    /// Starts a server with these arguments.
    pub fn start(world: &World, arguments: &[&str]) -> Self {
        let mut command = world.command("palisade-mcp");
        command.args(arguments);
        Self::spawn(world, command)
    }

    /// Starts a server that uses this daemon, with the profile that asks for nothing.
    pub fn over(world: &World, daemon: &Daemon, arguments: &[&str]) -> Self {
        let socket = daemon.socket.to_str().unwrap();
        let mut all = vec!["--socket", socket, "--profile", UNASKED];
        all.extend(arguments);
        let mut mcp = Self::start(world, &all);
        mcp.initialize("2025-11-25");
        mcp
    }

    /// Starts a server by this command, as the user of the world.
    pub fn spawn(world: &World, mut command: Command) -> Self {
        let mut child = world.mode.act(|| {
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("start the server")
        });
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output, requests: 0, seen: Vec::new() }
    }

    /// Sends a line.
    pub fn say(&mut self, line: &str) {
        let input = self.input.as_mut().unwrap();
        input.write_all(line.as_bytes()).unwrap();
        input.write_all(b"\n").unwrap();
    }

    /// Waits for the next message.
    pub fn hear(&mut self) -> Value {
        let mut line = String::new();
        assert_ne!(self.output.read_line(&mut line).unwrap(), 0, "the server has ended");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
    }

    /// Sends a notification.
    pub fn notify(&mut self, method: &str, params: Value) {
        let params = params.as_object().unwrap();
        self.say(&json!({"jsonrpc": "2.0", "method": method, "params": params}).to_string());
    }

    /// Sends a request and returns its id.
    pub fn send(&mut self, method: &str, params: Value) -> u64 {
        self.requests += 1;
        let id = self.requests;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        self.say(&request.to_string());
        id
    }

    /// Answers a request of the server.
    pub fn respond(&mut self, id: &Value, result: &Value) {
        self.say(&json!({"jsonrpc": "2.0", "id": id, "result": result}).to_string());
    }

    /// Waits for the answer to a request.
    pub fn answer(&mut self, id: u64) -> Value {
        loop {
            let message = self.hear();
            if message["id"] == json!(id) {
                return message;
            }
            self.seen.push(message);
        }
    }

    /// Sends a request and waits for its answer.
    pub fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.send(method, params);
        self.answer(id)
    }

    /// Makes the handshake of this version of the protocol, and returns the server's part of it.
    pub fn initialize(&mut self, version: &str) -> Value {
        let client = json!({"name": "test", "version": "1"});
        let params = json!({"protocolVersion": version, "capabilities": {}, "clientInfo": client});
        let answer = self.ask("initialize", params);
        self.notify("notifications/initialized", json!({}));
        answer["result"].clone()
    }

    /// Calls a tool and returns its result.
    pub fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let answer = self.ask("tools/call", json!({"name": tool, "arguments": arguments}));
        assert!(answer["error"].is_null(), "{tool}: {answer}");
        answer["result"].clone()
    }

    /// Closes the server's input and waits for its end.
    pub fn end(mut self) {
        drop(self.input.take());
        let status = self.child.wait().unwrap();
        assert!(status.success(), "{status}");
    }
}

impl Drop for Mcp {
    fn drop(&mut self) {
        // It may have ended already; then there is nothing to end.
        self.child.kill().unwrap_or_default();
        self.child.wait().map(drop).unwrap_or_default();
    }
}

/// Returns the text of a result. That an ordinary user's daemon may lack cgroups is left out.
pub fn mcp_text(result: &Value) -> String {
    let text = result["content"][0]["text"].as_str().unwrap_or_else(|| panic!("{result}"));
    text.replace("\n[not enforced on this host: limits]", "")
}
