"""Wrong and failing strategies in Python: each mistake fails the check that is meant for it, and a step that raises,
ends its rank, hangs or returns the wrong thing fails its case with the reason.

usage: python_wrong_test.py DPBENCH
"""
import unittest

from drawn_tests import load_tests  # noqa: F401, unittest calls it
from python_runs import BRIEF, EXAMPLE, FAULTY, ROOT, call, checked

MISTAKES = ROOT / "tests/python/mistakes.py"
MODELS = ROOT / "tests/python/transformer.py"

# {strategy with a mistake: (a check that must fail, words of its diagnosis)}
FOUND = {
    "m-sums-micro-batches": ("accumulation", "not divided"),
    "m-reduces-each-micro-batch": ("collective-count", "every micro-batch"),
    "m-never-reduces": ("gradient-meaning", "not reduced"),
    "m-no-zero-grad": ("gradient-meaning", "not zeroed"),
    "m-calls-the-module": ("gradient-meaning", "not reduced"),
    "m-module-forgotten": ("initial-broadcast", '"module."'),
    "m-no-buffers": ("buffers", "rank 0's"),
    "m-no-initial-broadcast": ("initial-broadcast", "not broadcast"),
    "m-clips-after-the-step": ("optimizer-replay", "reported gradient"),
    "m-clips-values": ("clip", "each element"),
    "m-hook-doubles": ("gradient-meaning", "2 times"),
    "m-leaves-out-a-parameter": ("optimizer-replay", "not updated"),
    "m-other-learning-rate": ("optimizer-replay", "3 times"),
    "m-decays-in-place": ("optimizer-replay", ""),
    "m-stale": ("gradient-meaning", "step late"),
    "m-first-output": ("output-shape", ""),
    "m-sum-of-loss": ("loss-value", "another rank"),
    "m-evaluates-in-training-mode": ("evaluation", "training mode"),
    "m-clips-before-the-reduction": ("clip", "the reduction"),
    "m-reduces-half": ("gradient-meaning", "not reduced"),
    "m-forgets-to-divide": ("gradient-meaning", "3 ranks"),
    "m-sends-bfloat16": ("gradient-meaning", "bfloat16"),
    "m-divides-twice": ("gradient-meaning", "averaged over 3"),
    "m-reduces-twice": ("gradient-meaning", "3 times"),
    "m-no-set-epoch": ("output-value", "another rank"),
    "m-no-sync-around-backward": ("collective-count", "every micro-batch"),
    "m-no-sync-for-the-last-pass": ("ranks-agree-gradients", "every rank"),
    "m-zeroes-in-each-micro-batch": ("accumulation", "overwrote"),
    "m-hook-sums": ("gradient-meaning", "3 ranks"),
    "m-steps-twice": ("optimizer-replay", "updated twice"),
    "m-never-steps": ("optimizer-replay", "not updated"),
    "m-only-rank-0-steps": ("ranks-agree-parameters", "alone"),
    "m-targets-in-reverse": ("loss-value", "targets"),
    "m-loss-of-rank-0": ("loss-value", "another rank"),
    "m-broadcasts-rank-0": ("gradient-meaning", "rank 0's own"),
    "m-takes-the-maximum": ("gradient-meaning", "maximum"),
    "m-adds-in-place-later": ("gradient-meaning", "step before"),
    "m-evaluates-once-a-step": ("evaluation", ""),
    "m-hides-nan-in-outputs": ("non-finite", "replaced"),
    "m-hides-nan-in-buffers": ("non-finite", "replaced"),
    "m-masks-nan-on-some-ranks": ("non-finite", "masked"),
    "m-clips-matrices-and-vectors-apart": ("clip", ""),
    "m-waits-for-the-first-reduction": ("late-collectives", ""),
    "m-load-keeps-the-given-tensors": ("reload-midway", ""),
    "m-skips-each-fiftieth-update": ("trajectory", "not update"),
    "m-reduces-if-asked-each-step": ("trajectory", ""),
}

# Mistakes that show only on a model with BatchNorm.
BUFFERS = {"m-no-buffers", "m-evaluates-in-training-mode", "m-hides-nan-in-buffers"}
RIGHT = {"m-none", "m-reduces-in-a-callback", "m-update-in-a-thread", "plain-average"}
# Running only the checks that must fail saves most scenarios. python_right_test.py runs all checks.
NAMED = "^(" + "|".join(sorted({check for check, _ in FOUND.values()})) + ")$"


def failed_checks(case):
    return {row["name"]: row.get("likely") or "" for row in case["checks"] if row["status"] == "failed"}


