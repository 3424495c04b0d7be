"""What the suites have in common: the setting of this run, and a place for the daemon's state."""

import contextlib
import os
import tempfile
from pathlib import Path

#: `autonomous`; `approved` or `unattended` for the profile `workspace` with and without an
#: approver; `unguarded` for commands without transactions.
SETTING = os.environ.get("SUITE_SETTING", "autonomous")
PROFILE = SETTING if SETTING in ("autonomous", "unguarded") else "workspace"
#: An approver that approves everything, if the setting has one.
APPROVER = (lambda request: True) if SETTING == "approved" else None
_PROFILES = str(Path(__file__).parent / "profiles")
#: The options of a session.
OPTIONS = {
    "private": True,
    "approver": APPROVER,
    "daemon_arguments": ["--profiles", _PROFILES] if SETTING == "unguarded" else [],
}


@contextlib.contextmanager
def place():
    """A directory for the state of the daemons that are started meanwhile."""
    with tempfile.TemporaryDirectory() as directory:
        before = os.environ.get("XDG_STATE_HOME")
        os.environ["XDG_STATE_HOME"] = directory
        try:
            yield
        finally:
            if before is None:
                del os.environ["XDG_STATE_HOME"]
            else:
                os.environ["XDG_STATE_HOME"] = before
