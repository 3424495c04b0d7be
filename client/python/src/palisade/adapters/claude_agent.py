"""Claude Agent SDK: options that replace the built-in tools by those of a session."""

from __future__ import annotations

import os
from typing import Any

from palisade import locate


def options(workspace: str | os.PathLike[str] = ".", profile: str | None = None) -> dict[str, Any]:
    """Returns arguments for `ClaudeAgentOptions(**options(...))`.

    The built-in tools are switched off, and servers that are configured elsewhere are ignored: only
    what goes through Palisade is confined.
    """
    arguments = ["mcp", "--workspace", os.path.abspath(workspace)]
    arguments += [] if profile is None else ["--profile", profile]
    server = {"type": "stdio", "command": locate.program("palisade"), "args": arguments}
    return {
        "tools": [],
        "strict_mcp_config": True,
        "setting_sources": [],
        "mcp_servers": {"palisade": server},
        "allowed_tools": ["mcp__palisade"],
    }
