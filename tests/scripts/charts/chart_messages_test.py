"""Tests the titles of charts on hand-made cases: each claims only differences that the confidence
intervals support."""
import pathlib
import re
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).parents[3] / "scripts/charts")]

import data
import messages
import sample_runs
from data import Interval

MIB = 1 << 20


def timed(strategy, world, speedup, half=0.02, **more):
    """Returns a proven case that is `speedup` times as fast as one device, plus or minus `half`, in pairs of blocks."""
    made = sample_runs.case(strategy, world=world, step_ns=1e6 * world / speedup, checks=[sample_runs.check()],
                            means="batch mean")
    if strategy != "cpu":
        made["derived"] |= {"speedup": speedup, "speedup_low": speedup - half, "speedup_high": speedup + half}
    return made | more


def cases_of(*made, cores=64):
    report = sample_runs.report([timed("cpu", 1, 1), *made])
    report["env"]["cpu"]["usable"] = cores
    cases = data.Run(report).cases
    data.label(cases)
    return cases


def throughput(*made, **more):
    cases = cases_of(*made, **more)
    return messages.throughput(cases, cases[0])


def efficiency(*made, **more):
    cases = cases_of(*made, **more)
    return messages.efficiency(cases, cases[0])


def against_baseline(*made):
    cases = cases_of(*made)
    return messages.against_baseline(cases[1:], cases[0])


class Titles(unittest.TestCase):
    """Asserts what a title names, regardless of its wording."""

    def names(self, title, *parts, no=()):
        """The title contains each of `parts` as whole words or numbers, and none of `no`."""
        for part in parts:
            self.assertRegex(title, rf"(?i)(?<![\w.]){re.escape(part)}(?!\w)")
        for part in no:
            self.assertNotRegex(title, rf"(?i)(?<![\w.]){re.escape(part)}(?!\w)")

    def in_order(self, title, *parts):
        """The title contains `parts` in this order, so that a figure or verdict belongs to the right case."""
        self.assertRegex(title, "(?i)" + ".*".join(rf"(?<![\w.]){re.escape(part)}(?!\w)" for part in parts))


