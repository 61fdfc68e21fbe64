"""Tests scripts/run-tests (counts, retries, a run without a passed test fails) and scripts/test (one failing command
fails the part it belongs to)."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts/run-tests"
PASSES = 'add_test(passes "/bin/true")\n'
FAILS = 'add_test(fails "/bin/false")\n'
SKIPS = 'add_test(skips "/bin/false")\nset_tests_properties(skips PROPERTIES SKIP_RETURN_CODE 1)\n'


# Source of a unittest program in which one method, or its class's setUpClass, passes only when the program runs a
# second time.
LATE = """import os, sys, unittest
def note(word):
    with open("{folder}/ran", "a") as file: print(word, file=file)
second = os.path.exists("{folder}/ran")
if second: note("again")
class One(unittest.TestCase):
    def test_an_example_that_passes(self): note("One.test_an_example_that_passes")
class Two(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        if not second:
            note("first")
            {broken}
    def test_an_example_that_passes_only_in_a_second_run(self):
        note("Two.test_an_example_that_passes_only_in_a_second_run")
        self.assertTrue(second)
assert sys.argv[1] == "its own argument"
unittest.main(argv=sys.argv[:1] + sys.argv[2:])
"""


def group(name, status, *said):
    """Returns the CMake line of a ctest test that prints these lines of a GoogleTest summary."""
    return f"""add_test({name} "/bin/sh" "-c" "echo '{"'; echo '".join(said)}'; exit {status}")\n"""


def run(tests, *arguments):
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "CTestTestfile.cmake").write_text(tests, encoding="utf-8")
        return subprocess.run([SCRIPT, folder, *arguments], capture_output=True, text=True, check=False)


class RunTests(unittest.TestCase):
    def expect(self, result, ok, closing):
        self.assertEqual(result.returncode == 0, ok, result.stdout)
        self.assertRegex(result.stdout.splitlines()[-1], f"^{closing}$")

    def test_run_tests_counts_passed_and_skipped_tests_separately(self):
        self.expect(run(PASSES), True, "1 passed, 0 failed, 0 skipped")
        self.expect(run(PASSES + SKIPS), True, "1 passed, 0 failed, 1 skipped")

    def test_run_tests_fails_if_a_test_fails(self):
        self.expect(run(PASSES + FAILS), False, "1 passed, 1 failed, 0 skipped")

    def test_run_tests_counts_the_tests_inside_a_googletest_program(self):
        good = group("good", 0, "[  PASSED  ] 5 tests.", "[  SKIPPED ] 2 tests, listed below:", "[  SKIPPED ] One.Two")
        bad = group("bad", 1, "[  PASSED  ] 1 test.", "[  FAILED  ] 3 tests, listed below:")
        self.expect(run(PASSES + good), True, "6 passed, 0 failed, 2 skipped")
        self.expect(run(PASSES + good + bad), False, "7 passed, 3 failed, 2 skipped")
        self.expect(run(group("none", 0, "[  PASSED  ] 0 tests.", "[  SKIPPED ] 4 tests, listed below:")), False, "0 passed, 0 failed, 4 skipped")
        self.expect(run(PASSES + group("crash", 139, "[ RUN      ] One.Two")), False, "1 passed, 1 failed, 0 skipped")

    def test_run_tests_counts_a_test_that_cannot_be_started_as_failed(self):
        gone = 'add_test(gone "/no/such/program")\n'
        self.expect(run(PASSES + gone), False, "1 passed, 1 failed, 0 skipped")
        with tempfile.TemporaryDirectory() as folder:
            late = f'add_test(late "/bin/sh" "-c" "test -e {folder}/been || {{ touch {folder}/been && exit 1; }}")\n'
            late += 'set_tests_properties(late PROPERTIES LABELS "deadlines")\n'
            self.expect(run(gone + late), False, r"1 passed, 1 failed, 0 skipped; flaky\b.*: late")

    def test_run_tests_retries_only_a_test_labelled_deadlines_and_lists_it_as_flaky(self):
        with tempfile.TemporaryDirectory() as folder:
            late = f'add_test(late "/bin/sh" "-c" "test -e {folder}/been || {{ touch {folder}/been && exit 1; }}")\n'
            labelled = late + 'set_tests_properties(late PROPERTIES LABELS "unit;deadlines")\n'
            self.expect(run(PASSES + labelled), True, r"2 passed, 0 failed, 0 skipped; flaky\b.*: late")
            pathlib.Path(folder, "been").unlink()
            self.expect(run(PASSES + labelled + FAILS), False,
                        r"2 passed, 1 failed, 0 skipped; flaky\b.*: late")
            pathlib.Path(folder, "been").unlink()
            self.expect(run(PASSES + late), False, "1 passed, 1 failed, 0 skipped")

    def test_run_tests_retries_failed_unittest_methods_or_all_methods_if_setup_class_failed(self):
        for broken, again in (("", ["Two.test_an_example_that_passes_only_in_a_second_run"]),
                              ("raise OSError", ["One.test_an_example_that_passes",
                                                 "Two.test_an_example_that_passes_only_in_a_second_run"])):
            with self.subTest(broken=broken), tempfile.TemporaryDirectory() as folder:
                program = pathlib.Path(folder, "program.py")
                program.write_text(LATE.format(folder=folder, broken=broken), encoding="utf-8")
                tests = f'add_test(late "/usr/bin/env" "python3" "{program}" "its own argument")\n'
                tests += 'set_tests_properties(late PROPERTIES LABELS "deadlines" TIMEOUT 60)\n'
                self.expect(run(tests), True, r"1 passed, 0 failed, 0 skipped; flaky\b.*: late")
                ran = pathlib.Path(folder, "ran").read_text(encoding="utf-8").split()
                self.assertEqual(sorted(ran[ran.index("again") + 1:]), again)

    def test_run_tests_fails_if_there_are_no_tests(self):
        self.expect(run(""), False, "0 passed, 0 failed, 0 skipped")
        self.expect(run(PASSES, "-R", "no-such-test"), False, "0 passed, 0 failed, 0 skipped")

    def test_run_tests_fails_if_every_test_is_skipped(self):
        self.expect(run(SKIPS), False, "0 passed, 0 failed, 1 skipped")


class Test(unittest.TestCase):
    """Tests scripts/test in a temporary tree with stand-ins for all commands."""

    def run_with(self, failing, cuda="not built, no CUDA toolkit was found", toolkit="", gpu=False, checked=0, flags=("--all",), day="1"):
        codes = {name: int(name == failing) for name in ("check.sh", "build", "run-tests", "soak", "ci/gate", "parts/more")}
        with tempfile.TemporaryDirectory() as folder:
            scripts, build = pathlib.Path(folder, "scripts"), pathlib.Path(folder, "build/release")
            for name, code in (codes | {"gpu-check": checked, "here/nvidia-smi": int(not gpu)}).items():
                script = scripts / name
                script.parent.mkdir(parents=True, exist_ok=True)
                script.write_text(f"#!/bin/sh\necho {name} was here: $*\nexit {code}\n", encoding="utf-8")
                script.chmod(0o755)
            build.mkdir(parents=True)
            (build / "configure.log").write_text(f"-- LibTorch\n-- CUDA library: {cuda}\n-- Configuring done\n", encoding="utf-8")
            (build / "asked").write_text(f"DPBENCH_TORCH= CUDA={toolkit}\n", encoding="utf-8")
            shutil.copy(SCRIPT.parent / "test", scripts)
            return subprocess.run([scripts / "test", *flags], capture_output=True, text=True, check=False,
                                  env={**os.environ, "DPBENCH_CASES": day, "PATH": f"{scripts}/here:{os.environ['PATH']}"})

    def test_scripts_test_passes_if_every_command_passes(self):
        done = self.run_with("none")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("more was here", done.stdout)

    def test_a_failing_command_fails_its_part_of_scripts_test_and_shows_its_log(self):
        for failing, part in (("check.sh", "check"), ("build", "core"), ("run-tests", "core"), ("soak", "core"), ("ci/gate", "core"), ("parts/more", "more")):
            with self.subTest(failing):
                done = self.run_with(failing)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertRegex(done.stderr, rf"(?m)^== .* {part}$")
                self.assertIn(f"{failing} was here", done.stderr)
                self.assertRegex(done.stderr.splitlines()[-1], f"^scripts/test: failed:.* {part}\\b")

    def test_scripts_test_runs_the_sanitizers_on_every_fourth_day_only(self):
        for day, parts in (("330", ["check", "core"]), ("331", ["check", "core"]), ("332", ["check", "core", "sanitizers"]),
                           ("all", ["check", "core", "sanitizers"])):
            self.assertEqual(re.findall(r"(?m)^== (\w+)$", self.run_with("none", flags=(), day=day).stdout), parts)

    COMPILED = "toolkit 13.0.88, NCCL 2.28"

    def expect_cuda(self, words, code=0, **how):
        done = self.run_with("none", **how)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        (said,) = [line for line in done.stdout.splitlines() if line.startswith("CUDA code: ")]
        self.assertRegex(said, f"^CUDA code: {words}$")
        return done.stdout

    def test_scripts_test_says_why_cuda_code_was_not_compiled_and_fails_if_it_cannot(self):
        for reason in ("nccl.h was not found when dpbench was built", "this LibTorch wants CUDA 13, but the toolkit is of 11.8.89"):
            for toolkit in ("", "/usr/bin/nvcc "):
                self.expect_cuda(f"not built, {reason}", cuda=f"not built, {reason}", toolkit=toolkit)
        self.expect_cuda(r"unknown\b.*build/release/configure\.log.*", code=1, cuda="")

    @unittest.skipIf(os.path.exists("/dev/nvidia0"), "there is a GPU")
    def test_scripts_test_only_compiles_cuda_code_without_a_gpu(self):
        said = self.expect_cuda(rf"compiled \({self.COMPILED}\), not run: .*\bGPU\b.*", cuda=self.COMPILED, toolkit="/usr/bin/nvcc")
        self.assertNotIn("gpu-check was here", said)

    def test_scripts_test_runs_cuda_code_on_a_gpu_and_fails_if_the_code_fails(self):
        how = {"cuda": self.COMPILED, "toolkit": "/usr/bin/nvcc", "gpu": True}
        said = self.expect_cuda(rf"compiled \({self.COMPILED}\) .*passed: build/gpu-check/README\.md", **how)
        self.assertIn("gpu-check was here: --any-gpu --out build/gpu-check\n", said)
        self.expect_cuda(rf"compiled \({self.COMPILED}\) .*failed: build/gpu-check/README\.md", code=1, checked=1, **how)
        self.expect_cuda(rf"compiled \({self.COMPILED}\), not run: scripts/gpu-check .*\(77\)", checked=77, **how)


if __name__ == "__main__":
    unittest.main()
