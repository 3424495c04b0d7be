"""The errors are those of the protocol, one class for each code."""

import errno
import os
import pickle
import re
import unittest
from pathlib import Path

import palisade
from palisade import limits
from palisade.errors import remote_error


def protocol() -> str:
    """PROTOCOL.md, which the protocol's own tests compare with the code."""
    named = os.environ.get("PALISADE_PROTOCOL")
    beside = Path(__file__).resolve().parents[3] / "protocol" / "PROTOCOL.md"
    return Path(named or beside).read_text()


class Errors(unittest.TestCase):
    def test_every_code_of_the_protocol_has_a_class_and_no_other(self) -> None:
        section = protocol().split("\n## Errors\n")[1].split("\n## ")[0]
        codes = re.findall(r"^\| \d+ \| `(\w+)` \|", section, re.M)
        self.assertGreater(len(codes), 40)
        self.assertEqual(list(palisade.CODES), codes)
        for code, kind in palisade.CODES.items():
            self.assertEqual(kind.__name__, code.title().replace("_", ""))
            self.assertIs(getattr(palisade, kind.__name__), kind)

    def test_limits_are_those_of_the_protocol(self) -> None:
        rows = dict(re.findall(r"^\| `(\w+)` \| (\d+) \|", protocol(), re.M))
        own = {name: value for name, value in vars(limits).items() if name.isupper()}
        self.assertEqual(own, {name: int(rows[name]) for name in own})

    def test_an_error_of_the_kernel_is_also_the_builtin_one(self) -> None:
        error = remote_error("not_found", "there is no x", "look", errno=errno.ENOTDIR, path="x")
        self.assertIsInstance(error, palisade.NotFound)
        assert isinstance(error, NotADirectoryError)
        self.assertEqual((error.errno, error.filename), (errno.ENOTDIR, "x"))
        self.assertEqual(str(error), "not_found: there is no x (look)")
        # Without a number of the kernel's it is the usual one of the code.
        self.assertIsInstance(remote_error("denied", "no"), PermissionError)
        self.assertIsInstance(remote_error("timed_out", "late"), TimeoutError)
        self.assertNotIsInstance(remote_error("conflict", "changed"), OSError)

    def test_errors_survive_pickling(self) -> None:
        for number in (None, errno.ENOTDIR):
            error = remote_error("not_found", "m", "h", 5, number, "p")
            again = pickle.loads(pickle.dumps(error))
            self.assertIs(type(again), type(error))
            self.assertEqual((str(again), again.retry_after_ms), (str(error), 5))

    def test_an_unknown_code_is_an_error_too(self) -> None:
        error = remote_error("from_the_future", "m")
        self.assertIs(type(error), palisade.RemoteError)
        self.assertEqual(str(error), "from_the_future: m")


if __name__ == "__main__":
    unittest.main()
