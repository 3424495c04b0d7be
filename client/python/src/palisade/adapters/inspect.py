"""Inspect: the sandbox environment `palisade`, whose configuration is the name of a profile."""

from __future__ import annotations

from math import inf
from typing import Any

import inspect_ai.util as ai

import palisade

_Environments = dict[str, ai.SandboxEnvironment]
_LIMITS = ai.SandboxEnvironmentLimits


@ai.sandboxenv(name="palisade")
class PalisadeSandboxEnvironment(ai.SandboxEnvironment):
    """A sample's session, in a temporary workspace of its own."""

    def __init__(self, session: palisade.Session) -> None:
        super().__init__()
        self.session = session

    @classmethod
    async def sample_init(
        cls, task_name: str, config: Any, metadata: dict[str, str]
    ) -> _Environments:
        profile = config if isinstance(config, str) else "autonomous"
        return {"default": cls(await palisade.session(None, profile).open())}

    @classmethod
    async def sample_cleanup(
        cls, task_name: str, config: Any, environments: _Environments, interrupted: bool
    ) -> None:
        for environment in environments.values():
            await environment.as_type(cls).session.close()

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
    ) -> ai.ExecResult[str]:
        if user is not None:
            raise ai.SandboxUserUnsupportedError("a session has one user; leave `user` out")
        given: dict[str, Any] = {"input": input, "cwd": cwd, "env": env, "timeout": timeout or inf}
        try:
            done = await self.session.exec(cmd, limit=_LIMITS.MAX_EXEC_OUTPUT_SIZE, **given)
        except palisade.OutputLimit as error:
            size = _LIMITS.MAX_EXEC_OUTPUT_SIZE_STR
            raise ai.OutputLimitExceededError(size, error.printed[0]) from error
        except palisade.SpawnFailed as error:
            if isinstance(error, PermissionError):
                raise
            return ai.ExecResult(False, error.exit_status, "", error.message)
        return ai.ExecResult(done.code == 0, done.code, done.stdout.decode(), done.stderr.decode())

    async def write_file(self, file: str, contents: str | bytes) -> None:
        await self.session.write(file, contents)

    async def read_file(self, file: str, text: bool = True) -> Any:
        if (await self.session.stat(file)).size > _LIMITS.MAX_READ_FILE_SIZE:
            raise ai.OutputLimitExceededError(_LIMITS.MAX_READ_FILE_SIZE_STR, None)
        content = await self.session.read(file)
        return content.decode() if text else content
