"""duel_command_test.py DPBENCH FAKE_WORKER: tests the program `dpbench duel`, which compares two builds, on fake builds
with a set speed."""
import glob
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import reports  # noqa: F401, importing this module validates every report that dpbench writes

PROGRAM, WORKER = (os.path.abspath(word) for word in sys.argv[1:3])
HERE = os.path.dirname(os.path.abspath(__file__))
CASE = ("--strategy", "ddp", "--workload", "toy", "--cpus", "2")


class Duel(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="dpbench-duel-")
        self.addCleanup(self.folder.cleanup)

    def build(self, name, place="", factor=1.0, noise=0.01, catalogue=lambda text: text, **more):
        """Creates the directory of a fake build. Its worker reports times with the given speed factor and noise.
        Returns the directory."""
        root = os.path.join(self.folder.name, name)
        folder = os.path.join(root, place)
        os.makedirs(folder)
        variables = {"FAKE_FACTOR": factor, "FAKE_NOISE": noise, **more}
        worker = os.path.join(folder, "dpbench-worker")
        with open(worker, "w", encoding="utf-8") as file:
            file.write("#!/bin/sh\n" + "".join(f"export {k}={v}\n" for k, v in variables.items()) + f'exec "{WORKER}" "$@"\n')
        os.chmod(worker, 0o755)
        with open(os.path.join(os.path.dirname(WORKER), "catalogue.json"), encoding="utf-8") as file:
            text = catalogue(file.read())
        with open(os.path.join(folder, "catalogue.json"), "w", encoding="utf-8") as file:
            file.write(text)
        return root

    def run_duel(self, *words, **more):
        return subprocess.run([PROGRAM, "duel", *words], cwd=self.folder.name, text=True, capture_output=True, check=False,
                              timeout=120, **more)

    def duel(self, *words, code=0, **more):
        done = self.run_duel(*words, **more)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        if code == 2:
            self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1), done.stderr)
            self.assertFalse(glob.glob(self.folder.name + "/results/*/duel.json"))
        return done

    def saved(self):
        (path,) = glob.glob(self.folder.name + "/results/*/duel.json")
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def test_duel_gives_equal_builds_the_verdict_same_after_20_pairs(self):
        done = self.duel("--base", self.build("a"), "--new", self.build("b"), *CASE)
        self.assertRegex(done.stdout, r"ddp/toy/cpu:2.* 20  +\d\.\d %  same")
        self.assertRegex(done.stdout, "1 same.*passed")
        report = self.saved()
        (case,) = report["cases"]
        self.assertEqual((report["status"], report["gate"], case["verdict"]), ("complete", "passed", "same"))
        self.assertEqual([len(launch["pairs"]) for launch in case["launches"]], [5, 5, 5, 5])
        firsts = [pair["first"] for launch in case["launches"] for pair in launch["pairs"]]
        self.assertEqual(set(firsts), {"base", "new"}, "in random order")

    def test_each_duel_orders_its_pairs_randomly_and_stores_the_seed(self):
        builds = ("--base", self.build("a"), "--new", self.build("b"), *CASE, "-o", "json")
        duels = [json.loads(self.duel(*builds).stdout) for _ in range(2)]
        orders = [[pair["first"] for launch in duel["cases"][0]["launches"] for pair in launch["pairs"]][:20] for duel in duels]
        self.assertNotEqual(*orders)
        self.assertNotEqual(*(duel["order_seed"] for duel in duels))

    def test_duel_fails_if_the_new_build_is_slower(self):
        done = self.duel("--base", self.build("a"), "--new", self.build("b", factor=1.06), *CASE, code=1)
        self.assertRegex(done.stdout, r"\+[3-9]\.\d %.* SLOWER")
        self.assertIn("FAILED", done.stdout)

    def test_duel_passes_if_the_new_build_is_faster(self):
        self.assertRegex(self.duel("--base", self.build("a"), "--new", self.build("b", factor=0.9), *CASE).stdout, "1 faster.*passed")

    def test_duel_is_unclear_and_says_why_if_noise_exceeds_15_percent(self):
        builds = ("--base", self.build("a", noise=0.3), "--new", self.build("b", noise=0.3), *CASE, "--pairs-per-launch", "40")
        done = self.duel(*builds)
        self.assertRegex(done.stdout, r" 160 .*unclear +.*\d\d\.\d %.*15 %")
        self.duel(*builds, "--strict", code=4)

    def test_duel_prints_its_saved_report_as_json_and_a_table_as_markdown(self):
        words = ("--base", self.build("a"), "--new", self.build("b"), *CASE)
        self.assertEqual(json.loads(self.duel(*words, "-o", "json").stdout), self.saved())
        self.assertTrue(self.duel(*words, "-o", "markdown").stdout.startswith("| CASE |"))

    def test_the_saved_report_of_a_duel_matches_its_json_schema(self):
        self.duel("--base", self.build("a"), "--new", self.build("b"), "--workload", "toy")
        (saved,) = glob.glob(self.folder.name + "/results/*/duel.json")
        done = subprocess.run([PROGRAM, "validate", saved], text=True, capture_output=True, check=True).stdout
        self.assertRegex(done, r"duel\.json: .*3 cases")
        schema = os.path.join(HERE, "..", "..", "results", "schema", "duel-1.schema.json")
        for python in ("python3", "/usr/bin/python3"):
            done = subprocess.run([python, os.path.join(HERE, "..", "support", "check_schema.py"), "--closed", schema,
                                   *glob.glob(self.folder.name + "/results/*/duel.json")], text=True, capture_output=True, check=False)
            if done.returncode != 3:
                break
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr or "apt-get install python3-jsonschema")

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "needs two cores")
    def test_duel_uses_one_thread_if_steps_of_the_base_build_are_below_a_millisecond(self):
        cores = len(os.sched_getaffinity(0))
        for number, (base, new, flags, threads) in enumerate(((0.5, 2, (), 1), (2, 0.5, (), cores), (0.5, 0.5, ("--threads", "2"), 2))):
            with self.subTest(base=base, flags=flags):
                done = self.run_duel("--base", self.build(f"a{number}", factor=base), "--new", self.build(f"b{number}", factor=new), "--strategy",
                                     "ddp", "--workload", "toy", "--cpus", "1", "--check", "off", "-o", "json", *flags)
                (case,) = json.loads(done.stdout)["cases"]
                self.assertEqual(case["threads"], threads)

    def test_the_flag_pairs_of_duel_sets_the_exact_number_of_pairs_of_blocks(self):
        self.duel("--base", self.build("a"), "--new", self.build("b"), *CASE, "--pairs", "44", "--pairs-per-launch", "11")
        self.assertEqual([len(launch["pairs"]) for launch in self.saved()["cases"][0]["launches"]], [11, 11, 11, 11])

    def test_duel_takes_a_build_as_its_program_or_its_directory(self):
        for number, place in enumerate(("", "bin", "libexec/dpbench", "build/release/bin")):
            root = self.build(f"build{number}", place)
            self.duel("--base", root, "-n", *CASE, env={**os.environ, "DPBENCH_WORKER": WORKER})
            self.duel("--base", os.path.join(root, place, "dpbench-worker"), "--new", root, "-n", *CASE)
        program = os.path.join(self.folder.name, "build3", "scripts", "dpbench")
        os.makedirs(os.path.dirname(program))
        with open(program, "w", encoding="utf-8"):
            self.duel("--base", program, "--new", program, "-n", *CASE)

    def test_duel_answers_wrong_arguments_and_unusable_builds_with_one_error_line_and_exit_2(self):
        a = self.build("a")
        old = self.build("old", FAKE_OLD=1)
        other = self.build("other", catalogue=lambda text: text.replace('"toy"', '"toi"'))
        broken = self.build("broken", catalogue=lambda text: text[:100])
        for words, done in (((), "--base"), (("--base", "absent"), "'absent'"), (("--new", "/"), "dpbench-worker"),
                            (("--base", a, "--new", broken), "--new"), (("--base", a, "--new", a, "--pairs", "5"), "10"),
                            (("--base", a, "--new", a, "--pairs", "30", "--pairs-per-launch", "10"), "4 launches"),
                            (("--base", a, "--new", other), "'toi'" ),
                            (("--base", a, "--new", a, "--new-plugin", "x.so"), "x.so': no such file")):
            with self.subTest(words=words):
                self.assertIn(done, self.duel(*words, *CASE, code=2, env={**os.environ, "DPBENCH_WORKER": WORKER}).stderr)
        self.assertRegex(self.duel("--base", a, "--new", old, *CASE, code=3).stdout, r"FAILED +new: .*\bduel\b")

    def test_duel_lists_cases_that_only_one_build_has(self):
        more = self.build("more", catalogue=lambda text: text.replace('"strong-toy"', '"new-toy"'))
        done = self.duel("--base", self.build("a"), "--new", more, "--strategy", "cpu", "--cpus", "1")
        self.assertRegex(done.stdout, r"cpu/new-toy\S+ .* new")
        self.assertRegex(done.stdout, r"cpu/strong-toy\S+ .* gone")

    def test_builds_with_wrong_gradients_fail_the_duel(self):
        both = ("--base", self.build("a"), "--new", self.build("b"), *CASE)
        self.assertIn("gradient-vs-baseline", self.duel(*both, "--param", "fault=wrong", code=1).stdout)

    def test_duel_fails_a_case_whose_worker_answers_without_a_measurement(self):
        done = self.duel("--base", self.build("a"), "--new", self.build("b"), *CASE, "--param", "fault=untimed", code=3)
        self.assertRegex(done.stdout, r"FAILED +base: ")

    def test_duel_does_not_pass_if_ranks_of_the_base_build_end_with_different_model_parameters(self):
        both = ("--base", self.build("a"), "--new", self.build("b"), *CASE, "--check", "off")
        done = self.run_duel(*both, "--param", "fault=unequal")
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertRegex(done.stdout, r"unmeasured +base: .*parameters")
        self.assertRegex(self.duel(*both, "--param", "fault=none,unequal").stdout, "1 same, 1 unmeasured.*inconclusive")

    def test_duel_names_a_crashed_rank_with_its_build_and_measures_the_other_cases(self):
        done = self.duel("--base", self.build("a"), "--new", self.build("b"), *CASE, "--param", "fault=none,kill", "--param", "rank=1",
                         "--timeout", "5", code=3)
        self.assertRegex(done.stdout, r"fault=kill.* FAILED +base: rank 1 .*signal 9")
        self.assertIn("1 broken, 1 same", done.stdout)

    def test_an_interrupted_duel_saves_the_pairs_measured_so_far(self):
        process = subprocess.Popen([PROGRAM, "duel", "--base", self.build("a"), "--new", self.build("b"), *CASE, "--pairs", "1000000"],
                                   cwd=self.folder.name, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline and not any(case["launches"] for case in self.saved_so_far()):
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(self.saved()["status"], "interrupted")
        self.assertTrue(self.saved()["cases"][0]["launches"])

    def saved_so_far(self):
        return self.saved()["cases"] if glob.glob(self.folder.name + "/results/*/duel.json") else []

    def test_duel_exits_5_if_stdout_is_full(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([PROGRAM, "duel", "--base", self.build("a"), "--new", self.build("b"), *CASE, "-q"], stdout=full,
                                  stderr=subprocess.PIPE, cwd=self.folder.name, check=False)
        self.assertEqual(done.returncode, 5)


unittest.main(argv=sys.argv[:1])
