"""Tests scripts/studies/under-load --alarms, which looks for correct cases that fail a check under load, with a
stand-in for dpbench."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts/studies/under-load"
# The stand-in times one case per call. In call n, the case gets the n-th status of the list STATUSES.
DPBENCH = """#!/usr/bin/env python3
import json, os, pathlib
calls = pathlib.Path(os.environ["CALLS"])
number = int(calls.read_text() or 0)
calls.write_text(str(number + 1))
status = os.environ["STATUSES"].split()[number]
row = {"name": "audit", "status": {"wrong": "failed", "skipped": "skipped"}.get(status, "passed"), "detail": "parameter w, step 7", "likely": "rounded"}
print(json.dumps({"tool": {"commit": os.environ["COMMIT"]}, "cases": [{"status": status, "reason": "not here", "checks": [row]}]}))
"""


class Alarms(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        for name, text in {"build/release/bin/dpbench": DPBENCH, "calls": "", "scripts/studies/under-load": SCRIPT.read_text(encoding="utf-8")}.items():
            (self.root / name).parent.mkdir(parents=True, exist_ok=True)
            (self.root / name).write_text(text, encoding="utf-8")
        (self.root / "build/release/bin/dpbench").chmod(0o755)
        shutil.copymode(SCRIPT, self.root / "scripts/studies/under-load")

    def study(self, statuses, rounds, commit="aaa1111"):
        """Runs the study. Returns the exit code, the output and the number of calls of dpbench so far."""
        done = subprocess.run([self.root / "scripts/studies/under-load", "--alarms", self.root / "alarms", "--rounds", str(rounds), "--loops", "1"],
                              capture_output=True, text=True, check=False, env={**os.environ, "CALLS": str(self.root / "calls"), "STATUSES": statuses, "COMMIT": commit})
        return done.returncode, done.stdout + done.stderr, int((self.root / "calls").read_text(encoding="utf-8"))

    def test_a_study_of_false_alarms_counts_no_disturbed_case_as_an_alarm_and_runs_no_round_with_a_stored_report(self):
        statuses = "ok disturbed ok"
        self.assertEqual(self.study(statuses, 2)[::2], (0, 2))
        code, said, calls = self.study(statuses, 3, "bbb2222")
        self.assertEqual((code, calls), (0, 3), said)
        self.assertIn("2 ok, 1 disturbed\naudited: 3; wrong or failed: 0\nrounds by commit of the build: aaa1111: 2, bbb2222: 1\n", said)

    def test_a_study_of_false_alarms_fails_for_a_wrong_case_and_names_its_command_and_failed_check(self):
        code, said, _ = self.study("ok wrong ok", 3)
        self.assertEqual(code, 1, said)
        self.assertRegex(said, r"round 1: wrong: dpbench run .*--strategy .*--seed 2\b.*\n +audit: parameter w, step 7 rounded\n")

    def test_the_study_of_false_alarms_exits_1_if_most_of_its_timed_cases_were_not_audited(self):
        self.assertEqual(self.study("skipped ok skipped", 3)[0], 1)


if __name__ == "__main__":
    unittest.main()
