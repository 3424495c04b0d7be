"""Opens sessions: `palisade.session` for `async with` and `with`, and `palisade.run`."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any

from . import decode
from .approvals import Approver, Decide, Desk, as_approver, default_approver
from .blocking import BlockingSession, Portal
from .client import Client
from .decode import Path
from .errors import ArgumentsError
from .results import Result
from .sessions import Session, open_session


class Opening:
    """A session to be opened: `async with` yields a `Session`, `with` a `BlockingSession`."""

    def __init__(self, options: dict[str, Any], open_params: dict[str, Any]) -> None:
        self._options = options
        self._params = open_params
        self._session: Session | None = None
        self._blocking: BlockingSession | None = None

    async def open(self) -> Session:
        """Opens the session. Its `close` must be awaited at the end."""
        if "workspace" in self._params:
            return await self._open(self._params)
        directory = tempfile.TemporaryDirectory(prefix="palisade-", ignore_cleanup_errors=True)
        try:
            session = await self._open({**self._params, "workspace": directory.name})
        except BaseException:
            directory.cleanup()
            raise
        session.at_close(directory.cleanup)
        return session

    async def _open(self, params: dict[str, Any]) -> Session:
        decide = self._options["approver"] or default_approver()
        if decide is not None:
            return await self._open_with(as_approver(decide), params)
        return await _open_on(await self._connect(), params)

    async def _connect(self) -> Client:
        if self._options["socket"] is not None:
            return await Client.connect(self._options["socket"])
        if self._options["private"] or self._options["daemon_arguments"]:
            return await Client.embedded(self._options["daemon_arguments"])
        return await Client.find()

    async def _open_with(self, chosen: Approver, params: dict[str, Any]) -> Session:
        if self._options["socket"] is not None:
            raise ArgumentsError(
                "approver= is for a private daemon; a running one is served by Approver.serve()"
            )
        desk = Desk(chosen)
        client, operator = await Client.embedded_with_operator(
            desk.hear, self._options["daemon_arguments"]
        )
        try:
            await desk.register(operator)
            session = await _open_on(client, params)
        except BaseException:
            operator.abort()
            await client.close()
            raise
        session.at_close(operator.abort)
        session.at_close(asyncio.create_task(desk.answer_all(operator)).cancel)
        return session

    async def __aenter__(self) -> Session:
        self._session = await self.open()
        return self._session

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def __enter__(self) -> BlockingSession:
        portal = Portal.shared()
        self._blocking = BlockingSession(portal, portal.run(self.open()))
        return self._blocking

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        blocking, self._blocking = self._blocking, None
        if blocking is not None:
            blocking.close()


async def _open_on(client: Client, params: dict[str, Any]) -> Session:
    try:
        return await open_session(client, params)
    except BaseException:
        await client.close()
        raise


def session(
    workspace: Path | None = ".",
    profile: str | None = None,
    *,
    ask: str | None = None,
    guard: str | None = None,
    grace: float | None = None,
    approver: Decide | Approver | None = None,
    socket: str | os.PathLike[str] | None = None,
    private: bool = False,
    daemon_arguments: Sequence[str] = (),
) -> Opening:
    """Opens a session in a directory: `async with`, or `with` for the blocking form.

    `None` as the directory stands for a new, temporary one, which is deleted with the session.
    `ask` and `guard` only make a session stricter than its profile. `grace` is for how many seconds
    the session outlives its connection, so that it can be resumed. `approver` answers approval
    requests in a private daemon. The daemon is the one at `socket`, `$PALISADE_SOCKET`, a running
    one, or a private one; `private` always starts a private one.
    """
    options = {"ask": ask, "guard": guard, "grace_ms": decode.milliseconds(grace)}
    params: dict[str, Any] = {"profile": profile, "options": decode.without_none(options)}
    if workspace is not None:
        params["workspace"] = decode.to_path(os.path.abspath(os.fsdecode(workspace)))
    how = {
        "approver": approver,
        "socket": socket,
        "private": private,
        "daemon_arguments": list(daemon_arguments),
    }
    return Opening(how, decode.without_none(params))


def run(
    command: str | Sequence[str],
    *,
    workspace: Path = ".",
    profile: str | None = None,
    env: Mapping[str, str] | None = None,
    input: bytes | str | None = None,
    timeout: float | None = None,
    reason: str | None = None,
    dry_run: bool = False,
    approver: Decide | Approver | None = None,
) -> Result:
    """Runs one command in a session of its own, and returns its result, whatever happened."""
    with session(workspace, profile, approver=approver) as opened:
        return opened.bash(
            command, env=env, input=input, timeout=timeout, reason=reason, dry_run=dry_run
        )
