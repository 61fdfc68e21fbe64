"""The machine on which scripts/gpu-check runs its parts: programs, libraries, GPUs and device flags."""
import ctypes
import dataclasses
import glob
import json
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
WORKLOADS = ("random-linear", "mnist-mlp", "convnet")
PEER_OF_GPT = {"small": "gpt", "gpt2-124m": "gpt2-124m"}  # {size of gpt: name of the model in scripts/peers}
FAULTS = "libfaulty.so"  # the plug-in that makes a rank fail
DTYPES = "f32,f64,bf16"
MICRO = "dpbench-micro"
BUILD = "scripts/build cuda build/release gpu-programs"
TOO_SLOW = 124
ASK_LIMIT_S = 30  # seconds for a query to the machine; a driver may hang


def ask(command, environment=None):
    """Runs a short command. Returns its result; a timeout or a failed start gives a non-zero exit code, with the reason
    in stderr."""
    try:
        return subprocess.run(command, capture_output=True, text=True, errors="replace", env=environment, check=False, timeout=ASK_LIMIT_S)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, TOO_SLOW, "", f"no answer in {ASK_LIMIT_S:g} s")
    except OSError as error:
        return subprocess.CompletedProcess(command, 127, "", f"cannot be started: {error.strerror}")


def torch_libraries(python):
    """Returns the library folders of this Python's torch and of the CUDA wheels installed beside it."""
    asked = "import importlib.util, os; s = importlib.util.find_spec('torch'); print(os.path.dirname(s.origin) if s else '')"
    torch = ask([python, "-c", asked]).stdout.strip()
    if not torch:
        return []
    return [torch + "/lib", *sorted(glob.glob(os.path.dirname(torch) + "/nvidia/*/lib"))]


def query_driver():
    """Returns (GPU names, None) or ([], reason). Asks libcuda, because a container may lack nvidia-smi."""
    try:
        cuda = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return [], "no NVIDIA driver (no nvidia-smi, no libcuda.so.1)"
    count, name = ctypes.c_int(0), ctypes.create_string_buffer(100)
    error = cuda.cuInit(0) or cuda.cuDeviceGetCount(ctypes.byref(count))
    if error or count.value == 0:
        return [], f"the NVIDIA driver finds no GPU (error {error})"
    names = []
    for device in range(count.value):
        cuda.cuDeviceGetName(name, len(name), device)
        names.append(name.value.decode())
    return names, None


