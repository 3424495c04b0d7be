"""Finds a daemon: a named socket, a running daemon, or the program of a private one."""

from __future__ import annotations

import importlib.util
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .errors import DaemonNotFound, DaemonNotStarted, describe_errno

_DAEMON = "palisaded"
_INSTALLED = ("/usr/bin", "/usr/libexec/palisade")


def sockets(name: str) -> list[str]:
    """Returns the usual places of a socket: the user's own daemon, then the system's."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    own = [f"{runtime}/palisade/{name}"] if os.geteuid() != 0 and os.path.isabs(runtime) else []
    return [*own, f"/run/palisade/{name}"]


def program(name: str = _DAEMON) -> str:
    """Returns the path of a program of Palisade's.

    The daemon is `$PALISADE_DAEMON`, if that is set, and the others are beside it. Otherwise it is
    the first of: the installed package `palisade-bin`, the directory of this Python's programs,
    the system's directories, `$PATH`.
    """
    named = os.environ.get("PALISADE_DAEMON")
    if named:
        return named if name == _DAEMON else os.path.join(os.path.dirname(named), name)
    looked = [*_packaged(), os.path.join(sys.prefix, "bin"), *_INSTALLED]
    for directory in looked:
        path = os.path.join(directory, name)
        if os.access(path, os.X_OK):
            return path
    # A relative entry of $PATH would run a program of the current directory.
    absolute = [one for one in os.environ.get("PATH", "").split(os.pathsep) if os.path.isabs(one)]
    found = shutil.which(name, path=os.pathsep.join(absolute)) if absolute else None
    if found is None:
        raise DaemonNotFound(
            f"no daemon is running, and {name} is neither in {', '.join(looked)} nor on $PATH; "
            "install it (pip install palisade[bin]) or name the daemon in $PALISADE_DAEMON"
        )
    return found


def _packaged() -> list[str]:
    spec = importlib.util.find_spec("palisade_bin")
    places = [] if spec is None else list(spec.submodule_search_locations or ())
    return [str(Path(place) / "bin") for place in places]


@dataclass(frozen=True)
class Started:
    """A private daemon, and this process's ends of its sockets."""

    process: subprocess.Popen[bytes]
    agent: socket.socket
    operator: socket.socket | None


def start(arguments: Sequence[str], *, with_operator: bool) -> Started:
    """Starts a private daemon. It ends when its agent socket is closed."""
    path = program()
    command = [path, "--embedded", *(["--operator-stdout"] if with_operator else []), *arguments]
    agent, theirs = socket.socketpair()
    operator, theirs_too = socket.socketpair() if with_operator else (None, None)
    try:
        process = subprocess.Popen(
            command,
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL if theirs_too is None else theirs_too.fileno(),
            # A signal from the terminal is for this program, not for its daemon.
            start_new_session=True,
        )
    except OSError as error:
        for one in (agent, operator):
            if one is not None:
                one.close()
        raise DaemonNotStarted(
            error.errno,
            f"can not start {path}: {describe_errno(error)}; is it a program this user may run?",
        ) from error
    finally:
        theirs.close()
        if theirs_too is not None:
            theirs_too.close()
    agent.setblocking(False)
    if operator is not None:
        operator.setblocking(False)
    return Started(process, agent, operator)
