"""What the suites have in common: the setting of this run, and a place for the daemon's state."""

import contextlib
import os
import tempfile

#: `autonomous`, or for the profile `workspace`: `approved` with an approver, `unattended` without.
SETTING = os.environ.get("SUITE_SETTING", "autonomous")
PROFILE = "autonomous" if SETTING == "autonomous" else "workspace"
#: An approver that approves everything, if the setting has one.
APPROVER = (lambda request: True) if SETTING == "approved" else None
#: The options of a session.
OPTIONS = {"private": True, "approver": APPROVER}


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
