"""Tests tests/support/drawn_seed.py: a check that fails with a random seed is repeated with the same seed, and its
failed rows are printed. A shell script stands in for dpbench."""
import contextlib
import io
import json
import os
import tempfile
import unittest

import drawn_seed

ROW = {"name": "gradient-replay", "status": "failed", "error": 2.5, "bound": 1, "detail": "parameter a", "likely": "a race"}
REPORT = {"cases": [{"id": "ddp/toy", "status": "wrong", "checks": [ROW, {**ROW, "status": "passed", "name": "buffers"}]},
                    {"id": "dp/toy", "status": "failed", "reason": "rank 1 hangs", "checks": []}]}


class DrawnSeed(unittest.TestCase):
    def check(self, first, repeated, *flags):
        """Runs a check that ends with code `first`, or with `repeated` if it gets --seed 41. Returns the code, the
        printed text and the number of runs."""
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as printed:
            program = os.path.join(folder, "dpbench")
            with open(program, "w", encoding="utf-8") as file:
                file.write(f"#!/bin/sh\necho run >>{folder}/runs\ncat <<'END'\n{json.dumps(REPORT)}\nEND\necho '3 checks; seed 41; exit' >&2\n"
                           f"case \"$*\" in *'--seed 41'*) exit {repeated} ;; esac\nexit {first}\n")
            os.chmod(program, 0o755)
            code = drawn_seed.check([program, *flags]).returncode
            with open(folder + "/runs", encoding="utf-8") as file:
                return code, printed.getvalue(), len(file.readlines())

    def test_a_check_with_a_random_seed_that_passes_runs_once_and_prints_nothing(self):
        self.assertEqual(self.check(0, 1), (0, "", 1))

    def test_a_check_with_a_random_seed_that_fails_twice_prints_seed_and_failures_of_both_runs(self):
        code, printed, runs = self.check(1, 1)
        self.assertEqual((code, runs), (1, 2))
        for words in ("--seed 41", "ddp/toy gradient-replay: error 2.5, bound 1, parameter a a race", "dp/toy failed: rank 1 hangs"):
            self.assertEqual(printed.count(words), 2, printed)
        self.assertNotIn("buffers", printed)

    def test_a_check_with_a_random_seed_that_passes_when_repeated_prints_its_first_failure(self):
        code, printed, runs = self.check(3, 0)
        self.assertEqual((code, runs), (0, 2))
        self.assertIn("dp/toy failed: rank 1 hangs", printed)

    def test_a_check_that_fails_with_a_given_seed_is_not_repeated(self):
        code, printed, runs = self.check(1, 0, "--seed", "7")
        self.assertEqual((code, runs), (1, 1))
        self.assertIn("gradient-replay", printed)


if __name__ == "__main__":
    unittest.main()
