"""pydantic-ai: a workspace backend on a session, with commands and files."""

from __future__ import annotations

import math
import posixpath
from collections.abc import Mapping, Sequence

import pydantic_ai.workspaces as ai

import palisade


class PalisadeWorkspace:
    """A directory of the host as a workspace. The arguments are those of `palisade.session`."""

    def __init__(self, directory: str, profile: str = "autonomous", **options: object) -> None:
        self._session = session = palisade.OnDemandSession(directory, profile, **options)
        self.close = session.close
        self.read_bytes, self.write_bytes = session.read, session.write
        self.make_dir, self.exists, self.realpath = session.mkdir, session.exists, session.realpath

    @property
    def ref(self) -> ai.WorkspaceRef | None:
        opened = self._session.opened
        return None if opened is None else ai.WorkspaceRef(provider="palisade", id=opened.workspace)

    async def working_dir(self) -> str:
        try:
            return (await self._session.session()).workspace
        except palisade.Error as error:
            raise ai.WorkspaceUnavailableError(str(error)) from error

    async def run(
        self,
        command: ai.WorkspaceCommand,
        *,
        shell: bool = False,
        env: Mapping[str, str] | None = None,
        timeout: float | None = None,
    ) -> ai.CommandResult:
        if isinstance(command, str) != shell:
            raise TypeError("a string needs shell=True, and an argv shell=False")
        try:
            limit = math.inf if timeout is None else timeout
            done = await self._session.exec(command, env=env, timeout=limit)
        except palisade.TimedOut as error:
            stdout, stderr = error.printed
            raise ai.WorkspaceTimeoutError(error.message, stdout=stdout, stderr=stderr) from error
        except palisade.OutputLimit as error:
            raise ai.WorkspaceOutputLimitError(str(error), limit=palisade.EXEC_LIMIT) from error
        except palisade.SpawnFailed as error:
            return ai.CommandResult(exit_code=error.exit_status, stdout="", stderr=error.message)
        except (palisade.Disconnected, palisade.CellFailed, palisade.WorkspaceRefused) as error:
            raise ai.WorkspaceUnavailableError(str(error)) from error
        stdout, stderr = done.printed
        return ai.CommandResult(exit_code=done.code, stdout=stdout, stderr=stderr)

    async def stat(self, path: str) -> ai.FileEntry:
        return _entry(path, await self._session.stat(path))

    async def list_dir(self, path: str) -> Sequence[ai.FileEntry]:
        entries = await self._session.list(path, follow=True)
        return [_entry(posixpath.join(path, one.path), one) for one in entries]

    async def remove(self, path: str) -> None:
        await self._session.remove(path, recursive=True)


def _entry(path: str, found: palisade.Entry | palisade.Stat) -> ai.FileEntry:
    size = found.size if found.kind == "file" else None
    name = posixpath.basename(path.rstrip("/")) or "/"
    return ai.FileEntry(name=name, path=path, is_dir=found.kind == "directory", size=size)
