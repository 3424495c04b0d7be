"""Every kind of client against a server whose answers are changed at random, by a seed.

Each visit ends, with a value or a typed error, and leaves no task, descriptor or memory behind.
"""

import asyncio
import contextlib
import copy
import json
import logging
import random
import resource
import tempfile
import unittest
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import place
from test_liar import OPENED, REQUEST, RESULT, ROUNDS, SEED, WELCOME, line

import palisade

#: The structured results of tools that have one.
DATA: dict[str, Any] = {
    "glob": {"files": [{"path": "a"}, {"path": {"base64": "/w=="}}]},
    "grep": {"matches": [{"path": "a", "line": 1, "text": "t", "context": False}]},
    "list_files": {
        "entries": [{"path": "a", "kind": "symlink", "size": 1, "target": "b"}],
        "total": 1,
        "more": False,
    },
    "stat": {
        "path": "a",
        "real": "/w/a",
        "kind": "file",
        "size": 1,
        "mode": 420,
        "uid": 0,
        "gid": 0,
        "mtime": {"seconds": 1, "nanoseconds": 2},
        "target": None,
    },
    "realpath": {"real": "/w/a"},
    "bash": {
        "transaction": {
            "committed": True,
            "effects": [{"path": "a", "effect": "created", "size": 1, "size_before": 0}],
            "diff": "+a",
        }
    },
}
JOB = {"job": 1, "state": "ended", "command": "c", "call_id": "c", "output_bytes": 0, "cursor": 1}
ERROR = {"code": "not_found", "message": "m", "hint": "h", "errno": 2, "retry_after_ms": 1}
DENIAL = {"layer": "l", "rule": "r", "target": "t", "remedy": "m", "at": "", "opens": ""}
TOOL = {
    "name": "bash",
    "description": "d",
    "schema": {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/b"}, "c": {"anyOf": [{"const": 1}]}},
        "$defs": {"b": {"type": ["string", "null"], "enum": ["x"], "default": "x"}},
    },
}
#: What takes the place of a value.
ODD: tuple[Any, ...] = (
    *(None, True, -1, 10**400, 1e308, "", "\ud800", [], {}, [None]),
    *({"base64": "*"}, {"base64": "/w=="}, {"$ref": "#/$defs/b"}),
)
CALL = {"id": "c", "function": {"name": "bash", "arguments": "{}"}}


def honest(request: dict[str, Any], *, has_failed: bool) -> dict[str, Any]:
    """What an honest server answers to a request; to a call, perhaps that it has failed."""
    method, params = request["method"], request.get("params", {})
    if method == "output":
        return {"kind": "output", "data": "" if params["offset"] else "QUJD"}
    if method == "tools":
        return {"kind": "tools", "tools": [TOOL]}
    if method != "call":
        others: dict[str, dict[str, Any]] = {
            "hello": WELCOME,
            "open": OPENED,
            "register": {"kind": "registered"},
        }
        return others.get(method, {"kind": "done" if method == "close" else "answered"})
    is_job = params["tool"].startswith("job") or params["arguments"].get("background")
    data = {**JOB, "jobs": [JOB]} if is_job else DATA.get(params["tool"])
    failed = {"success": False, "error": ERROR, "denials": [DENIAL], "signal": 9}
    result = {**RESULT, "tool": params["tool"], "data": data}
    return {**result, **failed} if has_failed else result


def places(value: Any) -> list[tuple[Any, Any]]:
    """All members of a JSON value, each as its container and key."""
    found: list[tuple[Any, Any]] = []
    keys = list(value) if isinstance(value, dict) else range(len(value))
    for key in keys:
        found.append((value, key))
        if isinstance(value[key], (dict, list)):
            found += places(value[key])
    return found


def as_line(message: dict[str, Any]) -> bytes:
    """The line of a message."""
    return json.dumps(message).encode() + b"\n"


