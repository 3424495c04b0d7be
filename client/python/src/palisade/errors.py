"""The errors of this package. Each error code of the protocol has a class of its own."""

from __future__ import annotations

import errno as numbers
import os
from typing import TYPE_CHECKING, Any, ClassVar

if TYPE_CHECKING:
    from .results import Result


class Error(Exception):
    """The base of every error that this package raises."""


class ConnectError(Error, ConnectionError):
    """Nothing listens on the socket, or this user may not use it."""


class DaemonNotFound(Error, FileNotFoundError):
    """The program `palisaded` was not found, and no daemon is running."""


class DaemonNotStarted(Error, OSError):
    """The private daemon could not be started."""


class DaemonStuck(Error):
    """The private daemon did not end by itself and was killed."""


class ProtocolError(Error):
    """The daemon sent something that this client does not understand."""


class Disconnected(Error, ConnectionError):
    """The connection ended before the answer. Whether a call ran is unknown."""


class ArgumentsError(Error, ValueError):
    """The arguments have no form in the protocol, or are larger than a message may be."""


class EventLoopError(Error, RuntimeError):
    """No event loop of asyncio is running, or the session belongs to another one."""


class NotResumable(Error):
    """The session ends with its connection, so it can not be resumed."""


class OutputLimit(Error):
    """A program printed more than `exec` was told to keep. It was ended."""

    def __init__(self, message: str, stdout: bytes, stderr: bytes) -> None:
        super().__init__(message)
        self.stdout = stdout
        self.stderr = stderr

    @property
    def printed(self) -> tuple[str, str]:
        """Standard output and error as text, as far as they were kept."""
        return self.stdout.decode(errors="replace"), self.stderr.decode(errors="replace")


class RemoteError(Error):
    """An error that the daemon reports: what happened, and what to do about it.

    Where the kernel refused something, the error is also the builtin `OSError` of that number:
    a missing file is a `NotFound` and a `FileNotFoundError`.
    """

    code: ClassVar[str] = ""
    #: The error number of an error for which the daemon names none; 0 if it is no `OSError`.
    default_errno: ClassVar[int] = 0

    #: What happened and why.
    message: str
    #: What to do about it; may be empty.
    hint: str
    #: Milliseconds after which to try again; `None` if waiting does not help.
    retry_after_ms: int | None
    #: The result of the call that failed; `None` if there is none.
    result: Result | None

    def __init__(
        self,
        message: str,
        hint: str = "",
        retry_after_ms: int | None = None,
        errno: int | None = None,
        path: str | None = None,
        code: str | None = None,
    ) -> None:
        if isinstance(self, OSError):
            number = errno or self.default_errno
            OSError.__init__(self, number, message, *([path] if path is not None else []))
        else:
            Exception.__init__(self, message)
        self.message = message
        self.hint = hint
        self.retry_after_ms = retry_after_ms
        self.result = None
        self._arguments = (code or self.code, message, hint, retry_after_ms, errno, path)

    def __str__(self) -> str:
        name = self._arguments[0]
        return f"{name}: {self.message} ({self.hint})" if self.hint else f"{name}: {self.message}"

    @property
    def exit_status(self) -> int:
        """The exit status by which a shell reports the like: 124 (too late), 127 (missing), 126."""
        if isinstance(self, TimeoutError):
            return 124
        return 127 if isinstance(self, FileNotFoundError) else 126

    @property
    def printed(self) -> tuple[str, str]:
        """Standard output and error of the call, as far as it came."""
        return ("", "") if self.result is None else (self.result.stdout, self.result.stderr)

    def __reduce__(self) -> tuple[Any, ...]:
        return remote_error, self._arguments


class TruncatedFrame(RemoteError):
    """The stream ended inside a message."""

    code = "truncated_frame"


class FrameTooLarge(RemoteError):
    """A message is longer than the protocol allows."""

    code = "frame_too_large"


class MalformedMessage(RemoteError):
    """The bytes are not a message of the protocol."""

    code = "malformed_message"


class NotUtf8(RemoteError):
    """A message is not UTF-8."""

    code = "not_utf8"


class UnknownRequest(RemoteError):
    """This daemon does not know the request."""

    code = "unknown_request"


class OutOfOrder(RemoteError):
    """The request can not be made now."""

    code = "out_of_order"


class UnsupportedVersion(RemoteError):
    """Client and daemon speak no common version."""

    code = "unsupported_version"


class InvalidRequest(RemoteError):
    """The contents of the request are not acceptable."""

    code = "invalid_request"


class ToolNotFound(RemoteError):
    """No tool has that name."""

    code = "tool_not_found"


class InvalidArguments(RemoteError, ValueError):
    """The arguments do not fit the tool's schema."""

    code = "invalid_arguments"


class Denied(RemoteError):
    """Policy or an approver denied the call."""

    code = "denied"
    default_errno = numbers.EPERM


class ProfileNotFound(RemoteError):
    """No profile has that name, or this user may not use it."""

    code = "profile_not_found"


class WorkspaceRefused(RemoteError):
    """The workspace can not be used."""

    code = "workspace_refused"


class LayerUnavailable(RemoteError):
    """The host lacks a layer that the profile requires."""

    code = "layer_unavailable"


class LauncherGone(RemoteError):
    """Nothing can be confined, so nothing runs."""

    code = "launcher_gone"


class CellFailed(RemoteError):
    """The session's cell ended or could not be made."""

    code = "cell_failed"


class TimedOut(RemoteError):
    """The call ran out of time."""

    code = "timed_out"
    default_errno = numbers.ETIMEDOUT


class Cancelled(RemoteError):
    """The caller cancelled the call."""

    code = "cancelled"


