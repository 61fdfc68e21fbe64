"""Tests scripts/studies/pytorch-report, which writes a page on the checks of PyTorch's own strategies, with a stand-in for dpbench."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts/studies/pytorch-report"
# The stand-in checks a case of py-ddp in each call. In the first call the check `clip` fails, and the case of the second
# call is refused.
DPBENCH = """#!/usr/bin/env python3
import json, os, pathlib, sys
calls = pathlib.Path(os.environ["CALLS"])
number = int(calls.read_text() or 0) + 1
calls.write_text(str(number))
if number == int(os.environ["BREAKS"]):
    sys.exit("broken")
rows = [{"name": "clip", "status": "failed" if number == 1 else "passed", "detail": "w|0", "likely": "too long"},
        {"name": "late-collectives", "status": "skipped", "detail": "costly"}]
case = {"id": f"case-{number}", "strategy": "py-ddp", "params": {"hook": "fp16"} if number == 3 else {}, "checks": [] if number == 2 else rows,
        "status": {1: "wrong", 2: "unproven"}.get(number, "ok"), "reason": "too small" if number == 2 else ""}
print(json.dumps({"cases": [case]}))
sys.exit({1: 1, 2: 4}.get(number, 0))
"""


class Page(unittest.TestCase):
    def run_it(self, breaks=0):
        """Returns the finished process and the page; None if the script wrote no page."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for name, text in {"scripts/peers/python": "#!/bin/sh\necho /usr/bin/python3 2.11.0\n", "dpbench": DPBENCH, "calls": ""}.items():
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text, encoding="utf-8")
                (root / name).chmod(0o755)
            (root / "scripts/studies").mkdir()
            shutil.copy(SCRIPT, root / "scripts/studies")
            page = root / "page.md"
            done = subprocess.run([root / "scripts/studies/pytorch-report", root / "dpbench", page], capture_output=True, text=True, check=False,
                                  env={**os.environ, "CALLS": str(root / "calls"), "BREAKS": str(breaks)})
            return done, page.read_text(encoding="utf-8") if page.exists() else None

    def test_pytorch_report_writes_a_matrix_with_the_failed_checks_and_the_commands_that_repeat_them(self):
        done, page = self.run_it()
        self.assertEqual(done.returncode, 0, done.stderr)
        calls = page.partition("## Commands")[2].count("`dpbench check ")
        self.assertIn(f"In {calls} cases, {calls - 2} checks passed, 1 failed and {calls - 1} were skipped.", page)
        self.assertIn("| check | `py-ddp` | `py-ddp hook=fp16` |\n", page)
        self.assertIn(f"| `clip` | **{calls - 3} of {calls - 2}** | 1 |\n| `late-collectives` | skipped | skipped |\n", page)
        self.assertIn("| `case-1` | 1 | `clip` | w/0 | too long |\n| `case-2` | 2 | - | too small |  |\n", page)
        self.assertIn("| `late-collectives` | costly |\n", page)
        self.assertRegex(page, r"\n1\. `dpbench check .*--strategy py-ddp,")

    def test_pytorch_report_estimates_the_time_that_the_remaining_calls_take(self):
        said = self.run_it()[0].stdout.splitlines()
        self.assertRegex(said[0], r"\d+ calls, \d+ cases$")
        self.assertRegex(said[2], r"\d+ of \d+ cases, \d+ s, about \d+ s left$")
        self.assertRegex(said[-2], r"\b(\d+) of \1 cases, \d+ s, about 0 s left$")

    def test_pytorch_report_writes_no_page_if_a_call_of_dpbench_breaks(self):
        done, page = self.run_it(breaks=2)
        self.assertEqual((done.returncode, page), (1, None))
        self.assertIn("broken", done.stderr)


if __name__ == "__main__":
    unittest.main()
