"""The Python that draws: matplotlib in a small environment of its own, made on first use in the user's cache."""
import contextlib
import fcntl
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys

REQUIREMENTS = pathlib.Path(__file__).parent / "requirements.txt"


class Unusable(Exception):
    """The environment cannot be made: one line, with the way out."""


def cache():
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache").absolute() / "dpbench"


def folder():
    """Another Python or other requirements get another environment."""
    digest = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:8]
    return cache() / "charts-{}-py{}.{}".format(digest, *sys.version_info[:2])


def call(*words):
    """Runs a command; returns what it complained about last, None if it went well."""
    done = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode == 0:
        return None
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")] or lines
    return errors[-1][:200] if errors else f"exit code {done.returncode}"


def pip_of(*pythons):
    """The first that there is: a virtual environment may have none where the system's Python does."""
    for python in pythons:
        pip = (python, "-m", "pip", "--disable-pip-version-check")
        if pathlib.Path(python).exists() and not call(*pip, "--version"):
            return pip
    raise Unusable(f"neither {' nor '.join(pythons)} has pip: apt-get install python3-pip")


def install(home):
    """pip installs into an environment without one, so that python3-venv is not needed."""
    pip = pip_of(sys.executable, "/usr/bin/python3")
    why = call(sys.executable, "-m", "venv", "--without-pip", home)
    if why:
        raise Unusable(f"no Python environment could be made in {home}: {why}")
    why = call(*pip, "--python", home / "bin/python", "install", "--quiet", "--only-binary", ":all:", "-r", REQUIREMENTS)
    if why:
        raise Unusable(f"matplotlib could not be installed in {home}: {why}; try again with a network, or name a Python "
                       "that has matplotlib with DPBENCH_PYTHON")


def is_ready(home):
    """Made to the end, and the Python that it was made from is still there."""
    return (home / "ready").exists() and (home / "bin/python").exists()


def python():
    """Path of the Python to draw with."""
    home = folder()
    program = home / "bin/python"
    if is_ready(home):
        return program
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        lock = open(f"{home}.lock", "w", encoding="utf-8")
    except OSError as error:
        raise Unusable(f"{home.parent}: {error.strerror} (XDG_CACHE_HOME names another cache)") from error
    with contextlib.closing(lock):
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not is_ready(home):
            shutil.rmtree(home, ignore_errors=True)  # half made, by a call that was cut off
            print(f"dpbench: making a Python environment with matplotlib in {home} (about 160 MB, once)", file=sys.stderr)
            try:
                install(home)
            except BaseException:
                shutil.rmtree(home, ignore_errors=True)
                raise
            (home / "ready").touch()
    return program
