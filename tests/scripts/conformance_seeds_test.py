"""Tests scripts/studies/conformance-seeds, which looks for correct strategies that fail a check with some seed, with
stand-ins for dpbench and wrong_strategies_test."""
import os
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts/studies/conformance-seeds"
# The stand-in passes its check with an error that grows with the seed, and fails it in the slice that starts at FAILS. In
# the slice that starts at CRASHES, a rank dies.
DPBENCH = """#!/bin/sh
while [ "$1" != --seed ]; do shift; done
printf '%s ' "$2+$4" >>"$CALLS"
check=passed case=ok
[ "$2" = "$FAILS" ] && check=failed case=wrong
[ "$2" = "$CRASHES" ] && case=failed
cat <<END
{"cases": [{"id": "toy", "status": "$case", "reason": "rank 1 died", "checks": [
  {"name": "clip", "status": "$check", "error": $2, "bound": 100, "detail": "parameter w"},
  {"name": "reload", "status": "skipped"}]}]}
END
[ $case = ok ]
"""
TESTS = """#!/bin/sh
case "$*" in
  *list_tests*) echo 'Variants/Suite.'; for test in a b c d; do echo "  $test"; done ;;
  *) echo '[==========] 3 tests from 1 test suite ran. (5 ms total)' ;;
esac
"""


class Seeds(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = pathlib.Path(folder.name)
        for name, text in {"dpbench": DPBENCH, "wrong_strategies_test": TESTS}.items():
            file = self.build / "bin" / name
            file.parent.mkdir(exist_ok=True)
            file.write_text(text, encoding="utf-8")
            file.chmod(0o755)
        self.at_commit("aaa1111")

    def at_commit(self, commit):
        header = self.build / "harness/report/generated/harness/report/machine/commit.h"
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text(f'#pragma once\n#define DPBENCH_COMMIT "{commit}"\n', encoding="utf-8")

    def study(self, seeds, fails=0, crashes=0):
        """Runs the study. Returns the exit code, the row `join` of the table, the errors, and the slices of the calls
        of dpbench."""
        calls = self.build / "calls"
        calls.write_text("", encoding="utf-8")
        done = subprocess.run([SCRIPT, self.build, str(seeds), "--keep", self.build / "kept"], capture_output=True, text=True, check=False,
                              env={**os.environ, "CALLS": str(calls), "FAILS": str(fails), "CRASHES": str(crashes)})
        row = next((line for line in done.stdout.splitlines() if line.startswith("| join |")), "")
        return done.returncode, row, done.stderr, set(calls.read_text(encoding="utf-8").split())

    def test_a_stored_slice_is_not_repeated_and_the_table_names_the_commit_of_each_slice(self):
        code, row, said, calls = self.study(10)
        self.assertEqual((code, calls), (0, {"1+5", "6+5"}), said)
        self.assertRegex(row, r"^\| join \| 1 \| 1 \| 0 \| 0.06 \(`clip`\) \| \d+ \| aaa1111: 1-10 \|$")
        self.at_commit("bbb2222")
        code, row, said, calls = self.study(13)
        self.assertEqual((code, calls), (0, {"11+3"}), said)
        self.assertRegex(row, r"^\| join \| 1 \| 1 \| 0 \| 0.11 \(`clip`\) \| \d+ \| aaa1111: 1-10, bbb2222: 11-13 \|$")

    def test_a_check_that_failed_in_a_stored_slice_is_a_false_alarm(self):
        self.study(5, fails=1)
        code, row, said, calls = self.study(10)
        self.assertEqual((code, calls), (1, {"6+5"}))
        self.assertIn("| join | 1 | 0 | 1 | - |", row)
        self.assertIn("toy clip parameter w", said)

    def test_a_case_that_crashed_without_a_failed_check_is_a_false_alarm(self):
        code, row, said, _ = self.study(5, crashes=1)
        self.assertEqual(code, 1)
        self.assertIn("| join | 1 | 1 | 1 | 0.01 (`clip`) |", row)
        self.assertIn("toy failed rank 1 died", said)


if __name__ == "__main__":
    unittest.main()
