"""plugin_example_test.py BUILD: builds third-party strategies against the installed package; the right strategy must
pass the checks, the wrong one must fail."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import drawn_seed
from drawn_tests import load_tests  # noqa: F401, unittest calls it

BUILD = pathlib.Path(sys.argv.pop()).resolve()
NUMBER = re.search(rb'ABI_MARK "(\d+) libtorch', (pathlib.Path(__file__).parents[2] / "workloads/api/plugin_abi.h").read_bytes())[1]
SOURCES = [pathlib.Path(__file__).parents[1] / name for name in ("plugin_example", "fakes/plugin_parts")]


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)


class PluginExample(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        root = BUILD / "plugin_example"
        shutil.rmtree(root, ignore_errors=True)
        commands = [("cmake", "--install", BUILD, "--prefix", root / "installed")]
        for source in SOURCES:
            build = root / source.name
            commands += [("cmake", "-S", source, "-B", build, "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={root / 'installed'}"),
                         ("cmake", "--build", build)]
        for command in commands:
            result = run(*command)
            if result.returncode:
                raise AssertionError(f"{command}: exit code {result.returncode}\n{result.stdout}{result.stderr}")
        cls.program = root / "installed/bin/dpbench"
        cls.plugin = root / "plugin_example/libplugin_example.so"
        cls.parts = root / "plugin_parts/libplugin_parts.so"
        cls.incomplete = root / "plugin_parts/libplugin_incomplete.so"

    def check(self, strategy, workload="random-linear", *more, cpus="1,3", code=0):
        """Checks a strategy of the example plug-in with a random seed. Expects the exit code `code`."""
        result = drawn_seed.check([self.program, "check", "--plugin", self.plugin, "--strategy", strategy, "--workload", workload,
                                   "--cpus", cpus, "-o", "json", *more], code)
        self.assertEqual(result.returncode, code, result.stderr + result.stdout)
        return result

    def patched(self, old, new):
        """Returns a copy of the example plug-in with `old` replaced by `new`. Fails if `old` does not occur."""
        self.assertEqual(len(old), len(new))
        data = self.plugin.read_bytes()
        self.assertIn(old, data)
        copy = pathlib.Path(tempfile.mkdtemp(dir=self.plugin.parent)) / "libpatched.so"
        self.addCleanup(shutil.rmtree, copy.parent)
        copy.write_bytes(data.replace(old, new))
        copy.chmod(0o755)
        return copy

    def refusal(self, plugin):
        result = run(self.program, "check", "--plugin", plugin, "--strategy", "plain-average", "--dry-run")
        self.assertEqual(result.returncode, 2, result.stderr)
        return result.stderr

    def test_the_correct_example_strategy_passes_its_checks(self):
        result = self.check("plain-average")
        rows = [row for case in json.loads(result.stdout)["cases"] for row in case["checks"]]
        self.assertGreater(sum(row["status"] == "passed" for row in rows), 20)

    def test_the_wrong_example_strategy_fails_and_its_mistake_is_named(self):
        result = self.check("plain-sum", code=1)
        self.assertIn("summed over 3", result.stdout)

    def test_the_correct_example_strategy_passes_every_applicable_check_on_the_default_workloads(self):
        result = drawn_seed.check([self.program, "check", "--plugin", self.plugin, "--strategy", "plain-average", "-o", "json"])
        self.assertEqual(result.returncode, 0, result.stderr + result.stdout)
        due = {"gradient-meaning", "optimizer-replay", "clip", "accumulation"}
        # Without --long, check runs only two scenarios on probe-wide, because its steps are slow.
        due_of_wide = {"gradient-replay", "optimizer-replay", "trajectory"}
        # These checks do not apply to some workloads, whatever the strategy.
        elsewhere = {"gradient-accuracy", "gradient-vs-baseline", "optimizer-state", "ranks-agree-state"}
        # On probe-branch, whether two steps use the same parameters depends on the drawn samples.
        branch = elsewhere | {"collective-count"}
        # A sample of whole numbers cannot hold a NaN.
        whole = elsewhere | {"non-finite"}
        # In some worlds 1 / world is rounded too much to divide whole numbers exactly.
        exact = whole | {"gradient-exact"}
        for case in json.loads(result.stdout)["cases"]:
            passed = {row["name"] for row in case["checks"] if row["status"] == "passed"}
            skipped = {row["name"]: row["detail"] for row in case["checks"] if row["status"] != "passed"}
            if case["workload"] == "probe-wide":
                self.assertLessEqual(due_of_wide, passed, case["id"])
                continue
            self.assertLessEqual(due | ({"empty-shard"} if case["world"] > 1 else set()), passed, case["id"])
            may_skip = {"probe-branch": branch, "gpt": whole, "probe-llama": whole, "probe-experts": whole, "gpt-exact": exact,
                        "gpt-exact-llama": exact, "gpt-exact-experts": exact}.get(case["workload"], elsewhere)
            self.assertLessEqual(set(skipped), may_skip, f"{case['id']}: {skipped}")

    def test_the_correct_example_strategy_passes_its_checks_in_bfloat16(self):
        self.check("plain-average", "probe-mlp,probe-batch-norm", "--dtype", "bf16")

    def test_a_strategy_built_against_the_installed_headers_and_library_passes_its_checks(self):
        result = drawn_seed.check([self.program, "check", "--plugin", self.parts, "--strategy", "own-flat", "--workload",
                                   "probe-mlp,probe-batch-norm", "--cpus", "1,3", "--backend", "shm", "-o", "json"])
        self.assertEqual(result.returncode, 0, result.stderr + result.stdout)
        passed = {row["name"] for case in json.loads(result.stdout)["cases"] for row in case["checks"] if row["status"] == "passed"}
        self.assertLessEqual({"buffers", "clip", "ranks-agree-state", "world-1-bits"}, passed)

    def test_a_strategy_that_calls_torchs_autograd_engine_under_the_fast_runtime_gets_a_notice(self):
        result = run(self.program, "--plugin", self.parts, "--strategy", "dp,dp-upstream,own-engine", "--workload", "own-curve", "--cpus", "1", "--quick",
                     "--runtime", "fast,torch", "--check", "off", "-o", "json", "--out", self.parts.parent / "results")
        self.assertEqual(result.returncode, 0, result.stderr)
        told = {(case["strategy"], case["runtime"]) for case in json.loads(result.stdout)["cases"]
                if any("torch's engine" in text for text in case["notices"])}
        self.assertEqual(told, {("dp-upstream", "fast"), ("own-engine", "fast")})

    def talk(self, *more):
        return run(self.program, "check", "--plugin", self.parts, "--strategy", "own-talk", "--workload", "random-linear", "--cpus", "2",
                   "--backend", "shm", "--filter", "^gradient-meaning$", "-o", "json", *more)

    def test_lines_that_a_plugin_prints_reach_stderr_with_their_rank(self):
        for more in ([], ["-q"]):
            result = self.talk(*more)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(len(json.loads(result.stdout)["cases"]), 1)
            lines = result.stderr.splitlines()
            for rank in (0, 1):
                for source in ("cout", "printf", "stderr"):
                    self.assertIn(f"rank {rank}: {source} in step 1", lines)
                self.assertIn(f"rank {rank}: loaded", lines)

    def test_a_crash_in_the_checks_names_step_and_scenario(self):
        result = self.talk("--param", "own-talk.crash=on")
        self.assertEqual(result.returncode, 3, result.stderr)
        (case,) = json.loads(result.stdout)["cases"]
        self.assertRegex(case["reason"], r"rank 1 .*signal 11 .*\bstep 1 .*\beven\b")
        self.assertIn("rank 1: printf in step 1", result.stderr.splitlines())

    def test_incomplete_registrations_of_a_plugin_are_refused_with_name_and_field(self):
        result = run(self.program, "list", "--plugin", self.incomplete)
        self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
        for name, mistake in (("strategy 'no-make'", ".make"), ("strategy 'no-interval'", ".average_every"), ("strategy 'no-device'", ".cpu"),
                              ("no-parameter", "'bucket_kb'"), ("'ddp'", "twice"), ("workload 'no-model'", ".make"),
                              ("backend 'no-backend'", ".make")):
            self.assertRegex(result.stderr, rf"{name} [^;]*{re.escape(mistake)}")

    def test_list_shows_the_properties_that_a_plugins_strategy_declares(self):
        shown = run(self.program, "list", "own-talk", "--plugin", self.parts)
        self.assertRegex(shown.stdout, r"\baverage_every +100\b")
        self.assertRegex(shown.stdout, r"\brepeatable +yes\b")
        listed = json.loads(run(self.program, "list", "plain-average", "--plugin", self.plugin, "-o", "json").stdout)
        declared = {one["name"]: one["value"] for one in listed["declares"]}
        self.assertEqual((declared["allows_unused"], declared["same_graph"], declared["own"]), (True, False, []))
        sharded = ("collective_evaluation", "live_parameters", "traffic")
        self.assertEqual([declared[name] for name in (*sharded, "used_in")], [False, False, False, None])
        listed = json.loads(run(self.program, "list", "fsdp", "-o", "json").stdout)
        declared = {one["name"]: one["value"] for one in listed["declares"]}
        self.assertEqual([declared[name] for name in sharded], [True, True, True])
        ddp = run(self.program, "list", "ddp").stdout
        self.assertRegex(ddp, r"\btraffic +yes\b")
        self.assertRegex(ddp, r"\bsettings.allow_unused +find_unused=on\b")

    def test_a_case_whose_setting_the_strategy_rejects_is_skipped_with_its_message(self):
        result = self.check("ddp", "probe-mlp,probe-batch-norm", "--param", "ddp.sync_batch_norm=on", cpus="3")
        rows = {"probe-mlp": [], "probe-batch-norm": []}
        for case in json.loads(result.stdout)["cases"]:
            rows[case["workload"]] += case["checks"]
        self.assertEqual({row["status"] for row in rows["probe-mlp"]}, {"skipped"})
        self.assertIn("ddp.sync_batch_norm=on", rows["probe-mlp"][0]["detail"])
        self.assertIn("passed", {row["status"] for row in rows["probe-batch-norm"]})

    def test_check_runs_the_given_number_of_seeds(self):
        dump = self.plugin.parent / "dump"
        shutil.rmtree(dump, ignore_errors=True)
        self.check("plain-average", "random-linear", "--seed", "5", "--seeds", "2", "--dump", dump, cpus="3")
        names = [path.name for path in dump.rglob("*.safetensors")]
        for seed in (5, 6):
            self.assertTrue(any(f"seed{seed}-rank2" in name for name in names), names[:3])

    def test_check_can_use_the_workload_and_backend_of_a_plugin(self):
        result = drawn_seed.check([self.program, "check", "--plugin", self.parts, "--strategy", "ddp", "--workload", "own-curve",
                                   "--backend", "own-relay", "--cpus", "3", "-o", "json"])
        self.assertEqual(result.returncode, 0, result.stderr + result.stdout)
        (case,) = json.loads(result.stdout)["cases"]
        self.assertEqual((case["workload"], case["backend"]), ("own-curve", "own-relay"))
        self.assertGreater(sum(row["status"] == "passed" for row in case["checks"]), 20)

    @unittest.skipUnless(os.geteuid() == 0, "only root can change a file's owner")
    def test_the_worker_itself_rejects_a_plugin_of_another_user(self):
        worker, copy = self.program.parent / "dpbench-worker", self.patched(b"", b"")
        for given in (copy, copy.parent):
            os.chown(given, 12345, 12345)
            result = run(worker, "--catalogue", "--plugin", copy)
            self.assertEqual((result.returncode, result.stdout), (2, ""), result.stderr)
            self.assertRegex(result.stderr, rf"{re.escape(str(given))} .*\b12345\b")
            os.chown(given, 0, 0)
        self.assertEqual(run(worker, "--catalogue", "--plugin", copy).returncode, 0)

    def test_a_plugin_of_another_interface_version_is_rejected(self):
        other = b"0" * len(NUMBER)
        message = self.refusal(self.patched(b"dpbench-plugin-abi " + NUMBER + b" ", b"dpbench-plugin-abi " + other + b" "))
        self.assertIn(f"'dpbench-plugin-abi {other.decode()} ", message)
        self.assertIn(f"'dpbench-plugin-abi {NUMBER.decode()} ", message)

    def test_a_plugin_of_another_libtorch_is_rejected(self):
        mark = re.search(rb"dpbench-plugin-abi \d+ libtorch (\d+)", self.plugin.read_bytes())
        self.assertIn("libtorch 0", self.refusal(self.patched(mark[0], mark[0][: mark.start(1) - mark.start()] + b"0" * len(mark[1]))))

    def test_a_library_that_is_not_a_plugin_is_rejected(self):
        self.assertIn("libpatched.so", self.refusal(self.patched(b"dpbench-plugin-abi", b"another-plugin-abi")))


if __name__ == "__main__":
    unittest.main()
