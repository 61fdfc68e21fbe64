"""Calls dpbench from a test program or a notebook: runs the program and returns its report. Needs no torch."""
import json
import os
import signal
import subprocess
import sys
import tempfile

from dpbench import passing, program
from dpbench.export import cases


class Wrong(AssertionError):
    """Raised by check() if a check of the strategy has failed. The text describes each failed check."""

    def __init__(self, report):
        super().__init__("\n".join(report.failures()))
        self.report = report


class Record(dict):
    """A part of a report. Its fields are attributes too: report.cases[0].derived.speedup."""

    def __getattr__(self, name):
        if name in self:
            return self[name]
        raise AttributeError(f"no field '{name}'. The fields are {', '.join(self)}")


class Report(Record):
    """A report of dpbench (results/schema). Every object in it is a Record."""

    def failures(self):
        """Returns one line of text for each failed check."""
        return [words_of(case, row) for case in self.cases for row in case.get("checks", []) if row.status == "failed"]

    def frame(self, rows="cases"):
        """Returns a pandas frame. See frame() below."""
        return frame(self, rows)


def rows_of(case, kind):
    settings = cases.plain(case)
    if kind == "checks":
        return [{"case": case["id"], **settings, **row} for row in case.get("checks", [])]
    step = case["stats"]["step_time_ns"]
    return [{**settings, "step_time_ns": step and step["median"], **(case.get("derived") or {})}]


def words_of(case, row):
    """Returns one line of text for a failed check: its case, name, detail and the mistake that it looks like."""
    likely = f"; looks like: {row['likely']}" if row.get("likely") else ""
    return f"{case['id']}: {row['name']}: {row.get('detail', '')}{likely}"


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
    """Runs a command of dpbench that prints its report as JSON. plugin: the path of a file, a strategy class, or None.
    Returns the report (None if dpbench printed none), and a RuntimeError that names the exit code (None if it is 0)."""
    flags, passed = {"python": sys.executable, **flags}, passing.Passed()
    if isinstance(plugin, type):
        given = flags.get("strategy") or []
        plugin, flags["strategy"] = None, [plugin, *(given if isinstance(given, (list, tuple)) else [given])]
    for flag in passing.KINDS:
        if flags.get(flag) is not None:
            flags[flag] = passed.names_of(flag, flags[flag])
    if passed and flags["python"] != sys.executable:
        raise ValueError("python: ranks that are given a class run in the interpreter that defines it")
    if "world" in flags:
        flags["cpus"] = flags.pop("world")
    with tempfile.TemporaryDirectory(prefix="dpbench-") as directory:
        plugins = [os.path.abspath(plugin)] if plugin is not None else []
        if passed:
            plugins.append(os.path.join(directory, "passed.py"))
            passed.write(plugins[-1])
        if command == "run":
            flags.setdefault("out", os.path.join(directory, "run"))
        words = [program.find(), command, "-o", "json", *flags_of(flags)]
        words += [word for file in plugins for word in ("--plugin", file)]
        with open(os.path.join(directory, "report.json"), "w+", encoding="utf-8") as output:
            with subprocess.Popen(words, stdout=output, stderr=subprocess.PIPE, text=True) as process:
                code, last = finished(process)
            output.seek(0)
            report = json.loads(output.read() or "null", object_hook=Record)
    return report and Report(report), RuntimeError(f"dpbench {command} ended with {code}: {last}") if code else None


def finished(process):
    """Waits for dpbench and copies its stderr to sys.stderr, which a notebook and pytest capture. Returns the exit code
    and the last line of stderr that is not empty. A KeyboardInterrupt is passed on to dpbench, which then ends its
    ranks."""
    last = ""
    try:
        for line in process.stderr:
            sys.stderr.write(line)
            last = line.strip() or last
        return process.wait(), last
    except KeyboardInterrupt:
        process.send_signal(signal.SIGINT)
        process.communicate()
        raise


def check(plugin, strategy=None, **flags):
    """check("mine.py", "mine", workload="mnist-mlp", world=3) or, with a class, check(Mine, workload="mnist-mlp",
    world=3). Raises Wrong if a check fails, and RuntimeError if dpbench ends with another error. Returns the report."""
    report, error = called("check", plugin, {"strategy": strategy, **flags})
    if report is not None and report.failures():
        raise Wrong(report)
    if error:
        raise error
    return report


class Checks:
    """The checks of a strategy as pytest tests (dpbench.pytest_plugin). Takes the same arguments as check()."""

    def __init__(self, plugin, strategy=None, **flags):
        self.plugin, self.flags, self.found = plugin, {"strategy": strategy, **flags}, None

    def report(self, folder):
        """Returns the report. Runs dpbench on the first call only. folder: the base of a relative plug-in path."""
        if self.found is None:
            plugin = os.path.join(folder, self.plugin) if isinstance(self.plugin, (str, os.PathLike)) else self.plugin
            self.found, error = called("check", plugin, self.flags)
            if self.found is None:
                raise error
        return self.found


def run(plugin=None, **flags):
    """run("mine.py", strategy="mine,ddp", cpus=2) or, with classes, run(Mine, strategy="ddp", workload=MyModel,
    world=2). Measures the strategies and returns the report."""
    report, error = called("run", plugin, flags)
    if report is None:
        raise error
    return report


def frame(report, rows="cases"):
    """Returns a pandas frame of a report or of a run.json: a row per case, with its settings, median step time and
    derived figures; or a row per check, with rows="checks"."""
    import pandas
    return pandas.DataFrame([row for case in report["cases"] for row in rows_of(case, rows)])
