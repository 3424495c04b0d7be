"""The blocking form."""

import asyncio
import gc
import multiprocessing
import os
import signal
import threading
import unittest

import place

import palisade


def in_child(workspace: str) -> None:
    """What a forked process does."""
    code, stdout, _ = 0, b"", b""
    with palisade.session(workspace, "autonomous", private=True) as session:
        code, stdout, _ = session.exec("echo child")
    os._exit(code if stdout == b"child\n" else 9)


def own_threads() -> set[str]:
    """The threads of this process. Those of asyncio's pool, for functions that approve, stay."""
    return {one.name for one in threading.enumerate() if not one.name.startswith("asyncio_")}


class Blocking(place.Test):
    def test_a_session_without_an_event_loop(self) -> None:
        with self.opening() as session:
            self.assertEqual(session.exec(["echo", "hi"]), (0, b"hi\n", b""))
            session.write("a", "b")
            self.assertEqual(session.read("a"), b"b")
            self.assertEqual([one.path for one in session.list()], ["a"])
            with self.assertRaises(FileNotFoundError):
                session.read("nothing")
            chunks = list(session.stream("echo one; echo two >&2"))
            self.assertEqual(sorted(chunk.text for chunk in chunks), ["one\n", "two\n"])
            stream = session.stream("echo three; exit 3")
            with self.assertRaises(palisade.Error):
                _ = stream.result
            self.assertEqual("".join(chunk.text for chunk in stream), "three\n")
            self.assertEqual(stream.result.exit_code, 3)
            job = session.start("echo job")
            status, printed = job.wait()
            self.assertEqual((str(status), printed), ("job 1: ended, exit 0: echo job", "job\n"))
            self.assertEqual(session.bash("exit 4").exit_code, 4)
        with self.assertRaisesRegex(palisade.Disconnected, "the session was closed"):
            session.read("a")

    def test_several_threads_share_a_session(self) -> None:
        with self.opening() as session:
            (self.workspace / "file").write_text("text")
            found: list[bytes] = []

            def work() -> None:
                for _ in range(10):
                    found.append(session.read("file"))

            threads = [threading.Thread(target=work) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(found, [b"text"] * 80)

    def test_sessions_of_several_threads_leave_nothing(self) -> None:
        with self.opening() as session:
            session.exec("true")
        before = place.descriptors(), own_threads()
        failures: list[BaseException] = []

        def work() -> None:
            try:
                with self.opening(approver=lambda _: True) as session:
                    self.assertEqual(session.exec("echo on").stdout, b"on\n")
                    next(session.stream("echo one; echo two"))
                    session.start("sleep 100")
                with self.assertRaises(palisade.ProfileNotFound), self.opening("no-such-profile"):
                    pass
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(failures, [])
        gc.collect()
        place.until(lambda: place.descriptors() <= before[0])
        self.assertEqual(own_threads(), before[1])
        with self.assertRaises(ChildProcessError):
            os.waitpid(-1, os.WNOHANG)

    def test_a_session_is_resumed(self) -> None:
        socket = self.daemon()
        with palisade.session(self.workspace, socket=socket, grace=50) as first:
            first.bash("cd /usr")
            first._session.client._link.abort()
            with self.assertRaises(palisade.Disconnected):
                first.bash("pwd")
            second, results = first.resume()
            self.assertEqual(results, [])
            self.assertEqual(second.bash("pwd").stdout, "/usr\n")
            second.close()

    def test_an_event_loop_that_is_missing_or_another_is_told(self) -> None:
        # As under trio: the coroutine runs, and there is no loop of asyncio's.
        with self.assertRaises(palisade.EventLoopError):
            self.opening().open().send(None)
        loop = asyncio.new_event_loop()
        session = loop.run_until_complete(self.opening().open())
        for work in (session.read("file"), session.tools(), session.close()):
            with self.assertRaises(palisade.EventLoopError):
                asyncio.run(work)
        loop.run_until_complete(session.close())
        loop.close()

    def test_an_interrupt_ends_the_call(self) -> None:
        ours = place.number()
        with self.opening() as session:

            def interrupt() -> None:
                place.until(lambda: bool(place.running(ours)))
                os.kill(os.getpid(), signal.SIGINT)

            before = signal.signal(signal.SIGINT, signal.default_int_handler)
            self.addCleanup(signal.signal, signal.SIGINT, before)
            thread = threading.Thread(target=interrupt)
            thread.start()
            with self.assertRaises(KeyboardInterrupt):
                session.exec(["sleep", ours], timeout=600)
            thread.join()
            place.until(lambda: not place.running(ours))

    def test_leaving_a_stream_early_ends_the_call(self) -> None:
        ours = place.number()
        with self.opening() as session:
            for chunk in session.stream(f"echo began; sleep {ours}", timeout=600):
                self.assertEqual(chunk.text, "began\n")
                break
            place.until(lambda: not place.running(ours))
            self.assertEqual(session.exec("echo on").stdout, b"on\n")

    def test_a_forked_process_has_its_own(self) -> None:
        with self.opening() as session:
            session.exec("true")
            context = multiprocessing.get_context("fork")
            child = context.Process(target=in_child, args=(str(self.workspace),))
            child.start()
            child.join(place.PATIENCE)
            self.assertEqual(child.exitcode, 0)
            self.assertEqual(session.exec("echo on").stdout, b"on\n")


if __name__ == "__main__":
    unittest.main()
