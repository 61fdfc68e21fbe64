"""What goes wrong while the checks run, before timing or alone: each case ends in time, the rows are kept, and nothing is timed. With the real worker.

usage: check_faults_test.py DPBENCH PLUGIN
"""
from faulty_runs import DIFFERS, TIMEOUT, FaultyRuns, main


class CheckFaults(FaultyRuns):
    def test_what_is_thrown_in_the_checks_is_a_failure_too(self):
        """The steps that are timed would throw it as well. It is the cause, not what the others make of it."""
        for fault, words in (("throw", r"^rank 1 failed: the strategy's own words \(in the checks: scenario even, step 1\)"),
                             ("memory", r"^out of memory: rank 1 failed: out of host memory"),
                             ("more-parameters", r"^rank 1 failed: this rank's model is not rank 0's: it has one_more of shape \[3\]"),
                             ("other-order", r"^rank 1 failed: this rank's model is not rank 0's: it has fc.bias .* where rank 0 has fc.weight")):
            for backend in ("shm", "gloo"):
                with self.subTest(fault=fault, backend=backend):
                    case = self.failed(fault, words, backend=backend, check="auto", step=1, within=DIFFERS)
                    self.assertEqual(case["launches"], [])
                    if fault != "memory":  # which ends its rank at once
                        (row,) = [row for row in case["checks"] if row["status"] == "failed"]
                        self.assertRegex(row["detail"], r"^rank 1, step \d, scenario even: (the strategy's own words|this rank's model)")
        for fault, words in (("throw", r"^the worker failed: the strategy's own words"), ("memory", r"^out of memory: the worker failed"),
                             ("replica-memory", r"^out of memory: the worker failed: replica 1: out of host memory")):
            with self.subTest(fault=fault, strategy="faulty-dp"):
                self.failed(fault, words, strategy="faulty-dp", check="auto", step=1, flags=("--param", "rank=0"))

    def test_the_command_check_judges_what_is_thrown_but_memory_is_a_failure(self):
        for fault, code, status, reason in (("throw", 1, "wrong", r"run-completes.*rank 1, step 1, scenario even: the strategy's own words"),
                                            ("memory", 3, "failed", r"^out of memory: rank 1 failed: out of host memory")):
            with self.subTest(fault=fault):
                case = self.other_command("check", fault, 1, code)
                self.assertEqual(case["status"], status)
                self.assertRegex(case["reason"], reason)

    def test_the_command_check_names_the_seed_and_stops_where_the_group_broke(self):
        for fault in ("throw", "wrong-gradient"):
            with self.subTest(fault=fault):
                case = self.other_command("check", fault, 1, 1, "--seed", "7", "--seeds", "50", "--filter", "gradient-vs-baseline", "--param", "rank=0")
                (row,) = [row for row in case["checks"] if row["status"] == "failed"]
                self.assertRegex(row["detail"], r"step 1, .* \(--seed 7\)$")

    def test_many_seeds_of_one_process_are_no_hang(self):
        """Its checks call no collective that would tell: 60 seeds of 3 steps that take 20 ms each are more than --timeout."""
        case = self.other_command("check", "crawl", 1, 0, "--seeds", "60", "--filter", "gradient-vs-baseline", "--param", "rank=0", strategy="faulty-dp")
        self.assertEqual(case["status"], "ok")

    def kept_by_the_checks(self, fault, words, **how):
        """The failed rows of a case that failed in the checks before timing; nothing was timed."""
        case = self.failed(fault, words, step=1, check="auto", within=DIFFERS, **how)
        self.assertEqual(case["launches"], [], self.stderr)
        return [check for check in case["checks"] if check["status"] == "failed"]

    def test_the_checks_before_timing_name_what_each_rank_calls(self):
        """Gloo itself gives success and wrong numbers, or hangs."""
        for backend in ("gloo", "shm"):
            with self.subTest(backend=backend):
                for fault, found in (("skip", r'rank 0 "even: step 1, call 0: .*", rank 1 "even: step 2, call 0: .*"'),
                                     ("other-collective", r'rank 0 "even: step 1, call 0: .*", rank 1 "even: step 1, call 0: broadcast of 3 Float with root 0"')):
                    said = rf"^rank \d failed: the ranks call different collectives: {found} \(in the checks: scenario even, step \d\)"
                    (row,) = self.kept_by_the_checks(fault, said, backend=backend)
                    self.assertEqual(row["name"], "run-completes")
                    self.assertRegex(row["detail"], found)

    def test_a_sum_where_a_mean_is_promised_is_not_timed(self):
        """On convnet, whose BatchNorm couples rows: no gradient can be held against one device's."""
        case = self.run_fault("sum", code=1, check="auto", flags=("--workload", "convnet", "--filter", "convnet"), within=(30, 2))
        self.assertEqual((case["workload"], case["status"], case["launches"]), ("convnet", "wrong", []), self.stderr)
        rows = {row["name"]: row for row in case["checks"]}
        self.assertEqual(rows["gradient-vs-baseline"]["status"], "skipped")
        self.assertEqual(rows["gradient-meaning"]["status"], "failed")
        self.assertIn("summed over 2 ranks", rows["gradient-meaning"]["likely"])

    def test_what_is_wrong_only_in_the_steps_that_are_timed_is_not_timed(self):
        """In their type, or because they accumulate or clip: float64 and a single pass without clipping would be right."""
        for fault, flags, checks in (("narrow", (), ["gradient-replay"]), ("no-clip", ("--clip-norm", "0.01"), ["clip", "clip-replay"]),
                                     ("last-micro", ("--accumulate", "2"), ["output-shape", "accumulation", "accumulation-replay"])):
            with self.subTest(fault=fault):
                case = self.run_fault(fault, code=1, check="auto", flags=flags, within=DIFFERS)
                self.assertEqual((case["status"], case["launches"]), ("wrong", []), self.stderr)
                self.assertEqual([row["name"] for row in case["checks"] if row["status"] == "failed"], checks)

    def test_what_the_checks_found_is_kept_and_nothing_is_timed(self):
        """The rank that made it is named, and not the one that got it from there in the next step."""
        for strategy, backend, rank, who in (("faulty-ddp", "gloo", 1, "rank 1"), ("faulty-ddp", "shm", 0, "rank 0"), ("faulty-dp", "", 0, "the worker")):
            for fault, words in (("nan", r"parameter fc.weight is nan at index \[0, 0\] after step 1"),
                                 ("inf-gradient", r"the gradient of fc.weight is inf at index \[1, 2\] after step 1")):
                with self.subTest(fault=fault, strategy=strategy, backend=backend):
                    said = rf"^not a number: {who} failed: {words} \(in the checks: scenario even\)"
                    rows = self.kept_by_the_checks(fault, said, strategy=strategy, backend=backend, flags=("--param", f"rank={rank}"))
                    self.assertIn("scenario even", " ".join(row["detail"] for row in rows))

    def test_what_is_wrong_but_a_number_is_wrong_and_no_failure(self):
        for strategy, backend in (("faulty-ddp", "gloo"), ("faulty-ddp", "shm"), ("faulty-dp", "")):
            with self.subTest(strategy=strategy, backend=backend):
                case = self.run_fault("wrong-gradient", strategy=strategy, backend=backend, step=1, code=1, check="auto", within=DIFFERS,
                                      flags=("--param", "rank=0"))
                self.assertEqual((case["status"], case["launches"]), ("wrong", []), self.stderr)
                self.assertEqual([row["name"] for row in case["checks"] if row["status"] == "failed"],
                                 ["gradient-meaning", "gradient-vs-baseline", "gradient-replay"])

    def test_deaths_and_hangs_in_the_checks_before_timing(self):
        for fault, words, silent in (("kill", r"was ended by signal 9", 0), ("segv", r"was ended by signal 11", 0),
                                     ("exit-0", r"left early with exit code 0", 0), ("stop", r"is stopped", TIMEOUT)):
            self.over_both(fault, f"rank 1 {words}", check="auto", step=1, silent=silent)
            with self.subTest(fault=fault, strategy="faulty-dp"):
                self.failed(fault, f"the worker {words}", strategy="faulty-dp", check="auto", step=1, silent=silent, flags=("--param", "rank=0"))


if __name__ == "__main__":
    main()
