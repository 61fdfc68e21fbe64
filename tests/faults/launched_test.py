"""Ranks started by a launcher. The tests act as the launcher: they start one front (a dpbench process) per rank, with
the environment variables that a launcher sets. Rank 0 leads the run, the other ranks follow it, and a failing rank is
named.

usage: launched_test.py DPBENCH PLUGIN
"""
import contextlib
import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

from drawn_tests import load_tests  # noqa: F401, unittest calls it
import leftovers
import reports  # noqa: F401, importing this module validates every report that dpbench writes
from strangers import Strangers

DPBENCH, PLUGIN = (os.path.abspath(path) for path in sys.argv[1:3])
TIMEOUT = 5
SILENT = 10  # seconds of silence after which rank 0 gives up another rank's front
SLACK = 40  # seconds allowed on a busy machine
# Seconds within which a run must end on an idle machine, without leftovers: after a rank died, after the run was
# refused, after a rank was found missing. Tests allow TIMES times as long, plus intended waits (--timeout, SILENT).
DIED, REFUSED, MISSING = 0.5 + 2, 1, 1 + 2
TIMES = 3
CASE = ["--strategy", "ddp", "--workload", "random-linear", "--quick", "--check", "off"]
FAULT = ["--plugin", PLUGIN, "--strategy", "faulty-ddp", "--workload", "random-linear", "--quick", "--check", "off"]


def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


