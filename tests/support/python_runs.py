"""Runs dpbench with strategies and models in Python. The first argument of a test that imports this module is dpbench;
the interpreter is that of scripts/peers/python, with PyTorch.

Each call imports PyTorch once to list what can run, and once for each rank, which takes seconds of CPU time: tests
that look at several strategies or faults take them from one call."""
import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import reports  # noqa: F401, importing this module validates every report that dpbench writes

DPBENCH = os.path.abspath(sys.argv.pop(1))
ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = ROOT / "tests/plugin_example/plain_average.py"
FAULTY = ROOT / "tests/python/faulty.py"
# Flags of a run of a few steps.
BRIEF = ("--no-baseline", "--launches", "1", "--samples", "1", "--steps", "8", "--warmup", "1", "--check", "off", "--audit", "off")


@functools.cache
def interpreter():
    return subprocess.run([ROOT / "scripts/peers/python", "-c", "import sys; print(sys.executable)"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout.strip()


def call(command, *flags, cwd=None, numpy=True):
    """Runs dpbench. numpy: if False, NumPy is hidden from the interpreter. Returns the exit code, the report (None if
    there is none) and stderr."""
    words = [DPBENCH, command, "--python", interpreter(), *map(str, flags), "--progress", "none"]
    if "--timeout" not in flags:
        words += ["--timeout", "120"]  # importing PyTorch on several ranks may take longer than the default of 30 s
    with tempfile.TemporaryDirectory() as folder:
        words += {"run": ["--out", folder, "-o", "json"], "train": ["--out", folder]}.get(command, ["-o", "json"])
        env = os.environ if numpy else {**os.environ, "PYTHONPATH": str(ROOT / "tests/fakes/without_numpy")}
        done = subprocess.run(words, capture_output=True, text=True, timeout=600, cwd=cwd, env=env)
        if command == "train":
            return done.returncode, next((json.loads(path.read_text()) for path in pathlib.Path(folder).glob("*/run.json")), None), done.stderr
    return done.returncode, json.loads(done.stdout) if done.stdout.strip() else None, done.stderr


def checked(plugin, strategies, *flags, numpy=True):
    plugins = ["--plugin", plugin] if plugin else []
    code, report, errors = call("check", *plugins, "--strategy", strategies, *flags, numpy=numpy)
    assert report, errors
    return code, report
