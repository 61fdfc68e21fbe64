"""Tests scripts/studies/conformance-report with stand-ins for the test programs and dpbench: which pieces a continued
study runs, and the two pages it writes."""
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts/studies/conformance-report"
# Each stand-in adds a line to the file `calls`. The third slice of conformance_test fails while the file `broken` exists.
PROGRAM = """#!/usr/bin/env python3
import json, os, pathlib, sys
root, name = pathlib.Path(__file__).parents[1], os.path.basename(__file__)
number = int(os.environ.get("GTEST_SHARD_INDEX", 0))
(root / "calls").open("a").write(f"{name} {number}\\n")
if name == "dpbench":
    row = {"name": "clip", "status": "passed", "error": 2e-16, "bound": 1e-12}
    meshes = ["", "dp=2,tp=2", "dp=2,pp=2,tp=2"] if "--dry-run" in sys.argv else [sys.argv[sys.argv.index("--mesh") + 1]]
    print(json.dumps({"cases": [{"mesh": mesh, "model": "tiny", "checks": [row]} for mesh in meshes]}))
    sys.exit()
if name == "conformance_test" and number == 2 and (root / "broken").exists():
    sys.exit("slice 2 is broken")
assert os.environ["DPBENCH_CASES"] == "all"
tests = [{"name": f"{strategy}_{number}_{world}", "case": f"{strategy} gpt {world}", "check clip": f"passed {world}e-15 1e-12"}
         for world in (1, 3) for strategy in ("dp", "layout+zb_h1") if number < 2]
if name == "wrong_strategies_test" and number == 1:
    tests = [{"name": "mutant", "mutant": "clips-twice gpt clip", "verdict": "the norm is 2"}]
report = {"time": "2.5s", "testsuites": [{"testsuite": tests}]}
output, = [word.partition(":")[2] for word in sys.argv if word.startswith("--gtest_output=json:")]
pathlib.Path(output).write_text(json.dumps(report))
"""


class Study(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.build = self.root / "build"
        for name in ("build/bin", "results", "scripts/studies"):
            (self.root / name).mkdir(parents=True)
        for name in ("dpbench", "conformance_test", "wrong_strategies_test"):
            (self.build / "bin" / name).write_text(PROGRAM, encoding="utf-8")
            (self.build / "bin" / name).chmod(0o755)
        (self.root / "results/conformance.md").write_text("", encoding="utf-8")
        shutil.copy(SCRIPT, self.root / "scripts/studies")

    def study(self):
        """Runs the study. Returns the exit code, the output and the calls of this run."""
        (self.build / "calls").write_text("", encoding="utf-8")
        done = subprocess.run([self.root / "scripts/studies/conformance-report", self.build], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr, (self.build / "calls").read_text(encoding="utf-8").splitlines()

    def page(self, name):
        return (self.root / "results" / name).read_text(encoding="utf-8")

    def test_a_continued_study_runs_only_the_pieces_without_a_result_and_writes_no_page_before_all_have_one(self):
        (self.build / "broken").touch()
        code, said, calls = self.study()
        self.assertEqual((code, len(calls)), (1, 60 + 20 + 3), said)
        self.assertIn("slice 2 is broken", said)
        self.assertRegex(said, "82 of 82: .*about 0 minutes left")
        self.assertEqual(self.page("conformance.md"), "")
        (self.build / "broken").unlink()
        code, said, calls = self.study()
        self.assertEqual((code, sorted(calls)), (0, ["conformance_test 2", "dpbench 0"]), said)
        self.assertIn("# Conformance\n", self.page("conformance.md"))

    def test_a_study_of_another_build_uses_no_stored_result(self):
        self.assertEqual(self.study()[0], 0)
        with (self.build / "bin/dpbench").open("a", encoding="utf-8") as program:
            program.write("# changed\n")
        self.assertEqual(len(self.study()[2]), 60 + 20 + 3)

    def test_the_pages_have_every_check_of_strategies_layouts_and_variants_and_every_wrong_strategy(self):
        self.assertEqual(self.study()[0], 0)
        page = self.page("conformance.md")
        for line in ("| `clip` | 3e-15 of 1e-12 (4) |", "| check | bound | `dp=2,tp=2` |", "| check | bound | `dp=2,pp=2,tp=2` |",
                     "| `clip` | 1e-12 | 2.0e-16 |", "| `layout+zb_h1` | 4 | 4 | - |", "| `clips-twice` | `gpt` | `clip` | the norm is 2 |"):
            self.assertIn("\n" + line + "\n", page)
        self.assertIn("\n| `clip` | 1e-12 | 3.0e-15 |\n", self.page("conformance_cases.md"))


if __name__ == "__main__":
    unittest.main()
