"""Tests strategies and models written in Python, in an interpreter with PyTorch.

usage: python_strategies_test.py DPBENCH
"""
import json
import os
import pathlib
import pty
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import leftovers
import reports  # noqa: F401, importing this module validates every report that dpbench writes
import torch_python
from terminals import read_terminal

DPBENCH = os.path.abspath(sys.argv.pop(1))
ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path(DPBENCH).parent.parent / "libexec/dpbench/python"
MISTAKES, FAULTY, MODELS, INTERPRETER = (ROOT / "tests/python" / name for name in ("mistakes.py", "faulty.py", "transformer.py",
                                                                                   "interpreter.py"))
EXAMPLE = ROOT / "tests/plugin_example/plain_average.py"

# {strategy with a mistake: (a check that must fail, words of its diagnosis)}
FOUND = {
    "m-sums-micro-batches": ("accumulation", "not divided by the"),
    "m-reduces-each-micro-batch": ("collective-count", "every micro-batch is reduced"),
    "m-never-reduces": ("gradient-meaning", "not reduced"),
    "m-no-zero-grad": ("gradient-meaning", "gradients were not zeroed"),
    "m-calls-the-module": ("gradient-meaning", "not reduced"),
    "m-no-buffers": ("buffers", "rank 0's"),
    "m-no-initial-broadcast": ("initial-broadcast", "not broadcast at construction"),
    "m-clips-after-the-step": ("optimizer-replay", "the reported gradient"),
    "m-clips-values": ("clip", "each element was clipped"),
    "m-hook-doubles": ("gradient-meaning", "2 times"),
    "m-leaves-out-a-parameter": ("optimizer-replay", "not updated"),
    "m-other-learning-rate": ("optimizer-replay", "moved 3 times as far"),
    "m-decays-in-place": ("optimizer-replay", ""),
    "m-stale": ("gradient-meaning", "one step late"),
    "m-first-output": ("output-shape", ""),
    "m-sum-of-loss": ("loss-value", "another rank"),
    "m-evaluates-in-training-mode": ("evaluation", "training mode"),
    "m-clips-before-the-reduction": ("clip", "before the reduction"),
    "m-reduces-half": ("gradient-meaning", "not reduced"),
    "m-forgets-to-divide": ("gradient-meaning", "summed over 3 ranks"),
    "m-sends-bfloat16": ("gradient-meaning", "bfloat16"),
    "m-divides-twice": ("gradient-meaning", ""),
    "m-reduces-twice": ("gradient-meaning", "3 times"),
    "m-no-set-epoch": ("output-value", "samples of another"),
    "m-no-sync-around-backward": ("collective-count", "every micro-batch is reduced"),
    "m-no-sync-for-the-last-pass": ("ranks-agree-gradients", "not reduced on every rank"),
    "m-zeroes-in-each-micro-batch": ("accumulation", "overwrote"),
    "m-hook-sums": ("gradient-meaning", "summed over 3 ranks"),
    "m-steps-twice": ("optimizer-replay", "updated twice"),
    "m-never-steps": ("optimizer-replay", "not updated"),
    "m-only-rank-0-steps": ("ranks-agree-parameters", "alone"),
    "m-targets-in-reverse": ("loss-value", "targets"),
    "m-loss-of-rank-0": ("loss-value", "another rank"),
    "m-broadcasts-rank-0": ("gradient-meaning", "rank 0's own"),
    "m-takes-the-maximum": ("gradient-meaning", "maximum"),
    "m-adds-in-place-later": ("gradient-meaning", "step before"),
}

BUFFERS = {"m-no-buffers", "m-evaluates-in-training-mode"}  # these need a model with BatchNorm


