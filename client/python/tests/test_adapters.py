"""The adapters stay thin, and what they have in common is in the core."""

import ast
import asyncio
import os
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import place

import palisade
from palisade import adapters

#: The most lines of a module, without blank lines, comments, documentation and imports.
MOST = 50


def code_lines(source: str) -> int:
    """The number of lines that are neither blank nor comment, documentation or import."""
    left = {
        number
        for number, line in enumerate(source.splitlines(), 1)
        if line.strip() and not line.strip().startswith("#")
    }
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and not isinstance(node.value, ast.Constant):
            continue
        if isinstance(node, (ast.Expr, ast.Import, ast.ImportFrom)):
            left -= set(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    return len(left)


class Adapters(place.Test):
    def test_no_adapter_is_longer_than_fifty_lines(self) -> None:
        self.assertEqual(code_lines('"""Text."""\nimport os\n\n# Why.\nx = 1\n'), 1)
        modules = list(Path(adapters.__path__[0]).glob("*.py"))
        self.assertGreater(len(modules), 5)
        for module in modules:
            self.assertLessEqual(code_lines(module.read_text()), MOST, module.name)

    async def test_a_session_is_opened_by_its_first_use_and_once(self) -> None:
        (self.workspace / "file").write_text("text")
        session = palisade.OnDemandSession(self.workspace, "autonomous", private=True)
        self.assertIsNone(session.opened)
        read = await asyncio.gather(*(session.read("file") for _ in range(10)))
        self.assertEqual(read, [b"text"] * 10)
        opened = session.opened
        assert opened is not None
        self.assertIs(await session.session(), opened)
        self.assertEqual((await session.exec("echo on")).stdout, b"on\n")
        await session.close()
        with self.assertRaises(palisade.Disconnected):
            await session.read("file")

    async def test_one_that_can_not_be_opened_is_tried_again(self) -> None:
        later = self.directory / "later"
        session = palisade.OnDemandSession(later, "autonomous", private=True)
        with self.assertRaises(palisade.Error):
            await session.read("file")
        self.assertIsNone(session.opened)
        later.mkdir()
        (later / "file").write_text("text")
        self.assertEqual(await session.read("file"), b"text")
        await session.close()

    async def test_a_temporary_workspace_is_deleted_with_its_session(self) -> None:
        temporary = self.directory / "temporary"
        temporary.mkdir()
        with mock.patch.object(tempfile, "tempdir", str(temporary)):
            async with palisade.session(None, "autonomous", private=True) as session:
                await session.write("dir/file", "text")
                self.assertTrue(os.path.exists(os.path.join(session.workspace, "dir/file")))
            self.assertEqual(list(temporary.iterdir()), [])
            with self.assertRaises(palisade.ProfileNotFound):
                async with palisade.session(None, "no-such-profile", private=True):
                    pass
            self.assertEqual(list(temporary.iterdir()), [])


if __name__ == "__main__":
    unittest.main()
