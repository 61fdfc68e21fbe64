"""Ranks that crash, hang, corrupt data or diverge, with the real worker: each case fails in time, the run exits with 3,
and the case's reason names the rank and the cause.

usage: faults_test.py DPBENCH PLUGIN
"""
import re
import unittest

import control_groups
from faulty_runs import DEATH, DIFFERS, TIMEOUT, FaultyRuns, main
from drawn_tests import load_tests  # noqa: F401, unittest calls it


class Faults(FaultyRuns):
    def test_a_killed_rank_is_named_with_signal_and_step(self):
        self.over_both("kill", r"rank 1 [^;]*signal 9[^;]*step 7")

    def test_the_other_ranks_end_and_name_a_killed_rank_0(self):
        """Rank 0 created the rendezvous file and is the root of broadcasts. The other ranks must end even if rank 0 is
        killed."""
        self.over_both("kill", r"rank 0 [^;]*signal 9[^;]*step 7", flags=("--param", "rank=0"))

    def test_a_killed_rank_is_named_with_its_step_and_the_collective_in_which_rank_0_waits(self):
        for backend, words in (("shm", r"#\d+ allreduce .*"), ("gloo", "")):
            with self.subTest(backend=backend):
                case = self.run_fault("kill", flags=("--param", "fault=none,kill", "--seed", "2"), backend=backend)
                self.assertRegex(case["reason"], rf"rank 1 [^;]*signal 9[^;]*step 7; rank 0 .*{words}collective #\d+")

    def test_a_crashed_rank_is_named_with_its_signal(self):
        self.over_both("segv", r"rank 1 [^;]*signal 11[^;]*step 7")
        self.over_both("abort", r"rank 1 [^;]*signal 6[^;]*step 7")

    def test_a_rank_that_exits_is_named_with_its_exit_code(self):
        self.over_both("exit-0", r"rank 1 [^;]*exit code 0[^;]*step 7")
        self.over_both("exit-7", r"rank 1 [^;]*exit code 7[^;]*step 7")

    def test_an_exception_on_a_rank_is_reported_with_its_message(self):
        self.over_both("throw", r"rank 1 [^;]*the strategy's own words")

    def test_out_of_memory_is_reported_with_the_rank(self):
        self.over_both("memory", r"out of memory: rank 1")

    def test_a_stuck_rank_is_named_after_the_timeout(self):
        for fault, words in (("stop", r"rank 1 [^;]*stopped[^;]*step 7; .*#\d+: rank 0( \([^;]+\))?; #\d+: rank 1"), ("spin", r"rank 1 .*(stuck|late|missing|did not)"),
                             ("sleep", r"rank 1 .*(stuck|late|missing|did not)")):
            self.over_both(fault, words, silent=TIMEOUT)

    def test_the_error_names_a_rank_that_fails_before_the_rendezvous(self):
        self.over_both("sleep", r"rank 1", step=-1, silent=TIMEOUT)
        self.over_both("exit-7", r"rank 1 [^;]*exit code 7", step=-1)
        self.over_both("kill", r"rank 1 [^;]*signal 9", step=-1)

    def test_a_rank_that_never_joins_the_rendezvous_is_reported_as_missing(self):
        self.variables = {"DPBENCH_NEVER_JOINS": "1"}
        self.over_both("none", r"1 of 2 ranks.*missing 1", silent=TIMEOUT)

    def test_a_failure_after_the_last_step_is_reported(self):
        """The fault occurs after the rank has measured its figures and before it reports them."""
        for step, place in ((-2, "finish"), (-3, "the destructor")):
            for fault, words in (("kill", "rank 1 [^;]*signal 9"), ("exit-0", "rank 1 [^;]*exit code 0"),
                                 ("throw", "rank 1 [^;]*the strategy's own words" if step == -2 else "rank 1 [^;]*signal 6")):
                with self.subTest(place=place):
                    self.over_both(fault, words, step=step)

    def test_parameters_that_differ_between_ranks_in_number_order_or_shape_are_named(self):
        self.over_both("more-parameters", r"rank 1 [^;]*one_more [^;]*\[3\].* rank 0 .*fc.weight",
                       within=DIFFERS)
        self.over_both("other-order", r"rank 1 [^;]*fc.bias [^;]*\[2\].* rank 0 .*fc.weight",
                       within=DIFFERS)
        self.over_both("other-shape", r"rank 1 .*\[3, 3\].* rank 0 .*\[2, 5\]", within=DIFFERS)

    def test_parameter_dtypes_that_differ_between_ranks_are_reported(self):
        self.over_both("other-dtype", r"rank 1 .*\[2, 5\].* Double.* rank 0 .* Float", within=DIFFERS)

    def test_the_error_names_a_model_parameter_that_one_rank_does_not_use(self):
        """If one rank does not use a parameter, PyTorch's DistributedDataParallel waits forever for its gradient."""
        for check in ("off", "auto"):
            self.over_both("unused", r"^rank 1 .*ddp.*unused.*extra", within=DIFFERS, check=check)

    def test_different_collectives_on_two_ranks_are_both_named(self):
        self.failed("other-collective", r"rank 0 .* #(\d+) allreduce of 12 Float \(sum\), rank 1 .* #\1 broadcast of 3 Float",
                    within=DIFFERS)

    def test_differing_collectives_over_gloo_are_named_and_no_rank_is_blamed(self):
        """If ranks call different collectives, Gloo itself returns wrong numbers, aborts, or waits. The ranks' own call
        logs show the difference."""
        usual, more = r"allreduce of 12 Float \(sum\)", r"broadcast of 3 Float[^,;]*\broot 0"
        # With --check auto the fault occurs at step 80, after the checks: at an earlier step, they would detect it.
        for check, step in (("off", 7), ("auto", 80)):
            for fault, rank, calls in (("other-collective", 1, rf"rank 0 {usual}, rank 1 {more}"),
                                       ("other-collective", 0, rf"rank 0 {more}, rank 1 {usual}"),
                                       ("skip", 1, rf"rank 0 {usual}, rank 1 (?!{usual})")):
                with self.subTest(fault=fault, check=check, rank=rank):
                    case = self.failed(fault, rf"different collectives .*#\d+.*{calls}", backend="gloo", check=check, step=step,
                                       flags=("--param", f"rank={rank}", "--steps", "20"), silent=TIMEOUT, within=DIFFERS)
                    self.assertNotRegex(case["reason"], r"stuck")

    def test_a_skipped_collective_is_reported_with_the_calls_of_both_ranks(self):
        """A rank that skips a call makes its next call instead. The difference is detected only once these calls
        differ, so the reason names the ranks but not the step."""
        case = self.failed("skip", r"^rank [01] .* rank 0 ", within=DIFFERS)
        calls = re.search(r"rank 0 \(pid \d+\) #(\d+) (\S.*), rank 1 \(pid \d+\) #(\d+) (\S.*) \(in or after", case["reason"])
        self.assertEqual(calls[1], calls[3])
        self.assertEqual(calls[2], "allreduce of 12 Float (sum)", "rank 0 waits in this bucket's reduction")
        self.assertNotEqual(calls[2], calls[4])

    def test_a_training_that_ends_with_a_nan_parameter_fails(self):
        steps = self.other_command("train", "none", 0, 0)["training"]["steps"]
        case = self.other_command("train", "nan-weight", steps - 1, 3)
        self.assertRegex(case["reason"], rf"^not a number: rank 1 .*fc.weight .*nan .*\[1, 2\] .*step {steps - 1}")

    def test_a_nan_loss_is_reported_with_rank_and_step(self):
        """Losses of timed steps are checked only at the end of a block (a timed run of steps)."""
        self.over_both("nan", r"not a number: rank 1 .*loss .*step 2 .*nan", step=1, flags=("--warmup", "20"), within=DIFFERS)
        self.over_both("nan", r"not a number: rank \d .*loss .*step \d+.* nan", within=DIFFERS)

    def test_a_nan_left_by_the_last_step_is_reported(self):
        """The last loss is computed before the last update, so only the final parameters and gradients can reveal the
        NaN. The run has 4 warm-up steps and two blocks, each of 2 warm-up and 30 timed steps. The first block only
        chooses the number of steps."""
        last = ("--launches", "1", "--warmup", "4", "--samples", "1", "--steps", "30", "--max-time", "60")
        for fault, words in (("nan-weight", r"fc.weight .*nan .*\[1, 2\] .*step 67"),
                             ("inf-gradient", r"gradient .*fc.weight .*inf .*\[1, 2\] .*step 67")):
            for strategy, backend, rank, who in (("faulty-ddp", "gloo", 1, "rank 1"), ("faulty-ddp", "shm", 1, "rank 1"), ("faulty-dp", "", 0, "the worker")):
                with self.subTest(fault=fault, strategy=strategy, backend=backend):
                    self.failed(fault, f"^not a number: {who} .*{words}", strategy=strategy, backend=backend, check="auto", step=67,
                                flags=(*last, "--param", f"rank={rank}"), within=DIFFERS)

    def test_a_case_is_wrong_if_a_rank_diverges_after_the_last_check(self):
        for backend in ("shm", "gloo"):
            with self.subTest(backend=backend):
                case = self.run_fault("drift", code=1, check="auto", step=67, within=(20, 20), backend=backend,
                                      flags=("--launches", "1", "--warmup", "4", "--samples", "1", "--steps", "30", "--max-time", "60"))
                hashes = [rank["parameters_hash"] for rank in case["launches"][0]["ranks"]]
                self.assertEqual(case["status"], "wrong")
                self.assertRegex(case["reason"], f"equal-parameters.* rank 1 .*{hashes[1]}.* rank 0 .*{hashes[0]}")
                self.assertNotEqual(hashes[0], hashes[1])
                self.assertEqual([row["name"] for row in case["checks"] if row["status"] == "failed"], ["equal-parameters"])

    @unittest.skipUnless(control_groups.can_be_made(), "cannot create a memory control group")
    def test_a_rank_killed_by_its_control_groups_memory_limit_is_reported_as_out_of_memory(self):
        with control_groups.Group(limit=2 << 30) as group:
            self.wrapper, self.timeout = group.command(), 30  # filling memory takes longer than the usual timeout
            self.failed("fill", rf"^out of memory: rank 1 [^;]*signal 9.*step 7.* {2 << 30} bytes",
                        within=(10, 2))  # seconds; longer than usual, because filling memory takes several

    def test_a_slow_rank_is_not_reported_as_a_fault(self):
        for strategy in ("faulty-ddp", "faulty-dp"):
            with self.subTest(strategy=strategy):
                self.assertEqual(self.run_fault("slow", strategy=strategy, code=0, flags=("--param", f"rank={strategy == 'faulty-ddp':d}"))["status"], "ok")

    def test_fault_reports_of_dp_name_the_worker_instead_of_a_rank(self):
        """dp runs in a single process, so messages name the worker instead of a rank."""
        for fault, words, silent in (("throw", r"the worker .*the strategy's own words", 0), ("kill", r"the worker .*signal 9.*step 7", 0),
                                     ("segv", r"the worker .*signal 11", 0), ("abort", r"the worker .*signal 6", 0),
                                     ("exit-0", r"the worker .*exit code 0.*step 7", 0), ("memory", r"out of memory: the worker", 0),
                                     ("nan", r"not a number: the worker .*loss .*step \d+", 0),
                                     ("stop", r"the worker .*stopped.*step 7", TIMEOUT), ("spin", r"the worker .*stuck.*step 7", TIMEOUT),
                                     ("sleep", r"the worker .*stuck.*step 7", TIMEOUT)):
            with self.subTest(fault=fault):
                self.failed(fault, words, strategy="faulty-dp", silent=silent, flags=("--param", "rank=0"), within=DIFFERS if fault == "nan" else DEATH)

    def test_a_rank_of_fsdp_that_fails_in_a_collective_of_a_unit_is_named(self):
        for collective in ("allgather", "reduce_scatter"):
            for fault, words in (("kill", r"rank 1 [^;]*signal 9[^;]*step 7"), ("throw", r"rank 1 [^;]*the strategy's own words"),
                                 ("memory", r"out of memory: rank 1")):
                with self.subTest(collective=collective, fault=fault):
                    self.over_both(fault, words, strategy="faulty-fsdp", flags=("--scale", "3", "--param", f"in={collective}"))

    def test_the_collective_in_which_ranks_of_fsdp_wait_for_a_killed_rank_is_named(self):
        case = self.failed("kill", r"rank 1 [^;]*signal 9[^;]*step 7", strategy="faulty-fsdp", flags=("--scale", "3", "--param", "in=allgather"))
        self.assertRegex(case["reason"], r"rank 0 .*#\d+ allgather")

    def test_a_rank_of_fsdp_that_stops_in_the_gather_of_a_unit_is_named_after_the_timeout(self):
        self.over_both("stop", r"rank 1 [^;]*stopped[^;]*step 7", strategy="faulty-fsdp",
                       flags=("--scale", "3", "--param", "in=allgather", "--param", "after=1"), silent=TIMEOUT)

    def test_two_ranks_of_fsdp_with_different_units_are_reported_with_the_call_of_each(self):
        for backend in ("shm", "gloo"):
            with self.subTest(backend=backend):
                self.failed("other-unit", r"rank 0 .*allgather of (\d+) Float.* rank 1 .*allgather of (?!\1 )", strategy="faulty-fsdp", backend=backend, step=0,
                            flags=("--scale", "3"), silent=TIMEOUT, within=DIFFERS)

    def test_a_case_is_wrong_if_a_rank_of_fsdp_swaps_two_units_of_equal_size(self):
        """Both ranks call the same collectives with the same sizes, so only the parameters' values show that the order
        differs."""
        parameters = r"equal-parameters .*rank 1 has \w+.* rank 0"
        initial = r"initial-broadcast .*hidden[23]\.weight.*rank \d"
        for check, backend, words in (("off", "shm", parameters), ("off", "gloo", parameters),
                                      ("auto", "shm", initial)):
            with self.subTest(check=check, backend=backend):
                case = self.run_fault("swapped-units", strategy="faulty-fsdp", backend=backend, check=check, step=0,
                                      flags=("--scale", "4", "--launches", "1", "--samples", "1", "--steps", "20"),
                                      code=1, within=(20, 20))
                self.assertEqual(case["status"], "wrong")
                self.assertRegex(case["reason"], words)

    def on_gpt(self, run, strategy, fault, words, *flags, **how):
        self.workload = ("--workload", "gpt", "--model", "tiny")
        run(fault, words, strategy=strategy, flags=flags, **how)

    def test_a_rank_of_pp_that_fails_in_the_middle_of_a_schedule_is_named_with_its_action(self):
        """Rank 0 fails in its second receive, that of the gradient of micro-batch 1."""
        where = r"pp: rank 0\b[^:]*\b0RECV_B1 \(stage 0, micro-batch 1\): "
        waits = r"rank 1 [^;]*pp: rank 1\b[^:]*\b1\w+ \(stage 1, micro-batch \d\): "
        for fault, words in (("throw", rf"^rank 0 [^;]*{where}the strategy's own words"),
                             ("memory", rf"^out of memory: rank 0 [^;]*{where}[^;]*\bhost memory"),
                             ("kill", r"^rank 0 [^;]*signal 9[^;]*step 7, in 0RECV_B1 \(stage 0, micro-batch 1\); "
                              + waits)):
            self.on_gpt(self.over_both, "faulty-pp", fault, words, "--accumulate", "4",
                        "--param", "rank=0", "--param", "in=recv", "--param", "after=1")

    def test_a_rank_of_pp_that_stops_in_a_receive_is_named_with_its_action_after_the_timeout(self):
        self.on_gpt(self.over_both, "faulty-pp", "stop", r"rank 1 [^;]*stopped[^;]*step 7, in 1RECV_F2 \(stage 1, micro-batch 2\)",
                    "--accumulate", "4", "--param", "in=recv", "--param", "after=2", silent=TIMEOUT)

    def test_the_error_of_a_failing_rank_of_pp_names_the_tied_gradient_or_the_loss_that_it_exchanged(self):
        """In a step of one micro-batch, rank 1's second receive is that of the gradient of the tied embedding."""
        for collective, after, where in (("recv", 1, r"gradient\b[^:]*\bmodel\.embed_tokens\.weight"),
                                         ("broadcast", 0, r"broadcast\b[^:]*\bloss")):
            words = rf"^rank 1 [^;]*pp: rank 1\b[^:]*\b{where}: the strategy's own words"
            self.on_gpt(self.over_both, "faulty-pp", "throw", words,
                        "--param", f"in={collective}", "--param", f"after={after}")

    def test_a_rank_of_pp_whose_schedule_differs_from_rank_0s_is_named_with_the_first_differing_action(self):
        words = (r'^rank 1 [^;]*pp: rank 1\b[^"]* "rank 0, action 2, 0F2 \(stage 0, micro-batch 2\)"'
                 r'[^"]*\brank 0\b[^"]* "rank 0, action 2, 0B0 \(stage 0, micro-batch 0\)"')
        self.on_gpt(self.over_both, "faulty-pp", "other-schedule", words, step=-1, within=DIFFERS)

    def test_a_rank_of_tp_that_fails_in_a_sum_is_named_with_the_layer(self):
        """In a forward pass, the embedding calls the first allreduce, or with sequence=on the first reduce-scatter, and
        each layer the next two."""
        where = r"tp: [^:]*\bmodel\.layers\.1: "
        killed = rf"^rank 1 [^;]*signal 9[^;]*step 7; rank 0 [^;]*{where}"
        for sequence, collective, fault, words in (
                ("off", "allreduce", "throw", rf"^rank 1 [^;]*{where}the strategy's own words"),
                ("off", "allreduce", "memory", rf"^out of memory: rank 1 [^;]*{where}[^;]*\bhost memory"),
                ("off", "allreduce", "kill", killed), ("on", "reduce_scatter", "kill", killed)):
            with self.subTest(sequence=sequence):
                self.on_gpt(self.over_both, "faulty-tp", fault, words, "--param", f"sequence={sequence}",
                            "--param", f"in={collective}", "--param", "after=3")

    def test_a_rank_of_tp_that_stops_in_an_allreduce_is_named_after_the_timeout(self):
        self.on_gpt(self.over_both, "faulty-tp", "stop", r"rank 1 [^;]*stopped[^;]*step 7",
                    "--param", "in=allreduce", "--param", "after=3", silent=TIMEOUT)

    def test_an_error_in_an_allreduce_of_a_layout_names_rank_action_and_layer_and_a_killed_rank_is_named(self):
        """Rank 1 is on the first stage of pp. Its first allreduce in a step is that of the embedding."""
        self.cpus = 4
        where = r"layout: rank 0\b[^:]*\b0F0 \(stage 0, micro-batch 0\): layout: [^:]*\bmodel\.embed_tokens: "
        for fault, words in (("throw", rf"^rank 1 [^;]*{where}the strategy's own words"),
                             ("kill", r"^rank 1 [^;]*signal 9[^;]*step 7, in 0F0 \(stage 0, micro-batch 0\)")):
            self.on_gpt(self.over_both, "faulty-layout", fault, words, "--mesh", "pp=2,tp=2", "--param", "in=allreduce")

    def on_a_mesh(self, run, fault, words, collective="none", **how):
        """Runs four ranks as two replicas of two shards. Rank 3 fails."""
        self.cpus = 4
        return run(fault, words, strategy="faulty-fsdp", flags=("--scale", "3", "--mesh", "dp=2,shard=2", "--param", "rank=3", "--param", f"in={collective}"), **how)

    def test_a_rank_of_a_mesh_that_fails_in_a_collective_is_named(self):
        """Rank 2 waits for rank 3 in the gather of a unit, rank 1 waits for rank 3 in the sum over replicas, and rank 0
        waits for rank 1 or 2."""
        killed, memory = r"rank 3 [^;]*signal 9[^;]*step 7", r"out of memory: rank 3"
        for collective, fault, words in (("allgather", "kill", killed), ("allgather", "memory", memory), ("allreduce", "kill", killed)):
            with self.subTest(collective=collective):
                self.on_a_mesh(self.over_both, fault, words, collective)

    def test_two_mesh_ranks_with_different_fsdp_units_are_reported_with_the_call_of_each(self):
        for backend in ("shm", "gloo"):
            with self.subTest(backend=backend):
                self.on_a_mesh(self.failed, "other-unit", r"rank 2 .*allgather of (\d+) Float.* rank 3 .*allgather of (?!\1 )", backend=backend, step=0,
                               silent=TIMEOUT, within=DIFFERS)

    def test_a_case_ends_with_the_same_model_parameters_whether_or_not_an_earlier_case_failed(self):
        for strategy, backends in (("faulty-ddp", ("shm", "gloo")), ("faulty-dp", ("",))):
            for backend in backends:
                with self.subTest(strategy=strategy, backend=backend):
                    alone = self.hashes_of_the_good_case("none", strategy, backend, 0)
                    for fault in ("kill", "stop", "nan"):
                        self.assertEqual(self.hashes_of_the_good_case(f"none,{fault}", strategy, backend, 3, silent=TIMEOUT), alone, fault)

    def hashes_of_the_good_case(self, faults, strategy, backend, code, silent=0):
        rank = "1" if strategy == "faulty-ddp" else "0"
        self.run_fault(faults, strategy=strategy, backend=backend, code=code, silent=silent, check="off",
                       within=(20, 20), step=0,  # seconds; longer than usual, because a fault-free case follows
                       flags=("--param", f"rank={rank}", "--samples", "2", "--steps", "50", "--launches", "1", "--seed", "3"))
        said = [line for line in self.stderr.splitlines() if " · " in line]
        if code:
            self.assertRegex(said[0], r"^1/2 .* · failed: ", "the failed case came first")
        (case,) = [one for one in self.report["cases"] if one["params"].get("fault", "none") == "none"]
        self.assertEqual(case["status"], "ok")
        return [[rank["parameters_hash"] for rank in launch["ranks"]] for launch in case["launches"]]


if __name__ == "__main__":
    main()
