"""The options for the Claude Agent SDK are accepted, and the server that they name answers."""

import json
import subprocess
import tempfile

from claude_agent_sdk import ClaudeAgentOptions

from palisade.adapters.claude_agent import options


def test_the_options_are_accepted_and_their_server_answers():
    with tempfile.TemporaryDirectory() as workspace:
        made = ClaudeAgentOptions(**options(workspace, "workspace"))
        assert made.tools == [] and made.strict_mcp_config
        server = made.mcp_servers["palisade"]
        hello = {"protocolVersion": "2025-06-18", "capabilities": {}}
        hello["clientInfo"] = {"name": "test", "version": "1"}
        lines = [
            {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
            {"jsonrpc": "2.0", "method": "notifications/initialized"},
            {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
        ]
        server_process = subprocess.Popen(
            [server["command"], *server["args"]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        server_process.stdin.write("".join(json.dumps(line) + "\n" for line in lines))
        server_process.stdin.flush()
        answers = [json.loads(server_process.stdout.readline()) for _ in range(2)]
        server_process.communicate()
        names = {tool["name"] for tool in answers[1]["result"]["tools"]}
        assert {"bash", "read_file", "edit"} <= names