def call(command, *flags, out=None):
    """Runs dpbench with the environment's interpreter. Returns the exit code, the report (None if there is none) and stderr."""
    words = [DPBENCH, command, "--python", torch_python.interpreter(), *map(str, flags), "--progress", "none"]
    with tempfile.TemporaryDirectory() as folder:
        words += {"run": ["--out", out or folder, "-o", "json"], "train": ["--out", folder]}.get(command, ["-o", "json"])
        done = subprocess.run(words, capture_output=True, text=True, timeout=600)
        if command == "train":
            return done.returncode, next((json.loads(path.read_text()) for path in pathlib.Path(folder).glob("*/run.json")), None), done.stderr
    return done.returncode, json.loads(done.stdout) if done.stdout.strip() else None, done.stderr


def checked(plugin, strategies, *flags):
    code, report, errors = call("check", *(["--plugin", plugin] if plugin else []), "--strategy", strategies, *flags)
    assert report, errors
    return code, report


def failed_checks(case):
    return {row["name"]: row.get("likely") or "" for row in case["checks"] if row["status"] == "failed"}


class Right(unittest.TestCase):
    def assert_no_failure(self, code, report, at_least):
        failed = [(case["id"], row) for case in report["cases"] for row in case["checks"] if row["status"] == "failed"]
        self.assertEqual((code, failed), (0, []))
        self.assertGreaterEqual(sum(row["status"] == "passed" for case in report["cases"] for row in case["checks"]), at_least)

    def test_the_example_passes_its_checks(self):
        self.assert_no_failure(*checked(EXAMPLE, "plain-average", "--workload", "convnet,gpt", "--cpus", "3", "--backend", "shm"), 60)

    def test_pytorchs_own_strategies_pass_their_checks(self):
        self.assert_no_failure(*checked(None, "py-ddp,py-zero1,py-fsdp2", "--workload", "convnet", "--cpus", "2", "--backend",
                                        "gloo,shm"), 200)

    def test_pytorchs_tensor_parallelism_and_pipelines_pass_their_checks(self):
        gpt2 = "hidden=12,heads=2,mlp=16,vocab=128,seq=5,padding=on,dropout=0.2"
        llama = "style=llama,hidden=16,heads=4,kv_heads=2,mlp=22,vocab=131,seq=6,padding=on,tied=off"
        for strategy, model, params in (("py-tp", gpt2 + ",layers=1", []), ("py-tp", llama + ",layers=1", []),
                                        ("py-pp", gpt2 + ",layers=2,tied=off", []),
                                        ("py-pp", gpt2 + ",layers=4,tied=off", ["--param", "py-pp.schedule=interleaved"]),
                                        ("py-pp", llama + ",layers=4", ["--param", "py-pp.schedule=zbv"])):
            with self.subTest(strategy, model=model, params=params):
                self.assert_no_failure(*checked(None, strategy, "--workload", "gpt", "--model", model, "--cpus", "2", "--backend", "shm",
                                                *params), 30)

    def test_fsdp2_passes_its_checks_by_layer_and_with_the_model_as_one_unit(self):
        by_unit = {}
        for unit in ("layer", "model"):
            with self.subTest(unit):
                code, report = checked(None, "py-fsdp2", "--workload", "gpt", "--model", "tiny", "--cpus", "2", "--backend", "shm", "--dtype",
                                       "f32", "--param", f"py-fsdp2.unit={unit}")
                self.assert_no_failure(code, report, 25)
                by_unit[unit] = report["cases"][0]["params"]["unit"]
        self.assertEqual(by_unit, {"layer": "layer", "model": "model"})

    def test_strategies_in_cpp_and_python_train_models_in_python(self):
        code, report = checked(MODELS, "cpu,dp,ddp,zero1,fsdp,py-ddp", "--workload", "py-transformer,py-squares,py-named", "--cpus", "2")
        self.assert_no_failure(code, report, 300)
        self.assertEqual({case["strategy"] for case in report["cases"]}, {"cpu", "dp", "ddp", "zero1", "fsdp", "py-ddp"})

    def test_train_learns_from_a_dataset_written_in_python(self):
        code, report, errors = call("train", "--plugin", MODELS, "--strategy", "ddp", "--workload", "py-squares", "--cpus", "2", "--epochs", "20")
        self.assertEqual(code, 0, errors)
        losses = report["cases"][0]["training"]["epoch_losses"]
        self.assertLess(losses[-1], 0.5 * losses[0])

    def test_ddp_of_pytorch_and_of_dpbench_compute_the_same_bits(self):
        code, report, errors = call("run", "--strategy", "ddp,py-ddp", "--workload", "mnist-mlp", "--cpus", "2", "--backend", "gloo,shm",
                                    "--no-baseline", "--launches", "1", "--samples", "2", "--steps", "5", "--audit", "off")
        self.assertEqual(code, 0, errors)
        hashes = {rank["parameters_hash"] for case in report["cases"] for launch in case["launches"] for rank in launch["ranks"]}
        self.assertEqual((len(report["cases"]), len(hashes)), (4, 1))


