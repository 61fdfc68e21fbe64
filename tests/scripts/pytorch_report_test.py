"""Tests scripts/studies/pytorch-report, which writes a page on the checks of PyTorch's own strategies, with a stand-in for dpbench."""
import pathlib
import shutil
import subprocess
import tempfile
import unittest

STUDIES = pathlib.Path(__file__).parents[2] / "scripts/studies"
# The stand-in checks a case of py-ddp in each call. In the first call the check `clip` fails, the case of the call with
# reshard=off is refused, and the cases of the call with hooks have a parameter. The call with a word of the file
# `broken` ends without a report.
DPBENCH = """#!/usr/bin/env python3
import json, pathlib, sys
root = pathlib.Path(__file__).parents[2]
words = " ".join(sys.argv)
with open(root / "calls", "a") as calls:
    calls.write(words + "\\n")
broken = (root / "broken").read_text()
if broken and broken in words:
    sys.exit("no report")
kind = next((name for name in ("py-zero1", "reshard=off", "hook=") if name in words), "")
rows = [{"name": "clip", "status": "failed" if kind == "py-zero1" else "passed", "detail": "w|0", "likely": "too long"},
        {"name": "late-collectives", "status": "skipped", "detail": "costly"}]
case = {"id": "case " + kind, "strategy": "py-ddp", "params": {"hook": "fp16"} if kind == "hook=" else {},
        "checks": [] if kind == "reshard=off" else rows, "reason": "too small" if kind == "reshard=off" else "",
        "status": {"py-zero1": "wrong", "reshard=off": "unproven"}.get(kind, "ok")}
print(json.dumps({"cases": [case]}))
sys.exit({"py-zero1": 1, "reshard=off": 4}.get(kind, 0))
"""


class Page(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.page = self.root / "page.md"
        for name, text in {"scripts/peers/python": "#!/bin/sh\necho /usr/bin/python3 2.11.0\n", "build/bin/dpbench": DPBENCH,
                           "broken": ""}.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text, encoding="utf-8")
            (self.root / name).chmod(0o755)
        (self.root / "scripts/studies").mkdir()
        for name in ("pytorch-report", "stored.py"):
            shutil.copy(STUDIES / name, self.root / "scripts/studies")

    def study(self):
        """Runs the study. Returns the exit code, the output and the number of calls of dpbench in this run."""
        (self.root / "calls").write_text("", encoding="utf-8")
        done = subprocess.run([self.root / "scripts/studies/pytorch-report", self.root / "build", self.page], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr, len((self.root / "calls").read_text(encoding="utf-8").splitlines())

    def test_pytorch_report_writes_a_matrix_with_the_failed_checks_and_the_commands_that_repeat_them(self):
        code, said, _ = self.study()
        self.assertEqual(code, 0, said)
        page = self.page.read_text(encoding="utf-8")
        calls = page.partition("## Commands")[2].count("`dpbench check ")
        self.assertIn(f"In {calls} cases, {calls - 2} checks passed, 1 failed and {calls - 1} were skipped.", page)
        self.assertIn("| check | `py-ddp` | `py-ddp hook=fp16` |\n", page)
        self.assertIn(f"| `clip` | **{calls - 3} of {calls - 2}** | 1 |\n| `late-collectives` | skipped | skipped |\n", page)
        self.assertIn("| `case py-zero1` | 1 | `clip` | w/0 | too long |\n| `case reshard=off` | 7 | - | too small |  |\n", page)
        self.assertIn("| `late-collectives` | costly |\n", page)
        self.assertRegex(page, r"\n1\. `dpbench check .*--strategy py-ddp,")

    def test_pytorch_report_writes_no_page_if_a_call_breaks_and_then_repeats_only_that_call(self):
        (self.root / "broken").write_text("rotate=", encoding="utf-8")
        code, said, calls = self.study()
        self.assertEqual((code, self.page.exists()), (1, False), said)
        self.assertIn("no report", said)
        (self.root / "broken").write_text("", encoding="utf-8")
        self.assertGreater(calls, 10)
        self.assertEqual(self.study()[::2], (0, 1))
        self.assertTrue(self.page.exists())


if __name__ == "__main__":
    unittest.main()
