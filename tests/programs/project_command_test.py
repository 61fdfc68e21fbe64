"""project_command_test.py DPBENCH: tests the program `dpbench project`: every output format is marked as a projection,
errors are one line, and charts distinguish projected from measured cases."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import reports
import sample_runs

PROGRAM = os.path.abspath(sys.argv.pop(1))
sys.path[:0] = [str(pathlib.Path(__file__).parents[2] / "scripts/charts")]
LINK = ("--link", "intra=450GB/s:2us,inter=50GB/s:10us", "--hosts", "8")


class ProjectCommand(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dpbench-project-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.run_file = self.put("run.json", sample_runs.scaled())

    def put(self, name, content):
        path = os.path.join(self.folder, name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(content, file)
        return path

    def project(self, *words, code=0):
        done = subprocess.run([PROGRAM, "project", *words], cwd=self.folder, text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def test_project_marks_its_output_as_a_projection_in_every_format(self):
        for form in ("table", "markdown"):
            text = self.project("run.json", "--to", "8,64,512,4096", *LINK, "-o", form).stdout
            self.assertIn("PROJECTION", text)
            self.assertEqual(text.count(" projected"), 4)
            self.assertEqual(text.count(" measured "), 3)
        document = reports.expect_valid(self.project("run.json", "--to", "8,64", *LINK, "-o", "json").stdout)
        self.assertEqual((document["schema"], document["projected"]), ("dpbench.projection", True))
        self.assertEqual([(case["world"], case["projected"]) for case in document["series"][0]["cases"]], [(8, True), (64, True)])

    def test_project_predicts_a_measured_world_left_out_of_the_fit(self):
        self.put("run.json", sample_runs.scaled((1, 2, 3, 8)))
        document = json.loads(self.project("run.json", "--from", "1,2,3", "--to", "8", "-o", "json").stdout)
        (case,) = document["series"][0]["cases"]
        self.assertEqual(case["measured_step_ns"], 17e6)
        self.assertAlmostEqual(case["stats"]["step_time_ns"]["median"] / 17e6, 1, places=4)

    def test_project_names_a_wrong_flag_or_value_in_one_error_line(self):
        self.put("two.json", sample_runs.scaled((1, 2)))
        self.put("old.json", sample_runs.usual())
        twice = sample_runs.scaled()
        twice["cases"].append(twice["cases"][1])
        self.put("twice.json", twice)
        self.put("strong.json", self.strong(6))
        for words, said in ((("run.json",), "--to"), (("two.json", "--to", "8"), "1, 2"), (("absent.json", "--to", "8"), "absent"),
                            (("old.json", "--to", "8"), "collectives"), (("run.json", "run.json", "--to", "8"), "one run"),
                            (("run.json", "--to", "8", "--link", "intra=450:2us"), "450"),
                            (("run.json", "--to", "8", "--link", ""), "--link"), (("twice.json", "--to", "8"), "twice"),
                            (("strong.json", "--to", "8,16"), r"\b6\b.*\b8 ranks"),
                            (("run.json", "--to", "8", "--link", "nvlink=450GB/s:2us"), "'nvlink'"),
                            (("run.json", "--to", "12", *LINK), r"\b8\b"), (("run.json", "--to", "8", "--hosts", "8"), "--link"),
                            (("run.json", "--to", "8", *LINK[:2]), "--hosts"), (("run.json", "--to", "0"), "--to"),
                            (("run.json", "--to", "8", "--filter", "zero1"), "zero1"), (("run.json", "--to", "8", "--algorithm", "rings"), "rings"),
                            (("run.json", "--to", "8", "--algorithm", "hierarchical"), "--hosts"),
                            (("run.json", "--from", "1,2", "--to", "8"), "three")):
            with self.subTest(words=words):
                done = self.project(*words, code=2)
                self.assertEqual(done.stdout, "")
                self.assertRegex(done.stderr, said)
                self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def strong(self, batch):
        """Returns a report of the same run as if it had been measured under strong scaling."""
        run = sample_runs.scaled()
        for case in run["cases"]:
            case["id"] = case["id"].replace("/weak/b64/", f"/strong/b{batch}/")
            case["scaling"], case["batch"] = "strong", batch
        return run

    def test_project_leaves_out_worlds_that_the_strategy_cannot_run(self):
        self.put("strong.json", self.strong(6))
        done = self.project("strong.json", "--to", "4,6,7", "-o", "json")
        document = json.loads(done.stdout)
        self.assertEqual([case["world"] for case in document["series"][0]["cases"]], [4, 6])
        (entry,) = document["left_out"]
        self.assertRegex(entry, r"^ddp/mnist-mlp/cpu:7/shm/strong/b6/f32/fast: .*\b6\b.*\b7 ranks")
        self.assertIn(entry, done.stderr)

    def test_project_gives_no_confidence_interval_if_a_measured_case_has_none(self):
        run = sample_runs.scaled()
        run["cases"][2]["stats"]["step_time_ns"] |= {"interval": "none", "ci95_low": None, "ci95_high": None}
        self.put("run.json", run)
        table = self.project("run.json", "--to", "8").stdout
        self.assertRegex(table, r"8  projected +17\.00 +- ")
        self.assertIn("no interval", table)
        document = reports.expect_valid(self.project("run.json", "--to", "8", "-o", "json").stdout)["series"][0]
        step = document["cases"][0]["stats"]["step_time_ns"]
        self.assertEqual((step["ci95_low"], step["ci95_high"], step["interval"]), (None, None, "none"))
        self.assertEqual([figure["ci95"] for figure in document["fit"].values() if isinstance(figure, dict)], [None] * 3)

    def test_charts_do_not_mix_projected_cases_with_measured_ones(self):
        import data
        import tables
        import words
        self.put("run.json", sample_runs.scaled((1, 2, 3, 8)))
        self.put("projection.json", json.loads(self.project("run.json", "--to", "8,64", "-o", "json").stdout))
        runs = data.read_runs([self.run_file])
        data.add_projection(runs, os.path.join(self.folder, "projection.json"))
        cases = data.newest(runs)
        data.label(cases)
        self.assertEqual(sorted((case.world, case.projected, case.series) for case in cases if case.strategy == "ddp"),
                         [(1, False, "ddp"), (2, False, "ddp"), (3, False, "ddp"), (8, False, "ddp"), (8, True, "ddp (projection)"),
                          (64, True, "ddp (projection)")])
        self.assertTrue(all(case.measured and case.rows_per_s for case in cases))
        self.assertEqual({tuple(case.raw["fitted"]) for case in cases if case.projected}, {(1, 2, 3, 8)})
        html = str(tables.cases(runs))
        self.assertEqual(html.count(">projection<"), 2)
        self.assertIn("3 launches", words.source(cases))
        self.assertIn("nothing measured", words.source([case for case in cases if case.projected]))


if __name__ == "__main__":
    unittest.main()
