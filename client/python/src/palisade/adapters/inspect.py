"""Inspect: the sandbox environment `palisade`, whose configuration is the name of a profile."""

from __future__ import annotations

import tempfile
from typing import Any, Literal, overload

from inspect_ai.util import (
    ExecResult,
    OutputLimitExceededError,
    SandboxEnvironment,
    SandboxEnvironmentLimits,
    SandboxUserUnsupportedError,
    sandboxenv,
)

import palisade


@sandboxenv(name="palisade")
class PalisadeSandboxEnvironment(SandboxEnvironment):
    """A sample's session, in a temporary workspace of its own."""

    def __init__(
        self, session: palisade.Session, directory: tempfile.TemporaryDirectory[str]
    ) -> None:
        super().__init__()
        self.session = session
        self.directory = directory

    @classmethod
    async def sample_init(
        cls, task_name: str, config: Any, metadata: dict[str, str]
    ) -> dict[str, SandboxEnvironment]:
        directory = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        profile = config if isinstance(config, str) else "autonomous"
        session = await palisade.session(directory.name, profile).open()
        return {"default": cls(session, directory)}

    @classmethod
    async def sample_cleanup(
        cls,
        task_name: str,
        config: Any,
        environments: dict[str, SandboxEnvironment],
        interrupted: bool,
    ) -> None:
        for environment in environments.values():
            own = environment.as_type(cls)
            await own.session.close()
            own.directory.cleanup()

    async def exec(
        self,
        cmd: list[str],
        input: str | bytes | None = None,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        user: str | None = None,
        timeout: int | None = None,
        timeout_retry: bool = True,
        concurrency: bool = True,
    ) -> ExecResult[str]:
        if user is not None:
            raise SandboxUserUnsupportedError("a session has one user; leave `user` out")
        limits = SandboxEnvironmentLimits
        try:
            done = await self.session.exec(
                cmd,
                input=input,
                cwd=cwd,
                env=env,
                timeout=timeout,
                limit=limits.MAX_EXEC_OUTPUT_SIZE,
            )
        except palisade.OutputLimit as error:
            kept = error.stdout.decode(errors="replace")
            raise OutputLimitExceededError(limits.MAX_EXEC_OUTPUT_SIZE_STR, kept) from error
        except palisade.SpawnFailed as error:
            if isinstance(error, PermissionError):
                raise
            return ExecResult(False, 127, "", error.message)
        return ExecResult(done.code == 0, done.code, done.stdout.decode(), done.stderr.decode())

    async def write_file(self, file: str, contents: str | bytes) -> None:
        await self.session.write(file, contents)

    @overload
    async def read_file(self, file: str, text: Literal[True] = True) -> str: ...
    @overload
    async def read_file(self, file: str, text: Literal[False]) -> bytes: ...
    async def read_file(self, file: str, text: bool = True) -> str | bytes:
        limits = SandboxEnvironmentLimits
        if (await self.session.stat(file)).size > limits.MAX_READ_FILE_SIZE:
            raise OutputLimitExceededError(limits.MAX_READ_FILE_SIZE_STR, None)
        content = await self.session.read(file)
        return content.decode() if text else content
