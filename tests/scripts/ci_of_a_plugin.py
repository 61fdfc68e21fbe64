"""ci_of_a_plugin.py INSTALLATION: creates an empty repository, adds scripts/ci/plugin/github.yml or gitlab.yml and a
plug-in as a new user would, and runs the steps of that workflow and of its action, or of the template. INSTALLATION is
a prefix of cmake --install. HOME must hold the files of the action's cache of torch."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
INSTALLATION = pathlib.Path(sys.argv.pop(1)).resolve()
EXAMPLE = ROOT / "tests/plugin_example"
# Actions that exist only on GitHub's runner, so this test skips them.
LEFT_OUT = {"actions/checkout@v4", "actions/upload-artifact@v4"}
# The only cached files that stay in place between GithubJobs: torch, because copying it would take too long.
KEPT = "~/.cache/dpbench/env"
ACTION = "OWNER/dpbench/scripts/ci/plugin@main"


class Cache:
    """The cache of a repository on GitHub, in which a key is written once."""

    def __init__(self, folder):
        self.folder, self.newest_first = folder, []

    def restore(self, path, key, prefixes):
        """Returns the key whose files were restored to `path`; None if there is none."""
        found = next((one for wanted in [key, *prefixes] for one in self.newest_first if one.startswith(wanted)), None)
        if found:
            path.parent.mkdir(parents=True, exist_ok=True)
            subprocess.run(["cp", "-a", self.folder / found, path], check=True)
        return found

    def save(self, path, key):
        if key not in self.newest_first:
            self.folder.mkdir(exist_ok=True)
            subprocess.run(["cp", "-a", path, self.folder / key], check=True)
            self.newest_first.insert(0, key)


class GithubJob:
    """Runs the steps of a job until one fails. `restored` lists the keys of the caches that it restored."""
    gate, copied_to, inputs_at = "github.yml", ".github/workflows/dpbench.yml", "        with:\n          plugin:"

    def __init__(self, folder, event, environment, cache):
        self.folder, self.event, self.code, self.printed, self.ran = folder, event, 0, "", []
        self.cache, self.restored = cache, []
        self.temp = tempfile.mkdtemp(prefix="runner-", dir=folder.parent)
        self.environment = environment | {"RUNNER_TEMP": self.temp, "GITHUB_BASE_REF": "main", "GITHUB_ACTIONS": "true",
                                          "GITHUB_STEP_SUMMARY": f"{self.temp}/summary"}

    def start(self):
        workflow = yaml.safe_load((self.folder / self.copied_to).read_text(encoding="utf-8"))
        if set(workflow[True]) != {"pull_request", "push"}:  # YAML's `on` is true
            raise AssertionError(f"events: {workflow[True]}")
        self.run(workflow["jobs"]["gate"]["steps"], {})
        summary = pathlib.Path(self.temp, "summary")
        self.printed += summary.read_text(encoding="utf-8") if summary.exists() else ""
        shutil.rmtree(self.temp)

    def disown(self):
        """Gives the checkout to another user, as in a container on GitHub. Does nothing without root."""
        if os.geteuid() == 0:
            os.chown(self.folder, 12345, -1)

    def value(self, name, inputs, outputs):
        kind, _, rest = name.partition(".")
        if kind == "steps":
            step, _, output = rest.partition(".outputs.")
            return outputs.get(step, {}).get(output, "")
        if name == "github.sha":
            return subprocess.run(["git", "rev-parse", "HEAD"], cwd=self.folder, check=True, capture_output=True,
                                  text=True).stdout.strip()
        return {"github.event_name": self.event}[name] if kind == "github" else inputs[rest]

    def holds(self, condition, *values):
        terms = [re.fullmatch(r"(\S+) (==|!=) '(.*)'", term).groups() for term in condition.split(" && ")]
        return all((self.value(name, *values) == text) == (sign == "==") for name, sign, text in terms)

    def filled(self, text, *values):
        return re.sub(r"\$\{\{ (\S+) \}\}", lambda match: self.value(match[1], *values), text)

    def run(self, steps, inputs):
        outputs = {}
        for step in steps:
            if self.code or (step.get("if", "always()") != "always()" and not self.holds(step["if"], inputs, outputs)):
                continue
            if step.get("uses") == ACTION:
                action = yaml.safe_load((ROOT / "scripts/ci/plugin/action.yml").read_text(encoding="utf-8"))
                defaults = {name: given.get("default") for name, given in action["inputs"].items()}
                self.run(action["runs"]["steps"], defaults | step["with"])
            elif "run" in step:
                outputs[step.get("id")] = self.shell(step, inputs, outputs)
            elif step["uses"].startswith("actions/cache/"):
                outputs[step.get("id")] = self.use_cache(step, inputs, outputs)
            elif step["uses"] not in LEFT_OUT:
                raise AssertionError(f"{step['uses']} is not known to be an action that only a runner has")

    def use_cache(self, step, *values):
        """Restores or saves a cache and returns the outputs of the step."""
        if step["with"]["path"] == KEPT:
            return {"cache-hit": "true"}
        given = {name: self.filled(text, *values) for name, text in step["with"].items()}
        path = self.folder / pathlib.Path(given["path"]).expanduser()
        if "/save@" in step["uses"]:
            self.cache.save(path, given["key"])
            return {}
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        found = self.cache.restore(path, given["key"], given.get("restore-keys", "").split())
        self.restored += [found] if found else []
        return {"cache-hit": "true" if found == given["key"] else ""}

    def shell(self, step, *values):
        """Runs a step and returns its outputs."""
        files = {name: pathlib.Path(self.temp, name) for name in ("GITHUB_OUTPUT", "GITHUB_PATH", "GITHUB_ENV")}
        for path in files.values():
            path.write_text("", encoding="utf-8")
        own = {name: self.filled(text, *values) for name, text in step.get("env", {}).items()}
        given = {name: str(path) for name, path in files.items()}
        given["GITHUB_ACTION_PATH"] = str(ROOT / "scripts/ci/plugin")
        shell = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", self.filled(step["run"], *values)]
        done = subprocess.run(shell, cwd=self.folder, env=self.environment | given | own, text=True, check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.code = done.returncode
        self.ran.append(step["run"])
        self.printed += f"$ {step['name']}\n{done.stdout}"
        lines = {name: path.read_text(encoding="utf-8").splitlines() for name, path in files.items()}
        self.environment |= dict(line.split("=", 1) for line in lines["GITHUB_ENV"])
        self.environment["PATH"] = ":".join([*reversed(lines["GITHUB_PATH"]), self.environment["PATH"]])
        return dict(line.split("=", 1) for line in lines["GITHUB_OUTPUT"])


class GitlabJob:
    """Runs the lines of a job in one shell, as GitLab's runner does, until one fails."""
    gate, copied_to, inputs_at = "gitlab.yml", ".gitlab-ci.yml", "    inputs:\n      plugin:"

    def __init__(self, folder, event, environment, _):
        self.folder, self.printed, self.ran = folder, "", []
        of_event = {"push": {"CI_PIPELINE_SOURCE": "push", "CI_COMMIT_BRANCH": "main"},
                    "pull_request": {"CI_PIPELINE_SOURCE": "merge_request_event",
                                     "CI_MERGE_REQUEST_TARGET_BRANCH_NAME": "main"}}
        self.variables = {"CI_DEFAULT_BRANCH": "main"} | of_event[event]
        self.environment = environment | self.variables

    def disown(self):
        """GitLab's checkout is writable for all."""
        subprocess.run(["chmod", "-R", "a+w", "."], cwd=self.folder, check=True)

    def filled(self, value, inputs):
        if isinstance(value, dict):
            return {key: self.filled(inner, inputs) for key, inner in value.items()}
        if isinstance(value, list):
            return [self.filled(inner, inputs) for inner in value]
        if isinstance(value, str):
            return re.sub(r"\$\[\[ inputs\.(\S+) \]\]", lambda match: inputs[match[1]], value)
        return value

    def template(self):
        """Returns the job of the template with the inputs of the repository's .gitlab-ci.yml."""
        (include,) = yaml.safe_load((self.folder / self.copied_to).read_text(encoding="utf-8"))["include"]
        header, jobs = yaml.safe_load_all((ROOT / include["file"]).read_text(encoding="utf-8"))
        declared, given = header["spec"]["inputs"], include["inputs"]
        lacking = [name for name in declared if name not in given and "default" not in declared[name]]
        if lacking or set(given) - set(declared):
            raise AssertionError(f"without a value: {lacking}; given: {list(given)}; known: {list(declared)}")
        inputs = {name: given.get(name, one.get("default")) for name, one in declared.items()}
        return self.filled(jobs["dpbench"], inputs)

    def holds(self, condition):
        left, right = condition.split(" == ")
        value = self.variables.get(right[1:]) if right.startswith("$") else right.strip('"')
        return self.variables.get(left.strip("$")) == value

    def start(self):
        job = self.template()
        rule = next(rule for rule in job["rules"] if self.holds(rule["if"]))
        policies = [cache["policy"] for cache in job["cache"] if cache.get("policy", "")[:1] == "$"]
        wanted = "pull" if self.variables["CI_PIPELINE_SOURCE"] == "merge_request_event" else "pull-push"
        if [rule["variables"].get(policy[1:]) for policy in policies] != [wanted]:
            raise AssertionError(f"policies of the caches: {policies} by {rule}")
        variables = {name: str(value["value"] if isinstance(value, dict) else value)
                     for name, value in job["variables"].items()}
        lines = [f"echo 'line {i}'\n{line}" for i, line in enumerate(job["script"])]
        done = subprocess.run(["bash", "-eo", "pipefail", "-c", "\n".join(lines)], cwd=self.folder, text=True,
                              check=False, env=self.environment | variables, umask=0, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        self.code, self.printed = done.returncode, done.stdout
        self.ran = [job["script"][int(number)] for number in re.findall(r"(?m)^line (\d+)$", done.stdout)]


class Repository:
    """An empty repository of a new user, and a clone of it as the runner's checkout."""
    RIGHT, DUEL, COMPARE = "dpbench check ", "dpbench duel ", "dpbench compare "
    job_of = GithubJob
    flags = "--workload random-linear"
    build = dpbench = source = ""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dpbench-ci-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.here = self.root / "checkout"
        self.cache = Cache(self.root / "cache")
        self.environment = {name: text for name, text in os.environ.items()
                            if name not in ("DPBENCH", "DPBENCH_TORCH", "PYTHONPATH", "CMAKE_PREFIX_PATH")}
        # Keep cases that are disturbed by other programs: a step is mostly sleep, so it takes the same time on a busy
        # machine.
        self.environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "DPBENCH_KEEP_DISTURBED": "1"}
        self.git(self.root, "init", "-q", "--bare", "-b", "main", "origin")
        self.git(self.root, "clone", "-q", "origin", "checkout")
        self.git(self.here, "checkout", "-q", "-b", "main")
        text = (ROOT / "scripts/ci/plugin" / self.job_of.gate).read_text(encoding="utf-8")
        head, found, _ = text.partition(self.job_of.inputs_at)
        inputs = {"plugin": self.plugin, "strategy": "plain-average", "flags": self.flags, "build": self.build,
                  "dpbench": self.dpbench, "source": self.source}
        indent = found.removesuffix("plugin:")
        lines = [f"{name}: {value}\n" for name, value in inputs.items() if value]
        text = head + indent + indent.partition("\n")[2].join(lines)
        copied = self.here / self.job_of.copied_to
        copied.parent.mkdir(parents=True, exist_ok=True)
        copied.write_text(text, encoding="utf-8")
        (self.here / ".gitignore").write_text("build/\nresults/\n__pycache__/\nchecks.xml\n", encoding="utf-8")

    def git(self, where, *words):
        command = ["git", "-c", "user.name=x", "-c", "user.email=x@x", *words]
        subprocess.run(command, cwd=where, check=True, capture_output=True)

    def commit(self, branch, pause_ms, right=True):
        """Commits the plug-in, with a pause in each step, on a branch."""
        self.git(self.here, "checkout", "-q", "-B", branch)
        self.write_plugin(pause_ms, right)
        self.git(self.here, "add", ".")
        self.git(self.here, "commit", "-q", "--allow-empty", "-m", "plug-in")
        self.git(self.here, "push", "-q", "-f", "origin", branch)

    def job(self, event, code, said):
        """Runs the workflow for an event. Expects the exit code `code`, and the text `said` in the output or the
        summary."""
        job = self.job_of(self.here, event, dict(self.environment), self.cache)
        job.disown()
        job.start()
        self.assertEqual(job.code, code, job.printed)
        self.assertIn(said, job.printed)
        self.git(self.here, "worktree", "prune")
        self.last = job
        return job

    def test_the_ci_of_a_new_repository_fails_wrong_and_slower_builds(self):
        self.git(self.here, "add", ".")
        self.git(self.here, "commit", "-q", "-m", "the gate alone")
        self.git(self.here, "push", "-q", "origin", "main")

        self.commit("first", 10)
        self.job("pull_request", 0, "no duel: ")
        self.commit("main", 10)
        self.job("push", 0, "plain-average")
        self.commit("same", 10)
        self.assertIn(self.COMPARE, self.job("pull_request", 0, "Gate: ").ran[-1])
        self.commit("wrong", 10, right=False)
        self.assertIn(self.RIGHT, self.job("pull_request", 1, "summed over").ran[-1])
        self.commit("slower", 30)
        self.assertIn(self.DUEL, self.job("pull_request", 1, "SLOWER").ran[-1])

        self.commit("main", 30)  # the slower build is merged; the stored baseline is still that of the faster build
        self.commit("later", 30)
        self.assertIn(self.COMPARE, self.job("pull_request", 1, "SLOWER").ran[-1])


