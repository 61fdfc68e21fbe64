"""Base of the command line tests: runs dpbench in a temporary directory with a fake worker that misbehaves on request.

Usage of a test: NAME_test.py DPBENCH FAKE_WORKER
"""

import glob
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

import reports  # noqa: F401, importing this module validates every report that dpbench writes

DPBENCH, WORKER = (os.path.abspath(path) for path in sys.argv[1:3])


def fault(name, timeout="1", check=False):
    return ["--strategy", "ddp", "--workload", "toy", "--cpus", "2", "--timeout", timeout, "--param", f"fault={name}", "--param",
            "rank=1"] + ([] if check else ["--quick", "--no-baseline"])


def processes_of(directory):
    """Returns the /proc paths of the live processes whose run uses this directory."""
    found = []
    for path in glob.glob("/proc/[0-9]*/environ"):
        try:
            with open(path, "rb") as file:
                marked = f"DPBENCH_CLI_TEST={directory}".encode() in file.read().split(b"\0")
            with open(os.path.join(os.path.dirname(path), "stat")) as file:
                state = file.read().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if marked and state != "Z":
            found.append(path)
    return found


def ranks_of(directory):
    """Returns the /proc paths of the ranks of runs that use this directory: the processes that execute the worker.

    The front (the dpbench process) also starts git, and forks before it executes the worker; those are left out."""
    found = []
    for path in processes_of(directory):
        try:
            with open(os.path.join(os.path.dirname(path), "cmdline"), "rb") as file:
                program, *words = file.read().split(b"\0")
            found += [path] if program.decode() == WORKER and b"--refusals" not in words else []
        except OSError:
            pass
    return found


class Runs(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.directory = holder.name
        self.variables = dict(os.environ, DPBENCH_WORKER=WORKER, DPBENCH_CLI_TEST=self.directory, TERM="dumb")
        for own in ("CUDA_VISIBLE_DEVICES", "DPBENCH_CALLED"):
            self.variables.pop(own, None)

    def tearDown(self):
        deadline = time.monotonic() + 2
        while processes_of(self.directory) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertEqual(processes_of(self.directory), [], "processes are still running")

    def run_it(self, *words, code=0, **more):
        done = subprocess.run([DPBENCH, *words], cwd=self.directory, env=self.variables, capture_output=True, text=True,
                              timeout=60, **more)
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def start(self, *words):
        process = subprocess.Popen([DPBENCH, *words], cwd=self.directory, env=self.variables, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        return process

    def wait_for_ranks(self, process, count, settle=0.1):
        deadline = time.monotonic() + 20
        while len(ranks_of(self.directory)) < count:
            self.assertIsNone(process.poll(), "dpbench ended too soon")
            self.assertLess(time.monotonic(), deadline, "the ranks never started")
            time.sleep(0.02)
        time.sleep(settle)

    def saved(self):
        (path,) = glob.glob(self.directory + "/results/*/run.json")
        with open(path) as file:
            return json.load(file)

    def refused(self, *words, code=2):
        """Runs dpbench and expects a refusal: one line on stderr, no stdout and no files. Returns the line."""
        done = self.run_it(*words, code=code)
        self.assertEqual(done.stdout, "")
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertTrue(done.stderr.startswith("dpbench: "))
        self.assertFalse(glob.glob(self.directory + "/results/*"))
        return done.stderr


def main():
    """Like unittest.main(), but a run without tests is an error."""
    program = unittest.main(argv=[sys.argv[0], *sys.argv[3:]], exit=False)
    sys.exit(0 if program.result.testsRun and program.result.wasSuccessful() else 1)
