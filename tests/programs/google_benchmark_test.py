"""google_benchmark_test.py DPBENCH: Google Benchmark's compare.py, as Debian packages it, reads dpbench's export.
Skipped (77) if it or scipy, which it needs, is not installed: scripts/test google-benchmark installs both."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import sample_runs

DPBENCH = os.path.abspath(sys.argv.pop(1))
PYTHON, COMPARE = "/usr/bin/python3", pathlib.Path("/usr/share/benchmark/compare.py")


class GoogleBenchmark(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory(prefix="dpbench-gbench-")
        cls.addClassCleanup(cls.folder.cleanup)
        cls.base, cls.new = cls.export("base", 1.8e6), cls.export("new", 1.8e6 * 1.06)

    @classmethod
    def export(cls, name, ddp_ns):
        run = pathlib.Path(cls.folder.name, name + "-run.json")
        cases = [sample_runs.case("cpu"), sample_runs.case("ddp", world=2, step_ns=ddp_ns)]
        run.write_text(json.dumps(sample_runs.report(cases)), encoding="utf-8")
        path = pathlib.Path(cls.folder.name, name + ".json")
        with open(path, "w", encoding="utf-8") as file:
            subprocess.run([DPBENCH, "export", run, "--to", "gbench"], stdout=file, check=True)
        return path

    def compare(self, *words):
        return subprocess.run([PYTHON, "-B", COMPARE, "--no-color", *words], text=True, stdout=subprocess.PIPE, check=True).stdout

    def test_google_benchmarks_compare_py_shows_the_slower_case_of_two_exported_runs(self):
        said = self.compare("benchmarks", self.base, self.new)
        self.assertRegex(said, r"(?m)^ddp:shm.*/mnist-mlp/.* \+0\.06[0-9]* ")
        self.assertRegex(said, r"(?m)^cpu/mnist-mlp/.* \+0\.0000 ")

    def test_google_benchmarks_compare_py_compares_two_strategies_of_an_exported_run(self):
        self.assertIn("OVERALL_GEOMEAN", self.compare("filters", self.base, "^cpu/", "^ddp:[^/]*/"))


if not COMPARE.exists() or subprocess.run([PYTHON, "-c", "import scipy.stats"], stderr=subprocess.DEVNULL, check=False).returncode:
    print(__doc__)
    sys.exit(77)
unittest.main(argv=sys.argv[:1])
