"""The Claude Agent SDK with the adapter's options, and a model that follows a script.

The SDK starts its own agent program, which starts the server that the options name. The model is a
server on loopback.
"""

import asyncio
import http.server
import json
import os
import tempfile
import threading
from pathlib import Path

from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, query
from settings import PROFILE, SETTING

from palisade.adapters.claude_agent import options

USAGE = {"input_tokens": 1, "output_tokens": 1}


class Model(http.server.ThreadingHTTPServer):
    """A model that makes these calls, one after another. Notes what it is offered and told."""

    def __init__(self, steps):
        super().__init__(("127.0.0.1", 0), Handler)
        self.steps = steps
        self.offered = set()
        self.told = []

    def __enter__(self):
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    def next(self, request):
        """The next block of the model's message."""
        tools = [tool["name"] for tool in request.get("tools", [])]
        if not tools:
            return {"type": "text", "text": "ok"}
        self.offered |= set(tools)
        parts = [
            part
            for message in request["messages"]
            if isinstance(message["content"], list)
            for part in message["content"]
            if part["type"] == "tool_result"
        ]
        self.told = [json.dumps(part["content"]) for part in parts]
        if len(parts) == len(self.steps):
            return {"type": "text", "text": "done"}
        name, arguments = self.steps[len(parts)]
        return {"type": "tool_use", "id": f"c{len(parts)}", "name": name, "input": arguments}


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        block = {} if "count_tokens" in self.path else self.server.next(request)
        end = "tool_use" if block.get("type") == "tool_use" else "end_turn"
        message = {"id": "m", "type": "message", "role": "assistant", "model": "scripted"}
        if request.get("stream"):
            body = "".join(self.events(message, block, end))
        else:
            body = json.dumps({**message, "content": [block], "stop_reason": end, "usage": USAGE})
        self.send_response(200)
        kind = "text/event-stream" if request.get("stream") else "application/json"
        self.send_header("content-type", kind)
        self.end_headers()
        self.wfile.write(body.encode())

    def events(self, message, block, end):
        if block["type"] == "text":
            start, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
        else:
            start = {**block, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
        message = {**message, "content": [], "stop_reason": None, "usage": USAGE}
        for event in (
            {"type": "message_start", "message": message},
            {"type": "content_block_start", "index": 0, "content_block": start},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": end, "stop_sequence": None},
                "usage": USAGE,
            },
            {"type": "message_stop"},
        ):
            yield f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"

    def log_message(self, *_):
        pass


async def converse(model, workspace, home):
    """The last message of a conversation with the model."""
    environment = {
        "ANTHROPIC_BASE_URL": f"http://127.0.0.1:{model.server_port}",
        "ANTHROPIC_API_KEY": "none",
        "DISABLE_AUTOUPDATER": "1",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "HOME": home,
        "XDG_STATE_HOME": f"{home}/state",
    }
    made = ClaudeAgentOptions(
        **options(workspace, PROFILE), cwd=workspace, env=environment, max_turns=20
    )
    last = None
    async for message in query(prompt="do it", options=made):
        last = message
    return last


def test_the_tools_of_an_agent_are_those_of_a_session():
    with tempfile.TemporaryDirectory() as workspace, tempfile.TemporaryDirectory() as home:
        kept = Path(workspace) / "kept"
        kept.write_text("theirs\n")
        secret = Path(home) / "secret"
        secret.write_text("hidden")
        steps = [
            ("mcp__palisade__bash", {"command": "echo $((6 * 7)) > made; cat made"}),
            ("mcp__palisade__edit", {"path": "made", "old_string": "42", "new_string": "43"}),
            ("mcp__palisade__read_file", {"path": str(secret)}),
            ("mcp__palisade__bash", {"command": "rm kept"}),
            # The agent's own tools are switched off.
            ("Bash", {"command": f"touch {home}/outside"}),
        ]
        with Model(steps) as model:
            last = asyncio.run(converse(model, workspace, home))
        assert isinstance(last, ResultMessage) and last.result == "done", last
        # The placeholder belongs to the agent's search for tools, and does nothing.
        others = {name for name in model.offered if not name.startswith("mcp__palisade__")}
        assert others <= {"DeferredToolPlaceholder"}, others
        assert {"mcp__palisade__bash", "mcp__palisade__read_file"} <= model.offered
        assert "42" in model.told[0] and (Path(workspace) / "made").read_text() == "43\n"
        assert "not_found" in model.told[2] and "hidden" not in model.told[2], model.told[2]
        # Undo restores what `autonomous` deletes. In `workspace` an approver must agree.
        assert kept.exists() == (SETTING != "autonomous"), model.told[3]
        assert not os.path.exists(f"{home}/outside"), model.told[4]
