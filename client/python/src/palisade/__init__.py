"""Confined tool calls for agents, from Python.

    import palisade
    print(palisade.run("make test"))

    async with palisade.session("/home/you/project") as session:
        result = await session.bash("make test")
        async for chunk in session.bash("make watch", timeout=60):
            print(chunk.text, end="")

The same with `with` and without `await` for programs that have no event loop.
"""

from . import errors
from .approvals import Answer, ApprovalRequest, Approver, approve_with, approver
from .blocking import BlockingJob, BlockingSession, BlockingStream
from .call import Call
from .client import Client, Token
from .errors import *  # noqa: F403 (every error has its place here)
from .jobs import Job
from .methods import EXEC_LIMIT
from .on_demand import OnDemandSession
from .opening import Opening, run, session
from .results import (
    Change,
    ChangeSet,
    Checkpoint,
    Chunk,
    Completed,
    Denial,
    Entry,
    JobStatus,
    Match,
    Page,
    Result,
    Stat,
)
from .sessions import Resumed, Session, resume

__version__ = "0.1.0"

__all__ = [
    "EXEC_LIMIT",
    "Answer",
    "ApprovalRequest",
    "Approver",
    "BlockingJob",
    "BlockingSession",
    "BlockingStream",
    "Call",
    "Change",
    "ChangeSet",
    "Checkpoint",
    "Chunk",
    "Client",
    "Completed",
    "Denial",
    "Entry",
    "Job",
    "JobStatus",
    "Match",
    "OnDemandSession",
    "Opening",
    "Page",
    "Result",
    "Resumed",
    "Session",
    "Stat",
    "Token",
    "approve_with",
    "approver",
    "resume",
    "run",
    "session",
]
__all__ += errors.__all__
