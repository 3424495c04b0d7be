"""A connection to a daemon, and the requests that need no session."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from . import decode, locate
from .errors import (
    ConnectError,
    DaemonNotStarted,
    DaemonStuck,
    Disconnected,
    Error,
    NotResumable,
    describe_errno,
)
from .link import Link, News, running_loop
from .waiting import within

#: For how many seconds a private daemon may take to end by itself.
_GRACE = 10.0

#: The errors that mean that no daemon listens on a usual socket.
_ABSENT = (FileNotFoundError, ConnectionRefusedError, PermissionError, NotADirectoryError)


@dataclass(frozen=True)
class Token:
    """What resumes a session. It is a secret: with it, any process of this user can do so."""

    session: str
    secret: str = field(repr=False)


class Client:
    """A connection. `connect`, `embedded` or `find` make one."""

    def __init__(self, link: Link, welcome: dict[str, Any], path: str | None) -> None:
        self._link = link
        self._loop = running_loop()
        self._process: subprocess.Popen[bytes] | None = None
        self._path = path
        #: The daemon's name and release.
        self.server = decode.member(welcome, "server", str)

    @classmethod
    async def connect(cls, path: str | os.PathLike[str]) -> Client:
        """Connects to a daemon that listens on a socket."""
        path = os.fspath(path)
        link, welcome = await dial(path)
        return cls(link, welcome, path)

    @classmethod
    async def embedded(cls, arguments: Sequence[str] = ()) -> Client:
        """Starts a private daemon, which ends with this connection."""
        client, _ = await cls._embed(arguments, None)
        return client

    @classmethod
    async def embedded_with_operator(
        cls, news: News, arguments: Sequence[str] = ()
    ) -> tuple[Client, Link]:
        """Starts a private daemon, and connects as its client and as its operator."""
        client, operator = await cls._embed(arguments, news)
        assert operator is not None
        return client, operator

    @classmethod
    async def _embed(
        cls, arguments: Sequence[str], news: News | None
    ) -> tuple[Client, Link | None]:
        running_loop()
        started = locate.start(arguments, with_operator=news is not None)
        operator = None
        try:
            if started.operator is not None:
                operator = await _adopt_socket(started.operator, news)
            link = await _adopt_socket(started.agent, None)
        except BaseException:
            for one in (started.agent, started.operator):
                if one is not None:
                    one.close()
            _reap(started.process)
            raise
        try:
            welcome = await link.greet(_name())
            if operator is not None:
                await operator.greet(_name())
            client = cls(link, welcome, None)
        except BaseException as error:
            link.abort()
            if operator is not None:
                operator.abort()
            if isinstance(error, Disconnected):
                raise await _not_started(started.process) from error
            _reap(started.process)
            raise
        client._process = started.process
        return client, operator

    @classmethod
    async def find(cls) -> Client:
        """Connects to `$PALISADE_SOCKET` or a running daemon; without one, starts a private one."""
        named = os.environ.get("PALISADE_SOCKET")
        if named:
            return await cls.connect(named)
        for path in locate.sockets("agent.sock"):
            try:
                return await cls.connect(path)
            except ConnectError as error:
                if not isinstance(error.__cause__, (*_ABSENT, Disconnected)):
                    raise
        return await cls.embedded()

    async def reconnect(self) -> Client:
        """Makes a new connection to the same socket."""
        if self._path is None:
            raise NotResumable("a private daemon ends with its connection; open a new session")
        return await Client.connect(self._path)

    @property
    def is_private(self) -> bool:
        """Whether the daemon is a private one, which ends with this connection."""
        return self._process is not None

    async def ask(
        self, method: str, params: dict[str, Any] | None = None, *, kind: str | None = None
    ) -> dict[str, Any]:
        """Sends any request of the protocol that has a reply, and returns the reply's fields."""
        return await self._link.ask(method, params, kind or method)

    async def ping(self) -> None:
        """Checks that the daemon answers."""
        await self.ask("ping", kind="pong")

    async def status(self) -> dict[str, Any]:
        """Returns the daemon's identity and what it can enforce on this host."""
        return await self.ask("status")

    async def close(self) -> None:
        """Ends the connection; a private daemon has ended when this returns."""
        process, self._process = self._process, None
        try:
            await within(_GRACE, self._end(process))
        except TimeoutError:
            if process is not None:
                process.kill()
                process.wait()
                raise DaemonStuck(
                    f"the private daemon did not end within {_GRACE:g} s and was killed; "
                    "see its messages"
                ) from None
        finally:
            # Closing the socket ends a private daemon, whatever interrupted this.
            self._link.abort()
            if process is not None and process.poll() is None:
                _reap(process)

    async def _end(self, process: subprocess.Popen[bytes] | None) -> None:
        await self._link.finish()
        if process is not None:
            await _ended(process)

    def __del__(self) -> None:
        if self._link.is_open and not self._loop.is_closed():
            warnings.warn(f"unclosed {self!r}", ResourceWarning, source=self, stacklevel=1)
            self._loop.call_soon_threadsafe(self._link.abort)


async def dial(path: str, news: News | None = None) -> tuple[Link, dict[str, Any]]:
    """Connects to a socket and greets the daemon."""
    loop = running_loop()
    try:
        _, link = await loop.create_unix_connection(lambda: Link(news), path)
    except OSError as error:
        raise _unreachable(path, describe_errno(error)) from error
    try:
        return link, await link.greet(_name())
    except Disconnected as error:
        if link.was_reset:
            raise _unreachable(path, str(error)) from error
        raise
    except BaseException:
        link.abort()
        raise


def _unreachable(path: str, why: str) -> Error:
    return ConnectError(
        f"can not connect to {path}: {why}; is palisaded running, and may this user use its socket?"
    )


async def _adopt_socket(sock: Any, news: News | None) -> Link:
    loop = asyncio.get_running_loop()
    _, link = await loop.create_unix_connection(lambda: Link(news), sock=sock)
    return link


def _name() -> str:
    from . import __version__

    return f"palisade-python {__version__}"


async def _ended(process: subprocess.Popen[bytes]) -> None:
    """Waits for the end of a process without a thread."""
    if process.poll() is not None:
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    descriptor = os.pidfd_open(process.pid)
    try:
        loop.add_reader(descriptor, ended.set)
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)
        os.close(descriptor)
    process.wait()


async def _not_started(process: subprocess.Popen[bytes]) -> Error:
    """Returns the error of a private daemon that hung up instead of greeting."""
    try:
        await within(_GRACE, _ended(process))
    except TimeoutError:
        process.kill()
        process.wait()
    return DaemonNotStarted(
        f"the private daemon ended at its start, with status {process.returncode}; "
        "its messages on standard error say why, and `palisade doctor` what this host lacks"
    )


def _reap(process: subprocess.Popen[bytes]) -> None:
    """Collects a process that ends soon, without waiting for it now."""
    if process.poll() is None:
        threading.Thread(target=process.wait, name="palisaded", daemon=True).start()
