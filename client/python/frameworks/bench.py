"""Times of a session, of subprocess and of the frameworks' local sandboxes, interleaved in one run.

    bench.py [ROUNDS]

Prints medians, and the median of each round's ratio to the session. None of the local sandboxes
confines anything. A framework that is not installed is left out.
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from settings import place

import palisade

ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 200
DATA = b"x" * 4096
Case = Callable[[], Awaitable[object]]


class Host:
    """No sandbox: asyncio's subprocesses, and files as Python opens them."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    async def run(self) -> None:
        process = await asyncio.create_subprocess_exec("true", stdout=subprocess.PIPE)
        await process.communicate()

    async def read(self) -> None:
        (self.directory / "file").read_bytes()

    async def write(self) -> None:
        (self.directory / "host").write_bytes(DATA)


class Confined:
    """A session of Palisade's."""

    def __init__(self, session: palisade.Session) -> None:
        self.session = session

    async def run(self) -> None:
        await self.session.exec(["true"])

    async def read(self) -> None:
        await self.session.read("file")

    async def write(self) -> None:
        await self.session.write("written", DATA)


class Inspect:
    """Inspect's sandbox environment `local`."""

    def __init__(self, directory: Path) -> None:
        from inspect_ai.util._sandbox.local import LocalSandboxEnvironment

        self.local = LocalSandboxEnvironment()
        self.directory = directory

    async def run(self) -> None:
        await self.local.exec(["true"])

    async def read(self) -> None:
        await self.local.read_file(str(self.directory / "file"), text=False)

    async def write(self) -> None:
        await self.local.write_file(str(self.directory / "inspect"), DATA)


class Deepagents:
    """deepagents' `LocalShellBackend`."""

    def __init__(self, directory: Path) -> None:
        from deepagents.backends.local_shell import LocalShellBackend

        self.local = LocalShellBackend(directory, virtual_mode=False)
        self.directory = directory

    async def run(self) -> None:
        await self.local.aexecute("true")

    async def read(self) -> None:
        await self.local.adownload_files([str(self.directory / "file")])

    async def write(self) -> None:
        await self.local.aupload_files([(str(self.directory / "deepagents"), DATA)])


class Pydantic:
    """pydantic-ai's `LocalWorkspaceBackend`."""

    def __init__(self, directory: Path) -> None:
        from pydantic_ai.workspaces import LocalWorkspaceBackend

        self.local = LocalWorkspaceBackend(directory)
        self.directory = directory

    async def run(self) -> None:
        await self.local.run(["true"])

    async def read(self) -> None:
        await self.local.read_bytes(str(self.directory / "file"))

    async def write(self) -> None:
        await self.local.write_bytes(str(self.directory / "pydantic"), DATA)


def contenders(session: palisade.Session, directory: Path) -> dict[str, object]:
    """Who is timed, by name."""
    found: dict[str, object] = {"Palisade": Confined(session), "no sandbox": Host(directory)}
    for name, kind in (("Inspect", Inspect), ("deepagents", Deepagents), ("pydantic-ai", Pydantic)):
        with contextlib.suppress(ImportError):
            found[f"{name}, local"] = kind(directory)
    return found


def at_once(work: Case) -> Case:
    """A hundred calls at once."""
    return lambda: asyncio.gather(*(work() for _ in range(100)))


def rows(who: dict[str, object], directory: Path) -> dict[str, dict[str, Case]]:
    """What is timed: a row for each operation, with who does it."""

    async def open_and_close() -> None:
        async with palisade.session(directory, "workspace", private=True):
            pass

    table = {
        "run `true`": {name: one.run for name, one in who.items()},
        "read 4 KiB": {name: one.read for name, one in who.items()},
        "write 4 KiB": {name: one.write for name, one in who.items()},
        "100 times `true` at once": {name: at_once(one.run) for name, one in who.items()},
        "100 reads at once": {name: at_once(one.read) for name, one in who.items()},
        "open a session, close it": {"Palisade": open_and_close},
    }
    return table


async def timed(work: Case) -> float:
    """Seconds that something takes."""
    start = time.perf_counter()
    await work()
    return time.perf_counter() - start


async def main() -> None:
    with place(), tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        (directory / "file").write_bytes(DATA)
        async with palisade.session(directory, "workspace", private=True) as session:
            who = contenders(session, directory)
            table = rows(who, directory)
            times = {row: {one: [] for one in cases} for row, cases in table.items()}
            for turn in range(ROUNDS):
                for row, cases in table.items():
                    # The slow ones are done less often.
                    if turn % 10 == 0 or not row.startswith(("100", "open")):
                        for one, work in cases.items():
                            times[row][one].append(await timed(work))
    print("| | " + " | ".join(who) + " |\n|" + "---|" * (len(who) + 1))
    for row, found in times.items():
        cells = []
        for one in who:
            if one not in found:
                cells.append("")
                continue
            ratios = [a / b for a, b in zip(found[one], found["Palisade"], strict=True)]
            ratio = "" if one == "Palisade" else f" ({statistics.median(ratios):.2f})"
            cells.append(f"{statistics.median(found[one]) * 1000:.2f} ms{ratio}")
        print(f"| {row} | " + " | ".join(cells) + " |")


asyncio.run(main())
