"""Tests the program `dpbench check`: its output, its files, its exit codes. Needs no torch: a fake worker stands in for
dpbench-worker.

usage: check_command_test.py DPBENCH FAKE_WORKER
"""

import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
import xml.etree.ElementTree

from fake_runs import DPBENCH, WORKER, Runs, fault, main
import reports

JUNIT = ("check", "--workload", "toy", "--strategy", "cpu", "--junit")


class Check(Runs):
    def test_check_prints_the_number_of_checks_of_each_strategy_and_saves_no_run(self):
        done = self.run_it("check", "--workload", "toy")
        rows = {words[0]: words[1:] for words in map(str.split, done.stdout.splitlines()) if words[1:] and words[-1].isdigit()}
        self.assertEqual((rows["cpu"], rows["ddp"]), (["1", "2", "0", "0"], ["2", "4", "0", "0"]))
        self.assertRegex(done.stderr, r"\b6\b.* passed.*\b0 failed")
        self.assertEqual(os.listdir(self.directory), [])

    def test_check_with_the_flag_verbose_prints_one_row_per_check(self):
        done = self.run_it("check", "--workload", "toy", "--verbose")
        self.assertEqual(len(re.findall(r"^  \S+ +passed ", done.stdout, re.MULTILINE)), 6, "2 checks of cpu and of ddp in two worlds")
        self.assertEqual(len(set(re.findall(r"^ddp/toy/cpu:\d", done.stdout, re.MULTILINE))), 2)

    def test_a_failed_check_exits_1_with_its_likely_cause(self):
        done = self.run_it("check", "--workload", "toy", "--strategy", "ddp", "--cpus", "2", "--param", "fault=wrong", "--junit",
                           "checks.xml", code=1)
        self.assertIn("not broadcast", done.stdout)
        suites = xml.etree.ElementTree.parse(self.directory + "/checks.xml").getroot()
        self.assertEqual(len(suites.findall(".//failure")), 1)
        self.assertGreater(float(suites.get("time")), 0)

    def test_check_picks_no_random_world_size_above_the_number_of_gpus(self):
        with open(os.path.join(os.path.dirname(WORKER), "catalogue.json"), encoding="utf-8") as file:
            catalogue = json.load(file)
        nccl = {"name": "nccl", "summary": "", "cpu": False, "cuda": True, "shares_device": False, "threads": False, "cuda_preference": 20}
        with open(self.directory + "/catalogue.json", "w", encoding="utf-8") as file:
            json.dump({**catalogue, "backends": [*catalogue["backends"], nccl], "not_built": []}, file)
        shutil.copy(WORKER, self.directory + "/dpbench-worker")
        self.variables["DPBENCH_WORKER"] = self.directory + "/dpbench-worker"
        plan = ("check", "--strategy", "ddp", "--workload", "toy", "--dry-run", "-o", "json", "--seed", "2")
        worlds = lambda: {case["world"] for case in json.loads(self.run_it(*plan).stdout)["cases"]}
        self.assertEqual(worlds(), {1, 2, 3, 6}, "seed 2 draws a world of 6")
        self.variables.update(LD_LIBRARY_PATH=os.path.join(os.path.dirname(WORKER), "../fake_nvml"), FAKE_GPUS="4")
        self.assertEqual(worlds(), {1, 2, 3, 4})

    def test_some_layouts_drawn_by_check_also_run_the_scenarios_that_take_long(self):
        seen = set()
        for seed in range(1, 41):
            done = self.run_it("check", "--strategy", "ddp", "--workload", "toy", "--layouts", "4", "--seed", str(seed), "-o", "json")
            seen |= {row["detail"] for case in json.loads(done.stdout)["cases"] for row in case["checks"]}
            if len(seen) > 1:
                break
        self.assertEqual(seen, {"whole up to 0", "whole up to 1024"})

    def test_check_runs_only_checks_that_match_the_filter_and_rejects_one_that_matches_none(self):
        with tempfile.TemporaryDirectory() as out:
            stored = os.path.join(out, "checks.json")
            with open(stored, "w", encoding="utf-8") as file:
                file.write(self.run_it("check", "--workload", "toy", "--strategy", "cpu", "-o", "json").stdout)
            with open(stored, encoding="utf-8") as file:
                reports.expect_valid(file.read())
            self.run_it("validate", stored)
        self.assertRegex(self.run_it("check", "--strategy", "cpu", "--workload", "toy", "--filter", "buff").stderr, r"\b1\b.* passed")
        no_match = self.run_it("check", "--filter", "nothing-like-it", code=2)
        self.assertIn("nothing-like-it", no_match.stderr)
        self.assertNotRegex(no_match.stderr, r"\b1/\d", "no case may start")

    def test_check_rejects_unwritable_junit_paths(self):
        self.refused("check", "--junit", "absent/checks.xml")
        self.refused("check", "--junit", ".")
        # A name of 255 bytes is valid, but the name of the temporary file is longer, and so too long.
        self.refused("check", "--junit", "n" * 255)
        self.assertEqual(os.listdir(self.directory), [])

    def test_check_that_exits_2_changes_no_files(self):
        os.mkdir(self.directory + "/full")
        for path in ("old.xml", "full/x"):
            with open(f"{self.directory}/{path}", "w", encoding="utf-8") as file:
                file.write("old")
        os.symlink("old.xml", self.directory + "/link.xml")
        before = sorted(os.listdir(self.directory))
        usage, no_match = fault("usage", check=True), ["--workload", "toy", "--filter", "nothing-like-it"]
        for junit in ("old.xml", "link.xml", "new.xml"):
            for words in (["--dump", "full"], ["--dump", "full/x/y"], ["--dump", "a/b", *usage], ["--dump", "a/b", *no_match], no_match):
                with self.subTest(junit=junit, words=words):
                    self.run_it("check", "--junit", junit, *words, code=2)
                    self.assertEqual(sorted(os.listdir(self.directory)), before)
                    with open(self.directory + "/old.xml", encoding="utf-8") as file:
                        self.assertEqual(file.read(), "old")
        os.mkdir(self.directory + "/mine")
        self.run_it("check", "--dump", "mine", *no_match, code=2)
        self.assertTrue(os.path.isdir(self.directory + "/mine"), "an existing directory stays")

    def test_check_replaces_an_old_junit_file_and_writes_into_a_pipe(self):
        with open(self.directory + "/old.xml", "w", encoding="utf-8") as file:
            file.write("old" * 100000)
        os.symlink("old.xml", self.directory + "/link.xml")
        self.run_it(*JUNIT, "link.xml")
        self.assertEqual(xml.etree.ElementTree.parse(self.directory + "/old.xml").getroot().tag, "testsuites")
        self.assertEqual(sorted(os.listdir(self.directory)), ["link.xml", "old.xml"])
        self.assertTrue(os.path.islink(self.directory + "/link.xml"))
        done = self.run_it(*JUNIT, "/dev/stdout", "-o", "none")
        self.assertEqual(xml.etree.ElementTree.fromstring(done.stdout).tag, "testsuites")
        self.run_it(*JUNIT, "/dev/null")
        self.assertTrue(stat.S_ISCHR(os.stat("/dev/null").st_mode))
        os.mkfifo(self.directory + "/pipe")
        with subprocess.Popen(["cat", self.directory + "/pipe"], stdout=subprocess.PIPE, text=True) as reader:
            self.run_it(*JUNIT, "pipe")
            self.assertEqual(xml.etree.ElementTree.fromstring(reader.stdout.read()).tag, "testsuites")

    def test_check_appends_junit_if_its_path_is_the_open_stdout(self):
        """/dev/stdout may be a regular file. Replacing that file would lose the table and earlier output."""
        os.symlink("/dev/stdout", self.directory + "/link")
        for name in ("/dev/stdout", "/proc/self/fd/1", "/dev/fd/1", "link"):
            with self.subTest(name=name), open(self.directory + "/said", "w+", encoding="utf-8") as file:
                print("before", file=file, flush=True)
                there = os.fstat(file.fileno()).st_ino
                done = subprocess.run([DPBENCH, *JUNIT, name], cwd=self.directory, env=self.variables, stdout=file, stderr=subprocess.PIPE,
                                      timeout=60)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(os.stat(self.directory + "/said").st_ino, there)
                file.seek(0)
                table, mark, document = file.read().partition("<?xml")
                self.assertTrue(table.startswith("before\n"), table)
                self.assertIn("STRATEGY ", table)
                self.assertEqual(xml.etree.ElementTree.fromstring(mark + document).tag, "testsuites")
        with open(self.directory + "/third", "w+", encoding="utf-8") as file:
            self.run_it(*JUNIT, f"/dev/fd/{file.fileno()}", pass_fds=[file.fileno()])
            file.seek(0)
            self.assertEqual(xml.etree.ElementTree.fromstring(file.read()).tag, "testsuites")
        done = subprocess.run(["sh", "-c", f'exec "{DPBENCH}" {" ".join(JUNIT)} /dev/stdout >&-'], env=self.variables, stderr=subprocess.PIPE,
                              timeout=60)
        self.assertEqual(done.returncode, 2, done.stderr)

    def test_check_writes_junit_through_a_link_whose_target_is_missing(self):
        os.mkdir(self.directory + "/there")
        for link, to in (("second.xml", "link.xml"), ("link.xml", "there/new.xml"), ("lost.xml", "absent/new.xml"), ("loop.xml", "loop.xml")):
            os.symlink(to, f"{self.directory}/{link}")
        self.run_it(*JUNIT, "second.xml")
        self.assertEqual(xml.etree.ElementTree.parse(self.directory + "/there/new.xml").getroot().tag, "testsuites")
        self.assertEqual(os.listdir(self.directory + "/there"), ["new.xml"])
        self.assertEqual([os.readlink(f"{self.directory}/{link}") for link in ("second.xml", "link.xml")], ["link.xml", "there/new.xml"])
        self.assertIn("No such file or directory", self.refused(*JUNIT, "lost.xml"))
        self.assertIn("Too many levels of symbolic links", self.refused(*JUNIT, "loop.xml"))

    def test_check_names_a_crashed_rank(self):
        self.assertIn("signal 9", self.run_it("check", *fault("kill", check=True), code=3).stdout)


if __name__ == "__main__":
    main()
