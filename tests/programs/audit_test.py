"""Tests that a strategy which is right in the checks but wrong in timed steps gets no step time in the report: the
checks before timing or an audit of the timed run fails, and names the mistake. A right strategy passes, also one of
unusual construction.

usage: audit_test.py DPBENCH CHEATING_PLUGIN ODD_PLUGIN
"""
import json
import os
import re
import shlex
import subprocess
import sys
import tempfile
import unittest

from drawn_tests import load_tests  # noqa: F401, unittest calls it
import reports  # noqa: F401, importing this module validates every report that dpbench writes

DPBENCH, PLUGIN, ODD_PLUGIN = (os.path.abspath(sys.argv.pop(1)) for _ in range(3))

APART = "different parameters"
UPDATED = "update"
ROUNDED = "bfloat16"
# {way to cheat: (check that finds it, words of its diagnosis)}
WAYS = {
    "when-not-read": ("trajectory", ""),
    "when-fast": ("trajectory", ""),
    "no-update-when-not-read": ("trajectory", UPDATED),
    "large-batches": ("trajectory", "other samples"),
    "late": ("audit", APART),
    "now-and-then": ("audit", APART),
    "when-not-read-for-long": ("audit", APART),
    "no-late-update": ("audit", UPDATED),
    "every-fourth-update-left-out": ("audit", ""),
    "no-update-from-third-step-after-a-look": ("audit", ""),
    "no-update-from-a-drawn-step-after-a-look": ("audit", ""),
    "late-batches": ("audit", ""),
    # Blocks and audits begin with the same reads, so this way to cheat does not tell an audit from a block.
    "batches-unless-read-twice": ("audit", ""),
    "last-element": ("audit", "not updated"),
    "honest-copy": ("audit", ""),  # reports the tensors of an honest copy, but its own losses
    "when-asked": ("audit", UPDATED),
    "rounded-gradients": ("audit", ROUNDED),
    "rounded-own-gradients": ("audit", ROUNDED),
    "rounded-updates": ("audit", ROUNDED),
}
# Unusual ways to be right: (parameter value of the strategy "odd", workload, world, further flags). Three ranks: a third
# of a loss is rounded, half of it is not.
RIGHT = (
    ("own-optimizer", "mnist-mlp", 2, ()),  # SGD
    ("own-optimizer", "convnet", 2, ("--batch", "4")),  # Adam
    ("float64-copy", "mnist-mlp", 2, ()),
    ("loss-divided-by-the-world", "mnist-mlp", 3, ()),
    ("each-micro-batch-reduced", "mnist-mlp", 2, ("--accumulate", "3")),
    ("step-ends-in-a-thread", "mnist-mlp", 2, ()),
    ("step-ends-in-a-thread", "mnist-mlp", 2, ("--backend", "gloo")),
)


