"""OpenAI Agents SDK: the executor of `ShellTool`, and the editor of `ApplyPatchTool`."""

from __future__ import annotations

from collections.abc import Awaitable

from agents import (
    ShellCallOutcome,
    ShellCommandOutput,
    ShellCommandRequest,
    ShellResult,
    apply_diff,
)
from agents.editor import ApplyPatchOperation, ApplyPatchResult

import palisade


class PalisadeShell:
    """Give it to `ShellTool(executor=...)`."""

    def __init__(self, session: palisade.Session) -> None:
        self._session = session

    async def __call__(self, request: ShellCommandRequest) -> ShellResult:
        action = request.data.action
        timeout = None if action.timeout_ms is None else action.timeout_ms / 1000
        outputs = [await self._one(line, timeout) for line in action.commands]
        return ShellResult(outputs, max_output_length=action.max_output_length)

    async def _one(self, line: str, timeout: float | None) -> ShellCommandOutput:
        result = await self._session.bash(line, timeout=timeout)
        # A command that ended well is denied nevertheless, if its changes are not approved.
        error = None if isinstance(result.error, palisade.CommandFailed) else result.error
        code = result.exit_code if error is None else error.exit_status
        told = "" if error is None else result.why()
        ended = ShellCallOutcome("timeout" if result.timed_out else "exit", code)
        return ShellCommandOutput(result.stdout, result.stderr + told, ended, line)


class PalisadeEditor:
    """Give it to `ApplyPatchTool(editor=...)`."""

    def __init__(self, session: palisade.Session) -> None:
        self._session = session

    async def create_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        content = apply_diff("", operation.diff or "", mode="create")
        return await self._done(self._session.write(operation.path, content, mode="create"))

    async def update_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        before = await self._session.read_text(operation.path)
        content = apply_diff(before, operation.diff or "")
        done = await self._done(self._session.write(operation.path, content))
        if operation.move_to is None or done.status == "failed":
            return done
        return await self._done(self._session.move(operation.path, operation.move_to))

    async def delete_file(self, operation: ApplyPatchOperation) -> ApplyPatchResult:
        return await self._done(self._session.remove(operation.path))

    async def _done(self, work: Awaitable[palisade.Result]) -> ApplyPatchResult:
        try:
            result = await work
        except palisade.Error as error:
            return ApplyPatchResult("failed", str(error))
        return ApplyPatchResult("completed", str(result))
