"""A session that its first use opens, for frameworks that make a backend before there is a loop."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from .decode import Path
from .opening import session
from .sessions import Session

T = TypeVar("T")
P = ParamSpec("P")


def _session_method(
    method: Callable[Concatenate[Session, P], Awaitable[T]],
) -> Callable[Concatenate[OnDemandSession, P], Coroutine[Any, Any, T]]:
    @functools.wraps(method)
    async def opened(self: OnDemandSession, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await method(await self.session(), *args, **kwargs)

    return opened


class OnDemandSession:
    """A session that is opened by the first call of a method. See `Session`.

    The arguments are those of `palisade.session`. Callers at the same time share one session.
    """

    def __init__(self, workspace: Path | None, profile: str | None = None, **options: Any) -> None:
        self._opening = session(workspace, profile, **options)
        self._lock = asyncio.Lock()
        #: The session; `None` until it is opened.
        self.opened: Session | None = None

    async def session(self) -> Session:
        """Returns the session, opened if need be."""
        async with self._lock:
            if self.opened is None:
                self.opened = await self._opening.open()
            return self.opened

    async def close(self) -> None:
        """Ends the session, if it is open. It is not opened again."""
        if self.opened is not None:
            await self.opened.close()

    exec = _session_method(Session.exec)
    read = _session_method(Session.read)
    read_text = _session_method(Session.read_text)
    read_page = _session_method(Session.read_page)
    write = _session_method(Session.write)
    edit = _session_method(Session.edit)
    apply_patch = _session_method(Session.apply_patch)
    glob = _session_method(Session.glob)
    grep = _session_method(Session.grep)
    list = _session_method(Session.list)
    stat = _session_method(Session.stat)
    exists = _session_method(Session.exists)
    realpath = _session_method(Session.realpath)
    mkdir = _session_method(Session.mkdir)
    move = _session_method(Session.move)
    remove = _session_method(Session.remove)
    undo = _session_method(Session.undo)