class Refused(unittest.TestCase):
    def test_a_model_that_pytorchs_layouts_cannot_divide_is_refused_with_the_remedy(self):
        for strategy, model, words in (("py-tp", "layers=1,heads=3,hidden=18", "2 ranks do not divide kv_heads=3: use --model"),
                                       ("py-tp", "layers=1,heads=2,hidden=18,mlp=35", "2 ranks do not divide mlp=35: use --model"),
                                       ("py-tp", "layers=1,experts=3", "use --model with experts=0"),
                                       ("py-pp", "layers=2", "use --model with tied=off"),
                                       ("py-pp", "layers=1,tied=off", "use --model with layers=2 or more")):
            with self.subTest(strategy, model=model):
                code, report, errors = call("run", "--strategy", strategy, "--workload", "gpt", "--model", model, "--cpus", "2", "--no-baseline",
                                            "--launches", "1", "--samples", "1", "--steps", "2", "--check", "off")
                self.assertEqual(code, 2, errors)
                self.assertIn(words, errors)
        code, _, errors = call("run", "--strategy", "py-tp", "--workload", "gpt", "--model", "tiny", "--recompute", "1", "--cpus", "2",
                               "--no-baseline", "--launches", "1", "--samples", "1", "--steps", "2", "--check", "off")
        self.assertEqual(code, 2, errors)
        self.assertIn("py-tp recomputes nothing: leave out --recompute", errors)
        code, _, errors = call("run", "--strategy", "py-tp", "--workload", "mnist-mlp", "--cpus", "2", "--no-baseline", "--launches", "1",
                               "--samples", "1", "--steps", "2", "--check", "off")
        self.assertEqual(code, 2, errors)
        self.assertIn("py-tp divides the model of the workload gpt alone: use --workload gpt", errors)

    def test_fsdp2_by_layer_is_refused_for_a_model_that_has_no_modules_of_layers(self):
        code, _, errors = call("run", "--strategy", "py-fsdp2", "--param", "py-fsdp2.unit=layer", "--workload", "mnist-mlp", "--cpus", "2",
                               "--no-baseline", "--launches", "1", "--samples", "1", "--steps", "2", "--check", "off")
        self.assertEqual(code, 2, errors)
        self.assertIn("py-fsdp2.unit=layer: ", errors)
        self.assertIn("or py-fsdp2.unit=model", errors)


MODULE = """
import torch
from torch import nn

samples = 64

class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(16, 8), nn.Linear(8, 16)

    def forward(self, words):
        return self.head(self.embed(words)).flatten(0, 1)

def loss(output, target):
    return nn.functional.cross_entropy(output, target.flatten())

def batch(ids):
    words = (ids.view(-1, 1) + torch.arange(5)) % 16
    return words[:, :-1], words[:, 1:]
"""


