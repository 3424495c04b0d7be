"""Times of a session, subprocess and the local sandboxes of frameworks, interleaved in one run.

Prints medians. A framework that is not installed is left out.
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
Case = Callable[[], Awaitable[object]]


async def bare(*argv: str) -> None:
    """Runs a program without confinement, as asyncio does."""
    process = await asyncio.create_subprocess_exec(*argv, stdout=subprocess.PIPE)
    await process.communicate()


async def frameworks(directory: str) -> dict[str, Case]:
    """The local sandboxes of the frameworks that are installed. None of them confines anything."""
    found: dict[str, Case] = {}
    with contextlib.suppress(ImportError):
        from inspect_ai.util._sandbox.local import LocalSandboxEnvironment

        inspect = LocalSandboxEnvironment()
        found["exec true: Inspect, local"] = lambda: inspect.exec(["true"])
    with contextlib.suppress(ImportError):
        from deepagents.backends.local_shell import LocalShellBackend

        shell = LocalShellBackend(directory)
        found["exec true: deepagents, local"] = lambda: asyncio.to_thread(shell.execute, "true")
    with contextlib.suppress(ImportError):
        from pydantic_ai.workspaces import LocalWorkspaceBackend

        local = LocalWorkspaceBackend(directory)
        found["exec true: pydantic-ai, local"] = lambda: local.run(["true"])
    return found


async def cases(session: palisade.Session, directory: Path) -> dict[str, Case]:
    """What is timed, by name."""
    data = b"x" * 4096
    (directory / "file").write_bytes(data)

    async def open_and_close() -> None:
        async with palisade.session(directory, "autonomous", private=True):
            pass

    async def host_read() -> None:
        (directory / "file").read_bytes()

    async def host_write() -> None:
        (directory / "other").write_bytes(data)

    return {
        "exec true: session": lambda: session.exec(["true"]),
        "exec true: subprocess": lambda: bare("true"),
        **await frameworks(str(directory)),
        "read 4 KiB: session": lambda: session.read("file"),
        "read 4 KiB: host": host_read,
        "write 4 KiB: session": lambda: session.write("written", data),
        "write 4 KiB: host": host_write,
        "100 reads at once: session": lambda: asyncio.gather(
            *(session.read("file") for _ in range(100))
        ),
        "100 times true at once: session": lambda: asyncio.gather(
            *(session.exec(["true"]) for _ in range(100))
        ),
        "100 times true at once: subprocess": lambda: asyncio.gather(
            *(bare("true") for _ in range(100))
        ),
        "open a session with a private daemon, close it": open_and_close,
    }


async def main() -> None:
    with place(), tempfile.TemporaryDirectory() as directory:
        async with palisade.session(directory, "workspace", private=True) as session:
            timed = await cases(session, Path(directory))
            times: dict[str, list[float]] = {name: [] for name in timed}
            for turn in range(ROUNDS):
                for name, work in timed.items():
                    # The slow ones are done less often.
                    if turn % 10 == 0 or not name.startswith(("100", "open")):
                        start = time.perf_counter()
                        await work()
                        times[name].append(time.perf_counter() - start)
    print("| what | p50 |\n|---|---|")
    for name, found in times.items():
        print(f"| {name} | {statistics.median(found) * 1000:.2f} ms |")


asyncio.run(main())
