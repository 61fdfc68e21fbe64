"""glossary_test.py DPBENCH FAKE_WORKER: every key of the schema, and of real reports, stands in results/README.md with its unit and meaning, and
nothing stands there that is in neither."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

import reports  # holds every report against its schema

DPBENCH, WORKER = (os.path.abspath(path) for path in sys.argv[1:3])
ROOT = pathlib.Path(__file__).resolve().parent.parent
SCHEMA = json.loads((ROOT / "results/schema/run-1.schema.json").read_text(encoding="utf-8"))
# Maps whose keys are names of something else; phases are named in a table of their own.
FREE = {"cases[].params", "env.variables", "cases[].phases.mean_step_ns", "cases[].launches[].ranks[].phases_ns",
        "cases[].launches[].ranks[].profile.strategy_figures", "config.params", "config.training"}


def schema_keys(node, path=""):
    """Paths of all properties, references followed."""
    if "$ref" in node:
        yield from schema_keys(SCHEMA["$defs"][node["$ref"].rpartition("/")[2]], path)
    for one in node.get("oneOf", []):
        yield from schema_keys(one, path)
    if isinstance(node.get("items"), dict):
        yield from schema_keys(node["items"], path + "[]")
    for key, value in node.get("properties", {}).items():
        here = f"{path}.{key}".lstrip(".")
        yield here
        yield from schema_keys(value, here)


def report_keys(value, path=""):
    if isinstance(value, list):
        for item in value:
            yield from report_keys(item, path + "[]")
    if isinstance(value, dict) and path not in FREE:
        for key, item in value.items():
            here = f"{path}.{key}".lstrip(".")
            yield here
            yield from report_keys(item, here)


def glossary():
    """Path of a key: its unit and meaning; the names of phases."""
    text = (ROOT / "results/README.md").read_text(encoding="utf-8")
    section = text.partition("## Every key of run.json\n")[2].partition("\n## ")[0]
    found, prefix = {}, ""
    for line in section.splitlines():
        if line.startswith("### "):
            prefix = "" if line == "### run.json" else line[4:] + "."
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if not line.startswith("|") or cells[0] in ("key", "---"):
            continue
        for key in re.findall(r"`([^`]+)`", cells[0]):
            found.setdefault(prefix + key, []).append(cells[1:])
    return found, text


class Glossary(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.found, cls.text = glossary()

    def unexplained(self, keys):
        # A part is explained by what stands in it.
        return sorted(key for key in set(keys) if key not in self.found
                      and not any(known.startswith((key + ".", key + "[")) for known in self.found))

    def test_explains_every_key_of_the_schema(self):
        keys = list(schema_keys(SCHEMA))
        self.assertGreater(len(keys), 200)
        self.assertEqual(self.unexplained(keys), [])

    def test_explains_every_key_of_a_report(self):
        reports = [json.loads(path.read_text(encoding="utf-8")) for path in (ROOT / "tests/golden").glob("*.json") if path.name != "run-1.0.json" and not path.name.startswith("duel-")]  # 1.0: its config was made up
        with tempfile.TemporaryDirectory() as out:
            done = subprocess.run([DPBENCH, "--workload", "toy", "--cpus", "1,2", "--quick", "-q", "-o", "json"], cwd=out, check=True, text=True,
                                  capture_output=True, env={**os.environ, "DPBENCH_WORKER": WORKER}, timeout=60)
        reports.append(json.loads(done.stdout))
        keys = [key for report in reports for key in report_keys(report)]
        self.assertEqual(self.unexplained(keys), [])

    def test_explains_every_phase(self):
        source = (ROOT / "strategies/phases.h").read_text(encoding="utf-8")
        names = re.findall(r'"(\w+)"', source.partition("phase_names = {")[2].partition("};")[0])
        self.assertEqual(len(names), 8)
        for name in names:
            self.assertRegex(self.text, rf"`(phases\.mean_step_ns)?\.{name}`")

    def test_names_a_unit_for_each_and_explains_it_once(self):
        for key, rows in self.found.items():
            self.assertEqual(len(rows), 1, key)
            self.assertTrue(rows[0][0], f"{key} has no unit")

    def test_explains_nothing_that_there_is_not(self):
        known = set(schema_keys(SCHEMA))
        options = (ROOT / "harness/front/options_json.cpp").read_text(encoding="utf-8") + '{"training"'
        sampling = (ROOT / "harness/report/protocol.cpp").read_text(encoding="utf-8")
        for key in self.found:
            if key.startswith("config.sampling."):
                self.assertIn(f'{{"{key[16:]}"', sampling)
            elif key.startswith("config."):
                self.assertIn(f'{{"{key[7:]}"', options)
            else:
                self.assertIn(key, known)


if __name__ == "__main__":
    program = unittest.main(argv=[sys.argv[0], *sys.argv[3:]], exit=False)
    sys.exit(0 if program.result.testsRun and program.result.wasSuccessful() else 1)
