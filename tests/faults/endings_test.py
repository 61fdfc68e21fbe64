"""Runs leave nothing behind and listen on loopback only, tested with the real worker: all processes killed at once,
clocks that jump, garbage sent to open ports, concurrent runs, more ranks than cores.

usage: endings_test.py DPBENCH PLUGIN CLOCK
"""
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from drawn_tests import load_tests  # noqa: F401, unittest calls it
import leftovers
import reports  # noqa: F401, importing this module validates every report that dpbench writes
from strangers import Strangers

DPBENCH, PLUGIN, CLOCK = (os.path.abspath(path) for path in sys.argv[1:4])
SLACK = 60  # seconds that a run may take longer on a busy machine


class Endings(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="dpbench-endings-")
        self.addCleanup(holder.cleanup)
        self.folder = holder.name
        self.mark = f"DPBENCH_ENDINGS_TEST={self.folder}"
        self.dead = leftovers.of_dead_runs()
        self.segments = leftovers.others_in_shared_memory()

    def tearDown(self):
        self.assertTrue(leftovers.wait_until(lambda: not leftovers.processes_of(self.mark), 3), leftovers.processes_of(self.mark))

    def start(self, *words, variables=()):
        command = [DPBENCH, "--no-baseline", "-q", "-o", "json", *words]
        for flag, usual in (("--workload", "random-linear"), ("--out", self.folder), ("--check", "off")):
            command += [] if flag in words else [flag, usual]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env={**os.environ, **dict([self.mark.split("=")]), **dict(variables)})
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stderr.close)
        self.addCleanup(lambda: process.poll() is None and process.kill())
        return process

    def start_long(self, backend, ranks=2, variables=()):
        """Starts a run that times steps for up to half a minute. Returns its process once steps have begun."""
        of_dp = backend == "none"
        process = self.start("--strategy", "dp" if of_dp else "ddp", "--cpus", str(ranks), *(() if of_dp else ("--backend", backend)), "--launches",
                             "1", "--samples", "10", "--steps", "100000", "--max-time", "30", variables=variables)
        ready = lambda: len(leftovers.ranks_of(self.mark)) >= (1 if of_dp else ranks) and self.steps_have_begun()
        self.assertTrue(leftovers.wait_until(ready, SLACK), "the ranks never began")
        return process

    def steps_have_begun(self):
        """True if the shared step counter of any rank is not zero."""
        mine = {leftovers.directory_of(pid) for pid in leftovers.ranks_of(self.mark)}
        return any(any(leftovers.read(path + "/progress")[:8]) for path in mine)

    def finished(self, process, code=0):
        text, said = process.communicate(timeout=5 * SLACK)
        self.assertEqual(process.returncode, code, said + text)
        return json.loads(text)

    def assert_nothing_left(self):
        self.assertEqual(leftovers.of_dead_runs() - self.dead, set())
        self.assertEqual(leftovers.others_in_shared_memory() - self.segments, set())

    def test_the_next_run_cleans_up_after_all_processes_were_killed_at_once(self):
        for backend in ("shm", "gloo"):
            with self.subTest(backend=backend):
                out = f"{self.folder}/{backend}"
                process = self.start_long(backend)
                live = self.start("--strategy", "ddp", "--cpus", "1", "--plugin", PLUGIN, "--out", out + "-live", "--launches", "1",
                                  "--samples", "5", "--steps", "500")
                victims = [pid for pid in leftovers.ranks_of(self.mark) if leftovers.parent_of(pid) == process.pid]
                # The ranks' directories are looked up before the kill: afterwards, a run that another test starts may
                # remove them.
                mine = {leftovers.directory_of(pid) for pid in victims}
                self.assertTrue(mine & leftovers.directories(), "no directory to clean")
                for pid in [process.pid, *victims]:
                    os.kill(pid, signal.SIGKILL)
                process.communicate(timeout=SLACK)
                self.assertTrue(leftovers.wait_until(lambda: not any(pid in leftovers.processes_of(self.mark) for pid in victims), 3))
                self.assertEqual(self.finished(live)["status"], "complete", "the concurrent run is unaffected")
                self.finished(self.start("--strategy", "cpu", "--cpus", "1", "--quick", "--out", out + "-next"))
                self.assert_nothing_left()

    def test_killing_dpbench_ends_its_ranks_even_stopped_ones(self):
        for trial, backend in enumerate(("shm", "gloo", "shm")):
            process = self.start_long(backend)
            if trial != 1:
                for pid in leftovers.ranks_of(self.mark):
                    os.kill(pid, signal.SIGSTOP)
            process.kill()
            self.assertTrue(leftovers.wait_until(lambda: not leftovers.processes_of(self.mark), 3), "ranks are left")
            process.communicate(timeout=SLACK)
        for path in glob.glob(f"{self.folder}/*/run.json"):
            with open(path, encoding="utf-8") as file:
                self.assertEqual(json.load(file)["status"], "interrupted")
        self.finished(self.start("--strategy", "cpu", "--cpus", "1", "--quick"))
        self.assert_nothing_left()

    def test_killing_dpbench_while_its_ranks_load_ends_them(self):
        """Ranks must end within 0.2 s even while they load LibTorch, which takes longer."""
        for _ in range(5):
            process = self.start("--strategy", "ddp", "--cpus", "3", "--backend", "gloo", "--quick")
            self.assertTrue(leftovers.wait_until(lambda: len(leftovers.ranks_of(self.mark)) == 3, SLACK))
            process.kill()
            process.wait()
            self.assertTrue(leftovers.wait_until(lambda: not leftovers.processes_of(self.mark), 0.2), "ranks are left")

    def test_a_run_listens_on_no_port_outside_loopback(self):
        for backend in ("shm", "gloo"):
            with self.subTest(backend=backend):
                process = self.start_long(backend)
                seen = leftovers.listeners_of(leftovers.processes_of(self.mark))
                self.assertEqual([place for place in seen if not leftovers.is_loopback(place[0])], [])
                self.assertEqual(bool(seen), backend == "gloo", "shm opens no port")
                process.terminate()
                process.communicate(timeout=SLACK)
                self.assertEqual(process.returncode, 128 + signal.SIGTERM)

    def test_ranks_on_one_host_use_the_loopback_interface(self):
        """dpbench sets GLOO_SOCKET_IFNAME and NCCL_SOCKET_IFNAME. Without them, LibTorch would choose a network
        interface by the host's name."""
        names = ("GLOO_SOCKET_IFNAME", "NCCL_SOCKET_IFNAME")
        for backend in ("shm", "gloo"):
            with self.subTest(backend=backend):
                process = self.start_long(backend)
                variables = [leftovers.variables_of(pid) for pid in leftovers.ranks_of(self.mark)]
                self.assertEqual([[one.get(name) for name in names] for one in variables], [["lo", "lo"]] * len(variables))
                process.terminate()
                process.communicate(timeout=SLACK)

    def test_idle_openmp_threads_of_ranks_sleep_soon_unless_the_user_sets_how_they_wait(self):
        names = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
        for given, expected in (({}, ["10000", None]), ({"GOMP_SPINCOUNT": "7"}, ["7", None]), ({"OMP_WAIT_POLICY": "passive"}, [None, "passive"])):
            with self.subTest(given=given):
                process = self.start_long("shm", variables=given)
                variables = [leftovers.variables_of(pid) for pid in leftovers.ranks_of(self.mark)]
                self.assertEqual([[one.get(name) for name in names] for one in variables], [expected] * len(variables))
                process.terminate()
                process.communicate(timeout=SLACK)

    def test_garbage_sent_to_every_open_port_changes_no_result(self):
        fixed = ("--strategy", "ddp", "--cpus", "3", "--backend", "gloo", "--audit", "off", "--launches", "1", "--samples", "3", "--steps", "1500", "--max-time", "300")
        (alone,) = self.finished(self.start(*fixed))["cases"]
        with Strangers(self.mark) as strangers:
            (disturbed,) = self.finished(self.start(*fixed))["cases"]
        self.assertGreaterEqual(len(strangers.heard), 3, "every rank listens")
        self.assertGreater(sum(strangers.heard.values()), 30)
        hashes = [[rank["parameters_hash"] for rank in case["launches"][0]["ranks"]] for case in (alone, disturbed)]
        self.assertEqual(disturbed["status"], "ok")
        self.assertEqual(hashes[0], hashes[1])

    def test_a_stranger_that_poses_as_a_gloo_rank_does_not_disturb_the_run(self):
        """In its handshake, a Gloo peer sends a number. The numbers count from 0, so a foreign process that sends zeros
        poses as the first peer."""
        for _ in range(5):
            with Strangers(self.mark, every=0.001, words=[bytes(64)]):
                (case,) = self.finished(self.start("--strategy", "ddp", "--cpus", "4", "--backend", "gloo", "--quick", "--timeout", "20"))["cases"]
            self.assertEqual(case["status"], "ok")

    def test_signals_end_a_run_in_time_and_save_its_report(self):
        for backend, number in (("shm", signal.SIGINT), ("gloo", signal.SIGTERM), ("none", signal.SIGHUP)):
            with self.subTest(backend=backend):
                process = self.start_long(backend)
                sent = time.monotonic()
                process.send_signal(number)
                report = self.finished(process, 128 + number)
                self.assertLess(time.monotonic() - sent, 3 * (0.2 + 3))
                self.assertEqual(report["status"], "interrupted")
                self.assertEqual(leftovers.processes_of(self.mark), {})
                self.assert_nothing_left()

    def test_a_second_interrupt_ends_stopped_ranks_at_once(self):
        process = self.start_long("gloo")
        for pid in leftovers.ranks_of(self.mark):
            os.kill(pid, signal.SIGSTOP)
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.finished(process, 130)["status"], "interrupted")
        self.assertLess(time.monotonic() - sent, 3 * 0.2)

    def test_a_jumping_wall_clock_does_not_affect_measured_times(self):
        process = self.start("--strategy", "ddp", "--cpus", "2", "--quick", variables={"LD_PRELOAD": CLOCK})
        (case,) = self.finished(process)["cases"]
        self.assertEqual(case["status"], "ok")
        for launch in case["launches"]:
            for rank in launch["ranks"]:
                self.assertTrue(all(0 < sample < 60e9 for sample in rank["samples_ns"]), rank["samples_ns"])

    def test_a_rank_out_of_memory_is_reported_with_the_bytes_it_asked_for(self):
        process = self.start("--plugin", PLUGIN, "--strategy", "faulty-ddp", "--cpus", "2", "--quick", "--param", "fault=hoard")
        (case,) = self.finished(process, code=3)["cases"]
        self.assertRegex(case["reason"], r"out of memory: rank 1.* \d+ bytes")
        self.assert_nothing_left()

    def test_a_rank_killed_under_tensor_parallelism_is_named_with_the_layer_that_waited_for_it(self):
        process = self.start("--strategy", "tp", "--workload", "gpt", "--model", "small,layers=8", "--cpus", "2",
                             "--launches", "1", "--samples", "10", "--steps", "100000", "--max-time", "60")
        begun = lambda: len(leftovers.ranks_of(self.mark)) == 2 and self.steps_have_begun()
        self.assertTrue(leftovers.wait_until(begun, SLACK), "the ranks never began")
        os.kill(max(leftovers.ranks_of(self.mark)), signal.SIGKILL)
        (case,) = self.finished(process, code=3)["cases"]
        self.assertRegex(case["reason"], r"rank 1 [^;]*signal 9.*rank 0 .*tp: .*(model\.|lm_head).*rank 1 .*died")
        self.assert_nothing_left()

    def test_four_concurrent_runs_in_one_directory_each_save_their_report(self):
        runs = [self.start("--strategy", "ddp", "--cpus", "2", "--quick", "--check", "auto") for _ in range(4)]
        ids = set()
        for run in runs:
            report = self.finished(run)
            ids.add(report["id"])
            self.assertEqual([case["status"] for case in report["cases"]], ["ok"])
            with open(f"{self.folder}/{report['id']}/run.json", encoding="utf-8") as file:
                self.assertEqual(json.load(file), report)
        self.assertEqual(len(ids), 4)
        self.assert_nothing_left()

    def test_a_world_of_64_ranks_passes_its_checks(self):
        for backend in ("shm", "gloo"):
            with self.subTest(backend=backend):
                report = self.finished(self.start("--strategy", "ddp", "--cpus", "64", "--batch", "1", "--scaling", "weak", "--backend",
                                                  backend, "--quick", "--check", "auto", "--steps", "3", "--timeout", "60"))
                (case,) = report["cases"]
                self.assertEqual(case["status"], "ok")
                self.assertTrue(case["checks"] and all(check["status"] != "failed" for check in case["checks"]))
                (launch,) = case["launches"]
                self.assertEqual([rank["rank"] for rank in launch["ranks"]], list(range(64)))
                self.assertEqual(len({rank["parameters_hash"] for rank in launch["ranks"]}), 1)
                self.assert_nothing_left()


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
