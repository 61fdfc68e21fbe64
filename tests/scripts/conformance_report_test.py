"""Tests scripts/studies/conformance-report with stand-ins for the test programs and dpbench: which pieces a continued
study runs, and the two pages it writes."""
import json
import pathlib
import shutil
import subprocess
import tempfile
import unittest

STUDIES = pathlib.Path(__file__).parents[2] / "scripts/studies"
# Each stand-in adds a line to the file `calls`. It writes the file of its slice, the plan or the checks of a mesh, which
# the tests provide, and an empty report for other slices. A slice whose file is empty fails.
PROGRAM = """#!/bin/sh
root=$(dirname "$0")/.. name=$(basename "$0") slice=${GTEST_SHARD_INDEX-0}
echo "$name $slice" >>"$root/calls"
case $* in
  *--dry-run*) cat "$root/plan" ;;
  *--mesh*) cat "$root/checks-${*##*--mesh }" ;;
  *) [ "$DPBENCH_CASES" = all ] || exit 8
     output=${1#--gtest_output=json:}
     cat "$root/$name-$slice" >"$output" 2>/dev/null || echo '{"time": "2.5s", "testsuites": []}' >"$output"
     [ -s "$output" ] || { echo "slice $slice is broken"; exit 1; } ;;
esac
"""
MESHES = ["", "dp=2,tp=2", "dp=2,pp=2,tp=2"]
CHECK = {"name": "clip", "status": "passed", "error": 2e-16, "bound": 1e-12}


def slice_with(tests):
    return json.dumps({"time": "2.5s", "testsuites": [{"testsuite": tests}]})


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
        right = [{"name": f"{strategy}_{world}", "case": f"{strategy} gpt {world}", "check clip": f"passed {world}e-15 1e-12"}
                 for strategy in ("dp", "layout+zb_h1") for world in (1, 3)]
        plan = {"cases": [{"mesh": mesh, "model": "tiny"} for mesh in MESHES]}
        for name, text in {"results/conformance.md": "", "build/plan": json.dumps(plan), "build/conformance_test-1": slice_with(right),
                           "build/wrong_strategies_test-1": slice_with([{"name": "x", "mutant": "clips-twice gpt clip", "verdict": "twice"}])}.items():
            (self.root / name).write_text(text, encoding="utf-8")
        for mesh in MESHES[1:]:
            (self.build / f"checks-{mesh}").write_text(json.dumps({"cases": [{"mesh": mesh, "checks": [CHECK]}]}), encoding="utf-8")
        for name in ("conformance-report", "stored.py"):
            shutil.copy(STUDIES / name, self.root / "scripts/studies")

    def study(self):
        """Runs the study. Returns the exit code, the output and the calls of this run."""
        (self.build / "calls").write_text("", encoding="utf-8")
        done = subprocess.run([self.root / "scripts/studies/conformance-report", self.build], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr, (self.build / "calls").read_text(encoding="utf-8").splitlines()

    def page(self, name):
        return (self.root / "results" / name).read_text(encoding="utf-8")

    def test_a_continued_study_runs_only_the_pieces_without_a_result_and_writes_no_page_before_all_have_one(self):
        (self.build / "conformance_test-2").touch()
        code, said, calls = self.study()
        self.assertEqual((code, len(calls)), (1, 60 + 20 + 3), said)
        self.assertIn("slice 2 is broken", said)
        self.assertRegex(said, "82 of 82: .*about 0 minutes left")
        self.assertEqual(self.page("conformance.md"), "")
        (self.build / "conformance_test-2").unlink()
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
        for line in ("| `clip` | 3e-15 of 1e-12 (2) |", "| check | bound | `dp=2,tp=2` |", "| check | bound | `dp=2,pp=2,tp=2` |",
                     "| `clip` | 1e-12 | 2.0e-16 |", "| `layout+zb_h1` | 2 | 2 | - |", "| `clips-twice` | `gpt` | `clip` | twice |"):
            self.assertIn("\n" + line + "\n", page)
        self.assertIn("\n| `clip` | 1e-12 | 3.0e-15 |\n", self.page("conformance_cases.md"))


if __name__ == "__main__":
    unittest.main()
