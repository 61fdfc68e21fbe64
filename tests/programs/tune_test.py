"""tune_test.py DPBENCH FAKE_WORKER: tests `dpbench tune`. The real worker reports the memory of tensors; the fake worker
runs out of memory, and its steps take equally long with every batch.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

from drawn_tests import load_tests  # noqa: F401, unittest calls it
import reports  # noqa: F401, importing this module validates every report that dpbench writes

DPBENCH, FAKE = (os.path.abspath(sys.argv.pop(1)) for _ in range(2))


def tune(*flags, code=0, worker=None):
    with tempfile.TemporaryDirectory() as out:
        environment = {**os.environ, "DPBENCH_KEEP_DISTURBED": "1", **({"DPBENCH_WORKER": worker} if worker else {})}
        where = () if {"--cpus", "--mesh"} & set(flags) else ("--cpus", "1")
        done = subprocess.run([DPBENCH, "tune", "--out", out, *where, *flags], capture_output=True, text=True,
                              timeout=280, check=False, env=environment)
    if done.returncode != code:
        raise AssertionError(f"exit {done.returncode}: {done.stdout}{done.stderr}")
    return done


def validate(text):
    """Fails unless `dpbench validate` accepts the text of a report."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".json") as file:
        file.write(text)
        file.flush()
        done = subprocess.run([DPBENCH, "validate", file.name], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise AssertionError(done.stderr)


def batches(report, status):
    return sorted(case["batch"] for case in report["cases"] if case["status"] == status)


def step_bytes(case):
    return max(rank["step_tensor_bytes"] for launch in case["launches"] for rank in launch["ranks"])


class FindBatch(unittest.TestCase):
    def test_the_batch_that_find_batch_prints_fits_in_memory_and_one_sample_more_does_not(self):
        limit = 12e6
        report = json.loads(tune("--find-batch", "--memory", "12MB", "--strategy", "cpu", "--workload", "gpt",
                                 "--model", "tiny", "-o", "json").stdout)
        fits, too_large = batches(report, "ok"), batches(report, "skipped")
        self.assertEqual(fits[-1] + 1, too_large[0])
        self.assertGreater(fits[-1], 4, "the search starts at a batch of 4")
        for case in report["cases"]:
            self.assertEqual(step_bytes(case) <= limit, case["status"] == "ok", case["id"])

    def test_find_batch_skips_a_batch_that_runs_out_of_memory_and_fails_at_a_crash(self):
        toy = ("--find-batch", "--memory", "1GB", "--strategy", "ddp", "--workload", "toy", "-o", "json")
        text = tune(*toy, "--param", "fault=oom-above-20", worker=FAKE).stdout
        validate(text)
        report = json.loads(text)
        self.assertEqual((batches(report, "ok")[-1], batches(report, "skipped")[0]), (20, 21))
        self.assertIn("out of memory", next(case for case in report["cases"] if case["batch"] == 21)["reason"])
        report = json.loads(tune(*toy, "--param", "fault=exit7-above-20", worker=FAKE, code=3).stdout)
        self.assertEqual(len(batches(report, "failed")), 1, "the search ends there")

    def test_after_a_crash_find_batch_prints_the_largest_batch_so_far_with_the_reason(self):
        done = tune("--find-batch", "--memory", "1GB", "--strategy", "ddp", "--workload", "toy",
                    "--param", "fault=exit7-above-20", worker=FAKE, code=3)
        self.assertRegex(done.stdout, r"ddp fault=exit7-above-20 +toy +1 +16 .* exit code 7")

    def test_find_batch_skips_a_case_that_the_strategy_refuses_and_searches_the_others(self):
        report = json.loads(tune("--find-batch", "--memory", "8MB", "--strategy", "pp", "--workload", "mnist-mlp",
                                 "--mesh", "pp=2", "--param", "pp.blocks=9+9,1+1", "-o", "json").stdout)
        tried = {case["params"]["blocks"] for case in report["cases"] if case["status"] == "ok"}
        self.assertEqual(tried, {"1+1"})
        (refused,) = (case for case in report["cases"] if case["params"]["blocks"] == "9+9")
        self.assertEqual(refused["status"], "skipped")
        self.assertIn("18 blocks", refused["reason"])

    def test_find_batch_refuses_a_named_strategy_that_cannot_run_any_case(self):
        for strategies in ("cp", "cp,tp"):
            with self.subTest(strategies):
                done = tune("--find-batch", "--memory", "8MB", "--strategy", strategies, "--workload", "mnist-mlp",
                            *(word for name in strategies.split(",") for word in ("--mesh", f"{name}=2")), code=2)
                self.assertIn("cp: this model has no sequence", done.stderr)

    def test_find_batch_ends_at_the_data_set_if_no_tensor_is_large_enough_to_be_counted(self):
        report = json.loads(tune("--find-batch", "--memory", "1MB", "--strategy", "cpu", "--workload", "random-linear",
                                 "-o", "json").stdout)
        self.assertEqual((batches(report, "ok")[-1], batches(report, "skipped")[0]), (100, 101))
        self.assertEqual(step_bytes(report["cases"][0]), 0)

    def test_find_batch_in_strong_scaling_prints_none_if_the_smallest_batch_needs_too_much_memory(self):
        done = tune("--find-batch", "--memory", "0.1MB", "--strategy", "ddp", "--workload", "gpt", "--model", "tiny",
                    "--cpus", "2", "--scaling", "strong", code=77)
        self.assertRegex(done.stdout, r"ddp +gpt +2 +none .* 0\.\d+ MB")

    def test_find_batch_prints_none_and_exits_77_if_a_batch_of_one_needs_too_much_memory(self):
        done = tune("--find-batch", "--memory", "0.1MB", "--strategy", "cpu", "--workload", "gpt", "--model", "tiny",
                    code=77)
        self.assertRegex(done.stdout, r"cpu +gpt +1 +none .* 0\.\d+ MB")

    def test_find_batch_refuses_invalid_or_conflicting_flags(self):
        for words in (["--find-batch", "--memory", "2"], ["--find-batch", "--memory", "0GB"],
                      ["--find-batch", "--over", "overlap"], ["--find-batch", "--memory", "1GB", "--launches", "5"],
                      ["--find-batch", "--batch", "1,2", "--memory", "1GB"], ["--memory", "1GB", "--over", "overlap"],
                      ["--find-batch"]):
            with self.subTest(words):
                done = tune("--strategy", "ddp", "--workload", "random-linear", *words, code=2)
                self.assertRegex(done.stderr, "--memory|--find-batch")


class TuneOverParameters(unittest.TestCase):
    FLAGS = ("--strategy", "fsdp", "--workload", "mnist-mlp", "--cpus", "2", "--dry-run")

    def test_tune_tries_only_the_named_values_of_a_parameter_that_also_accepts_numbers(self):
        tried = set(re.findall(r"/reshard=(\w+)", tune(*self.FLAGS, "--over", "reshard").stdout))
        self.assertEqual(tried, {"off", "shard"})

    def test_a_dry_run_refuses_a_parameter_value_below_its_minimum(self):
        for value in ("unit=0", "prefetch=-1", "reshard=1"):
            with self.subTest(value):
                self.assertIn("fsdp." + value, tune(*self.FLAGS, "--param", value, code=2).stderr)

    def test_a_dry_run_skips_values_that_contradict_each_other_and_refuses_to_tune_if_none_is_left(self):
        flags = ("--strategy", "ddp", "--workload", "mnist-mlp", "--cpus", "2", "--dry-run")
        done = tune(*flags, "--param", "skip_unused=on,off", "--param", "find_unused=on,off")
        self.assertRegex(done.stdout, r"skipped: .*ddp\.skip_unused=on and ddp\.find_unused=off")
        done = tune(*flags, "--param", "skip_unused=on", code=2)
        self.assertIn("ddp.skip_unused=on and ddp.find_unused=off", done.stderr)


class TuneOverBatches(unittest.TestCase):
    SAMPLING = ("--launches", "4", "--samples", "3")
    FLAGS = ("--strategy", "ddp", "--cpus", "2", *SAMPLING)

    def report(self, *flags):
        text = tune(*flags, "--over", "batch", "-o", "json", worker=FAKE).stdout
        validate(text)
        return json.loads(text)

    def test_tune_finds_the_batch_with_the_most_samples_per_second(self):
        done = tune(*self.FLAGS, "--workload", "toy", "--over", "batch", worker=FAKE)
        self.assertRegex(done.stdout, r"toy, world 2: .*--batch 32: 4\.00x \(4\.00 to 4\.00\)")
        self.assertIn("toy · CPU · weak", done.stdout)
        tried = {int(row.split()[0]) for row in done.stdout.splitlines() if re.match(r" *\d+ +2 ", row)}
        self.assertEqual(tried, {2, 4, 8, 16, 32}, done.stdout)

    def test_tune_compares_all_batches_of_the_flag_batch_with_the_first_one(self):
        report = self.report(*self.FLAGS, "--workload", "toy", "--batch", "6,3,12")
        self.assertEqual(report["config"]["reference_batch"], 6)
        (best,) = report["config"]["tuned"]
        self.assertIn("/b12/", best["case"])
        self.assertEqual((best["speedup"], best["low"], best["high"], best["launches"]), (2, 2, 2, 4))
        self.assertEqual((best["pairs"], best["verdict"]), (12, "faster"))
        (sentence,) = report["answer"]["sentences"]
        self.assertIn("use --batch 12: 2.00x (2.00 to 2.00)", sentence["text"])
        self.assertEqual({case["batch"]: case["derived"]["speedup"] for case in report["cases"]}, {6: 1, 3: 0.5, 12: 2})
        alone = [case["batch"] for case in report["cases"]
                 if not any("reference_ns" in launch for launch in case["launches"])]
        self.assertEqual(alone, [6], "only the reference has no pairs")

    def test_tune_tries_each_parameter_value_with_every_batch(self):
        report = self.report(*self.FLAGS, "--workload", "toy", "--batch", "6,12", "--param", "rank=1")
        speedups = {(case["batch"], *case["params"].values()): case["derived"]["speedup"] for case in report["cases"]}
        self.assertEqual(speedups, {(6,): 1, (12,): 2, (6, "1"): 1, (12, "1"): 2})

    def test_tune_skips_batches_above_the_data_set_and_cases_that_run_out_of_memory(self):
        report = self.report(*self.FLAGS, "--workload", "strong-toy")
        self.assertEqual((batches(report, "ok"), batches(report, "skipped")), ([7, 15, 30, 60], [120]))
        report = self.report("--strategy", "ddp", "--cpus", "1", *self.SAMPLING, "--workload", "toy", "--param",
                             "fault=oom-above-20")
        skipped = [case["params"] for case in report["cases"] if case["status"] == "skipped"]
        self.assertEqual(skipped, [{"fault": "oom-above-20"}])

    def test_tune_refuses_a_first_batch_smaller_than_the_world_or_larger_than_the_data_set(self):
        for words, why in ((("--workload", "strong-toy", "--batch", "1"), "strong-toy"),
                           (("--batch", "100000,8", "--filter", "strong-toy"), "100000")):
            with self.subTest(words):
                done = tune(*self.FLAGS, "--over", "batch", "--dry-run", *words, worker=FAKE, code=2)
                self.assertEqual((done.stdout.count("/b8/"), "/b32/" in done.stdout), (0, False))
                self.assertIn(why, done.stderr)

    def test_tune_skips_a_workload_with_too_few_samples_for_the_first_batch(self):
        done = tune("--strategy", "ddp", "--over", "batch", "--dry-run", "--batch", "128,64", "-o", "json")
        plan = json.loads(done.stdout)
        self.assertNotIn("random-linear", {case["workload"] for case in plan["cases"]})
        self.assertIn("mnist-mlp", {case["workload"] for case in plan["cases"]})
        reasons = {(skipped["case"]["workload"], skipped["case"]["batch"]): skipped["reason"]
                   for skipped in plan["skipped"]}
        self.assertEqual(set(reasons), {("random-linear", 128), ("random-linear", 64)})
        self.assertRegex(reasons["random-linear", 64], r"\b100\b")

    def test_tune_plans_the_reference_batch_even_if_the_filter_excludes_it(self):
        done = tune(*self.FLAGS, "--over", "batch", "--dry-run", "--workload", "toy", "--filter", "/b16/", "--batch",
                    "8,16,32", worker=FAKE)
        self.assertEqual((done.stdout.count("/b8/"), "/b32/" in done.stdout), (1, False))

    def test_tune_over_batch_needs_the_flag_batch_if_workloads_have_different_default_batches(self):
        self.assertIn("--batch N", tune(*self.FLAGS, "--over", "batch", worker=FAKE, code=2).stderr)


if __name__ == "__main__":
    unittest.main()
