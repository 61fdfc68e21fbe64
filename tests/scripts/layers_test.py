"""Tests that scripts/layers.py (the check of includes between layers of the sources) rejects every kind of wrong
include and accepts correct includes, and that it counts comparisons with string literals and files."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
from layers import ALLOWED, BASE, LAYERS, MOST_COMPARISONS, MOST_FILES, component_of

UPWARD = (
    ("workloads/convnet.cpp", '"strategies/api/strategy.h"'),
    ("workloads/data/idx.cpp", '"harness/report/record/case.h"'),
    ("strategies/ddp/ddp.cpp", '"harness/report/record/case.h"'),
    ("strategies/comm/gloo.cpp", '"workloads/api/workload.h"'),
    ("strategies/comm/gloo.cpp", '"strategies/ddp/ddp.h"'),
    ("harness/front/plan/plan.cpp", '"workloads/api/plugin_abi.h"'),
    ("harness/report/stats/stats.cpp", '"harness/front/text/text.h"'),
    ("harness/front/plan/plan.cpp", '"harness/worker/rank/group.h"'),
    ("harness/front/plan/plan.cpp", '"strategies/api/strategy.h"'),
    ("harness/front/plan/plan.cpp", '"workloads/data/sampler.h"'),
    ("harness/conform/oracle/oracle.cpp", '"harness/worker/rank/group.h"'),
    ("harness/conform/oracle/oracle.cpp", '"workloads/convnet.h"'),
    ("harness/conform/judging.h", '"strategies/comm/base/work.h"'),
    ("harness/worker/serve.cpp", '"strategies/ddp/ddp.h"'),
    ("harness/shared.h", '"harness/report/record/case.h"'),
    ("strategies/ddp/ddp.cpp", '"replica.h"'),
    ("strategies/schedule/lower.cpp", '"strategies/api/backend.h"'),
    ("strategies/ddp/ddp.cpp", '"tests/support/around.h"'),
    ("harness/front/plan/plan.cpp", '"tests/support/contains.h"'),
    ("tests/support/idx_files.h", '"tests/ranks/threads.h"'),
    ("tests/fakes/spun.cpp", '"tests/unit/comm/mesh_ranks.h"'),
    ("tests/fakes/plugin_parts/parts.cpp", '"strategies/ddp/ddp.h"'),
    ("tests/unit/forecast/projection_test.cpp", '"tests/unit/report/compared.h"'),
    ("tests/unit/strategies/data_parallel/dp_test.cpp", '"tests/unit/strategies/sharded/sharded_runs.h"'),
    ("tests/unit/report/stats_test.cpp", '"harness/front/text/text.h"'),
    ("tests/golden/golden_test.cpp", '"tests/support/contains.h"'),
)
OUT_OF_PLACE = (
    ("harness/front/plan/plan.cpp", "<torch/torch.h>"),
    ("harness/report/stats/stats.h", "<ATen/ATen.h>"),
    ("workloads/convnet.cpp", "<torch/csrc/distributed/c10d/Store.hpp>"),
    ("strategies/ddp/ddp.cpp", "<nccl.h>"),
    ("strategies/ddp/ddp.cpp", "<torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>"),
    ("harness/worker/measure/timing.cpp", "<c10/cuda/CUDAFunctions.h>"),
    ("harness/front/cli/cli.cpp", "<nlohmann/json.hpp>"),
    ("harness/worker/main.cpp", "<CLI/CLI.hpp>"),
    ("harness/front/cli/validators.cpp", "<re2/re2.h>"),
    ("harness/front/cli/cli.cpp", "<toml++/toml.h>"),
    ("workloads/convnet.cpp", "<benchmark/benchmark.h>"),
    ("strategies/schedule/verify.cpp", "<torch/torch.h>"),
    ("strategies/ddp/ddp.cpp", "<gtest/gtest.h>"),
    ("tests/fakes/faulty.cpp", "<gtest/gtest.h>"),
    ("tests/unit/front/plan_test.cpp", "<torch/torch.h>"),
    ("tests/unit/comm/comm_test.cpp", "<nccl.h>"),
)
RIGHT = (
    ("workloads/convnet.cpp", '"workloads/layers/linear.h"'),
    ("workloads/convnet.cpp", "<torch/torch.h>"),
    ("strategies/ddp/ddp.cpp", '"workloads/api/workload.h"'),
    ("strategies/comm/nccl.cpp", "<nccl.h>"),
    ("strategies/comm/nccl.cpp", '"workloads/base/error.h"'),
    ("strategies/comm/nccl.cpp", '"strategies/api/backend.h"'),
    ("strategies/comm/hosts/hosts.cpp", '"strategies/comm/base/work.h"'),
    ("strategies/comm/shm.cpp", '"strategies/comm/hosts/hosts.h"'),
    ("strategies/api/backend.h", '"workloads/api/plugin_abi.h"'),
    ("harness/front/plan/plan.cpp", '"harness/report/record/case.h"'),
    ("harness/front/run/launch_loop.cpp", '"harness/front/plan/plan.h"'),
    ("harness/front/plan/plan.cpp", '"workloads/base/error.h"'),
    ("harness/front/plan/plan.cpp", '"workloads/data/mnist_files.h"'),
    ("harness/front/commands/schedule_report.cpp", '"strategies/schedule/verify.h"'),
    ("strategies/ddp/ddp.cpp", '"strategies/schedule/schedule.h"'),
    ("strategies/schedule/csv.cpp", '"workloads/base/error.h"'),
    ("harness/report/record/protocol.h", "<nlohmann/json.hpp>"),
    ("harness/conform/judging.h", '"workloads/base/work_queue.h"'),
    ("harness/worker/serve.cpp", '"harness/conform/suite.h"'),
    ("harness/worker/serve.cpp", "<vector>"),
    ("tests/unit/front/plan_test.cpp", "<gtest/gtest.h>"),
    ("tests/unit/front/plan_test.cpp", '"tests/unit/front/plan_parts.h"'),
    ("tests/unit/comm/comm_test.cpp", '"tests/ranks/comm_ranks.h"'),
    ("tests/conformance/wrong_strategies/parallel/mesh_mutants.cpp", '"tests/conformance/wrong_strategies/mutant.h"'),
)


def file_in(place):
    """Returns the path of a file in the folder `place`, or `place` if it is a file."""
    return place if pathlib.Path(place).suffix else place.rstrip("/") + "/one.h"


def upward_within_components():
    """Yields one wrong include for each layer of a component: of a header in the next higher layer. A file of the
    highest layer includes a header of the component that is in no layer."""
    for component, layers in LAYERS.items():
        for lower, upper in zip(layers, (*layers[1:], "")):
            yield file_in(component + lower), file_in(component + upper)


def between_components(allowed):
    """Yields (file, header) for each component and each header named in the table ALLOWED: the headers that the file
    may include if `allowed` is true, otherwise those that it may not."""
    for component, others in ALLOWED.items():
        for header in map(file_in, (*ALLOWED, *others)):
            if header.startswith((component, *BASE, *others)) == allowed:
                yield file_in(component), header


def run(sources):
    """Runs layers.py on a tree of {path: text}. Returns its exit status and {(path, header): reason}."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in sources.items():
            file = pathlib.Path(root, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
        done = subprocess.run([sys.executable, "-B", ROOT / "scripts/layers.py", root], stdout=subprocess.PIPE,
                              text=True, check=False)
    faults = (line.split(": ", 2) for line in done.stdout.splitlines()[:-1])
    return done.returncode, {(path, found): reason for path, found, reason in faults}


def check(includes):
    """Runs layers.py on a tree of files with these includes, pairs of a path and a header in quotes or brackets."""
    sources = {}
    for path, header in includes:
        sources[path] = sources.get(path, "#pragma once\n") + f"#include {header}\n"
    return run(sources)


class Layers(unittest.TestCase):
    def assert_each_is_reported(self, includes, reason_of):
        includes = list(includes)
        status, faults = check(includes)
        for path, header in includes:
            with self.subTest(path=path, header=header):
                self.assertIn(reason_of(path, header), faults.get((path, header.strip('<>"')), "not reported"))
        self.assertEqual(status, 1)

    def test_includes_of_forbidden_layers_and_misplaced_libraries_are_reported(self):
        self.assert_each_is_reported(UPWARD, lambda path, header: f"{component_of(path)} may not")
        self.assert_each_is_reported(OUT_OF_PLACE, lambda path, header: "standard library"
                                     if path.startswith("strategies/schedule/") else "only in ")

    def test_an_include_of_the_next_higher_layer_is_reported_for_every_layer(self):
        # A layer that is also a component of its own is reported by the rule between components.
        def reason_of(path, header):
            if header[1:].startswith(component_of(path)):
                return "higher layer"
            return f"{component_of(path)} may not"
        self.assert_each_is_reported([(path, f'"{header}"') for path, header in upward_within_components()], reason_of)

    def test_an_include_of_another_component_is_reported_unless_it_is_allowed(self):
        self.assert_each_is_reported([(path, f'"{header}"') for path, header in between_components(allowed=False)],
                                     lambda path, header: f"{component_of(path)} may not")
        self.assertEqual(check((path, f'"{header}"') for path, header in between_components(allowed=True)), (0, {}))

    def test_includes_that_the_layers_allow_are_accepted(self):
        self.assertEqual(check(RIGHT), (0, {}))

    def test_every_component_and_layer_in_the_include_rules_of_layers_py_exists(self):
        places = [*ALLOWED, *(component + layer for component, layers in LAYERS.items() for layer in layers)]
        self.assertEqual([place for place in places if not (ROOT / place).exists()], [])

    def test_a_builtin_ia32_call_outside_spin_pause_h_is_reported(self):
        text, place = "void wait() { __builtin_ia32_pause(); }\n", "strategies/comm/base/spin_pause.h"
        wrong = "strategies/parts/replica_threads.cpp"
        status, faults = run({wrong: text})
        self.assertEqual((status, list(faults)), (1, [(wrong, "__builtin_ia32_pause")]))
        self.assertIn(place, faults[wrong, "__builtin_ia32_pause"])
        self.assertEqual(run({place: text}), (0, {}))

    def test_layers_py_reports_too_many_comparisons_with_string_literals(self):
        one = 'bool is_dp(const std::string& name) { return name == "dp" || "ddp"sv != name; }\n'
        other = '// name == "dp"\nconst char *shown = "torch==", *raw = R"(x == "dp")"; const bool quote = c == \'"\';\n'
        path, other_path, half = "harness/front/plan/plan.cpp", "strategies/ddp/ddp.cpp", MOST_COMPARISONS // 2
        most = {path: one * half, other_path: other, "tests/unit/front/plan_test.cpp": one * 99}
        self.assertEqual(run(most), (0, {}))
        status, faults = run(most | {other_path: one})
        ((place, found), reason), = faults.items()
        self.assertEqual((status, place), (1, path))
        self.assertRegex(found, rf"^{2 * half + 2}\b.*==")
        self.assertIn(f"{path} ({2 * half}), {other_path} (2)", reason)

    def test_layers_py_reports_a_folder_with_too_many_files(self):
        for folder in ("workloads/data", "scripts/charts"):
            files = [f"{folder}/{i}.py" for i in range(MOST_FILES + 1)]
            self.assertEqual(run(dict.fromkeys([*files[1:], "workloads/base/one.h"], "")), (0, {}))
            status, faults = run(dict.fromkeys([*files, "workloads/base/one.h"], ""))
            self.assertEqual((status, list(faults)), (1, [(folder, f"{MOST_FILES + 1} files")]))

    def test_layers_py_fails_on_a_tree_without_sources(self):
        self.assertEqual(run({}), (1, {}))


if __name__ == "__main__":
    unittest.main()
