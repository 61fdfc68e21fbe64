"""ci_test.py DPBENCH FAKE_WORKER: runs every command of the CI examples in scripts/ci/ as a CI runner would, in a
temporary repository, with the real dpbench and simulated builds."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import reports  # noqa: F401, importing this module validates every report that dpbench writes

PROGRAM, WORKER = (os.path.abspath(word) for word in sys.argv[1:3])
FILES = pathlib.Path(__file__).parents[2] / "scripts" / "ci"
# Stand-in for scripts/dpbench. Instead of building, it makes a worker with the speed that the source tree's file
# `factor` gives.
SCRIPT = f"""#!/bin/sh
set -eu
root=$(dirname -- "$(dirname -- "$(readlink -f -- "$0")")")
bin=$root/build/release/bin
mkdir -p "$bin"
cp "{os.path.dirname(WORKER)}/catalogue.json" "$bin"
printf '#!/bin/sh\\nexport FAKE_FACTOR=%s\\nexec "{WORKER}" "$@"\\n' "$(cat "$root/factor")" > "$bin/dpbench-worker"
chmod 755 "$bin/dpbench-worker"
DPBENCH_WORKER="$bin/dpbench-worker" exec "{PROGRAM}" "$@"
"""


def commands(name):
    """Returns the shell scripts of a CI file, one per step, without steps marked as set-up of the runner."""
    lines = (FILES / name).read_text(encoding="utf-8").splitlines()
    found = []
    for at, line in enumerate(lines):
        if match := re.match(r"( *)(?:- )?run: (.*)", line):
            if match[2] != "|":
                found.append(match[2])
                continue
            column = len(line) - len(line.lstrip(" -"))
            block = []
            for more in lines[at + 1:]:
                if len(more) - len(more.lstrip()) <= column:
                    break
                block.append(more.strip())
            found.append("\n".join(block))
        elif re.match(r" *(before_)?script:$", line):
            for more in lines[at + 1:]:
                if not (item := re.match(r" +- (.*)", more)):
                    break
                found.append(item[1])
    return [text for text in found if "# setup:" not in text]


class Ci(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dpbench-ci-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        origin, self.here = self.root / "origin", self.root / "checkout"
        (origin / "scripts").mkdir(parents=True)
        (origin / "scripts/dpbench").write_text(SCRIPT, encoding="utf-8")
        (origin / "scripts/dpbench").chmod(0o755)
        (origin / "factor").write_text("1", encoding="utf-8")
        (origin / ".gitignore").write_text("build\nresults/2*\n", encoding="utf-8")
        self.git(origin, "init", "-q", "-b", "main")
        self.git(origin, "add", ".")
        self.git(origin, "commit", "-q", "-m", "first")
        self.git(self.root, "clone", "-q", "origin", "checkout")

    def git(self, where, *words):
        subprocess.run(["git", "-c", "user.name=x", "-c", "user.email=x@x", *words], cwd=where, check=True, capture_output=True)

    def run_all(self, name, noise="0.01", cores=None):
        """Runs the steps of a CI file until one fails. Returns the exit code of the failing step, or 0, and the
        output."""
        summary = self.root / "summary.md"
        variables = {**os.environ, "GITHUB_STEP_SUMMARY": str(summary), "GITHUB_BASE_REF": "main", "GITHUB_ACTIONS": "true",
                     "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main", "FAKE_NOISE": noise,
                     "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
        if os.geteuid() == 0 and name != "gitlab.yml":  # in a container on GitHub, another user owns the checkout
            os.chown(self.here, 12345, -1)
        printed = ""
        steps = commands(name)
        self.assertGreater(len(steps), 0)
        for step in steps:
            done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", step], cwd=self.here, env=variables, text=True, capture_output=True,
                                  check=False, preexec_fn=cores and (lambda: os.sched_setaffinity(0, cores)))
            printed += f"$ {step}\n{done.stdout}{done.stderr}"
            if done.returncode:
                break
        return done.returncode, printed + (summary.read_text(encoding="utf-8") if summary.exists() else "")

    def check(self, name, factor, expected, said, noise="0.01", cores=None):
        (self.here / "factor").write_text(factor, encoding="utf-8")
        code, printed = self.run_all(name, noise, cores)
        self.assertEqual(code, expected, printed)
        self.assertIn(said, printed)

    def keep_baseline(self, cores=None):
        self.check("keep-baseline.yml", "1", 0, "valid", cores=cores)
        self.git(self.here, "checkout", "-q", "dpbench-baseline")

    def test_the_github_ci_example_passes_an_equally_fast_build(self):
        self.check("github.yml", "1", 0, "2 same. Gate: passed")

    def test_the_github_ci_example_fails_a_slower_build(self):
        self.check("github.yml", "1.2", 1, "SLOWER")

    def test_the_gitlab_ci_example_passes_an_equally_fast_build(self):
        self.check("gitlab.yml", "1", 0, "2 same. Gate: passed")
        self.assertTrue((self.here / "checks.xml").exists() and (self.here / "cases.xml").exists())

    def test_the_gitlab_ci_example_fails_a_slower_build(self):
        self.check("gitlab.yml", "1.2", 1, "SLOWER")

    def test_a_baseline_pushed_by_one_ci_job_is_used_by_another(self):
        self.keep_baseline()
        self.check("github.yml", "1", 0, "ratio-to-baseline:30%")

    # With this noise, the ratios of the builds' times spread by more than 15 % between the pairs of blocks that a duel
    # measures, so the duel is unclear. The comparison with the stored baseline still fails.
    def test_the_ci_examples_fail_a_build_four_times_slower_on_a_noisy_machine(self):
        for name in ("github.yml", "gitlab.yml"):
            with self.subTest(name):
                self.setUp()
                self.keep_baseline()
                self.check(name, "4", 1, "SLOWER", noise="0.25")

    def test_the_gitlab_ci_example_warns_and_the_github_ci_example_passes_if_builds_differ_by_noise(self):
        for name, code in (("github.yml", 0), ("gitlab.yml", 4)):
            with self.subTest(name):
                self.setUp()
                self.keep_baseline()
                self.check(name, "1", code, "above 15 %", noise="0.5")

    def test_the_ci_examples_use_a_baseline_from_a_machine_with_more_cores(self):
        usable = sorted(os.sched_getaffinity(0))
        if len(usable) < 2:
            self.skipTest("one core only")
        for name in ("github.yml", "gitlab.yml"):
            with self.subTest(name):
                self.setUp()
                self.keep_baseline(usable[:2])
                self.check(name, "1", 0, "ratio-to-baseline:30%", cores=usable[:1])

    def test_a_cache_of_a_plugins_ci_has_another_name_if_and_only_if_its_content_would_differ(self):
        tree = self.root / "tree"
        for path in ("scripts/ci/plugin/install", "scripts/find-torch"):
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(FILES.parents[1] / path, tree / path)
        for path in ("CMakeLists.txt", "harness/a.cpp", "strategies/b.h", "workloads/c.h", "tests/d.cpp", "README.md"):
            (tree / path).parent.mkdir(parents=True, exist_ok=True)
            (tree / path).write_text("first", encoding="utf-8")

        def names():
            done = subprocess.run([tree / "scripts/ci/plugin/install", "--names"], check=True, capture_output=True, text=True)
            return dict(line.split("=", 1) for line in done.stdout.splitlines())

        first = names()
        self.assertEqual(set(first), {"torch-cache", "build-cache"})
        for path, is_built in (("README.md", False), ("tests/d.cpp", False), ("harness/a.cpp", True),
                               ("strategies/b.h", True), ("workloads/c.h", True), ("CMakeLists.txt", True)):
            with self.subTest(path):
                (tree / path).write_text("second", encoding="utf-8")
                now = names()
                self.assertEqual(now["build-cache"] != first["build-cache"], is_built)
                self.assertEqual(now["torch-cache"], first["torch-cache"])
                (tree / path).write_text("first", encoding="utf-8")
        find_torch = tree / "scripts/find-torch"
        changed = re.sub(r'(?m)^DEFAULT_VERSION = ".*"', 'DEFAULT_VERSION = "9.9.9"', find_torch.read_text(encoding="utf-8"))
        find_torch.write_text(changed, encoding="utf-8")
        self.assertTrue(names()["torch-cache"].startswith("dpbench-torch-9.9.9-"))
        self.assertNotEqual(names()["build-cache"], first["build-cache"])

    def test_every_command_of_the_ci_examples_is_run_by_these_tests(self):
        self.assertEqual({path.name for path in FILES.glob("*.yml")}, {"github.yml", "gitlab.yml", "keep-baseline.yml"})
        for path in FILES.glob("*.yml"):
            shell = [line for line in path.read_text(encoding="utf-8").splitlines() if re.search(r"\b(scripts/dpbench|git) ", line)]
            run = "\n".join(commands(path.name)).splitlines()
            self.assertEqual([line for line in shell if "# setup:" not in line and not any(command in line for command in run)], [])
            self.assertTrue(run)


# Stand-in for build/release/bin/dpbench: the n-th run gets its environment variables from the n-th line of the file
# `plan`.
GATED = f"""#!/bin/sh
here=$(dirname -- "$0")
if [ "$1" = run ]; then
  echo >> "$here/runs"
  export $(sed -n "$(wc -l < "$here/runs")p" "$here/plan")
