"""Calls of the executor and the editor, as the runner of the OpenAI Agents SDK makes them.

The SDK has no suite for executors.
"""

import asyncio
import tempfile
from pathlib import Path

from agents import ShellActionRequest, ShellCallData, ShellCommandRequest, ShellTool
from agents.editor import ApplyPatchEditor, ApplyPatchOperation
from agents.run_context import RunContextWrapper
from settings import place

import palisade
from palisade.adapters.openai_agents import PalisadeEditor, PalisadeShell


def visit(work):
    async def go():
        with place(), tempfile.TemporaryDirectory() as directory:
            async with palisade.session(directory, "autonomous", private=True) as session:
                await work(session, Path(directory))

    asyncio.run(go())


def test_shell_commands_are_run_in_order_and_time_out():
    async def work(session, directory):
        shell = ShellTool(executor=PalisadeShell(session))
        action = ShellActionRequest(["echo one > a", "cat a; exit 3", "sleep 100"], timeout_ms=3000)
        data = ShellCallData("c", action)
        result = await shell.executor(ShellCommandRequest(RunContextWrapper(None), data))
        found = [(one.stdout, one.exit_code) for one in result.output[:2]]
        assert found == [("", 0), ("one\n", 3)]
        assert result.output[2].status == "timeout"

    visit(work)


def test_the_editor_creates_updates_moves_and_deletes():
    async def work(session, directory):
        editor = PalisadeEditor(session)
        assert isinstance(editor, ApplyPatchEditor)
        done = await editor.create_file(ApplyPatchOperation("create_file", "a", "+one\n+two"))
        assert done.status == "completed" and (directory / "a").read_text() == "one\ntwo"
        diff = "@@\n-two\n+2"
        await editor.update_file(ApplyPatchOperation("update_file", "a", diff, None, "b"))
        assert (directory / "b").read_text() == "one\n2" and not (directory / "a").exists()
        again = await editor.create_file(ApplyPatchOperation("create_file", "b", "+x"))
        assert again.status == "failed"
        await editor.delete_file(ApplyPatchOperation("delete_file", "b"))
        assert not (directory / "b").exists()

    visit(work)