class Wrong(unittest.TestCase):
    def failures(self, workload, strategies):
        """Checks these strategies and the right ones. Returns {strategy: its failed checks} of the wrong ones."""
        code, report, _ = call("check", "--plugin", MISTAKES, "--plugin", EXAMPLE, "--workload", workload,
                               "--strategy", ",".join(sorted({*RIGHT, *strategies})), "--cpus", "3", "--backend", "shm",
                               "--seed", "1", "--filter", NAMED)
        self.assertEqual(code, 1, [case["reason"] for case in report["cases"]])
        failures = {case["strategy"]: failed_checks(case) for case in report["cases"]}
        self.assertEqual([failures.pop(strategy) for strategy in RIGHT], [{}] * len(RIGHT))
        return failures

    def test_every_faulty_strategy_fails_its_check_and_the_correct_ones_pass(self):
        failures = {**self.failures("random-linear", {"plain-sum", *FOUND} - BUFFERS), **self.failures("convnet", BUFFERS)}
        self.assertRegex(failures.pop("plain-sum")["gradient-meaning"], r"\b3 times\b.*\bsummed\b.*\b3 ranks\b")
        self.assertEqual(set(failures), set(FOUND))
        for strategy, (check, words) in FOUND.items():
            with self.subTest(strategy):
                self.assertIn(check, failures[strategy])
                self.assertIn(words, failures[strategy][check])


class OwnOptimizer(unittest.TestCase):
    def test_wrong_steps_of_a_models_own_optimizer_fail_the_check_that_replays_its_steps(self):
        expected = {"m-other-learning-rate": " times ", "m-steps-twice": "updated twice",
                    "m-never-steps": "not updated"}
        code, report, errors = call("check", "--plugin", MISTAKES, "--plugin", MODELS,
                                    "--strategy", ",".join([*expected, "m-none"]), "--workload", "py-adagrad",
                                    "--cpus", "3", "--backend", "shm", "--filter", "^optimizer-replay$")
        self.assertEqual(code, 1, errors)
        failures = {case["strategy"]: failed_checks(case) for case in report["cases"]}
        self.assertEqual(failures.pop("m-none"), {})
        for strategy, words in expected.items():
            with self.subTest(strategy):
                self.assertIn(words, failures[strategy]["optimizer-replay"])


class Faults(unittest.TestCase):
    def test_a_rank_that_raises_ends_hangs_or_runs_out_of_memory_in_a_step_fails_its_case_with_the_reason(self):
        expected = {"raises-on-rank-1": "ValueError: only here (faulty.py:", "exits": "SystemExit: 5",
                    "exits-at-once": "exit code 7", "crashes": "signal 11", "hangs": "progress",
                    "out-of-memory": "host memory"}
        code, report, errors = call("run", "--plugin", FAULTY, "--strategy", ",".join(expected), "--workload", "random-linear", "--cpus", "2",
                                    *BRIEF, "--timeout", "8")
        self.assertEqual(code, 3, errors)
        reasons = {case["strategy"]: case["reason"] for case in report["cases"]}
        self.assertEqual(set(reasons), set(expected))
        for strategy, words in expected.items():
            with self.subTest(strategy):
                self.assertIn(words, reasons[strategy])
        self.assertRegex(reasons["raises-on-rank-1"] + errors, r"Traceback \(most recent call last\)(.*\n)+.*in raises_on_rank_1")

    def test_a_check_fails_if_a_step_raises_ends_its_rank_hangs_or_returns_a_wrong_shape_or_type(self):
        # {strategy: (the failed check, words in its detail)}. If the whole case fails instead: ("", words in its reason).
        expected = {"raises": ("run-completes", "ValueError: on purpose (faulty.py:"), "exits": ("run-completes", "SystemExit: 5"),
                    "exits-at-once": ("", "exit code 7 in step 3"), "crashes": ("", "signal 11 (SIGSEGV) in step 3"),
                    "sleeps": ("", "progress"),
                    "returns-a-number": ("run-completes", "not float"),
                    "returns-three": ("run-completes", "not (int, int, int)"), "returns-nothing": ("run-completes", "not NoneType"),
                    "returns-a-list": ("run-completes", "not list"), "returns-the-loss-as-a-number": ("run-completes", "not (Tensor, float)"),
                    "one-row-short": ("output-shape", "expected ["), "output-in-float16": ("output-dtype", "found Half"),
                    "output-of-integers": ("output-dtype", "found Long"), "a-loss-per-sample": ("loss-finite", "single number"),
                    "a-loss-of-integers": ("loss-replay", "found ")}
        code, report = checked(FAULTY, ",".join(expected), "--workload", "random-linear", "--cpus", "1", "--backend", "shm", "--filter",
                               "^(run-completes|output-.*|loss-.*)$", "--timeout", "10")
        self.assertEqual(code, 3)
        for case in report["cases"]:
            check, words = expected.pop(case["strategy"])
            details = {row["name"]: row["detail"] for row in case["checks"] if row["status"] == "failed"}
            with self.subTest(case["strategy"]):
                self.assertIn(words, details[check] if check else case["reason"])
        self.assertEqual(expected, {})


if __name__ == "__main__":
    unittest.main()
