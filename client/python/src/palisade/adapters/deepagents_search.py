"""deepagents and LangChain: searches by the session's tools, without a shell."""

from __future__ import annotations

import posixpath
from importlib.metadata import version

from deepagents.backends import protocol as api
from deepagents.backends.sandbox import BaseSandbox

import palisade

#: The names that deepagents has for errors of files.
_ERRORS = {
    FileNotFoundError: "file_not_found",
    IsADirectoryError: "is_directory",
    NotADirectoryError: "invalid_path",
    PermissionError: "permission_denied",
}
#: Since 0.7, `glob` returns absolute paths: permission rules of deepagents rely on it.
_HAS_RELATIVE_PATHS = version("deepagents").startswith("0.6.")
#: The most matches of a search.
_MATCHES = 10_000


def describe(error: palisade.Error) -> str:
    """Returns deepagents' name of an error of the file system, or the text of another one."""
    if isinstance(error, (palisade.Denied, palisade.OutsidePolicy)):
        return str(error)
    return next((name for kind, name in _ERRORS.items() if isinstance(error, kind)), str(error))


class NativeSearch(BaseSandbox):
    """A sandbox that searches by the tools of a blocking session."""

    agrep, aglob = api.BackendProtocol.agrep, api.BackendProtocol.aglob

    def __init__(self, session: palisade.BlockingSession) -> None:
        self._session = session

    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None
    ) -> api.GrepResult:
        top = path or self._session.workspace
        try:
            found = self._session.grep(
                pattern, top, glob=glob, literal=True, ignored=True, limit=_MATCHES
            )
        except palisade.Error as error:
            return api.GrepResult(f"Path '{top}': {describe(error)}")
        return api.GrepResult(
            matches=[{"path": one.path, "line": one.line, "text": one.text} for one in found]
        )

    def glob(self, pattern: str, path: str | None = None) -> api.GlobResult:
        top = "/" if path is None or pattern.startswith("/") else path
        anchored = "/" + pattern.lstrip("/")
        try:
            found = self._session.list(
                top, glob=anchored, recursive=True, hidden="/." in anchored, ignored=True
            )
        except palisade.Error as error:
            return api.GlobResult(f"Path '{top}': {describe(error)}")
        base = "" if _HAS_RELATIVE_PATHS else top
        return api.GlobResult(
            matches=[
                {"path": posixpath.join(base, one.path), "is_dir": one.kind == "directory"}
                for one in found
            ]
        )
