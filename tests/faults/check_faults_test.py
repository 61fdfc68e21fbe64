"""Faults during the checks, with the real worker: each case ends in time, its check results are kept, and no step is
timed.

usage: check_faults_test.py DPBENCH PLUGIN
"""
from faulty_runs import DIFFERS, TIMEOUT, FaultyRuns, main
from drawn_tests import load_tests  # noqa: F401, unittest calls it


class CheckFaults(FaultyRuns):
    def test_an_exception_in_the_checks_fails_the_case_and_names_the_rank_that_raised_it(self):
        """The case's reason names the original exception, not an error that it triggers on other ranks."""
        for fault, words in (("throw", r"^rank 1 .*the strategy's own words .*scenario even, step 1"),
                             ("memory", r"^out of memory: rank 1 "),
                             ("more-parameters", r"^rank 1 .*one_more .*\[3\]"),
                             ("other-order", r"^rank 1 .*fc.bias .*rank 0 .*fc.weight")):
            for backend in ("shm", "gloo"):
                with self.subTest(fault=fault, backend=backend):
                    case = self.failed(fault, words, backend=backend, check="auto", step=1, within=DIFFERS)
                    self.assertEqual(case["launches"], [])
                    if fault != "memory":  # a rank out of memory ends at once, without check results
                        (row,) = [row for row in case["checks"] if row["status"] == "failed"]
                        self.assertRegex(row["detail"], r"^rank 1, step \d, scenario even: .*(the strategy's own words|one_more|fc.bias)")
        for fault, words in (("throw", r"^the worker .*the strategy's own words"), ("memory", r"^out of memory: the worker "),
                             ("replica-memory", r"^out of memory: the worker .*replica 1")):
            with self.subTest(fault=fault, strategy="faulty-dp"):
                self.failed(fault, words, strategy="faulty-dp", check="auto", step=1, flags=("--param", "rank=0"))

    def test_the_check_command_reports_an_exception_as_wrong_and_out_of_memory_as_failed(self):
        for fault, code, status, reason in (("throw", 1, "wrong", r"run-completes.*rank 1, step 1, scenario even: the strategy's own words"),
                                            ("memory", 3, "failed", r"^out of memory: rank 1 ")):
            with self.subTest(fault=fault):
                case = self.other_command("check", fault, 1, code)
                self.assertEqual(case["status"], status)
                self.assertRegex(case["reason"], reason)

    def test_the_check_command_names_the_seed_with_which_a_check_failed(self):
        for fault in ("throw", "wrong-gradient"):
            with self.subTest(fault=fault):
                case = self.other_command("check", fault, 1, 1, "--seed", "7", "--seeds", "50", "--filter", "gradient-vs-baseline", "--param", "rank=0")
                (row,) = [row for row in case["checks"] if row["status"] == "failed"]
                self.assertRegex(row["detail"], r"step 1, .* \(--seed 7\)$")

    def test_checking_60_seeds_for_longer_than_the_timeout_is_not_reported_as_a_hang(self):
        """60 seeds of 3 steps of 20 ms take longer than --timeout. dp calls no collectives, so only the heartbeats of
        the checks show its progress."""
        case = self.other_command("check", "crawl", 1, 0, "--seeds", "60", "--filter", "gradient-vs-baseline", "--param", "rank=0", strategy="faulty-dp")
        self.assertEqual(case["status"], "ok")

    def kept_by_the_checks(self, fault, words, **how):
        """Runs a case that must fail in the checks before timing, and asserts that no step was timed. Returns its
        failed checks."""
        case = self.failed(fault, words, step=1, check="auto", within=DIFFERS, **how)
        self.assertEqual(case["launches"], [], self.stderr)
        return [check for check in case["checks"] if check["status"] == "failed"]

    def test_the_checks_before_timing_name_the_differing_collectives_of_each_rank(self):
        """If ranks call different collectives, Gloo itself returns wrong numbers or hangs."""
        for backend in ("gloo", "shm"):
            with self.subTest(backend=backend):
                for fault, found in (("skip", r'rank 0 "even: step 1, call 0: .*", rank 1 "even: [^",]*\bdone"'),
                                     ("other-collective", r'rank 0 "even: step 1, call 0: .*", rank 1 "even: step 1, call 0: broadcast of 3 Float[^"]*\broot 0"')):
                    said = rf"^rank \d .*different collectives: {found} .*scenario even, step \d"
                    (row,) = self.kept_by_the_checks(fault, said, backend=backend)
                    self.assertEqual(row["name"], "run-completes")
                    self.assertRegex(row["detail"], found)

    def test_a_strategy_that_sums_gradients_instead_of_averaging_is_not_timed(self):
        """Uses convnet: its BatchNorm couples samples, so gradients cannot be compared with those of one device."""
        case = self.run_fault("sum", code=1, check="auto", step=1, flags=("--workload", "convnet", "--filter", "convnet"), within=(30, 2))
        self.assertEqual((case["workload"], case["status"], case["launches"]), ("convnet", "wrong", []), self.stderr)
        rows = {row["name"]: row for row in case["checks"]}
        self.assertEqual(rows["gradient-vs-baseline"]["status"], "skipped")
        self.assertEqual(rows["gradient-meaning"]["status"], "failed")
        self.assertRegex(rows["gradient-meaning"]["likely"], r"\bsummed\b.*\b2 ranks\b")

    def test_mistakes_that_appear_only_with_a_cases_dtype_accumulation_or_clipping_are_found_before_timing(self):
        """Each faulty strategy of this test is wrong only in the timed dtype, with accumulation or with clipping. In
        float64 without either, its result is right."""
        for fault, flags, checks in (("narrow", (), ["gradient-replay"]), ("no-clip", ("--clip-norm", "0.01"), ["clip", "clip-replay", "trajectory"]),
                                     ("last-micro", ("--accumulate", "2"), ["output-shape", "accumulation", "accumulation-replay", "trajectory"])):
            with self.subTest(fault=fault):
                case = self.run_fault(fault, code=1, check="auto", flags=flags, within=DIFFERS)
                self.assertEqual((case["status"], case["launches"]), ("wrong", []), self.stderr)
                self.assertLessEqual(set(checks), {row["name"] for row in case["checks"] if row["status"] == "failed"})

    def test_a_nan_in_a_check_is_blamed_on_its_rank_and_check_results_are_kept_but_nothing_is_timed(self):
        """The case's reason names the rank that produced the NaN or infinity, not a rank that received it in the next
        step."""
        for strategy, backend, rank, who in (("faulty-ddp", "gloo", 1, "rank 1"), ("faulty-ddp", "shm", 0, "rank 0"), ("faulty-dp", "", 0, "the worker")):
            for fault, words in (("nan", r"fc.weight .*nan .*\[0, 0\] .*step 1"),
                                 ("inf-gradient", r"gradient .*fc.weight .*inf .*\[1, 2\] .*step 1")):
                with self.subTest(fault=fault, strategy=strategy, backend=backend):
                    said = rf"^not a number: {who} .*{words} .*scenario even"
                    rows = self.kept_by_the_checks(fault, said, strategy=strategy, backend=backend, flags=("--param", f"rank={rank}"))
                    self.assertIn("scenario even", " ".join(row["detail"] for row in rows))

    def test_a_finite_wrong_gradient_gives_the_status_wrong_not_failed(self):
        for strategy, backend in (("faulty-ddp", "gloo"), ("faulty-ddp", "shm"), ("faulty-dp", "")):
            with self.subTest(strategy=strategy, backend=backend):
                case = self.run_fault("wrong-gradient", strategy=strategy, backend=backend, step=1, code=1, check="auto", within=DIFFERS,
                                      flags=("--param", "rank=0"))
                self.assertEqual((case["status"], case["launches"]), ("wrong", []), self.stderr)
                self.assertLessEqual({"gradient-meaning", "gradient-vs-baseline", "optimizer-replay", "gradient-replay"},
                                     {row["name"] for row in case["checks"] if row["status"] == "failed"})

    def test_a_rank_that_crashes_or_hangs_in_the_checks_before_timing_is_named(self):
        for fault, words, silent in (("kill", r"signal 9", 0), ("segv", r"signal 11", 0),
                                     ("exit-0", r"exit code 0", 0), ("stop", r"stopped", TIMEOUT)):
            self.over_both(fault, f"rank 1 .*{words}", check="auto", step=1, silent=silent)
            with self.subTest(fault=fault, strategy="faulty-dp"):
                self.failed(fault, f"the worker .*{words}", strategy="faulty-dp", check="auto", step=1, silent=silent, flags=("--param", "rank=0"))


if __name__ == "__main__":
    main()
