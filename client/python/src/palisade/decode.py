"""Checked access to what the daemon sent, and the JSON forms of paths and bytes."""

from __future__ import annotations

import base64
import binascii
import os
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar, Union

from .errors import ArgumentsError, ProtocolError, RemoteError, remote_error

T = TypeVar("T")
#: A path of the session; a name that is not UTF-8 is possible, as everywhere in Python.
Path = Union[str, bytes, "os.PathLike[str]", "os.PathLike[bytes]"]
Object = Mapping[str, Any]


def member(fields: Object, key: str, kind: type[T]) -> T:
    """Returns a field that must be there and of this type."""
    value = fields.get(key)
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ProtocolError(_misfit(key, kind, value))
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise ProtocolError(f"the daemon's answer is not understood: {key!r} has over 64 bits")
    return value


def optional(fields: Object, key: str, kind: type[T]) -> T | None:
    """Returns a field that may be absent or null."""
    return None if fields.get(key) is None else member(fields, key, kind)


def objects(fields: Object, key: str) -> list[dict[str, Any]]:
    """Returns a field that is a list of objects."""
    found = member(fields, key, list)
    for one in found:
        if not isinstance(one, dict):
            raise ProtocolError(_misfit(key, dict, one))
    return found


def strings(fields: Object, key: str) -> tuple[str, ...]:
    """Returns a field that is a list of strings."""
    found = member(fields, key, list)
    for one in found:
        if not isinstance(one, str):
            raise ProtocolError(_misfit(key, str, one))
    return tuple(found)


def numbers(fields: Object, key: str) -> list[int]:
    """Returns a field that is a list of whole numbers."""
    found = member(fields, key, list)
    for one in found:
        if not isinstance(one, int) or isinstance(one, bool):
            raise ProtocolError(_misfit(key, int, one))
    return found


def _misfit(key: str, kind: type[Any], value: object) -> str:
    return (
        f"the daemon's answer is not understood: {key!r} is {type(value).__name__} and not "
        f"{kind.__name__}; are client and daemon from the same release?"
    )


def data(fields: Object, key: str) -> bytes:
    """Returns a field of bytes, which are base64 in JSON."""
    try:
        return base64.b64decode(member(fields, key, str), validate=True)
    except (binascii.Error, ValueError) as error:
        raise ProtocolError(f"the daemon's answer is not understood: {key!r}: {error}") from error


def path(fields: Object, key: str) -> str:
    """Returns a field that is a path."""
    value = fields.get(key)
    if isinstance(value, dict):
        return os.fsdecode(data(value, "base64"))
    return member(fields, key, str)


def optional_path(fields: Object, key: str) -> str | None:
    """Returns a path that may be absent or null."""
    return None if fields.get(key) is None else path(fields, key)


def to_path(value: Path) -> str | dict[str, str]:
    """Returns the JSON form of a path."""
    try:
        raw = os.fsencode(value)
    except UnicodeEncodeError as error:
        raise ArgumentsError(f"a path can not be written as bytes: {error}") from error
    if b"\0" in raw:
        raise ArgumentsError(f"a path can not contain a NUL byte: {value!r}")
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(raw).decode()}


def error(fields: Object, named: str | None = None) -> RemoteError:
    """Returns the error of a result (`code`, `message`, `hint`)."""
    return remote_error(
        member(fields, "code", str),
        member(fields, "message", str),
        member(fields, "hint", str),
        optional(fields, "retry_after_ms", int),
        optional(fields, "errno", int),
        named,
    )


def rpc_error(fields: Object) -> RemoteError:
    """Returns the error of an error reply, whose code and hint are in `data`."""
    return error({**member(fields, "data", dict), "message": member(fields, "message", str)})


def milliseconds(seconds: float | None) -> int | None:
    """Returns a time in the protocol's unit."""
    if seconds is None:
        return None
    if not 0 <= seconds < float("inf"):
        raise ArgumentsError(f"a time must be a finite number of seconds, not {seconds!r}")
    return max(1, round(seconds * 1000))


def without_none(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Leaves out the fields that are `None`."""
    return {key: value for key, value in fields.items() if value is not None}


def text_list(value: Sequence[str], what: str) -> list[str]:
    """Returns a list of strings; a single string is refused, because it is a sequence too."""
    if isinstance(value, (str, bytes)) or not all(isinstance(one, str) for one in value):
        raise ArgumentsError(f"{what} must be a list of strings, not {value!r}")
    return list(value)
