"""Strategies and models in Python as their users call them: from the command line, a terminal, torchrun and Python
programs; interrupts, and files that are refused.

usage: python_calls_test.py DPBENCH
"""
import json
import os
import pathlib
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from drawn_tests import load_tests  # noqa: F401, unittest calls it
import leftovers
from python_runs import BRIEF, DPBENCH, EXAMPLE, FAULTY, ROOT, call, interpreter
from terminals import read_terminal

PACKAGE = pathlib.Path(DPBENCH).parent.parent / "libexec/dpbench/python"
INTERPRETER = ROOT / "tests/python/interpreter.py"


class Launched(unittest.TestCase):
    def test_a_python_strategy_runs_on_every_rank_that_torchrun_starts(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([interpreter(), "-m", "torch.distributed.run", "--no-python", "--nproc-per-node", "2", DPBENCH,
                                   "--python", interpreter(), "--strategy", "py-ddp", "--workload", "random-linear", "--cpus", "2",
                                   *BRIEF, "--out", folder, "-q", "-o", "json"], capture_output=True, text=True, timeout=300, cwd=folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            (case,) = json.loads(done.stdout)["cases"]
            self.assertEqual((case["strategy"], case["status"], case["world"]), ("py-ddp", "ok", 2))


class Listed(unittest.TestCase):
    def test_list_prints_the_parameters_of_the_pytorch_strategy_py_ddp(self):
        done = subprocess.run([DPBENCH, "list", "py-ddp", "--python", interpreter()], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"(?m)^gradient_as_bucket_view +off +on\|off\b")


class Interpreter(unittest.TestCase):
    words = [DPBENCH, "--python", interpreter(), "--plugin", INTERPRETER, "--workload", "random-linear", "--backend", "shm",
             *BRIEF]

    def test_other_python_threads_of_a_rank_run_while_it_waits_in_a_collective(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([*self.words, "--strategy", "waits-in-all-reduce,waits-in-backward", "--backend", "shm,gloo", "--cpus", "2",
                                   "--out", folder, "-q", "-o", "json"], capture_output=True, text=True, timeout=600)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual([case["status"] for case in json.loads(done.stdout)["cases"]], ["ok"] * 4)

    def test_what_a_python_strategy_prints_is_in_the_logs_of_its_ranks(self):
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "printing.py")
            text = EXAMPLE.read_text(encoding="utf-8")
            file.write_text(text.replace("zero_grad()", "zero_grad(); print('in step', step)", 1), encoding="utf-8")
            environment = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
            done = subprocess.run([DPBENCH, "--python", interpreter(), "--plugin", file, "--strategy", "plain-average",
                                   "--workload", "random-linear", "--backend", "shm", "--cpus", "2", *BRIEF,
                                   "--out", folder],
                                  capture_output=True, text=True, timeout=300, env=environment)
            self.assertEqual(done.returncode, 0, done.stderr)
            logs = [log.read_text(encoding="utf-8") for log in pathlib.Path(folder).glob("*/logs/*/rank*.log")]
            self.assertEqual(len(logs), 2)
            for log in logs:
                self.assertIn("in step 1", log)

    def test_breakpoint_opens_a_debugger_on_the_terminal_of_a_run_of_one_rank(self):
        with tempfile.TemporaryDirectory() as folder:
            words = list(map(str, [*self.words, "--strategy", "stops", "--cpus", "1", "--timeout", "300", "--out", folder]))
            process, terminal = pty.fork()
            if process == 0:
                os.execv(DPBENCH, words)
            printed = self.read_until(terminal, b"(Pdb) ")
            os.write(terminal, b"p 'step', 7 * step\n")
            printed += self.read_until(terminal, b"(Pdb) ")
            os.write(terminal, b"c\n")
            printed += read_terminal(terminal)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), 0, printed.decode())
            self.assertIn(b"now in step 3", printed)
            self.assertIn(b"('step', 21)", printed)

    def read_until(self, terminal, words):
        printed = b""
        while words not in printed:
            self.assertTrue(select.select([terminal], [], [], 120)[0], printed.decode())
            printed += os.read(terminal, 65536)
        return printed

    def test_breakpoint_in_a_run_of_two_ranks_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([*self.words, "--strategy", "stops", "--cpus", "2", "--out", folder], capture_output=True, text=True, timeout=300)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertRegex(done.stderr, r"breakpoint\(\) .*--cpus 1\b")


