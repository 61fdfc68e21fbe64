"""Builds the wheel with scikit-build-core, against the torch in site-packages of the Python that runs pip. The
environment variable DPBENCH_TORCH can name another torch folder."""
import os
import sys
import sysconfig

from scikit_build_core import build
from scikit_build_core.build import *  # noqa: F403 - the other functions of a build backend


def build_wheel(*arguments):
    torch = os.path.join(sysconfig.get_path("platlib"), "torch")
    if not os.environ.get("DPBENCH_TORCH"):
        if not os.path.isdir(torch):
            sys.exit(f"dpbench: no torch in {torch}. Install it before dpbench, or set DPBENCH_TORCH to its folder")
        os.environ["DPBENCH_TORCH"] = torch
    return build.build_wheel(*arguments)
