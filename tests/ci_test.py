"""ci_test.py DPBENCH FAKE_WORKER: every command that stands in scripts/ci/ is run, as its runner would, in a repository of its own;
dpbench is the real one, the builds are pretended."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import reports  # holds every report against its schema

PROGRAM, WORKER = (os.path.abspath(word) for word in sys.argv[1:3])
FILES = pathlib.Path(__file__).parent.parent / "scripts" / "ci"
# In place of scripts/dpbench: "builds" a worker with the speed that its source tree says.
SCRIPT = f"""#!/bin/sh
set -eu
root=$(dirname -- "$(dirname -- "$(readlink -f -- "$0")")")
bin=$root/build/release/bin
mkdir -p "$bin"
cp "{os.path.dirname(WORKER)}/catalogue.json" "$bin"
printf '#!/bin/sh\\nexport FAKE_NOISE=0.01 FAKE_FACTOR=%s\\nexec "{WORKER}" "$@"\\n' "$(cat "$root/factor")" > "$bin/dpbench-worker"
chmod 755 "$bin/dpbench-worker"
DPBENCH_WORKER="$bin/dpbench-worker" exec "{PROGRAM}" "$@"
"""


def commands(name):
    """The shell scripts of a file, one a step, in order; what is marked as set-up of the runner is left out."""
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

    def run_all(self, name):
        """The exit code of the first step that fails, else 0, and what was printed."""
        summary = self.root / "summary.md"
        variables = {**os.environ, "GITHUB_STEP_SUMMARY": str(summary), "GITHUB_BASE_REF": "main", "GITHUB_ACTIONS": "true",
                     "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main"}
        printed = ""
        steps = commands(name)
        self.assertGreater(len(steps), 0)
        for step in steps:
            done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", step], cwd=self.here, env=variables, text=True, capture_output=True,
                                  check=False)
            printed += f"$ {step}\n{done.stdout}{done.stderr}"
            if done.returncode:
                break
        return done.returncode, printed + (summary.read_text(encoding="utf-8") if summary.exists() else "")

    def check(self, name, factor, expected, said):
        (self.here / "factor").write_text(factor, encoding="utf-8")
        code, printed = self.run_all(name)
        self.assertEqual(code, expected, printed)
        self.assertIn(said, printed)

    def test_an_equal_build_passes_on_github(self):
        self.check("github.yml", "1", 0, "2 same. Gate: passed")

    def test_a_slower_build_fails_on_github(self):
        self.check("github.yml", "1.2", 1, "SLOWER")

    def test_an_equal_build_passes_on_gitlab(self):
        self.check("gitlab.yml", "1", 0, "2 same. Gate: passed")
        self.assertTrue((self.here / "checks.xml").exists() and (self.here / "cases.xml").exists())

    def test_a_slower_build_fails_on_gitlab(self):
        self.check("gitlab.yml", "1.2", 1, "SLOWER")

    def test_a_baseline_is_measured_committed_and_then_compared_with(self):
        self.check("keep-baseline.yml", "1", 0, "valid")
        self.git(self.here, "checkout", "-q", "dpbench-baseline")
        self.check("github.yml", "1", 0, "ratio-to-baseline:30%")

    def test_every_example_is_run_here(self):
        self.assertEqual({path.name for path in FILES.glob("*.yml")}, {"github.yml", "gitlab.yml", "keep-baseline.yml"})
        for path in FILES.glob("*.yml"):
            shell = [line for line in path.read_text(encoding="utf-8").splitlines() if re.search(r"\b(scripts/dpbench|git) ", line)]
            run = "\n".join(commands(path.name)).splitlines()
            self.assertEqual([line for line in shell if "# setup:" not in line and not any(command in line for command in run)], [])
            self.assertTrue(run)


if shutil.which("git"):
    unittest.main(argv=sys.argv[:1])
sys.exit("git is needed")
