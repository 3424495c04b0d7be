"""A call of a tool: awaited for its result, or iterated for its output while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine, Generator
from typing import Any

from .errors import Error
from .limits import MAX_CHUNK
from .link import Link, Pending, Sink, Stream
from .results import Chunk, Result


class Call(Coroutine[Any, Any, Result]):
    """A call. It is made when it is awaited, iterated or started. A task can be made of it.

    `await call` returns its `Result`, whatever happened. `async for chunk in call` yields its
    output while it runs; then `call.result` has the result. If the waiting task is cancelled, or
    the loop is left early, the call ends with everything that it started.
    """

    def __init__(
        self, link: Link, params: dict[str, Any], data: bytes = b"", named: str | None = None
    ) -> None:
        self._link = link
        self._params = params
        self._data = data
        self._named = named
        self._pending: Pending | None = None
        self._feeder: asyncio.Task[None] | None = None
        self._result: Result | None = None
        #: What a task runs that was made of this call.
        self._task_body: Coroutine[Any, Any, Result] | None = None

    @classmethod
    def resumed(cls, link: Link, pending: Pending) -> Call:
        """Makes the handle of a call that an earlier connection made."""
        call = cls(link, {})
        call._pending = pending
        return call

    def __await__(self) -> Generator[Any, None, Result]:
        return self._finish().__await__()

    def send(self, value: Any) -> Any:
        return self._body().send(value)

    def throw(self, typ: Any, val: Any = None, tb: Any = None) -> Any:
        body = self._body()
        return body.throw(typ) if val is None and tb is None else body.throw(typ, val, tb)

    def close(self) -> None:
        if self._task_body is not None:
            self._task_body.close()

    def _body(self) -> Coroutine[Any, Any, Result]:
        if self._task_body is None:
            self._task_body = self._finish()
        return self._task_body

    def __aiter__(self) -> AsyncIterator[Chunk]:
        return self._chunks()

    async def start(self) -> Call:
        """Makes the call and returns at once. Await the call for its result."""
        await self._start(None)
        return self

    def cancel(self) -> None:
        """Ends the call with everything that it started. Its result then has `cancelled`."""
        if self._pending is not None:
            self._link.cancel(self._pending)

    def give_up(self, error: Error) -> None:
        """Ends the call. Who waits for it gets the error, even if no answer comes."""
        pending = self._pending
        if pending is not None and not pending.answer.done():
            self._link.cancel(pending)
            pending.sink = None
            pending.answer.set_result(error)

    @property
    def result(self) -> Result:
        """The result, once the call has ended."""
        if self._result is None:
            raise Error("the call has not ended; await it")
        return self._result

    async def collect(self, sink: Sink) -> Result:
        """Makes the call, and gives each piece of its output to `sink`."""
        await self._start(sink)
        return await self._finish()

    async def _start(self, sink: Sink | None) -> Pending:
        if self._pending is not None:
            if sink is not None:
                raise Error("the call was made already; its output can not be streamed any more")
            return self._pending
        if sink is not None:
            self._params["options"]["stream"] = True
        pending = self._pending = await self._link.start_call(self._params, sink, self._data)
        if len(self._data) > MAX_CHUNK:
            # A program may stop reading its input until its output is read.
            self._feeder = asyncio.create_task(self._link.feed(pending, self._data))
        return pending

    async def _finish(self) -> Result:
        if self._result is None:
            pending = await self._start(None)
            try:
                reply = await pending.reply("result")
            except asyncio.CancelledError:
                # Nothing is awaited here: whoever cancels may do so again and again.
                self._link.cancel(pending)
                raise
            finally:
                self._stop_feeding()
            self._result = Result.from_wire(reply, self._named, self._link.receipt)
        return self._result

    async def _chunks(self) -> AsyncIterator[Chunk]:
        stream = Stream(self._link)
        pending = await self._start(stream.put)
        try:
            while (piece := await stream.next(pending)) is not None:
                yield Chunk(*piece)
            await self._finish()
            if stream.lost:
                raise Error(
                    f"{stream.lost} bytes of output were not delivered, because they were not read "
                    "while other calls waited; Session.output has all of it"
                )
        finally:
            stream.discard()
            if not pending.answer.done():
                self._link.cancel(pending)
            self._stop_feeding()

    def _stop_feeding(self) -> None:
        if self._feeder is not None:
            self._feeder.cancel()
            self._feeder = None
