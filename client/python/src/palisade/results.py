"""The result of a call, and the values that file tools return."""

from __future__ import annotations

import html
import signal as signals
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from . import decode
from .errors import ProtocolError, RemoteError, remote_error

#: The number of denials that a model or a person is told of.
_MAX_DENIALS = 5
#: The number of characters of output in `repr(result)`.
_SHOWN_OUTPUT = 60


@dataclass(frozen=True)
class Denial:
    """Something that was refused to a call."""

    layer: str
    rule: str
    target: str
    #: The smallest change that would allow it.
    remedy: str
    #: The line of a profile that decided; empty if there is none.
    at: str
    #: What else the change would allow; empty if nothing.
    opens: str

    @classmethod
    def from_wire(cls, fields: decode.Object) -> Denial:
        return cls(**{key: decode.member(fields, key, str) for key in cls.__annotations__})

    def __str__(self) -> str:
        text = f"Refused by {self.layer}: {self.target} ({self.rule})."
        return f"{text} To allow it: {self.remedy}" if self.remedy else text


@dataclass(frozen=True)
class Change:
    """The change of one path in a transaction."""

    path: str
    #: `created`, `replaced`, `appended`, `edited`, `deleted`, `moved`, `mode` or `touched`.
    effect: str
    size: int
    size_before: int
    #: For a directory tree, the number of its entries, including itself.
    entries: int | None
    #: The old path, if it was moved.
    source: str | None

    @classmethod
    def from_wire(cls, fields: decode.Object) -> Change:
        return cls(
            path=decode.path(fields, "path"),
            effect=decode.member(fields, "effect", str),
            size=decode.member(fields, "size", int),
            size_before=decode.member(fields, "size_before", int),
            entries=decode.optional(fields, "entries", int),
            source=decode.optional_path(fields, "from"),
        )

    def __str__(self) -> str:
        text = f"{self.effect} {self.path}"
        if self.source is not None:
            text += f" (from {self.source})"
        if self.entries is not None and self.entries > 1:
            return f"{text} ({self.entries} entries)"
        size = self.size_before if self.effect == "deleted" else self.size
        return f"{text} ({size} bytes)"


