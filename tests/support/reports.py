"""Validates every report that dpbench writes to a temporary directory; importing this module is enough.

Reports are validated before the directory is removed, and a test with an invalid report fails. A key that the schema
does not describe is a fault, too."""
import json
import pathlib
import re
import subprocess
import tempfile

import check_schema

HERE = pathlib.Path(__file__).resolve().parent
RUN = re.compile(r"\d{8}T\d{6}Z-")  # a run's directory is named by its id, which begins with the start time


def _written_by_dpbench(folder):
    for path in sorted(pathlib.Path(folder).rglob("*.json")):
        if (path.name in ("run.json", "duel.json") and RUN.match(path.parent.name)) or path.parent.name == "baselines":
            yield path


def _faults(path):
    """Returns one line per fault of a document, by the schema of its kind."""
    try:
        name = json.loads(path.read_text(encoding="utf-8"))["schema"].removeprefix("dpbench.")
    except PermissionError:
        return []  # the report belongs to another user, so it cannot be read
    schema = HERE.parents[1] / f"results/schema/{name}-1.schema.json"
    try:
        return list(check_schema.faults_in([path], schema, closed=True))
    except ImportError:  # this Python may be one of a virtual environment without the module
        for python in ("python3", "/usr/bin/python3"):
            done = subprocess.run([python, HERE / "check_schema.py", "--closed", schema, path], text=True, capture_output=True, check=False)
            if done.returncode != 3:
                return [done.stdout + done.stderr] if done.returncode else []
        return ["no jsonschema module: apt-get install python3-jsonschema"]


def expect_valid(text):
    """Validates the text of a document that dpbench printed. Fails the test if it is invalid. Returns the document."""
    with tempfile.NamedTemporaryFile("w", encoding="utf-8", suffix=".json") as file:
        file.write(text)
        file.flush()
        if faults := _faults(pathlib.Path(file.name)):
            raise AssertionError("\n".join(faults))
    return json.loads(text)


class _Folder(tempfile.TemporaryDirectory):
    def cleanup(self):
        faults = [fault for path in _written_by_dpbench(self.name) for fault in _faults(path)]
        super().cleanup()
        if faults:
            raise AssertionError("\n".join(faults))


tempfile.TemporaryDirectory = _Folder
