"""How runs end: crashed ranks, signals, a killed front (the dpbench process), a full disk, a closed stdout. No run
leaves processes or files behind. Needs no torch: a fake worker answers.

usage: cli_ends_test.py DPBENCH FAKE_WORKER
"""

import glob
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time

from fake_runs import DPBENCH, Runs, fault, main, processes_of, ranks_of


class CliEnds(Runs):
    def test_a_run_with_a_failed_case_exits_3_with_the_cause_and_still_runs_the_other_case(self):
        for name, said in [("kill", "signal 9 (SIGKILL)"), ("exit7", "exit code 7"), ("exit0", "exit code 0"), ("stop", "stopped"),
                           ("echo", "signal 9"), ("nan", "not a number"), ("oom", "out of memory"), ("init-exit", "exit code 9")]:
            with self.subTest(fault=name):
                out = f"{self.directory}/{name}"
                done = self.run_it("--out", out, *fault(f"none,{name}"), "-o", "json", code=3)
                cases = {case["params"].get("fault", "none"): case for case in json.loads(done.stdout)["cases"]}
                self.assertEqual(cases["none"]["status"], "ok", "the other cases still run")
                self.assertEqual(cases[name]["status"], "failed")
                self.assertIn(said, cases[name]["reason"])
                self.assertIn(said, done.stderr)

    def test_the_last_stderr_lines_of_a_killed_rank_are_reported_without_terminal_escape_codes(self):
        self.run_it(*fault("kill"), code=3)
        (case,) = self.saved()["cases"]
        self.assertIn("about to die", case["reason"])
        (log,) = glob.glob(self.directory + "/results/*/logs/*/rank1.log")
        with open(log, "rb") as file:
            self.assertIn(b"\x1b[31m", file.read())

    def test_a_case_whose_rank_exits_once_is_ok_if_it_is_retried(self):
        self.run_it(*fault("flaky"), code=3)
        self.run_it(*fault("flaky"), "--retries", "1", "--out", "again")
        (path,) = glob.glob(self.directory + "/again/*/run.json")
        with open(path) as file:
            (case,) = json.load(file)["cases"]
        self.assertEqual(case["status"], "ok")
        self.assertIn("exit code 4", " ".join(case["warnings"]))

    def test_processes_left_behind_by_ranks_are_ended(self):
        self.run_it(*fault("orphan"))

    def test_signals_end_a_run_and_save_its_report(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=number):
                out = f"{self.directory}/{number}"
                process = self.start("--out", out, *fault("hang", "30"), "-o", "json")
                self.wait_for_ranks(process, 2)
                sent = time.monotonic()
                process.send_signal(number)
                text, _ = process.communicate(timeout=20)
                self.assertLess(time.monotonic() - sent, 3 * (0.2 + 3))
                self.assertEqual(process.returncode, 128 + number)
                self.assertEqual(json.loads(text)["status"], "interrupted")
                (path,) = glob.glob(out + "/*/run.json")
                with open(path) as file:
                    self.assertEqual(json.load(file)["cases"][0]["status"], "interrupted")

    def test_a_second_interrupt_ends_the_run_at_once(self):
        process = self.start(*fault("deaf-hang", "30"))
        self.wait_for_ranks(process, 2)
        process.send_signal(signal.SIGINT)
        time.sleep(0.1)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)
        self.assertLess(time.monotonic() - sent, 3 * 0.2)
        self.assertEqual(process.returncode, 130)

    def test_killing_dpbench_ends_its_ranks_and_their_child_processes(self):
        process = self.start(*fault("orphan-hang", "30"))
        self.wait_for_ranks(process, 3)  # three processes: two ranks, and a child process of one of them
        process.kill()
        process.communicate(timeout=20)
        deadline = time.monotonic() + 3
        while processes_of(self.directory) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertEqual(processes_of(self.directory), [], "processes are left")

    def test_files_of_a_killed_run_are_removed_by_the_next_run(self):
        self.variables["TMPDIR"] = self.directory
        process = self.start(*fault("hang", "30"))
        self.wait_for_ranks(process, 2)
        mine = [path for parent in ("/dev/shm", self.directory) for path in glob.glob(f"{parent}/dpbench-{os.getuid()}-*")]
        process.kill()
        process.communicate(timeout=20)
        deadline = time.monotonic() + 3
        while processes_of(self.directory) and time.monotonic() < deadline:
            time.sleep(0.02)
        self.assertEqual(processes_of(self.directory), [])
        self.assertTrue(self.saved()["status"] == "interrupted")
        self.assertTrue(mine)
        self.run_it("--workload", "toy", "--quick", "--out", "again")
        left = {path for path in mine if os.path.exists(path)}
        # Files of the killed run must be gone. Files of this user's other live runs may remain.
        self.assertTrue(len(left) < len(mine))

    def test_killing_dpbench_a_hundred_times_leaves_no_rank_running(self):
        """In every second trial the ranks are stopped (SIGSTOP) before the front is killed, so they handle no
        signal."""
        late = []
        for trial in range(100):
            out = f"{self.directory}/{trial}"
            process = self.start("--out", out, *fault("hang", "30"), "-q")
            self.wait_for_ranks(process, 2, settle=0)
            if trial % 2:
                for path in ranks_of(self.directory):
                    os.kill(int(path.split("/")[2]), signal.SIGSTOP)
            process.kill()
            killed = time.monotonic()
            process.communicate(timeout=20)
            while processes_of(self.directory) and time.monotonic() < killed + 3 * 1:
                time.sleep(0.01)
            self.assertEqual(processes_of(self.directory), [], f"processes are left in trial {trial}")
            late.append(time.monotonic() - killed)
        print(f"100 killed fronts: the last process gone after {max(late):.2f} s at most", file=sys.stderr)

    def open_files(self, soft, hard):
        return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    def test_an_open_file_limit_too_low_for_the_ranks_is_raised_or_reported(self):
        world = ("--strategy", "ddp", "--workload", "toy", "--cpus", "40", "--quick", "--no-baseline", "-q", "-o", "none")
        self.run_it(*world, preexec_fn=self.open_files(50, 400))
        shutil.rmtree(self.directory + "/results")
        done = self.run_it(*world, code=2, preexec_fn=self.open_files(50, 100))
        for part in ("40 ranks", "224", "100", "ulimit -Hn"):
            self.assertIn(part, done.stderr)
        self.assertFalse(glob.glob(self.directory + "/results/*"))
        self.run_it(*world, "-n", preexec_fn=self.open_files(50, 100))

    def test_with_a_closed_stdout_a_run_exits_5_and_saves_its_report(self):
        reader, writer = os.pipe()
        os.close(reader)
        done = subprocess.run([DPBENCH, "--workload", "toy", "--quick"], cwd=self.directory, env=self.variables, stdout=writer,
                              stderr=subprocess.PIPE, timeout=60)
        os.close(writer)
        self.assertEqual(done.returncode, 5)
        self.assertEqual(self.saved()["status"], "complete")

    def test_dpbench_exits_5_if_stdout_is_full(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([DPBENCH, "--help"], env=self.variables, stdout=full, stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(done.returncode, 5)

    def test_a_run_that_cannot_write_to_stdout_saves_its_report(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([DPBENCH, "--workload", "toy", "--quick", "-o", "json"], cwd=self.directory, env=self.variables, stdout=full,
                                  stderr=subprocess.PIPE, timeout=60)
        self.assertEqual(done.returncode, 5)
        self.assertEqual(self.saved()["status"], "complete")

    def test_a_failed_save_exits_5_and_keeps_the_previous_baseline(self):
        """A file size limit makes the save fail: the kernel cuts the write short and sends SIGXFSZ, which dpbench must
        ignore."""
        run = ("--workload", "toy", "--quick", "--launches", "4", "--save-baseline", "main")
        self.run_it(*run, "-o", "none")
        baseline = self.directory + "/results/baselines/main.json"
        with open(baseline, "rb") as file:
            before = file.read()
        small = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))
        done = self.run_it(*run, "-o", "json", code=5, preexec_fn=small)
        self.assertEqual(json.loads(done.stdout)["status"], "complete", "the figures still reach stdout")
        self.assertRegex(done.stderr, "(?i)not saved")
        with open(baseline, "rb") as file:
            self.assertEqual(file.read(), before)
        self.assertEqual(glob.glob(self.directory + "/results/*/*.part") + glob.glob(self.directory + "/results/.*"), [])

    def test_a_run_without_stdin_stdout_and_stderr_saves_its_report(self):
        done = subprocess.run(["sh", "-c", f'exec "{DPBENCH}" --workload toy --quick <&- >&- 2>&-'], cwd=self.directory,
                              env=self.variables, timeout=60)
        self.assertEqual(done.returncode, 5)
        self.assertEqual(self.saved()["status"], "complete")

    def test_every_command_that_prints_exits_5_if_stdout_is_closed(self):
        golden = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../golden/run-1.2.json")
        for words, code in (("--help", 5), ("list", 5), ("env", 5), ("doctor", 5), ("-n --cpus 1", 5), (f"validate {golden}", 5),
                            (f"compare {golden} {golden}", 5), (f"export {golden} --to csv", 5), ("check --workload toy --strategy cpu", 5),
                            ("--workload toy --quick -o none", 0)):
            with self.subTest(words=words):
                done = subprocess.run(["sh", "-c", f'exec "{DPBENCH}" {words} >&-'], cwd=self.directory, env=self.variables, timeout=60,
                                      stderr=subprocess.PIPE)
                self.assertEqual(done.returncode, code, done.stderr)


if __name__ == "__main__":
    main()
