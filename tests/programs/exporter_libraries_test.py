"""exporter_libraries_test.py [RUN.json]: exports a run for MLflow, W&B and TensorBoard with their libraries,
offline, and reads it back with them. Exits 77 if one of the libraries is missing. RUN.json: a real run; without it, a
made-up one is exported."""
import importlib.util
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "strategies/python"
sys.path[:0] = [str(PACKAGE)]

import sample_runs
from dpbench.export import cases

GIVEN = os.path.abspath(sys.argv.pop(1)) if len(sys.argv) > 1 else None


def needs(library):
    return unittest.skipUnless(importlib.util.find_spec(library), f"no {library} in {sys.executable}")


def records_of(path):
    """Yields the bytes of each record of a .wandb file, which is a log in LevelDB's format with a header of 7 bytes."""
    content, place, record, block = path.read_bytes(), 7, b"", 32768
    while place + 7 <= len(content):
        if block - place % block < 7:
            place += block - place % block  # skip the padding: a record's header does not fit there
            continue
        size, kind = int.from_bytes(content[place + 4:place + 6], "little"), content[place + 6]
        record += content[place + 7:place + 7 + size]
        place += 7 + size
        if kind in (1, 4):  # kind 1: a whole record; 4: its last part
            yield record
            record = b""


class Libraries(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dpbench-export-")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.file = pathlib.Path(GIVEN or self.folder / "made.json")
        if not GIVEN:
            self.file.write_text(json.dumps(sample_runs.trained() | {"ended": "2026-11-21T06:31:58Z"}), encoding="utf-8")
        self.run_read = cases.read(self.file)

    def export(self, tool, code=0):
        """Exports in a process whose home is a folder of the test and whose HTTP proxies refuse connections, so that no
        library uses the user's settings or the network."""
        nowhere = "http://127.0.0.1:9"
        environment = dict(os.environ, PYTHONPATH=str(PACKAGE), HOME=str(self.folder / "home"), HTTPS_PROXY=nowhere,
                           HTTP_PROXY=nowhere)
        command = [sys.executable, "-B", "-m", "dpbench.export", tool, self.file, self.folder / "out"]
        done = subprocess.run(command, text=True, capture_output=True, check=False, env=environment, timeout=240)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stderr

    def assert_a_second_export_is_refused(self, tool):
        self.assertRegex(self.export(tool, code=2), rf"{re.escape(str(self.folder / 'out'))}.*\balready\b.*\n$")

    @needs("mlflow")
    def test_mlflow_reads_back_every_exported_case_and_the_report(self):
        self.export("mlflow")
        from mlflow import MlflowClient
        client = MlflowClient(tracking_uri=f"sqlite:///{self.folder}/out/mlflow.db")
        experiment = client.get_experiment_by_name("dpbench").experiment_id
        found = {run.info.run_name: run for run in client.search_runs([experiment])}
        whole = found.pop(self.run_read.name)
        times = int(1000 * self.run_read.time_s), int(1000 * self.run_read.end_s)
        self.assertEqual((whole.info.start_time, whole.info.end_time), times)
        self.assertEqual(set(found), {case.name for case in self.run_read.cases})
        for case in self.run_read.cases:
            run = found[case.name]
            self.assertEqual({name: run.data.metrics[name] for name in case.figures}, case.figures)
            self.assertEqual(run.data.params, {name: str(value) for name, value in case.settings.items()})
            self.assertEqual(run.data.tags["mlflow.parentRunId"], whole.info.run_id)
            self.assertLessEqual(case.tags.items(), run.data.tags.items())
            self.assertEqual(run.info.status, "FINISHED" if case.ok else "FAILED")
            self.assertEqual((run.info.start_time, run.info.end_time), times)
            for name, curve in case.curves.items():
                history = client.get_metric_history(run.info.run_id, name)
                self.assertEqual([(one.step, one.value) for one in history], curve)
        stored = client.download_artifacts(whole.info.run_id, "run.json", str(self.folder))
        self.assertEqual(pathlib.Path(stored).read_bytes(), self.file.read_bytes())
        self.assert_a_second_export_is_refused("mlflow")

    @needs("wandb")
    def test_the_offline_files_of_wandb_hold_every_case_and_the_report(self):
        self.export("wandb")
        from wandb.proto.wandb_internal_pb2 import Record
        found, artifacts = {}, []
        for path in self.folder.glob("out/wandb/offline-run-*/*.wandb"):
            records = [Record.FromString(one) for one in records_of(path)]
            (run,) = [one.run for one in records if one.WhichOneof("record_type") == "run"]
            found[run.display_name] = run, records
            artifacts += [one.artifact for one in records if one.HasField("artifact")]
        self.assertEqual(set(found), {case.name for case in self.run_read.cases} | {self.run_read.name})
        for case in self.run_read.cases:
            run, records = found[case.name]
            self.assertEqual(run.run_group, self.run_read.name)
            config = {item.key: json.loads(item.value_json) for item in run.config.update}
            self.assertEqual({name: config[name] for name in case.settings}, case.settings)
            self.assertEqual(config["tags"], case.tags)
            summary = {item.key or item.nested_key[0]: json.loads(item.value_json)
                       for one in records for item in one.summary.update}
            self.assertEqual({name: summary[name] for name in case.figures}, case.figures)
            history = [(one.history.step.num, item) for one in records for item in one.history.item]
            for name, curve in case.curves.items():
                self.assertEqual([(step, json.loads(item.value_json)) for step, item in history
                                  if name in (item.key, *item.nested_key)], curve)
        (artifact,) = artifacts
        (entry,) = artifact.manifest.contents
        self.assertEqual((entry.path, entry.size), ("run.json", self.file.stat().st_size))
        staged = [path for path in self.folder.glob("out/artifacts/staging/*") if path.is_file()]
        self.assertEqual([path.read_bytes() for path in staged], [self.file.read_bytes()])
        self.assertFalse((self.folder / "home").exists(), "all files are in the folder")
        self.assert_a_second_export_is_refused("wandb")

    @needs("tensorboard")
    def test_tensorboard_reads_back_every_exported_case_and_the_report(self):
        self.export("tensorboard")
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
        from tensorboard.util import tensor_util
        for case in self.run_read.cases:
            folder = self.folder / "out" / self.run_read.name / case.name
            reader = EventAccumulator(str(folder), size_guidance={"tensors": 0})
            reader.Reload()
            def points(name):
                return [(one.step, tensor_util.make_ndarray(one.tensor_proto).item()) for one in reader.Tensors(name)]
            for name, curve in (*case.curves.items(), *((name, [(0, value)]) for name, value in case.figures.items())):
                for (step, value), (index, given) in zip(points(name), curve, strict=True):
                    self.assertEqual(step, index)
                    self.assertAlmostEqual(value, given, delta=1e-6 * abs(given))  # TensorBoard stores 32-bit floats
            self.assertIn(f"| commit | {case.tags['commit']} |", points("tags")[0][1].decode())
            self.assertTrue(reader.SummaryMetadata("_hparams_/session_start_info").plugin_data.content)
        stored = self.folder / "out" / self.run_read.name / "run.json"
        self.assertEqual(stored.read_bytes(), self.file.read_bytes())
        self.assert_a_second_export_is_refused("tensorboard")


if __name__ == "__main__":
    result = unittest.main(argv=sys.argv[:1], exit=False).result
    sys.exit(1 if not result.wasSuccessful() else 77 if result.skipped else 0)
