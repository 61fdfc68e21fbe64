"""Tests the program `dpbench` by its command line: exit codes, stdout, rejected input. Needs no torch: a fake worker
stands in for dpbench-worker.

usage: cli_test.py DPBENCH FAKE_WORKER
"""

import csv
import glob
import io
import json
import os
import pty
import re
import shlex
import shutil
import struct
import subprocess
import sys
import time
import unittest

from fake_runs import DPBENCH, WORKER, Runs, fault, main
from terminals import read_terminal


class Cli(Runs):
    def test_dpbench_without_arguments_prints_a_table_and_saves_a_report(self):
        done = self.run_it()
        self.assertIn("STRATEGY  WORLD", done.stdout)
        self.assertIn("run.json", done.stderr)
        (run,) = glob.glob(self.directory + "/results/*")
        self.assertTrue(done.stderr.endswith(f" {shlex.quote(DPBENCH)} report results/{os.path.basename(run)} --html report.html\n"), done.stderr)
        report = self.saved()
        self.assertEqual(report["status"], "complete")
        self.assertEqual({case["world"] for case in report["cases"]}, {1, 2})
        self.assertTrue(report["config"]["quick"])
        self.assertRegex(report["started"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertGreaterEqual(report["ended"], report["started"])
        self.assertEqual(report["defaults"]["ddp"]["fault"], "none")
        orders = [launch["order"] for case in report["cases"] for launch in case["launches"]]
        self.assertEqual(sorted(orders), list(range(len(orders))))

    def test_the_ranking_in_words_is_printed_below_the_table_and_saved(self):
        done = self.run_it("--workload", "toy", "--quick", "--cpus", "1")
        below = done.stdout.partition("\n\n")[2]
        self.assertRegex(below, r"^toy, world 1: ")
        self.assertLessEqual(below.count("\n"), 6)
        (group,) = self.saved()["answer"]["groups"]
        self.assertEqual({choice["label"] for choice in group["choices"]}, {"cpu", "ddp"})
        self.assertIn(group["sentences"][0]["text"], below)
        self.assertNotIn("world 1:", self.run_it("--workload", "toy", "--quick", "--cpus", "1", "-q").stdout)

    def test_parameters_that_contradict_each_other_are_refused_before_anything_runs(self):
        words = ("--strategy", "ddp", "--workload", "toy", "--cpus", "2", "--param")
        for more in ((), ("--dry-run",)):
            with self.subTest(more):
                refused = self.run_it(*words, "fault=contradiction", *more, code=2)
                self.assertIn("fault=contradiction contradicts", refused.stderr)
        self.assertFalse(os.path.exists(self.directory + "/results"))
        plan = json.loads(self.run_it(*words, "fault=contradiction,none", "--dry-run", "-o", "json").stdout)
        (skipped,) = plan["skipped"]
        self.assertEqual(skipped["case"]["params"], {"fault": "contradiction"})
        self.assertIn("contradicts", skipped["reason"])
        self.assertEqual({case["strategy"] for case in plan["cases"]}, {"cpu", "ddp"})

    def test_the_suggested_report_command_is_quoted_for_the_shell(self):
        self.variables["DPBENCH_CALLED"] = "scripts of/dpbench"
        done = self.run_it("--workload", "toy", "--quick", "-o", "none", "--out", "it's $here")
        words = shlex.split(done.stderr.rpartition("Charts: ")[2])
        self.assertEqual(words[:2] + words[3:], ["scripts of/dpbench", "report", "--html", "report.html"])
        self.assertTrue(os.path.exists(f"{self.directory}/{words[2]}/run.json"), words)
        self.assertTrue(words[2].startswith("it's $here/"), words)

    def test_the_json_that_a_run_prints_equals_its_saved_report(self):
        done = self.run_it("-o", "json", "--workload", "toy", "--quick")
        self.assertEqual(json.loads(done.stdout), self.saved())

    def test_a_run_with_output_jsonl_prints_a_line_per_event(self):
        done = self.run_it("-o", "jsonl", "--strategy", "ddp", "--workload", "toy", "--quick", "--cpus", "2", "--param", "ddp.fault=none,exit7",
                           code=3)
        first, *events = [json.loads(line) for line in done.stdout.splitlines()]
        report = self.saved()
        self.assertEqual((first["event"], first["run"], first["env"]["fingerprint"]), ("run-start", report["id"], report["env"]["fingerprint"]))
        self.assertEqual({case["id"] for case in first["cases"]}, {case["id"] for case in report["cases"]})
        self.assertEqual((events[-1]["event"], events[-1]["status"], events[-1]["exit_code"]), ("run-end", "complete", 3))
        ended = {event["case"]: event["result"] for event in events if event["event"] == "case-end"}
        for case in report["cases"]:
            kinds = [event["event"] for event in events if event.get("case") == case["id"]]
            self.assertEqual(kinds, ["case-start", "launch-end", "case-end"])
            self.assertEqual((ended[case["id"]]["status"], ended[case["id"]]["stats"]), (case["status"], case["stats"]))
        self.assertTrue(any("exit code 7" in event["text"] for event in events if event["event"] == "problem"), events)

    def test_a_run_with_output_csv_prints_a_row_per_case(self):
        rows = list(csv.DictReader(io.StringIO(self.run_it("-o", "csv", "--workload", "toy", "--quick", "--cpus", "1,2").stdout)))
        self.assertEqual([row["strategy"] for row in rows], ["cpu", "ddp", "ddp"])

    def test_a_run_with_the_flags_output_none_and_quiet_prints_nothing(self):
        done = self.run_it("-o", "none", "-q", "--workload", "toy", "--quick")
        self.assertEqual((done.stdout, done.stderr), ("", ""))
        self.assertEqual(self.saved()["status"], "complete")

    def test_reports_have_the_cuda_and_nccl_versions_of_the_build_and_of_the_loaded_libraries(self):
        versions = {"torch": "2.11.0", "cuda": "13.0", "nccl": "2.28.9"}
        self.assertEqual(json.loads(self.run_it("env", "-o", "json").stdout)["versions"],
                         versions | {"cuda_loaded": None, "nccl_loaded": None})
        self.run_it("--workload", "toy", "--quick")
        self.assertEqual(self.saved()["env"]["versions"], versions | {"cuda_loaded": "13.1", "nccl_loaded": "2.28.10"})

    def test_a_dry_run_writes_nothing(self):
        self.variables["DPBENCH_WORKER"] = WORKER
        done = self.run_it("-n", "-o", "json", "--cpus", "1,2")
        self.assertEqual(len(json.loads(done.stdout)["cases"]), 6)
        self.assertEqual(os.listdir(self.directory), [])

    def test_a_run_takes_its_strategy_from_a_configuration_file(self):
        with open(self.directory + "/ci.toml", "w") as file:
            file.write('strategy = [\n  "ddp",  # a list over several lines\n]\nworkload = "toy"\ncpus = [2]\nquick = true\n')
        self.run_it("--config", "ci.toml")
        self.assertEqual([case["strategy"] for case in self.saved()["cases"]], ["cpu", "ddp"])

    def test_a_wrong_configuration_file_is_rejected_with_its_line_and_the_nearest_key(self):
        for text, parts in (("\nstratgy = 'ddp'\n", ("line 2", "'stratgy'", "'strategy'")), ("seed = true\n", ("line 1", "'seed'", "boolean")),
                            ("cpus = [2]\nfilter = 'toy('\n", ("line 2", "--filter", "missing )")), ("strategy = ddp\n", ("line 1",))):
            with self.subTest(text=text):
                with open(self.directory + "/ci.toml", "w") as file:
                    file.write(text)
                message = self.refused("--config", "ci.toml")
                for part in ("ci.toml", *parts):
                    self.assertIn(part, message)

    def test_dpbench_answers_wrong_arguments_with_one_error_line_and_exit_2(self):
        os.makedirs(self.directory + "/other")
        open(self.directory + "/file", "w").close()
        for words, message in [(["--strategy", "dpd"], "'ddp'"), (["--workload", "toi"], "'toy'"), (["--backend", "shn"], "'shm'"),
                            (["--strategy", "all,x"], "'x'"), (["--workload", "all,x"], "'x'"),
                            (["--stratgy", "ddp"], "'--strategy'"), (["--cpus", "0"], "1 to 1024"), (["--cpus", "1025"], "1 to 1024"),
                            (["--strategy", "ddp", "--scaling", "strong", "--batch", "2", "--cpus", "3"], "--batch 2"),
                            (["--filter", "nothing-like-it"], "--filter"), (["--data", "absent"], "absent"),
                            (["--filter", "x(?=y)"], "lookahead"), (["check", "--filter", "(a)\\1"], "backreference"),
                            (["--data", "file"], "file"),
                            (["--config", "absent.toml"], "absent.toml"), (["--out", "file"], "file"), (["--out", "file/below"], "file"),
                            (["--data", ""], "--data"), (["--out", ""], "--out"),
                            (["--plugin", "x.so"], "x.so': no such file"), (["--plugin", "./x.so"], "./x.so"),
                            (["frobnicate"], "frobnicate"), (["help", "nothing"], "help"), (["list", "dpp"], "'ddp'"), (["list", "TOY"], "'toy'")]:
            with self.subTest(words=words):
                self.assertIn(message, self.refused(*words))

    def test_damaged_mnist_files_are_rejected_before_anything_runs(self):
        data, images = self.directory + "/mnist", bytes(2 * 28 * 28)
        sound = {f"{part}-{kind}": rows for part in ("train", "t10k") for kind, rows in
                 (("images-idx3-ubyte", struct.pack(">IIII", 0x803, 2, 28, 28) + images), ("labels-idx1-ubyte", struct.pack(">II", 0x801, 2) + b"\0\1"))}
        for file, bad, message in (("t10k-labels-idx1-ubyte", None, "t10k-labels-idx1-ubyte"),
                                ("train-images-idx3-ubyte", sound["train-images-idx3-ubyte"][:-1], r"\b1567\b.*\b1583\b"),
                                ("t10k-images-idx3-ubyte", sound["t10k-labels-idx1-ubyte"], r"\b10 bytes"),
                                ("train-labels-idx1-ubyte", sound["train-images-idx3-ubyte"], "0x00000803"),
                                ("train-labels-idx1-ubyte", sound["train-labels-idx1-ubyte"][:-1] + b"\n", r"\b10\b.* 1\b")):
            with self.subTest(file=file, message=message):
                shutil.rmtree(data, ignore_errors=True)
                os.mkdir(data)
                for name, rows in (sound | {file: bad}).items():
                    if rows is not None:
                        with open(f"{data}/{name}", "wb") as out:
                            out.write(rows)
                for words in ([], ["check"], ["--dry-run"]):
                    refusal = self.refused(*words, "--data", data)
                    self.assertIn(f"{data}/{file}" if bad else data, refusal)
                    self.assertRegex(refusal, message)
                    self.assertIn("--data", refusal)
                # The workload toy does not read the IDX files in --data.
                self.run_it("--data", data, "--workload", "toy", "--dry-run")
        for name, rows in sound.items():
            with open(f"{data}/{name}", "wb") as out:
                out.write(rows)
        # Only the workload with too little data is skipped.
        self.assertRegex(self.run_it("--data", data, "--dry-run").stdout, r"skipped: .*\b30\b")
        message = self.refused("--data", data, "--workload", "strong-toy")
        self.assertRegex(message, rf"strong-toy has 2 .*--data {re.escape(data)}")

    def test_a_batch_larger_than_the_data_is_rejected_for_a_named_workload_and_skipped_for_others(self):
        message = self.refused("--batch", "200", "--workload", "toy,strong-toy", "--scaling", "strong", "--strategy", "cpu", "--quick")
        self.assertRegex(message, r"strong-toy.*\b100\b")
        done = self.run_it("--batch", "200", "--scaling", "strong", "--strategy", "cpu", "--quick", "-o", "json")
        self.assertEqual({case["workload"]: case["status"] for case in json.loads(done.stdout)["cases"]}, {"toy": "ok", "strong-toy": "skipped"})

    def test_errors_suggest_commands_with_the_name_dpbench_was_called_by(self):
        for words, suggested in ((["--cpuz", "1"], "--help"), (["project"], "project latest --to"), (["report"], "report latest --html"),
                                 (["validate"], "validate FILE"), (["train"], "train --workload")):
            with self.subTest(words=words):
                self.variables.pop("DPBENCH_CALLED", None)
                self.assertIn(f" {shlex.quote(DPBENCH)} {suggested}", self.refused(*words))
                self.variables["DPBENCH_CALLED"] = "scripts/dpbench"
                self.assertIn(f" scripts/dpbench {suggested}", self.refused(*words))

    def test_flags_that_need_missing_gpus_or_nccl_exit_77_with_alternatives_or_the_reason(self):
        self.assertIn("--gpus 1,2", self.refused("--gpus", "1,2", code=77))
        self.assertIn("--cpus 1,2", self.refused("--gpus", "1,2", code=77))
        self.assertIn("--strategy cpu", self.refused("--strategy", "gpu", "--cpus", "1", code=77))
        self.assertRegex(self.refused("--backend", "nccl", code=77), "'nccl'.*this is a fake")

    def test_a_cuda_library_that_failed_to_load_in_the_build_is_loaded_again_if_there_is_a_gpu(self):
        worker = self.directory + "/dpbench-worker"
        with open(os.path.join(os.path.dirname(WORKER), "catalogue.json"), encoding="utf-8") as file:
            written = json.load(file)
        nccl = {"name": "nccl", "summary": "", "cpu": False, "cuda": True, "shares_device": False, "threads": False}
        by_now = {**written, "backends": [*written["backends"], nccl], "not_built": []}
        with open(worker, "w", encoding="utf-8") as file:
            file.write(f"#!/bin/sh\ncat <<'END'\n{json.dumps(by_now)}\nEND\n")
        os.chmod(worker, 0o755)
        self.variables.update(DPBENCH_WORKER=worker)
        open(self.directory + "/libnvidia-ml.so.1", "w").close()  # an empty file acts as a broken GPU driver
        driver = os.path.join(os.path.dirname(WORKER), "../fake_nvml")
        plan = ("--strategy", "ddp", "--backend", "nccl", "--dry-run")
        for cuda, nvml, code in (("13.0", driver, 0), ("13.0", self.directory, 77), ("", driver, 77)):
            with self.subTest(cuda=cuda, nvml=nvml):
                with open(self.directory + "/catalogue.json", "w", encoding="utf-8") as file:
                    json.dump({**written, "cuda": cuda}, file)
                self.variables["LD_LIBRARY_PATH"] = nvml
                self.assertIn("this is a fake" if code else "", self.run_it(*plan, code=code).stderr)

    def test_doctor_and_list_let_the_worker_load_the_cuda_library_only_if_there_is_a_gpu(self):
        worker, beside = self.directory + "/dpbench-worker", os.path.join(os.path.dirname(WORKER), "catalogue.json")
        shutil.copy(beside, self.directory)
        with open(worker, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\necho "$*" >>{self.directory}/asked\n{shlex.quote(WORKER)} "$@"\n')
        os.chmod(worker, 0o755)
        for name in ("libnvidia-ml.so.1", "mine.so"):  # both files are empty, so neither a driver nor a plug-in loads
            open(f"{self.directory}/{name}", "w").close()
        self.variables.update(DPBENCH_WORKER=worker)
        plugin = f"--catalogue --plugin {os.path.realpath(self.directory)}/mine.so"
        for nvml, words in ((self.directory, " --no-cuda"), (os.path.join(os.path.dirname(WORKER), "../fake_nvml"), "")):
            self.variables["LD_LIBRARY_PATH"] = nvml
            for command, asked in ((["doctor"], "--catalogue"), (["list", "backends", "--plugin", "./mine.so"], plugin)):
                with self.subTest(nvml=nvml, command=command):
                    done = subprocess.run([DPBENCH, *command], cwd=self.directory, env=self.variables, capture_output=True, text=True, timeout=60, check=False)
                    self.assertIn("this is a fake", done.stdout, "without probing, the catalogue of the build applies")
                    with open(self.directory + "/asked", encoding="utf-8") as file:
                        self.assertEqual(file.read(), asked + words + "\n")
                    os.remove(self.directory + "/asked")

    def test_a_worker_that_dies_while_it_makes_a_model_is_asked_again_about_the_parameter_values_alone(self):
        worker = self.directory + "/dpbench-worker"
        shutil.copy(os.path.join(os.path.dirname(WORKER), "catalogue.json"), self.directory)
        with open(worker, "w", encoding="utf-8") as file:
            file.write(f"""#!/bin/sh\ncase "$*" in *'"workload"'*) kill -9 $$ ;; esac\nexec {shlex.quote(WORKER)} "$@"\n""")
        os.chmod(worker, 0o755)
        self.variables.update(DPBENCH_WORKER=worker)
        self.assertIn("fault=slow", self.run_it(*fault("slow"), "--dry-run").stdout)
        self.assertIn("contradicts", self.refused(*fault("contradiction"), "--dry-run"))

    def test_without_a_gpu_list_works_without_the_file_catalogue_json_if_a_plugin_is_given(self):
        worker = self.directory + "/dpbench-worker"
        with open(worker, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\nexec {shlex.quote(WORKER)} "$@"\n')
        os.chmod(worker, 0o755)
        for name in ("libnvidia-ml.so.1", "mine.so"):  # both files are empty, so neither a driver nor a plug-in loads
            open(f"{self.directory}/{name}", "w").close()
        self.variables.update(DPBENCH_WORKER=worker, LD_LIBRARY_PATH=self.directory)
        self.assertIn("shm", self.run_it("list", "backends", "--plugin", "./mine.so").stdout)
        self.assertIn("catalogue.json", self.refused("list", "backends"))

    def test_without_its_library_for_python_dpbench_refuses_python_files_and_says_what_to_build(self):
        worker = shutil.copy(WORKER, self.directory + "/dpbench-worker")  # a folder without libdpbench_python.so
        open(self.directory + "/mine.py", "w").close()
        self.variables.update(DPBENCH_WORKER=worker)
        for words in (("--plugin", "./mine.py", "--strategy", "mine"), ("--strategy", "py-ddp")):
            said = self.refused(*words)
            self.assertRegex(said, r"libdpbench_python\.so .*/libexec/dpbench/python\b.*\bdpbench_python\b")

    def test_a_plugin_writable_by_others_is_rejected(self):
        path = self.directory + "/x.so"
        open(path, "w").close()
        os.chmod(path, 0o666)
        self.assertIn("x.so", self.refused("--plugin", "./x.so"))

    def test_a_plugin_in_a_folder_writable_by_others_is_rejected(self):
        folder = self.directory + "/shared"
        os.makedirs(folder)
        path = folder + "/x.so"
        open(path, "w").close()
        os.chmod(path, 0o644)
        for mode in (0o777, 0o775, 0o757):
            os.chmod(folder, mode)
            message = self.refused("--plugin", "./shared/x.so")
            self.assertIn(os.path.realpath(folder), message)
            self.assertIn("chmod go-w", message)
        for mode in (0o755, 0o1777):  # the sticky bit, as on /tmp, keeps users from replacing each other's files
            os.chmod(folder, mode)
            self.run_it("--plugin", "./shared/x.so", "-n")

    @unittest.skipUnless(os.geteuid() == 0, "only root can change a file's owner")
    def test_a_plugin_of_another_user_is_rejected(self):
        folder = self.directory + "/theirs"
        os.mkdir(folder, 0o755)
        path = folder + "/x.so"
        with open(path, "w", encoding="utf-8"):
            os.chmod(path, 0o644)
        for given in (path, folder):
            os.chown(given, 12345, 12345)
            message = self.refused("--plugin", "./theirs/x.so")
            self.assertRegex(message, rf"{re.escape(os.path.realpath(given))} .*\b12345\b")
            os.chown(given, 0, 0)
        self.run_it("--plugin", "./theirs/x.so", "-n")

    def test_plugins_are_loaded_by_the_worker_and_broken_ones_rejected(self):
        open(self.directory + "/mine.so", "w").close()
        open(self.directory + "/broken.so", "w").close()
        self.run_it("--plugin", "./mine.so", "-n")
        self.assertIn("cannot load it", self.refused("--plugin", "./broken.so"))

    def test_a_usage_error_found_by_the_worker_leaves_no_files(self):
        self.assertIn("'usage'", self.refused("-q", *fault("usage")))
        self.refused("-q", *fault("usage"), "--out", "deep/er")
        self.assertEqual(os.listdir(self.directory), [], "an empty results directory was left")
        os.mkdir(self.directory + "/results")
        self.refused("-q", *fault("usage"))
        self.assertEqual(os.listdir(self.directory), ["results"], "an existing directory stays")

    def test_cases_with_more_replicas_than_cores_warn_of_a_speedup_ceiling(self):
        cores = len(os.sched_getaffinity(0))
        report = json.loads(self.run_it("--workload", "toy", "--strategy", "ddp", "--cpus", f"1,{cores + 1}", "--threads", "1", "--quick", "-o",
                                        "json").stdout)
        for case in report["cases"]:
            message = [text for text in case["warnings"] if "ceiling" in text]
            self.assertEqual(len(message), 1 if case["world"] > cores else 0, case["id"])
            if message:
                self.assertRegex(message[0], rf"^ceiling {cores}\.00x: {cores + 1} replicas .*\b{cores} cores")

    def test_cpu_load_of_other_programs_is_recorded_per_launch_and_stated_once_per_run(self):
        other = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        self.addCleanup(other.wait)
        self.addCleanup(other.kill)
        done = self.run_it(*fault("slow"), "--launches", "2", "-o", "json")
        self.assertNotIn("other work is running", done.stderr)
        report = json.loads(done.stdout)
        (case,) = report["cases"]
        for launch in case["launches"]:
            self.assertGreater(launch["others"]["programs"], 0.25)
        self.assertRegex(report["disturbance"], r"\b\d+\.\d (to \d+\.\d )?of \d+ cores\b.*\b1 of 1\b")
        self.assertFalse(any("other programs" in text for text in case["warnings"]), case["warnings"])

    def test_a_run_with_a_failed_check_exits_1(self):
        self.run_it("--param", "ddp.fault=wrong", "--param", "ddp.rank=0", "--strategy", "ddp", "--workload", "toy", "--cpus", "2", "--quick", code=1)

    def test_the_flag_samples_sets_timed_blocks_per_launch_and_check_off_runs_no_checks(self):
        report = json.loads(self.run_it("--workload", "toy", "--strategy", "cpu", "--launches", "2", "--samples", "4", "-o", "json").stdout)
        (case,) = report["cases"]
        self.assertEqual([len(launch["ranks"][0]["samples_ns"]) for launch in case["launches"]], [4, 4])
        self.assertEqual([check["name"] for check in case["checks"]], ["gradient-vs-baseline"], "in the first launch only")
        report = json.loads(self.run_it("--workload", "toy", "--strategy", "cpu", "--quick", "--check", "off", "-o", "json").stdout)
        self.assertEqual(report["cases"][0]["checks"], [])

    def test_a_report_of_a_million_nested_brackets_is_rejected_at_once(self):
        with open(self.directory + "/deep.json", "w") as file:
            file.write("[" * 1000000)
        began = time.monotonic()
        self.assertRegex(self.refused("validate", "deep.json"), r"deep\.json.*\b64\b")
        self.assertRegex(self.refused("compare", "deep.json", "deep.json"), r"deep\.json.*\b64\b")
        self.assertLess(time.monotonic() - began, 2 * 3 * 1)

    def test_concurrent_runs_get_their_own_directories(self):
        runs = [self.start("--workload", "toy", "--quick", "-o", "none") for _ in range(4)]
        for run in runs:
            run.communicate(timeout=60)
            self.assertEqual(run.returncode, 0)
        paths = glob.glob(self.directory + "/results/*/run.json")
        self.assertEqual(len(paths), 4)
        for path in paths:
            with open(path) as file:
                self.assertEqual(json.load(file)["status"], "complete")

    def test_a_terminal_gets_a_progress_line_and_colours_unless_no_color_is_set(self):
        self.variables["TERM"] = "xterm"
        for no_color, coloured in (("", True), ("1", False)):
            self.variables["NO_COLOR"] = no_color
            ours, theirs = pty.openpty()
            subprocess.run([DPBENCH, "--workload", "toy", "--quick", "--out", f"r{no_color}"], cwd=self.directory, env=self.variables,
                           stdout=theirs, stderr=theirs, timeout=60, check=True)
            os.close(theirs)
            text = read_terminal(ours)
            self.assertIn(b"\r\x1b[K", text)
            before, table, _ = text.partition("toy · CPU".encode())
            self.assertTrue(table and before.endswith((b"\n", b"\x1b[K")), "the table starts on a line of its own")
            self.assertEqual(b"\x1b[32mok" in text, coloured)

    def test_plain_progress_prints_a_line_per_case(self):
        done = self.run_it("--workload", "toy", "--quick", "--cpus", "2")
        self.assertEqual(len(re.findall(r"^\d/2 · ", done.stderr, re.M)), 2, done.stderr)
        self.assertNotIn("\x1b", done.stderr)
        done = self.run_it("--workload", "toy", "--strategy", "ddp", "--cpus", "2", "--launches", "2", "--samples", "2")
        self.assertEqual(re.findall(r"^(\d/\d) · ", done.stderr, re.M), ["1/2", "2/2"], done.stderr)

    def test_list_shows_names_parameters_and_why_a_backend_is_missing(self):
        self.assertIn("ddp", self.run_it("list").stdout)
        self.assertIn("DEFAULT", self.run_it("list", "ddp").stdout)
        # --accumulate is a flag that ddp supports, not one of its parameters.
        self.assertIn("--accumulate", self.run_it("list", "ddp").stdout)
        self.assertIn("this is a fake", self.run_it("list", "backends").stdout)
        self.variables["COLUMNS"] = "80"
        for words in (["list"], ["list", "ddp"], ["list", "toy"]):
            for line in self.run_it(*words).stdout.splitlines():
                self.assertLessEqual(len(line), 80, line)
        everything = json.loads(self.run_it("list", "-o", "json").stdout)
        self.assertEqual([entry["name"] for entry in everything["strategies"]], ["cpu", "gpu", "ddp"])
        self.assertEqual(json.loads(self.run_it("list", "toy", "-o", "json").stdout)["batch"], 8)
        self.refused("list", "toi", "-o", "json")

    def test_doctor_names_a_missing_library_and_a_missing_worker(self):
        self.run_it("doctor")
        broken = self.directory + "/broken-worker"
        with open(broken, "w") as file:
            file.write("#!/bin/sh\necho libtorch_cpu.so: cannot open shared object file >&2\nexit 127\n")
        os.chmod(broken, 0o755)
        self.variables["DPBENCH_WORKER"] = broken
        self.assertIn("libtorch_cpu.so", self.run_it("doctor", code=2).stdout)
        self.variables["DPBENCH_WORKER"] = "/nowhere/dpbench-worker"
        self.assertIn("scripts/dpbench", self.run_it("doctor", code=2).stdout)
        self.assertIn("DPBENCH_WORKER", self.refused("--cpus", "1"))

    def test_doctor_suggests_a_command_for_each_missing_part(self):
        self.variables["LD_LIBRARY_PATH"] = self.directory
        open(self.directory + "/libnvidia-ml.so.1", "w").close()  # a broken GPU driver: an empty file
        message = {check["what"]: check for check in json.loads(self.run_it("doctor", "-o", "json").stdout)}
        self.assertIn(f"{shlex.quote(DPBENCH)} --strategy ddp --cpus 2", message["GPUs"]["remedy"])
        self.assertIn("this is a fake", message["backend nccl"]["found"])
        self.assertEqual(message["backend nccl"]["remedy"], "python3 -m venv torch && torch/bin/pip install torch==2.11.0 && "
                         "DPBENCH_TORCH=torch scripts/dpbench doctor")

    def test_doctor_names_the_interpreter_of_python_files_and_its_torch_without_importing_torch(self):
        def put(name, text):
            path = os.path.join(self.directory, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            os.chmod(path, 0o755)
            return path

        def found(*words, code=0):
            return {check["what"]: check for check in json.loads(self.run_it("doctor", *words, "-o", "json", code=code).stdout)}["Python"]

        self.variables["DPBENCH_WORKER"] = put("dpbench-worker", f'#!/bin/sh\nexec {shlex.quote(WORKER)} "$@"\n')
        shutil.copy(os.path.join(os.path.dirname(WORKER), "catalogue.json"), self.directory)
        self.assertIn("libdpbench_python.so", found()["found"])
        put("python/libdpbench_python.so", "")
        bare = put("bare", f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
        self.assertEqual(found("--python", bare, code=2)["state"], "MISSING")
        put("torch/__init__.py", "raise SystemExit('imported')\n")
        python = put("tools/python3", f'#!/bin/sh\nPYTHONPATH={self.directory} exec {sys.executable} "$@"\n')
        self.variables["PATH"] = f"{self.directory}/tools:{os.environ['PATH']}"
        for version, state, remedy in (("2.11.0+cpu", "ok", ""), ("2.12.1+cu130", "note", f"DPBENCH_TORCH={self.directory}/torch scripts/dpbench")):
            put("torch/version.py", f"__all__ = ['__version__']\n__version__ = '{version}'\n")
            with self.subTest(version):
                check = found()
                self.assertEqual(check["state"], state)
                self.assertRegex(check["found"], f"^{re.escape(python)}, torch {re.escape(version)}, .*(2\\.11\\.0|is built)")
                self.assertIn(remedy, check["remedy"])
        self.assertEqual(found("--python", "tools/python3", code=2)["state"], "MISSING")
        self.variables["PATH"] = self.directory
        self.assertIn("torch==2.11.0", found()["remedy"])
        self.assertIn("no python3 on PATH", found()["found"])

    def test_doctor_fails_if_the_results_directory_cannot_be_used(self):
        found = lambda code: {check["what"]: check for check in json.loads(self.run_it("doctor", "-o", "json", code=code).stdout)}["results directory"]
        self.assertIn("working directory", found(0)["found"])
        os.mkdir(self.directory + "/results")
        self.assertIn("results", found(0)["found"])
        os.rmdir(self.directory + "/results")
        open(self.directory + "/results", "w").close()
        status = found(2)
        self.assertEqual(status["state"], "MISSING")
        self.assertIn("results", status["found"])
        self.assertIn("results", self.refused("--quick"))

    def test_dpbench_env_prints_each_list_of_values_in_one_line_and_why_gpus_and_cuda_are_missing(self):
        open(self.directory + "/libnvidia-ml.so.1", "w").close()  # a broken GPU driver: an empty file
        self.variables["LD_LIBRARY_PATH"] = self.directory
        message = self.run_it("env").stdout
        self.assertRegex(message, r"(?m)^cpu/usable +\S")
        self.assertRegex(message, r"(?m)^cpu/flags +\w+ \w+")
        self.assertNotIn("cpu/flags/", message)
        self.assertRegex(message, r"(?m)^gpus +none\b")
        self.assertRegex(message, r"(?m)^versions/cuda +13\.0 \(.*this is a fake\)$")
        self.assertRegex(message, r"(?m)^versions/nccl +2\.28\.9 \(.*this is a fake\)$")
        self.assertRegex(message, r"(?m)^versions/torch +2\.11\.0$")

    def test_dpbench_env_prints_json_on_request(self):
        self.assertIn("fingerprint", json.loads(self.run_it("env", "-o", "json").stdout))


if __name__ == "__main__":
    main()
