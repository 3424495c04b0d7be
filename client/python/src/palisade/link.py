"""One connection to the daemon: JSON lines, several requests at once, matched by their ids."""

from __future__ import annotations

import asyncio
import base64
import collections
import json
from collections.abc import Callable, Mapping
from typing import Any, Union

from . import decode
from .errors import ArgumentsError, Disconnected, Error, EventLoopError, ProtocolError
from .limits import MAX_CALLS_IN_FLIGHT, MAX_CHUNK, MAX_FRAME, VERSION
from .waiting import within

#: The number of pieces of output that may wait for a slow reader.
_QUEUE = 64

#: For how many seconds a slow reader may hold up the other requests of the connection.
_PATIENCE = 1.0

#: For how many seconds the daemon may take to greet, and to close its side at the end.
HANDSHAKE = 30.0

#: Takes the pieces of a call's output, in order: the name of the stream, and the bytes.
Sink = Callable[[str, bytes], None]
#: Takes the events that belong to no call of this connection.
News = Callable[[str, "dict[str, Any]"], None]
_Answer = Union["dict[str, Any]", Error]


def running_loop() -> asyncio.AbstractEventLoop:
    """Returns the event loop of this thread, which must be one of asyncio's."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise EventLoopError(
            "no event loop of asyncio is running here; use the blocking form "
            "(`with palisade.session(...)`), under trio in a thread of its own"
        ) from None


class Pending:
    """A request that waits for its answer."""

    __slots__ = ("answer", "id", "is_call", "sink")

    def __init__(
        self, number: int, answer: asyncio.Future[_Answer], sink: Sink | None, is_call: bool
    ) -> None:
        self.id = number
        self.answer = answer
        self.sink = sink
        self.is_call = is_call

    async def reply(self, kind: str) -> dict[str, Any]:
        """Waits for the answer. Cancelling this leaves the request under way."""
        # The future belongs to the connection. A cancelled task must not cancel it.
        answer = await asyncio.shield(self.answer)
        if isinstance(answer, Error):
            # Every waiter raises an error of its own.
            raise answer
        found = answer.get("kind")
        if found != kind:
            raise ProtocolError(f"the daemon answered {found!r} where {kind!r} was expected")
        return answer


class Link(asyncio.Protocol):
    """The connection. All methods are for the thread of its event loop."""

    def __init__(self, news: News | None = None) -> None:
        self._loop = running_loop()
        self._transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._pending: dict[int, Pending] = {}
        self._next_id = 1
        self._news = news
        self._ending: Callable[[], Error] | None = None
        self._closed: asyncio.Future[None] = self._loop.create_future()
        self._free_slots = MAX_CALLS_IN_FLIGHT
        self._slot_waiters: collections.deque[asyncio.Future[None]] = collections.deque()
        self._writable: asyncio.Future[None] | None = None
        self._adopted: dict[int, Pending] = {}
        self._lost_calls: list[int] = []
        #: The digest of the session's receipt, and the receipt.
        self.receipt: tuple[str, Mapping[str, Any]] = ("", {})
        #: Whether the connection was reset, as by a listener that closed before it accepted.
        self.was_reset = False
        self._full: set[Stream] = set()
        self._patience: asyncio.TimerHandle | None = None

    # What the event loop calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        start = len(self._buffer)
        self._buffer += data
        while (end := self._buffer.find(b"\n", start)) >= 0:
            line = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            start = 0
            try:
                self._take(line)
            except ProtocolError as error:
                return self._nonsense(str(error))
        if len(self._buffer) > MAX_FRAME:
            self._nonsense(f"a line is longer than {MAX_FRAME} bytes")

    def connection_lost(self, exc: Exception | None) -> None:
        reason = "the daemon closed it" if exc is None else str(exc)
        self.was_reset = isinstance(exc, (ConnectionResetError, BrokenPipeError))
        self._end(
            lambda: Disconnected(
                f"the connection to the daemon ended ({reason}); open a new session"
            )
        )
        self._buffer.clear()
        if not self._closed.done():
            self._closed.set_result(None)

    def pause_writing(self) -> None:
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        if self._writable is not None and not self._writable.done():
            self._writable.set_result(None)
        self._writable = None

    # What the daemon says.

    def _take(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise ProtocolError(f"a line is not JSON: {error}") from None
        if not isinstance(message, dict):
            raise ProtocolError("a line is not a JSON object")
        if "method" in message:
            self._event(decode.member(message, "params", dict))
        else:
            self._reply(message)

    def _reply(self, message: dict[str, Any]) -> None:
        number = decode.optional(message, "id", int)
        answer: _Answer
        if "error" in message:
            error = decode.member(message, "error", dict)
            answer = decode.rpc_error(error)
            if number is None:
                self._end(lambda: decode.rpc_error(error))
                return self.abort()
        else:
            answer = decode.member(message, "result", dict)
        if number is None:
            raise ProtocolError("an answer has no id")
        pending = self._pending.pop(number, None)
        if pending is None:
            return
        if isinstance(answer, dict) and answer.get("kind") == "resumed":
            self._adopt(answer)
        self._settle(pending, answer)

    def _adopt(self, resumed: dict[str, Any]) -> None:
        # The replies of earlier calls may be the very next lines.
        for number in decode.numbers(resumed, "running") + decode.numbers(resumed, "finished"):
            if number not in self._pending:
                self._adopted[number] = self._enter(number, None, is_call=True)
                self._free_slots -= 1
                self._next_id = max(self._next_id, number + 1)

    def adopted(self) -> list[Pending]:
        """Returns the calls of a resumed session whose answers come on this connection."""
        return list(self._adopted.values())

    def _event(self, params: dict[str, Any]) -> None:
        kind = decode.member(params, "event", str)
        if kind == "output":
            pending = self._pending.get(decode.member(params, "call", int))
            if pending is not None and pending.sink is not None:
                pending.sink(decode.member(params, "stream", str), decode.data(params, "data"))
        elif kind != "progress" and self._news is not None:
            self._news(kind, params)

    def _nonsense(self, what: str) -> None:
        self._end(
            lambda: ProtocolError(
                f"the daemon's answer is not understood: {what}; "
                "are client and daemon from the same release?"
            )
        )
        self.abort()

    # What callers do.

    async def greet(self, name: str) -> dict[str, Any]:
        """Sends the greeting and checks the daemon's version."""
        params = {"version": VERSION, "client": name}
        try:
            welcome = await within(HANDSHAKE, self.ask("hello", params, "welcome"))
        except TimeoutError:
            raise ProtocolError(f"the daemon did not greet within {HANDSHAKE:g} s") from None
        if welcome.get("version") != VERSION:
            told = f"it speaks version {welcome.get('version')!r}, this client speaks {VERSION}"
            raise ProtocolError(f"the daemon's answer is not understood: {told}")
        return welcome

    async def ask(self, method: str, params: dict[str, Any] | None, kind: str) -> dict[str, Any]:
        """Sends a request and waits for an answer of this kind."""
        self.check_loop()
        await self.writable()
        pending = self._submit(method, params, None, is_call=False)
        return await pending.reply(kind)

    async def start_call(self, params: dict[str, Any], sink: Sink | None, data: bytes) -> Pending:
        """Makes a call, once fewer than 64 are under way. Short attachments follow at once."""
        self.check_loop()
        await self._take_slot()
        try:
            await self.writable()
            pending = self._submit("call", params, sink, is_call=True)
        except BaseException:
            self._free_slot()
            raise
        if params["options"].get("attach") and len(data) <= MAX_CHUNK:
            self._input(pending, data, is_last=True)
        return pending

    async def feed(self, pending: Pending, data: bytes) -> None:
        """Sends a long attachment, until the call has ended or all of it is sent."""
        for at in range(0, len(data), MAX_CHUNK):
            await self.writable()
            if pending.id not in self._pending or self._ending is not None:
                return
            piece = data[at : at + MAX_CHUNK]
            self._input(pending, piece, is_last=at + MAX_CHUNK >= len(data))

    def cancel(self, pending: Pending) -> None:
        """Asks for the end of a call without waiting for it. The call's answer still comes."""
        if pending.id in self._pending and self._ending is None:
            self._submit("cancel", {"call": pending.id}, None, is_call=False)

    def unanswered(self) -> list[int]:
        """Returns the ids of the calls that have no answer."""
        return self._lost_calls

    async def finish(self) -> None:
        """Sends nothing more, and waits until the daemon has closed its side too."""
        self._end(lambda: Disconnected("the session was closed; open a new one"))
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write_eof()
        await asyncio.shield(self._closed)

    def abort(self) -> None:
        """Ends the connection at once."""
        if self._transport is not None:
            self._transport.abort()

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._ending is None

    async def closed(self) -> None:
        """Waits for the end of the connection."""
        await asyncio.shield(self._closed)

    def ended(self) -> Error:
        """Returns the reason that the connection ended."""
        return Disconnected("the connection is open") if self._ending is None else self._ending()

    def check_loop(self) -> None:
        """Raises if the connection belongs to another event loop than the running one."""
        if running_loop() is not self._loop:
            raise EventLoopError(
                "the session belongs to another event loop; open a session in each, or use the "
                "blocking form (`with palisade.session(...)`), which any thread may use"
            )

    async def writable(self) -> None:
        """Waits until the socket takes more."""
        while self._writable is not None and self._ending is None:
            await asyncio.shield(self._writable)

    # The rest is internal.

    def _submit(
        self, method: str, params: dict[str, Any] | None, sink: Sink | None, *, is_call: bool
    ) -> Pending:
        if self._ending is not None:
            raise self._ending()
        number = self._next_id
        request: dict[str, Any] = {"jsonrpc": "2.0", "id": number, "method": method}
        if params is not None:
            request["params"] = params
        line = _line(request)
        self._next_id += 1
        pending = self._enter(number, sink, is_call=is_call)
        self._write(line)
        return pending

    def _enter(self, number: int, sink: Sink | None, *, is_call: bool) -> Pending:
        pending = Pending(number, self._loop.create_future(), sink, is_call)
        self._pending[number] = pending
        return pending

    def _input(self, pending: Pending, data: bytes, *, is_last: bool) -> None:
        piece = {"call": pending.id, "data": base64.b64encode(data).decode(), "end": is_last}
        self._write(_line({"jsonrpc": "2.0", "method": "input", "params": piece}))

    def _write(self, line: bytes) -> None:
        if self._transport is not None:
            self._transport.write(line)

    def _settle(self, pending: Pending, answer: _Answer) -> None:
        if pending.is_call:
            self._free_slot()
        if not pending.answer.done():
            pending.answer.set_result(answer)

    def _end(self, ending: Callable[[], Error]) -> None:
        if self._ending is not None:
            return
        self._ending = ending
        self._lost_calls = [number for number, one in self._pending.items() if one.is_call]
        for pending in self._pending.values():
            self._settle(pending, ending())
        self._pending.clear()
        self.resume_writing()
        self.resume(None)
        if self._news is not None:
            self._news("end", {})

    async def _take_slot(self) -> None:
        if self._free_slots > 0 and not self._slot_waiters:
            self._free_slots -= 1
            return
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._slot_waiters.append(waiter)
        try:
            await waiter
        except BaseException:
            if waiter.done() and not waiter.cancelled():
                # The slot came at the same moment as the cancellation.
                self._free_slot()
            raise

    def _free_slot(self) -> None:
        self._free_slots += 1
        while self._slot_waiters and self._free_slots > 0:
            waiter = self._slot_waiters.popleft()
            if not waiter.done():
                self._free_slots -= 1
                waiter.set_result(None)

    # Slow readers of a stream.

    def pause(self, stream: Stream) -> None:
        """Stops reading from the socket until the stream has room."""
        self._full.add(stream)
        if self._patience is None and self._transport is not None and self._ending is None:
            self._transport.pause_reading()
            self._patience = self._loop.call_later(_PATIENCE, self._lose_patience)

    def resume(self, stream: Stream | None) -> None:
        """Reads on, if no stream is full any more. `None` stands for all of them."""
        if stream is None:
            self._full.clear()
        else:
            self._full.discard(stream)
        if not self._full and self._patience is not None:
            self._patience.cancel()
            self._patience = None
            if self._transport is not None and not self._transport.is_closing():
                self._transport.resume_reading()

    def _lose_patience(self) -> None:
        # The connection is shared: a stream that nobody reads must not hold up other requests.
        if len(self._pending) > len(self._full):
            for stream in list(self._full):
                stream.cut()
        else:
            self._patience = self._loop.call_later(_PATIENCE, self._lose_patience)