class Speed(Titles):
    def test_a_chart_title_names_the_fastest_strategy_if_its_interval_is_above_all_others(self):
        self.names(throughput(timed("ddp", 2, 1.7), timed("zero1", 2, 1.6), timed("dp", 1, 0.9)),
                   "ddp", "fastest", "world 2", "109,000 samples/s", no=("zero1", "dp"))

    def test_a_chart_title_does_not_rank_strategies_with_overlapping_intervals(self):
        self.names(throughput(timed("ddp", 2, 1.7), timed("zero1", 2, 1.67), timed("dp", 2, 1.2)),
                   "ddp and zero1", "world 2", messages.UNDECIDED, no=("dp", "fastest"))
        many = [timed(name, 2, 1.7) for name in ("a", "b", "c", "d")]
        self.names(throughput(*many), "all 4", "world 2", messages.UNDECIDED)
        self.names(throughput(*many, timed("dp", 2, 1)), "4 of 5", "world 2", messages.UNDECIDED, no=("dp",))

    def test_a_chart_title_compares_a_single_strategy_with_one_device(self):
        title = throughput(timed("ddp", 2, 1.66, 0.05))
        self.in_order(title, "ddp", "1.66x (1.61 to 1.71)", "cpu")
        self.names(title, "world 2")

    def test_a_chart_title_ignores_projections_for_the_fastest_case_and_the_largest_world(self):
        self.names(throughput(timed("ddp", 2, 1.7), timed("dp", 2, 1), timed("ddp", 64, 50, projected=True)),
                   "ddp", "fastest", "world 2", "109,000 samples/s", no=("dp", "64"))

    def test_the_title_of_a_chart_whose_cases_cannot_be_ranked_gives_the_reason(self):
        good = timed("zero1", 2, 1.6)
        few = timed("ddp", 2, 1.7)
        few["stats"]["step_time_ns"] |= {"interval": "samples", "launches": 1}
        for other, why in ((timed("ddp", 2, 1.7, checks=[]), "ddp is unchecked"),
                           (timed("ddp", 2, 1.7, means="local"), "ddp may compute another step"),
                           (few, "only 1 to 3 launches a case")):
            for what, title in (("throughput", throughput(good, other)), ("efficiency", efficiency(good, other)),
                                ("speed-up", against_baseline(good, other))):
                self.in_order(title, what, "not ranked", why)
        self.in_order(throughput(few), "throughput", "not ranked", "only 1 to 3 launches a case")
        two_runs = cases_of(good) + cases_of(timed("ddp", 2, 1.7))[1:]
        two_runs[-1].run.id = "another"
        self.in_order(messages.throughput(two_runs, two_runs[0]), "not ranked", "2 runs")

    def test_a_chart_title_gives_the_throughput_of_a_single_strategy_without_a_baseline(self):
        cases = cases_of(timed("ddp", 2, 1.7))[1:]
        self.in_order(messages.throughput(cases, None), "ddp", "109,000 samples/s", "world 2")

    def test_a_chart_title_says_if_all_cases_beyond_one_device_are_projected(self):
        cases = cases_of(timed("ddp", 2, 1.7, projected=True))
        for title in (messages.throughput(cases[1:], None), messages.efficiency(cases, cases[0])):
            self.names(title, "projected")

    def test_a_chart_title_compares_throughputs_if_a_report_has_no_pairs_of_timed_blocks(self):
        # The intervals of `old` are ± 4 % of the step time.
        old = [timed(name, 2, speed) for name, speed in (("ddp", 1.7), ("zero1", 1.5))]
        for each in old:
            del each["derived"]["speedup_low"], each["derived"]["speedup_high"]
        self.names(throughput(*old), "ddp", "fastest", "world 2", "109,000 samples/s", no=("zero1",))
        self.names(throughput(old[0], timed("zero1", 2, 1.6)), "ddp and zero1", "world 2", messages.UNDECIDED)

    def test_a_chart_title_about_the_baseline_ignores_speed_ups_over_another_reference(self):
        cases = cases_of(timed("ddp", 2, 1.7), timed("zero1", 2, 1.5))
        run = cases[0].run
        run.reference = "ddp"
        for case, speedup in zip(cases[1:], (1.0, 0.9)):
            case.derived |= {"speedup": speedup, "speedup_low": speedup - 0.02, "speedup_high": speedup + 0.02}
        title = messages.against_baseline(cases[1:], cases[0])
        self.in_order(title, "ddp and zero1", "faster", "cpu")
        self.names(title, "world 2", no=("slower",))


class Efficiency(Titles):
    def test_a_chart_title_names_the_best_strategy_with_its_share_of_linear_scaling(self):
        self.names(efficiency(timed("ddp", 2, 1.66, 0.05), timed("dp", 2, 1.2)),
                   "ddp", "83 % (80 to 86)", "linear", "world 2", no=("dp",))

    def test_a_chart_title_gives_strategies_that_tie_one_range_of_efficiencies(self):
        self.names(efficiency(timed("ddp", 2, 1.66, 0.06), timed("dp", 2, 1.6, 0.04)),
                   "ddp and dp", "78 to 86 %", "linear", "world 2")

    def test_a_chart_title_says_that_scaling_loses_nothing_if_an_efficiency_interval_reaches_100_percent(self):
        self.names(efficiency(timed("ddp", 2, 1.97, 0.05), timed("dp", 2, 1.2)),
                   "ddp", "nothing", "world 2", no=("dp", "%"))
        self.names(efficiency(timed("ddp", 2, 1.97, 0.05), timed("dp", 2, 1.96)),
                   "ddp and dp", "nothing", "world 2", no=("%",))

    def test_a_chart_title_uses_worlds_whose_replicas_share_cores_only_if_no_other_world_exists(self):
        crowded = timed("ddp", 4, 1.5, 0.02)
        self.names(efficiency(timed("ddp", 2, 1.66, 0.05), crowded, cores=2),
                   "ddp", "83 % (80 to 86)", "linear", "world 2", no=("world 4",))
        self.names(efficiency(crowded, cores=2), "ddp", "75 % (74 to 76)", "cores", "world 4", no=("linear",))


