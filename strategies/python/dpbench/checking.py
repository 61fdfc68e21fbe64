"""Calls dpbench from a test program or a notebook: runs the program and returns its report. Needs no torch."""
import json
import os
import subprocess
import sys
import tempfile

from dpbench import program
from dpbench.export import cases


class Wrong(AssertionError):
    """Raised by check() if a check of the strategy has failed. The text describes each failed check."""


def flags_of(flags):
    """Returns flags as on the command line: cpus=[1, 2] is --cpus 1,2, quick=True is --quick."""
    words = []
    for name, value in flags.items():
        if value is not False and value is not None:
            words.append("--" + name.replace("_", "-"))
            if value is not True:
                words.append(",".join(map(str, value)) if isinstance(value, (list, tuple)) else str(value))
    return words


def called(command, plugin, flags):
    """Calls dpbench with a report as its output. plugin: a file, or None. Returns the exit code and the report, or None
    as the report if dpbench printed none."""
    flags = {"python": sys.executable, **flags}
    if plugin is not None:
        flags["plugin"] = os.path.abspath(plugin)
    else:
        del flags["python"]
    with tempfile.TemporaryDirectory(prefix="dpbench-") as directory:
        if command == "run":
            flags.setdefault("out", os.path.join(directory, "run"))
        done = subprocess.run([program.find(), command, "-o", "json", *flags_of(flags)], stdout=subprocess.PIPE, text=True)
    return done.returncode, json.loads(done.stdout) if done.stdout.strip() else None


def words_of(case, row):
    """Returns a failed check in a line: its case, name, detail and the mistake that it looks like."""
    return f"{case['id']}: {row['name']}: {row.get('detail', '')}" + (f"; looks like: {row['likely']}" if row.get("likely") else "")


def check(plugin, strategy, **flags):
    """check("mine.py", "mine", workload="mnist-mlp", cpus=3) raises Wrong if a check fails, and RuntimeError if dpbench
    ends with another error. Returns the report."""
    code, report = called("check", plugin, {"strategy": strategy, **flags})
    failed = [words_of(case, row) for case in (report or {}).get("cases", []) for row in case["checks"] if row["status"] == "failed"]
    if failed:
        raise Wrong("\n".join(failed))
    if code:
        raise RuntimeError(f"dpbench check ended with {code}")
    return report


class Checks:
    """The checks of a strategy as pytest tests (dpbench.pytest_plugin). Takes the same arguments as check()."""

    def __init__(self, plugin, strategy, **flags):
        self.plugin, self.flags, self.found = plugin, {"strategy": strategy, **flags}, None

    def report(self, folder):
        """Returns the report. Runs dpbench on the first call only. folder: the base of a relative plug-in path."""
        if self.found is None:
            plugin = os.path.join(folder, self.plugin) if self.plugin is not None else None
            code, self.found = called("check", plugin, self.flags)
            if self.found is None:
                raise RuntimeError(f"dpbench check ended with {code}")
        return self.found


def run(plugin=None, **flags):
    """run("mine.py", strategy="mine,ddp", cpus=2) measures and returns the report."""
    code, report = called("run", plugin, flags)
    if report is None:
        raise RuntimeError(f"dpbench run ended with {code}")
    return report


def frame(report):
    """Returns a report's cases as a pandas frame: a row per case, with its settings and derived figures."""
    import pandas
    return pandas.DataFrame([{**cases.plain(case), **(case.get("derived") or {})} for case in report["cases"]])