class Stream:
    """The queue of a streaming call's output. A full queue stops the connection from reading."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._queue: collections.deque[tuple[str, bytes]] = collections.deque()
        self._waiter: asyncio.Future[None] | None = None
        self._is_cut = False
        #: The number of bytes that were not delivered, because nobody read them in time.
        self.lost = 0

    def put(self, name: str, data: bytes) -> None:
        """Takes a piece of output."""
        if self._is_cut:
            self.lost += len(data)
            return
        self._queue.append((name, data))
        self.wake()
        if len(self._queue) >= _QUEUE:
            self._link.pause(self)

    def wake(self) -> None:
        """Lets the reader look again."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def next(self, pending: Pending) -> tuple[str, bytes] | None:
        """Returns the next piece; `None` at the end of the call."""
        while not self._queue:
            if pending.answer.done():
                return None
            self._waiter = asyncio.get_running_loop().create_future()
            pending.answer.add_done_callback(self._wake_at_end)
            try:
                await self._waiter
            finally:
                pending.answer.remove_done_callback(self._wake_at_end)
                self._waiter = None
        piece = self._queue.popleft()
        if len(self._queue) == _QUEUE // 2:
            self._link.resume(self)
        return piece

    def _wake_at_end(self, _: asyncio.Future[_Answer]) -> None:
        self.wake()

    def cut(self) -> None:
        """Takes no more output; what comes is only counted."""
        self._is_cut = True
        self._link.resume(self)

    def discard(self) -> None:
        """Drops what waits and what comes: nobody reads any more."""
        self._queue.clear()
        self.cut()


def _line(message: dict[str, Any]) -> bytes:
    try:
        text = json.dumps(message, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        line = text.encode() + b"\n"
    except (TypeError, ValueError, RecursionError) as error:
        raise ArgumentsError(f"the arguments can not be written as JSON: {error}") from error
    if len(line) > MAX_FRAME + 1:
        raise ArgumentsError(
            f"the request is larger than the {MAX_FRAME} bytes of a message; "
            "write() and input= send large content in pieces"
        )
    return line