class Models(unittest.TestCase):
    """Models of importable modules, by --model MODULE:CLASS."""

    def called(self, folder, command, *flags):
        more = {"run": ["--out", folder, "--batch", "8", "--no-baseline", "--launches", "1", "--samples", "2", "--steps",
                        "5"], "check": []}[command]
        done = subprocess.run([DPBENCH, command, "--python", torch_python.interpreter(), "--cpus", "2", "--backend", "shm", *more, *flags,
                               "--progress", "none", "-o", "json"], capture_output=True, text=True, timeout=600, cwd=folder)
        return done.returncode, json.loads(done.stdout) if done.stdout.strip() else None, done.stderr

    def test_a_model_of_a_package_is_measured_without_a_plugin_file(self):
        with tempfile.TemporaryDirectory() as folder:
            package = pathlib.Path(folder, "mypkg")
            package.mkdir()
            package.joinpath("mymodel.py").write_text(MODULE, encoding="utf-8")
            code, report, errors = self.called(folder, "run", "--model", "mypkg.mymodel:GPT", "--strategy", "ddp,py-ddp")
            self.assertEqual(code, 0, errors)
            self.assertEqual([(case["workload"], case["batch"], case["status"]) for case in report["cases"]], [("GPT", 8, "ok")] * 2)
            for model, words in {"mypkg.mymodel:Gone": "the module has no Gone",
                                 "mypkg.gone:GPT": "No module named 'mypkg.gone'"}.items():
                with self.subTest(model):
                    code, _, errors = self.called(folder, "run", "--model", model, "--strategy", "ddp")
                    self.assertEqual(code, 2, errors)
                    self.assertIn(words, errors)

    def test_models_of_transformers_pass_their_checks(self):
        if subprocess.run([torch_python.interpreter(), "-c", "import transformers"], capture_output=True).returncode:
            self.skipTest("the library transformers is not installed; scripts/parts/transformers installs it")
        for model in ("Gpt2", "Bert"):
            with self.subTest(model):
                code, report, errors = self.called(ROOT / "tests/python", "check", "--model", "hub_models:" + model, "--strategy",
                                                   "ddp,fsdp,py-ddp")
                failed = [(case["id"], row) for case in (report or {"cases": ()})["cases"] for row in case["checks"] if row["status"] == "failed"]
                self.assertEqual((code, failed), (0, []), errors)
                self.assertEqual([case["status"] for case in report["cases"]], ["ok"] * 3)


