"""Ranks that die, hang, lie or differ, with the real worker: each case ends in time, with exit code 3, the rank and the cause named.

usage: faults_test.py DPBENCH PLUGIN
"""
import collections
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import control_groups
import leftovers
import reports  # holds every report against its schema
from struck import Watched

DPBENCH, PLUGIN = (os.path.abspath(path) for path in sys.argv[1:3])
TIMEOUT = 3  # --timeout: seconds without progress
# Seconds from the strike until the front tells of it, and from there until all is cleaned up: what is promised of an idle machine. Tests
# allow three times that, and a second try: a busy machine is late once, a hang always.
DEATH, DIFFERS = (0.5, 2), (1, 2)
SLACK, TRIES = 3, 2
START = 60  # of LibTorch, many at once
TIMES = collections.defaultdict(list)


class Faults(unittest.TestCase):
    wrapper = ()  # what runs the command
    variables = {}  # of the command
    timeout = TIMEOUT

    def run_fault(self, fault, backend="shm", strategy="faulty-ddp", step=7, flags=(), code=3, check="off", within=DEATH, silent=0):
        """The case's record. silent: seconds that must pass before anybody can know. code: one, or a tuple of those that will do."""
        for attempt in range(TRIES):
            with tempfile.TemporaryDirectory() as out:
                case, late = self.one_run(out, fault, backend, strategy, step, flags, code, check, within, silent)
                if not late:
                    return case
                print(f"attempt {attempt + 1}: {late}", file=sys.stderr)
        self.fail(late)

    def one_run(self, out, fault, backend, strategy, step, flags, code, check, within, silent):
        ranks = ["--backend", backend] if strategy == "faulty-ddp" else []
        before, segments = leftovers.of_dead_runs(), leftovers.others_in_shared_memory()
        run = Watched([*self.wrapper, DPBENCH, "--plugin", PLUGIN, "--strategy", strategy, "--cpus", "2", "--workload", "random-linear", "--quick", "--no-baseline",
                       "--check", check, "--timeout", str(self.timeout), "--param", f"fault={fault}", "--param", f"step={step}", *ranks, "--out", out,
                       "-o", "json", *flags], out, {"DPBENCH_FAULTS_TEST": out, **self.variables}, (" · failed: ", " · wrong: "), START + silent + SLACK * sum(within))
        self.assertIn(run.code, code if isinstance(code, tuple) else (code,), run.stderr + run.stdout)
        self.assertEqual(leftovers.processes_of(f"DPBENCH_FAULTS_TEST={out}"), {})
        self.assertEqual(leftovers.of_dead_runs() - before, set())
        self.assertEqual(leftovers.others_in_shared_memory() - segments, set())
        (saved,) = glob.glob(out + "/*/run.json")
        with open(saved, encoding="utf-8") as file:
            report = json.load(file)
        self.assertEqual(report, json.loads(run.stdout))
        self.report, self.stderr = report, run.stderr
        cases = {case["strategy"]: case for case in report["cases"]}
        return cases[strategy], self.late(run, fault, within, silent) if code else ""

    @staticmethod
    def late(run, fault, within, silent):
        """What took too long, if anything did."""
        if run.struck is None or run.told is None:
            return f"{fault}: {'never struck' if run.struck is None else 'never told'}"
        told, ended = run.told - run.struck - silent, run.ended - run.struck - silent
        if "," not in fault:  # else there is a good case to come
            TIMES[fault].append((told, ended))
        limits = SLACK * within[0], SLACK * sum(within)
        return "" if told <= limits[0] and ended <= limits[1] else (
            f"{fault}: told after {told:.2f} s (limit {limits[0]} s), ended after {ended:.2f} s (limit {limits[1]} s), not counting {silent} s")

    def failed(self, fault, words, **how):
        case = self.run_fault(fault, **how)
        self.assertEqual(case["status"], "failed")
        self.assertRegex(case["reason"], words)
        return case

    def over_both(self, fault, words, **how):
        for backend in ("shm", "gloo"):
            with self.subTest(fault=fault, backend=backend):
                self.failed(fault, words, backend=backend, **how)

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
        for fault, words in (("stop", r"rank 1 is stopped at step 7; in or after collective #\d+: rank 0; #\d+: rank 1"), ("spin", r"rank 1 .*(stuck|late|missing|did not)"),
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

    def test_calls_that_differ_over_gloo_never_end_well(self):
        """It does not say so: it gives success and wrong numbers, aborts, or waits."""
        for fault in ("other-collective", "skip"):
            with self.subTest(fault=fault):
                case = self.run_fault(fault, backend="gloo", code=(1, 3), silent=TIMEOUT, within=DIFFERS)
                self.assertRegex(case["status"] + ": " + case["reason"], r"^(failed: .*rank [01]|wrong: .*equal-parameters)")

    def test_a_collective_skipped(self):
        """It is seen where the calls are others: the next one of the same shape hides it, so the step is not known. Whose numbers they are is."""
        case = self.failed("skip", r"^rank [01] failed: ranks do not make the same call: rank 0 ", within=DIFFERS)
        calls = re.search(r"rank 0 \(pid \d+\) #(\d+) (\S.*), rank 1 \(pid \d+\) #(\d+) (\S.*) \(in or after", case["reason"])
        self.assertEqual(calls[1], calls[3])
        self.assertEqual(calls[2], "allreduce of 12 Float (sum)", "the bucket that rank 0 waits with")
        self.assertNotEqual(calls[2], calls[4])

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
        for fault, words in (("throw", r"^the worker failed: the strategy's own words"), ("memory", r"^out of memory: the worker failed")):
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

    def test_a_training_whose_last_step_leaves_no_number_has_failed(self):
        steps = self.other_command("train", "none", 0, 0)["training"]["steps"]
        case = self.other_command("train", "nan-weight", steps - 1, 3)
        self.assertRegex(case["reason"], rf"^not a number: rank 1 failed: parameter fc.weight is nan at index \[1, 2\] after step {steps - 1}")

    def other_command(self, command, fault, step, code, *flags, strategy="faulty-ddp"):
        """The record of its one case: check prints it, train keeps it."""
        with tempfile.TemporaryDirectory() as out:
            done = subprocess.run([DPBENCH, command, "--plugin", PLUGIN, "--strategy", strategy, "--cpus", "2", "--workload", "random-linear",
                                   *(("--backend", "shm") if strategy == "faulty-ddp" else ()),
                                   "--timeout", str(TIMEOUT), "--param", f"fault={fault}", "--param", f"step={step}",
                                   *(("-o", "json") if command == "check" else ("--out", out)), *flags],
                                  capture_output=True, text=True, check=False, timeout=SLACK * START)
            self.assertEqual(done.returncode, code, done.stderr)
            texts = [done.stdout] if command == "check" else [leftovers.read(path) for path in glob.glob(out + "/*/run.json")]
            (case,) = json.loads(texts[0])["cases"]
            return case

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


def print_times():
    for fault, times in sorted(TIMES.items()):
        told, ended = (max(column) for column in zip(*times))
        print(f"{fault:18} {len(times):3} runs: told at most {told:5.2f} s after the strike, ended at most {ended:5.2f} s (--timeout not counted)", file=sys.stderr)


if __name__ == "__main__":
    unittest.addModuleCleanup(print_times)
    unittest.main(argv=sys.argv[:1] + sys.argv[3:])
