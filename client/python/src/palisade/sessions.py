"""A session: a workspace with a profile, in which tools are called."""

from __future__ import annotations

import asyncio
import base64
import builtins
import dataclasses
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from . import decode, model
from .call import Call
from .client import Client, Token
from .decode import Path
from .errors import (
    Error,
    InvalidArguments,
    NotResumable,
    OutputLimit,
    RemoteError,
    remote_error,
)
from .jobs import Job
from .link import Link
from .results import (
    Completed,
    Entry,
    JobStatus,
    Match,
    Page,
    Result,
    Stat,
    data_of,
)

#: The most output, in bytes, that `exec` keeps of each stream, unless it is told otherwise.
EXEC_LIMIT = 64 * 1024 * 1024

#: The most bytes of a file or of stored output that are kept, unless a method is told otherwise.
READ_LIMIT = 1024 * 1024 * 1024

#: The most entries of a directory that are kept.
MAX_ENTRIES = 1_000_000


class Resumed(NamedTuple):
    """A resumed session and its calls, which can be awaited."""

    session: Session
    calls: list[Call]


class Session:
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
        arguments = _command(command, cwd, env) | decode.without_none(
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

    async def exec(
        self,
        command: str | Sequence[str],
        *,
        input: bytes | str | None = None,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
        reason: str | None = None,
        limit: int = EXEC_LIMIT,
    ) -> Completed:
        """Runs a command and returns its exit status and all of its output, byte for byte.

        It starts in `cwd`, or in the workspace. `timeout` is in seconds; infinity stands for the
        longest that the profile allows. Unlike `bash`, it raises if the command did not
        run to its end: `Denied`, `TimedOut`, `SpawnFailed`, `OutputLimit`. A non-zero exit status
        is returned.
        """
        if isinstance(command, str):
            # Not as a line of the session's shell: the directory of that one stays as it is.
            command = ["bash", "-c", command]
        start = os.path.join(self.workspace, os.fsdecode(cwd or ""))
        arguments = _command(command, start, env)
        call = self.call("bash", arguments, input=input, timeout=timeout, reason=reason)
        kept = {"stdout": bytearray(), "stderr": bytearray()}

        def keep(stream: str, data: bytes) -> None:
            sink = kept.get(stream)
            if sink is not None:
                sink += data
                if len(sink) > limit:
                    told = f"the command printed more than {limit} bytes and was ended"
                    call.give_up(OutputLimit(told, *(bytes(one[:limit]) for one in kept.values())))

        result = await call.collect(keep)
        stdout, stderr = bytes(kept["stdout"]), bytes(kept["stderr"])
        ran = result.error is None or result.error.code == "command_failed"
        if not ran or result.exit_code is None:
            raise result.error or Error("the command has no exit status")
        return Completed(result.exit_code, stdout, stderr)

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
                raise _too_large(f"the output of {call_id} is larger than {limit} bytes")

    # Files.

    async def read(self, path: Path, *, limit: int = READ_LIMIT) -> bytes:
        """Returns the contents of a file. One with more than `limit` bytes raises `TooLarge`."""
        call = self.call("read_file", {"path": decode.to_path(path), "encoding": "raw"})
        content = bytearray()

        def keep(stream: str, data: bytes) -> None:
            if stream == "content":
                content.extend(data)
                if len(content) > limit:
                    call.give_up(_too_large(f"{path!r} is larger than {limit} bytes"))

        (await call.collect(keep)).check()
        return bytes(content)

    async def read_text(
        self, path: Path, *, first: int | None = None, lines: int | None = None
    ) -> str:
        """Returns the contents of a text file, or some of its lines, counted from 1."""
        part = decode.without_none({"offset": first, "limit": lines})
        if not part:
            return (await self.read(path)).decode()
        arguments = {"path": decode.to_path(path), "encoding": "text", **part}
        return (await self._done("read_file", arguments)).output

    async def read_page(self, path: Path, first: int, lines: int, limit: int) -> Page:
        """Returns some lines of a text file, or all of a file that is not text, for a model.

        Text is cut after `limit` bytes. Another file that is larger raises `TooLarge`.
        """
        if lines < 1:
            return Page("", "utf-8", False)
        try:
            text = await self.read_text(path, first=first, lines=lines)
        except InvalidArguments:
            # It is not text.
            if (await self.stat(path)).size > limit:
                raise _too_large(f"{path!r} is not text, and larger than {limit} bytes") from None
            return Page(base64.b64encode(await self.read(path)).decode(), "base64", False)
        data = text.encode()
        return Page(data[:limit].decode(errors="ignore"), "utf-8", len(data) > limit)

    async def write(self, path: Path, content: bytes | str, *, mode: str = "overwrite") -> Result:
        """Writes a file, completely or not at all. Missing directories are created.

        `mode` is `overwrite`, `append` or `create`, which fails if the file exists.
        """
        arguments = {"path": decode.to_path(path), "mode": mode}
        return await self._done("write_file", arguments, input=content)

    async def edit(self, path: Path, old: str, new: str, *, replace_all: bool = False) -> Result:
        """Replaces a text, which must occur exactly once unless `replace_all` is set."""
        arguments = {"path": decode.to_path(path), "old_string": old, "new_string": new}
        return await self._done("edit", {**arguments, "replace_all": replace_all})

    async def apply_patch(self, patch: str) -> Result:
        """Applies a unified diff, a git diff or a `*** Begin Patch` text, or nothing of it."""
        return await self._done("apply_patch", {"patch": patch})

    async def glob(
        self, pattern: str, path: Path | None = None, *, limit: int | None = None
    ) -> builtins.list[str]:
        """Returns the files whose names match, the newest first."""
        arguments = {"pattern": pattern, "path": _optional(path), "limit": limit}
        found = data_of(await self._done("glob", decode.without_none(arguments)))
        return [decode.path(one, "path") for one in decode.objects(found, "files")]

    async def grep(
        self,
        pattern: str,
        path: Path | None = None,
        *,
        glob: str | None = None,
        literal: bool = False,
        case_insensitive: bool = False,
        context: int | None = None,
        limit: int | None = None,
        ignored: bool = False,
    ) -> builtins.list[Match]:
        """Returns the lines that match a regular expression, or a text if `literal` is set.

        What `.gitignore` excludes is left out unless `ignored` is set.
        """
        arguments = {
            "pattern": pattern,
            "path": _optional(path),
            "glob": glob,
            "type": "literal" if literal else None,
            "case_insensitive": case_insensitive or None,
            "context": context,
            "limit": limit,
            "ignored": ignored or None,
        }
        found = data_of(await self._done("grep", decode.without_none(arguments)))
        return [Match.from_wire(one) for one in decode.objects(found, "matches")]

    async def list(
        self,
        path: Path = ".",
        *,
        glob: str | None = None,
        recursive: bool = False,
        hidden: bool = True,
        ignored: bool = False,
        follow: bool = False,
    ) -> builtins.list[Entry]:
        """Returns the entries of a directory, sorted; all of them, however many there are.

        With `recursive`, what `.gitignore` excludes is left out unless `ignored` is set, and names
        that begin with a dot if `hidden` is false. `glob` selects entries: `*.py` by name, and
        `/*.py` or `src/**/*.py` by path. With `follow`, a link is described by what it leads to.
        """
        entries: builtins.list[Entry] = []
        while True:
            arguments = {
                "path": decode.to_path(path),
                "glob": glob,
                "recursive": recursive,
                "hidden": hidden,
                "ignored": ignored,
                "skip": len(entries),
            }
            found = data_of(await self._done("list_files", decode.without_none(arguments)))
            page = [Entry.from_wire(one) for one in decode.objects(found, "entries")]
            entries += page
            if len(entries) > MAX_ENTRIES:
                raise _too_large(
                    f"{path!r} has more than {MAX_ENTRIES} entries; narrow it by glob="
                )
            is_all = len(entries) >= decode.member(found, "total", int)
            if not page or (is_all and not decode.member(found, "more", bool)):
                return [await self._target(path, one) for one in entries] if follow else entries

    async def _target(self, directory: Path, entry: Entry) -> Entry:
        if entry.kind != "symlink":
            return entry
        try:
            found = await self.stat(os.path.join(os.fsdecode(directory), entry.path))
        except OSError:
            # It leads nowhere, or in a circle.
            return entry
        return dataclasses.replace(entry, kind=found.kind, size=found.size)

    async def stat(self, path: Path, *, follow: bool = True) -> Stat:
        """Returns what is at a path; of a link, what it leads to, unless `follow` is false."""
        arguments = {"path": decode.to_path(path), "follow": follow}
        return Stat.from_wire(data_of(await self._done("stat", arguments)))

    async def exists(self, path: Path) -> bool:
        """Whether a path leads to something."""
        try:
            await self.stat(path)
        except FileNotFoundError:
            return False
        return True

    async def realpath(self, path: Path) -> str:
        """Returns the path with all links resolved; what is missing stays as it is written."""
        found = data_of(await self._done("realpath", {"path": decode.to_path(path)}))
        return decode.path(found, "real")

    async def mkdir(self, path: Path) -> Result:
        """Creates a directory and its missing parents."""
        return await self._done("make_dir", {"path": decode.to_path(path)})

    async def move(self, source: Path, target: Path, *, overwrite: bool = False) -> Result:
        """Moves or renames a file or directory."""
        arguments = {"from": decode.to_path(source), "to": decode.to_path(target)}
        return await self._done("move_file", {**arguments, "overwrite": overwrite})

    async def remove(self, path: Path, *, recursive: bool = False) -> Result:
        """Deletes a file or link; with `recursive`, also a directory."""
        arguments = {"path": decode.to_path(path), "recursive": recursive}
        return await self._done("delete_file", arguments)

    async def undo(self, change: Result | str, *, force: bool = False) -> Result:
        """Undoes what a call changed."""
        call_id = change if isinstance(change, str) else change.undo or change.call_id
        return await self._done("undo", {"call_id": call_id, "force": force})

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
        arguments = _command(command, cwd, env) | decode.without_none(
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

        Takes a tool call of the OpenAI API or a `tool_use` block of the Anthropic API, as an
        object or as a dictionary. A failure is a message too, for the model to read.
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
        try:
            if self._link.is_open:
                await asyncio.wait_for(self._client.ask("close", kind="done"), 60)
        except (Error, TimeoutError, asyncio.TimeoutError):
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

    async def _done(
        self, tool: str, arguments: dict[str, Any], input: bytes | str | None = None
    ) -> Result:
        return (await self.call(tool, arguments, input=input)).check()


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


def _command(
    command: str | Sequence[str], cwd: Path | None, env: Mapping[str, str] | None
) -> dict[str, Any]:
    run = (
        {"command": command}
        if isinstance(command, str)
        else {"argv": decode.text_list(command, "a command")}
    )
    return run | decode.without_none({"cwd": _optional(cwd), "env": dict(env) if env else None})


def _too_large(message: str) -> RemoteError:
    return remote_error("too_large", message)


def _optional(path: Path | None) -> str | dict[str, str] | None:
    return None if path is None else decode.to_path(path)
