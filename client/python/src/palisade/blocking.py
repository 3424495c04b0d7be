"""The blocking form: the asyncio implementation, on the event loop of a background thread."""

from __future__ import annotations

import asyncio
import builtins
import contextvars
import functools
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator, Mapping
from typing import Any, Concatenate, ParamSpec, TypeVar

from .call import Call
from .client import Token
from .jobs import Job
from .results import Chunk, Result
from .sessions import Session

T = TypeVar("T")
P = ParamSpec("P")


class Portal:
    """An event loop in a thread of its own. Any thread may run coroutines on it."""

    _shared: Portal | None = None
    _lock = threading.Lock()

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._process = os.getpid()
        self._spawned: set[asyncio.Task[None]] = set()
        self._thread = threading.Thread(target=self._work, name="palisade", daemon=True)
        self._thread.start()

    @classmethod
    def shared(cls) -> Portal:
        """Returns the portal of this process. A fork gets its own: threads do not survive it."""
        with cls._lock:
            if cls._shared is None or cls._shared._process != os.getpid():
                cls._shared = cls()
            return cls._shared

    def _work(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()

    @property
    def is_current(self) -> bool:
        """Whether this is the thread of the event loop."""
        return threading.current_thread() is self._thread

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Runs a coroutine to its end. An interrupt, as by Ctrl-C, cancels it."""
        if self.is_current:
            work.close()
            raise RuntimeError("the blocking form was called from its own event loop")
        context = contextvars.copy_context()
        future = asyncio.run_coroutine_threadsafe(_in_context(context, work), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Starts a coroutine from the thread of the event loop, and does not wait for it."""
        task = self._loop.create_task(work)
        self._spawned.add(task)
        task.add_done_callback(self._spawned.discard)


async def _in_context(context: contextvars.Context, work: Coroutine[Any, Any, T]) -> T:
    # A task takes the context in which it is made: the caller's, not the loop's.
    return await context.run(asyncio.ensure_future, work)


def _session_method(
    method: Callable[Concatenate[Session, P], Awaitable[T]],
) -> Callable[Concatenate[BlockingSession, P], T]:
    @functools.wraps(method)
    def blocking(self: BlockingSession, /, *args: P.args, **kwargs: P.kwargs) -> T:
        async def work() -> T:
            return await method(self._session, *args, **kwargs)

        return self._portal.run(work())

    return blocking


def _job_method(
    method: Callable[Concatenate[Job, P], Awaitable[T]],
) -> Callable[Concatenate[BlockingJob, P], T]:
    @functools.wraps(method)
    def blocking(self: BlockingJob, /, *args: P.args, **kwargs: P.kwargs) -> T:
        async def work() -> T:
            return await method(self._job, *args, **kwargs)

        return self._portal.run(work())

    return blocking


def _job_starter(
    method: Callable[Concatenate[Session, P], Awaitable[Job]],
) -> Callable[Concatenate[BlockingSession, P], BlockingJob]:
    start = _session_method(method)

    @functools.wraps(method)
    def blocking(self: BlockingSession, /, *args: P.args, **kwargs: P.kwargs) -> BlockingJob:
        return BlockingJob(self._portal, start(self, *args, **kwargs))

    return blocking


def _streamer(
    method: Callable[Concatenate[Session, P], Call],
) -> Callable[Concatenate[BlockingSession, P], BlockingStream]:
    def stream(self: BlockingSession, /, *args: P.args, **kwargs: P.kwargs) -> BlockingStream:
        """Runs a command and yields its output while it runs. The options are those of `bash`."""
        return BlockingStream(self._portal, method(self._session, *args, **kwargs))

    return stream


class BlockingStream(Iterator[Chunk]):
    """The output of a command while it runs. Afterwards, `result` is the command's result.

    Leaving the loop early ends the command.
    """

    def __init__(self, portal: Portal, call: Call) -> None:
        self._call = call
        self._chunks = _chunks(portal, call)

    def __next__(self) -> Chunk:
        return next(self._chunks)

    def close(self) -> None:
        """Ends the command, if it still runs."""
        self._chunks.close()

    @property
    def result(self) -> Result:
        """The result, once the command has ended."""
        return self._call.result


def _chunks(portal: Portal, call: Call) -> Generator[Chunk, None, None]:
    chunks = aiter(call)
    try:
        while (chunk := portal.run(_next(chunks))) is not None:
            yield chunk
    finally:
        if portal.is_current:
            # The stream was left behind, and is collected as garbage in this thread.
            portal.spawn(_close(chunks))
        else:
            portal.run(_close(chunks))


class BlockingJob:
    """A job, for programs without an event loop. See `Job`."""

    def __init__(self, portal: Portal, job: Job) -> None:
        self._portal = portal
        self._job = job
        self.id = job.id

    def __repr__(self) -> str:
        return repr(self._job)

    output = _job_method(Job.output)
    status = _job_method(Job.status)
    wait = _job_method(Job.wait)
    input = _job_method(Job.input)
    commit = _job_method(Job.commit)
    kill = _job_method(Job.kill)


class BlockingSession:
    """A session, for programs without an event loop. See `Session`.

    Several threads may use it at once.
    """

    def __init__(self, portal: Portal, session: Session) -> None:
        self._portal = portal
        self._session = session
        self.id = session.id
        self.workspace = session.workspace
        self.receipt: Mapping[str, Any] = session.receipt
        self.limits: Mapping[str, Any] = session.limits

    def __repr__(self) -> str:
        return repr(self._session)

    bash = _session_method(Session.bash)
    call = _session_method(Session.call)
    exec = _session_method(Session.exec)
    output = _session_method(Session.output)
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
    jobs = _session_method(Session.jobs)
    tools = _session_method(Session.tools)
    dispatch = _session_method(Session.dispatch)
    close = _session_method(Session.close)

    @property
    def token(self) -> Token | None:
        """What resumes the session; `None` if it ends with its connection."""
        return self._session.token

    start = _job_starter(Session.start)
    stream = _streamer(Session.bash)

    def resume(self) -> tuple[BlockingSession, builtins.list[Result]]:
        """Continues the session on a new connection, and waits for the calls without an answer."""
        return self._portal.run(_resume(self))


async def _resume(blocking: BlockingSession) -> tuple[BlockingSession, list[Result]]:
    session, calls = await blocking._session.resume()
    return BlockingSession(blocking._portal, session), [await call for call in calls]


async def _next(chunks: Any) -> Chunk | None:
    chunk: Chunk | None = await anext(chunks, None)
    return chunk


async def _close(chunks: Any) -> None:
    await chunks.aclose()
