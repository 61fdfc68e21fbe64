"""Ranks that die, hang, lie or differ, with the real worker: each case ends in time, with exit code 3, the rank and the cause named.

usage: faults_test.py DPBENCH PLUGIN
"""
import glob
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

import leftovers
import reports  # holds every report against its schema

DPBENCH, PLUGIN = (os.path.abspath(path) for path in sys.argv[1:3])
TIMEOUT = 3  # --timeout: seconds without progress
SLACK = 30  # for a machine that is busy with other things; the promise is a second or two


class Faults(unittest.TestCase):
    def run_fault(self, fault, backend="shm", strategy="faulty-ddp", step=7, flags=(), code=3, check="off"):
        with tempfile.TemporaryDirectory() as out:
            mark = f"DPBENCH_FAULTS_TEST={out}"
            name, value = mark.split("=")
            before, segments = leftovers.of_dead_runs(), leftovers.others_in_shared_memory()
            start = time.monotonic()
            done = subprocess.run(
                [DPBENCH, "--plugin", PLUGIN, "--strategy", strategy, "--cpus", "2", "--workload", "random-linear", "--quick", "--check",
                 check, "--timeout", str(TIMEOUT), "--param", f"fault={fault}", "--param", f"step={step}",
                 *(["--backend", backend] if strategy == "faulty-ddp" else []), "--out", out, "-q", "-o", "json", *flags],
                capture_output=True, text=True, timeout=TIMEOUT + 2 * SLACK, env={**os.environ, name: value})
            self.seconds = time.monotonic() - start
            self.assertEqual(done.returncode, code, done.stderr + done.stdout)
            self.assertLess(self.seconds, TIMEOUT + SLACK)
            self.assertEqual(leftovers.processes_of(mark), {})
            self.assertEqual(leftovers.of_dead_runs() - before, set())
            self.assertEqual(leftovers.others_in_shared_memory() - segments, set())
            (saved,) = glob.glob(out + "/*/run.json")
            with open(saved, encoding="utf-8") as file:
                report = json.load(file)
            self.assertEqual(report, json.loads(done.stdout))
            cases = {case["strategy"]: case for case in report["cases"]}
            self.assertEqual(cases["cpu"]["status"], "ok", "the other case still runs")
            return cases[strategy], done.stderr

    def failed(self, fault, words, **how):
        case, _ = self.run_fault(fault, **how)
        self.assertEqual(case["status"], "failed")
        self.assertRegex(case["reason"], words)

    def over_both(self, fault, words, **how):
        for backend in ("shm", "gloo"):
            with self.subTest(backend=backend):
                self.failed(fault, words, backend=backend, **how)

    def test_killed(self):
        self.over_both("kill", r"rank 1 was ended by signal 9 .*at step 7")

    def test_killed_where_the_others_met(self):
        """Rank 0 made the file of the rendezvous, leads and roots: the others must not need it to end."""
        self.over_both("kill", r"rank 0 was ended by signal 9 .*at step 7", flags=("--param", "rank=0"))

    def test_steps_are_those_of_the_case_and_the_last_collective_is_named(self):
        case, _ = self.run_fault("kill", flags=("--param", "fault=none,kill", "--seed", "2"), backend="shm")
        self.assertRegex(case["reason"], r"rank 1 was ended by signal 9 .*at step 7; rank 0 failed: .* waited in #\d+ allreduce .*collective #\d+")

    def test_crashed(self):
        self.over_both("segv", r"rank 1 was ended by signal 11 .*at step 7")
        self.over_both("abort", r"rank 1 was ended by signal 6 .*at step 7")

    def test_left(self):
        self.over_both("exit-0", r"rank 1 left early with exit code 0 at step 7")
        self.over_both("exit-7", r"rank 1 ended with exit code 7 at step 7")

    def test_threw(self):
        self.over_both("throw", r"rank 1 failed: the strategy's own words")

    def test_out_of_memory(self):
        self.over_both("memory", r"out of memory: rank 1")

    def test_stuck(self):
        self.over_both("stop", r"rank 1 is stopped")
        self.over_both("spin", r"rank 1 .*(stuck|late|missing|did not)")
        self.over_both("sleep", r"rank 1 .*(stuck|late|missing|did not)")

    def test_never_came(self):
        self.over_both("sleep", r"rank 1", step=-1)
        self.over_both("exit-7", r"rank 1 ended with exit code 7", step=-1)

    def test_models_differ(self):
        self.over_both("more-parameters", r"rank 1 failed: this rank's model is not rank 0's: it has one_more of shape \[3\] .* where rank 0 has fc.weight")
        self.over_both("other-shape", r"rank 1 failed: .* it has \S+ of shape \[3, 3\] .* where rank 0 has \S+ of shape \[2, 5\]")

    def test_dtypes_differ(self):
        self.over_both("other-dtype", r"rank 1 failed: .* it has \S+ of shape \[2, 5\] and type Double where rank 0 has .* Float")

    def test_another_collective(self):
        self.failed("other-collective", r"rank [01].*broadcast.*|broadcast.*rank [01]")

    def test_a_collective_skipped(self):
        self.failed("skip", r"rank [01]")

    def wrong(self, fault, found, backend):
        case, said = self.run_fault(fault, backend=backend, step=1, code=1, check="auto")
        self.assertEqual((case["status"], case["launches"]), ("wrong", []), said)
        (row,) = [check for check in case["checks"] if check["status"] == "failed"]
        self.assertEqual(row["name"], "run-completes")
        self.assertRegex(row["detail"], found)

    def test_the_checks_before_timing_name_what_each_rank_calls(self):
        """Gloo itself gives success and wrong numbers, or hangs."""
        for backend in ("gloo", "shm"):
            with self.subTest(backend=backend):
                self.wrong("skip", r'rank 0 "even: step 1, call 0: .*", rank 1 "even: step 2, call 0: ', backend)
                self.wrong("other-collective", r'rank 0 "even: step 1, call 0: .*", rank 1 "even: step 1, call 0: broadcast of 3 Float"', backend)

    def test_not_a_number(self):
        self.over_both("nan", r"not a number: rank 1 failed: the loss of step 2 is nan", step=1, flags=("--warmup", "20"))
        self.over_both("nan", r"not a number: rank \d failed: the loss of step \d+, or of one before it, is nan")

    def test_what_the_checks_found_is_kept_and_nothing_is_timed(self):
        case, said = self.run_fault("nan", step=1, code=1, check="auto")
        self.assertEqual((case["status"], case["launches"]), ("wrong", []), said)
        self.assertIn("rank 1", " ".join(check["detail"] for check in case["checks"] if check["status"] == "failed"))

    def test_slow_is_no_fault(self):
        case, _ = self.run_fault("slow", code=0)
        self.assertEqual(case["status"], "ok")

    def test_a_replica(self):
        self.failed("throw", r"the strategy's own words", strategy="faulty-dp", flags=("--param", "rank=0"))
        self.failed("kill", r"the worker was ended by signal 9", strategy="faulty-dp", flags=("--param", "rank=0"))


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
