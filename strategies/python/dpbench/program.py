"""Finds and starts the program dpbench."""
import os
import shutil
import sys

INSTALLED = os.path.join(os.path.dirname(os.path.abspath(__file__)), "installed/bin/dpbench")  # only in the wheel


def find():
    found = os.environ.get("DPBENCH") or (INSTALLED if os.path.exists(INSTALLED) else shutil.which("dpbench"))
    if not found:
        raise FileNotFoundError("no program dpbench on PATH. Set DPBENCH to it")
    return found


def main():
    """The command dpbench of the wheel. Python files run in this interpreter unless --python names another."""
    folder = os.path.dirname(sys.executable)
    os.environ["PATH"] = folder + os.pathsep + os.environ.get("PATH", "")
    os.execv(INSTALLED, [INSTALLED, *sys.argv[1:]])
