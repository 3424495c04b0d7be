"""Waits for a limited time, and cancellation at any moment of them."""

import asyncio
import unittest

from palisade.waiting import within


class Waiting(unittest.IsolatedAsyncioTestCase):
    async def test_what_ends_in_time_is_returned_and_what_fails_is_raised(self) -> None:
        async def fail() -> None:
            raise KeyError("key")

        self.assertEqual(await within(60, asyncio.sleep(0, "done")), "done")
        with self.assertRaises(KeyError):
            await within(60, fail())

    async def test_what_takes_longer_is_cancelled(self) -> None:
        ended: list[bool] = []

        async def long() -> None:
            try:
                await asyncio.sleep(600)
            finally:
                ended.append(True)

        with self.assertRaises(TimeoutError):
            await within(0.001, long())
        self.assertEqual(ended, [True])

    async def test_a_cancellation_is_never_swallowed(self) -> None:
        # The work ends, well or not, and some turns of the loop later the caller is cancelled.
        for fails in (False, True):
            cancelled = 0
            for turns in range(8):
                ready = asyncio.Event()

                async def work(ready: asyncio.Event = ready, fails: bool = fails) -> None:
                    await ready.wait()
                    if fails:
                        raise KeyError("key")

                task = asyncio.create_task(within(60, work()))
                await asyncio.sleep(0.001)
                ready.set()
                for _ in range(turns):
                    await asyncio.sleep(0)
                if not task.cancel():
                    self.assertEqual(isinstance(task.exception(), KeyError), fails)
                    continue
                cancelled += 1
                await asyncio.wait([task])
                self.assertTrue(task.cancelled(), (fails, turns))
            # Before the work ended, and between its end and the caller's.
            self.assertGreater(cancelled, 1)
            self.assertLess(cancelled, 8)


if __name__ == "__main__":
    unittest.main()