class Audit(unittest.TestCase):
    def measure(self, way, *flags, strategy="cheating", world=2, samples=4, workload="mnist-mlp", steps=60):
        """Runs the strategy in timed blocks of `steps` steps. Returns the exit code and the case of the report."""
        with tempfile.TemporaryDirectory() as out:
            done = subprocess.run([DPBENCH, "run", "--plugin", PLUGIN, "--plugin", ODD_PLUGIN, "--strategy", strategy, "--param",
                                   f"how={way}", "--cpus", str(world), "--workload", workload, "--no-baseline", "--launches", "2",
                                   "--samples", str(samples), "--steps", str(steps), "--out", out, "-q", "-o", "json", *flags],
                                  capture_output=True, text=True, timeout=240)
            self.assertTrue(done.stdout, done.stderr)
            return done.returncode, json.loads(done.stdout)["cases"][0]

    def test_every_strategy_that_cheats_in_timed_steps_fails_a_check_and_gets_no_step_time(self):
        for way, (check, words) in WAYS.items():
            with self.subTest(way):
                # Audits of few steps may miss ways that cheat only in some steps, and fail to name a rounding. More
                # blocks leave time for longer audits.
                by_chance = re.search("every-fourth|rounded|after-a-look|read-twice", way)
                for _ in range(4 if by_chance else 1):
                    code, case = self.measure(way, samples=100 if by_chance else 4)
                    failed = {row["name"]: row for row in case["checks"] if row["status"] == "failed"}
                    if check in failed and words in failed[check]["likely"]:
                        break
                self.assertEqual((code, case["status"]), (1, "wrong"), case)
                # when-fast cheats only in steps that follow one another quickly. On a busy machine the checks' steps
                # may be too slow.
                if way == "when-fast" and check not in failed:
                    check, words = "audit", APART
                self.assertIn(check, failed)
                self.assertIn(words, failed[check]["likely"])
                if check == "audit":
                    self.assertRegex(failed[check]["detail"], r"\bstep \d+\b.*, launch \d\Z")
                self.assertIsNone(case["stats"]["step_time_ns"])

    def test_a_strategy_whose_state_leaves_out_what_an_audit_needs_is_unproven_and_gets_no_step_time(self):
        """Its checks passed: from step 100 on it reports no optimizer state."""
        code, case = self.measure("no-state", "--batch", "4", strategy="forgetful", workload="convnet")
        (audit,) = [row for row in case["checks"] if row["name"] == "audit"]
        self.assertEqual((code, case["status"], audit["status"]), (4, "unproven", "skipped"), case)
        self.assertIn('state() has no "', case["reason"])
        self.assertIsNone(case["stats"]["step_time_ns"])

    def test_the_optimizers_step_count_reveals_updates_left_out_between_audits(self):
        """The strategy is right in the first 100 steps after each call of an accessor, and audits have 64 steps at most."""
        code, case = self.measure("no-update-long-after-a-look", "--batch", "4", workload="convnet", samples=2, steps=150)
        failed = {row["name"]: row for row in case["checks"] if row["status"] == "failed"}
        self.assertEqual((code, case["status"], set(failed)), (1, "wrong", {"audit"}), case)
        self.assertRegex(failed["audit"]["detail"], r"optimizer .*\b\d+ steps .*\b\d+ steps\b")

    def test_a_strategy_that_is_right_only_in_the_last_block_fails_an_audit_between_earlier_blocks(self):
        """The strategy counts 100 blocks of 60 steps, which leave time for audits between them. It passes the last audit."""
        code, case = self.measure("honest-from-the-last-block", strategy="counting", samples=100)
        failed = {row["name"]: row for row in case["checks"] if row["status"] == "failed"}
        self.assertEqual((code, case["status"], set(failed)), (1, "wrong", {"audit"}), case)

    def test_a_launch_of_three_long_blocks_is_audited_at_least_twice(self):
        """Blocks of 600 steps leave time for an audit before the last block; another audit follows the last block."""
        _, case = self.measure("honest", samples=3, steps=600)
        (audit,) = [row for row in case["checks"] if row["name"] == "audit"]
        self.assertGreaterEqual(int(re.search(r"(\d+) times", audit["compared"]).group(1)), 2, audit)

    def test_check_layouts_reduces_a_wrong_layout_to_two_ranks_and_prints_a_command_that_repeats_it(self):
        # For one of its two layouts, this seed draws a way to cheat in steps after which the tensors are not read.
        drawn = ("check", "--plugin", PLUGIN, "--strategy", "cheating", "--layouts", "2", "--seed", "268")
        done = subprocess.run([DPBENCH, *drawn], capture_output=True, text=True, timeout=240)
        self.assertEqual(done.returncode, 1, done.stderr)
        command = shlex.split(re.search(r"\bsmallest\b.*\bcpu:4\b.*:\n(.*)", done.stderr).group(1))
        self.assertEqual(command[command.index("--mesh") + 1], "dp=2")
        self.assertIn("layers=1,heads=2", command[command.index("--model") + 1])
        again = subprocess.run([DPBENCH, *command[1:], "-o", "json"], capture_output=True, text=True, timeout=240)
        self.assertEqual(again.returncode, 1, again.stderr)
        (case,) = json.loads(again.stdout)["cases"]
        self.assertIn("trajectory", {row["name"] for row in case["checks"] if row["status"] == "failed"})

    def test_an_honest_strategy_passes_its_audit(self):
        code, case = self.measure("honest")
        audit = [row for row in case["checks"] if row["name"] == "audit"]
        self.assertEqual((code, case["status"], len(audit)), (0, "ok", 1), case)
        self.assertEqual(audit[0]["status"], "passed")

    def test_right_strategies_of_unusual_construction_pass_their_audits(self):
        for way, workload, world, flags in RIGHT:
            with self.subTest(way, workload=workload):
                # 30 blocks leave time for audits of several steps.
                code, case = self.measure(way, *flags, strategy="odd", workload=workload, world=world, samples=30, steps=20)
                audit = [row for row in case["checks"] if row["name"] == "audit"]
                self.assertEqual((code, case["status"], [row["status"] for row in audit]), (0, "ok", ["passed"]), case)

    def check(self, way):
        """Checks the strategy "odd". Returns the exit code and the first line."""
        done = subprocess.run([DPBENCH, "check", "--plugin", ODD_PLUGIN, "--strategy", "odd", "--param", f"how={way}", "--cpus", "2",
                               "--workload", "mnist-mlp", "--backend", "shm", "--progress", "none"],
                              capture_output=True, text=True, timeout=240)
        return done.returncode, done.stdout.partition("\n")[0]

    def test_a_strategy_that_refuses_float64_alone_is_checked_in_part_and_exits_4(self):
        code, line = self.check("float32-only")
        self.assertEqual(code, 4, line)
        self.assertRegex(line, r"1 of 1 cases could be checked, 1 of these in part \(refused: .*\bfloat32\): [1-9]\d* checks passed, 0 failed")

    def test_a_strategy_that_refuses_clipping_passes_the_checks_of_a_case_without_clipping(self):
        code, line = self.check("own-optimizer")
        self.assertEqual(code, 0, line)
        self.assertNotIn("in part", line)

    def duel(self, way, *flags):
        """Compares the strategy with itself over 10 pairs of blocks, 2 in each launch. Returns the case of the report."""
        with tempfile.TemporaryDirectory() as out:
            done = subprocess.run([DPBENCH, "duel", "--base-plugin", PLUGIN, "--new-plugin", PLUGIN, "--strategy", "cheating", "--param",
                                   f"how={way}", "--cpus", "2", "--pairs", "10", "--pairs-per-launch", "2", "--out", out, "-q", "-o", "json",
                                   *flags], capture_output=True, text=True, timeout=240)
        self.assertTrue(done.stdout, done.stderr)
        return json.loads(done.stdout)["cases"][0]

    def test_duel_gives_no_speed_verdict_on_builds_that_are_wrong_in_the_last_steps_only(self):
        """The first launch has 131 steps: 20 warm-up steps and three blocks of 35 steps, each after two untimed ones. The mistake
        begins at step 101, in the last block, so only the audit after this block sees it."""
        case = self.duel("no-late-update", "--workload", "mnist-mlp", "--warmup", "20", "--steps", "35")
        self.assertIn(case["status"], ("wrong", "unmeasured"), case)
        self.assertRegex(case["reason"], r"\baudit failed\b.*, launch 0\Z")
        self.assertIsNone(case["verdict"])

    def test_a_duel_of_blocks_of_one_long_step_reports_its_passed_audits(self):
        case = self.duel("honest", "--workload", "gpt", "--model", "layers=2,hidden=128,heads=4,seq=64,vocab=512", "--batch", "2",
                         "--check", "off", "--steps", "1", "--warmup", "2")
        for checks in (case["base_checks"], case["new_checks"]):
            self.assertEqual([(row["name"], row["status"]) for row in checks], [("audit", "passed")], case)

    def test_with_audit_off_a_mistake_that_begins_after_100_steps_is_not_found(self):
        # This mistake is the same on all ranks. Parameters that differ between ranks are found even without an audit.
        code, case = self.measure("no-late-update", "--audit", "off")
        self.assertEqual((code, case["status"]), (0, "ok"), case)
        self.assertNotIn("audit", [row["name"] for row in case["checks"]])


if __name__ == "__main__":
    unittest.main()