class PythonFile(Repository):
    plugin = "mine.py"

    def write_plugin(self, pause_ms, right):
        text = (EXAMPLE / "plain_average.py").read_text(encoding="utf-8")
        text = text.replace("import torch", "import time\n\nimport torch", 1)
        step = "    def step(self, step, micro):\n"
        text = text.replace(step, f"{step}        time.sleep({pause_ms / 1000})\n")
        text = text if right else text.replace("divides = True", "divides = False")
        (self.here / "mine.py").write_text(text, encoding="utf-8")


class PythonFileAndWheel(PythonFile, unittest.TestCase):
    def test_the_ci_of_a_new_repository_fails_wrong_and_slower_builds(self):
        super().test_the_ci_of_a_new_repository_fails_wrong_and_slower_builds()
        # The wheel was compiled once, and each push to main stored its baseline.
        kinds = sorted(key.rsplit("-", 1)[0] if "baseline" in key else key[:14] for key in self.cache.newest_first)
        self.assertEqual(kinds, ["dpbench-baseline", "dpbench-build-"])
        self.assertEqual(sorted(self.last.restored), sorted(self.cache.newest_first))


class PythonFileOnGitlab(PythonFile, unittest.TestCase):
    job_of, dpbench = GitlabJob, INSTALLATION / "bin/dpbench"
    flags = f"--workload random-linear --python {pathlib.Path.home()}/.cache/dpbench/env/bin/python3"


class LibraryAndInstallation(Repository, unittest.TestCase):
    plugin, build = "build/libplugin_example.so", "cmake -S . -B build -G Ninja && cmake --build build"
    dpbench = INSTALLATION / "bin/dpbench"

    def write_plugin(self, pause_ms, right):
        shutil.copy(EXAMPLE / "CMakeLists.txt", self.here)
        text = (EXAMPLE / "plain_average.cpp").read_text(encoding="utf-8")
        text = text.replace("#include <ATen", "#include <chrono>\n#include <thread>\n\n#include <ATen", 1)
        pause = f"    std::this_thread::sleep_for(std::chrono::milliseconds({pause_ms}));\n"
        text = text.replace("    StepResult result;\n", pause + "    StepResult result;\n")
        text = text if right else text.replace("if (divide)", "if (false)")
        (self.here / "plain_average.cpp").write_text(text, encoding="utf-8")


class LibraryOnGitlab(LibraryAndInstallation):
    job_of = GitlabJob


if __name__ == "__main__":
    unittest.main()