class Launched(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = folder.name
        self.port = free_port()

    def start(self, flags, world=2, ranks=None, timeout=TIMEOUT, **variables):
        ranks = range(world) if ranks is None else ranks
        started = []
        for rank in ranks:
            env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(self.port),
                   "DPBENCH_NONCE": self.out, "LAUNCHED_TEST": self.out, **variables}
            where = () if flags[0] == "check" else ("--out", self.out + "/results")
            started.append(subprocess.Popen([DPBENCH, *flags, "--timeout", str(timeout), *where, "-q"],
                                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env))
        self.addCleanup(lambda: [one.kill() for one in started if one.poll() is None])
        return started

    def finish(self, started, seconds=TIMEOUT + SILENT + SLACK):
        ends = [one.communicate(timeout=seconds) for one in started]
        return [one.returncode for one in started], ends

    def launch(self, flags, **how):
        return self.finish(self.start(flags, **how))

    def report(self):
        (path,) = glob.glob(self.out + "/results/*/run.json")
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def nothing_left(self):
        mark = f"LAUNCHED_TEST={self.out}"
        self.assertTrue(leftovers.wait_until(lambda: not leftovers.processes_of(mark), SLACK), leftovers.processes_of(mark))

    def in_time(self, since, promised, waited=0):
        """Asserts that the run ended in time. Call this after all processes have ended."""
        self.assertLess(time.monotonic() - since, waited + TIMES * promised)

    def failed(self, fault, words, waited=0, started=None):
        """Runs two ranks, one of which must fail. `waited`: seconds before the other rank can detect the failure."""
        marks = self.out + "/struck"
        started = started or self.start([*FAULT, *fault], DPBENCH_STRUCK=marks)
        got, ends = self.finish(started)
        self.nothing_left()
        self.in_time(int(leftovers.read(marks).split()[0]) * 1e-9, DIED, waited)
        self.assertEqual(got, [3, 3], ends)
        case = [case for case in self.report()["cases"] if case["strategy"] != "cpu"][0]
        self.assertEqual(case["status"], "failed")
        self.assertRegex(case["reason"], words)

    def test_under_a_launcher_only_rank_0_prints_and_the_report_lists_the_hosts(self):
        for backend in ("shm", "gloo"):
            with self.subTest(backend=backend):
                codes, ends = self.launch([*CASE, "--backend", backend, "-o", "json"], world=3)
                self.assertEqual(codes, [0, 0, 0], ends)
                printed = json.loads(ends[0][0])
                self.assertEqual([ends[1], ends[2]], [("", ""), ("", "")])
                case = [case for case in printed["cases"] if case["strategy"] == "ddp"][0]
                self.assertEqual((case["status"], case["world"], case["backend"]), ("ok", 3, backend))
                self.assertEqual([rank["rank"] for rank in case["launches"][0]["ranks"]], [0, 1, 2])
                (host,) = printed["env"]["hosts"]
                self.assertEqual(host["ranks"], [0, 1, 2])
                self.assertEqual(host["fingerprint"], printed["env"]["fingerprint"])
        self.nothing_left()

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "one core")
    def test_ranks_get_disjoint_cores_and_no_more_threads_than_cores_with_or_without_a_launcher(self):
        flags = [*CASE, "--no-baseline", "--cpus", "2", "--backend", "shm"]
        alone = {name: text for name, text in os.environ.items() if name != "RANK"}
        for way in ("front", "env"):
            with self.subTest(started_by=way):
                started = self.start(flags) if way == "env" else [subprocess.Popen(
                    [DPBENCH, *flags, "-q", "-o", "none", "--out", self.out + "/results"], env={**alone, "LAUNCHED_TEST": self.out})]
                cores = {}
                while started[0].poll() is None:
                    for pid in leftovers.ranks_of(f"LAUNCHED_TEST={self.out}"):
                        rank = leftovers.variables_of(pid)
                        # Only workers have DPBENCH_THREADS. The relays (processes that forward messages between the
                        # fronts) do not.
                        if "DPBENCH_THREADS" in rank:
                            with contextlib.suppress(ProcessLookupError):
                                cores[rank["RANK"]] = os.sched_getaffinity(pid)
                    time.sleep(0.01)
                codes, ends = self.finish(started)
                self.assertEqual(set(codes), {0}, ends)
                self.assertEqual(sorted(cores), ["0", "1"])
                self.assertFalse(cores["0"] & cores["1"], cores)
                self.assertLessEqual(cores["0"] | cores["1"], os.sched_getaffinity(0))
                (case,) = self.report()["cases"]
                shutil.rmtree(self.out + "/results")
                for rank in case["launches"][0]["ranks"]:
                    self.assertEqual(rank["threads"], case["threads"])
                    self.assertLessEqual(rank["threads"], len(cores[str(rank["rank"])]))

    def test_checks_and_repeated_measurements_succeed_under_a_launcher(self):
        codes, ends = self.launch(["check", "--strategy", "ddp", "--workload", "random-linear", "--backend", "shm", "--filter", "^gradient"])
        self.assertEqual(codes, [0, 0], ends)
        codes, ends = self.launch([flag for flag in CASE if flag != "--quick"] + ["--launches", "3", "--samples", "3", "-o", "json", "--backend", "shm"])
        self.assertEqual(codes, [0, 0], ends)
        self.assertEqual(len(json.loads(ends[0][0])["cases"][1]["launches"]), 3)

    def test_the_other_ranks_wait_while_rank_0_measures_the_baseline(self):
        flags = ["--strategy", "ddp", "--workload", "mnist-mlp", "--launches", "1", "--samples", "200", "--check", "off", "--backend", "shm", "-o", "json"]
        start = time.monotonic()
        # The baseline alone takes longer than the SILENT seconds after which rank 0 gives up another rank.
        codes, ends = self.finish(self.start(flags, timeout=30), seconds=200)
        self.assertEqual(codes, [0, 0], ends)
        self.assertGreater(time.monotonic() - start, 2 * SILENT)

    def test_a_world_size_that_differs_from_the_launchers_is_rejected_naming_both(self):
        began = time.monotonic()
        codes, ends = self.launch([*CASE, "--cpus", "4"])
        self.in_time(began, REFUSED)
        self.assertEqual(codes, [2, 2])
        self.assertRegex(ends[0][1], r"--cpus 4\b.*\benv\b.* 2 ranks")
        self.assertFalse(os.path.exists(self.out + "/results"))

    def test_world_sizes_of_a_list_that_differ_from_the_launchers_are_skipped_with_a_reason(self):
        codes, ends = self.launch([*CASE, "--cpus", "2,3", "--backend", "shm", "-o", "json"])
        self.assertEqual(codes, [0, 0], ends)
        cases = {case["world"]: case for case in json.loads(ends[0][0])["cases"] if case["strategy"] == "ddp"}
        self.assertEqual((cases[2]["status"], cases[3]["status"]), ("ok", "skipped"))
        self.assertRegex(cases[3]["reason"], r"world of 3\b.*\benv\b.* 2\b")

    def test_the_launched_ranks_form_the_mesh_and_call_collectives_on_each_axis(self):
        flags = ["--strategy", "layout", "--workload", "gpt", "--model", "tiny", "--quick", "--check", "off", "--backend", "shm", "-o", "json"]
        codes, ends = self.launch([*flags, "--mesh", "dp=2,tp=2"], world=4)
        self.assertEqual(codes, [0, 0, 0, 0], ends)
        (case,) = [case for case in json.loads(ends[0][0])["cases"] if case["strategy"] == "layout"]
        self.assertEqual((case["status"], case["world"], case["mesh"]), ("ok", 4, "dp=2,tp=2"))
        for rank in case["launches"][0]["ranks"]:
            self.assertEqual({entry["axis"] for entry in rank["profile"]["ledger"]}, {"dp", "tp"}, rank["rank"])

    def test_a_mesh_of_another_number_of_ranks_than_the_launchers_is_rejected_naming_both(self):
        codes, ends = self.launch(["--strategy", "layout", "--workload", "gpt", "--model", "tiny", "--mesh", "dp=2,tp=2"])
        self.assertEqual(codes, [2, 2], ends)
        self.assertRegex(ends[0][1], r"\bworld of 4\b.*\benv\b.* 2\b")

    def test_dp_is_rejected_under_a_launcher_as_it_has_one_process(self):
        codes, ends = self.launch(["--strategy", "dp", "--cpus", "2", "--workload", "random-linear"])
        self.assertEqual(codes, [2, 2])
        self.assertRegex(ends[0][1], "'dp'")

    def test_the_duel_command_is_rejected_under_a_launcher(self):
        codes, ends = self.launch(["duel", "--base", DPBENCH])
        self.assertEqual(codes, [2, 2])
        self.assertRegex(ends[0][1], "--launcher self")

    def test_the_flag_launcher_self_ignores_the_variables_of_launchers(self):
        (one,) = self.start([*CASE, "--launcher", "self", "--cpus", "1", "--backend", "shm"], ranks=[1])
        codes, ends = self.finish([one])
        self.assertEqual(codes, [0], ends)

    def test_a_dry_run_under_a_launcher_prints_on_rank_0_only(self):
        codes, ends = self.launch([*CASE, "-n"])
        self.assertEqual(codes, [0, 0], ends)
        self.assertIn("ddp/random-linear/cpu:2", ends[0][0])
        self.assertEqual(ends[1][0], "")

    def test_invalid_launcher_variables_are_named(self):
        for name, value in (("RANK", "two"), ("LOCAL_RANK", "5"), ("MASTER_PORT", "99999")):
            with self.subTest(name=name):
                began = time.monotonic()
                codes, ends = self.launch(CASE, world=2, ranks=[0], **{name: value})
                self.in_time(began, REFUSED)
                self.assertEqual(codes, [2])
                self.assertRegex(ends[0][1], f"{name}='{value}'")

    def test_a_worker_that_exits_is_named_in_the_report_and_in_torchruns_error_file(self):
        error = self.out + "/error"
        fault = ["--param", "fault=exit-7", "--backend", "gloo"]
        self.failed(fault, r"rank 1 .*exit code 7.* step \d+",
                    started=self.start([*FAULT, *fault], DPBENCH_STRUCK=self.out + "/struck", TORCHELASTIC_ERROR_FILE=error))
        with open(error, encoding="utf-8") as file:
            self.assertRegex(json.load(file)["message"]["message"], "exit code 7|rank 1|onnection")

    def test_a_worker_that_is_killed_or_stopped_is_named(self):
        self.failed(["--param", "fault=kill", "--backend", "shm"], r"^rank 1 .*signal 9 \(SIGKILL\) at step 7\b")
        self.out += "/second"
        os.mkdir(self.out)
        self.failed(["--param", "fault=stop", "--backend", "shm"], r"rank 1 .*stopped", waited=TIMEOUT)

    def test_a_failing_rank_is_named_with_its_host_if_there_are_several_hosts(self):
        """The launcher's variables describe two nodes; both are this machine."""
        host = socket.gethostname()
        for fault, words, waited in (("kill", "signal 9", 0), ("throw", "the strategy's own words", 0), ("stop", "stopped", TIMEOUT)):
            with self.subTest(fault=fault):
                self.out += "/" + fault
                os.mkdir(self.out)
                flags = [*FAULT, "--param", "fault=" + fault, "--backend", "gloo"]
                started = [self.start(flags, ranks=[rank], DPBENCH_STRUCK=self.out + "/struck", GROUP_RANK=str(rank), LOCAL_RANK="0", LOCAL_WORLD_SIZE="1")[0]
                           for rank in (0, 1)]
                self.failed([], f"rank 1 on {host} .*{words}", waited, started)
                self.assertEqual([one["ranks"] for one in self.report()["env"]["hosts"]], [[0], [1]])

    def test_backend_auto_is_gloo_with_one_rank_per_host_else_shm(self):
        """The launcher's variables describe several hosts; all are this machine."""
        for hosts, backend in (([1, 1], "gloo"), ([1, 2], "shm")):
            with self.subTest(hosts=hosts):
                places = [(host, local) for host, ranks in enumerate(hosts) for local in range(ranks)]
                started = [self.start([*CASE, "-o", "json"], world=len(places), ranks=[rank], GROUP_RANK=str(host), LOCAL_RANK=str(local),
                                      LOCAL_WORLD_SIZE=str(hosts[host]))[0] for rank, (host, local) in enumerate(places)]
                codes, ends = self.finish(started)
                self.assertEqual(codes, [0] * len(places), ends)
                report = json.loads(ends[0][0])
                self.assertEqual(len(report["env"]["hosts"]), len(hosts))
                self.assertEqual([case["backend"] for case in report["cases"] if case["strategy"] == "ddp"], [backend])

    def test_a_rank_that_never_starts_is_named_as_missing(self):
        began = time.monotonic()
        codes, ends = self.launch(CASE, world=3, ranks=[0, 1])
        self.in_time(began, MISSING, TIMEOUT)
        self.assertEqual(codes, [3, 3], ends)
        self.assertRegex(ends[0][1], r"2 of 3 ranks.* 5 s.*missing 2")
        self.nothing_left()

    def test_the_other_ranks_end_if_rank_0_never_starts(self):
        began = time.monotonic()
        codes, ends = self.launch(CASE, ranks=[1])
        self.in_time(began, MISSING, TIMEOUT)
        self.assertEqual(codes, [3], ends)
        self.assertRegex(ends[0][1], "rank 1 on .* 127.0.0.1")
        self.nothing_left()

    def long_run(self):
        started = self.start(["--strategy", "ddp", "--workload", "random-linear", "--backend", "shm", "--launches", "100", "--check", "off", "--no-baseline"], timeout=20)
        until = time.monotonic() + SLACK
        while not glob.glob(self.out + "/results/*/run.json") and time.monotonic() < until:
            time.sleep(0.1)
        time.sleep(2)
        return started

    def test_the_rendezvous_store_listens_at_the_masters_address_only(self):
        started = self.long_run()
        listeners = leftovers.listeners_of(leftovers.processes_of(f"LAUNCHED_TEST={self.out}"))
        self.assertEqual({address for address, port in listeners if port == self.port}, {"127.0.0.1"})
        for one in started:
            one.send_signal(signal.SIGTERM)
        codes, ends = self.finish(started)
        self.assertEqual(codes, [143, 143], ends)
        self.assertEqual(self.report()["status"], "interrupted")
        self.nothing_left()

    def test_sigterm_to_the_dpbench_process_of_one_rank_ends_all_ranks(self):
        started = self.long_run()
        started[1].send_signal(signal.SIGTERM)
        codes, ends = self.finish(started)
        self.assertEqual(codes, [143, 143], ends)
        self.assertEqual(self.report()["status"], "interrupted")
        self.nothing_left()

    def test_killing_dpbench_of_one_rank_ends_the_run_and_names_the_rank(self):
        started = self.long_run()
        struck = time.monotonic()
        started[1].kill()
        codes, ends = self.finish(started)
        self.nothing_left()
        self.in_time(struck, DIED, SILENT)
        self.assertEqual(codes[0], 3, ends)
        self.assertRegex(self.report()["cases"][0]["reason"], r"rank 1 (.*10 s|\(pid \d+\) died)")

    def test_the_other_ranks_end_after_rank_0_is_killed(self):
        started = self.long_run()
        struck = time.monotonic()
        started[0].kill()
        codes, ends = self.finish(started)
        self.nothing_left()
        self.in_time(struck, DIED, SILENT)
        self.assertEqual(codes, [-9, 3], ends)
        self.assertRegex(ends[1][1], "rank 1 on ")

    def test_one_of_two_processes_that_claim_the_same_rank_is_rejected(self):
        began = time.monotonic()
        started = self.start(CASE, world=2, ranks=[0, 1, 1])
        self.assertTrue(leftovers.wait_until(lambda: any(one.poll() is not None for one in started[1:]), SLACK), "neither was rejected")
        self.in_time(began, REFUSED)
        codes, ends = self.finish(started)
        self.assertEqual((codes[0], sorted(codes[1:])), (0, [0, 2]), ends)
        (said,) = [end[1] for code, end in zip(codes, ends) if code == 2]
        self.assertRegex(said, "RANK=1")
        self.nothing_left()

    def test_a_rank_with_a_wrong_nonce_cannot_join(self):
        started = self.start(CASE, ranks=[0]) + self.start(CASE, ranks=[1], DPBENCH_NONCE="guessed")
        codes, ends = self.finish(started)
        self.assertEqual(codes, [3, 3], ends)
        self.assertRegex(ends[0][1], r"1 of 2 ranks.* 5 s.*missing 1")
        self.nothing_left()

    def test_a_plugin_named_on_rank_0_only_is_not_loaded_by_other_ranks_and_the_run_is_rejected(self):
        flags = [*FAULT, "--param", "fault=none", "--backend", "shm"]
        started = self.start(flags, ranks=[0]) + self.start([word for word in flags if word not in ("--plugin", PLUGIN)], ranks=[1])
        codes, ends = self.finish(started)
        self.assertEqual(codes, [2, 2], ends)
        self.assertIn("'faulty-ddp'", ends[0][1])
        self.nothing_left()

    def hashes(self):
        flags = [*CASE, "--backend", "gloo", "--audit", "off", "--launches", "1", "--samples", "3", "--steps", "1500", "--max-time", "300", "-o", "json"]
        codes, ends = self.finish(self.start([flag for flag in flags if flag != "--quick"], timeout=20), seconds=200)
        self.assertEqual(codes, [0, 0], ends)
        (case,) = [case for case in json.loads(ends[0][0])["cases"] if case["strategy"] == "ddp"]
        return [rank["parameters_hash"] for rank in case["launches"][0]["ranks"]]

    def test_garbage_sent_to_the_store_and_to_gloo_changes_no_result(self):
        alone = self.hashes()
        with Strangers(f"LAUNCHED_TEST={self.out}") as strangers:
            self.assertEqual(self.hashes(), alone)
        self.assertGreater(strangers.heard.get(self.port, 0), 10, "connections to the store")
        self.assertGreater(len(strangers.heard), 2, "connections to every rank")
        self.nothing_left()

    def test_a_master_port_in_use_is_reported(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", self.port))
            other.listen()
            began = time.monotonic()
            codes, ends = self.finish(self.start(CASE, ranks=[0]))
            self.in_time(began, 1 + 1)
            self.assertEqual(codes, [2], ends)
            codes, ends = self.launch(CASE)
        self.assertEqual(codes[0], 2, ends)
        self.assertRegex(ends[0][1], f"127.0.0.1:{self.port}.*MASTER_PORT")
        self.nothing_left()


if __name__ == "__main__":
    sys.argv[1:3] = []
    unittest.main()
