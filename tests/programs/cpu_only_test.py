"""cpu_only_test.py BUILD: tests that a build works on machines without CUDA: only the separate CUDA library needs CUDA.
If a matching CUDA toolkit and nccl.h are present, that library must be built."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

BUILD = sys.argv.pop(1)
CUDA = re.compile(r"/(cuda_runtime|cuda_runtime_api|nccl|cublas|driver_types)[^/]*\.h$")


def headers_by_object():
    listing = subprocess.run(["ninja", "-C", BUILD, "-t", "deps"], capture_output=True, text=True, check=True).stdout
    objects, current = {}, None
    for line in listing.splitlines():
        if line and not line.startswith((" ", "ninja:")):
            current = objects.setdefault(line.split(": #deps")[0], [])
        elif line.startswith(" "):
            current.append(line.strip())
    return objects


def output_of(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def needs(name):
    """Returns the names of the libraries that a built file needs (DT_NEEDED)."""
    return re.findall(r"\(NEEDED\).*\[(.*)\]", output_of("readelf", "-d", os.path.join(BUILD, name)))


def places_of(names, listing):
    """Returns {library name: path} from ldd's listing. Libraries that ldd misses are taken from the CUDA wheels beside
    torch, which torch loads itself."""
    found = re.findall(r"^\s*(?:\S+ => )?(/\S+)", listing, re.MULTILINE)
    places = {os.path.basename(path): path for path in found}
    for torch in [path for path in found if os.path.basename(path).startswith("libtorch")]:
        for path in pathlib.Path(torch).parent.parent.parent.glob("nvidia/*/lib/*"):
            places.setdefault(path.name, str(path))
    return {name: places[name] for name in names if name in places}


def symbols(path, which):
    """Returns {symbol: kind letter of nm}, without symbol versions."""
    lines = [line.split() for line in output_of("nm", "-D", which, path).splitlines()]
    return {words[-1].split("@")[0]: words[-2] for words in lines}


def loaded_by(*words):
    """Runs dpbench with `words`. Returns all libraries that dpbench and its child processes try to load."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([os.path.join(os.path.abspath(BUILD), "bin/dpbench"), *words], cwd=folder, stdout=subprocess.DEVNULL, check=False,
                       env={**os.environ, "LD_DEBUG": "files", "LD_DEBUG_OUTPUT": folder + "/loaded"})
        logs = [log.read_text(encoding="utf-8", errors="replace") for log in pathlib.Path(folder).glob("loaded.*")]
    return set(re.findall(r"file=(\S+)", "".join(logs)))


