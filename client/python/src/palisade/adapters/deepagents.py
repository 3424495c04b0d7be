"""deepagents and LangChain: a sandbox backend on a blocking session."""

from __future__ import annotations

from deepagents.backends import protocol as api
from deepagents.backends import sandbox

import palisade
from palisade.adapters.deepagents_search import NativeSearch, describe


class PalisadeSandbox(NativeSearch):
    """A sandbox whose commands and files are those of a blocking session."""

    aread, aedit = api.BackendProtocol.aread, api.BackendProtocol.aedit

    @property
    def id(self) -> str:
        return self._session.id

    def execute(self, command: str, *, timeout: int | None = None) -> api.ExecuteResponse:
        try:
            done = self._session.exec(f"{{ {command}\n}} 2>&1", timeout=timeout)
        except palisade.RemoteError as error:
            return api.ExecuteResponse(str(error), error.exit_status)
        return api.ExecuteResponse(done.printed[0], done.code)

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> api.ReadResult:
        size = sandbox.MAX_OUTPUT_BYTES
        try:
            page = self._session.read_page(file_path, max(offset, 0) + 1, limit, size)
        except palisade.TooLarge:
            why = f"Binary file exceeds maximum preview size of {size} bytes"
            return api.ReadResult(f"File '{file_path}': {why}")
        except palisade.Error as error:
            return api.ReadResult(f"File '{file_path}': {describe(error)}")
        content = page.content.replace("\r\n", "\n").removesuffix("\n")
        content += sandbox.TRUNCATION_MSG if page.truncated else ""
        return api.ReadResult(file_data={"content": content, "encoding": page.encoding})

    def edit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> api.EditResult:
        try:
            before = self._session.read(file_path) if replace_all else b""
            self._session.edit(file_path, old_string, new_string, replace_all=replace_all)
        except palisade.NoMatch as error:
            return api.EditResult(f"String not found, or multiple times: {error}")
        except palisade.Error as error:
            return api.EditResult(f"Error editing '{file_path}': {describe(error)}")
        return api.EditResult(path=file_path, occurrences=before.count(old_string.encode()) or 1)

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[api.FileUploadResponse]:
        return [api.FileUploadResponse(path, self._try(path, data)[1]) for path, data in files]

    def download_files(self, paths: list[str]) -> list[api.FileDownloadResponse]:
        return [api.FileDownloadResponse(path, *self._try(path, None)) for path in paths]

    def _try(self, path: str, data: bytes | None) -> tuple[bytes | None, str | None]:
        if not path.startswith("/"):
            return None, "invalid_path"
        try:
            if data is None:
                return self._session.read(path), None
            self._session.write(path, data)
        except palisade.Error as error:
            return None, describe(error)
        return None, None
