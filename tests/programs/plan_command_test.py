"""plan_command_test.py DPBENCH: tests the program `dpbench plan`: every format is marked as a prediction, memory limits and filters hold,
and bad input is refused in one line."""
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

import reports
import sample_runs

PROGRAM = os.path.abspath(sys.argv.pop(1))
LINK = ("--link", "intra=450GB/s:2us,inter=50GB/s:10us")
USUAL = ("--model", "llama-1b", "--gpus", "64", "--dtype", "bf16", "--rate", "400TF", *LINK)


class PlanCommand(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dpbench-plan-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def plan(self, *words, code=0, columns="", cpu_seconds=None):
        def limit():
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds))

        done = subprocess.run([PROGRAM, "plan", *words], cwd=self.folder, text=True, capture_output=True,
                              check=False, env={**os.environ, "COLUMNS": columns}, preexec_fn=limit if cpu_seconds else None)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def words(self, *words, code=0):
        return " ".join(self.plan(*words, code=code).stdout.split())

    def document(self, *words, code=0):
        return reports.expect_valid(self.plan(*words, "-o", "json", code=code).stdout)

    def put(self, content):
        with open(os.path.join(self.folder, "run.json"), "w", encoding="utf-8") as file:
            json.dump(content, file)

    def test_plan_says_in_every_output_format_that_nothing_was_measured(self):
        for form in ("table", "markdown"):
            text = self.plan(*USUAL, "--memory", "80GB", "-o", form).stdout
            self.assertRegex(text, r"\bPLAN\b.*\bnot measured\b")
            self.assertIn("--rate 400TF,", text)
            self.assertEqual(text.count(" check --workload gpt "), 3)
        document = self.document(*USUAL)
        self.assertEqual((document["schema"], document["projected"]), ("dpbench.plan", True))
        self.assertEqual({entry["projected"] for entry in document["layouts"] + document["front"] + document["best"]}, {True})
        svg = self.plan(*USUAL, "--memory", "80GB", "-o", "svg").stdout
        circles = xml.dom.minidom.parseString(svg).getElementsByTagName("circle")
        self.assertGreater(len(circles), 20)
        self.assertIn("--rate 400TF,", svg)
        self.assertEqual({circle.getAttribute("fill") for circle in circles}, {"white"})

    def test_plan_wraps_its_table_but_not_commands_or_markdown_at_80_columns(self):
        whole = self.plan(*USUAL, "--memory", "80GB").stdout
        folded = self.plan(*USUAL, "--memory", "80GB", columns="80").stdout
        lines = [line for line in folded.splitlines() if " --workload gpt " not in line]
        self.assertLessEqual(max(map(len, lines)), 80, folded)
        self.assertIn(" ".join(whole.partition("Predicted,")[2].split()), " ".join(folded.split()))
        markdown = self.plan(*USUAL, "-o", "markdown", columns="80").stdout
        self.assertNotIn("\n  ", markdown.partition("\n- ")[2], "Markdown stays whole")

    def test_plan_says_how_many_of_the_examined_layouts_it_shows(self):
        document = self.document(*USUAL, "--memory", "20GB")
        shown, examined = len(document["layouts"]), document["examined"]
        self.assertLess(shown, examined)
        for form in ("table", "markdown"):
            text = self.words(*USUAL, "--memory", "20GB", "-o", form)
            self.assertIn(f"{shown} of {examined} layouts are shown: those that no other layout with the same mesh and strategy beats", text)
            self.assertIn("and the smallest of each mesh and strategy of which none fits", text)
        drawn = re.search(rf"(\d+) of {examined} layouts, without (\d+) above 4 times the memory",
                          self.plan(*USUAL, "--memory", "20GB", "-o", "svg").stdout)
        self.assertEqual(int(drawn[1]) + int(drawn[2]), shown)
        self.assertRegex(self.words(*USUAL, "--memory", "10GB"), r"\d of \d+ layouts, without \d+ above 4 times the memory")
        mesh = self.words(*USUAL, "--memory", "20GB", "--mesh", "dp=64")
        self.assertIn("layouts are shown: all that fit", mesh)
        self.assertNotIn("layouts are shown", self.words(*USUAL, "--mesh", "dp=64"))

    def test_plan_of_4096_gpus_takes_seconds(self):
        words = ["4096" if word == "64" else word for word in USUAL]
        text = self.plan(*words, "--memory", "80GB", cpu_seconds=30).stdout
        self.assertIn("on 4096 GPUs", text)

    def test_the_parts_of_the_step_time_and_memory_that_plan_predicts_add_up(self):
        for entry in self.document(*USUAL)["layouts"]:
            self.assertAlmostEqual(sum(entry["time_s"].values()) / entry["step_s"], 1)
            parts = dict(entry["memory_bytes"])
            total = parts.pop("total")
            self.assertAlmostEqual(sum(parts.values()) / total, 1)

    def test_plan_marks_a_layout_as_fitting_if_its_memory_is_at_most_the_limit(self):
        document = self.document(*USUAL, "--memory", "20GB")
        self.assertGreater(document["too_large"], 0)
        for entry in document["layouts"]:
            self.assertEqual(entry["fits"], entry["memory_bytes"]["total"] <= 20e9, entry["layout"])
        none = self.plan(*USUAL, "--memory", "1GB", code=4).stdout
        self.assertRegex(none, r"(?m)^No layout\b.*=\d+.* [\d.]+ GB")

    def test_the_flags_mesh_and_strategy_restrict_the_layouts_that_plan_examines(self):
        document = self.document(*USUAL, "--mesh", "tp=8,shard=8")
        self.assertEqual({(entry["layout"]["mesh"], entry["layout"]["strategy"]) for entry in document["layouts"]},
                         {("shard=8,tp=8", "layout")})
        self.assertEqual(len(document["layouts"]), document["examined"])
        document = self.document(*USUAL, "--strategy", "ddp,zero1")
        self.assertEqual({entry["layout"]["strategy"] for entry in document["layouts"]}, {"ddp", "zero1"})

    def test_plan_takes_the_speed_of_a_device_from_a_stored_run(self):
        self.put(sample_runs.report([self.gpt_case(1, 1e6), self.gpt_case(4, 3e6)]))
        document = self.document("run.json", "--model", "small", "--cpus", "1", "--batch", "4")
        self.assertEqual(len(document["speed"]["rates"]), 2)
        self.assertIn("cpu/gpt", document["speed"]["fitted_to"])
        (measured,) = [entry for entry in document["layouts"] if entry["layout"]["rows"] == 4 and entry["layout"]["recompute"] == 0]
        self.assertAlmostEqual(measured["step_s"] / 3e-3, 1, places=6)

    def test_plan_says_that_a_given_rate_has_no_time_for_the_optimizer_and_memory_bound_operations(self):
        remark = "the optimizer and memory-bound operations take 0 s"
        self.assertIn(remark, self.words(*USUAL))
        self.put(sample_runs.report([self.gpt_case(1, 1e6)]))
        self.assertNotIn(remark, self.words("run.json", "--model", "small", "--cpus", "1", "--batch", "4"))

    def gpt_case(self, batch, step_ns):
        made = sample_runs.case("cpu", "gpt", 1, step_ns, batch=batch)
        for launch in made["launches"]:
            for rank in launch["ranks"]:
                rank["rows_per_step"] = batch
                rank["phases_ns"] = {"forward": 0.4 * (step_ns - 1e5), "backward": 0.6 * (step_ns - 1e5), "optimizer": 1e5}
        return made

    def test_plan_names_a_wrong_flag_or_value_in_one_error_line(self):
        self.put(sample_runs.usual())
        for words, said in ((("--rate", "1TF"), "--gpus"), (("--gpus", "8", "--rate", "1TF"), "--link"), (("--gpus", "8", *LINK), "latest"),
                            (("--gpus", "8", *LINK), "--rate 400TF"), (("latest", "--gpus", "8", *LINK), "--rate 400TF"),
                            (("--gpus", "8", "--rate", "1", *LINK), "'1'"), (("--gpus", "8", "--rate", "nanTF", *LINK), "nanTF"),
                            (("--gpus", "8", "--rate", "1TF", "--memory", "80", *LINK), "--memory '80'"),
                            (("--gpus", "12", "--rate", "1TF", *LINK), "12 devices"),
                            (("--gpus", "8", "--cpus", "8", "--rate", "1TF", *LINK), "--gpus"),
                            (("--gpus", "8", "--rate", "1TF", "--model", "tiny-experts", *LINK), "experts"),
                            (("--gpus", "8", "--rate", "1TF", "--model", "huge", *LINK), "huge"),
                            (("--gpus", "8", "--rate", "1TF", "--mesh", "dp=4", *LINK), "dp=4"),
                            (("--gpus", "8", "--rate", "1TF", "--strategy", "dp", *LINK), "--strategy"),
                            (("--gpus", "8", "--rate", "1TF", "--strategy", "ddp", "--mesh", "tp=8", *LINK), "--mesh and --strategy"),
                            (("--gpus", "8", "--rate", "1TF", "--threads", "2", *LINK), "--threads"),
                            (("--gpus", "1", "--rate", "1TF", "--link", "x"), "'x'"),
                            (("--gpus", "7", "--batch", "3", "--rate", "1TF", "--link", "intra=1GB/s:1us"), "no layout"),
                            (("run.json", "--gpus", "8", "--rate", "1TF", *LINK), "both"),
                            (("run.json", "--cpus", "2", *LINK[:1], "intra=1GB/s:1us"), " gpt"),
                            (("run.json", "--cpus", "2", *LINK[:1], "intra=1GB/s:1us"), "--rate 400TF")):
            with self.subTest(words=words):
                done = self.plan(*words, code=2)
                self.assertEqual(done.stdout, "")
                self.assertIn(said, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
