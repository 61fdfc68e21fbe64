"""Tests dpbench.pytest_plugin, which makes a pytest test of each check, with stand-ins for pytest and for dpbench.
scripts/parts/wheel runs the plug-in in pytest itself."""
import json
import os
import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "strategies/python"))
CASES = [{"id": "one", "checks": [{"name": "output-value", "status": "passed"},
                                  {"name": "gradient-meaning", "status": "failed", "detail": "found 2", "likely": "counted twice"},
                                  {"name": "empty-shard", "status": "skipped", "detail": "one rank"}]},
         {"id": "two", "checks": [], "reason": "no blocks"}]
DPBENCH = f"""#!/usr/bin/env python3
import os, sys
with open(os.environ["CALLS"], "a") as file:
    print(*sys.argv[1:], file=file)
print({json.dumps({"cases": CASES})!r})
sys.exit(1)
"""


class Ended(Exception):
    """A test of pytest has ended as skipped or failed."""


class Node:
    """Stand-in for a collector and a test of pytest."""

    def __init__(self, *, name, path):
        self.name, self.path = name, path

    @classmethod
    def from_parent(cls, parent, **arguments):
        return cls(path=parent.path, **arguments)


def stand_in_for_pytest():
    def skip(reason):
        raise Ended("skipped: " + reason)

    def fail(reason, pytrace):
        raise Ended("failed: " + reason)

    module = types.ModuleType("pytest")
    module.Collector, module.Item, module.skip, module.fail = Node, Node, skip, fail
    return module


def outcome(test):
    try:
        test.runtest()
    except Ended as ended:
        return str(ended)
    return "passed"


class PytestPlugin(unittest.TestCase):
    def test_each_check_of_each_case_is_a_test_of_one_call_of_dpbench(self):
        with tempfile.TemporaryDirectory() as holder, mock.patch.dict(sys.modules, pytest=stand_in_for_pytest()):
            folder = pathlib.Path(holder)
            folder.joinpath("dpbench").write_text(DPBENCH, encoding="utf-8")
            folder.joinpath("dpbench").chmod(0o755)
            from dpbench import Checks, pytest_plugin
            module = Node(name="test_mine.py", path=folder / "test_mine.py")
            with mock.patch.dict(os.environ, DPBENCH=str(folder / "dpbench"), CALLS=str(folder / "calls")):
                collector = pytest_plugin.pytest_pycollect_makeitem(module, "checks_of_mine", Checks("mine.py", "mine", world=3))
                tests = [list(collector.collect()) for _ in range(2)][-1]
            calls = folder.joinpath("calls").read_text(encoding="utf-8").splitlines()
            self.assertEqual(len(calls), 1)
            self.assertRegex(calls[0], rf"^check .*--strategy mine .*--cpus 3 --plugin {folder}/mine\.py$")
            self.assertEqual([(test.name, outcome(test)) for test in tests],
                             [("one:output-value", "passed"),
                              ("one:gradient-meaning", "failed: one: gradient-meaning: found 2; looks like: counted twice"),
                              ("one:empty-shard", "skipped: one rank"), ("two", "skipped: no blocks")])
            self.assertIsNone(pytest_plugin.pytest_pycollect_makeitem(module, "other", object()))


if __name__ == "__main__":
    unittest.main()
