"""The examples of the pages are executed."""

import contextlib
import io
import os
import re
import textwrap
import types
import unittest
from pathlib import Path
from typing import Any

import place


def pages() -> list[Path]:
    """The pages with examples."""
    staged = os.environ.get("PALISADE_PAGES")
    root = Path(__file__).resolve().parents[3]
    beside = [root / "docs" / "python.md", root / "client" / "python" / "README.md"]
    return [Path(one) for one in staged.split(":")] if staged else beside


class Model:
    """A model that asks for one command, and then has an answer."""

    def __init__(self) -> None:
        self.chat = types.SimpleNamespace(completions=self)
        self.heard: list[Any] = []

    def create(self, model: str, messages: list[Any], tools: list[Any]) -> Any:
        self.heard = list(messages)
        function = types.SimpleNamespace(name="bash", arguments='{"command": "echo $((6 * 7))"}')
        call = types.SimpleNamespace(id="c1", function=function)
        asks = len(messages) == 1
        message = types.SimpleNamespace(tool_calls=[call] if asks else None, content="done")
        return types.SimpleNamespace(choices=[types.SimpleNamespace(message=message)])


class Pages(place.Test):
    async def test_the_examples_run(self) -> None:
        self.addCleanup(os.chdir, "/")
        model = Model()
        count = 0
        for page in pages():
            for block in re.findall(r"^```python\n(.*?)^```", page.read_text(), re.M | re.S):
                project = self.workspace / str(count)
                project.mkdir()
                (project / "Makefile").write_text("test watch:\n\t@echo tested\n")
                os.chdir(project)
                code = block.replace("/home/you/project", str(project))
                source = f"async def example():\n{textwrap.indent(code, '    ')}"
                names: dict[str, Any] = {"client": model}
                exec(compile(source, str(page), "exec"), names)
                said = io.StringIO()
                with contextlib.redirect_stdout(said):
                    await names["example"]()
                count += 1
                self.assertNotIn("Error (", said.getvalue())
        self.assertGreaterEqual(count, 6)
        self.assertEqual(model.heard[-1]["content"], "42\n[exit 0]")
        self.assertEqual(list(self.workspace.glob("*/scratch")), [])


if __name__ == "__main__":
    unittest.main()