def find_gpus():
    """Returns {"gpus": names}, {"no_gpu": reason}, or {"broken": reason} if the query itself failed."""
    if shutil.which("nvidia-smi"):
        asked, done = "nvidia-smi", ask(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"])
        names = [line.strip() for line in done.stdout.splitlines() if line.strip()] if done.returncode == 0 else []
        reason = "nvidia-smi finds no GPU: " + (done.stderr or done.stdout).strip()[:200]
    else:  # asks in a separate process, because the driver may hang
        asked, done = "the NVIDIA driver", ask([sys.executable, "-B", __file__])
        names, reason = json.loads(done.stdout) if done.returncode == 0 else ([], "")
    if done.returncode == TOO_SLOW or not (names or reason):
        return {"broken": f"{asked}: {done.stderr.strip()[-200:]}"}
    return {"gpus": names} if names else {"no_gpu": reason}


def visible(names):
    """Returns CUDA's device ids of the visible GPUs."""
    asked = os.environ.get("CUDA_VISIBLE_DEVICES")
    return [str(number) for number in range(len(names))] if asked is None else [word.strip() for word in asked.split(",") if word.strip()]


@dataclasses.dataclass
class Machine:
    programs: pathlib.Path  # folder of dpbench and dpbench-worker
    python: str             # a Python that imports a torch with CUDA, for the Python peers
    rehearse: bool
    out: pathlib.Path
    gpus: list = dataclasses.field(default_factory=list)  # names of the GPUs
    no_gpu: str | None = None
    broken: str | None = None  # reason why nothing can run, even with a GPU; None if all is well

    def __post_init__(self):
        if not self.rehearse:
            vars(self).update(find_gpus())
        self.visible = visible(self.gpus)
        self.torch = torch_libraries(self.python)
        folders = [str(self.programs.parent / "lib"), *self.torch]
        before = os.environ.get("LD_LIBRARY_PATH", "")
        self.environment = {**os.environ, "LD_LIBRARY_PATH": ":".join([*folders, before]).strip(":")}
        if self.rehearse:
            self.environment["DPBENCH_KEEP_DISTURBED"] = "1"  # keeps disturbed results; a rehearsal measures nothing

    @property
    def gpu(self):
        return self.gpus[0] if self.gpus else None

    def environment_for(self, gpus):
        """Returns the environment variables for a part of gpu-check. A part for one GPU sees only the first GPU."""
        return self.environment if gpus > 1 or len(self.visible) < 2 else self.environment | {"CUDA_VISIBLE_DEVICES": self.visible[0]}

    def lacks_gpus(self, count):
        if self.rehearse or len(self.visible) >= count:
            return None
        return f"needs {count} GPUs, this machine has {len(self.visible)}"

    def devices(self, world=1, shared=True):
        """Returns dpbench's device flags for a world: GPUs (shared by all ranks, or one each), or virtual CPU devices
        in a rehearsal."""
        if self.rehearse:
            return ["--cpus", str(world), "--threads", "1"]
        return ["--gpus", str(world), *(["--oversubscribe"] if shared and world > 1 else [])]

    def single(self):
        return "cpu" if self.rehearse else "gpu"

    def graph(self, values, strategy="gpu"):
        return [] if self.rehearse else ["--param", f"{strategy}.graph={values}"]

    def dpbench(self, command, *flags):
        return [str(self.programs / "dpbench"), command, *flags]

    def check(self, *flags, workloads=None, dtypes=DTYPES):
        """Returns the command that runs the conformance suite in these dtypes. A rehearsal (on virtual CPU devices) runs
        only one workload and two checks."""
        few = (["--workload", workloads[-1] if workloads else "random-linear", "--filter", "gradient-meaning|output-shape"] if self.rehearse else
               ["--workload", ",".join(workloads)] if workloads else [])
        # One thread per rank: the parts run several checks at once, and the oracle's tensors are small.
        return self.dpbench("check", *flags, *few, *([] if self.rehearse else ["--threads", "1"]), "--dtype", dtypes, "-o", "json", "-q")

    def run(self, *flags, samples=5, max_time_s=3):
        """Returns the command for a measurement without checks, because other parts run the checks."""
        sampling = (["--launches", "1", "--samples", "2", "--steps", "2", "--warmup", "2"] if self.rehearse else
                    ["--launches", "1", "--samples", str(samples), "--max-time", str(max_time_s)])
        return self.dpbench("run", *flags, *sampling, "--check", "off", "-o", "json", "-q", "--out", str(self.out / "runs"))

    def helper(self, script, *flags):
        """Returns the command of a Python script beside this file that runs dpbench itself."""
        return [sys.executable, "-B", str(ROOT / "scripts" / "gpu" / script), "--dpbench", str(self.programs / "dpbench"), *flags]

    def collectives(self, backends, worlds, which="allreduce"):
        """Returns the command for a collectives benchmark from 4 B to 64 MiB (in a rehearsal on the CPU: to 4 KiB). The
        benchmark checks the result of each size before timing it."""
        return [str(self.programs / MICRO), "--device", "cpu" if self.rehearse else "cuda", "--backend", backends, "--world", worlds,
                "--max-bytes", "4KiB" if self.rehearse else "64MiB", "--factor", "16" if self.rehearse else "4",
                f"--benchmark_filter=^({which})/", "--benchmark_format=json"]


def default_python():
    """Returns the Python that DPBENCH_TORCH_PYTHON names, else the first Python that has torch."""
    named = os.environ.get("DPBENCH_TORCH_PYTHON")
    if named:
        return named
    return next((python for python in (sys.executable, shutil.which("python3")) if python and torch_libraries(python)), sys.executable)


def default_programs():
    """Returns the folder of the programs built in this tree, else of the programs collected by --pack."""
    built, packed = ROOT / "build" / "release" / "bin", ROOT / "build" / "gpu" / "bin"
    return packed if packed.exists() and not (built / "dpbench-worker").exists() else built


def make_ready(machine):
    """Rewrites catalogue.json, the worker's list of strategies, workloads and backends, because only this machine can
    tell if the CUDA library loads. Returns the reason if nothing can be measured, else None."""
    if not os.access(machine.programs / "dpbench", os.X_OK):
        return f"no dpbench in {machine.programs}. Build it ({BUILD}) or copy build/gpu here"
    done = ask([str(machine.programs / "dpbench-worker"), "--catalogue"], machine.environment)
    if done.returncode:
        return "dpbench-worker cannot write its catalogue: " + (done.stderr.strip().split("\n")[-1] or f"exit {done.returncode}")
    target = machine.programs / "catalogue.json"
    partial = target.with_suffix(f".{os.getpid()}")  # has the PID, because another gpu-check may write at the same time
    try:
        missing = [one["reason"] for one in json.loads(done.stdout).get("not_built", []) if one.get("name") == "nccl"]
        partial.write_text(done.stdout, encoding="utf-8")
        os.replace(partial, target)
    except ValueError:
        return "dpbench-worker --catalogue wrote no JSON: " + done.stdout[:100]
    except OSError as error:
        return f"{target} cannot be written: {error.strerror}. Copy {machine.programs} to a writable place and name it with --programs"
    return "the CUDA library cannot be used: " + missing[0] if missing and not machine.rehearse else None


if __name__ == "__main__":
    print(json.dumps(query_driver()))