class SpawnFailed(RemoteError):
    """The program could not be started."""

    code = "spawn_failed"
    default_errno = numbers.ENOENT


class NotFound(RemoteError):
    """No such file, call, session or stored output, or this user may not see it."""

    code = "not_found"
    default_errno = numbers.ENOENT


class OutsidePolicy(RemoteError):
    """The path leads outside what the session may access."""

    code = "outside_policy"
    default_errno = numbers.EACCES


class NotRegular(RemoteError):
    """The path is a directory, FIFO, socket or device."""

    code = "not_regular"
    default_errno = numbers.EISDIR


class TooLarge(RemoteError):
    """The file or content is larger than the profile allows."""

    code = "too_large"
    default_errno = numbers.EFBIG


class AlreadyExists(RemoteError):
    """The file exists, and the call said that it must not."""

    code = "already_exists"
    default_errno = numbers.EEXIST


class FileSystem(RemoteError):
    """The file system refused: full, read-only, busy."""

    code = "file_system"
    default_errno = numbers.EIO


class LimitReached(RemoteError):
    """Too many sessions or calls at once."""

    code = "limit_reached"


class ShuttingDown(RemoteError):
    """The daemon is stopping."""

    code = "shutting_down"


class Internal(RemoteError):
    """A defect in Palisade."""

    code = "internal"


class CommandFailed(RemoteError):
    """The program ran and did not succeed."""

    code = "command_failed"


class Forbidden(RemoteError):
    """This user's role may not make the request."""

    code = "forbidden"


class StaleApproval(RemoteError):
    """The approval is for something else, was used, or its subject has changed."""

    code = "stale_approval"


class Withheld(RemoteError):
    """The call ran, and an approver withheld its output."""

    code = "withheld"


class AuditFailed(RemoteError):
    """The audit log can not be written, and nothing runs without being recorded."""

    code = "audit_failed"


class NoMatch(RemoteError):
    """The text to replace is not in the file."""

    code = "no_match"


class Conflict(RemoteError):
    """The file has changed since the state that the call refers to."""

    code = "conflict"


class ProviderFailed(RemoteError):
    """The process that provides the tool failed."""

    code = "provider_failed"


class Unproved(RemoteError):
    """The daemon could not prove the profile."""

    code = "unproved"


class OverCeiling(RemoteError):
    """The profile asks for more than the launcher's ceiling allows."""

    code = "over_ceiling"


class NotStarted(RemoteError):
    """The private daemon of this client could not start."""

    code = "not_started"


class UndoStoreFull(RemoteError):
    """The undo store has no room for the record of a change. Nothing was changed."""

    code = "undo_store_full"
    default_errno = numbers.ENOSPC


class Aborted(RemoteError):
    """An operator ended the call or its session."""

    code = "aborted"


class FetchFailed(RemoteError):
    """The page could not be got from its host."""

    code = "fetch_failed"


#: The class of each error code of the protocol.
CODES: dict[str, type[RemoteError]] = {kind.code: kind for kind in RemoteError.__subclasses__()}

_combined: dict[tuple[type[RemoteError], type[OSError]], type[RemoteError]] = {}


def _with_number(kind: type[RemoteError], errno: int) -> type[RemoteError]:
    """Returns the class of a code and of the builtin error of a number."""
    builtin = type(OSError(errno, ""))
    combined = _combined.get((kind, builtin))
    if combined is None:
        namespace = {"__module__": kind.__module__, "__doc__": kind.__doc__}
        combined = type(kind.__name__, (kind, builtin), namespace)
        _combined[kind, builtin] = combined
    return combined


def remote_error(
    code: str,
    message: str,
    hint: str = "",
    retry_after_ms: int | None = None,
    errno: int | None = None,
    path: str | None = None,
) -> RemoteError:
    """Makes the error of a code. A code that this release does not know is a `RemoteError`."""
    kind = CODES.get(code, RemoteError)
    number = errno or kind.default_errno
    if number:
        kind = _with_number(kind, number)
    return kind(message, hint, retry_after_ms, errno, path, code)


def describe_errno(error: OSError) -> str:
    """Returns the kernel's own words for an error."""
    return os.strerror(error.errno) if error.errno else str(error)


__all__ = [
    "CODES",
    "Aborted",
    "AlreadyExists",
    "ArgumentsError",
    "AuditFailed",
    "Cancelled",
    "CellFailed",
    "CommandFailed",
    "Conflict",
    "ConnectError",
    "DaemonNotFound",
    "DaemonNotStarted",
    "DaemonStuck",
    "Denied",
    "Disconnected",
    "Error",
    "EventLoopError",
    "FetchFailed",
    "FileSystem",
    "Forbidden",
    "FrameTooLarge",
    "Internal",
    "InvalidArguments",
    "InvalidRequest",
    "LauncherGone",
    "LayerUnavailable",
    "LimitReached",
    "MalformedMessage",
    "NoMatch",
    "NotFound",
    "NotRegular",
    "NotResumable",
    "NotStarted",
    "NotUtf8",
    "OutOfOrder",
    "OutputLimit",
    "OutsidePolicy",
    "OverCeiling",
    "ProfileNotFound",
    "ProtocolError",
    "ProviderFailed",
    "RemoteError",
    "ShuttingDown",
    "SpawnFailed",
    "StaleApproval",
    "TimedOut",
    "TooLarge",
    "ToolNotFound",
    "TruncatedFrame",
    "UndoStoreFull",
    "UnknownRequest",
    "Unproved",
    "UnsupportedVersion",
    "Withheld",
    "WorkspaceRefused",
]
