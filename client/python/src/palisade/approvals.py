"""Approvals: requests for approval, answers, and functions that answer them."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import html
import inspect
import logging
import os
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from . import decode, locate
from .client import dial
from .decode import Path
from .errors import ConnectError, Error, ProtocolError, RemoteError
from .link import Link

_log = logging.getLogger("palisade")


@dataclass(frozen=True)
class ApprovalRequest:
    """What an approver is asked: may this call run, may its effects be committed?"""

    id: str
    digest: str
    #: `input` (before the call), `effects` (before they are committed) or `output`.
    review: str
    tool: str
    arguments: Mapping[str, Any]
    #: Why approval is needed.
    why: str
    #: The agent's own words, which nobody has checked.
    reason: str | None
    cwd: str
    #: Who asks: uid, pid, session, profile, workspace.
    asker: Mapping[str, Any]
    findings: tuple[Mapping[str, Any], ...]
    #: What would happen: lines, targets, diff, changes.
    view: Mapping[str, Any]
    #: In a review of output: the output.
    output: str | None
    #: The scopes for which an approval may be remembered.
    scopes: tuple[str, ...]
    #: The first words of the command, as a `command_prefix` would have them.
    prefix: tuple[str, ...]
    #: The longest time for which an approval may be remembered beyond the session.
    remember_ms: int
    #: The number of approvers who must approve.
    quorum: int
    #: Who has approved already, where others still must.
    approved_by: tuple[str, ...]
    expires_in_ms: int

    @classmethod
    def from_wire(cls, fields: decode.Object) -> ApprovalRequest:
        return cls(
            id=decode.member(fields, "id", str),
            digest=decode.member(fields, "digest", str),
            review=decode.member(fields, "review", str),
            tool=decode.member(fields, "tool", str),
            arguments=decode.member(fields, "arguments", dict),
            why=decode.member(fields, "why", str),
            reason=decode.optional(fields, "reason", str),
            cwd=decode.path(fields, "cwd"),
            asker=decode.member(fields, "asker", dict),
            findings=tuple(decode.objects(fields, "findings")),
            view=decode.member(fields, "view", dict),
            output=decode.optional(fields, "output", str),
            scopes=decode.strings(fields, "scopes"),
            prefix=decode.strings(fields, "prefix"),
            remember_ms=decode.member(fields, "remember_ms", int),
            quorum=decode.member(fields, "quorum", int),
            approved_by=decode.strings(fields, "approved_by"),
            expires_in_ms=decode.member(fields, "expires_in_ms", int),
        )

    def __str__(self) -> str:
        lines = [f"{self.tool} ({self.review}): {self.why}"]
        lines += [str(line.get("text", "")) for line in decode.objects(self.view, "lines")]
        for change in decode.objects(self.view, "changes"):
            loss = " (loss)" if change.get("lost") else ""
            lines.append(f"  {change.get('effect')} {change.get('path')}{loss}")
        if self.quorum > 1 or self.approved_by:
            given = ", ".join(self.approved_by) or "nobody"
            lines.append(f"approvals: {self.quorum} needed; given by {given}")
        diff = self.view.get("diff")
        return "\n".join([*lines, diff] if isinstance(diff, str) else lines)

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(str(self))}</pre>"


@dataclass(frozen=True)
class Answer:
    """An answer to an approval request."""

    decision: Any
    remember_as: Mapping[str, Any] | None = None

    @classmethod
    def approve(cls) -> Answer:
        """Approves what was shown; of an output, passes it on."""
        return cls("approve")

    @classmethod
    def approve_modified(cls, arguments: Mapping[str, Any]) -> Answer:
        """Approves the call with these arguments, which are judged again."""
        return cls({"approve_modified": {"arguments": dict(arguments)}})

    @classmethod
    def approve_without(cls, paths: Sequence[Path] = (), *, deletions: bool = True) -> Answer:
        """Commits the effects except those at `paths`, and without deletions if that is false."""
        without = [decode.to_path(one) for one in paths]
        return cls({"approve_part": {"without_deletions": not deletions, "without": without}})

    @classmethod
    def deny(cls, reason: str = "", guidance: str = "") -> Answer:
        """Denies it. The agent is told the reason, and what to do instead."""
        return cls({"deny": {"reason": reason, "guidance": guidance}})

    @classmethod
    def replace(cls, output: str) -> Answer:
        """In a review of output: gives the agent this output instead."""
        return cls({"replace": {"output": output}})

    @classmethod
    def withhold(cls, reason: str) -> Answer:
        """In a review of output: gives the agent no output."""
        return cls({"withhold": {"reason": reason}})

    def remember(
        self, scope: str | Mapping[str, Any] = "exact_call", ms: int | None = None
    ) -> Answer:
        """Approves the like of it later without asking: for the session, or for `ms`."""
        until: Any = "session" if ms is None else {"ms": ms}
        return Answer(self.decision, {"scope": scope, "until": until})


#: A function that decides: an `Answer`, or whether it approves.
Decide = Callable[[ApprovalRequest], Answer | bool | Awaitable[Answer | bool]]


@dataclass(frozen=True)
class Approver:
    """A function that answers approval requests, and how it is asked. `approver` makes one."""

    decide: Decide
    name: str
    reviews: tuple[str, ...] = ("input", "effects")
    tools: tuple[str, ...] = ()
    priority: int = 0

    def __call__(self, request: ApprovalRequest) -> Answer | bool | Awaitable[Answer | bool]:
        return self.decide(request)

    async def serve(self, socket: str | os.PathLike[str] | None = None) -> None:
        """Answers the requests of a running daemon, until the connection ends or this is cancelled.

        Without `socket` it is this user's own daemon, or the system's.
        """
        desk = Desk(self)
        link = await _dial_operator(socket, desk)
        try:
            await desk.work(link)
        finally:
            link.abort()


@overload
def approver(decide: Decide, /) -> Approver: ...
@overload
def approver(
    *,
    name: str | None = None,
    reviews: Sequence[str] = ("input", "effects"),
    tools: Sequence[str] = (),
    priority: int = 0,
) -> Callable[[Decide], Approver]: ...
def approver(
    decide: Decide | None = None,
    /,
    *,
    name: str | None = None,
    reviews: Sequence[str] = ("input", "effects"),
    tools: Sequence[str] = (),
    priority: int = 0,
) -> Approver | Callable[[Decide], Approver]:
    """Makes an approver of a function that takes an `ApprovalRequest`.

    The function returns an `Answer` or a truth value, and may be a coroutine function. An
    exception denies the request.
    """

    def make(function: Decide) -> Approver:
        own = name or f"program:{getattr(function, '__name__', 'python')}"
        return Approver(function, own, tuple(reviews), tuple(tools), priority)

    return make if decide is None else make(decide)


_default: contextvars.ContextVar[Approver | None] = contextvars.ContextVar(
    "palisade approver", default=None
)


@contextlib.contextmanager
def approve_with(decide: Decide | Approver) -> Iterator[Approver]:
    """Sessions that are opened inside this block have a private daemon and this approver."""
    chosen = as_approver(decide)
    token = _default.set(chosen)
    try:
        yield chosen
    finally:
        _default.reset(token)


def default_approver() -> Approver | None:
    """Returns the approver of the surrounding `approve_with`."""
    return _default.get()


def as_approver(decide: Decide | Approver) -> Approver:
    """Returns an approver as it is, and makes one of a function."""
    return decide if isinstance(decide, Approver) else approver(decide)


#: The most requests that wait for an answer. A daemon has fewer.
_MAX_REQUESTS = 10_000


class Desk:
    """The queue of requests of one operator connection."""

    def __init__(self, chosen: Approver) -> None:
        self._approver = chosen
        self._queue: asyncio.Queue[ApprovalRequest | None] = asyncio.Queue()
        self._unanswered = 0

    def hear(self, kind: str, params: dict[str, Any]) -> None:
        """Takes an event of the connection."""
        if kind == "approval_request":
            self._unanswered += 1
            if self._unanswered > _MAX_REQUESTS:
                raise ProtocolError(f"more than {_MAX_REQUESTS} approval requests wait")
            self._queue.put_nowait(ApprovalRequest.from_wire(params))
        elif kind == "end":
            self._queue.put_nowait(None)

    async def register(self, link: Link) -> None:
        """Registers the approver."""
        chosen = self._approver
        params = {
            "name": chosen.name,
            "reviews": list(chosen.reviews),
            "tools": list(chosen.tools),
            "priority": chosen.priority,
        }
        await link.ask("register", params, "registered")

    async def work(self, link: Link) -> None:
        """Registers, then answers requests side by side until the connection ends."""
        await self.register(link)
        await self.answer_all(link)

    async def answer_all(self, link: Link) -> None:
        """Answers requests side by side until the connection ends."""
        answers: set[asyncio.Task[None]] = set()
        try:
            while (request := await self._queue.get()) is not None:
                task = asyncio.create_task(self._answer(link, request))
                answers.add(task)
                task.add_done_callback(answers.discard)
        finally:
            for task in answers:
                task.cancel()

    async def _answer(self, link: Link, request: ApprovalRequest) -> None:
        answer = await self._decide(request)
        self._unanswered -= 1
        decision = answer.decision
        if request.review == "output" and decision == "approve":
            decision = "pass"
        params = {"request": request.id, "digest": request.digest, "decision": decision}
        if answer.remember_as is not None:
            params["remember"] = dict(answer.remember_as)
        try:
            await link.ask("answer", params, "answered")
        except RemoteError as error:
            # The request may be over by now; the daemon has denied it then.
            _log.warning("the answer to %s was not accepted: %s", request.id, error)
        except Error:
            # The connection is over, and with it every request.
            return

    async def _decide(self, request: ApprovalRequest) -> Answer:
        try:
            if inspect.iscoroutinefunction(self._approver.decide):
                said = await self._approver.decide(request)
            else:
                # It may ask a person: the loop goes on meanwhile.
                said = await asyncio.to_thread(self._approver.decide, request)
                if inspect.isawaitable(said):
                    said = await said
        except Exception as error:
            _log.exception("the approver failed; the request is denied")
            return _no(request, f"the approver failed: {type(error).__name__}")
        if isinstance(said, Answer):
            return said
        if said is True:
            return Answer.approve()
        return _no(request, "")


def _no(request: ApprovalRequest, reason: str) -> Answer:
    return Answer.withhold(reason) if request.review == "output" else Answer.deny(reason)


async def _dial_operator(socket: str | os.PathLike[str] | None, desk: Desk) -> Link:
    if socket is not None:
        return (await dial(os.fspath(socket), desk.hear))[0]
    places = locate.sockets("operator.sock")
    for path in places[:-1]:
        try:
            return (await dial(path, desk.hear))[0]
        except ConnectError:
            continue
    return (await dial(places[-1], desk.hear))[0]