class Heartbeats(unittest.TestCase):
    def test_a_rank_sends_a_heartbeat_for_each_module_that_it_imports(self):
        with tempfile.NamedTemporaryFile() as page:
            page.write(bytes(4096))
            page.flush()
            program = """
from dpbench import host
imports = host.Imports()
beats = [imports.beat.value]
import colorsys
beats.append(imports.beat.value)
imports.end_start()
import sched
print(*beats, imports.beat.value)
"""
            done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True,
                                  env={**os.environ, "PYTHONPATH": str(PACKAGE), "DPBENCH_PROGRESS": page.name, "RANK": "1"})
            before, started, joined = map(int, done.stdout.split())
            self.assertEqual((before, started), (0, -1))
            self.assertGreaterEqual(joined, 1)
            self.assertEqual(struct.unpack_from("qqq", pathlib.Path(page.name).read_bytes(), 64)[:2], (0, joined))


class Interrupts(unittest.TestCase):
    """Signals end dpbench and all its Python ranks within seconds."""

    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="dpbench-python-")
        self.addCleanup(holder.cleanup)
        self.folder, self.mark = holder.name, f"DPBENCH_PYTHON_TEST={holder.name}"

    def interrupted(self, *words):
        """Starts a program, sends it SIGINT once steps have begun, and waits until all processes have ended. Returns the
        exit code."""
        process = subprocess.Popen(list(map(str, words)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env={**os.environ, "DPBENCH": DPBENCH, "PYTHONPATH": str(PACKAGE), **dict([self.mark.split("=")])})
        self.addCleanup(lambda: process.poll() is None and process.kill())
        self.assertTrue(leftovers.wait_until(self.steps_have_begun, 120), "the ranks never began")
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        code = process.wait(60)
        self.assertTrue(leftovers.wait_until(lambda: not leftovers.processes_of(self.mark), 3), leftovers.processes_of(self.mark))
        self.assertLess(time.monotonic() - sent, 10)
        return code

    def steps_have_begun(self):
        folders = {leftovers.directory_of(pid) for pid in leftovers.processes_of(self.mark)} - {""}
        return any(any(leftovers.read(folder + "/progress")[:8]) for folder in folders)

    def test_an_interrupt_ends_python_ranks_that_hold_the_interpreter_and_saves_the_report(self):
        code = self.interrupted(DPBENCH, "--python", interpreter(), "--plugin", FAULTY, "--strategy", "hangs", "--workload", "random-linear",
                                "--cpus", "2", "--backend", "shm", *BRIEF, "--timeout", "60", "--out", self.folder)
        self.assertEqual(code, 130)
        (report,) = pathlib.Path(self.folder).glob("*/run.json")
        self.assertEqual(json.loads(report.read_text())["status"], "interrupted")

    def test_an_interrupt_of_a_program_that_calls_dpbench_ends_the_ranks(self):
        code = self.interrupted(interpreter(), "-c", f"""
import dpbench
dpbench.run({str(EXAMPLE)!r}, strategy="plain-average", workload="random-linear", world=2, no_baseline=True, check="off", launches=1,
            samples=10, steps=100000)
""")
        self.assertEqual(code, -signal.SIGINT)


class Files(unittest.TestCase):
    def refused(self, text, *flags):
        """Runs `dpbench check` with a plug-in file that contains `text`. Returns the exit code and stderr."""
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "mine.py")
            file.write_text(text, encoding="utf-8")
            code, _, errors = call("check", "--plugin", file, "--strategy", "mine", *flags)
            return code, errors

    def test_an_invalid_python_file_is_rejected_naming_the_file_and_the_error(self):
        for text, words in {"def f(:\n": "SyntaxError: invalid syntax (mine.py, line 1)",
                            "import nothing_of_that_name\n": "'nothing_of_that_name' (mine.py:1",
                            "import dpbench\n@dpbench.strategy('mine', gradient='best')\nclass A(dpbench.Strategy): pass\n":
                                "gradient='best': ",
                            "import dpbench\n@dpbench.strategy('mine', fast=True)\nclass A(dpbench.Strategy): pass\n":
                                "'fast'",
                            "import dpbench\n@dpbench.workload('mine', optimizer=print, momentum=0.9)\nclass A: pass\n":
                                "workload 'mine': momentum: ",
                            "import dpbench\n@dpbench.workload('mine')\nclass A:\n    samples = 3\n    def batch(self, ids): pass\n": " model()"}.items():
            with self.subTest(words):
                code, errors = self.refused(text)
                self.assertEqual(code, 2, errors)
                self.assertIn(words, errors)
                self.assertIn("mine.py", errors)

    def test_a_python_interpreter_without_torch_is_refused_naming_the_flag_python(self):
        with tempfile.TemporaryDirectory() as folder:
            bare = pathlib.Path(folder, "bare")
            bare.write_text(f'#!/bin/sh\nexec {interpreter()} -S "$@"\n', encoding="utf-8")
            bare.chmod(0o755)
            done = subprocess.run([DPBENCH, "check", "--python", bare, "--plugin", EXAMPLE, "-n"], capture_output=True, text=True)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stderr, r"--python: \S+ .*\btorch\b")

    def test_an_interpreter_that_takes_too_long_is_killed_naming_the_limit_and_the_flag_timeout(self):
        with tempfile.TemporaryDirectory() as folder:
            slow = pathlib.Path(folder, "slow")
            slow.write_text("#!/bin/sh\necho still importing >&2\nsleep 100\n", encoding="utf-8")
            slow.chmod(0o755)
            for words in (["check", "--timeout", "0.2", "-n"], ["list", "--timeout", "2"]):
                with self.subTest(words):
                    done = subprocess.run([DPBENCH, *words, "--python", slow, "--plugin", EXAMPLE], capture_output=True, text=True,
                                          timeout=60)
                    self.assertEqual(done.returncode, 2, done.stderr)
                    self.assertRegex(done.stderr, r"\b2 s\b.*--timeout.*still importing")

    def test_list_prints_the_default_and_range_of_the_parameter_bucket_mb_of_py_ddp(self):
        done = subprocess.run([DPBENCH, "list", "py-ddp", "--python", interpreter()], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"\nbucket_mb +25 +number above 0 ")

    def test_output_printed_by_a_python_file_does_not_reach_stdout(self):
        code, errors = self.refused("import dpbench\nprint('loaded')\n@dpbench.strategy('mine')\nclass A(dpbench.Strategy): pass\n",
                                    "--workload", "random-linear", "--cpus", "1", "--backend", "shm")
        self.assertEqual(code, 1, errors)  # 1: a check failed; call() has parsed stdout as JSON
        self.assertIn("NotImplementedError: step(self, step, micro)", errors)

    def test_python_strategies_are_skipped_under_the_fast_runtime(self):
        code, report, errors = call("run", "--plugin", EXAMPLE, "--strategy", "cpu,plain-average", "--workload", "random-linear", "--cpus",
                                    "1,2", "--runtime", "fast", "-n")
        self.assertEqual(code, 0, errors)
        skipped = {entry["case"]["strategy"]: entry["reason"] for entry in report["skipped"]}
        self.assertEqual(set(skipped), {"plain-average"})
        self.assertIn("--runtime torch", skipped["plain-average"])

    def test_a_python_with_another_torch_than_dpbenchs_is_rejected_naming_both_versions(self):
        done = subprocess.run([interpreter(), PACKAGE / "dpbench/host.py", PACKAGE / "libdpbench_python.so", "2.9.1", "--catalogue"],
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, r"\b2\.\d+\.\d+, .*\b2\.9\.1\b.*--python")


