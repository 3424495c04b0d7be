"""A session: a workspace with a profile, in which tools are called."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from . import decode, model
from .call import Call
from .client import Client, Token
from .decode import Path
from .errors import Error, NotResumable, RemoteError
from .jobs import Job
from .link import Link
from .methods import READ_LIMIT, SessionMethods, command_arguments, too_large
from .results import JobStatus, Result, data_of
from .waiting import within


class Resumed(NamedTuple):
    """A resumed session and its calls, which can be awaited."""

    session: Session
    calls: list[Call]


class Session(SessionMethods):
    """A session. `palisade.session` opens one.

    A method that returns a `Result` or a `Call` reports what happened in the result. The other
    methods raise: the file methods an `OSError`, as Python's own would.
    """

    def __init__(self, client: Client, link: Link, opened: dict[str, Any]) -> None:
        self._client = client
        self._link = link
        self._last_acts: builtins.list[Callable[[], object]] = []
        #: The session's id, as in the audit log.
        self.id = decode.member(opened, "session", str)
        #: The workspace, with links resolved.
        self.workspace = decode.path(opened, "workspace")
        #: What is enforced, as read back from the kernel.
        self.receipt: Mapping[str, Any] = decode.member(opened, "receipt", dict)
        link.receipt = (decode.optional(opened, "receipt_digest", str) or "", self.receipt)
        #: The limits of calls.
        self.limits: Mapping[str, Any] = decode.member(opened, "limits", dict)
        self._secret = decode.optional(opened, "token", str)

    def __repr__(self) -> str:
        return f"<palisade session {self.id} in {self.workspace}>"

    @property
    def client(self) -> Client:
        """The session's connection."""
        return self._client

    # Commands.

    def bash(
        self,
        command: str | Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        input: bytes | str | None = None,
        timeout: float | None = None,
        reason: str | None = None,
        description: str | None = None,
        dry_run: bool = False,
        route: str | None = None,
        key: str | None = None,
    ) -> Call:
        """Runs a shell line, or a program with arguments. The current directory is kept.

        `timeout` is in seconds. `dry_run` runs the command and discards its effects; the result's
        `changes` has them. `route="transaction"` judges the effects of any command before they are
        committed. With a `key`, a repeated call is not made again.
        """
        arguments = command_arguments(command, cwd, env) | decode.without_none(
            {"description": description, "route": route}
        )
        return self.call(
            "bash",
            arguments,
            input=input,
            timeout=timeout,
            reason=reason,
            dry_run=dry_run,
            key=key,
        )

    def call(
        self,
        tool: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        input: bytes | str | None = None,
        timeout: float | None = None,
        reason: str | None = None,
        dry_run: bool = False,
        key: str | None = None,
    ) -> Call:
        """Calls any tool, by name or alias. `input` is an attachment."""
        if timeout == math.inf:
            timeout = decode.member(self.limits, "max_timeout_ms", int) / 1000
        data = input.encode() if isinstance(input, str) else bytes(input or b"")
        options: dict[str, Any] = decode.without_none(
            {
                "timeout_ms": decode.milliseconds(timeout),
                "dry_run": dry_run or None,
                "attach": True if input is not None else None,
                "idempotency_key": key,
            }
        )
        params: dict[str, Any] = {"tool": tool, "arguments": dict(arguments or {})}
        params |= {"options": options} | decode.without_none({"reason": reason})
        named = params["arguments"].get("path")
        return Call(self._link, params, data, named if isinstance(named, str) else None)

    async def output(self, result: Result | str, *, limit: int = READ_LIMIT) -> bytes:
        """Returns the stored output of an earlier call, all of it."""
        call_id = result if isinstance(result, str) else result.spool or result.call_id
        whole = bytearray()
        while True:
            query = {"call_id": call_id, "offset": len(whole)}
            page = decode.data(await self._client.ask("output", query), "data")
            if not page:
                return bytes(whole)
            whole += page
            if len(whole) > limit:
                raise too_large(f"the output of {call_id} is larger than {limit} bytes")

    # Jobs.

    async def start(
        self,
        command: str | Sequence[str],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        reason: str | None = None,
        takes_input: bool = False,
        route: str | None = None,
    ) -> Job:
        """Starts a command in the background. It ends with the session at the latest."""
        arguments = command_arguments(command, cwd, env) | decode.without_none(
            {"background": True, "input": takes_input or None, "route": route}
        )
        call = self.call("bash", arguments, timeout=timeout, reason=reason)
        status = JobStatus.from_wire(data_of((await call).check()))
        return Job(self.call, status.job)

    async def jobs(self) -> builtins.list[JobStatus]:
        """Returns the jobs of this session."""
        found = data_of(await self._done("job_list", {}))
        return [JobStatus.from_wire(one) for one in decode.objects(found, "jobs")]

    # Models.

    async def tools(
        self, format: str = "openai", names: Sequence[str] = ()
    ) -> builtins.list[dict[str, Any]]:
        """Returns the tools as the API of a model wants them: `openai`, `anthropic` or `mcp`."""
        query = {"names": decode.text_list(names, "names")} if names else None
        found = decode.objects(await self._client.ask("tools", query), "tools")
        return [model.describe(one, format) for one in found]

    async def dispatch(self, tool_call: Any) -> dict[str, Any]:
        """Makes the call that a model asks for, and returns the message to answer it with.

        Takes a tool call of OpenAI's chat completions, a `function_call` item of its responses, or
        a `tool_use` block of the Anthropic API, as an object or as a dictionary. A failure is a
        message too, for the model to read.
        """
        request = model.parse(tool_call)
        if request.problem is not None:
            return request.answer(request.problem, is_error=True)
        try:
            result = await self.call(request.name, request.arguments)
        except RemoteError as error:
            return request.answer(str(error), is_error=True)
        return request.answer(str(result), is_error=not result.success)

    # The session itself.

    @property
    def token(self) -> Token | None:
        """What resumes the session; `None` if it ends with its connection."""
        return None if self._secret is None else Token(self.id, self._secret)

    async def resume(self) -> Resumed:
        """Continues the session on a new connection, with the calls that had no answer."""
        if self.token is None:
            raise NotResumable("the session ends with its connection; open it with grace=")
        client = await self._client.reconnect()
        return await resume(client, self.token, self._link.unanswered())

    async def close(self) -> None:
        """Ends the session and its connection. All of its processes are gone when this returns."""
        self._link.check_loop()
        try:
            if self._link.is_open:
                await within(60, self._client.ask("close", kind="done"))
        except (Error, TimeoutError):
            # The connection is gone or hangs; ending it ends the session.
            pass
        finally:
            try:
                await self._client.close()
            finally:
                while self._last_acts:
                    self._last_acts.pop()()

    def at_close(self, act: Callable[[], object]) -> None:
        """Does something when the session has ended. The last of several is done first."""
        self._last_acts.append(act)

    async def _ready(self) -> Session:
        return self


async def open_session(client: Client, params: dict[str, Any]) -> Session:
    """Creates the connection's session."""
    opened = await client.ask("open", params, kind="opened")
    return Session(client, client._link, opened)


async def resume(client: Client, token: Token, calls: list[int] | None = None) -> Resumed:
    """Takes over a session whose connection is gone."""
    params: dict[str, Any] = {"session": token.session, "token": token.secret}
    resumed = await client.ask(
        "resume", params | decode.without_none({"calls": calls}), kind="resumed"
    )
    link = client._link
    session = Session(client, link, {**resumed, "token": token.secret})
    return Resumed(session, [Call.resumed(link, pending) for pending in link.adopted()])
