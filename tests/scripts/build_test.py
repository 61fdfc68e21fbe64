"""Tests scripts/dpbench and scripts/build on a toy project: they never run an outdated program, and stdout carries only
the program's output. Also tests scripts/studies/build-times."""
import fcntl
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = pathlib.Path(__file__).parents[2]
TOY = """cmake_minimum_required(VERSION 3.25)
project(toy LANGUAGES CXX)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
add_executable(dpbench main.cpp)
target_compile_definitions(dpbench PRIVATE TORCH="${DPBENCH_TORCH}")
add_custom_target(programs DEPENDS dpbench)
"""
MAIN = """#include <cstdio>
int main(int argc, char** argv) {{ std::printf("{word} %s %s\\n", argc > 1 ? argv[1] : "", TORCH); return argc > 2 ? 3 : 0; }}
"""


class Build(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name).resolve()
        (self.root / "scripts").mkdir()
        for name in ("dpbench", "build", "setup"):
            shutil.copy(SOURCE / "scripts" / name, self.root / "scripts")
        shutil.copy(SOURCE / "CMakePresets.json", self.root)
        (self.root / "CMakeLists.txt").write_text(TOY, encoding="utf-8")
        self.write("first")

    def write(self, word):
        (self.root / "main.cpp").write_text(MAIN.format(word=word), encoding="utf-8")

    def run_toy(self, *arguments, **environment):
        return subprocess.run([self.root / "scripts/dpbench", *arguments], cwd="/", capture_output=True, text=True, check=False,
                              env={**os.environ, "DPBENCH_TORCH": "", "DPBENCH_TORCH_VERSION": "", **environment})

    def test_scripts_dpbench_builds_and_runs_the_program_and_forwards_exit_code_and_stdout(self):
        result = self.run_toy("one", "two")
        self.assertEqual((result.returncode, result.stdout), (3, "first one \n"), result.stderr)

    def test_scripts_dpbench_tells_the_program_under_which_name_it_was_called(self):
        main = '#include <cstdio>\n#include <cstdlib>\nint main() { std::puts(std::getenv("DPBENCH_CALLED")); }\n'
        (self.root / "main.cpp").write_text(main, encoding="utf-8")
        self.assertEqual(self.run_toy().stdout, f"{self.root}/scripts/dpbench\n")
        tools = self.root / "tools"
        tools.mkdir()
        (tools / "dpbench").symlink_to("../scripts/dpbench")
        env = {**os.environ, "DPBENCH_TORCH": "", "PATH": f"{tools}:{os.environ['PATH']}"}
        for words, called in ((["dpbench"], "dpbench"), (["scripts/dpbench"], "scripts/dpbench")):
            done = subprocess.run(["/bin/sh", "-c", *words], cwd=self.root, env=env, capture_output=True, text=True, check=False)
            self.assertEqual(done.stdout, called + "\n", done.stderr)

    def test_scripts_dpbench_rebuilds_the_program_only_if_its_source_changed(self):
        for _ in range(2):
            self.assertEqual(self.run_toy("x").stdout, "first x \n")
        self.assertIn("no work to do", (self.root / "build/release/build.log").read_text(encoding="utf-8"))
        self.write("second")
        self.assertEqual(self.run_toy("x").stdout, "second x \n")

    def test_each_value_of_the_variable_dpbench_torch_is_configured_only_once(self):
        for configures in (True, False):
            for torch in ("", "/some/torch", "/other/torch"):
                result = self.run_toy("x", DPBENCH_TORCH=torch)
                self.assertEqual(result.stdout, f"first x {torch}\n", result.stderr)
                self.assertEqual("configuring" in result.stderr, configures, result.stderr)

    def test_scripts_dpbench_uses_the_release_build_if_it_is_for_the_same_torch(self):
        for torch in ("some/torch", "/some/torch"):
            self.assertEqual(self.run_toy("x", DPBENCH_TORCH=torch).stdout, "first x /some/torch\n")
        self.assertEqual([path.name for path in (self.root / "build").iterdir() if path.is_dir()], ["release"])

    def test_scripts_build_configures_again_if_the_variable_dpbench_torch_has_changed(self):
        for torch in ("", "/some/torch", ""):
            subprocess.run([self.root / "scripts/build", "release", "build/release", "programs"], check=True, stderr=subprocess.DEVNULL,
                           env={**os.environ, "DPBENCH_TORCH": torch, "DPBENCH_TORCH_VERSION": ""})
            done = subprocess.run([self.root / "build/release/bin/dpbench", "x"], check=True, capture_output=True, text=True)
            self.assertEqual(done.stdout, f"first x {torch}\n")

    def test_scripts_dpbench_builds_again_for_another_torch_at_the_same_path_also_if_its_files_are_old(self):
        torch = self.root / "env/lib/python3.12/site-packages/torch"
        torch.mkdir(parents=True)
        (self.root / "CMakeLists.txt").write_text(
            TOY.replace("add_custom", f"target_include_directories(dpbench PRIVATE {torch})\nadd_custom"), encoding="utf-8")
        (self.root / "main.cpp").write_text('#include <cstdio>\n#include "variant.h"\nint main() { std::puts(VARIANT); }\n', encoding="utf-8")
        for variant in ("2.11.0+cpu", "2.11.0+cu130"):
            (torch / "version.py").write_text(f"__version__ = '{variant}'\n", encoding="utf-8")
            (torch / "variant.h").write_text(f'#define VARIANT "{variant}"\n', encoding="utf-8")
            os.utime(torch / "variant.h", (0, 0))
            for configures in (True, False):
                result = self.run_toy(DPBENCH_TORCH=str(self.root / "env"))
                self.assertEqual(result.stdout, f"{variant}\n", result.stderr)
                self.assertEqual("configuring" in result.stderr, configures, result.stderr)

    def test_setup_runs_again_if_dpbench_torch_is_set_or_unset_but_not_if_its_value_changes(self):
        tools = self.root / "tools"
        tools.mkdir()
        for script in (self.root / "scripts/setup", tools / "cmake", tools / "ninja"):
            script.write_text(f'#!/bin/sh\necho "${{0##*/}} ${{DPBENCH_TORCH##*/}}" >>{self.root}/calls\n', encoding="utf-8")
            script.chmod(0o755)
        # build/set-up records the last call of scripts/setup. The script is made older than this file, so it runs again
        # only if DPBENCH_TORCH is set or unset.
        os.utime(self.root / "scripts/setup", (0, 0))
        for torch in ("one", "two", "", "", "one"):  # setup installs pip only if DPBENCH_TORCH is empty
            subprocess.run([self.root / "scripts/build", "release", "build/release", "programs"], check=True, stderr=subprocess.DEVNULL,
                           env={**os.environ, "DPBENCH_TORCH": torch, "DPBENCH_TORCH_VERSION": "", "PATH": f"{tools}:{os.environ['PATH']}"})
        calls = (self.root / "calls").read_text(encoding="utf-8").splitlines()
        self.assertEqual([call for call in calls if call.startswith("setup")], ["setup one", "setup ", "setup one"])

    def test_scripts_dpbench_configures_again_if_a_cuda_toolkit_was_added_or_removed(self):
        toy = TOY.replace("LANGUAGES CXX)\n", "LANGUAGES CXX)\nfind_program(CUDA_NVCC nvcc)\n")
        (self.root / "CMakeLists.txt").write_text(toy.replace("${DPBENCH_TORCH}", "${CUDA_NVCC}"), encoding="utf-8")
        before = self.run_toy("x").stdout
        nvcc = self.root / "toolkit/bin/nvcc"
        nvcc.parent.mkdir(parents=True)
        nvcc.write_text("#!/bin/sh\n", encoding="utf-8")
        nvcc.chmod(0o755)
        path = f"{nvcc.parent}:{os.environ['PATH']}"
        for configures in (True, False):
            result = self.run_toy("x", PATH=path)
            self.assertEqual(result.stdout, f"first x {nvcc}\n", result.stderr)
            self.assertEqual("configuring" in result.stderr, configures, result.stderr)
        self.assertEqual(self.run_toy("x").stdout, before)

    def test_scripts_dpbench_exits_2_shows_the_error_and_runs_nothing_if_the_build_fails(self):
        self.run_toy()
        self.write('" broken(')
        result = self.run_toy()
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn("main.cpp:2", result.stderr)
        self.assertIn("building failed", result.stderr)

    def test_scripts_dpbench_exits_2_if_cmake_fails_and_configures_again_at_the_next_call(self):
        (self.root / "CMakeLists.txt").write_text("message(FATAL_ERROR no)", encoding="utf-8")
        result = self.run_toy()
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn("configuring failed", result.stderr)
        (self.root / "CMakeLists.txt").write_text(TOY, encoding="utf-8")
        self.assertEqual(self.run_toy("x").stdout, "first x \n")

    def test_a_second_build_of_a_folder_waits_and_names_the_process_that_builds_it(self):
        self.run_toy()
        lock = self.root / "build/release/lock"
        with lock.open("a", encoding="utf-8") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            lock.write_text("4711 (another build)\n", encoding="utf-8")
            other = {**os.environ, "DPBENCH_TORCH": "", "DPBENCH_TORCH_VERSION": ""}
            with subprocess.Popen([self.root / "scripts/dpbench", "x"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  env=other) as waiting:
                said = waiting.stderr.readline()
                self.assertIn("4711 (another build)", said)
                self.assertIsNone(waiting.poll())
                fcntl.flock(held, fcntl.LOCK_UN)
                self.assertEqual(waiting.communicate(timeout=60)[0], "first x \n")

    def test_builds_of_different_folders_do_not_wait_for_each_other(self):
        self.run_toy()
        with (self.root / "build/release/lock").open("a", encoding="utf-8") as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            done = subprocess.run([self.root / "scripts/build", "release", "build/other", "programs"], capture_output=True, text=True,
                                  check=False, timeout=60, env={**os.environ, "DPBENCH_TORCH": "", "DPBENCH_TORCH_VERSION": ""})
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertNotIn("waiting", done.stderr)

    def test_a_symlink_to_scripts_dpbench_runs_the_program_from_another_directory(self):
        link = self.root / "elsewhere"
        link.symlink_to(self.root / "scripts/dpbench")
        result = subprocess.run([link, "x"], cwd="/", capture_output=True, text=True, check=False)
        self.assertEqual((result.returncode, result.stdout.split()[:2]), (0, ["first", "x"]), result.stderr)


class RealProgram(unittest.TestCase):
    """Tests scripts/dpbench of this source tree. Skipped unless scripts/build built build/release and the build is up
    to date."""

    def test_with_json_output_scripts_dpbench_prints_only_the_report_on_stdout(self):
        build, asked = SOURCE / "build/release", {}
        if (build / "asked").exists():
            asked = dict(re.findall(r"(DPBENCH_TORCH\w*)=(\S*)", (build / "asked").read_text(encoding="utf-8")))
        set_up = SOURCE / "build/set-up"
        if not asked or not set_up.exists() or set_up.stat().st_mtime <= (SOURCE / "scripts/setup").stat().st_mtime:
            self.skipTest("build/release was not built by scripts/build")
        left = subprocess.run(["ninja", "-n", "-C", build, "programs"], capture_output=True, text=True, check=False)
        if "no work to do" not in left.stdout:
            self.skipTest("build/release is not up to date")
        words = ("--strategy", "cpu", "--workload", "random-linear", "--quick", "-o", "json")
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run([SOURCE / "scripts/dpbench", *words], cwd=folder, env={**os.environ, **asked}, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            read = subprocess.run([sys.executable, "-m", "json.tool"], input=done.stdout, capture_output=True, text=True, check=False)
            self.assertEqual(read.returncode, 0, read.stderr)
            self.assertEqual([case["status"] for case in json.loads(read.stdout)["cases"]], ["ok"])
            self.assertEqual(os.listdir(folder), ["results"])


class BuildTimes(unittest.TestCase):
    """Tests scripts/studies/build-times with stand-in build scripts that record their calls and build nothing."""

    def run_it(self, *files):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder).resolve()
            note = f'#!/bin/sh\necho "${{0##*/}} $* cache=$CCACHE_DISABLE" >>{root}/calls\n'
            sources = ("harness/a.cpp", "tests/b.cpp", "tests/c.cpp")
            for name, text in {"scripts/dpbench": note, "build/release/bin/dpbench": "#!/bin/sh\n", "scripts/build": note + 'mkdir -p "$2"\n',
                               **dict.fromkeys(sources, "")}.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
                path.chmod(0o755)
            (root / "scripts/studies").mkdir()
            shutil.copy(SOURCE / "scripts/studies/build-times", root / "scripts/studies")
            done = subprocess.run([root / "scripts/studies/build-times", *files], capture_output=True, text=True, check=False)
            calls = (root / "calls").read_text(encoding="utf-8").splitlines() if (root / "calls").exists() else []
        return done, calls

    def test_build_times_rebuilds_tests_in_a_fresh_folder_after_a_clean_build(self):
        done, calls = self.run_it("harness/a.cpp", "tests/b.cpp", "tests/c.cpp")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [line.split(" | ")[0] for line in done.stdout.splitlines()[2:]]
        named = ("second call", "`harness/a.cpp`", "release build", "`tests/b.cpp`", "`tests/c.cpp`")
        for row, name in zip(rows, named, strict=True):
            self.assertIn(name, row)
        builds = [call.split() for call in calls if call.startswith("build ")]
        self.assertEqual(len(builds), 3)
        for _build, preset, folder, target, cache in builds:
            self.assertEqual((preset, folder, target, cache), ("release", builds[0][2], "all", "cache=1"))
        self.assertFalse(os.path.exists(os.path.dirname(builds[0][2])), "the temporary folder was not removed")

    def test_build_times_makes_a_clean_build_only_for_files_of_tests_and_names_an_absent_file(self):
        done, calls = self.run_it("harness/a.cpp")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([call for call in calls if call.startswith("build ")], [])
        self.assertIn("absent.cpp", self.run_it("absent.cpp")[0].stderr)

    def test_the_files_that_build_times_touches_by_default_exist(self):
        text = (SOURCE / "scripts/studies/build-times").read_text(encoding="utf-8")
        files = re.findall(r'"([\w/]+\.cpp)"', text)
        self.assertGreater(len([file for file in files if file.startswith("tests/")]), 1)
        self.assertEqual([file for file in files if not (SOURCE / file).is_file()], [])


if __name__ == "__main__":
    unittest.main()