fi
FAKE_NOISE=0.01 DPBENCH_WORKER="$here/dpbench-worker" exec "{PROGRAM}" "$@"
"""


class Gate(unittest.TestCase):
    """Tests scripts/ci/gate, dpbench's own speed gate: only a slowdown is measured a second time."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dpbench-gate-")
        self.addCleanup(folder.cleanup)
        root = pathlib.Path(folder.name)
        self.gate, self.bin, self.baseline = root / "scripts/ci/gate", root / "build/release/bin", root / "results/baselines/ci.json"
        for path in (self.gate.parent, self.bin, self.baseline.parent):
            path.mkdir(parents=True)
        shutil.copy(FILES / "gate", self.gate)
        catalogue = json.loads((pathlib.Path(WORKER).parent / "catalogue.json").read_text(encoding="utf-8"))
        names = {"toy": "mnist-mlp", "strong-toy": "convnet"}
        catalogue["workloads"] = [one | {"name": names[one["name"]]} for one in catalogue["workloads"]]
        ddp = next(one for one in catalogue["strategies"] if one["name"] == "ddp")
        catalogue["strategies"].append(ddp | {"name": "dp", "parallelism": "replicas"})
        (self.bin / "catalogue.json").write_text(json.dumps(catalogue), encoding="utf-8")
        (self.bin / "dpbench-worker").write_text(f'#!/bin/sh\nexec "{WORKER}" "$@"\n', encoding="utf-8")
        (self.bin / "dpbench-worker").chmod(0o755)
        (self.bin / "dpbench").write_text(GATED, encoding="utf-8")
        (self.bin / "dpbench").chmod(0o755)
        self.run_gate("FAKE_FACTOR=1", words=["--record"])

    def run_gate(self, *plan, words=(), code=0):
        (self.bin / "plan").write_text("\n".join(plan) + "\n", encoding="utf-8")
        (self.bin / "runs").write_text("", encoding="utf-8")
        done = subprocess.run([self.gate, *words], text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        self.assertEqual(len((self.bin / "runs").read_text(encoding="utf-8")), len(plan), "runs")
        return done

    def test_the_speed_gate_passes_an_equally_fast_run_without_retry(self):
        self.assertIn("4 same. Gate: passed", self.run_gate("FAKE_FACTOR=1").stdout)

    def test_the_speed_gate_fails_only_if_a_slowdown_is_measured_twice(self):
        self.assertIn("scripts/ci/gate: ", self.run_gate("FAKE_FACTOR=2", "FAKE_FACTOR=1").stderr)
        self.run_gate("FAKE_FACTOR=2", "FAKE_FACTOR=2", code=1)

    def test_the_speed_gate_fails_a_wrong_or_failed_run_without_retry(self):
        for fault, code in (("wrong", 1), ("exit7", 3)):
            with self.subTest(fault):
                self.run_gate(f"FAKE_FAULT={fault}", code=code)
                self.run_gate("FAKE_FACTOR=2", f"FAKE_FAULT={fault}", code=code)

    def test_the_speed_gate_does_not_store_a_run_with_wrong_gradients_as_its_baseline(self):
        before = self.baseline.read_bytes()
        self.run_gate("FAKE_FAULT=wrong", words=["--record"], code=1)
        self.assertEqual(self.baseline.read_bytes(), before)


if shutil.which("git"):
    unittest.main(argv=sys.argv[:1])
sys.exit("git is needed")
