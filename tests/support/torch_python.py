"""The Python environment with PyTorch of scripts/peers/python, made on first use."""
import functools
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]


@functools.cache
def interpreter():
    return subprocess.run([ROOT / "scripts/peers/python", "-c", "import sys; print(sys.executable)"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout.strip()
