"""Packs build/gpu: the files, besides the git tree, that scripts/gpu-check needs on a machine that cannot build."""
import os
import re
import shutil
import sys

from machine import BUILD, FAULTS, MICRO, ROOT, ask

OURS = ("bin/dpbench", "bin/dpbench-worker", "lib/libdpbench_core.so", "lib/libdpbench_cuda.so", "bin/catalogue.json")
# Libraries that every machine with a driver and torch has. All other libraries are packed.
PRESENT = re.compile(r"lib(c|m|dl|rt|util|pthread|stdc\+\+|gcc_s|gomp|z|torch.*|c10.*|shm|cu.*|nv.*|nccl.*|dpbench_.*)(-[^/]*)?\.so")


def needed(program):
    """Returns {library name: path} of the libraries to pack for a program. The path is None if this machine lacks the
    library."""
    listed = ask(["ldd", str(program)]).stdout
    found = re.findall(r"^\s*(\S+) => (/\S+|not found)", listed, re.MULTILINE)
    return {name: None if path == "not found" else path for name, path in found if not PRESENT.match(name)}


def pack(release=ROOT / "build" / "release", packed=ROOT / "build" / "gpu"):
    """Copies to build/gpu the stripped programs and the libraries that a machine with only a driver and torch lacks."""
    names = [*OURS, *(name for name in ("bin/" + MICRO, "lib/" + FAULTS) if (release / name).exists())]
    for name in names:
        if not (release / name).exists():
            sys.exit(f"gpu-check: {release / name} does not exist. Build it first: {BUILD}")
    shutil.rmtree(packed, ignore_errors=True)
    (packed / "lib").mkdir(parents=True)
    for name in names:
        target = packed / name
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(release / name, target)
        if name.endswith(".json"):
            continue
        for library, path in needed(release / name).items():
            if not path:
                sys.exit(f"gpu-check: {name} needs {library}, which is not on this machine")
            shutil.copy2(path, packed / "lib" / library)
        ask(["strip", "--strip-unneeded", str(target)])
    if "bin/" + MICRO not in names:
        print(f"gpu-check: no {MICRO}, so the collectives benchmarks will be skipped. Install libbenchmark-dev, then {BUILD}", file=sys.stderr)
    size = sum(file.stat().st_size for file in packed.rglob("*") if file.is_file())
    print(f"gpu-check: {size / 2**20:.1f} MiB in {os.path.relpath(packed, ROOT)}")
    return 0