CLASSES = """
import torch
from torch import nn
import torch.distributed as dist
import dpbench

start = 0

class Mean(dpbench.Strategy):
    def __init__(self, setup):
        super().__init__(setup)
        self.model = setup.model()
        self.optimizer = setup.optimizer(self.model.parameters())
        for tensor in self.model.parameters():
            dist.broadcast(tensor.data, src=start)

    def step(self, step, micro):
        self.optimizer.zero_grad()
        result = self.passes(step, micro)
        for parameter in self.model.parameters():
            dist.all_reduce(parameter.grad)
            self.mean(parameter.grad)
        self.update(step)
        return result

    def mean(self, gradient):
        gradient /= self.setup.world

class Sum(Mean):
    def mean(self, gradient):
        pass

@dpbench.workload("line", batch=4, samples=32)
class Line:
    def model(self):
        return nn.Linear(2, 1)

    def loss(self, output, target):
        return nn.functional.mse_loss(output, target)

    def batch(self, ids):
        return torch.stack([ids / 32, 1 - ids / 32], 1), (ids / 16).view(-1, 1)
"""


class FromPython(unittest.TestCase):
    def printed(self, program):
        """Runs a Python program that imports dpbench. Returns the words that it prints."""
        done = subprocess.run([interpreter(), "-c", program], capture_output=True, text=True, timeout=300,
                              env={**os.environ, "DPBENCH": DPBENCH, "PYTHONPATH": str(PACKAGE)})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split()

    def test_dpbench_check_raises_with_the_diagnosis_and_dpbench_run_returns_a_report(self):
        self.assertEqual(self.printed(f"""
import sys
import types
import dpbench
flags = dict(workload="random-linear", cpus=2, backend="shm", filter="^gradient-meaning$")
report = dpbench.check({str(EXAMPLE)!r}, "plain-average", **flags)
print(report.cases[0].checks[0].status)
try:
    dpbench.check({str(EXAMPLE)!r}, "plain-sum", **flags)
except dpbench.Wrong as wrong:
    print("summed over 2 ranks" in str(wrong))
try:
    dpbench.check({str(EXAMPLE)!r}, "no-such", **flags)
except RuntimeError as error:
    print("ended with 2" in str(error) and "no-such" in str(error))
measured = dpbench.run(strategy="cpu", workload="random-linear", quick=True, cpus=[1])
print(measured["cases"][0]["strategy"], measured.cases[0].stats.step_time_ns.median > 0)
sys.modules["pandas"] = types.SimpleNamespace(DataFrame=list)  # scripts/parts/wheel has the library itself
(case,), (check,) = measured.frame(), report.frame(rows="checks")
print(case["strategy"], case["step_time_ns"] > 0, case["samples_per_s"] > 0, check["strategy"], check["name"], check["status"])
"""), ["passed", "True", "True", "cpu", "True", "cpu", "True", "True", "plain-average", "gradient-meaning", "passed"])

    def test_a_python_program_can_check_and_measure_strategy_classes_of_its_own(self):
        self.assertEqual(self.printed(CLASSES + """
flags = dict(workload=Line, backend="shm")
try:
    dpbench.check(Sum, strategy=Mean, world=3, filter="^gradient-meaning$", **flags)
except dpbench.Wrong as wrong:
    print(*sorted(case.strategy + case.checks[0].status for case in wrong.report.cases), "3 ranks" in str(wrong))
report = dpbench.run(Mean, strategy="ddp", world=2, launches=1, samples=2, steps=5, no_baseline=True, **flags)
print(*sorted(case.strategy + case.workload + case.status for case in report.cases))
"""), ["Meanpassed", "Sumfailed", "True", "Meanlineok", "ddplineok"])

    def test_dpbench_check_in_python_names_a_strategy_class_that_cannot_be_passed_to_the_ranks(self):
        self.assertEqual(self.printed("""
import sys
import threading
import dpbench
lock = threading.Lock()
class Held:
    def step(self, step, micro):
        return lock
try:
    dpbench.check(Held, world=2)
except TypeError as error:
    print("Held: " in str(error))
try:
    dpbench.check(Held, world=2, python="/usr/bin/python3")
except ValueError as error:
    print("python: " in str(error))
sys.modules["cloudpickle"] = None
try:
    dpbench.check(Held, world=2)
except ImportError as error:
    print("cloudpickle: install" in str(error))
"""), ["True"] * 3)


if __name__ == "__main__":
    unittest.main()