@dataclass(frozen=True)
class ChangeSet:
    """What a command changed; in a dry run, what it would have changed."""

    #: Whether the changes were committed. If not, the workspace is unchanged.
    committed: bool
    changes: tuple[Change, ...]
    #: The number of changes that are not listed.
    more: int
    #: In a dry run: a unified diff.
    diff: str | None

    @classmethod
    def from_wire(cls, fields: decode.Object) -> ChangeSet:
        return cls(
            committed=decode.member(fields, "committed", bool),
            changes=tuple(Change.from_wire(one) for one in decode.objects(fields, "effects")),
            more=decode.optional(fields, "more_effects", int) or 0,
            diff=decode.optional(fields, "diff", str),
        )

    def __str__(self) -> str:
        lines = [str(change) for change in self.changes]
        lines += [f"[{self.more} more changes]"] if self.more else []
        lines += [] if self.committed else ["[not committed; the workspace is unchanged]"]
        return "\n".join([*lines, self.diff] if self.diff else lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


@dataclass(frozen=True)
class Checkpoint:
    """The outcome of an approval request."""

    decision: str
    #: The approver that decided; `default` if none is connected.
    by: str
    reason: str

    @classmethod
    def from_wire(cls, fields: decode.Object) -> Checkpoint:
        return cls(**{key: decode.member(fields, key, str) for key in cls.__annotations__})


@dataclass(frozen=True, repr=False)
class Result:
    """The outcome of a call, whatever happened. It prints as a model should read it."""

    call_id: str
    tool: str
    #: False for a non-zero exit, a denial or an error.
    success: bool
    #: The text for the model: standard output and error in order of arrival, or a tool's text.
    output: str
    stdout: str
    stderr: str
    exit_code: int | None
    signal: int | None
    #: Why the call did not succeed.
    error: RemoteError | None
    timed_out: bool
    cancelled: bool
    oom: bool
    #: Whether a process that was left running held the output open, and was killed.
    pipe_held: bool
    #: Whether something was left out of `output`.
    truncated: bool
    #: Whether bytes that are not UTF-8 were replaced.
    lossy: bool
    omitted_bytes: int
    execution_time_ms: int
    #: The id under which the whole output is stored, for `Session.output`.
    spool: str | None
    #: The structured result of the tool.
    data: Any
    #: The id for `Session.undo`.
    undo: str | None
    #: Where a command ran: `reading`, `transaction` or `direct`.
    route: str | None
    findings: tuple[Mapping[str, Any], ...]
    denials: tuple[Denial, ...]
    checkpoint: Checkpoint | None
    #: What was enforced, as read back from the kernel.
    receipt: Mapping[str, Any]

    @classmethod
    def from_wire(
        cls,
        fields: decode.Object,
        named: str | None = None,
        known: tuple[str, Mapping[str, Any]] = ("", {}),
    ) -> Result:
        wire_error = decode.optional(fields, "error", dict)
        checkpoint = decode.optional(fields, "checkpoint", dict)
        result = cls(
            call_id=decode.member(fields, "call_id", str),
            tool=decode.member(fields, "tool", str),
            success=decode.member(fields, "success", bool),
            output=decode.member(fields, "output", str),
            stdout=decode.member(fields, "stdout", str),
            stderr=decode.member(fields, "stderr", str),
            timed_out=decode.member(fields, "timed_out", bool),
            cancelled=decode.member(fields, "cancelled", bool),
            oom=decode.member(fields, "oom", bool),
            pipe_held=decode.member(fields, "pipe_held", bool),
            truncated=decode.member(fields, "truncated", bool),
            lossy=decode.member(fields, "lossy", bool),
            exit_code=decode.optional(fields, "exit_code", int),
            signal=decode.optional(fields, "signal", int),
            error=None if wire_error is None else decode.error(wire_error, named),
            omitted_bytes=decode.member(fields, "omitted_bytes", int),
            execution_time_ms=decode.member(fields, "execution_time_ms", int),
            spool=decode.optional(fields, "spool", str),
            data=fields.get("data"),
            undo=decode.optional(fields, "undo", str),
            route=decode.optional(fields, "route", str),
            findings=tuple(decode.objects(fields, "findings")),
            denials=tuple(Denial.from_wire(one) for one in decode.objects(fields, "denials")),
            checkpoint=None if checkpoint is None else Checkpoint.from_wire(checkpoint),
            receipt=_receipt(fields, known),
        )
        if result.error is not None:
            result.error.result = result
        return result

    @property
    def changes(self) -> ChangeSet | None:
        """What the command changed; `None` if it ran in no transaction or changed nothing."""
        found = self.data.get("transaction") if isinstance(self.data, dict) else None
        return ChangeSet.from_wire(found) if isinstance(found, dict) else None

    def check(self) -> Result:
        """Returns the result of a call that succeeded; raises the error of one that did not."""
        if self.success:
            return self
        raise self.error or remote_error(
            "internal", f"{self.tool} did not succeed and gave no reason"
        )

    def why(self) -> str:
        """Says what was refused to the call, why, and what would allow it."""
        lines = _error_lines(self.error, is_about_command=False)
        lines += [self._refusal(denial) for denial in self.denials]
        if not lines:
            return "Nothing was refused."
        return "\n".join(lines)

    def __str__(self) -> str:
        notes = self._notes()
        output = self.output
        if output and notes and not output.endswith("\n"):
            output += "\n"
        return output + "\n".join(notes)

    def __repr__(self) -> str:
        """One line for a prompt or a log: the outcome, and how the output begins."""
        facts = [f"tool={self.tool!r}", f"success={self.success}"]
        facts += [] if self.exit_code is None else [f"exit_code={self.exit_code}"]
        facts += [] if self.error is None else [f"error={self.error.code!r}"]
        output = self.output[:_SHOWN_OUTPUT]
        cut = "..." if len(output) < len(self.output) else ""
        return f"<Result {' '.join(facts)} output={output!r}{cut}>"

    def _notes(self) -> list[str]:
        notes = []
        if self.success and not self.output and self.exit_code is None:
            notes.append(self._emptiness())
        if self.exit_code is not None:
            by = "" if self.signal is None else f", ended by signal {_signal(self.signal)}"
            notes.append(f"[exit {self.exit_code}{by}]")
        for is_so, text in (
            (self.timed_out, "[timed out; everything that the call started was killed]"),
            (self.cancelled, "[cancelled]"),
            (self.oom, "[a process was killed because memory ran out]"),
            (self.pipe_held, "[a process that was left running was killed]"),
        ):
            notes += [text] if is_so else []
        adjusted = [one for one in self.findings if one.get("kind") == "adjusted"]
        notes += [f"[changed: {one.get('why', '')}]" for one in adjusted]
        notes += _error_lines(self.error, is_about_command=True)
        notes += [self._refusal(denial) for denial in self.denials[:_MAX_DENIALS]]
        if len(self.denials) > _MAX_DENIALS:
            notes.append(f"[{len(self.denials) - _MAX_DENIALS} more refusals]")
        if self.undo is not None:
            notes.append(f"[undo id: {self.undo}]")
        return notes

    def _refusal(self, denial: Denial) -> str:
        """Says what was refused. The remedy is left out if it was said before."""
        hint = self.error.hint if self.error is not None else ""
        said = denial.remedy and denial.remedy in hint
        return str(replace(denial, remedy="") if said else denial)

    def _emptiness(self) -> str:
        """Says why there is no output, so that a model does not read an empty text."""
        if self.tool in ("grep", "glob"):
            return "[no match]"
        if self.tool == "list_files":
            return "[no entries]"
        data = self.data if isinstance(self.data, dict) else {}
        if "content" in data:
            return f"[{data.get('media_type', 'data')}, {data.get('bytes', 0)} bytes]"
        if self.tool == "read_file":
            return "[the file is empty]" if data.get("size") == 0 else "[no lines in this range]"
        return "[no output]"

    def _repr_html_(self) -> str:
        """What a notebook shows: the text, and a bar in the colour of the outcome."""
        colour = "#2e7d32" if self.success else "#c62828"
        title = f"{self.tool} · {self.execution_time_ms} ms"
        return (
            f'<div style="border-left:3px solid {colour};padding-left:8px">'
            f'<div style="opacity:.7">{html.escape(title)}</div>'
            f'<pre style="margin:0">{html.escape(str(self))}</pre></div>'
        )


def _receipt(fields: decode.Object, known: tuple[str, Mapping[str, Any]]) -> Mapping[str, Any]:
    """Returns a result's receipt. The daemon leaves out the one that it sent with the session."""
    found = decode.optional(fields, "receipt", dict)
    digest = decode.optional(fields, "receipt_digest", str)
    if found is not None:
        return found
    return known[1] if digest == known[0] else {}


def _signal(number: int) -> str:
    try:
        return f"{number} ({signals.Signals(number).name})"
    except ValueError:
        return str(number)


def _error_lines(error: RemoteError | None, *, is_about_command: bool) -> list[str]:
    # A command that failed has said so itself.
    if error is None or (is_about_command and error.code == "command_failed"):
        return []
    is_denied = error.code in ("denied", "outside_policy", "stale_approval")
    what = "Denied" if is_denied else f"Error ({error.code})"
    lines = [f"{what}: {error.message}"]
    return [*lines, f"What to do: {error.hint}"] if error.hint else lines


class Chunk(NamedTuple):
    """A piece of a running call's output."""

    #: `stdout`, `stderr` or `content`.
    stream: str
    #: The bytes; a character may be cut between two pieces.
    data: bytes

    @property
    def text(self) -> str:
        """The piece as text; bytes that are not UTF-8 are replaced."""
        return self.data.decode(errors="replace")


class Completed(NamedTuple):
    """What `exec` returns: the exit status and all of the output, byte for byte."""

    code: int
    stdout: bytes
    stderr: bytes

    @property
    def printed(self) -> tuple[str, str]:
        """Standard output and error as text; bytes that are not UTF-8 are replaced."""
        return self.stdout.decode(errors="replace"), self.stderr.decode(errors="replace")


class Page(NamedTuple):
    """A part of a file, as a model can read it."""

    content: str
    #: `utf-8`, or `base64` for a file that is not text.
    encoding: str
    #: Whether more was asked for than may be returned.
    truncated: bool


@dataclass(frozen=True)
class Entry:
    """An entry of a directory."""

    #: The path, relative to the directory that was listed.
    path: str
    #: `file`, `directory`, `symlink` or `other`.
    kind: str
    size: int
    #: The target of a symbolic link.
    target: str | None

    @classmethod
    def from_wire(cls, fields: decode.Object) -> Entry:
        return cls(
            path=decode.path(fields, "path"),
            kind=decode.member(fields, "kind", str),
            size=decode.member(fields, "size", int),
            target=decode.optional_path(fields, "target"),
        )


@dataclass(frozen=True)
class Match:
    """A line that `grep` found."""

    path: str
    line: int
    text: str
    #: Whether the line only stands near a match.
    is_context: bool

    @classmethod
    def from_wire(cls, fields: decode.Object) -> Match:
        return cls(
            path=decode.path(fields, "path"),
            line=decode.member(fields, "line", int),
            text=decode.member(fields, "text", str),
            is_context=bool(decode.optional(fields, "context", bool)),
        )


@dataclass(frozen=True)
class Stat:
    """What is at a path."""

    path: str
    #: The path with all links resolved.
    real: str
    #: `file`, `directory`, `symlink` or `other`.
    kind: str
    size: int
    #: The permission bits.
    mode: int
    uid: int
    gid: int
    #: The time of the last change, in seconds.
    mtime: float
    #: The target of a symbolic link.
    target: str | None

    @classmethod
    def from_wire(cls, fields: decode.Object) -> Stat:
        changed = decode.member(fields, "mtime", dict)
        nanoseconds = decode.member(changed, "nanoseconds", int)
        return cls(
            path=decode.path(fields, "path"),
            real=decode.path(fields, "real"),
            kind=decode.member(fields, "kind", str),
            size=decode.member(fields, "size", int),
            mode=decode.member(fields, "mode", int),
            uid=decode.member(fields, "uid", int),
            gid=decode.member(fields, "gid", int),
            mtime=decode.member(changed, "seconds", int) + nanoseconds / 1e9,
            target=decode.optional_path(fields, "target"),
        )


@dataclass(frozen=True)
class JobStatus:
    """The state of a job."""

    job: int
    #: `running`, `in review` (its changes wait for approval) or `ended`.
    state: str
    command: str
    call_id: str
    output_bytes: int
    exit_code: int | None
    signal: int | None
    timed_out: bool
    error: RemoteError | None
    changes: ChangeSet | None
    #: Where the next `Job.output` continues.
    cursor: int
    #: Whether there is more output to read already.
    more: bool

    def __str__(self) -> str:
        end = "" if self.exit_code is None else f", exit {self.exit_code}"
        notes = _error_lines(self.error, is_about_command=True)
        return "\n".join([f"job {self.job}: {self.state}{end}: {self.command}", *notes])

    @property
    def has_ended(self) -> bool:
        """Whether the job has ended."""
        return self.state == "ended"

    @classmethod
    def from_wire(cls, fields: decode.Object) -> JobStatus:
        wire_error = decode.optional(fields, "error", dict)
        changes = decode.optional(fields, "transaction", dict)
        return cls(
            job=decode.member(fields, "job", int),
            state=decode.member(fields, "state", str),
            command=decode.member(fields, "command", str),
            call_id=decode.member(fields, "call_id", str),
            output_bytes=decode.member(fields, "output_bytes", int),
            exit_code=decode.optional(fields, "exit_code", int),
            signal=decode.optional(fields, "signal", int),
            timed_out=bool(decode.optional(fields, "timed_out", bool)),
            error=None if wire_error is None else decode.error(wire_error),
            changes=None if changes is None else ChangeSet.from_wire(changes),
            cursor=decode.optional(fields, "cursor", int) or 0,
            more=bool(decode.optional(fields, "more", bool)),
        )


def data_of(result: Result) -> dict[str, Any]:
    """Returns the structured result of a call that must have one."""
    if not isinstance(result.data, dict):
        raise ProtocolError(f"{result.tool} returned no data")
    return result.data
