"""The client against a server that lies: a typed error, no hang, no growth."""

import asyncio
import contextlib
import json
import os
import random
import resource
import tempfile
import unittest
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any
from unittest import mock

import palisade
from palisade import approvals, link, methods
from palisade.limits import MAX_FRAME

WELCOME = {"kind": "welcome", "version": 1, "server": "liar 1", "capabilities": []}
RECEIPT: dict[str, Any] = {}
OPENED = {
    "kind": "opened",
    "session": "s",
    "workspace": "/w",
    "receipt": RECEIPT,
    "limits": {"max_timeout_ms": 600_000},
}
RESULT = {
    "kind": "result",
    "call_id": "c",
    "tool": "bash",
    "success": True,
    "output": "",
    "truncated": False,
    "lossy": False,
    "execution_time_ms": 0,
    "error": None,
    "stdout": "",
    "stderr": "",
    "exit_code": 0,
    "signal": None,
    "timed_out": False,
    "cancelled": False,
    "oom": False,
    "pipe_held": False,
    "omitted_bytes": 0,
    "spool": None,
    "data": None,
    "undo": None,
    "findings": [],
    "denials": [],
    "checkpoint": None,
    "route": None,
    "receipt_digest": "d",
    "receipt": RECEIPT,
}
REQUEST: dict[str, Any] = {
    "event": "approval_request",
    "id": "q",
    "digest": "d",
    "review": "input",
    "tool": "bash",
    "arguments": {},
    "why": "w",
    "reason": None,
    "cwd": "/",
    "asker": {},
    "findings": [],
    "view": {},
    "output": None,
    "scopes": [],
    "prefix": [],
    "remember_ms": 0,
    "quorum": 1,
    "approved_by": [],
    "expires_in_ms": 1000,
}
Answer = Callable[[asyncio.StreamWriter, dict[str, Any]], Awaitable[None]]
SEED = int(os.environ.get("PALISADE_SEED", "1"))
ROUNDS = 3000 if os.environ.get("PALISADE_LONG") else 100


Work = Callable[[palisade.Session], Awaitable[Any]]


async def run_true(session: palisade.Session) -> palisade.Completed:
    return await session.exec("true")


