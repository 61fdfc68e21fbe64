"""Tests scripts/gpu-check (the GPU test script) with stand-in programs: parts of it that pass, fail, hang or cannot
run."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/gpu"))
import machine  # noqa: E402
import parts  # noqa: E402
import running  # noqa: E402
import targets  # noqa: E402

DPBENCH = """#!/bin/sh
case "$*" in
  "check --strategy dp "*) echo "a gradient is wrong" >&2; exit 1 ;;
  *"--backend gloo"*) sleep 300 & echo $! > "$FAKE_PIDS"; wait ;;
  *"--backend shm"*) echo "no shared memory" >&2; exit 77 ;;
  "run "*) echo '{"cases": []}' ;;
esac
echo "$LD_LIBRARY_PATH" > "$FAKE_PIDS.libraries"
"""


# A stand-in for compute-sanitizer: prints the lines of $FAKE_SANITIZER that begin with the name given by --tool.
SANITIZER = """#!/bin/sh
tool=$2
printf '%s\\n' "$FAKE_SANITIZER" | sed -n "s/^$tool //p"
"""
CLEAN = "memcheck ========= ERROR SUMMARY: 0 errors\nracecheck ========= RACECHECK SUMMARY: 0 hazards displayed (0 errors, 0 warnings)"


class Fixture(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "bin").mkdir()
        self.program("bin/dpbench", DPBENCH)
        self.program("bin/dpbench-worker", '#!/bin/sh\n[ "$1" = --catalogue ] && echo "{\\"fresh\\": 1}"\n')
        self.out = self.folder / "out"

    def program(self, name, text):
        path = self.folder / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        path.chmod(0o755)

    def gpu_check(self, *flags, code, gpu=False, says=""):
        if gpu:
            self.program("driver/nvidia-smi", "#!/bin/sh\n" + "echo Pretended GPU\n" * int(gpu))
        path = f"{self.folder}/driver:" + ":".join(part for part in os.environ["PATH"].split(":")
                                                   if not os.path.exists(part + "/nvidia-smi"))
        done = subprocess.run([sys.executable, str(ROOT / "scripts/gpu-check"), "--programs", str(self.folder / "bin"), "--out",
                               str(self.out), *flags], capture_output=True, text=True, check=False,
                              env={**os.environ, "PATH": path, "FAKE_PIDS": str(self.folder / "pids"), "FAKE_SANITIZER": says})
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def parts(self):
        summary = json.loads((self.out / "parts.json").read_text())
        return {part["name"]: part for part in summary["parts"]}


class WithoutGpu(Fixture):
    @unittest.skipIf(machine.query_driver()[0], "there is a GPU")
    def test_gpu_check_skips_every_part_with_the_reason_if_there_is_no_gpu(self):
        done = self.gpu_check(code=77)
        parts = self.parts()
        self.assertGreater(len(parts), 10)
        for part in parts.values():
            self.assertEqual(part["status"], "skipped")
            self.assertRegex(part["reason"], r"nvidia-smi.*libcuda\.so\.1")
            self.assertIn(f"| {part['name']} | skipped |", done.stdout)
        self.assertEqual(done.stdout.strip(), (self.out / "README.md").read_text().strip())
        self.assertNotIn("met |", done.stdout)

    def test_gpu_check_counts_a_driver_without_devices_as_no_gpu(self):
        self.program("driver/nvidia-smi", "#!/bin/sh\necho 'No devices were found'; exit 6\n")
        self.gpu_check("--part", "doctor", code=77)
        self.assertIn("No devices were found", self.parts()["doctor"]["reason"])


class Parts(Fixture):
    NAMES = ("doctor", "check-dp", "check-ddp-gloo", "check-ddp-shm", "measure-graphs")

    def test_gpu_check_runs_its_other_parts_if_a_part_fails_hangs_or_cannot_run(self):
        for flags in (["--rehearse"], []):
            with self.subTest(flags=flags):
                self.out = self.folder / ("out" + "".join(flags))
                begin = time.monotonic()
                self.gpu_check(*flags, "--limit", "1.5", "--part", *self.NAMES, code=1, gpu=not flags)
                self.assertLess(time.monotonic() - begin, 100)  # --limit stops check-ddp-gloo, which sleeps for 300 s
                parts = self.parts()
                self.assertEqual({name: parts[name]["status"] for name in self.NAMES},
                                 {"doctor": "passed", "check-dp": "failed", "check-ddp-gloo": "timeout", "check-ddp-shm": "skipped",
                                  "measure-graphs": "passed"})
                self.assertIn("a gradient is wrong", parts["check-dp"]["reason"])
                self.assertIn("1 s", parts["check-ddp-gloo"]["reason"].replace("2 s", "1 s"))
                self.assertIn("no shared memory", parts["check-ddp-shm"]["reason"])
                self.assertTrue((self.out / "measure-graphs" / "convnet.out").exists())
                self.assertEqual([one["label"] for one in parts["check-ddp-gloo"]["commands"]], ["2"])

    def test_a_resumed_gpu_check_repeats_only_parts_that_did_not_pass(self):
        self.program("bin/dpbench", '#!/bin/sh\necho "$1" >> "$FAKE_PIDS"\necho "{}"\ntest "$1" != check\n')
        self.gpu_check("--rehearse", "--part", "doctor", "check-dp", code=1)
        self.assertEqual(self.parts()["check-dp"]["status"], "failed")
        self.program("bin/dpbench", '#!/bin/sh\necho "again $1" >> "$FAKE_PIDS"\necho "{}"\n')
        for _ in range(2):
            self.gpu_check("--rehearse", "--resume", "--part", "doctor", "check-dp", code=0)
            self.assertEqual({name: part["status"] for name, part in self.parts().items()}, {"doctor": "passed", "check-dp": "passed"})
        self.assertEqual((self.folder / "pids").read_text().split("\n"), ["doctor", "env", "check", "again check", ""])
        self.gpu_check("--rehearse", "--resume", "--part", "check-dp-2", code=0)
        self.assertEqual(set(self.parts()), {"doctor", "check-dp", "check-dp-2"})

    def test_gpu_check_refuses_to_resume_without_an_earlier_run_or_on_a_gpu_after_a_run_without_gpu(self):
        self.gpu_check("--rehearse", "--resume", "--part", "doctor", code=2)
        self.gpu_check("--rehearse", "--part", "doctor", code=0)
        before = (self.out / "parts.json").read_text()
        self.assertIn("no GPU", self.gpu_check("--resume", "--part", "doctor", code=2, gpu=True).stderr)
        self.assertEqual((self.out / "parts.json").read_text(), before)

    def test_gpu_check_kills_the_processes_of_a_part_at_the_parts_time_limit(self):
        self.gpu_check("--rehearse", "--limit", "1", "--part", "check-ddp-gloo", code=1)
        pid = int((self.folder / "pids").read_text())
        state = pathlib.Path(f"/proc/{pid}/stat")
        self.assertTrue(not state.exists() or state.read_text().split()[2] == "Z")

    def test_gpu_check_rewrites_catalogue_json_and_puts_dpbenchs_lib_folder_first_in_ld_library_path(self):
        self.gpu_check("--rehearse", "--part", "doctor", code=0)
        self.assertEqual((self.folder / "bin/catalogue.json").read_text(), '{"fresh": 1}\n')
        self.assertEqual((self.folder / "pids.libraries").read_text().split(":")[0].strip(), str(self.folder / "lib"))

    def test_a_part_of_gpu_check_for_one_gpu_sees_the_first_of_two_and_other_parts_see_both(self):
        self.program("bin/dpbench", '#!/bin/sh\necho "{}"\necho "${CUDA_VISIBLE_DEVICES-all}" >> "$FAKE_PIDS"\n')
        for gpus, seen in ((1, {"check-dp": ["all"]}), (2, {"check-dp": ["0"], "check-dp-gpus-2": ["all", "all"], "doctor": ["all", "all"]})):
            for part, shown in seen.items():
                with self.subTest(gpus=gpus, part=part), unittest.mock.patch.dict(os.environ):
                    os.environ.pop("CUDA_VISIBLE_DEVICES", None)
                    self.out = self.folder / f"{gpus}{part}"
                    (self.folder / "pids").unlink(missing_ok=True)
                    self.gpu_check("--part", part, code=0, gpu=gpus)
                    self.assertEqual((self.folder / "pids").read_text().split(), shown)
        self.out = self.folder / "skipped"
        self.gpu_check("--part", "check-dp-gpus-2", code=77, gpu=1)
        self.assertRegex(self.parts()["check-dp-gpus-2"]["reason"], r"\b2 GPUs.*\b1\b")

    def test_gpu_check_fails_if_a_speed_target_is_missed_unless_the_flag_any_gpu_is_given(self):
        slow = '{"cases": [%s]}' % ", ".join(
            '{"workload": "mnist-mlp", "strategy": "%s", "status": "ok", "params": {}, "scale": 1, "dtype": "f32", "batch": 64,'
            ' "stats": {"step_time_ns": {"median": %d}}}' % one for one in (("gpu", 4000000), ("ddp", 5000000)))
        self.program("bin/dpbench", f"#!/bin/sh\necho '{slow}'\n")
        for flags, code in ((["--part", "measure-ddp-1"], 1), (["--part", "measure-ddp-1", "--any-gpu"], 0)):
            self.out = self.folder / f"out{code}"
            self.assertIn("| missed |", self.gpu_check(*flags, code=code, gpu=True).stdout)

    def test_gpu_check_fails_every_part_if_the_worker_or_its_cuda_library_cannot_be_used(self):
        missing = '{"not_built": [{"kind": "backend", "name": "nccl", "reason": "libcufile.so.0: not found"}]}'
        for worker, reason in (("echo 'libtorch_cpu.so: cannot open' >&2; exit 127", "libtorch_cpu.so: cannot open"),
                               (f"echo '{missing}'", "libcufile.so.0: not found"),
                               ("echo nonsense", "no JSON: nonsense")):
            with self.subTest(worker=worker):
                self.out = self.folder / reason[:4]
                self.program("bin/dpbench-worker", f"#!/bin/sh\n{worker}\n")
                self.gpu_check("--part", "doctor", "measure-graphs", code=1, gpu=True)
                for part in self.parts().values():
                    self.assertEqual(part["status"], "failed")
                    self.assertIn(reason, part["reason"])

    def test_gpu_check_fails_a_part_whose_programs_are_missing_and_names_their_folder(self):
        (self.folder / "bin/dpbench").unlink()
        self.gpu_check("--rehearse", "--part", "doctor", code=1)
        self.assertIn(str(self.folder / "bin"), self.parts()["doctor"]["reason"])

    def test_the_part_of_gpu_check_with_compute_sanitizer_fails_for_errors_and_warnings(self):
        self.program("driver/compute-sanitizer", SANITIZER)
        unseen = CLEAN.replace("ERROR SUMMARY: 0 errors", "Error: Target application terminated before first instrumented API call")
        for says, reason in ((CLEAN, ""), ("", "'ERROR SUMMARY: 0 errors'"),
                             (CLEAN.replace("0 errors\n", "2 errors\n"), "memcheck-off: ERROR SUMMARY: 2 errors"),
                             (CLEAN + "\nmemcheck ========= ERROR SUMMARY: 1 error", "memcheck-off: ERROR SUMMARY: 1 error"),
                             (CLEAN.replace("0 warnings", "3 warnings"), "racecheck-off: RACECHECK SUMMARY: 0 hazards displayed (0 errors, 3 warnings)"),
                             (unseen, "terminated before first instrumented API call")):
            with self.subTest(says=says):
                self.out = self.folder / f"out{len(list(self.folder.iterdir()))}"
                self.gpu_check("--part", "sanitizer", code=1 if reason else 0, gpu=True, says=says)
                self.assertEqual(self.parts()["sanitizer"]["status"], "failed" if reason else "passed")
                self.assertIn(reason, self.parts()["sanitizer"]["reason"])

    def test_gpu_check_refuses_unknown_parts_and_an_existing_output_folder(self):
        self.assertIn("no part 'nothing'", self.gpu_check("--part", "nothing", code=2).stderr)
        self.out.mkdir()
        self.assertIn(f"--out {self.out}", self.gpu_check(code=2).stderr)

    def test_gpu_check_skips_parts_beyond_its_time_budget(self):
        self.gpu_check("--rehearse", "--budget", "1", "--part", "check-ddp-gloo", "check-ddp-shm", code=1)
        parts = self.parts()
        self.assertEqual(parts["check-ddp-gloo"]["status"], "timeout")
        self.assertEqual(parts["check-ddp-shm"]["status"], "skipped")
        self.assertIn("--budget", parts["check-ddp-shm"]["reason"])


class Limits(unittest.TestCase):
    def on_gpus(self, count=1):
        with unittest.mock.patch.object(machine, "find_gpus", return_value={"gpus": ["Pretended"] * count}):
            return machine.Machine(ROOT / "build", sys.executable, False, ROOT / "out")

    def test_the_parts_of_gpu_check_that_its_targets_need_fit_its_time_budget(self):
        needed = {"measure-graphs", "peers", "measure-ddp-1", "measure-scales", "measure-gpt", "peers-gpt", *targets.CONFORMING}
        spent_s = 0
        for part in parts.all_parts(self.on_gpus(2)):
            self.assertGreater(part.limit_s, 0)
            spent_s += part.limit_s
            needed.discard(part.name)
            if not needed:
                break
        text = (ROOT / "scripts/gpu-check").read_text(encoding="utf-8")
        budget_s = int(re.search(r"^BUDGET_S = (\d+)", text, re.MULTILINE).group(1))
        self.assertEqual(needed, set())
        self.assertLessEqual(spent_s, budget_s)
        self.assertLess(budget_s, 25 * 60)

    def test_concurrent_commands_of_gpu_check_get_disjoint_cores_if_there_are_enough(self):
        for cores, count, shares in (({0, 1, 2, 3, 6}, 2, [{0, 1}, {2, 3, 6}]), ({0, 4}, 1, [{0, 4}]), ({5}, 2, [{5}, {5}])):
            with unittest.mock.patch.object(os, "sched_getaffinity", return_value=cores):
                self.assertEqual(running.shares_of_cores(count), shares)

    def test_gpu_check_checks_dp_with_cuda_graphs_only_on_a_gpu(self):
        rehearsal = machine.Machine(ROOT / "build", sys.executable, True, ROOT / "out")
        for place, labels in ((self.on_gpus(), ["dp", "graph"]), (rehearsal, ["dp"])):
            (two,) = [part for part in parts.all_parts(place) if part.name == "check-dp-2"]
            self.assertEqual([label for label, _ in two.commands], labels)
            self.assertEqual(["dp.graph=on" in command for _, command in two.commands], [label == "graph" for label in labels])

    def test_gpu_check_checks_hybrid_sharding_on_a_gpu_and_in_a_rehearsal_without_gpu(self):
        for place in (self.on_gpus(), machine.Machine(ROOT / "build", sys.executable, True, ROOT / "out")):
            (sharded,) = [part for part in parts.all_parts(place) if part.name == "check-sharded"]
            command = dict(sharded.commands)["hsdp"]
            self.assertEqual(command[command.index("--mesh") + 1], "dp=2,shard=2")

    SEVERAL = ("check-dp", "check-ddp", "check-sharded", "check-layouts", "collectives", "measure")

    def test_gpu_check_runs_parts_for_several_gpus_only_if_as_many_are_visible(self):
        unseen = {name: text for name, text in os.environ.items() if name != "CUDA_VISIBLE_DEVICES"}
        for count, shown, most in ((1, None, 1), (2, None, 2), (2, "3", 1), (4, "1,3", 2), (8, None, 8)):
            with self.subTest(count=count, shown=shown), \
                    unittest.mock.patch.dict(os.environ, unseen | ({"CUDA_VISIBLE_DEVICES": shown} if shown else {}), clear=True):
                several = [part for part in parts.all_parts(self.on_gpus(count)) if part.gpus > 1 and part.name != "doctor"]
                self.assertEqual([part.name for part in several], [f"{name}-gpus-{needed}" for needed in (2, 4, 8) for name in self.SEVERAL])
                for part in several:  # programs may be missing too, so only the number of GPUs is tested
                    self.assertEqual(f"{part.gpus} GPUs" in (part.lacks or ""), part.gpus > most, part.lacks)
        commands = [(part, command) for part in several for _, command in part.commands]
        for part, command in commands:
            if not part.name.startswith("collectives"):
                self.assertEqual(command[command.index("--gpus") + 1], str(part.gpus))
                self.assertNotIn("--oversubscribe", command)
            if part.name.startswith("check-dp"):
                self.assertIn("dp.link=auto,plain", command)
            elif "dp" not in command:
                self.assertEqual(command[command.index("--backend") + 1], "nccl")

    def test_every_query_of_gpu_check_about_the_machine_has_a_timeout(self):
        with tempfile.TemporaryDirectory() as folder:
            hangs = pathlib.Path(folder) / "nvidia-smi"
            hangs.write_text("#!/bin/sh\nexec sleep 300\n", encoding="utf-8")
            hangs.chmod(0o755)
            (pathlib.Path(folder) / "dpbench").symlink_to(hangs)
            (pathlib.Path(folder) / "dpbench-worker").symlink_to(hangs)
            with unittest.mock.patch.object(machine, "ASK_LIMIT_S", 0.3), \
                    unittest.mock.patch.dict(os.environ, PATH=folder + ":" + os.environ["PATH"]):
                begin = time.monotonic()
                place = machine.Machine(pathlib.Path(folder), str(hangs), False, pathlib.Path(folder) / "out")
                self.assertEqual((place.gpu, place.no_gpu, place.torch), (None, None, []))
                self.assertRegex(place.broken, r"nvidia-smi.*\b0\.3 s")
                self.assertRegex(machine.make_ready(place), r"dpbench-worker.*\b0\.3 s")
                self.assertLess(time.monotonic() - begin, 20)
        for file in (ROOT / "scripts/gpu").glob("*.py"):
            # faults.py and overlap.py run as commands of a part, so the part's time limit stops them.
            self.assertEqual(file.read_text(encoding="utf-8").count("subprocess.run("), int(file.name in ("machine.py", "faults.py", "overlap.py")), file.name)


if __name__ == "__main__":
    unittest.main()
