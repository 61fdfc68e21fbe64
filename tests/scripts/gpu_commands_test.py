"""gpu_commands_test.py BUILD: tests with the real programs that scripts/gpu-check's GPU commands are valid, and that
--pack collects all files."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

from drawn_tests import load_tests  # noqa: F401, unittest calls it

BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.dont_write_bytecode = True
sys.path.insert(0, str(ROOT / "scripts/gpu"))
import machine  # noqa: E402
import packing  # noqa: E402
import parts  # noqa: E402

# A stand-in for the NVML driver that shows $PRETENDED_GPUS GPUs; enough for a dry run of dpbench.
NVML = r"""
#include <stdlib.h>
#include <string.h>
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned* count) { *count = atoi(getenv("PRETENDED_GPUS")); return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) { *device = (void*)(1ul + index); return 0; }
int nvmlDeviceGetName(void* device, char* name, unsigned size) { strncpy(name, "Pretended", size); return !device; }
"""


def on_two_gpus(out):
    """Returns all parts of scripts/gpu-check for a machine with two GPUs and torch."""
    with unittest.mock.patch.object(machine, "find_gpus", return_value={"gpus": ["Pretended"] * 2}):
        place = machine.Machine(BUILD / "bin", sys.executable, False, out)
    return parts.all_parts(place)


class Commands(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.commands = [(f"{part.name}/{label}", [str(word) for word in command], part.gpus) for part in on_two_gpus(self.folder / "out")
                         for label, command in part.commands]

    def dpbench_commands(self):
        found = []
        for name, words, gpus in self.commands:
            at = words.index(str(BUILD / "bin/dpbench")) if str(BUILD / "bin/dpbench") in words else None
            if at is not None and words[at + 1] in ("run", "check"):
                found.append((name, words[at:], gpus))
        self.assertGreater(len(found), 25)
        return found

    @unittest.skipIf(machine.query_driver()[0], "this machine has a GPU")
    def test_dpbench_and_dpbench_micro_commands_of_gpu_check_exit_77_without_a_gpu(self):
        micro = [(name, words, gpus) for name, words, gpus in self.commands if words[0].endswith(machine.MICRO) and os.path.exists(words[0])]
        self.assertTrue(micro or not (BUILD / "bin" / machine.MICRO).exists())
        for name, words, _ in self.dpbench_commands() + micro:
            with self.subTest(name=name):
                done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
                self.assertEqual(done.returncode, 77, done.stderr)

    def test_run_and_check_commands_of_gpu_check_pass_a_dry_run_with_a_fake_gpu_driver(self):
        (self.folder / "nvml.c").write_text(NVML, encoding="utf-8")
        subprocess.run(["cc", "-shared", "-fPIC", "-o", self.folder / "libnvidia-ml.so.1", self.folder / "nvml.c"], check=True, timeout=60)
        catalogue = json.loads((BUILD / "bin/catalogue.json").read_text(encoding="utf-8"))
        missing = {one["name"] for one in catalogue["not_built"]}
        environment = {**os.environ, "LD_LIBRARY_PATH": str(self.folder)}
        for name, words, gpus in self.dpbench_commands():
            with self.subTest(name=name):
                environment["PRETENDED_GPUS"] = str(gpus)
                form = [] if "-o" in words else ["-o", "json"]
                done = subprocess.run([*words, *form, "--dry-run"], capture_output=True, text=True, check=False, timeout=60, env=environment)
                if done.returncode == 77 and missing & set(words):
                    continue  # the exit code of a build without NCCL
                self.assertEqual(done.returncode, 0, done.stderr)
                cases = json.loads(done.stdout)["cases"]
                self.assertTrue([case for case in cases if not case.get("skipped") and not case.get("reason")], done.stdout[:2000])


class Pack(unittest.TestCase):
    def test_a_folder_packed_for_a_gpu_machine_has_all_programs_and_libraries(self):
        if not (BUILD / "lib/libdpbench_cuda.so").exists():
            self.skipTest("built without a CUDA toolkit: nothing to pack")
        with tempfile.TemporaryDirectory() as folder:
            packed = pathlib.Path(folder) / "gpu"
            packing.pack(BUILD, packed)
            have = {str(path.relative_to(packed)) for path in packed.rglob("*") if path.is_file()}
            started = {pathlib.Path(word).name for part in on_two_gpus(pathlib.Path(folder)) for _, command in part.commands
                       for word in map(str, command) if word.startswith(str(BUILD / "bin"))}
            started = {name for name in started if (BUILD / "bin" / name).exists()}
            self.assertIn("dpbench", started)
            self.assertLessEqual({"bin/" + name for name in started} | set(packing.OURS), have)
            for program in sorted(have):
                if not program.endswith(".json"):
                    listed = subprocess.run(["objdump", "-p", packed / program], capture_output=True, text=True, check=True, timeout=60).stdout
                    for library in re.findall(r"NEEDED +(\S+)", listed):
                        self.assertTrue(packing.PRESENT.match(library) or library.startswith("ld-linux") or "lib/" + library in have,
                                        f"{program} needs {library}")
            self.assertLess(sum((packed / name).stat().st_size for name in have), 32 << 20)

    def test_gpu_check_refuses_to_pack_a_folder_without_dpbench_and_names_the_build_command(self):
        with tempfile.TemporaryDirectory() as folder, self.assertRaisesRegex(SystemExit, "bin/dpbench .*scripts/build"):
            packing.pack(pathlib.Path(folder), pathlib.Path(folder) / "gpu")


if __name__ == "__main__":
    unittest.main()
