"""pydantic-ai: a workspace backend on a session, with commands and files."""

from __future__ import annotations

import asyncio
import os
import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_ai.workspaces import (
    CommandResult,
    FileEntry,
    WorkspaceCommand,
    WorkspaceOutputLimitError,
    WorkspaceRef,
    WorkspaceTimeoutError,
    WorkspaceUnavailableError,
)

import palisade


class PalisadeWorkspace:
    """A directory of the host as a workspace. The session is opened at the first operation."""

    def __init__(
        self,
        directory: str | os.PathLike[str],
        profile: str = "autonomous",
        **options: Any,
    ) -> None:
        self._opening = palisade.session(directory, profile, **options)
        self._directory = os.path.realpath(directory)
        self._lock = asyncio.Lock()
        self._session: palisade.Session | None = None

    @property
    def ref(self) -> WorkspaceRef | None:
        if self._session is None:
            return None
        return WorkspaceRef(provider="palisade", id=self._directory)

    async def session(self) -> palisade.Session:
        """Returns the session, opened if need be."""
        async with self._lock:
            if self._session is None:
                try:
                    self._session = await self._opening.open()
                except palisade.Error as error:
                    raise WorkspaceUnavailableError(str(error)) from error
            return self._session

    async def close(self) -> None:
        """Ends the session. The directory stays."""
        if self._session is not None:
            await self._session.close()

    async def working_dir(self) -> str:
        return (await self.session()).workspace

    async def run(
        self,
        command: WorkspaceCommand,
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> CommandResult:
        if isinstance(command, str) != shell:
            raise TypeError("a string needs shell=True, and an argv shell=False")
        if timeout is not None and not 0 < timeout < float("inf"):
            raise ValueError("timeout must be a positive finite number or None")
        session = await self.session()
        try:
            done = await session.exec(command, env=env, timeout=timeout)
        except palisade.TimedOut as error:
            result = error.result
            stdout, stderr = ("", "") if result is None else (result.stdout, result.stderr)
            raise WorkspaceTimeoutError(error.message, stdout=stdout, stderr=stderr) from error
        except palisade.OutputLimit as error:
            raise WorkspaceOutputLimitError(str(error), limit=palisade.EXEC_LIMIT) from error
        except palisade.SpawnFailed as error:
            return CommandResult(exit_code=127, stdout="", stderr=error.message)
        except (palisade.Disconnected, palisade.CellFailed) as error:
            raise WorkspaceUnavailableError(str(error)) from error
        stdout, stderr = (one.decode(errors="replace") for one in done[1:])
        return CommandResult(exit_code=done.code, stdout=stdout, stderr=stderr)

    async def read_bytes(self, path: str) -> bytes:
        return await (await self.session()).read(path)

    async def write_bytes(self, path: str, data: bytes) -> None:
        await (await self.session()).write(path, data)

    async def stat(self, path: str) -> FileEntry:
        found = await (await self.session()).stat(path)
        size = found.size if found.kind == "file" else None
        name = posixpath.basename(path.rstrip("/")) or "/"
        return FileEntry(name=name, path=path, is_dir=found.kind == "directory", size=size)

    async def list_dir(self, path: str) -> Sequence[FileEntry]:
        session = await self.session()
        found = []
        for entry in await session.list(path):
            whole = posixpath.join(path, entry.path)
            try:
                found.append(await self.stat(whole))
            except OSError:
                # A link that leads nowhere.
                found.append(FileEntry(name=entry.path, path=whole, is_dir=False, size=None))
        return found

    async def make_dir(self, path: str) -> None:
        await (await self.session()).mkdir(path)

    async def remove(self, path: str) -> None:
        session = await self.session()
        real = posixpath.normpath(path)
        if (session.workspace + "/").startswith(real.rstrip("/") + "/"):
            raise ValueError("the working directory and what is above it can not be removed")
        await session.remove(path, recursive=True)

    async def exists(self, path: str) -> bool:
        return await (await self.session()).exists(path)
