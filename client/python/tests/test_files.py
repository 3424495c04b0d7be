"""The file methods: what they return, and the builtin errors that they raise."""

import base64
import errno
import os
import unittest

import place

import palisade

PATCH = """*** Begin Patch
*** Update File: a.txt
@@
-two
+2
*** End Patch
"""


class Files(place.Test):
    async def test_files_are_written_read_changed_and_undone(self) -> None:
        async with self.opening() as session:
            path = self.workspace / "dir" / "a.txt"
            await session.write("dir/a.txt", "one\ntwo\n")
            self.assertEqual(path.read_text(), "one\ntwo\n")
            await session.write(path, b"three\n", mode="append")
            self.assertEqual(await session.read_text("dir/a.txt"), "one\ntwo\nthree\n")
            edited = await session.edit("dir/a.txt", "one", "1")
            self.assertEqual(path.read_text(), "1\ntwo\nthree\n")
            await session.undo(edited)
            self.assertEqual(path.read_text(), "one\ntwo\nthree\n")
            await session.move("dir/a.txt", "a.txt")
            await session.apply_patch(PATCH)
            self.assertEqual(await session.read("a.txt"), b"one\n2\nthree\n")
            await session.mkdir("x/y")
            self.assertTrue((self.workspace / "x/y").is_dir())
            removed = await session.remove("x", recursive=True)
            self.assertFalse((self.workspace / "x").exists())
            await session.undo(removed)
            self.assertTrue((self.workspace / "x/y").is_dir())

    async def test_large_and_odd_contents_are_exact(self) -> None:
        async with self.opening() as session:
            odd = bytes(range(256)) * 4096 * 3
            await session.write("odd", odd)
            self.assertEqual((self.workspace / "odd").read_bytes(), odd)
            self.assertEqual(await session.read("odd"), odd)
            await session.write("empty", b"")
            self.assertEqual(await session.read("empty"), b"")
            name = os.fsdecode(b"n\xff")
            (self.workspace / name).write_text("x")
            self.assertIn(name, [one.path for one in await session.list()])
            self.assertEqual(await session.read(self.workspace / name), b"x")

    async def test_pages_for_a_model(self) -> None:
        async with self.opening() as session:
            (self.workspace / "text").write_text("one\ntwo\nthree\n")
            (self.workspace / "wide").write_text("\u2603" * 100)
            (self.workspace / "odd").write_bytes(b"\xff" * 100)
            for arguments, expected in (
                (("text", 2, 1, 100), ("two\n", "utf-8", False)),
                (("text", 9, 1, 100), ("", "utf-8", False)),
                (("text", 1, 0, 100), ("", "utf-8", False)),
                (("text", 1, 9, 5), ("one\nt", "utf-8", True)),
                # A character is not cut in two.
                (("wide", 1, 9, 7), ("\u2603" * 2, "utf-8", True)),
                (("odd", 1, 9, 100), (base64.b64encode(b"\xff" * 100).decode(), "base64", False)),
            ):
                self.assertEqual(await session.read_page(*arguments), expected, arguments)
            with self.assertRaises(palisade.TooLarge):
                await session.read_page("odd", 1, 9, 99)
            with self.assertRaises(FileNotFoundError):
                await session.read_page("nothing", 1, 9, 99)
            self.assertEqual(await session.read_text("text", first=2), "two\nthree\n")
            with self.assertRaises(palisade.InvalidArguments):
                await session.read_text("odd", lines=1)

    async def test_searches(self) -> None:
        async with self.opening() as session:
            (self.workspace / "src").mkdir()
            (self.workspace / "src/a.py").write_text("import os\nx = 1 (\n")
            (self.workspace / "b.txt").write_text("import nothing\n")
            self.assertEqual(await session.glob("*.py"), ["src/a.py"])
            found = await session.grep("^import", glob="*.py")
            self.assertEqual(
                [(one.path, one.line, one.text) for one in found], [("src/a.py", 1, "import os")]
            )
            self.assertEqual(len(await session.grep("1 (", literal=True)), 1)
            with self.assertRaises(palisade.InvalidArguments):
                await session.grep("1 (")
            entries = await session.list(recursive=True)
            self.assertEqual([one.path for one in entries], ["b.txt", "src", "src/a.py"])
            (self.workspace / ".dot").mkdir()
            (self.workspace / ".dot/c.py").touch()
            for glob, hidden, expected in (
                ("/*", False, ["b.txt", "src"]),
                ("/*", True, [".dot", "b.txt", "src"]),
                ("/*.py", True, []),
                ("*.py", True, [".dot/c.py", "src/a.py"]),
                ("/**/*.py", False, ["src/a.py"]),
            ):
                entries = await session.list(glob=glob, recursive=True, hidden=hidden)
                self.assertEqual([one.path for one in entries], expected, glob)
            (self.workspace / ".gitignore").write_text("b.txt\n")
            (self.workspace / ".git").mkdir()
            self.assertEqual(await session.grep("nothing"), [])
            self.assertEqual(len(await session.grep("nothing", ignored=True)), 1)

    async def test_every_entry_of_a_large_directory_is_listed(self) -> None:
        for n in range(2500):
            (self.workspace / f"{n:05}").touch()
        async with self.opening() as session:
            entries = await session.list()
            self.assertEqual([one.path for one in entries], [f"{n:05}" for n in range(2500)])

    async def test_stat_and_realpath(self) -> None:
        async with self.opening() as session:
            file = self.workspace / "file"
            file.write_text("12345")
            (self.workspace / "link").symlink_to("file")
            found = await session.stat("link")
            self.assertEqual((found.kind, found.size), ("file", 5))
            self.assertAlmostEqual(found.mtime, file.stat().st_mtime, places=3)
            found = await session.stat("link", follow=False)
            self.assertEqual((found.kind, found.target), ("symlink", "file"))
            self.assertEqual(await session.realpath("link"), os.path.realpath(file))
            (self.workspace / "lost").symlink_to("nowhere")
            (self.workspace / "loop").symlink_to("loop")
            for name in ("lost", "lost/below", "lost/../x", "nothing/below"):
                expected = os.path.realpath(self.workspace / name)
                self.assertEqual(await session.realpath(name), expected, name)
            with self.assertRaises(OSError) as looped:
                await session.realpath("loop")
            self.assertEqual(looped.exception.errno, errno.ELOOP)
            entries = {one.path: one.kind for one in await session.list(follow=True)}
            links = {"link": "file", "lost": "symlink", "loop": "symlink"}
            self.assertEqual(entries, {"file": "file", **links})
            self.assertTrue(await session.exists("link"))
            self.assertFalse(await session.exists("nothing"))

    async def test_errors_are_builtin_ones_with_their_number(self) -> None:
        (self.workspace / "file").write_text("x")
        (self.workspace / "closed").write_text("x")
        (self.workspace / "closed").chmod(0)
        (self.directory / "outside").write_text("canary")
        async with self.opening() as session:
            cases = [
                (session.read("nothing"), FileNotFoundError, errno.ENOENT),
                (session.read("file/below"), NotADirectoryError, errno.ENOTDIR),
                (session.read("."), IsADirectoryError, errno.EISDIR),
                (session.list("file"), NotADirectoryError, errno.ENOTDIR),
                (session.write("file", "y", mode="create"), FileExistsError, errno.EEXIST),
                (session.read(self.directory / "outside"), FileNotFoundError, errno.ENOENT),
                (session.remove("nothing"), FileNotFoundError, errno.ENOENT),
            ]
            for above in (".", self.workspace, self.directory, "/"):
                with self.assertRaises(ValueError):
                    await session.remove(above, recursive=True)
            if os.geteuid() != 0:
                cases.append((session.read("closed"), PermissionError, errno.EACCES))
            for work, kind, number in cases:
                with self.assertRaises(kind) as caught:
                    await work
                self.assertIsInstance(caught.exception, palisade.RemoteError)
                self.assertEqual(caught.exception.errno, number, caught.exception)
            with self.assertRaises(OSError) as outside:
                await session.write("/usr/palisade-canary", "changed")
            self.assertEqual(outside.exception.errno, errno.EROFS)
            self.assertFalse(os.path.exists("/usr/palisade-canary"))
            with self.assertRaises(palisade.NoMatch):
                await session.edit("file", "not there", "x")
            with self.assertRaises(palisade.ArgumentsError):
                await session.read("a\0b")


if __name__ == "__main__":
    unittest.main()
