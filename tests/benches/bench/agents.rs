//! Calls of an agent through `palisade mcp`, beside the same calls of a program that links the client.

use super::{Bench, bare, interleave};
use palisade_tests::Mcp;
use serde_json::json;
use std::fs;

const GROUP: &str = "palisade mcp";

/// The name of the rows that others of this group are compared with.
const CLIENT: &str = "the client crate";

impl Bench {
    /// Measures what the Model Context Protocol adds to a call, and the start of its server.
    pub(super) fn agents(&self) {
        let workspace = self.world.workspace();
        fs::write(workspace.join("four"), "x".repeat(4096)).unwrap();
        let daemon = self.world.daemon();
        let session = self.open_with(&self.connect(&daemon), palisade_policy::DEFAULT);
        let socket = daemon.socket.to_str().unwrap();
        let options = ["--socket", socket, "--profile", palisade_policy::DEFAULT];
        let start = || {
            let mut mcp = Mcp::start(&self.world, &options);
            mcp.initialize("2025-11-25");
            mcp
        };
        let mut mcp = start();
        let called = |mcp: &mut Mcp, tool, arguments| {
            let result = mcp.call(tool, arguments);
            assert_eq!(result["isError"], false, "{result}");
        };
        let times = interleave(
            self.rounds,
            &mut [&mut || self.bash(&session), &mut || {
                called(&mut mcp, "bash", json!({"command": "true"}));
            }],
        );
        self.baseline(GROUP, "bash -c true, client crate", &times[0]);
        self.show(GROUP, "bash -c true, palisade mcp", &times[1], &times[0], CLIENT);
        let times = interleave(
            self.rounds * 10,
            &mut [
                &mut || {
                    let text = self.runtime.block_on(session.read_file("four")).unwrap();
                    assert_eq!(text.len(), 4096);
                },
                &mut || called(&mut mcp, "read_file", json!({"path": "four"})),
            ],
        );
        self.baseline(GROUP, "read_file of 4 KiB, client crate", &times[0]);
        self.show(GROUP, "read_file of 4 KiB, palisade mcp", &times[1], &times[0], CLIENT);
        mcp.end();
        let mut listed = || {
            let mut mcp = start();
            assert!(mcp.ask("tools/list", json!({}))["result"]["tools"].is_array());
            mcp.end();
        };
        let mut bare = || bare(&workspace, &self.environment);
        let times = interleave((self.rounds / 4).max(10), &mut [&mut bare, &mut listed]);
        self.show(GROUP, "start, list of tools, end", &times[1], &times[0], "bare bash -c true");
    }
}
