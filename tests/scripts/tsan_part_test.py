"""Tests scripts/parts/tsan (runs tests under the thread sanitizer) with stand-ins for GoogleTest programs: a name
pattern that matches no test is a failure."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts/parts/tsan"
# Stand-in for a GoogleTest program: lists one test unless the filter equals $RENAMED; when run, it prints the filter.
PROGRAM = """#!/bin/sh
for word; do case $word in --gtest_filter=*) filter=${word#*=} ;; esac; done
case $* in *--gtest_list_tests*) echo "Running main()"; [ "$filter" = "$RENAMED" ] || printf 'Suite.\\n  Name\\n' ;; *) echo "ran $filter" ;; esac
"""
PROGRAMS = ("comm_test", "comm_faults_test", "comm_lives_test", "comm_random_test", "strategies_test", "dp_test", "recorded_test", "launch_test",
            "launch_loop_test")
SCRIPTS = ("programs/cli", "faults/cli_ends", "programs/check_command")


class Tsan(unittest.TestCase):
    def run_it(self, renamed=""):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            files = {"scripts/build": "#!/bin/sh\n", **{f"build/tsan/bin/{name}": PROGRAM for name in PROGRAMS},
                     **{f"tests/{name}_test.py": "" for name in SCRIPTS}}
            for name, text in files.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
                path.chmod(0o755)
            (root / "scripts/parts").mkdir()
            shutil.copy(SCRIPT, root / "scripts/parts")
            return subprocess.run([root / "scripts/parts/tsan"], env={**os.environ, "RENAMED": renamed}, capture_output=True, text=True,
                                  check=False)

    def test_the_tsan_part_passes_if_every_test_name_pattern_matches(self):
        done = self.run_it()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(done.stdout.count("ran "), len(PROGRAMS))
        self.assertIn("ran */threads:BackendThreads.*\n", done.stdout)

    def test_the_tsan_part_fails_if_a_test_name_pattern_matches_nothing(self):
        for renamed, program in (("BackendThreads.*", "comm_faults_test"), ("*RandomCollectives*/threads*", "comm_random_test"), ("Lists.*", "comm_lives_test"),
                                 ("DpGraph.*", "dp_test"), ("PackedBatches.*", "recorded_test")):
            done = self.run_it(renamed)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertRegex(done.stdout, rf"-- {program}\n.*'{re.escape(renamed)}'\n")
            self.assertEqual(done.stderr, f"tsan: failed: {program}\n")
            self.assertEqual(done.stdout.count("ran "), len(PROGRAMS) - 1)


if __name__ == "__main__":
    unittest.main()
