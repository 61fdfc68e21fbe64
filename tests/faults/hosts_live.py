"""Runs ranks on two simulated hosts: network namespaces joined by a virtual cable.

usage: hosts_live.py DPBENCH      (as root)
"""
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import time
import unittest

import leftovers
import reports  # noqa: F401, importing this module validates every report that dpbench writes
from two_hosts import ADDRESSES, TwoHosts

DPBENCH = os.path.abspath(sys.argv[1])
SLACK = 60
TIMEOUT, SILENT, AFTER = 8, 10, 12  # seconds: --timeout; silence after which dpbench gives up a rank; extra time to end
CASE = ["--strategy", "ddp", "--quick", "--check", "off"]
ON_THE_WIRE = 1514 / 1448  # Ethernet frame size divided by its TCP payload


class Hosts(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = folder.name
        self.hosts = TwoHosts(DPBENCH)
        self.addCleanup(self.hosts.close)

    def start(self, flags, each, timeout=TIMEOUT, **variables):
        where = () if flags[0] == "check" else ("--out", self.out + "/results")
        flags = [*flags, "--timeout", str(timeout), *where, "-q", "-o", "json"]
        started = self.hosts.start(flags, each, nonce=self.out, HOSTS_LIVE=self.out, **variables)
        self.addCleanup(lambda: [one.kill() for one in started if one.poll() is None])
        return started

    def finish(self, started):
        ends = [one.communicate(timeout=3 * SLACK) for one in started]
        return [one.returncode for one in started], ends

    def measured(self, flags, each, **how):
        codes, ends = self.finish(self.start(flags, each, **how))
        self.assertEqual(codes, [0] * 2 * each, ends)
        return json.loads(ends[0][0])

    def step_ms(self, report, strategy="ddp"):
        (case,) = [case for case in report["cases"] if case["strategy"] == strategy]
        return case["stats"]["step_time_ns"]["median"] * 1e-6

    def launches(self, pattern):
        for path in glob.glob(pattern):
            with open(path, encoding="utf-8") as file:
                return len(json.load(file)["cases"][0]["launches"])
        return 0

    def processes(self):
        return leftovers.processes_of(f"HOSTS_LIVE={self.out}")

    def test_gloo_shm_and_auto_work_on_two_hosts_with_one_and_two_ranks_each(self):
        for each, auto in ((1, "gloo"), (2, "shm")):
            for flags, backend in ((["--backend", "gloo"], "gloo"), (["--backend", "shm"], "shm"), ([], auto)):
                with self.subTest(each=each, flags=flags):
                    report = self.measured([*CASE, "--workload", "random-linear", *flags], each)
                    self.assertEqual([host["ranks"] for host in report["env"]["hosts"]], [list(range(each)), list(range(each, 2 * each))])
                    self.assertEqual([case["backend"] for case in report["cases"] if case["strategy"] == "ddp"], [backend])

    def test_the_conformance_checks_pass_across_hosts(self):
        for backend in ("gloo", "shm"):
            report = self.measured(["check", "--strategy", "ddp", "--workload", "random-linear,mnist-mlp", "--backend", backend], 2, timeout=60)
            rows = [row["status"] for case in report["cases"] for row in case["checks"]]
            self.assertGreater(rows.count("passed"), 40)
            self.assertEqual(rows.count("failed"), 0)

    def test_layouts_pass_across_hosts_and_report_which_axes_are_between_hosts(self):
        for mesh, where in (("dp=2,tp=2", r"\bdp between\b.*\btp within\b"),
                            ("pp=2,tp=2", r"\bpp between\b.*\btp within\b"),
                            ("cp=2,dp=2", r"\bcp\b.*\bbetween\b.*--mesh dp=2,cp=2\b"),
                            ("shard=2,tp=2", r"\bshard between\b.*\btp within\b")):
            for backend in ("gloo", "shm"):
                with self.subTest(mesh=mesh, backend=backend):
                    report = self.measured(["check", "--short", "--strategy", "layout", "--workload", "gpt-exact",
                                            "--mesh", mesh, "--backend", backend], 2, timeout=60)
                    (case,) = report["cases"]
                    rows = [row["status"] for row in case["checks"]]
                    self.assertGreater(rows.count("passed"), 10)
                    self.assertEqual(rows.count("failed"), 0)
                    self.assertTrue(any(re.search(where, text) for text in case["warnings"]), case["warnings"])

    def test_an_all_to_all_that_takes_longer_than_the_interval_between_liveness_checks_succeeds(self):
        self.hosts.rate("20mbit")  # at this rate a message of 1 MiB takes about half a second
        self.measured(["--strategy", "cp", "--param", "cp.kind=ulysses", "--backend", "shm", "--workload", "gpt",
                       "--model", "small,layers=1,seq=1024", "--batch", "4", "--no-baseline", "--check", "off",
                       "--launches", "1", "--warmup", "1", "--steps", "1", "--samples", "2"], 1)

    def test_communication_time_on_a_slow_link_matches_bytes_over_link_rate(self):
        flags = [*CASE, "--workload", "mnist-mlp", "--scale", "8", "--backend", "gloo", "--warmup", "3", "--steps", "1", "--samples", "5"]
        self.hosts.rate("100mbit")
        report = self.measured(flags, 1)
        (case,) = [case for case in report["cases"] if case["strategy"] == "ddp"]
        # With two ranks, each rank sends all bytes of an allreduce over the cable.
        bytes_reduced = case["derived"]["collective_bytes_per_step"]
        alone = self.step_ms(report, "cpu")
        took = self.step_ms(report) - alone
        expected = bytes_reduced * ON_THE_WIRE * 8 / 100e6 * 1e3
        print(f"\n100 Mbit/s: {bytes_reduced / 1e6:.2f} MB take {took:.0f} ms of a step, {expected:.0f} ms expected; one rank alone "
              f"needs {alone:.1f} ms")
        self.assertLess(abs(took / expected - 1), 0.15)

    def test_the_link_rate_that_the_command_collectives_reports_is_close_to_the_rate_of_the_cable(self):
        if not os.path.exists(os.path.dirname(DPBENCH) + "/dpbench-micro"):
            self.skipTest("dpbench-micro is not built")
        self.hosts.rate("100mbit")
        started = self.hosts.start(["collectives", "--collective", "allreduce", "--backend", "gloo", "--min-bytes",
                                    "64KiB", "--max-bytes", "64KiB", "-o", "json"], 1, nonce=self.out)
        self.addCleanup(lambda: [one.kill() for one in started if one.poll() is None])
        said = [one.communicate(timeout=2 * SLACK) for one in started]
        self.assertEqual([one.returncode for one in started], [0, 0], said)
        (entry,) = json.loads(said[0][0])["benchmarks"]
        expected = 100e6 / 8 / ON_THE_WIRE * 1e-9
        print(f"\n100 Mbit/s: a plain TCP connection reaches {entry['link_gb_s'] / expected:.0%}, allreduce of 64 KiB {entry['of_link']:.0%} of that")
        self.assertLess(entry["link_gb_s"], 1.05 * expected)
        self.assertGreater(entry["link_gb_s"], 0.6 * expected)

    def test_a_projection_from_one_host_matches_the_step_time_on_two_hosts(self):
        flags = [*CASE, "--workload", "mnist-mlp", "--scale", "8", "--backend", "gloo", "--warmup", "3", "--steps", "1", "--samples", "5"]
        subprocess.run([DPBENCH, *flags, "--cpus", "1,2,3", "--out", self.out + "/one", "-q", "-o", "none"], check=True)
        self.hosts.rate("100mbit")
        measured = self.step_ms(self.measured(flags, 1))
        link = f"intra=10GB/s:20us,inter={100 / ON_THE_WIRE:.2f}Mbit/s:100us"
        words = [DPBENCH, "project", "--results", self.out + "/one", "--to", "2", "--link", link, "--hosts", "1", "-o", "json"]
        (case,) = json.loads(subprocess.run(words, check=True, capture_output=True).stdout)["series"][0]["cases"]
        projected = case["stats"]["step_time_ns"]["median"] * 1e-6
        print(f"\n100 Mbit/s: a step of {measured:.0f} ms, projected from one host {projected:.0f} ms")
        self.assertLess(abs(projected / measured - 1), 0.25)

    def test_a_cut_network_link_ends_the_run_and_the_lost_rank_is_named(self):
        for backend in ("gloo", "shm"):
            with self.subTest(backend=backend):
                started = self.start(["--strategy", "ddp", "--workload", "random-linear", "--backend", backend, "--launches", "200", "--no-baseline",
                                      "--check", "off"], 1)
                pattern = self.out + "/results/*/run.json"
                until = time.monotonic() + SLACK
                while not self.launches(pattern) and time.monotonic() < until:
                    time.sleep(0.1)
                self.hosts.cable("down")
                cut = time.monotonic()
                codes, ends = self.finish(started)
                self.assertLess(time.monotonic() - cut, TIMEOUT + SILENT + AFTER)
                self.assertEqual(codes, [3, 3], ends)
                (saved,) = glob.glob(pattern)
                with open(saved, encoding="utf-8") as file:
                    # "missing 1": the link was cut while the ranks of a launch joined.
                    self.assertRegex(json.load(file)["cases"][0]["reason"], "rank 1|missing 1")
                self.assertRegex(ends[1][1], "rank 1 on .*(rank 0|relay|onnection)")
                self.assertEqual(self.processes(), {})
                os.rename(self.out + "/results", self.out + "/" + backend)
                self.hosts.cable("up")

    def test_ports_listen_only_on_the_network_that_leads_to_the_master(self):
        started = self.start(["--strategy", "ddp", "--workload", "random-linear", "--backend", "gloo", "--launches", "200", "--no-baseline"], 1)
        time.sleep(6)
        seen = set()
        for _ in range(20):
            seen |= {address for address, _ in leftovers.listeners_of(self.processes())}
            time.sleep(0.1)
        for one in started:
            one.terminate()
        self.finish(started)
        self.assertTrue(seen)
        self.assertLessEqual(seen, {*ADDRESSES, "127.0.0.1"})

    def test_a_network_interface_set_by_environment_is_used_and_reported(self):
        codes, ends = self.finish(self.start([*CASE, "--workload", "random-linear", "--backend", "gloo"], 1, GLOO_SOCKET_IFNAME="absent",
                                             NCCL_SOCKET_IFNAME="^aside"))
        self.assertEqual(codes, [3, 3], ends)
        report = json.loads(ends[0][0])
        self.assertEqual(report["env"]["variables"]["NCCL_SOCKET_IFNAME"], "^aside")
        self.assertEqual(report["env"]["variables"]["GLOO_SOCKET_IFNAME"], "absent")


if __name__ == "__main__":
    sys.argv[1:2] = []
    unittest.main(verbosity=2)
