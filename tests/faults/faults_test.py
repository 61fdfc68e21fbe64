"""Ranks that die, hang, lie or differ, with the real worker: each case ends in time, with exit code 3, the rank and the cause named.

usage: faults_test.py DPBENCH PLUGIN
"""
import re
import unittest

import control_groups
from faulty_runs import DEATH, DIFFERS, TIMEOUT, FaultyRuns, main


class Faults(FaultyRuns):
    def test_killed(self):
        self.over_both("kill", r"rank 1 was ended by signal 9 .*at step 7")

    def test_killed_where_the_others_met(self):
        """Rank 0 made the file of the rendezvous, leads and roots: the others must not need it to end."""
        self.over_both("kill", r"rank 0 was ended by signal 9 .*at step 7", flags=("--param", "rank=0"))

    def test_steps_are_those_of_the_case_and_the_last_collective_is_named(self):
        for backend, words in (("shm", r".* waited in #\d+ allreduce .*"), ("gloo", r".* \(in or after ")):
            with self.subTest(backend=backend):
                case = self.run_fault("kill", flags=("--param", "fault=none,kill", "--seed", "2"), backend=backend)
                self.assertRegex(case["reason"], rf"rank 1 was ended by signal 9 .*at step 7; rank 0 failed: {words}collective #\d+")

    def test_crashed(self):
        self.over_both("segv", r"rank 1 was ended by signal 11 .*at step 7")
        self.over_both("abort", r"rank 1 was ended by signal 6 .*at step 7")

    def test_left(self):
        self.over_both("exit-0", r"rank 1 left early with exit code 0 at step 7")
        self.over_both("exit-7", r"rank 1 ended with exit code 7 at step 7")

    def test_threw(self):
        self.over_both("throw", r"rank 1 failed: the strategy's own words")

    def test_out_of_memory(self):
        self.over_both("memory", r"out of memory: rank 1")

    def test_stuck(self):
        for fault, words in (("stop", r"rank 1 is stopped at step 7; in or after collective #\d+: rank 0( \([^;]+\))?; #\d+: rank 1"), ("spin", r"rank 1 .*(stuck|late|missing|did not)"),
                             ("sleep", r"rank 1 .*(stuck|late|missing|did not)")):
            self.over_both(fault, words, silent=TIMEOUT)

    def test_never_came(self):
        self.over_both("sleep", r"rank 1", step=-1, silent=TIMEOUT)
        self.over_both("exit-7", r"rank 1 ended with exit code 7", step=-1)
        self.over_both("kill", r"rank 1 was ended by signal 9", step=-1)

    def test_never_joined(self):
        self.variables = {"DPBENCH_NEVER_JOINS": "1"}
        self.over_both("none", r"1 of 2 ranks joined, missing 1", silent=TIMEOUT)

    def test_after_the_last_step(self):
        """All figures are there, but not yet told."""
        for step, place in ((-2, "finish"), (-3, "the destructor")):
            for fault, words in (("kill", "rank 1 was ended by signal 9"), ("exit-0", "rank 1 left early with exit code 0"),
                                 ("throw", "rank 1 failed: the strategy's own words" if step == -2 else "rank 1 was ended by signal 6")):
                with self.subTest(place=place):
                    self.over_both(fault, words, step=step)

    def test_models_differ(self):
        self.over_both("more-parameters", r"rank 1 failed: this rank's model is not rank 0's: it has one_more of shape \[3\] .* where rank 0 has fc.weight",
                       within=DIFFERS)
        self.over_both("other-order", r"rank 1 failed: this rank's model is not rank 0's: it has fc.bias of shape \[2\] .* where rank 0 has fc.weight",
                       within=DIFFERS)
        self.over_both("other-shape", r"rank 1 failed: .* it has \S+ of shape \[3, 3\] .* where rank 0 has \S+ of shape \[2, 5\]", within=DIFFERS)

    def test_dtypes_differ(self):
        self.over_both("other-dtype", r"rank 1 failed: .* it has \S+ of shape \[2, 5\] and type Double where rank 0 has .* Float", within=DIFFERS)

    def test_a_parameter_that_one_rank_does_not_use(self):
        """DistributedDataParallel would wait for it."""
        for check in ("off", "auto"):
            self.over_both("unused", r"^rank 1 failed: ddp: this rank's loss did not use every parameter \(unused: extra\)", within=DIFFERS, check=check)

    def test_another_collective(self):
        self.failed("other-collective", r"ranks do not make the same call: rank 0 .* #(\d+) allreduce of 12 Float \(sum\), rank 1 .* #\1 broadcast of 3 Float",
                    within=DIFFERS)

    def test_calls_that_differ_over_gloo_are_told_and_no_rank_is_blamed(self):
        """It does not say so: it gives success and wrong numbers, aborts, or waits. What the ranks themselves say of their calls does."""
        usual, more = r"allreduce of 12 Float \(sum\)", r"broadcast of 3 Float with root 0"
        for check, step in (("off", 7), ("auto", 30)):  # past the steps of the checks, which see it themselves
            for fault, rank, calls in (("other-collective", 1, rf"rank 0 {usual}, rank 1 {more}"),
                                       ("other-collective", 0, rf"rank 0 {more}, rank 1 {usual}"),
                                       ("skip", 1, rf"rank 0 {usual}, rank 1 (?!{usual})")):
                with self.subTest(fault=fault, check=check, rank=rank):
                    case = self.failed(fault, rf"ranks call different collectives \(#\d+\): {calls}", backend="gloo", check=check, step=step,
                                       flags=("--param", f"rank={rank}", "--steps", "20"), silent=TIMEOUT, within=DIFFERS)
                    self.assertNotRegex(case["reason"], r"is stuck")

    def test_a_collective_skipped(self):
        """It is seen where the calls are others: the next one of the same shape hides it, so the step is not known. Whose numbers they are is."""
        case = self.failed("skip", r"^rank [01] failed: ranks do not make the same call: rank 0 ", within=DIFFERS)
        calls = re.search(r"rank 0 \(pid \d+\) #(\d+) (\S.*), rank 1 \(pid \d+\) #(\d+) (\S.*) \(in or after", case["reason"])
        self.assertEqual(calls[1], calls[3])
        self.assertEqual(calls[2], "allreduce of 12 Float (sum)", "the bucket that rank 0 waits with")
        self.assertNotEqual(calls[2], calls[4])

    def test_a_training_whose_last_step_leaves_no_number_has_failed(self):
        steps = self.other_command("train", "none", 0, 0)["training"]["steps"]
        case = self.other_command("train", "nan-weight", steps - 1, 3)
        self.assertRegex(case["reason"], rf"^not a number: rank 1 failed: parameter fc.weight is nan at index \[1, 2\] after step {steps - 1}")

    def test_not_a_number(self):
        """In the timed steps nobody looks before a block of them is over."""
        self.over_both("nan", r"not a number: rank 1 failed: the loss of step 2 is nan", step=1, flags=("--warmup", "20"), within=DIFFERS)
        self.over_both("nan", r"not a number: rank \d failed: the loss of step \d+, or of one before it, is nan", within=DIFFERS)

    def test_not_a_number_after_the_last_step(self):
        """Its loss was known before the update: nothing but what it left can tell."""
        last = ("--launches", "1", "--warmup", "4", "--samples", "1", "--steps", "30", "--max-time", "60")
        for fault, words in (("nan-weight", r"parameter fc.weight is nan at index \[1, 2\] after step 33"),
                             ("inf-gradient", r"the gradient of fc.weight is inf at index \[1, 2\] after step 33")):
            for strategy, backend, rank, who in (("faulty-ddp", "gloo", 1, "rank 1"), ("faulty-ddp", "shm", 1, "rank 1"), ("faulty-dp", "", 0, "the worker")):
                with self.subTest(fault=fault, strategy=strategy, backend=backend):
                    self.failed(fault, f"^not a number: {who} failed: {words}", strategy=strategy, backend=backend, check="auto", step=33,
                                flags=(*last, "--param", f"rank={rank}"), within=DIFFERS)

    def test_a_rank_that_goes_its_own_way_after_the_last_check_is_wrong(self):
        for backend in ("shm", "gloo"):
            with self.subTest(backend=backend):
                case = self.run_fault("drift", code=1, check="auto", step=33, within=(20, 20), backend=backend,
                                      flags=("--launches", "1", "--warmup", "4", "--samples", "1", "--steps", "30", "--max-time", "60"))
                hashes = [rank["parameters_hash"] for rank in case["launches"][0]["ranks"]]
                self.assertEqual(case["status"], "wrong")
                self.assertRegex(case["reason"], f"equal-parameters.*: rank 1 has {hashes[1]}, rank 0 has {hashes[0]}")
                self.assertNotEqual(hashes[0], hashes[1])
                self.assertEqual([row["name"] for row in case["checks"] if row["status"] == "failed"], ["equal-parameters"])

    @unittest.skipUnless(control_groups.can_be_made(), "no control group of memory can be made here")
    def test_killed_by_the_limit_of_its_control_group(self):
        with control_groups.Group(limit=2 << 30) as group:
            self.wrapper, self.timeout = group.command(), 30  # filling it is no hang
            self.failed("fill", rf"^out of memory: rank 1 was ended by signal 9 .*at step 7: killed by the control group's limit of {2 << 30} bytes",
                        within=(10, 2))  # it takes a while to fill

    def test_slow_is_no_fault(self):
        for strategy in ("faulty-ddp", "faulty-dp"):
            with self.subTest(strategy=strategy):
                self.assertEqual(self.run_fault("slow", strategy=strategy, code=0, flags=("--param", f"rank={strategy == 'faulty-ddp':d}"))["status"], "ok")

    def test_replicas(self):
        """All of dp is one process: there is no rank to name."""
        for fault, words, silent in (("throw", r"the worker failed: the strategy's own words", 0), ("kill", r"the worker was ended by signal 9 .*at step 7", 0),
                                     ("segv", r"the worker was ended by signal 11", 0), ("abort", r"the worker was ended by signal 6", 0),
                                     ("exit-0", r"the worker left early with exit code 0 at step 7", 0), ("memory", r"out of memory: the worker", 0),
                                     ("nan", r"not a number: the worker failed: the loss of step \d+", 0),
                                     ("stop", r"the worker is stopped at step 7", TIMEOUT), ("spin", r"the worker is stuck at step 7", TIMEOUT),
                                     ("sleep", r"the worker is stuck at step 7", TIMEOUT)):
            with self.subTest(fault=fault):
                self.failed(fault, words, strategy="faulty-dp", silent=silent, flags=("--param", "rank=0"), within=DIFFERS if fault == "nan" else DEATH)

    def test_the_case_after_a_failed_one_runs_and_is_right(self):
        """Over the same seed a case ends with the same parameters, whatever failed before it."""
        for strategy, backends in (("faulty-ddp", ("shm", "gloo")), ("faulty-dp", ("",))):
            for backend in backends:
                with self.subTest(strategy=strategy, backend=backend):
                    alone = self.hashes_of_the_good_case("none", strategy, backend, 0)
                    for fault in ("kill", "stop", "nan"):
                        self.assertEqual(self.hashes_of_the_good_case(f"none,{fault}", strategy, backend, 3, silent=TIMEOUT), alone, fault)

    def hashes_of_the_good_case(self, faults, strategy, backend, code, silent=0):
        rank = "1" if strategy == "faulty-ddp" else "0"
        self.run_fault(faults, strategy=strategy, backend=backend, code=code, silent=silent, check="off",
                       within=(20, 20), step=0,  # the good case comes after it
                       flags=("--param", f"rank={rank}", "--samples", "2", "--steps", "50", "--launches", "1", "--seed", "3"))
        said = [line for line in self.stderr.splitlines() if " · " in line]
        if code:
            self.assertRegex(said[0], r"^1/2 .* · failed: ", "the failed case came first")
        (case,) = [one for one in self.report["cases"] if one["params"].get("fault", "none") == "none"]
        self.assertEqual(case["status"], "ok")
        return [[rank["parameters_hash"] for rank in launch["ranks"]] for launch in case["launches"]]


if __name__ == "__main__":
    main()