class Launched(unittest.TestCase):
    def test_a_python_strategy_runs_on_every_rank_that_torchrun_starts(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([torch_python.interpreter(), "-m", "torch.distributed.run", "--no-python", "--nproc-per-node", "2", DPBENCH,
                                   "--python", torch_python.interpreter(), "--strategy", "py-ddp", "--workload", "random-linear", "--cpus", "2",
                                   "--no-baseline", "--launches", "1", "--samples", "1", "--steps", "3", "--check", "off", "--audit", "off",
                                   "--out", folder, "-q", "-o", "json"], capture_output=True, text=True, timeout=300, cwd=folder)
            self.assertEqual(done.returncode, 0, done.stderr)
            (case,) = json.loads(done.stdout)["cases"]
            self.assertEqual((case["strategy"], case["status"], case["world"]), ("py-ddp", "ok", 2))


class Wrong(unittest.TestCase):
    def test_every_faulty_strategy_fails_its_check_and_the_correct_one_passes(self):
        cases, right = {}, []
        for workload, strategies in {"random-linear": FOUND.keys() - BUFFERS, "convnet": BUFFERS}.items():
            code, report = checked(MISTAKES, ",".join(["m-none", *sorted(strategies)]), "--workload", workload, "--cpus", "3", "--backend", "shm",
                                   "--seed", "1")
            self.assertEqual(code, 1)
            cases.update({case["strategy"]: failed_checks(case) for case in report["cases"]})
            right.append(cases.pop("m-none"))
        self.assertEqual(right, [{}, {}])
        self.assertEqual(set(cases), set(FOUND))
        for strategy, (check, words) in FOUND.items():
            with self.subTest(strategy):
                self.assertIn(check, cases[strategy])
                self.assertIn(words, cases[strategy][check])

    def test_the_python_example_without_division_is_diagnosed_as_summed_not_averaged(self):
        _, report = checked(EXAMPLE, "plain-sum", "--workload", "random-linear", "--cpus", "3", "--backend", "shm", "--seed", "1")
        failed = failed_checks(report["cases"][0])
        self.assertEqual(failed["gradient-meaning"], "gradients are 3 times what they should be: summed over 3 ranks or replicas, not averaged")


class Faults(unittest.TestCase):
    def reason(self, strategy, *flags):
        """Runs a strategy whose step 3 fails. Returns the exit code, the reason of its case (empty without a report),
        and stderr."""
        code, report, errors = call("run", "--plugin", FAULTY, "--strategy", strategy, "--workload", "random-linear", "--cpus", "2",
                                    "--no-baseline", "--launches", "1", "--samples", "1", "--steps", "8", "--warmup", "1", "--check", "off",
                                    "--audit", "off", *flags)
        return code, report["cases"][0]["reason"] if report else "", errors

    def test_a_python_exception_or_a_wrong_return_value_fails_the_case_with_its_message(self):
        for strategy, words in {"raises": "ValueError: on purpose (faulty.py:", "raises-on-rank-1": "rank 1 failed: ValueError: only here",
                                "exits": "SystemExit: 5", "returns-a-number": "must return two tensors, the output and the loss, not float",
                                "returns-three": "not (int, int, int)", "returns-nothing": "not NoneType", "returns-a-list": "not list",
                                "returns-the-loss-as-a-number": "not (Tensor, float)"}.items():
            with self.subTest(strategy):
                code, reason, errors = self.reason(strategy)
                self.assertEqual(code, 3, errors)
                self.assertIn(words, reason)
                self.assertIn("Traceback (most recent call last)", reason + errors)

    def test_a_dead_rank_is_reported_with_its_exit_code_or_signal(self):
        for strategy, words in {"exits-at-once": "ended with exit code 7", "crashes": "signal 11"}.items():
            with self.subTest(strategy):
                code, reason, errors = self.reason(strategy)
                self.assertEqual(code, 3, errors)
                self.assertIn(words, reason)

    def test_a_strategy_that_hangs_on_all_ranks_is_ended_at_the_timeout_with_the_reason(self):
        for strategy in ("sleeps", "hangs"):
            with self.subTest(strategy):
                code, reason, errors = self.reason(strategy, "--timeout", "8")
                self.assertEqual(code, 3, errors)
                self.assertIn("no rank made progress", reason)

    def test_a_check_fails_if_a_step_ends_its_rank_hangs_or_returns_a_wrong_shape_or_type(self):
        # {strategy: (the check that fails, or "" if the case ends without verdicts; words of its detail or reason)}
        expected = {"exits": ("run-completes", "SystemExit: 5"), "exits-at-once": ("", "ended with exit code 7 in step 3"),
                    "crashes": ("", "was killed by signal 11 (SIGSEGV) in step 3"), "sleeps": ("", "no rank made progress"),
                    "returns-nothing": ("run-completes", "not NoneType"), "one-row-short": ("output-shape", "expected ["),
                    "output-in-float16": ("output-dtype", "found Half"), "output-of-integers": ("output-dtype", "found Long"),
                    "a-loss-per-sample": ("loss-finite", "no single number"), "a-loss-of-integers": ("loss-replay", "found ")}
        code, report = checked(FAULTY, ",".join(expected), "--workload", "random-linear", "--cpus", "2", "--backend", "shm", "--filter",
                               "^(run-completes|output-.*|loss-.*)$", "--timeout", "10")
        self.assertEqual(code, 3)
        for case in report["cases"]:
            check, words = expected.pop(case["strategy"])
            details = {row["name"]: row["detail"] for row in case["checks"] if row["status"] == "failed"}
            with self.subTest(case["strategy"]):
                self.assertIn(words, details[check] if check else case["reason"])
        self.assertEqual(expected, {})

    def test_out_of_memory_exits_3_and_a_strategy_that_refuses_exits_2(self):
        code, reason, _ = self.reason("out-of-memory")
        self.assertEqual(code, 3)
        self.assertIn("out of host memory", reason)
        code, reason, errors = self.reason("refuses")
        self.assertEqual(code, 2)
        self.assertIn("not today", errors)


class Interpreter(unittest.TestCase):
    words = [DPBENCH, "--python", torch_python.interpreter(), "--plugin", INTERPRETER, "--workload", "random-linear", "--backend", "shm",
             "--no-baseline", "--launches", "1", "--samples", "1", "--steps", "8", "--warmup", "1", "--check", "off", "--audit", "off"]

    def test_threads_of_a_rank_run_while_it_waits_in_a_collective(self):
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([*self.words, "--strategy", "waits-in-all-reduce,waits-in-backward", "--backend", "shm,gloo", "--cpus", "2",
                                   "--out", folder, "-q", "-o", "json"], capture_output=True, text=True, timeout=600)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual([case["status"] for case in json.loads(done.stdout)["cases"]], ["ok"] * 4)

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
            self.assertIn("breakpoint() needs a run of one rank, such as --cpus 1", done.stderr)


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

    def test_an_interrupt_ends_python_ranks_that_work_or_hold_the_interpreter_and_saves_the_report(self):
        for plugin, strategy in ((EXAMPLE, "plain-average"), (FAULTY, "hangs")):
            with self.subTest(strategy):
                folder = pathlib.Path(self.folder, strategy)
                code = self.interrupted(DPBENCH, "--python", torch_python.interpreter(), "--plugin", plugin, "--strategy", strategy, "--workload",
                                        "random-linear", "--cpus", "2", "--backend", "shm", "--no-baseline", "--check", "off", "--launches", "1",
                                        "--samples", "10", "--steps", "100000", "--warmup", "1", "--timeout", "60", "--out", folder)
                self.assertEqual(code, 130)
                (report,) = folder.glob("*/run.json")
                self.assertEqual(json.loads(report.read_text())["status"], "interrupted")

    def test_an_interrupt_of_a_program_that_calls_dpbench_ends_the_ranks(self):
        code = self.interrupted(torch_python.interpreter(), "-c", f"""
import dpbench
dpbench.run({str(EXAMPLE)!r}, strategy="plain-average", workload="random-linear", world=2, no_baseline=True, check="off", launches=1,
            samples=10, steps=100000)
""")
        self.assertEqual(code, -signal.SIGINT)


class Files(unittest.TestCase):
    def refused(self, text, *flags):
        """Returns the exit code and the message for a Python file of this text."""
        with tempfile.TemporaryDirectory() as folder:
            file = pathlib.Path(folder, "mine.py")
            file.write_text(text, encoding="utf-8")
            code, _, errors = call("check", "--plugin", file, "--strategy", "mine", *flags)
            return code, errors

    def test_an_invalid_python_file_is_rejected_naming_the_file_and_the_error(self):
        for text, words in {"def f(:\n": "mine.py: SyntaxError: invalid syntax (mine.py, line 1)\n",
                            "import nothing_of_that_name\n": "ModuleNotFoundError: No module named 'nothing_of_that_name' (mine.py:1",
                            "import dpbench\n@dpbench.strategy('mine', gradient='best')\nclass A(dpbench.Strategy): pass\n":
                                "gradient='best': must be one of gathered, mean_of_means",
                            "import dpbench\n@dpbench.strategy('mine', fast=True)\nclass A(dpbench.Strategy): pass\n":
                                "there is no promise 'fast'",
                            "import dpbench\n@dpbench.workload('mine')\nclass A:\n    samples = 3\n    def batch(self, ids): pass\n": "no method model()\n"}.items():
            with self.subTest(words):
                code, errors = self.refused(text)
                self.assertEqual(code, 2, errors)
                self.assertIn(words, errors)
                self.assertIn("mine.py", errors)

    def test_output_printed_by_a_python_file_does_not_reach_stdout(self):
        code, errors = self.refused("import dpbench\nprint('loaded')\n@dpbench.strategy('mine')\nclass A(dpbench.Strategy): pass\n",
                                    "--workload", "random-linear", "--cpus", "1", "--backend", "shm")
        self.assertEqual(code, 1, errors)  # exit code 1: dpbench printed a report, and call() parsed it
        self.assertIn("NotImplementedError: step(self, step, micro)", errors)

    def test_python_strategies_are_skipped_under_the_fast_runtime(self):
        code, report, errors = call("run", "--plugin", EXAMPLE, "--strategy", "cpu,plain-average", "--workload", "random-linear", "--cpus",
                                    "1,2", "--runtime", "fast", "-n")
        self.assertEqual(code, 0, errors)
        skipped = {entry["case"]["strategy"]: entry["reason"] for entry in report["skipped"]}
        self.assertEqual(skipped, {"plain-average": "Python runs under --runtime torch alone"})

    def test_a_different_torch_version_is_rejected_naming_both_versions(self):
        done = subprocess.run([torch_python.interpreter(), PACKAGE / "dpbench/host.py", PACKAGE / "libdpbench_python.so", "2.9.1", "--catalogue"],
                              capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 2)
        for words in ("has torch 2.11.0", "built with 2.9.1", "--python"):
            self.assertIn(words, done.stderr)


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
        done = subprocess.run([torch_python.interpreter(), "-c", program], capture_output=True, text=True, timeout=300,
                              env={**os.environ, "DPBENCH": DPBENCH, "PYTHONPATH": str(PACKAGE)})
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.split()

    def test_dpbench_check_raises_with_the_diagnosis_and_dpbench_run_returns_a_report(self):
        self.assertEqual(self.printed(f"""
import dpbench
flags = dict(workload="random-linear", cpus=2, backend="shm")
dpbench.check({str(EXAMPLE)!r}, "plain-average", **flags)
try:
    dpbench.check({str(EXAMPLE)!r}, "plain-sum", **flags)
except dpbench.Wrong as wrong:
    print("summed over 2 ranks" in str(wrong))
try:
    dpbench.check({str(EXAMPLE)!r}, "no-such", **flags)
except RuntimeError as error:
    print("ended with 2" in str(error) and "no-such" in str(error))
report = dpbench.run(strategy="cpu", workload="random-linear", quick=True, cpus=[1])
print(report["cases"][0]["strategy"], report.cases[0].stats.step_time_ns.median > 0)
"""), ["True", "True", "cpu", "True"])

    def test_classes_of_the_calling_program_are_checked_and_measured(self):
        self.assertEqual(self.printed(CLASSES + """
flags = dict(workload=Line, backend="shm")
dpbench.check(Mean, world=3, **flags)
try:
    dpbench.check(Sum, world=3, **flags)
except dpbench.Wrong as wrong:
    print("summed over 3 ranks" in str(wrong), wrong.report.cases[0].strategy)
report = dpbench.run(Mean, strategy="ddp", world=2, launches=1, samples=2, steps=5, no_baseline=True, **flags)
print(*sorted(case.strategy + case.workload + case.status for case in report.cases))
"""), ["True", "Sum", "Meanlineok", "ddplineok"])

    def test_a_class_that_cannot_be_passed_to_the_ranks_is_refused_by_name(self):
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
    print("Held: cannot be passed to the ranks" in str(error))
try:
    dpbench.check(Held, world=2, python="/usr/bin/python3")
except ValueError as error:
    print("in the interpreter that defines it" in str(error))
sys.modules["cloudpickle"] = None
try:
    dpbench.check(Held, world=2)
except ImportError as error:
    print("the package cloudpickle: install it" in str(error))
"""), ["True"] * 3)


if __name__ == "__main__":
    unittest.main()
