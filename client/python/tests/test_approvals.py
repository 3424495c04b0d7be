"""Approvals, dry runs and reasons."""

import asyncio
import unittest

import place

import palisade


class Approvals(place.Test):
    async def test_without_an_approver_a_loss_is_denied_and_why_says_so(self) -> None:
        (self.workspace / "kept").write_text("x")
        async with self.opening("workspace") as session:
            result = await session.bash("rm kept")
            self.assertFalse(result.success)
            self.assertIsInstance(result.error, palisade.Denied)
            self.assertIn("Denied: ", result.why())
            with self.assertRaises(PermissionError):
                await session.remove("kept")
            self.assertEqual((await session.bash("true")).why(), "Nothing was refused.")
        self.assertTrue((self.workspace / "kept").exists())

    async def test_a_dry_run_shows_the_changes_and_makes_none(self) -> None:
        (self.workspace / "kept").write_text("x\n")
        async with self.opening() as session:
            result = await session.bash("rm kept; echo new > made", dry_run=True)
            assert result.changes is not None
            self.assertFalse(result.changes.committed)
            found = {one.path.rpartition("/")[2]: one.effect for one in result.changes.changes}
            self.assertEqual(found, {"kept": "deleted", "made": "created"})
            self.assertIn("+new", result.changes.diff or "")
            shown = str(result.changes)
            self.assertRegex(shown, r"deleted .*kept \(2 bytes\)")
            self.assertIn("[not committed; the workspace is unchanged]", shown)
            self.assertIn("<pre>", result.changes._repr_html_())
            self.assertTrue((self.workspace / "kept").exists())
            # The control, with a key: it is made, and only once.
            for _ in range(2):
                real = await session.bash("echo new >> made", key="k", route="transaction")
                self.assertTrue(real.success)
            self.assertEqual((self.workspace / "made").read_text(), "new\n")

    async def test_an_approver_of_a_private_daemon(self) -> None:
        asked: list[palisade.ApprovalRequest] = []

        def decide(request: palisade.ApprovalRequest) -> palisade.Answer | bool:
            asked.append(request)
            if "never" in str(request):
                return palisade.Answer.deny("it is needed", "keep it")
            return True

        for name in ("one", "two", "never"):
            (self.workspace / name).write_text("x")
        async with self.opening("workspace", approver=decide) as session:
            self.assertTrue((await session.bash("rm one", reason="tidy")).success)
            await session.remove("two")
            with self.assertRaises(palisade.Denied) as denied:
                await session.remove("never")
            self.assertIn("it is needed", str(denied.exception))
        self.assertEqual([path.name for path in self.workspace.iterdir()], ["never"])
        self.assertEqual(asked[0].reason, "tidy")
        self.assertIn("one", asked[0]._repr_html_())

    async def test_an_approver_that_fails_denies(self) -> None:
        async def decide(request: palisade.ApprovalRequest) -> bool:
            raise RuntimeError("broken")

        (self.workspace / "kept").write_text("x")
        with palisade.approve_with(decide), self.assertLogs("palisade", "ERROR"):
            async with palisade.session(self.workspace, "workspace") as session:
                with self.assertRaises(palisade.Denied) as denied:
                    await session.remove("kept")
        self.assertIn("the approver failed: RuntimeError", str(denied.exception))
        self.assertTrue((self.workspace / "kept").exists())

    def test_approve_with_holds_for_the_blocking_form(self) -> None:
        (self.workspace / "one").write_text("x")
        with palisade.approve_with(lambda request: request.tool == "bash"):
            result = palisade.run("rm one", workspace=self.workspace, profile="workspace")
        self.assertTrue(result.success, result)
        self.assertFalse((self.workspace / "one").exists())
        (self.workspace / "two").write_text("x")
        self.assertFalse(palisade.run("rm two", workspace=self.workspace).success)
        self.assertTrue((self.workspace / "two").exists())

    async def test_an_approver_of_a_running_daemon(self) -> None:
        socket = self.daemon()

        @palisade.approver(tools=["delete_file"])
        async def decide(request: palisade.ApprovalRequest) -> bool:
            return bool(request.arguments["path"] == "one")

        serving = asyncio.create_task(decide.serve(socket.parent / "operator.sock"))
        for name in ("one", "two"):
            (self.workspace / name).write_text("x")
        async with palisade.session(self.workspace, "workspace", socket=socket) as session:
            removed = None
            while removed is None:
                # Until it is registered, nobody approves.
                try:
                    removed = await session.remove("one")
                except palisade.Denied:
                    self.assertFalse(serving.done(), serving)
                    await asyncio.sleep(0.05)
            with self.assertRaises(palisade.Denied):
                await session.remove("two")
        self.assertEqual([path.name for path in self.workspace.iterdir()], ["two"])
        serving.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await serving

    async def test_an_approver_is_told_of_a_quorum_and_for_how_long_it_may_answer(self) -> None:
        profiles = self.directory / "profiles"
        profiles.mkdir()
        head = 'version = 1\ndescription = "Two approvers."\nextends = "workspace"\n'
        rest = "handlers.quorum = 2\nremember.ms = 60000\n"
        (profiles / "two.toml").write_text(head + rest)
        asked: list[palisade.ApprovalRequest] = []

        def decide(request: palisade.ApprovalRequest) -> bool:
            asked.append(request)
            return True

        async def until_asked() -> None:
            while not asked:
                await asyncio.sleep(0.01)

        (self.workspace / "kept").write_text("x")
        arguments = ["--profiles", str(profiles)]
        async with self.opening("two", approver=decide, daemon_arguments=arguments) as session:
            result = await session.bash("rm kept")
            # One approver is too few: it is denied while that one still decides.
            await asyncio.wait_for(until_asked(), place.PATIENCE)
        self.assertIsInstance(result.error, palisade.Denied)
        self.assertTrue((self.workspace / "kept").exists())
        self.assertEqual((asked[0].quorum, asked[0].approved_by), (2, ()))
        self.assertEqual(asked[0].remember_ms, 60000)
        self.assertIn("approvals: 2 needed; given by nobody", str(asked[0]))

    async def test_a_session_is_resumed_with_its_calls(self) -> None:
        socket = self.daemon()
        opening = palisade.session(self.workspace, socket=socket, grace=50)
        first = await opening.open()
        assert first.token is not None
        self.assertNotIn(first.token.secret, repr(first.token))
        await first.bash("cd /usr")
        call = await first.bash("sleep 0.3; pwd").start()
        first.client._link.abort()
        with self.assertRaises(palisade.Disconnected):
            await call
        second, calls = await first.resume()
        self.assertEqual([(await one).stdout for one in calls], ["/usr\n"])
        self.assertEqual((await second.bash("pwd")).stdout, "/usr\n")
        with self.assertRaises(palisade.NotFound):
            client = await palisade.Client.connect(socket)
            try:
                await palisade.resume(client, palisade.Token(first.id, "wrong"))
            finally:
                await client.close()
        await second.close()
        await first.close()
        async with self.opening() as private:
            with self.assertRaises(palisade.NotResumable):
                await private.resume()

    async def test_a_daemon_is_found_or_named_or_missing(self) -> None:
        socket = self.daemon()
        place.put("PALISADE_SOCKET", str(socket))
        async with palisade.session(self.workspace) as session:
            self.assertFalse(session.client.is_private)
            # Client and daemon are of one release.
            self.assertEqual(session.client.server.split()[-1], palisade.__version__)
            status = await session.client.status()
            self.assertIn("workspace", status["profiles"])
        with self.assertRaises(palisade.ConnectError):
            await palisade.Client.connect(self.directory / "nothing")
        place.put("PALISADE_SOCKET", None)
        self._set("PALISADE_DAEMON", "/nonexistent/palisaded")
        with self.assertRaises(palisade.DaemonNotStarted):
            await palisade.Client.embedded()

    async def test_a_daemon_that_ends_at_its_start_says_so(self) -> None:
        daemon = self.directory / "palisaded"
        daemon.write_text("#!/bin/sh\nexit 3\n")
        daemon.chmod(0o755)
        before = place.descriptors()
        self._set("PALISADE_DAEMON", str(daemon))
        for opening in (self.opening(), self.opening(approver=lambda _: True)):
            with self.assertRaisesRegex(palisade.DaemonNotStarted, "at its start, with status 3"):
                await opening.open()
        await place.settled(lambda: place.descriptors() <= before)


if __name__ == "__main__":
    unittest.main()
