"""compare_apart_test.py DPBENCH: tests that scripts/studies/compare-apart compares only runs started far enough apart,
on synthetic reports."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import sample_runs

DPBENCH = os.path.abspath(sys.argv.pop(1))
SCRIPT = pathlib.Path(__file__).parents[2] / "scripts/studies/compare-apart"
# Start and step time of two runs two minutes apart, and of two more runs two hours later, slower by a third.
RUNS = (("20261122T020000Z", 1e6), ("20261122T020200Z", 1.01e6), ("20261122T040000Z", 1.33e6), ("20261122T040200Z", 1.34e6))


def cases(step_ns):
    return [sample_runs.case(name, step_ns=step_ns, launches=5, noise=0.002) for name in ("cpu", "dp")]


class Apart(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="dpbench-apart-")
        cls.addClassCleanup(cls.folder.cleanup)
        for time, step_ns in RUNS:
            run = f"{time}-a1b2c3d-2xEPYC-5f3a"
            path = pathlib.Path(cls.folder.name, run, "run.json")
            path.parent.mkdir()
            path.write_text(json.dumps(sample_runs.report(cases(step_ns), run)), encoding="utf-8")

    def judge(self, *words, code=0):
        done = subprocess.run([SCRIPT, "judge", self.folder.name, "--dpbench", DPBENCH, "--only", "^cpu/", *words], text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def test_compare_apart_compares_all_pairs_of_runs_by_default(self):
        said = self.judge("--markdown").stdout
        self.assertIn("| median:20% | 4 of 12 | 4 of 12 |", said)
        self.assertRegex(said, r"\b12 pairs\b.*\b0 s\b")

    def test_compare_apart_leaves_out_runs_closer_in_time_than_the_flag_apart_says(self):
        self.assertIn("| median:20% | 4 of 8 | 4 of 8 |", self.judge("--apart", "7000", "--markdown").stdout)

    def test_compare_apart_fails_if_no_two_runs_are_far_enough_apart_in_time(self):
        self.assertRegex(self.judge("--apart", "86400", code=1).stderr, r"\Acompare-apart: .*\b86400 s\b.*\n\Z")


unittest.main(argv=sys.argv[:1])
