"""scripts/gpu-check with programs that only pretend: what becomes of parts that pass, fail, hang or cannot run, and the targets."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts/gpu"))
import machine  # noqa: E402
import targets  # noqa: E402

CASE = """{"workload": "%s", "strategy": "%s", "params": %s, "status": "ok", "stats": {"step_time_ns": {"median": %d}},
           "derived": {"flop_per_step": %s, "peak_flop_per_s": 1e12}}"""
DPBENCH = """#!/bin/sh
case "$*" in
  "check --strategy dp "*) echo "a gradient is wrong" >&2; exit 1 ;;
  *"--backend gloo"*) sleep 300 & echo $! > "$FAKE_PIDS"; wait ;;
  *"--backend shm"*) echo "no shared memory here" >&2; exit 77 ;;
  "run "*) echo '{"cases": []}' ;;
esac
echo "$LD_LIBRARY_PATH" > "$FAKE_PIDS.libraries"
"""


def case(workload, us, strategy="gpu", params=None, flop="null"):
    return json.loads(CASE % (workload, strategy, json.dumps(params or {}), us * 1000, flop))


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

    def gpu_check(self, *flags, code, gpu=False):
        if gpu:
            self.program("driver/nvidia-smi", "#!/bin/sh\necho Pretended GPU\n")
        path = f"{self.folder}/driver:" + ":".join(part for part in os.environ["PATH"].split(":")
                                                   if not os.path.exists(part + "/nvidia-smi"))
        done = subprocess.run([sys.executable, str(ROOT / "scripts/gpu-check"), "--programs", str(self.folder / "bin"), "--out",
                               str(self.out), *flags], capture_output=True, text=True, check=False,
                              env={**os.environ, "PATH": path, "FAKE_PIDS": str(self.folder / "pids")})
        self.assertEqual(done.returncode, code, done.stderr)
        return done

    def parts(self):
        summary = json.loads((self.out / "parts.json").read_text())
        return {part["name"]: part for part in summary["parts"]}


class WithoutGpu(Fixture):
    @unittest.skipIf(machine.asked_of_the_driver()[0], "there is a GPU")
    def test_every_part_is_skipped_with_the_reason(self):
        done = self.gpu_check(code=77)
        parts = self.parts()
        self.assertGreater(len(parts), 10)
        for part in parts.values():
            self.assertEqual((part["status"], part["reason"]), ("skipped", "no NVIDIA driver (no nvidia-smi, no libcuda.so.1)"))
            self.assertIn(f"| {part['name']} | skipped |", done.stdout)
        self.assertEqual(done.stdout.strip(), (self.out / "README.md").read_text().strip())
        self.assertNotIn("met |", done.stdout)

    def test_a_driver_that_finds_nothing_is_no_gpu(self):
        self.program("driver/nvidia-smi", "#!/bin/sh\necho 'No devices were found'; exit 6\n")
        self.gpu_check("--part", "doctor", code=77)
        self.assertIn("No devices were found", self.parts()["doctor"]["reason"])


class Parts(Fixture):
    NAMES = ("doctor", "check-dp", "check-ddp-gloo", "check-ddp-shm", "measure-graphs")

    def test_one_that_fails_hangs_or_cannot_run_stops_no_other(self):
        for flags in (["--rehearse"], []):
            with self.subTest(flags=flags):
                self.out = self.folder / ("out" + "".join(flags))
                begin = time.monotonic()
                self.gpu_check(*flags, "--limit", "1.5", "--part", *self.NAMES, code=1, gpu=not flags)
                self.assertLess(time.monotonic() - begin, 100)  # the one that hangs would take 300
                parts = self.parts()
                self.assertEqual({name: parts[name]["status"] for name in self.NAMES},
                                 {"doctor": "passed", "check-dp": "failed", "check-ddp-gloo": "timeout", "check-ddp-shm": "skipped",
                                  "measure-graphs": "passed"})
                self.assertIn("a gradient is wrong", parts["check-dp"]["reason"])
                self.assertIn("1 s", parts["check-ddp-gloo"]["reason"].replace("2 s", "1 s"))
                self.assertIn("no shared memory here", parts["check-ddp-shm"]["reason"])
                self.assertTrue((self.out / "measure-graphs" / "convnet.out").exists())

    def test_what_a_part_started_ends_with_it(self):
        self.gpu_check("--rehearse", "--limit", "1", "--part", "check-ddp-gloo", code=1)
        pid = int((self.folder / "pids").read_text())
        state = pathlib.Path(f"/proc/{pid}/stat")
        self.assertTrue(not state.exists() or state.read_text().split()[2] == "Z")

    def test_the_catalogue_is_written_anew_and_libraries_are_found(self):
        self.gpu_check("--rehearse", "--part", "doctor", code=0)
        self.assertEqual((self.folder / "bin/catalogue.json").read_text(), '{"fresh": 1}\n')
        self.assertEqual((self.folder / "pids.libraries").read_text().split(":")[0].strip(), str(self.folder / "lib"))

    def test_a_worker_that_cannot_start_is_the_reason(self):
        self.program("bin/dpbench-worker", "#!/bin/sh\necho 'libtorch_cpu.so: cannot open' >&2; exit 127\n")
        self.gpu_check("--rehearse", "--part", "doctor", code=77)
        self.assertIn("libtorch_cpu.so: cannot open", self.parts()["doctor"]["reason"])

    def test_programs_that_are_not_there_are_named(self):
        (self.folder / "bin/dpbench").unlink()
        self.gpu_check("--rehearse", "--part", "doctor", code=77)
        self.assertIn("no dpbench in", self.parts()["doctor"]["reason"])

    def test_wrong_arguments_are_refused(self):
        self.assertIn("no part 'nothing'", self.gpu_check("--part", "nothing", code=2).stderr)
        self.out.mkdir()
        self.assertIn("name a directory that can be made", self.gpu_check(code=2).stderr)

    def test_parts_that_the_whole_time_does_not_reach_are_skipped(self):
        self.gpu_check("--rehearse", "--budget", "1", "--part", "check-ddp-gloo", "check-ddp-shm", code=1)
        parts = self.parts()
        self.assertEqual(parts["check-ddp-gloo"]["status"], "timeout")
        self.assertEqual((parts["check-ddp-shm"]["status"], parts["check-ddp-shm"]["reason"]),
                         ("skipped", "the time of the whole run was spent (--budget)"))


class Targets(unittest.TestCase):
    def judged(self, said, records=(), rehearse=False):
        return {one["name"]: one for one in targets.judge(said, records, types.SimpleNamespace(rehearse=rehearse))}

    def test_a_ratio_takes_the_recorded_step_and_pythons_median(self):
        said = {"measure-graphs": {"a": {"cases": [case("mnist-mlp", 10, params={"graph": "off"}),
                                                   case("mnist-mlp", 20, params={"graph": "on"})]}},
                "peers": {"eager": {"step_us": {"mnist-mlp": [90, 100, 400]}}, "reduce-overhead": {"step_us": {"mnist-mlp": [38, 39, 39]}}}}
        judged = self.judged(said)
        self.assertEqual((judged["mnist-mlp against Python, eager"]["value"], judged["mnist-mlp against Python, eager"]["verdict"]), (5, "met"))
        self.assertEqual(judged["mnist-mlp against Python, reduce-overhead"]["verdict"], "missed")
        self.assertEqual(judged["convnet against Python, eager"]["verdict"], "not measured")
        del said["measure-graphs"]["a"]["cases"][1]
        self.assertEqual(self.judged(said)["mnist-mlp against Python, eager"]["measured"], "no step of ours")

    def test_ddps_overhead_is_judged_from_two_milliseconds_on(self):
        said = {"measure-ddp-1": {label: {"cases": [case("mnist-mlp", alone), case("mnist-mlp", ddp, "ddp")]}
                                  for label, alone, ddp in (("short", 100, 120), ("good", 2000, 2060), ("bad", 3000, 3100))}}
        judged = self.judged(said)
        self.assertEqual([judged[f"ddp at world 1 over gpu, {label}"]["verdict"] for label in ("short", "good", "bad")], ["shown", "met", "missed"])
        self.assertEqual(judged["ddp at world 1 over gpu, short"]["measured"], "+20.0 us on 100.0 us")

    def test_the_share_of_the_peak_counts_the_eager_steps_operations(self):
        rows = [case("mnist-mlp", 200, params={"graph": "off"}, flop="80000000"), case("mnist-mlp", 100, params={"graph": "on"})]
        name = "share of the measured matrix-product rate, bf16"
        self.assertEqual(self.judged({"measure-scales": {"4": {"cases": rows}}})[name]["verdict"], "met")
        self.assertEqual(self.judged({"measure-scales": {"4": {"cases": rows[:1]}}})[name]["verdict"], "missed")

    def test_conformance_counts_only_where_it_ran(self):
        records = [{"name": name, "what": name, "status": status} for name, status in zip(targets.CONFORMING, ("passed", "timeout"))]
        judged = self.judged({}, records)
        self.assertEqual([judged[f"{name}: gradients conform"]["verdict"] for name in targets.CONFORMING], ["met", "not measured"])

    def test_a_rehearsal_judges_nothing(self):
        said = {"measure-ddp-1": {"a": {"cases": [case("mnist-mlp", 3000, "cpu"), case("mnist-mlp", 4000, "ddp")]}}}
        self.assertEqual({one["verdict"] for one in self.judged(said, rehearse=True).values()}, {"not measured", "rehearsed"})


if __name__ == "__main__":
    unittest.main()