def changed(message: dict[str, Any], dice: random.Random) -> bytes:
    """The line of a message after a random change of its values or of its bytes."""
    message = copy.deepcopy(message)
    if dice.randrange(3):
        for _ in range(dice.randrange(1, 4)):
            container, key = dice.choice(places(message))
            if dice.randrange(4) == 0:
                del container[key]
                if not message:
                    break
            else:
                container[key] = copy.deepcopy(dice.choice(ODD))
        return as_line(message)
    text = bytearray(as_line(message))
    for _ in range(dice.randrange(1, 6)):
        at = dice.randrange(len(text) + 1)
        act = dice.randrange(4)
        if act == 0:
            text[at : at + 1] = bytes([dice.randrange(256)])
        elif act == 1:
            del text[at : at + dice.randrange(40)]
        elif act == 2:
            text[at:at] = dice.choice([b"null", b"{}", b"[" * 2000, b'"', b"-1", b"\n", b"\xff"])
        else:
            text[at:at] = text[: dice.randrange(200)]
    return bytes(text)


class Server:
    """A server that answers honestly, except for one message of each connection."""

    def __init__(self, dice: random.Random) -> None:
        self._dice = dice

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wrong = self._dice.randrange(7)
        number = 0
        try:
            while text := await reader.readline():
                request = json.loads(text)
                for message in self._messages(request):
                    is_wrong = number == wrong
                    writer.write(changed(message, self._dice) if is_wrong else as_line(message))
                    number += 1
                if number > wrong or request["method"] == "answer":
                    # The client may be waiting for what was changed beyond recognition.
                    return
        except ConnectionError:
            pass
        finally:
            writer.close()

    def _messages(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        if "id" not in request:
            return []
        result = honest(request, has_failed=self._dice.randrange(4) == 0)
        answer = json.loads(line(request["id"], result))
        tool = request.get("params", {}).get("tool")
        if request["method"] == "call":
            stream = "content" if tool == "read_file" else "stdout"
            event = {"event": "output", "call": request["id"], "stream": stream, "data": "QUJD"}
            return [{"jsonrpc": "2.0", "method": "event", "params": event}, answer]
        if request["method"] == "register":
            return [answer, {"jsonrpc": "2.0", "method": "event", "params": REQUEST}]
        return [answer]


async def stream(session: palisade.Session) -> None:
    call = session.bash("true")
    async for chunk in call:
        str(chunk.text)
    show(call.result)


async def job(session: palisade.Session) -> None:
    started = await session.start("true")
    await started.status()
    await started.output()
    await started.commit()
    await started.wait()
    await started.kill()


def show(result: Any) -> None:
    """Prints a result in every form."""
    for one in result if isinstance(result, list) else [result]:
        str(one), repr(one)
        if isinstance(one, palisade.Result):
            one.why(), one._repr_html_(), one.changes


#: The methods that all three kinds of session have.
COMMON: list[Callable[[Any], Any]] = [
    lambda s: s.exec("true"),
    lambda s: s.read("a"),
    lambda s: s.read_page("a", 1, 10, 1000),
    lambda s: s.write("a", b"b"),
    lambda s: s.edit("a", "b", "c"),
    lambda s: s.apply_patch("p"),
    lambda s: s.glob("*"),
    lambda s: s.grep("x"),
    lambda s: s.list(follow=True),
    lambda s: s.stat("a"),
    lambda s: s.exists("a"),
    lambda s: s.realpath("a"),
    lambda s: s.mkdir("a"),
    lambda s: s.move("a", "b"),
    lambda s: s.remove("a"),
    lambda s: s.undo("c"),
]
#: Those that an open session has besides.
OPEN: list[Callable[[Any], Any]] = [
    *COMMON,
    lambda s: s.bash("true"),
    lambda s: s.output("c"),
    lambda s: s.jobs(),
    lambda s: s.tools("openai"),
    lambda s: s.dispatch(CALL),
]


class OneChange:
    """A server that answers honestly, but changes one member of the next answer to a call."""

    def __init__(self) -> None:
        #: The number of the member, and what takes its place.
        self.change: tuple[int, Any] | None = None
        #: The number of members of the first answer since this was 0.
        self.members = 0
        #: Whether calls fail.
        self.fails = False

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while text := await reader.readline():
                request = json.loads(text)
                if "id" not in request:
                    continue
                answer = json.loads(line(request["id"], honest(request, has_failed=self.fails)))
                if request["method"] not in ("hello", "open", "close"):
                    found = places(answer["result"])
                    self.members = self.members or len(found)
                    change, self.change = self.change, None
                    if change is not None:
                        container, key = found[change[0]]
                        container[key] = change[1]
                writer.write(as_line(answer))
        except ConnectionError:
            pass
        finally:
            writer.close()


class Mutations(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        asyncio.get_running_loop().set_debug(False)
        logging.disable(logging.CRITICAL)
        self.addCleanup(logging.disable, logging.NOTSET)
        self.dice = random.Random(SEED)

    async def try_all(self, visit: Callable[[str], Awaitable[Any]]) -> None:
        """Makes visits to a server that lies; each must end with a value or a typed error."""
        with tempfile.TemporaryDirectory() as directory:
            path = str(Path(directory) / "s")
            server = await asyncio.start_unix_server(Server(self.dice).serve, path)
            # What is made once is made now.
            with contextlib.suppress(palisade.Error):
                await visit(path)
            before = place.descriptors(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            outcomes = {True: 0, False: 0}
            for number in range(ROUNDS):
                try:
                    await asyncio.wait_for(visit(path), place.PATIENCE)
                    outcomes[True] += 1
                except palisade.Error as error:
                    str(error)
                    outcomes[False] += 1
                except Exception as error:
                    raise AssertionError(f"visit {number} of seed {SEED}: {error!r}") from error
            others = asyncio.all_tasks() - {asyncio.current_task()}
            if others:
                await asyncio.wait(others, timeout=place.PATIENCE)
            await place.settled(lambda: place.descriptors() <= before[0])
            self.assertEqual(asyncio.all_tasks(), {asyncio.current_task()})
            server.close()
        # Both kinds of visits were made: the changes neither always nor never matter.
        self.assertGreater(min(outcomes.values()), ROUNDS // 20, outcomes)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before[1]
        self.assertLess(grown, 20_000, "KiB")

    async def test_every_member_of_every_answer_is_checked(self) -> None:
        server = OneChange()
        with tempfile.TemporaryDirectory() as directory:
            path = str(Path(directory) / "s")
            listening = await asyncio.start_unix_server(server.serve, path)
            async with palisade.session("/w", socket=path) as session:
                for number, work in enumerate([*OPEN, job, OPEN[0]]):
                    # The last of them is a call that fails.
                    server.fails = number > len(OPEN)
                    server.members = 0
                    with contextlib.suppress(palisade.NotFound):
                        show(await work(session))
                    # What all results have in common is changed once.
                    first = 0 if number == 0 or server.fails else len(RESULT) + 1
                    for member in range(first, server.members):
                        for odd in ODD:
                            server.change = member, odd
                            try:
                                show(await asyncio.wait_for(work(session), place.PATIENCE))
                            except palisade.Error:
                                pass
                            except Exception as error:
                                what = f"method {number}, member {member}, {str(odd)[:20]!r}"
                                raise AssertionError(what) from error
                            server.change = None
                server.fails = False
                self.assertEqual((await session.exec("true")).code, 0)
            listening.close()

    async def test_a_session(self) -> None:
        async def visit(path: str) -> None:
            async with palisade.session("/w", socket=path) as session:
                work = self.dice.choice([*OPEN, stream, job])
                show(await work(session))

        await self.try_all(visit)

    async def test_a_blocking_session(self) -> None:
        def work(path: str) -> None:
            with palisade.session("/w", socket=path) as session:
                dice = self.dice.randrange(len(OPEN) + 2)
                if dice < len(OPEN):
                    show(OPEN[dice](session))
                elif dice == len(OPEN):
                    list(session.stream("true"))
                else:
                    session.start("true").wait()

        await self.try_all(lambda path: asyncio.to_thread(work, path))

    async def test_a_session_on_demand(self) -> None:
        async def visit(path: str) -> None:
            session = palisade.OnDemandSession("/w", socket=path)
            try:
                works = [self.dice.choice(COMMON)(session) for _ in range(2)]
                for one in await asyncio.gather(*works, return_exceptions=True):
                    if isinstance(one, BaseException):
                        raise one
                    show(one)
            finally:
                await session.close()

        await self.try_all(visit)

    async def test_an_approver(self) -> None:
        async def decide(request: palisade.ApprovalRequest) -> bool:
            return "never" not in str(request) + request._repr_html_() + repr(request)

        await self.try_all(lambda path: palisade.approver(decide).serve(path))


if __name__ == "__main__":
    unittest.main()
