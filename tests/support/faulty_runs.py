"""What the tests of faults share: runs of the real worker with a plug-in that misbehaves on one rank at one step, and their times.

usage of such a test: NAME_test.py DPBENCH PLUGIN
"""
import collections
import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest

import leftovers
import reports  # holds every report against its schema
from struck import Watched

DPBENCH, PLUGIN = (os.path.abspath(path) for path in sys.argv[1:3])
TIMEOUT = 3  # --timeout: seconds without progress
# Seconds from the strike until the front tells of it, and from there until all is cleaned up: what is promised of an idle machine. Tests
# allow three times that, and a second try: a busy machine is late once, a hang always.
DEATH, DIFFERS = (0.5, 2), (1, 2)
SLACK, TRIES = 3, 2
START = 60  # of LibTorch, many at once
TIMES = collections.defaultdict(list)


class FaultyRuns(unittest.TestCase):
    wrapper = ()  # what runs the command
    variables = {}  # of the command
    timeout = TIMEOUT

    def run_fault(self, fault, backend="shm", strategy="faulty-ddp", step=7, flags=(), code=3, check="off", within=DEATH, silent=0):
        """The case's record. silent: seconds that must pass before anybody can know. code: one, or a tuple of those that will do."""
        for attempt in range(TRIES):
            with tempfile.TemporaryDirectory() as out:
                case, late = self.one_run(out, fault, backend, strategy, step, flags, code, check, within, silent)
                if not late:
                    return case
                print(f"attempt {attempt + 1}: {late}", file=sys.stderr)
        self.fail(late)

    def one_run(self, out, fault, backend, strategy, step, flags, code, check, within, silent):
        ranks = ["--backend", backend] if strategy == "faulty-ddp" else []
        before, segments = leftovers.of_dead_runs(), leftovers.others_in_shared_memory()
        run = Watched([*self.wrapper, DPBENCH, "--plugin", PLUGIN, "--strategy", strategy, "--cpus", "2", "--workload", "random-linear", "--quick", "--no-baseline",
                       "--check", check, "--timeout", str(self.timeout), "--param", f"fault={fault}", "--param", f"step={step}", *ranks, "--out", out,
                       "-o", "json", *flags], out, {"DPBENCH_FAULTS_TEST": out, **self.variables}, (" · failed: ", " · wrong: "), START + silent + SLACK * sum(within))
        self.assertIn(run.code, code if isinstance(code, tuple) else (code,), run.stderr + run.stdout)
        self.assertEqual(leftovers.processes_of(f"DPBENCH_FAULTS_TEST={out}"), {})
        self.assertEqual(leftovers.of_dead_runs() - before, set())
        self.assertEqual(leftovers.others_in_shared_memory() - segments, set())
        (saved,) = glob.glob(out + "/*/run.json")
        with open(saved, encoding="utf-8") as file:
            report = json.load(file)
        self.assertEqual(report, json.loads(run.stdout))
        self.report, self.stderr = report, run.stderr
        cases = {case["strategy"]: case for case in report["cases"]}
        return cases[strategy], self.late(run, fault, within, silent) if code else ""

    @staticmethod
    def late(run, fault, within, silent):
        """What took too long, if anything did."""
        if run.struck is None or run.told is None:
            return f"{fault}: {'never struck' if run.struck is None else 'never told'}"
        told, ended = run.told - run.struck - silent, run.ended - run.struck - silent
        if "," not in fault:  # else there is a good case to come
            TIMES[fault].append((told, ended))
        limits = SLACK * within[0], SLACK * sum(within)
        return "" if told <= limits[0] and ended <= limits[1] else (
            f"{fault}: told after {told:.2f} s (limit {limits[0]} s), ended after {ended:.2f} s (limit {limits[1]} s), not counting {silent} s")

    def failed(self, fault, words, **how):
        case = self.run_fault(fault, **how)
        self.assertEqual(case["status"], "failed")
        self.assertRegex(case["reason"], words)
        return case

    def over_both(self, fault, words, **how):
        for backend in ("shm", "gloo"):
            with self.subTest(fault=fault, backend=backend):
                self.failed(fault, words, backend=backend, **how)

    def other_command(self, command, fault, step, code, *flags, strategy="faulty-ddp"):
        """The record of its one case: check prints it, train keeps it."""
        with tempfile.TemporaryDirectory() as out:
            done = subprocess.run([DPBENCH, command, "--plugin", PLUGIN, "--strategy", strategy, "--cpus", "2", "--workload", "random-linear",
                                   *(("--backend", "shm") if strategy == "faulty-ddp" else ()),
                                   "--timeout", str(TIMEOUT), "--param", f"fault={fault}", "--param", f"step={step}",
                                   *(("-o", "json") if command == "check" else ("--out", out)), *flags],
                                  capture_output=True, text=True, check=False, timeout=SLACK * START)
            self.assertEqual(done.returncode, code, done.stderr)
            texts = [done.stdout] if command == "check" else [leftovers.read(path) for path in glob.glob(out + "/*/run.json")]
            (case,) = json.loads(texts[0])["cases"]
            return case


def print_times():
    for fault, times in sorted(TIMES.items()):
        told, ended = (max(column) for column in zip(*times))
        print(f"{fault:18} {len(times):3} runs: told at most {told:5.2f} s after the strike, ended at most {ended:5.2f} s (--timeout not counted)", file=sys.stderr)


def main():
    unittest.addModuleCleanup(print_times)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
