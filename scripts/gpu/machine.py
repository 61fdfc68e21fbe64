"""Where the parts run: the programs, the libraries they need, the GPU, and how devices are asked for."""
import ctypes
import dataclasses
import glob
import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WORKLOADS = ("random-linear", "mnist-mlp", "convnet")


def torch_libraries(python):
    """The folders of torch's own libraries and of the CUDA wheels beside it, as this Python has them."""
    asked = "import importlib.util, os; s = importlib.util.find_spec('torch'); print(os.path.dirname(s.origin) if s else '')"
    done = subprocess.run([python, "-c", asked], capture_output=True, text=True, check=False)
    torch = done.stdout.strip()
    if not torch:
        return []
    return [torch + "/lib", *sorted(glob.glob(os.path.dirname(torch) + "/nvidia/*/lib"))]


def asked_of_the_driver():
    """The same from libcuda itself: a container may come without nvidia-smi."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return None, "no NVIDIA driver (no nvidia-smi, no libcuda.so.1)"
    count, name = ctypes.c_int(0), ctypes.create_string_buffer(100)
    error = cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count))
    if error or count.value == 0:
        return None, f"the NVIDIA driver finds no GPU (error {error})"
    cuda.cuDeviceGetName(name, len(name), 0)
    return name.value.decode(), None


def gpu_name():
    """(name, None), or (None, why there is none)."""
    if not shutil.which("nvidia-smi"):
        return asked_of_the_driver()
    done = subprocess.run(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"], capture_output=True, text=True, check=False)
    names = done.stdout.split("\n")[0].strip()
    return (names, None) if done.returncode == 0 and names else (None, "nvidia-smi finds no GPU: " + (done.stderr or done.stdout).strip()[:200])


@dataclasses.dataclass
class Machine:
    programs: pathlib.Path  # holds dpbench and dpbench-worker
    python: str             # one that imports a torch with CUDA, for the peers
    rehearse: bool
    out: pathlib.Path
    gpu: str | None = None
    no_gpu: str | None = None

    def __post_init__(self):
        if not self.rehearse:
            self.gpu, self.no_gpu = gpu_name()
        folders = [str(self.programs.parent / "lib"), *torch_libraries(self.python)]
        before = os.environ.get("LD_LIBRARY_PATH", "")
        self.environment = {**os.environ, "LD_LIBRARY_PATH": ":".join([*folders, before]).strip(":")}

    def devices(self, world=1):
        """Flags of a world: on GPUs, or as a rehearsal on virtual CPU devices."""
        if self.rehearse:
            return ["--cpus", str(world), "--threads", "1"]
        return ["--gpus", str(world), *(["--oversubscribe"] if world > 1 else [])]

    def single(self):
        return "cpu" if self.rehearse else "gpu"

    def graph(self, values):
        return [] if self.rehearse else ["--param", "gpu.graph=" + values]

    def dpbench(self, command, *flags):
        return [str(self.programs / "dpbench"), command, *flags]

    def check(self, *flags, small=False):
        """The conformance suite as JSON; a rehearsal keeps to one model and one check or two."""
        few = ["--workload", "random-linear", "--filter", "gradient-meaning|output-shape"] if self.rehearse else (
            ["--workload", ",".join(WORKLOADS)] if small else [])
        return self.dpbench("check", *flags, *few, "-o", "json", "-q", "--out", str(self.out / "runs"))

    def run(self, *flags):
        """A measurement as JSON: checked elsewhere, so its checks are off."""
        sampling = (["--launches", "1", "--samples", "2", "--steps", "2", "--warmup", "2"] if self.rehearse else
                    ["--launches", "1", "--samples", "5", "--max-time", "3"])
        return self.dpbench("run", *flags, *sampling, "--check", "off", "-o", "json", "-q", "--out", str(self.out / "runs"))


def default_python():
    """The Python of the machine that has a torch: python3, or the one that DPBENCH_TORCH_PYTHON names."""
    named = os.environ.get("DPBENCH_TORCH_PYTHON")
    if named:
        return named
    return next((python for python in (sys.executable, shutil.which("python3")) if python and torch_libraries(python)), sys.executable)


def default_programs():
    """What was built here, else what --pack collected elsewhere."""
    built, packed = ROOT / "build" / "release" / "bin", ROOT / "build" / "gpu" / "bin"
    return packed if packed.exists() and not (built / "dpbench-worker").exists() else built


OURS = ("dpbench", "dpbench-worker")
LIBRARIES = ("libdpbench_core.so", "libdpbench_cuda.so")
# What every machine with a driver and a torch has; all else that our programs need is packed beside them.
PRESENT = re.compile(r"lib(c|m|dl|rt|util|pthread|stdc\+\+|gcc_s|gomp|z|torch.*|c10.*|shm|cu.*|nv.*|nccl.*|dpbench_.*)(-[^/]*)?\.so")


def pack():
    """build/gpu: the programs, stripped, with the libraries that a bare machine lacks. What git ignores and must travel."""
    release, packed = ROOT / "build" / "release", ROOT / "build" / "gpu"
    shutil.rmtree(packed, ignore_errors=True)
    (packed / "bin").mkdir(parents=True)
    (packed / "lib").mkdir()
    files = [(release / "bin" / name, packed / "bin" / name) for name in OURS]
    files += [(release / "lib" / name, packed / "lib" / name) for name in LIBRARIES]
    for source, target in files:
        if not source.exists():
            sys.exit(f"gpu-check: {source} is not there; build it first: scripts/build cuda build/release programs")
        shutil.copy2(source, target)
        needed = subprocess.run(["ldd", str(source)], capture_output=True, text=True, check=False).stdout
        for name, path in re.findall(r"^\s*(\S+) => (/\S+)", needed, re.MULTILINE):
            if not PRESENT.match(name):
                shutil.copy2(path, packed / "lib" / name)
        subprocess.run(["strip", "--strip-unneeded", str(target)], check=False)
    shutil.copy2(release / "bin" / "catalogue.json", packed / "bin")
    size = sum(file.stat().st_size for file in packed.rglob("*") if file.is_file())
    print(f"gpu-check: {size / 2**20:.1f} MiB in build/gpu")


def write_catalogue(machine):
    """Anew, since whether the CUDA library can be loaded is this machine's answer. The reason if it cannot be written."""
    done = subprocess.run([str(machine.programs / "dpbench-worker"), "--catalogue"], capture_output=True, text=True,
                          env=machine.environment, check=False)
    if done.returncode:
        return "dpbench-worker cannot write its catalogue: " + (done.stderr.strip().split("\n")[-1] or f"exit {done.returncode}")
    target = machine.programs / "catalogue.json"
    partial = target.with_suffix(".partial")
    partial.write_text(done.stdout, encoding="utf-8")
    os.replace(partial, target)
    return None
