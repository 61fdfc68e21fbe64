"""Creates the Python environment with matplotlib that draws the charts, in the user's cache directory, on first use."""
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
    """The drawing environment cannot be created. The message is one line with the remedy."""


def cache():
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache").absolute() / "dpbench"


def folder():
    """Returns the drawing environment's folder. Its name depends on the Python version and the requirements."""
    digest = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()[:8]
    return cache() / "charts-{}-py{}.{}".format(digest, *sys.version_info[:2])


def call(*words):
    """Runs a command. Returns None on success, otherwise the last line of its output that begins with ERROR, or else
    its last line or its exit code."""
    done = subprocess.run([str(word) for word in words], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, check=False)
    if done.returncode == 0:
        return None
    lines = [line.strip() for line in done.stdout.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith("ERROR")] or lines
    return errors[-1][:200] if errors else f"exit code {done.returncode}"


def pip_of(*pythons):
    """Returns the pip command of the first Python that has pip. A virtual environment may lack pip."""
    for python in pythons:
        pip = (python, "-m", "pip", "--disable-pip-version-check")
        if pathlib.Path(python).exists() and not call(*pip, "--version"):
            return pip
    raise Unusable(f"neither {' nor '.join(pythons)} has pip: apt-get install python3-pip")


def install(home):
    """Creates the drawing environment. Another Python's pip installs the packages, so python3-venv is not needed."""
    pip = pip_of(sys.executable, "/usr/bin/python3")
    why = call(sys.executable, "-m", "venv", "--without-pip", home)
    if why:
        raise Unusable(f"no Python environment could be created in {home}: {why}")
    why = call(*pip, "--python", home / "bin/python", "install", "--quiet", "--only-binary", ":all:", "-r", REQUIREMENTS)
    if why:
        raise Unusable(f"matplotlib could not be installed in {home}: {why}. Try again with a network, or set DPBENCH_PYTHON "
                       "to a Python that has matplotlib")


def is_ready(home):
    """True if the drawing environment is complete and the Python it was made from still exists."""
    return (home / "ready").exists() and (home / "bin/python").exists()


def take(lock):
    """Locks an open file and writes this process's PID into it. If another process holds the lock, prints the PID in
    the file and waits."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.seek(0)
        print(f"dpbench: waiting for process {lock.read()}, which holds {lock.name}", file=sys.stderr)
        fcntl.flock(lock, fcntl.LOCK_EX)
    lock.truncate(0)
    print(os.getpid(), end="", file=lock, flush=True)


def python():
    """Returns the path of the drawing environment's Python. Creates the environment if needed."""
    home = folder()
    program = home / "bin/python"
    if is_ready(home):
        return program
    try:
        home.parent.mkdir(parents=True, exist_ok=True)
        lock = open(f"{home}.lock", "a+", encoding="utf-8")
    except OSError as error:
        raise Unusable(f"{home.parent}: {error.strerror} (set XDG_CACHE_HOME to use another cache)") from error
    with contextlib.closing(lock):
        take(lock)
        if not is_ready(home):
            shutil.rmtree(home, ignore_errors=True)  # removes an incomplete environment that an interrupted call left
            print(f"dpbench: creating a Python environment with matplotlib in {home} (about 160 MB, once)", file=sys.stderr)
            try:
                install(home)
            except BaseException:
                shutil.rmtree(home, ignore_errors=True)
                raise
            (home / "ready").touch()
    return program
