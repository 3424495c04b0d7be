"""deepagents and LangChain: a sandbox backend on a session."""

from __future__ import annotations

import errno

from deepagents.backends.protocol import (
    ExecuteResponse,
    FileDownloadResponse,
    FileUploadResponse,
)
from deepagents.backends.sandbox import BaseSandbox

import palisade

#: The names that deepagents has for errors of files.
_ERRORS = {
    errno.ENOENT: "file_not_found",
    errno.ENOTDIR: "invalid_path",
    errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
    errno.EROFS: "permission_denied",
    errno.EISDIR: "is_directory",
}


class PalisadeSandbox(BaseSandbox):
    """A sandbox whose commands and files are those of a blocking session."""

    def __init__(self, session: palisade.BlockingSession) -> None:
        self._session = session

    @property
    def id(self) -> str:
        return self._session.id

    def execute(self, command: str, *, timeout: int | None = None) -> ExecuteResponse:
        try:
            done = self._session.exec(f"{{ {command}\n}} 2>&1", timeout=timeout)
        except palisade.RemoteError as error:
            code = 124 if isinstance(error, TimeoutError) else 126
            return ExecuteResponse(str(error), code)
        return ExecuteResponse(done.stdout.decode(errors="replace"), done.code)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        return [FileUploadResponse(path, self._try(path, data)[1]) for path, data in files]

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        return [FileDownloadResponse(path, *self._try(path, None)) for path in paths]

    def _try(self, path: str, data: bytes | None) -> tuple[bytes | None, str | None]:
        if not path.startswith("/"):
            return None, "invalid_path"
        try:
            if data is None:
                return self._session.read(path), None
            self._session.write(path, data)
        except OSError as error:
            return None, _ERRORS.get(error.errno or 0, str(error))
        except palisade.Error as error:
            return None, str(error)
        return None, None
