"""Base of the fault tests: runs the real worker with a plug-in that injects a fault on one rank at one step.

Measures the time until dpbench reports the fault and until it has ended.

Usage of a test: NAME_test.py DPBENCH PLUGIN
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
import reports  # noqa: F401, importing this module validates every report that dpbench writes
from watched_run import WatchedRun

DPBENCH, PLUGIN = (os.path.abspath(path) for path in sys.argv[1:3])
TIMEOUT = 3  # --timeout: seconds without progress
# Limits promised for an idle machine: seconds from the fault to dpbench's message, and from the message to the end of
# its cleanup. Tests allow SLACK times as long and TRIES attempts: a busy machine is late once, a hang is late every
# time.
DEATH, DIFFERS = (0.5, 2), (1, 2)
SLACK, TRIES = 3, 2
START = 60  # seconds to load LibTorch with many tests in parallel
TIMES = collections.defaultdict(list)


class FaultyRuns(unittest.TestCase):
    wrapper = ()  # command that dpbench is run through, e.g. in a control group
    variables = {}  # additional environment variables of dpbench
    timeout = TIMEOUT
    cpus = 2
    workload = ("--workload", "random-linear")

    def run_fault(self, fault, backend="shm", strategy="faulty-ddp", step=7, flags=(), code=3, check="off", within=DEATH, silent=0):
        """Runs a case with the fault and returns the case of the report.

        silent: seconds after the fault before dpbench can notice it, such as the timeout for a hang. code: the expected
        exit code, or a tuple of them."""
        for attempt in range(TRIES):
            with tempfile.TemporaryDirectory() as out:
                case, late = self.one_run(out, fault, backend, strategy, step, flags, code, check, within, silent)
                if not late:
                    return case
                print(f"attempt {attempt + 1}: {late}", file=sys.stderr)
        self.fail(late)

    def one_run(self, out, fault, backend, strategy, step, flags, code, check, within, silent):
        ranks = ["--backend", backend] if strategy != "faulty-dp" else []
        before, segments = leftovers.of_dead_runs(), leftovers.others_in_shared_memory()
        run = WatchedRun([*self.wrapper, DPBENCH, "--plugin", PLUGIN, "--strategy", strategy, "--cpus", str(self.cpus), *self.workload, "--quick", "--no-baseline",
                       "--audit", "off", "--check", check, "--timeout", str(self.timeout), "--param", f"fault={fault}", "--param", f"step={step}", *ranks, "--out", out,
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
        """Returns a message if dpbench reported the fault late or never, or ended too late; else an empty string."""
        if run.struck is None or run.reported is None:
            return f"{fault}: {'the fault never happened' if run.struck is None else 'never reported'}"
        reported, ended = run.reported - run.struck - silent, run.ended - run.struck - silent
        if "," not in fault:  # a comma separates the faults of several cases
            TIMES[fault].append((reported, ended))
        limits = SLACK * within[0], SLACK * sum(within)
        return "" if reported <= limits[0] and ended <= limits[1] else (
            f"{fault}: reported after {reported:.2f} s (limit {limits[0]} s), ended after {ended:.2f} s (limit {limits[1]} s), not counting {silent} s")

    def failed(self, fault, pattern, **how):
        case = self.run_fault(fault, **how)
        self.assertEqual(case["status"], "failed")
        self.assertRegex(case["reason"], pattern)
        return case

    def over_both(self, fault, pattern, **how):
        for backend in ("shm", "gloo"):
            with self.subTest(fault=fault, backend=backend):
                self.failed(fault, pattern, backend=backend, **how)

    def other_command(self, command, fault, step, code, *flags, strategy="faulty-ddp"):
        """Runs the command `check` or `train` with the fault and returns the only case of its report."""
        with tempfile.TemporaryDirectory() as out:
            done = subprocess.run([DPBENCH, command, "--plugin", PLUGIN, "--strategy", strategy, "--cpus", "2", "--workload", "random-linear",
                                   *(("--backend", "shm") if strategy != "faulty-dp" else ()),
                                   "--timeout", str(TIMEOUT), "--param", f"fault={fault}", "--param", f"step={step}",
                                   *(("-o", "json") if command == "check" else ("--out", out)), *flags],
                                  capture_output=True, text=True, check=False, timeout=SLACK * START)
            self.assertEqual(done.returncode, code, done.stderr)
            texts = [done.stdout] if command == "check" else [leftovers.read(path) for path in glob.glob(out + "/*/run.json")]
            (case,) = json.loads(texts[0])["cases"]
            return case


def print_times():
    for fault, times in sorted(TIMES.items()):
        reported, ended = (max(column) for column in zip(*times))
        print(f"{fault:18} {len(times):3} runs: reported at most {reported:5.2f} s after the fault, ended at most {ended:5.2f} s (--timeout not counted)", file=sys.stderr)


def main():
    unittest.addModuleCleanup(print_times)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