def line(number: Any, result: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": number, "result": result}).encode() + b"\n"


class Liar(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        # The checks of asyncio's debug mode take most of the time here.
        asyncio.get_running_loop().set_debug(False)

    async def visit(self, answer: Answer, work: Work = run_true, ask: Any = None) -> Any:
        """What becomes of some work if calls, and requests for stored output, are answered so."""

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while text := await reader.readline():
                    request = json.loads(text)
                    usual = {"hello": WELCOME, "open": OPENED}.get(request["method"])
                    if usual is not None:
                        writer.write(line(request["id"], usual))
                    elif request["method"] == "call":
                        await answer(writer, request)
                    elif request["method"] == "output":
                        writer.write(line(request["id"], ask))
                    elif request["method"] == "close":
                        writer.write(line(request["id"], {"kind": "done"}))
            except ConnectionError:
                pass
            finally:
                writer.close()

        with tempfile.TemporaryDirectory() as directory:
            path = str(Path(directory) / "s")
            server = await asyncio.start_unix_server(serve, path)
            try:
                async with palisade.session("/w", socket=path) as session:
                    return await asyncio.wait_for(work(session), 60)
            finally:
                server.close()

    async def fails(self, what: bytes | Answer, kind: type[BaseException]) -> None:
        async def say(writer: asyncio.StreamWriter, request: dict[str, Any]) -> None:
            assert isinstance(what, bytes)
            writer.write(what)

        with self.assertRaises(kind):
            await self.visit(say if isinstance(what, bytes) else what)

    async def test_an_honest_answer_is_understood(self) -> None:
        async def answer(writer: asyncio.StreamWriter, request: dict[str, Any]) -> None:
            writer.write(line(request["id"], RESULT))

        self.assertEqual(await self.visit(answer), (0, b"", b""))

    async def test_nonsense_is_a_protocol_error(self) -> None:
        for what in (
            b"\n",
            b"no json\n",
            b"\xff\xfe\n",
            b"[]\n",
            b"5\n",
            b"{}\n",
            b'{"id": "3", "result": {}}\n',
            b'{"id": null, "result": {}}\n',
            b'{"method": "event"}\n',
            b'{"method": "event", "params": {"event": 5}}\n',
            b'{"method": "event", "params": {"event": "output", "call": 3, "stream": "stdout"}}\n',
            b'{"method": "event", "params": {"event": "output", "call": 3, "stream": "stdout",'
            b'"data": "*"}}\n',
            b"[" * 100_000 + b"\n",
            b'{"id": ' + b"9" * 10_000 + b"}\n",
            b"x" * (MAX_FRAME + 2),
        ):
            await self.fails(what, palisade.ProtocolError)

    async def test_every_field_of_a_result_is_checked(self) -> None:
        free = {"kind", "data", "spool", "undo", "route", "signal", "error", "checkpoint"}
        for field in RESULT.keys() - free:

            async def answer(
                writer: asyncio.StreamWriter, request: dict[str, Any], field: str = field
            ) -> None:
                wrong = {**RESULT, field: {"x": [1]} if field != "receipt" else 5}
                writer.write(line(request["id"], wrong))

            await self.fails(answer, palisade.ProtocolError)

    async def test_an_end_is_told(self) -> None:
        async def leave(writer: asyncio.StreamWriter, request: dict[str, Any]) -> None:
            writer.write(b'{"id": 3, "resu')
            writer.close()

        await self.fails(leave, palisade.Disconnected)
        refusal = {"code": -1, "message": "m", "data": {"code": "shutting_down", "hint": ""}}
        text = json.dumps({"id": None, "error": refusal}).encode() + b"\n"
        await self.fails(text, palisade.ShuttingDown)

    async def test_silence_ends_with_the_caller_s_patience(self) -> None:
        async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read()
            writer.close()

        before, link.HANDSHAKE = link.HANDSHAKE, 0.1
        with tempfile.TemporaryDirectory() as directory:
            path = str(Path(directory) / "s")
            server = await asyncio.start_unix_server(silent, path)
            try:
                with self.assertRaises(palisade.ProtocolError):
                    await palisade.Client.connect(path)
            finally:
                link.HANDSHAKE = before
                server.close()

        async def nothing(writer: asyncio.StreamWriter, request: dict[str, Any]) -> None:
            pass

        with self.assertRaises(asyncio.TimeoutError):
            await asyncio.wait_for(self.visit(nothing), 0.2)

    async def test_what_nobody_asked_for_is_dropped(self) -> None:
        async def flood(writer: asyncio.StreamWriter, request: dict[str, Any]) -> None:
            number = request["id"]
            event = {
                "event": "output",
                "call": number + 1,
                "stream": "stdout",
                "data": "QUJD" * 5000,
            }
            noise = json.dumps({"method": "event", "params": event}).encode() + b"\n"
            for n in range(1500):
                writer.write(noise + line(number + 1000 + n, RESULT))
                await writer.drain()
            writer.write(line(number, RESULT))

        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        self.assertEqual(await self.visit(flood), (0, b"", b""))
        # It was 30 MB; what is kept is a few messages at most.
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        self.assertLess(grown, 20_000, "KiB")

    async def test_what_never_ends_is_given_up(self) -> None:
        async def pour(writer: asyncio.StreamWriter, request: dict[str, Any]) -> None:
            stream = "content" if request["params"]["tool"] == "read_file" else "stdout"
            event = {"event": "output", "call": request["id"], "stream": stream}
            event["data"] = "QUJD" * 5000
            noise = json.dumps({"method": "event", "params": event}).encode() + b"\n"
            # The call itself is never answered.
            for _ in range(100):
                writer.write(noise)
                await writer.drain()

        async def page(writer: asyncio.StreamWriter, request: dict[str, Any]) -> None:
            entry = {"path": "x", "kind": "file", "size": 0, "target": None}
            data = {"entries": [entry] * 1000, "total": 10**9, "more": True}
            writer.write(line(request["id"], {**RESULT, "data": data}))

        most = 100_000
        stored = {"kind": "output", "data": "QUJD" * 5000}
        with self.assertRaises(palisade.OutputLimit):
            await self.visit(pour, lambda session: session.exec("true", limit=most))
        with self.assertRaises(palisade.TooLarge):
            await self.visit(pour, lambda session: session.read("x", limit=most))
        with self.assertRaises(palisade.TooLarge):
            await self.visit(pour, lambda session: session.output("x", limit=most), stored)
        with (
            mock.patch.object(methods, "MAX_ENTRIES", most),
            self.assertRaises(palisade.TooLarge),
        ):
            await self.visit(page, lambda session: session.list())

    async def test_too_many_approval_requests_end_the_connection(self) -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            for kind in ("welcome", "registered"):
                number = json.loads(await reader.readline())["id"]
                writer.write(line(number, {**WELCOME, "kind": kind}))
            message = {"jsonrpc": "2.0", "method": "event", "params": REQUEST}
            writer.write(b"".join([json.dumps(message).encode() + b"\n"] * 30))
            await reader.read()
            writer.close()

        asked = []

        async def decide(request: palisade.ApprovalRequest) -> bool:
            asked.append(request.id)
            await asyncio.Event().wait()
            return True

        with (
            tempfile.TemporaryDirectory() as directory,
            mock.patch.object(approvals, "_MAX_REQUESTS", 20),
        ):
            path = str(Path(directory) / "s")
            server = await asyncio.start_unix_server(serve, path)
            await asyncio.wait_for(palisade.approver(decide).serve(path), 60)
            server.close()
        self.assertLessEqual(len(asked), 20)

    async def test_random_changes_of_an_answer_end_in_a_result_or_a_typed_error(self) -> None:
        dice = random.Random(SEED)
        whole = line(3, RESULT)

        async def spoiled(writer: asyncio.StreamWriter, request: dict[str, Any]) -> None:
            text = bytearray(whole)
            for _ in range(dice.randrange(1, 6)):
                at = dice.randrange(len(text))
                act = dice.randrange(3)
                if act == 0:
                    text[at] = dice.randrange(256)
                elif act == 1:
                    del text[at : at + dice.randrange(40)]
                else:
                    text[at:at] = dice.choice([b"null", b"{}", b"[", b'"', b"-1", b"\n", b"true"])
            writer.write(bytes(text))
            writer.close()

        for _ in range(ROUNDS):
            with contextlib.suppress(palisade.Error):
                await self.visit(spoiled)


if __name__ == "__main__":
    unittest.main()
