"""The OpenAI Agents SDK on the adapter, with its own runner and a model that follows a script.

The SDK has no suite for executors.
"""

import asyncio
import os
import tempfile
from pathlib import Path

from agents import Agent, ApplyPatchTool, RunConfig, Runner, ShellTool
from agents.editor import ApplyPatchEditor, ApplyPatchOperation
from agents.testing import ScriptedModel, assistant_message
from openai.types.responses import ResponseApplyPatchToolCall, ResponseFunctionShellToolCall
from settings import OPTIONS, PROFILE, SETTING, place

import palisade
from palisade.adapters.openai_agents import PalisadeEditor, PalisadeShell


def visit(work):
    async def go():
        with place(), tempfile.TemporaryDirectory() as name:
            directory = Path(name)
            (directory / "kept").write_text("theirs\n")
            async with palisade.session(directory, PROFILE, **OPTIONS) as session:
                await work(session, directory)

    asyncio.run(go())


def shell(number, commands, **limits):
    action = {"commands": commands, "timeout_ms": None, "max_output_length": None, **limits}
    return ResponseFunctionShellToolCall(
        id=f"s{number}", call_id=number, type="shell_call", status="completed", action=action
    )


def patch(number, **operation):
    return ResponseApplyPatchToolCall(
        id=f"p{number}",
        call_id=number,
        type="apply_patch_call",
        status="completed",
        operation=operation,
    )


async def told(session, steps):
    """What a model that makes these calls is told of each."""
    script = [[call] for call in steps] + [[assistant_message("done")]]
    model = ScriptedModel(script)
    tools = [
        ShellTool(executor=PalisadeShell(session)),
        ApplyPatchTool(editor=PalisadeEditor(session)),
    ]
    agent = Agent("test", model=model, tools=tools)
    run = await Runner.run(agent, "do it", run_config=RunConfig(tracing_disabled=True))
    assert run.final_output == "done"
    outputs = [one for one in model.calls[-1].input if one.get("type", "").endswith("_call_output")]
    assert len(outputs) == len(steps)
    return outputs


def test_shell_calls_of_a_model_run_in_order_and_time_out():
    async def work(session, directory):
        steps = [
            shell("1", ["echo one > a", "cat a; echo no >&2; exit 3"]),
            shell("2", ["sleep 100"], timeout_ms=3000),
            shell("3", ["seq 10000"], max_output_length=100),
            shell("4", ["cat /root/.bashrc /etc/shadow"]),
        ]
        outputs = await told(session, steps)
        first, second = outputs[0]["output"]
        assert (first["stdout"], first["outcome"]) == ("", {"type": "exit", "exit_code": 0})
        assert (second["stdout"], second["stderr"]) == ("one\n", "no\n")
        assert second["outcome"] == {"type": "exit", "exit_code": 3}
        assert outputs[1]["output"][0]["outcome"]["type"] == "timeout"
        assert len(outputs[2]["output"][0]["stdout"]) <= 100
        assert outputs[3]["output"][0]["stdout"] == ""
        assert (directory / "a").read_text() == "one\n"

    visit(work)


def test_patches_of_a_model_create_update_and_delete():
    async def work(session, directory):
        steps = [
            patch("1", type="create_file", path="dir/a", diff="+one\n+two\n"),
            patch("2", type="update_file", path="dir/a", diff="@@\n-two\n+2\n"),
            patch("3", type="create_file", path="dir/a", diff="+x"),
            patch("4", type="update_file", path="dir/a", diff="@@\n-nowhere\n+2\n"),
            patch("5", type="update_file", path="missing", diff="@@\n-a\n+b\n"),
            patch("6", type="create_file", path="/etc/made", diff="+x"),
            shell("7", ["cat dir/a"]),
            patch("8", type="delete_file", path="dir/a"),
        ]
        outputs = await told(session, steps)
        assert [one.get("status", "completed") for one in outputs] == [
            *("completed", "completed"),
            *("failed", "failed", "failed", "failed"),
            *("completed", "completed"),
        ]
        # The SDK makes a file without a newline at its end.
        assert outputs[6]["output"][0]["stdout"] == "one\n2"
        assert not (directory / "dir/a").exists() and not os.path.exists("/etc/made")

    visit(work)


def test_a_loss_is_judged_and_the_model_is_told():
    async def work(session, directory):
        steps = [shell("1", ["rm kept"]), patch("2", type="delete_file", path="kept")]
        first, second = await told(session, steps)
        # Undo restores what `autonomous` deletes. In `workspace` an approver must agree.
        is_allowed = SETTING != "unattended"
        assert (directory / "kept").exists() != is_allowed
        said = first["output"][0]
        assert ("no approver is connected" in said["stderr"]) != is_allowed, said
        assert said["outcome"]["exit_code"] == (0 if is_allowed else 126)
        # If the first has deleted it, the second finds nothing.
        assert second["status"] == "failed"
        expected = "not_found" if is_allowed else "no approver is connected"
        assert expected in second["output"], second

    visit(work)


def test_the_editor_moves():
    async def work(session, directory):
        editor = PalisadeEditor(session)
        assert isinstance(editor, ApplyPatchEditor)
        move = ApplyPatchOperation("update_file", "kept", "@@\n-theirs\n+ours", None, "dir/b")
        assert (await editor.update_file(move)).status == "completed"
        assert (directory / "dir/b").read_text() == "ours\n"
        assert not (directory / "kept").exists()

    if SETTING != "unattended":
        visit(work)
