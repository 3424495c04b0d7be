"""A job: a command that runs in the background of a session."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

from . import decode
from .call import Call
from .results import JobStatus, Result, data_of

#: For how many seconds a single request waits for a job.
_WAIT = 20.0

#: About how many characters of output `wait` returns at most.
_KEPT = 64 * 1024 * 1024


class Job:
    """A job. `Session.start` starts one."""

    def __init__(self, call: Callable[[str, dict[str, Any]], Call], number: int) -> None:
        self._call = call
        #: The job's number in its session.
        self.id = number
        self._cursor = 0

    def __repr__(self) -> str:
        return f"<palisade job {self.id}>"

    async def output(self, *, wait: float = 0) -> str:
        """Returns the output since the last time; waits up to `wait` seconds for some."""
        text, _ = await self._read(wait)
        return text

    async def status(self) -> JobStatus:
        """Returns the state of the job."""
        result = await self._done("job_output", {"cursor": self._cursor, "limit": 1})
        return JobStatus.from_wire(data_of(result))

    async def wait(self) -> tuple[JobStatus, str]:
        """Waits for the end of the job; returns its state and the output since the last time.

        Of long output, the last part is returned.
        """
        texts: collections.deque[str] = collections.deque()
        kept = 0
        while True:
            text, status = await self._read(_WAIT)
            texts.append(text)
            kept += len(text)
            while kept > _KEPT and len(texts) > 1:
                kept -= len(texts.popleft())
            if status.has_ended and not status.more:
                return status, "".join(texts)

    async def input(self, data: str, *, end: bool = False) -> None:
        """Writes to the standard input of a job that was started with `takes_input`."""
        await self._done("job_input", {"data": data, "end": end})

    async def commit(self) -> Result:
        """Commits what the job has changed so far. It goes on."""
        return await self._done("job_commit", {})

    async def kill(self, signal: str | int | None = None) -> JobStatus:
        """Ends the job with all of its processes; with a `signal`, only sends that."""
        result = await self._done("job_kill", decode.without_none({"signal": signal}))
        return JobStatus.from_wire(data_of(result))

    async def _read(self, wait: float) -> tuple[str, JobStatus]:
        arguments = {"cursor": self._cursor, "wait_ms": round(wait * 1000)}
        result = await self._done("job_output", arguments)
        status = JobStatus.from_wire(data_of(result))
        self._cursor = status.cursor
        return result.output, status

    async def _done(self, tool: str, arguments: dict[str, Any]) -> Result:
        return (await self._call(tool, {"job": self.id, **arguments})).check()
