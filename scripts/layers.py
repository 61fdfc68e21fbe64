#!/usr/bin/env python3
"""layers.py [ROOT]: fails on an include that points upward, or on a header or an instruction outside its place."""
import pathlib
import re
import sys

BASE = ("workloads/base/",)  # what every room may include
APIS = ("workloads/api/", "strategies/api/", "workloads/data/")
# house: which others of ours its rooms may include
KNOWS = {
    "workloads/": (),
    "strategies/": ("workloads/",),
    "strategies/comm/": ("strategies/api/",),
    "harness/report/": (),
    "harness/front/": ("harness/report/", "workloads/data/mnist_files.h"),  # which knows no torch
    "harness/conform/": (*APIS, "workloads/layers/", "strategies/parts/compat.h", "harness/report/"),  # its probes are models, too
    "harness/worker/": (*APIS, "harness/report/", "harness/conform/"),
    "harness/micro/": (*APIS, "workloads/layers/", "strategies/parts/", "harness/report/", "harness/worker/"),
    "harness/main.cpp": ("harness/front/", "harness/report/text/shell.h"),
}
# house: its rooms from the ground up. A room knows itself and the rooms below it; files outside of rooms know all of them.
FLOORS = {
    "workloads/": ("base", "api", "layers", "data"),
    "strategies/": ("api", "comm", "graphs/step_graph.h", "parts", "graphs", "ddp", "dp"),
    "strategies/comm/": ("base", "shm", "hosts"),
    "harness/report/": ("base", "text", "stats", "record", "machine", "figures", "judge", "projection", "export", "validate"),
    "harness/front/": ("text", "cli", "plan", "process", "launch", "launch/outside", "run", "commands"),
    "harness/conform/": ("probes", "evidence", "scenario", "oracle", "judges"),
    "harness/worker/": ("rank", "steps", "measure", "check", "train"),
}
# headers of others: the only places for them
PLACES = {
    r"(torch|ATen|c10)/": ("workloads/", "strategies/", "harness/conform/", "harness/worker/", "harness/micro/"),
    r"torch/csrc/distributed/": ("strategies/", "harness/conform/", "harness/worker/", "harness/micro/"),
    r"nccl\.h|cuda_runtime|c10/cuda/|ATen/cuda/|.*ProcessGroupNCCL": ("strategies/comm/", "strategies/graphs/cuda_graph.cpp"),
    r"gloo/|.*ProcessGroupGloo": ("strategies/comm/",),
    r"nlohmann/": ("harness/report/", "workloads/data/safetensors"),
    r"CLI/": ("harness/front/", "harness/micro/"),
    r"benchmark/": ("harness/micro/",),
    r"(gtest|gmock)/": (),
}
# instructions that not every CPU has, by the compiler's names for them: there is a way without them where they are used
ONE_CPUS, ONE_CPUS_PLACE = re.compile(r"__builtin_ia32_\w+"), "strategies/comm/base/spin_pause.h"
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def house_of(path):
    return max((house for house in KNOWS if path.startswith(house)), key=len, default=path)


def room_of(house, path):
    """The floor of a file, as a number; outside of all rooms: above them."""
    floors = FLOORS.get(house, ())
    inside = [floor for floor in floors if path.startswith((house + floor + "/", house + floor)) and
              (path == house + floor or path.startswith(house + floor + "/"))]
    return floors.index(max(inside, key=len)) if inside else len(floors)


def fault(path, quote, header):
    """Why the file at path may not include this header, None if it may."""
    house = house_of(path)
    if quote == '"' and not header.startswith((house, *BASE, *KNOWS.get(house, ()))):
        return f"{house} may not know it (ours are named from the top folder)"
    if quote == '"' and header.startswith(house) and room_of(house, header) > room_of(house, path):
        return "it is on a floor above"
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
