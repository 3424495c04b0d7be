"""The methods of a session that run a command to its end, or read and change files."""

from __future__ import annotations

import base64
import builtins
import dataclasses
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from . import decode
from .decode import Path
from .errors import Error, InvalidArguments, OutputLimit, RemoteError, remote_error
from .results import Completed, Entry, Match, Page, Result, Stat, data_of

if TYPE_CHECKING:
    from .sessions import Session

#: The most output, in bytes, that `exec` keeps of each stream, unless it is told otherwise.
EXEC_LIMIT = 64 * 1024 * 1024

#: The most bytes of a file or of stored output that are kept, unless a method is told otherwise.
READ_LIMIT = 1024 * 1024 * 1024

#: The most entries of a directory that are kept.
MAX_ENTRIES = 1_000_000


class SessionMethods(ABC):
    """What an open session and one that is opened by its first use have in common.

    The file methods raise an `OSError`, as Python's own would. They may take as long as the profile
    allows.
    """

    @abstractmethod
    async def _ready(self) -> Session:
        """Returns the session, opened if need be."""

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
        session = await self._ready()
        start = os.path.join(session.workspace, os.fsdecode(cwd or ""))
        arguments = command_arguments(command, start, env)
        call = session.call("bash", arguments, input=input, timeout=timeout, reason=reason)
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

    # Files.

    async def read(self, path: Path, *, limit: int = READ_LIMIT) -> bytes:
        """Returns the contents of a file. One with more than `limit` bytes raises `TooLarge`."""
        session = await self._ready()
        arguments = {"path": decode.to_path(path), "encoding": "raw"}
        call = session.call("read_file", arguments, timeout=math.inf)
        content = bytearray()

        def keep(stream: str, data: bytes) -> None:
            if stream == "content":
                content.extend(data)
                if len(content) > limit:
                    call.give_up(too_large(f"{path!r} is larger than {limit} bytes"))

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
                raise too_large(f"{path!r} is not text, and larger than {limit} bytes") from None
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
        arguments = {"pattern": pattern, "path": _optional_path(path), "limit": limit}
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
            "path": _optional_path(path),
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
                raise too_large(f"{path!r} has more than {MAX_ENTRIES} entries; narrow it by glob=")
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

    async def _done(
        self, tool: str, arguments: dict[str, Any], input: bytes | str | None = None
    ) -> Result:
        session = await self._ready()
        # Whoever has less time cancels the task.
        call = session.call(tool, arguments, input=input, timeout=math.inf)
        return (await call).check()


def command_arguments(
    command: str | Sequence[str], cwd: Path | None, env: Mapping[str, str] | None
) -> dict[str, Any]:
    """Returns the arguments of `bash` for a shell line, or for a program with arguments."""
    run = (
        {"command": command}
        if isinstance(command, str)
        else {"argv": decode.text_list(command, "a command")}
    )
    return run | decode.without_none(
        {"cwd": _optional_path(cwd), "env": dict(env) if env else None}
    )


def too_large(message: str) -> RemoteError:
    """Returns the error for something of which more comes than may be kept."""
    return remote_error("too_large", message)


def _optional_path(path: Path | None) -> str | dict[str, str] | None:
    return None if path is None else decode.to_path(path)
