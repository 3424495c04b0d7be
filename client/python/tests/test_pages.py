"""The examples of the pages are executed."""

import ast
import contextlib
import inspect
import io
import json
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
    names = (
        "README.md",
        "docs/python.md",
        "client/python/README.md",
        "client/python/example.ipynb",
    )
    beside = [root / name for name in names]
    return [Path(one) for one in staged.split(":")] if staged else beside


async def run_cell(source: str, names: dict[str, Any]) -> Any:
    """What a notebook shows of a cell: the value of its last expression."""
    statements = ast.parse(source).body
    last = statements.pop() if isinstance(statements[-1], ast.Expr) else None
    parts: list[tuple[Any, str]] = [(ast.Module(statements, []), "exec")]
    parts += [(ast.Expression(last.value), "eval")] if isinstance(last, ast.Expr) else []
    shown = None
    for part, mode in parts:
        code = compile(part, "cell", mode, flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        shown = eval(code, names)
        if inspect.iscoroutine(shown):
            shown = await shown
    return shown


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
        for page in (one for one in pages() if one.suffix == ".md"):
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

    async def test_the_notebook_runs(self) -> None:
        (notebook,) = [page for page in pages() if page.suffix == ".ipynb"]
        cells = json.loads(notebook.read_text())["cells"]
        names: dict[str, Any] = {}
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            code = [one["source"] for one in cells if one["cell_type"] == "code"]
            shown = [await run_cell(source, names) for source in code]
        self.assertIn("hello", shown[1]._repr_html_())
        self.assertEqual(shown[2:5], ["one\ntwo\n", ("deleted", True), True])
        self.assertEqual(said.getvalue(), "1\n2\n3\n")
        self.assertFalse(os.path.exists(names["session"].workspace))


if __name__ == "__main__":
    unittest.main()
