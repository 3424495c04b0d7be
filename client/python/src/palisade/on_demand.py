"""A session that its first use opens, for frameworks that make a backend before there is a loop."""

from __future__ import annotations

import asyncio
from typing import Any

from .decode import Path
from .errors import Disconnected
from .methods import SessionMethods
from .opening import session
from .sessions import Session


class OnDemandSession(SessionMethods):
    """A session that is opened by the first call of a method. See `Session`.

    The arguments are those of `palisade.session`. Callers at the same time share one session.
    """

    def __init__(self, workspace: Path | None, profile: str | None = None, **options: Any) -> None:
        self._opening = session(workspace, profile, **options)
        self._lock = asyncio.Lock()
        #: The session; `None` until it is opened.
        self.opened: Session | None = None
        self._is_closed = False

    async def session(self) -> Session:
        """Returns the session, opened if need be."""
        async with self._lock:
            if self._is_closed:
                raise Disconnected("the session was closed; make a new one")
            if self.opened is None:
                self.opened = await self._opening.open()
            return self.opened

    async def close(self) -> None:
        """Ends the session, if it is open. It is not opened again."""
        async with self._lock:
            self._is_closed = True
            if self.opened is not None:
                await self.opened.close()

    async def _ready(self) -> Session:
        return await self.session()