class Baseline(Titles):
    def test_a_chart_title_calls_a_strategy_faster_than_one_device_if_its_interval_excludes_1(self):
        slow, even = timed("dp", 2, 0.9), timed("zero1", 2, 1.01)
        title = against_baseline(timed("ddp", 2, 1.7), slow, even)
        self.in_order(title, "ddp", "faster", "dp", "slower")
        self.names(title, "cpu", "world 2", no=("zero1",))
        title = against_baseline(slow, even)
        self.in_order(title, "dp", "slower", "cpu")
        self.names(title, "world 2", no=("zero1", "faster"))
        self.names(against_baseline(even, timed("ddp", 2, 0.99)),
                   "zero1 and ddp", "world 2", messages.UNDECIDED, no=("faster", "slower"))


class Parts(Titles):
    @staticmethod
    def split(strategy, *launches, world=2):
        """Returns a case with a launch for each of the given times of phases, in percent."""
        made = timed(strategy, world, 1)
        made["launches"] = [{"ranks": [{"phases_ns": phases}]} for phases in launches]
        made["phases"]["mean_step_ns"] = {phase: sum(each[phase] for each in launches) for phase in launches[0]}
        return made

    def test_a_chart_title_gives_exposed_communication_as_a_range_over_strategies_and_launches(self):
        ddp = self.split("ddp", {"forward": 90, "communication": 10}, {"forward": 86, "communication": 14})
        zero1 = self.split("zero1", {"forward": 60, "communication": 40})
        alone = self.split("dp", {"forward": 10, "communication": 90}, world=1)
        self.names(messages.parts(cases_of(ddp, zero1, alone)[1:]), "communication", "10 to 40 %", "world 2")

    def test_a_chart_title_names_the_longest_phase_of_a_step_if_it_is_the_same_in_all_cases(self):
        one, two = self.split("ddp", {"forward": 30, "backward": 70}), self.split("dp", {"forward": 40, "backward": 60})
        self.names(messages.parts(cases_of(one, two)[1:]), "backward", "60 to 70 %", "world 2", no=("forward",))
        self.names(messages.parts(cases_of(one, self.split("zero1", {"forward": 60, "backward": 40}))[1:]),
                   "largest part", "differs", no=("backward", "forward"))

    def test_a_chart_title_says_that_steps_recorded_as_a_cuda_graph_have_no_parts(self):
        self.names(messages.parts(cases_of(self.split("ddp", {"graph": 100}))[1:]), "CUDA graph", "no parts")

    def test_a_chart_title_gives_the_spread_of_timed_blocks_of_the_case_that_varies_most(self):
        self.names(messages.spread([(-1, 2.1), (-6.2, 3)]), "7 %")
        self.names(messages.spread([(-0.1, 0.2)]), "1 %")


