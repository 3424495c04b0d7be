"""What the suites have in common: the profile, the approver, and a place for the daemon's state."""

import contextlib
import os
import tempfile

#: The profile of the sessions.
PROFILE = os.environ.get("SUITE_PROFILE", "autonomous")
#: An approver that approves everything, if the run asks for one.
APPROVER = (lambda request: True) if os.environ.get("SUITE_APPROVER") else None


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
