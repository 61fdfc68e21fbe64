#!/usr/bin/env python3
"""layers.py [ROOT]: fails on an include that points upward, or on a header or an instruction outside its place."""
import pathlib
import re
import sys

EVERYONE = ("workloads/cores.h", "workloads/error.h", "workloads/limits.h", "workloads/registry.h", "workloads/work_queue.h")
INTERFACES = ("workloads/workload.h", "workloads/data/", "strategies/strategy.h", "strategies/params.h",
              "strategies/phases.h", "strategies/compat.h", "workloads/plugin_abi.h", "strategies/comm/backend.h", "harness/report/")
# folder: what it may include of ours beside itself
KNOWS = {
    "workloads/": (),
    "strategies/comm/": ("workloads/plugin_abi.h",),
    "strategies/": ("workloads/",),
    "harness/report/": (),
    "harness/front/": ("harness/report/", "workloads/data/mnist_files.h"),  # which knows no torch
    "harness/conform/": (*INTERFACES, "workloads/layers/"),  # its probes are models, too
    "harness/worker/": (*INTERFACES, "harness/conform/"),
}
# headers of others: the only places for them
PLACES = {
    r"(torch|ATen|c10)/": ("workloads/", "strategies/", "harness/conform/", "harness/worker/"),
    r"torch/csrc/distributed/": ("strategies/", "harness/conform/", "harness/worker/"),
    r"nccl\.h|cuda_runtime|c10/cuda/|ATen/cuda/|.*ProcessGroupNCCL": ("strategies/comm/",),
    r"gloo/|.*ProcessGroupGloo": ("strategies/comm/",),
    r"nlohmann/": ("harness/report/", "workloads/data/safetensors"),
    r"CLI/": ("harness/front/",),
    r"(gtest|gmock|benchmark)/": (),
}
# instructions that not every CPU has, by the compiler's names for them: there is a way without them where they are used
ONE_CPUS, ONE_CPUS_PLACE = re.compile(r"__builtin_ia32_\w+"), "strategies/comm/pause.h"
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def fault(path, quote, header):
    """Why the file at path may not include this header, None if it may."""
    folder = max((folder for folder in KNOWS if path.startswith(folder)), key=len, default=path)
    if quote == '"' and not header.startswith((folder, *EVERYONE, *KNOWS.get(folder, ()))):
        return f"{folder} may not know it (ours are named from the top folder)"
    for pattern, places in PLACES.items():
        if re.match(pattern, header) and not path.startswith(places):
            return "belongs only in " + (" ".join(places) or "tests/")
    return None


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    files = [file for top in ("workloads", "strategies", "harness") for file in sorted((root / top).rglob("*"))
             if file.suffix in (".h", ".cpp", ".inc", ".hpp", ".cu")]
    faults = [f"{path}: {header}: {why}" for file in files for path in [str(file.relative_to(root))]
              for quote, header in INCLUDE.findall(file.read_text(encoding="utf-8")) if (why := fault(path, quote, header))]
    faults += [f"{path}: {name}: belongs only in {ONE_CPUS_PLACE}" for file in files
               if (path := str(file.relative_to(root))) != ONE_CPUS_PLACE for name in ONE_CPUS.findall(file.read_text(encoding="utf-8"))]
    print(*faults, f"{len(files)} files, {len(faults)} faults", sep="\n")
    return 1 if faults or not files else 0


if __name__ == "__main__":
    sys.exit(main())