class Memory(Titles):
    @staticmethod
    def sized(strategy, *sizes, own=True, **more):
        """Returns a case with a launch for each peak in MiB."""
        made = timed(strategy, 2, 1) | {"processes": 2} | more
        key = "peak_device_bytes" if made["device"] == "cuda" else "own_rss_bytes" if own else "peak_rss_bytes"
        made["launches"] = [{"ranks": [{"peak_device_bytes": 0, "samples_ns": [], key: size * MIB}]} for size in sizes]
        return made

    @staticmethod
    def said(*made):
        cases = cases_of(*made)[1:]
        return messages.peak_memory({case: Interval(sorted(sizes)[len(sizes) // 2], min(sizes), max(sizes))
                                     for case in cases for sizes in [[size / MIB for size in case.peaks]]})

    def test_a_chart_title_names_the_strategy_with_least_memory_if_the_gap_exceeds_the_error(self):
        self.names(self.said(self.sized("fsdp", 97, 98, 99), self.sized("ddp", 120, 121, 122)),
                   "fsdp", "least", "memory", "world 2", "98 MiB", no=("ddp",))
        for tie in (self.said(self.sized("fsdp", 97, 98, 121), self.sized("ddp", 120, 121, 122)),
                    self.said(self.sized("fsdp", 100, 100, 100), self.sized("ddp", 101, 101, 101))):
            self.names(tie, "fsdp and ddp", "memory", "world 2", no=("least", "MiB"))

    def test_a_chart_title_does_not_compare_memory_of_a_rank_and_of_a_process_with_all_replicas(self):
        self.names(self.said(self.sized("fsdp", 98, 98, 98), self.sized("dp", 50, 50, 50, processes=1)),
                   "fsdp", "98 MiB of memory", "world 2", no=("dp", "least"))

    def test_a_chart_title_says_why_memory_is_not_ranked(self):
        for title, why in ((self.said(self.sized("fsdp", 98, 98), self.sized("ddp", 120, 120, 120)), "only 2 to 3 launches a case"),
                           (self.said(self.sized("fsdp", 98, 98, 98, own=False), self.sized("ddp", 120, 120, 120)), "LibTorch's code"),
                           (self.said(self.sized("fsdp", 98, 98, 98), self.sized("ddp", 50, 50, 50, checks=[])), "ddp is unchecked")):
            self.in_order(title, "memory", "not ranked", why)

    def test_a_chart_title_compares_gpu_memory_even_with_a_single_launch(self):
        self.names(self.said(self.sized("fsdp", 98, device="cuda"), self.sized("ddp", 99, device="cuda")),
                   "fsdp", "least", "memory", "world 2", "98 MiB", no=("ddp",))

    def test_a_chart_title_names_no_strategy_with_least_memory_if_tensor_memory_is_equal(self):
        spans = {case: Interval(8, 8, 8) for case in cases_of(self.sized("ddp", 1), self.sized("fsdp", 1))[1:]}
        self.names(messages.memory(spans, "tensor memory"),
                   "ddp and fsdp", "tensor memory", "world 2", no=("least", "MiB"))


class Training(Titles):
    def test_a_chart_title_says_whether_the_loss_falls(self):
        self.names(messages.loss([[2.5, 1, 0.28], [2.3, 0.26]]), "loss", "to 0.26 to 0.28", "from 2.3 to 2.5")
        self.names(messages.loss([[2.5, 1, 0.28], [2.3, 2.4]]), "loss", "1 of 2", "not", no=("from",))

    def test_a_chart_title_counts_the_trainings_that_reached_the_target_accuracy(self):
        reached = {"accuracy": [0.7, 0.9], "target_accuracy": 0.88, "time_to_accuracy_s": 12}
        missed = reached | {"accuracy": [0.7, None], "time_to_accuracy_s": None}
        self.names(messages.accuracy([reached, missed]), "1 of 2", "accuracy", "0.88")
        self.names(messages.accuracy([each | {"target_accuracy": None} for each in (reached, missed)]),
                   "accuracy", "0.7 to 0.9", no=("0.88", "1 of 2"))


class History(Titles):
    @staticmethod
    def line(strategy, *speeds, interval="launches"):
        cases = [cases_of(timed(strategy, 2, speed))[1] for speed in speeds]  # intervals are ± 4 % of the step time
        for case in cases:
            case.summary["interval"] = interval
        return cases

    def test_a_chart_title_names_a_change_between_runs_only_if_their_intervals_are_disjoint(self):
        same, slower = self.line("dp", 1, 1.05, 0.97), self.line("ddp", 1, 0.5, 0.8)
        faster = self.line("zero1", 1, 1.25)
        self.names(messages.history([same]), "no", "world 2", no=("dp", "%", "more", "less"))
        self.names(messages.history([same, slower]), "ddp", "25 % more", "world 2", no=("dp",))
        self.names(messages.history([faster]), "zero1", "20 % less", "world 2")
        self.names(messages.history([same, slower, faster]), "2 of 3", "world 2", no=("dp", "ddp", "zero1"))

    def test_a_chart_title_judges_no_changes_if_step_times_have_no_interval_over_launches(self):
        self.names(messages.history([self.line("ddp", 1, 0.5, interval="samples")]),
                   "not judged", "launches a run", no=("ddp", "changed"))


class Collectives(Titles):
    SIZES = {1000: {"shm": [1, 2], "gloo": [3, 4], "memcpy": [0.1, 0.1]},
             10**8: {"shm": [1e4, 1.1e4], "gloo": [9e3, 1.2e4], "memcpy": [1e4, 1e4]}}

    def test_a_chart_title_counts_the_sizes_at_which_one_backend_is_faster_in_every_repetition(self):
        self.in_order(messages.latency(self.SIZES), "shm", "faster", "gloo", "1 of 2")
        self.in_order(messages.latency({1000: self.SIZES[1000]}), "shm", "faster", "gloo", "every")
        three = self.SIZES[1000] | {"nccl": [5, 6]}
        self.names(messages.latency({1000: three}), "shm", "fastest", "every", no=("gloo", "nccl"))
        self.names(messages.latency({10**8: self.SIZES[10**8]}),
                   "gloo and shm", messages.UNDECIDED, no=("faster", "fastest"))

    def test_a_chart_title_gives_bandwidths_of_the_largest_size_as_ranges_over_repetitions(self):
        self.assertEqual(messages.bandwidth(self.SIZES), "shm: 9.1 to 10 GB/s; gloo: 8.3 to 11 GB/s; memcpy: 10 GB/s for 100 MB")

    def test_a_chart_title_does_not_compare_collectives_of_different_worlds(self):
        self.in_order(messages.latency({1000: {"shm, world 2": [1, 2], "gloo, world 4": [3, 4]}}),
                      "not ranked", "different worlds")
        self.in_order(messages.latency({1000: {"shm, world 2": [1, 2], "gloo, world 2": [3, 4]}}),
                      "shm, world 2", "faster", "gloo, world 2", "every")

    def test_a_chart_title_does_not_rank_collectives_that_were_measured_only_once(self):
        once = {size: {arm: values[:1] for arm, values in times.items()} for size, times in self.SIZES.items()}
        self.in_order(messages.latency(once), "latency", "not ranked", "1 repetition")
        self.assertEqual(messages.bandwidth(once), "shm: 10 GB/s; gloo: 11 GB/s; memcpy: 10 GB/s for 100 MB, measured once")

    def test_a_chart_title_does_not_rank_collectives_measured_at_different_sizes(self):
        self.in_order(messages.latency({1000: {"shm": [1, 2]}, 2000: {"gloo": [3, 4]}}), "not ranked", "different sizes")

    def test_a_chart_title_gives_the_time_of_a_single_backend_and_the_range_of_many_bandwidths(self):
        self.in_order(messages.latency({1000: {"shm": [1, 2], "memcpy": [1, 1]}, 2000: {}}), "shm", "1 to 2 µs", "1 kB")
        self.assertEqual(messages.bandwidth({10**8: {arm: [1e4, 2e4] for arm in "abcd"}}), "100 MB: 4 backends reach 5 to 10 GB/s")


class Tuning(Titles):
    def test_a_chart_title_of_tune_is_its_stored_verdict(self):
        self.in_order(messages.tuning({"bucket_mb=50": "faster"}), "bucket_mb=50", "faster", "default")
        self.in_order(messages.tuning({"bucket_mb=50": "unclear"}), "bucket_mb=50", "default", messages.UNDECIDED)
        for verdict in ("same", "SLOWER"):
            self.names(messages.tuning({"bucket_mb=50": verdict}), "no candidate", "default", no=("bucket_mb=50",))
        self.names(messages.tuning({}), "judged", no=("default",))


if __name__ == "__main__":
    unittest.main()
