"""Tool definitions for models, and a loop over a model's tool calls."""

import json
import subprocess
import types
import unittest

import place


class Models(place.Test):
    async def test_definitions_are_those_of_the_command_line(self) -> None:
        async with self.opening() as session:
            for form in ("openai", "anthropic"):
                command = [place.program("palisade"), "tools", "--format", form]
                printed = subprocess.run(command, check=True, capture_output=True).stdout
                self.assertEqual(await session.tools(form), json.loads(printed))
            one = await session.tools("mcp", ["Bash"])
            self.assertEqual([tool["name"] for tool in one], ["bash"])

    async def test_tool_calls_are_made_and_answered(self) -> None:
        async with self.opening() as session:
            call = {
                "id": "call_1",
                "type": "function",
                "function": {"name": "bash", "arguments": '{"command": "echo hi; exit 2"}'},
            }
            expected = {"role": "tool", "tool_call_id": "call_1", "content": "hi\n[exit 2]"}
            self.assertEqual(await session.dispatch(call), expected)
            block = types.SimpleNamespace(
                type="tool_use", id="t1", name="Read", input={"file_path": "nothing"}
            )
            answer = await session.dispatch(block)
            self.assertEqual((answer["tool_use_id"], answer["is_error"]), ("t1", True))
            self.assertIn("Error (not_found): ", answer["content"])
            item = {
                "type": "function_call",
                "id": "fc_1",
                "call_id": "call_2",
                "name": "grep",
                "arguments": '{"pattern": "nowhere"}',
            }
            expected = {"type": "function_call_output", "call_id": "call_2", "output": "[no match]"}
            self.assertEqual(await session.dispatch(item), expected)
            for name, arguments in (
                ("bash", "{no json"),
                ("bash", "[]"),
                ("bahs", "{}"),
                ("bash", '{"command": 5}'),
            ):
                call = {"id": "c", "function": {"name": name, "arguments": arguments}}
                answer = await session.dispatch(call)
                self.assertEqual(answer["role"], "tool")
                self.assertRegex(answer["content"], "JSON|bash|command")


if __name__ == "__main__":
    unittest.main()
