"""Tests python -m dpbench.export without the libraries of the experiment trackers: which reports it accepts, which
figures it exports, and what it passes to a stub of wandb."""
import contextlib
import io
import json
import pathlib
import sys
import tempfile
import tomllib
import types
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "strategies/python")]

import sample_runs
from dpbench.export import __main__ as program
from dpbench.export import cases


class Recorder(types.ModuleType):
    """Stub of the library wandb that records its calls."""

    def __init__(self):
        super().__init__("wandb")
        self.runs, self.Settings, self.Artifact = [], dict, mock.MagicMock()

    def init(self, **given):
        run = mock.MagicMock(given=given)
        run.__enter__.return_value = run
        self.runs.append(run)
        return run


class Exporters(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dpbench-export-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def put(self, content):
        path = self.folder / "run.json"
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return path

    def read(self, report):
        return cases.read(self.put(report))

    def export(self, tool, report, modules):
        """Exports a report with `modules` in place of the trackers' libraries. Returns the exit code and stderr."""
        errors = io.StringIO()
        loaded = {name: module for name, module in sys.modules.items() if not name.startswith("dpbench.export.to_")}
        with mock.patch.dict(sys.modules, loaded | modules, clear=True), mock.patch.dict("os.environ"), \
                contextlib.redirect_stderr(errors):
            code = program.main([tool, str(self.put(report)), str(self.folder / "out")])
        return code, errors.getvalue()

    def test_an_exported_case_has_its_figures_with_intervals_and_its_parameters(self):
        made = sample_runs.case(params={"bucket_mb": "1"}, checks=[sample_runs.check(), sample_runs.FAILED])
        made["derived"] |= {"speedup_low": 1.5, "wrapper_cost": None}
        case = self.read(sample_runs.report([made])).cases[0]
        expected = {"median": 1e6, "ci95_low": 960000, "ci95_high": 1040000, "n": 15}
        self.assertEqual({name: case.figures[f"step_time_ns/{name}"] for name in expected}, expected)
        self.assertEqual((case.figures["derived/speedup_low"], case.figures["checks/failed"]), (1.5, 1))
        self.assertNotIn("derived/wrapper_cost", case.figures)
        settings = case.settings
        self.assertEqual((settings["strategy"], settings["param.bucket_mb"], settings["batch"]), ("ddp", "1", 64))
        self.assertFalse({"status", "reason", "clip_norm", "data_dir"} & set(settings))

    def test_exported_curves_use_the_slowest_rank_of_each_block_and_place_accuracies_at_the_end_of_epochs(self):
        made = sample_runs.case("ddp", world=2, launches=2, samples=2)
        for launch, times in zip(made["launches"], (([100, 400], [300, 200]), ([500, 500], [10, 600]))):
            launch["ranks"][0]["samples_ns"], launch["ranks"][1]["samples_ns"] = times
        made["training"] = sample_runs.trained_for(4, 0, [0.7, 0.85])
        curves = self.read(sample_runs.report([made])).cases[0].curves
        self.assertEqual(curves["block/step_ns"], [(1, 30), (2, 40), (3, 50), (4, 60)])
        self.assertEqual(curves["accuracy"], [(750, 0.7), (1000, 0.85)])
        self.assertEqual((len(curves["loss"]), curves["loss"][0]), (1000, (1, 2.5)))

    def test_exported_tags_name_the_machine_the_commit_and_the_users_tags(self):
        report = sample_runs.troubled()
        report["config"]["tags"] = {"branch": "main"}
        run = self.read(report)
        self.assertEqual((run.tags["commit"], run.tags["machine"], run.tags["tag.branch"]),
                         ("a1b2c3d", report["env"]["fingerprint"], "main"))
        failed = next(case for case in run.cases if case.tags["status"] == "failed")
        self.assertIn("SIGKILL", failed.tags["reason"])
        self.assertEqual((failed.ok, failed.tags["run"], run.time_s), (False, run.name, 1795242657))

    def test_a_report_without_an_end_time_is_exported_with_its_start_time_as_end(self):
        report = sample_runs.usual()
        for ended, seconds in (({"ended": "2026-11-21T06:31:58Z"}, 61), ({"ended": None}, 0), ({}, 0)):
            run = self.read(report | ended)
            self.assertEqual(run.end_s - run.time_s, seconds)

    def test_wandb_gets_a_run_for_each_case_and_one_with_the_report(self):
        recorder, report = Recorder(), sample_runs.trained()
        report["cases"][2]["training"]["loss_curve"][499] = None  # the last loss of an epoch is not finite
        code, said = self.export("wandb", report, {"wandb": recorder})
        self.assertEqual(code, 0, said)
        *each, whole = recorder.runs
        self.assertEqual([run.given["name"] for run in each], [case["id"] for case in report["cases"]])
        self.assertEqual({run.given["group"] for run in recorder.runs}, {report["id"]})
        self.assertEqual({run.given["mode"] for run in recorder.runs}, {"offline"})
        self.assertEqual(len({run.given["id"] for run in recorder.runs}), len(recorder.runs))
        self.assertEqual(each[0].summary.update.call_args.args[0]["step_time_ns/median"], 1e6)
        steps = [call.kwargs["step"] for call in each[2].log.call_args_list]
        self.assertEqual(steps, sorted(set(steps)), "W&B drops values of an earlier step")
        whole.log_artifact.assert_called_once_with(recorder.Artifact.return_value)
        recorder.Artifact.return_value.add_file.assert_called_once_with(str(self.folder / "run.json"), name="run.json")

    def test_export_without_the_experiment_trackers_library_exits_2_and_prints_how_to_install_it(self):
        for tool in program.TOOLS:
            code, said = self.export(tool, sample_runs.usual(), {tool: None})
            self.assertEqual((code, said.count("\n")), (2, 1), said)
            self.assertIn(f"{sys.executable} -m pip install {tool}\n", said)
        self.assertFalse((self.folder / "out").exists())

    def test_the_python_wheel_has_an_optional_dependency_for_each_experiment_tracker(self):
        with open(ROOT / "scripts/wheel/pyproject.toml", "rb") as file:
            extras = tomllib.load(file)["project"]["optional-dependencies"]
        self.assertEqual({tool: extras.get(tool) for tool in program.TOOLS}, {tool: [tool] for tool in program.TOOLS})

    def test_export_to_an_experiment_tracker_refuses_a_file_that_is_not_a_valid_report_of_a_run(self):
        newer, elsewhere, torn = sample_runs.usual(), sample_runs.usual(), sample_runs.usual()
        newer["schema_version"]["major"] = 2
        elsewhere["id"] = "20261121T063057Z-a/../../b"
        del torn["cases"][1]["status"]
        duel = json.loads((ROOT / "tests/golden/duel-1.1.json").read_text(encoding="utf-8"))
        whole = json.dumps(sample_runs.usual())
        for content, why in ((whole[:len(whole) // 2], "not JSON"), ("[" * 99999, "not JSON"), ("[]", "dpbench.run"),
                             (duel, "dpbench.run"), (newer, "major version 1"), (elsewhere, "<UTC time>"),
                             (torn, "'status'"), (sample_runs.conformance(), "<UTC time>")):
            with self.subTest(why=why):
                code, said = self.export("wandb", content, {"wandb": Recorder()})
                self.assertEqual((code, said.count("\n")), (2, 1), said)
                self.assertTrue(said.startswith(f"dpbench: {self.folder}/run.json: "), said)
                self.assertIn(why, said)
        self.assertFalse((self.folder / "out").exists())


if __name__ == "__main__":
    unittest.main()
