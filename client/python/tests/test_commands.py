"""Commands: results, streams, exact output, cancellation, several at once, jobs."""

import asyncio
import gc
import math
import os
import unittest
from collections.abc import Callable, Coroutine
from typing import Any

import place

import palisade

#: A timeout, in seconds, that is not what ends a call in these tests.
LONG = 600


class Commands(place.Test):
    def test_two_lines_run_a_confined_command(self) -> None:
        os.chdir(self.workspace)
        self.addCleanup(os.chdir, "/")
        (self.directory / "outside").write_text("secret")
        result = palisade.run("pwd; cat ../outside")
        self.assertEqual(result.stdout, f"{os.path.realpath(self.workspace)}\n")
        self.assertIn("No such file", result.stderr)
        self.assertEqual((result.success, result.exit_code), (False, 1))
        self.assertIn("[exit 1]", str(result))
        # The control: it is there.
        self.assertTrue((self.directory / "outside").exists())

    async def test_a_result_has_what_happened(self) -> None:
        async with self.opening() as session:
            result = await session.bash("cd /; echo out; echo err >&2; exit 3", reason="to see")
            self.assertEqual((result.stdout, result.stderr), ("out\n", "err\n"))
            self.assertEqual((result.success, result.exit_code), (False, 3))
            with self.assertRaises(palisade.CommandFailed) as caught:
                result.check()
            self.assertIs(caught.exception.result, result)
            # The directory is kept between calls of `bash`, as in a shell.
            self.assertEqual((await session.bash("pwd")).check().stdout, "/\n")
            self.assertIn("<pre", result._repr_html_())
            self.assertTrue(
                repr(result).startswith(
                    "<Result tool='bash' success=False exit_code=3 error='command"
                )
            )
            self.assertEqual((await session.bash(["printf", "%s", "<b>"])).output, "<b>")
            long = await session.bash("printf '%0100d' 0")
            self.assertTrue(repr(long).endswith(f" output='{'0' * 60}'...>"), repr(long))

    async def test_a_session_that_is_cancelled_while_it_opens_leaves_no_process(self) -> None:
        async with self.opening():
            await place.settled(lambda: len(place.daemons()) == 1)
        for steps in range(1, 60, 6):
            opening = asyncio.create_task(self._opened())
            # Each time it is further with the start of its daemon.
            for _ in range(steps):
                await asyncio.sleep(0.001)
            opening.cancel()
            await asyncio.wait([opening])
        await place.settled(lambda: not place.daemons())

    async def _opened(self) -> None:
        async with self.opening():
            await asyncio.sleep(LONG)

    async def test_output_streams_while_the_command_runs(self) -> None:
        async with self.opening() as session:
            heard: dict[str, bytes] = {}
            call = session.bash("echo one; sleep 0.01; echo two >&2; sleep 0.01; echo three")
            async for chunk in call:
                heard[chunk.stream] = heard.get(chunk.stream, b"") + chunk.data
            self.assertEqual(heard, {"stdout": b"one\nthree\n", "stderr": b"two\n"})
            self.assertEqual(call.result.exit_code, 0)

    async def test_a_slow_reader_of_a_stream_loses_nothing(self) -> None:
        async with self.opening() as session:
            total = 0
            async for chunk in session.bash("head -c 30000000 /dev/zero"):
                total += len(chunk.data)
                if total < 2_000_000:
                    await asyncio.sleep(0.01)
            self.assertEqual(total, 30_000_000)

    async def test_exec_returns_every_byte(self) -> None:
        async with self.opening() as session:
            odd = bytes(range(256)) * 5000
            done = await session.exec(["cat"], input=odd)
            self.assertEqual(done, (0, odd, b""))
            code, stdout, stderr = await session.exec("printf 'a\\377'; echo e >&2; exit 9")
            self.assertEqual((code, stdout, stderr), (9, b"a\xff", b"e\n"))
            odd_text = palisade.Completed(code, stdout, stderr).printed
            self.assertEqual(odd_text, ("a\ufffd", "e\n"))
            done = await session.exec("echo $X; pwd", env={"X": "1 2"}, cwd="/usr")
            self.assertEqual(done.stdout, b"1 2\n/usr\n")
            self.assertEqual((await session.exec("kill -9 $$")).code, 137)
            # It leaves the session's directory alone.
            await session.exec("cd /")
            expected = os.path.realpath(self.workspace)
            self.assertEqual((await session.bash("pwd")).stdout.strip(), expected)
            self.assertEqual((await session.exec("pwd")).stdout.decode().strip(), expected)

    async def test_exec_raises_if_the_command_did_not_run_to_its_end(self) -> None:
        async with self.opening() as session:
            with self.assertRaises(palisade.SpawnFailed) as missing:
                await session.exec(["no-such-program"])
            self.assertIsInstance(missing.exception, FileNotFoundError)
            self.assertEqual(missing.exception.exit_status, 127)
            (self.workspace / "closed").touch()
            with self.assertRaises(palisade.SpawnFailed) as closed:
                await session.exec(["./closed"])
            self.assertEqual(closed.exception.exit_status, 126)
            with self.assertRaises(palisade.TimedOut) as late:
                await session.exec(["sleep", "100"], timeout=0.2)
            self.assertIsInstance(late.exception, TimeoutError)
            self.assertEqual(late.exception.exit_status, 124)
            self.assertEqual((await session.exec("echo on", timeout=math.inf)).stdout, b"on\n")
            self.assertEqual(late.exception.printed, ("", ""))
            with self.assertRaises(palisade.OutputLimit) as much:
                await session.exec("yes", limit=1000)
            self.assertEqual(much.exception.stdout, b"y\n" * 500)
            self.assertEqual(much.exception.printed, ("y\n" * 500, ""))
            for wrong in ("a\0b", "a\udc80"):
                with self.assertRaises((palisade.RemoteError, palisade.ArgumentsError)):
                    await session.exec(["echo", wrong])
            self.assertEqual((await session.exec("echo on")).stdout, b"on\n")

    async def test_cancelling_the_task_ends_the_tree(self) -> None:
        async with self.opening() as session:
            ours = place.number()

            async def work() -> None:
                await session.exec(f"sleep {ours} & sleep {ours}", timeout=LONG)

            task = asyncio.create_task(work())
            await place.settled(lambda: len(place.running(ours)) == 2)
            # Some frameworks cancel again and again until the task has ended.
            while not task.done():
                task.cancel()
                await asyncio.sleep(0)
            self.assertTrue(task.cancelled())
            await place.settled(lambda: not place.running(ours))
            self.assertEqual((await session.exec("echo on")).stdout, b"on\n")
            # A call is what a task runs, as a coroutine is.
            sleep = asyncio.create_task(session.bash(["sleep", ours], timeout=LONG))
            await place.settled(lambda: len(place.running(ours)) == 1)
            sleep.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await sleep
            await place.settled(lambda: not place.running(ours))
            echo = asyncio.create_task(session.bash("echo task"))
            self.assertEqual((await echo).output, "task\n")
            never = asyncio.create_task(session.bash(["sleep", ours], timeout=LONG))
            never.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await never
            self.assertEqual(place.running(ours), [])
            # The call itself can still be asked what became of it.
            call = await session.bash(["sleep", ours], timeout=LONG).start()
            with self.assertRaises(asyncio.TimeoutError):
                await asyncio.wait_for(call, 0.1)
            self.assertTrue((await call).cancelled)

    async def test_cancelling_at_any_moment_leaves_nothing(self) -> None:
        async with self.opening() as session:
            ours = place.number()
            self.assertEqual((await session.exec("echo on")).stdout, b"on\n")
            before = place.descriptors(), asyncio.all_tasks()
            bulk = b"x" * 300_000
            ways: list[Callable[[], Coroutine[Any, Any, Any]]] = [
                lambda: session.exec(["sleep", ours], timeout=LONG),
                lambda: session.exec(f"cat >/dev/null; sleep {ours}", input=bulk, timeout=LONG),
                lambda: session.write("file", bulk),
            ]
            for way in ways:
                # More turns of the event loop than a call needs to begin.
                for turns in range(24):
                    task = asyncio.create_task(way())
                    for _ in range(turns):
                        await asyncio.sleep(0)
                    # As a cancel scope of anyio does: in each turn, until the task has ended.
                    while not task.done():
                        task.cancel()
                        await asyncio.sleep(0)
                    self.assertTrue(task.cancelled() or task.exception() is None, turns)
            await place.settled(lambda: not place.running(ours))
            await place.settled(lambda: asyncio.all_tasks() == before[1])
            self.assertEqual(place.descriptors(), before[0])
            self.assertEqual((await session.exec("echo on")).stdout, b"on\n")

    async def test_leaving_a_stream_early_ends_the_tree(self) -> None:
        async with self.opening() as session:
            ours = place.number()
            async for chunk in session.bash(f"echo began; sleep {ours}", timeout=LONG):
                self.assertEqual(chunk.text, "began\n")
                break
            gc.collect()
            await place.settled(lambda: not place.running(ours))
            call = await session.bash(["sleep", ours], timeout=LONG).start()
            await place.settled(lambda: len(place.running(ours)) == 1)
            call.cancel()
            self.assertTrue((await call).cancelled)

    async def test_two_hundred_calls_at_once(self) -> None:
        async with self.opening() as session:
            (self.workspace / "file").write_text("text")
            reads = [session.read("file") for _ in range(190)]
            echoes = [session.exec(["echo", str(n)]) for n in range(10)]
            read, echoed = await asyncio.gather(asyncio.gather(*reads), asyncio.gather(*echoes))
            self.assertEqual(read, [b"text"] * 190)
            self.assertEqual([int(one.stdout) for one in echoed], list(range(10)))

    async def test_jobs(self) -> None:
        async with self.opening() as session:
            job = await session.start("read line; echo got $line; echo more", takes_input=True)
            self.assertEqual([one.job for one in await session.jobs()], [job.id])
            await job.input("hello\n", end=True)
            status, text = await job.wait()
            self.assertEqual((status.exit_code, text), (0, "got hello\nmore\n"))
            ours = place.number()
            job = await session.start(["sleep", ours])
            await place.settled(lambda: len(place.running(ours)) == 1)
            self.assertTrue((await job.kill()).has_ended)
            self.assertEqual(place.running(ours), [])
            status, _ = await (await session.start(["no-such-program"])).wait()
            self.assertIsInstance(status.error, palisade.SpawnFailed)

    async def test_long_output_can_be_read_again(self) -> None:
        async with self.opening() as session:
            result = await session.bash("seq 100000")
            self.assertTrue(result.truncated)
            whole = b"".join(b"%d\n" % n for n in range(1, 100001))
            self.assertEqual(await session.output(result), whole)

    async def test_no_descriptor_and_no_process_is_left(self) -> None:
        async with self.opening() as session:
            await session.exec("true")
        before = place.descriptors()
        for _ in range(3):
            async with self.opening(approver=lambda _: True) as session:
                await session.exec("true")
            with self.assertRaises(palisade.ProfileNotFound):
                async with self.opening("no-such-profile"):
                    pass
        self.assertEqual(place.descriptors(), before)
        with self.assertRaises(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)


if __name__ == "__main__":
    unittest.main()
