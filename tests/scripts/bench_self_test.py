"""Tests that scripts/bench-self builds its programs before it measures, and which malloc it measures with. Stand-ins
for scripts/build and dpbench record their calls."""
import importlib.machinery
import importlib.util
import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest
import unittest.mock

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts/bench-self"
loader = importlib.machinery.SourceFileLoader("bench_self", str(SCRIPT))
bench_self = importlib.util.module_from_spec(importlib.util.spec_from_loader("bench_self", loader))
loader.exec_module(bench_self)
LINE = "^command to table"  # pattern for --only: selects a figure measured with one call of dpbench
NOTE = '#!/bin/sh\necho "${0##*/} $*" >>"%s/calls"\n'
BUILD = NOTE + 'cd "%s" && mkdir -p "$2/bin" && cp program "$2/bin/dpbench" && exit %d\n'


class BenchSelf(unittest.TestCase):
    def run_it(self, only, build_code=0):
        """Runs bench-self in a tree without a build. Returns the finished process and the calls, oldest first."""
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder).resolve()
            (root / "scripts").mkdir()
            shutil.copy(SCRIPT, root / "scripts")
            for name, text in {"program": NOTE % root, "scripts/build": BUILD % (root, root, build_code)}.items():
                (root / name).write_text(text, encoding="utf-8")
                (root / name).chmod(0o755)
            done = subprocess.run([root / "scripts/bench-self", "--rounds", "1", "--only", only],
                                  capture_output=True, text=True, check=False)
            calls = (root / "calls").read_text(encoding="utf-8").splitlines() if (root / "calls").exists() else []
        return done, calls

    def test_bench_self_builds_its_programs_before_it_measures(self):
        done, calls = self.run_it(LINE)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, "command to table of ddp.* met")
        self.assertEqual(calls[0], "build release build/release programs dpbench-micro")
        self.assertEqual([call.split()[0] for call in calls], ["build", "dpbench"])

    def test_a_failed_build_ends_bench_self_with_its_exit_code_and_nothing_is_measured(self):
        done, calls = self.run_it(LINE, build_code=2)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertEqual(len(calls), 1, calls)

    def test_bench_self_refuses_an_unknown_figure_after_the_flag_only_and_builds_nothing(self):
        done, calls = self.run_it("no such line")
        self.assertEqual((done.returncode, calls), (1, []), done.stderr)
        self.assertRegex(done.stderr, r"\Abench-self: .*'no such line'\n\Z")

    def test_torchs_runtime_is_measured_with_plain_malloc_and_the_fast_runtime_is_not(self):
        for flags, variables, runtime in ((bench_self.TORCH, ["GLIBC_TUNABLES"], "torch"), ((), [], "fast")):
            with unittest.mock.patch.object(bench_self, "output", return_value=json.dumps({"cases": [{"status": "ok"}]})) as output:
                bench_self.measured("--strategy", "cpu", *flags)
            (words,), given = output.call_args
            self.assertEqual(words[words.index("--runtime") + 1], runtime)
            self.assertEqual(list(given), variables)


if __name__ == "__main__":
    unittest.main()