class CpuOnly(unittest.TestCase):
    def test_cpu_runs_load_no_cuda_libraries_besides_those_of_libtorch_cpu(self):
        commands = [("--strategy", "cpu,ddp", "--cpus", "2", "--workload", "random-linear", "--quick", "-o", "none")]
        devices = subprocess.run([os.path.join(BUILD, "bin/dpbench"), "list", "devices", "-o", "json"], capture_output=True, check=True).stdout
        if not json.loads(devices)["gpus"]:  # with a GPU these commands load the CUDA library
            commands += [("doctor",), ("list", "backends", "--plugin", os.path.join(os.path.abspath(BUILD), "lib/libfaulty.so"))]
        for words in commands:
            with self.subTest(words=words):
                asked = {os.path.basename(name) for name in loaded_by(*words)}
                self.assertIn("libdpbench_core.so", asked, "no worker was started")
                # CUDA's runtime and CUPTI are allowed, because libtorch_cpu itself loads them.
                self.assertEqual({name for name in asked if re.match(r"lib(dpbench_cuda|torch_cuda|c10_cuda|nccl|cublas|cudnn)", name)}, set())

    def test_dpbench_links_no_torch_library_and_libdpbench_core_only_c10_and_torch_cpu(self):
        torch = re.compile("torch|c10|cuda|nccl|cublas|cudnn")
        for name, wanted in (("lib/libdpbench_core.so", ["libc10.so", "libtorch_cpu.so"]), ("bin/dpbench", [])):
            self.assertEqual(sorted(filter(torch.search, needs(name))), wanted, name)
        self.assertLessEqual({library for library in needs("bin/dpbench-worker") if torch.search(library)}, {"libc10.so", "libtorch_cpu.so"})

    def test_the_cuda_library_is_built_if_a_matching_toolkit_and_nccl_are_present(self):
        places = ["/usr/local/cuda", os.path.dirname(os.path.dirname(os.path.realpath(shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc")))]
        toolkit = any(os.path.exists(place + "/bin/nvcc") for place in places)
        nccl = any(os.path.exists(place + "/include/nccl.h") for place in [*places, "/usr"])
        built = os.path.exists(os.path.join(BUILD, "lib/libdpbench_cuda.so"))
        with open(os.path.join(BUILD, "configure.log"), encoding="utf-8") as log:
            configured = log.read()
        fits = not re.search("CUDA library: not built, .*LibTorch", configured)
        self.assertEqual(built, toolkit and nccl and fits)
        if not built:
            with open(os.path.join(BUILD, "bin/catalogue.json"), encoding="utf-8") as file:
                (missing,) = json.load(file)["not_built"]
            self.assertIn(missing["reason"], configured)
        if built:
            self.assertIn("libtorch_cuda.so", needs("lib/libdpbench_cuda.so"))

    def test_the_cuda_library_has_no_unresolved_symbol(self):
        library = os.path.join(BUILD, "lib/libdpbench_cuda.so")
        if not os.path.exists(library):
            self.skipTest("built without a CUDA toolkit")
        # Most machines cannot load the CUDA library, because it needs all of torch's CUDA libraries. Its symbols can be
        # compared without loading it.
        needed = needs("lib/libdpbench_cuda.so")
        places = places_of(needed, output_of("ldd", library))
        if len(places) < len(needed):
            self.skipTest("not on this machine: " + ", ".join(sorted(set(needed) - set(places))))
        offered = {name for path in places.values() for name in symbols(path, "--defined-only")}
        wanted = {name for name, kind in symbols(library, "--undefined-only").items() if kind == "U"}
        self.assertGreater(len(wanted), 50)
        self.assertEqual(sorted(wanted - offered), [])

    def test_libtorch_cuda_is_loaded_only_from_the_folder_of_the_loaded_libtorch_cpu(self):
        if not os.path.exists(os.path.join(BUILD, "lib/libdpbench_cuda.so")):
            self.skipTest("built without a CUDA toolkit")
        listing = output_of("ldd", os.path.join(BUILD, "lib/libdpbench_core.so"))
        torch = pathlib.Path(places_of(["libtorch_cpu.so"], listing)["libtorch_cpu.so"]).parent
        with tempfile.TemporaryDirectory() as folder:  # another LibTorch of the same version, without CUDA
            for library in torch.iterdir():
                if not library.name.startswith("libtorch_cuda"):
                    pathlib.Path(folder, library.name).symlink_to(library)
            others = {os.path.dirname(path) for path in re.findall(r"=> (/\S+)", listing)} - {str(torch)}
            done = subprocess.run([os.path.join(BUILD, "bin/dpbench-worker"), "--catalogue"], capture_output=True, text=True, check=False,
                                  env={**os.environ, "LD_LIBRARY_PATH": ":".join([folder, *sorted(others)])})
            self.assertEqual(done.returncode, 0, done.stderr)
            (missing,) = json.loads(done.stdout)["not_built"]
            self.assertIn(f"{folder}/libtorch_cuda.so", missing["reason"])

    def test_libraries_that_ldd_misses_are_searched_next_to_torch(self):
        with tempfile.TemporaryDirectory() as folder:
            beside = pathlib.Path(folder, "nvidia/cu13/lib/libcudart.so.13")
            beside.parent.mkdir(parents=True)
            beside.touch()
            listing = f"\tlibtorch_cuda.so => {folder}/torch/lib/libtorch_cuda.so (0x7f)\n\tlibcudart.so.13 => not found\n\tlibnone.so => not found\n"
            self.assertEqual(places_of(["libtorch_cuda.so", "libcudart.so.13", "libnone.so"], listing),
                             {"libtorch_cuda.so": f"{folder}/torch/lib/libtorch_cuda.so", "libcudart.so.13": str(beside)})

    def test_if_the_cuda_library_is_built_its_linker_rejects_undefined_symbols(self):
        with open(os.path.join(BUILD, "build.ninja"), encoding="utf-8") as file:
            links = re.findall(r"^build lib/libdpbench_cuda\.so:.*\n(?:  .*\n)*?  LINK_FLAGS = (.*)", file.read(), re.MULTILINE)
        for flags in links:
            self.assertIn("-Wl,-z,defs", flags.split())
        self.assertEqual(len(links), int(os.path.exists(os.path.join(BUILD, "lib/libdpbench_cuda.so"))))

    def test_only_the_cuda_library_includes_cuda_headers(self):
        objects = headers_by_object()
        core = [name for name in objects if "dpbench_core.dir" in name]
        self.assertGreater(len(core), 5, "ninja knows no objects of dpbench_core")
        for name, headers in objects.items():
            if "dpbench_cuda.dir" in name or not os.path.exists(os.path.join(BUILD, name)):
                continue
            self.assertEqual([path for path in headers if CUDA.search(path)], [], name)


if __name__ == "__main__":
    unittest.main()
