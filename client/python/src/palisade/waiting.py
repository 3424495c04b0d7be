"""Waiting for a limited time."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")


async def within(seconds: float, work: Coroutine[Any, Any, T]) -> T:
    """Returns what `work` returns, or raises `TimeoutError` if that takes longer.

    Before Python 3.12, `asyncio.wait_for` swallows the caller's cancellation if the work ends at
    that moment. This does not.
    """
    task = asyncio.ensure_future(work)
    try:
        await asyncio.wait([task], timeout=seconds)
        if not task.done():
            raise TimeoutError(f"it took longer than {seconds:g} s")
        return task.result()
    finally:
        if not task.done():
            task.cancel()
            await asyncio.wait([task])
        if not task.cancelled():
            # If the caller was cancelled, nobody else looks at it.
            task.exception()
