"""The directories and the daemons of one test."""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import socket
import subprocess
import tempfile
import time
import unittest
from collections.abc import Callable
from pathlib import Path

import palisade

#: The longest that a test waits for something, in seconds. Machines may be slow.
PATIENCE = 60


class Test(unittest.IsolatedAsyncioTestCase):
    """A test with a workspace, whose daemons keep their state in a directory of its own."""

    def setUp(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="palisade-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.workspace = self.directory / "workspace"
        self.workspace.mkdir()
        kept = {"HOME": "home", "XDG_STATE_HOME": "state", "XDG_CONFIG_HOME": "config"}
        for name, directory in kept.items():
            self._set(name, str(self.directory / directory))
        # A daemon that happens to run on this host is not for tests.
        self._set("XDG_RUNTIME_DIR", str(self.directory / "run"))
        self._set("PALISADE_SOCKET", None)

    async def asyncSetUp(self) -> None:
        # On a busy machine every step is slow, and saying so helps nobody.
        asyncio.get_running_loop().slow_callback_duration = PATIENCE

    def _set(self, name: str, value: str | None) -> None:
        before = os.environ.get(name)
        put(name, value)
        self.addCleanup(put, name, before)

    def opening(self, profile: str = "autonomous", **options: object) -> palisade.Opening:
        """A session in the workspace, of a private daemon."""
        return palisade.session(self.workspace, profile, private=True, **options)  # type: ignore[arg-type]

    def daemon(self) -> Path:
        """Starts a daemon that listens; returns its agent socket."""
        run = self.directory / "run"
        run.mkdir()
        agents = run / "agent.sock"
        arguments = ["--socket", str(agents), "--state", str(self.directory / "state")]
        process = subprocess.Popen(
            [program("palisaded"), *arguments], stdin=subprocess.DEVNULL, start_new_session=True
        )
        self.addCleanup(end, process)
        until(lambda: all(listens(run / name) for name in ("agent.sock", "operator.sock")))
        return agents


def put(name: str, value: str | None) -> None:
    """Sets a variable of the environment, or removes it."""
    if value is None:
        os.environ.pop(name, None)
    else:
        os.environ[name] = value


def program(name: str) -> str:
    """A program beside the daemon that is tested."""
    return str(Path(os.environ["PALISADE_DAEMON"]).parent / name)


def listens(path: Path) -> bool:
    """Whether a socket accepts connections. Its file is there a moment earlier."""
    with socket.socket(socket.AF_UNIX) as tried:
        return tried.connect_ex(str(path)) == 0


def end(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and collects it."""
    process.terminate()
    process.wait(PATIENCE)


def daemons() -> list[str]:
    """The private daemons that this process started and has not collected yet."""
    found = []
    for task in Path("/proc/self/task").iterdir():
        for pid in (task / "children").read_text().split():
            with contextlib.suppress(FileNotFoundError):
                name = Path(f"/proc/{pid}/comm").read_text().strip()
                found += [pid] if name == "palisaded" else []
    return found


def until(condition: Callable[[], bool]) -> None:
    """Waits for a condition."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("the condition did not come true in time")
        time.sleep(0.01)


async def settled(condition: Callable[[], bool]) -> None:
    """Waits for a condition while the event loop goes on."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError("the condition did not come true in time")
        await asyncio.sleep(0.01)


def number() -> str:
    """An argument that no other process has."""
    return str(random.randrange(10**8, 10**9))


def running(word: str) -> list[str]:
    """The processes of this host that have a word among their arguments."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                arguments = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if word.encode() in arguments:
                found.append(entry.name)
    return found


def descriptors() -> int:
    """The number of open descriptors of this process."""
    return len(os.listdir("/proc/self/fd"))
