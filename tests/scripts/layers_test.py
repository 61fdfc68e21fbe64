"""Tests that scripts/layers.py (the check of includes between layers of the sources) rejects every kind of wrong
include and accepts correct includes."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

LAYERS = pathlib.Path(__file__).parents[2] / "scripts/layers.py"

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
)
# Wrong includes within a component: a layer includes a higher layer.
INSIDE = (
    ("workloads/base/error.h", '"workloads/api/workload.h"'),
    ("workloads/api/workload.h", '"workloads/layers/linear.h"'),
    ("workloads/layers/linear.cpp", '"workloads/data/idx.h"'),
    ("workloads/data/idx.cpp", '"workloads/convnet.h"'),
    ("strategies/api/strategy.h", '"strategies/comm/base/work.h"'),
    ("strategies/comm/base/work.h", '"strategies/comm/shm/group.h"'),
    ("strategies/comm/shm/group.h", '"strategies/comm/hosts/hosts.h"'),
    ("strategies/comm/hosts/hosts.cpp", '"strategies/comm/shm.h"'),
    ("strategies/comm/gloo.cpp", '"strategies/graphs/step_graph.h"'),
    ("strategies/graphs/step_graph.h", '"strategies/parts/replica.h"'),
    ("strategies/parts/replica.h", '"strategies/graphs/recorded.h"'),
    ("strategies/graphs/recorded.cpp", '"strategies/ddp/ddp.h"'),
    ("strategies/ddp/ddp.cpp", '"strategies/dp/pieces.h"'),
    ("strategies/dp/pieces.cpp", '"strategies/single.h"'),
    ("harness/report/text/to_type.cpp", '"harness/report/stats/stats.h"'),
    ("harness/report/stats/stats.cpp", '"harness/report/record/case.h"'),
    ("harness/report/record/case.cpp", '"harness/report/machine/environment.h"'),
    ("harness/report/machine/host.cpp", '"harness/report/figures/derived.h"'),
    ("harness/report/figures/derived.cpp", '"harness/report/judge/compare.h"'),
    ("harness/report/judge/compare.cpp", '"harness/report/answer/answer.h"'),
    ("harness/report/answer/answer.cpp", '"harness/report/export/export.h"'),
    ("harness/report/export/trace.cpp", '"harness/forecast/project/projection.h"'),
    ("harness/forecast/output.h", '"harness/forecast/project/fit.h"'),
    ("harness/forecast/project/projection.cpp", '"harness/forecast/plan/predict.h"'),
    ("harness/forecast/plan/predict.h", '"harness/front/text/text.h"'),
    ("harness/report/export/trace.cpp", '"harness/report/validate/validate.h"'),
    ("harness/report/validate/validate.cpp", '"harness/report/report.h"'),
    ("harness/front/text/text.cpp", '"harness/front/cli/cli.h"'),
    ("harness/front/cli/cli.cpp", '"harness/front/plan/plan.h"'),
    ("harness/front/plan/plan.cpp", '"harness/front/process/spawn.h"'),
    ("harness/front/process/spawn.cpp", '"harness/front/launch/case_watch.h"'),
    ("harness/front/launch/case_watch.cpp", '"harness/front/launch/outside/relay.h"'),
    ("harness/front/launch/outside/relay.cpp", '"harness/front/run/launch_loop.h"'),
    ("harness/front/run/launch_loop.cpp", '"harness/front/commands/commands.h"'),
    ("harness/front/commands/guard.cpp", '"harness/front/main.h"'),
    ("harness/conform/probes/exact.cpp", '"harness/conform/evidence/evidence.h"'),
    ("harness/conform/evidence/evidence.cpp", '"harness/conform/scenario/scenario.h"'),
    ("harness/conform/scenario/drive.cpp", '"harness/conform/oracle/oracle.h"'),
    ("harness/conform/oracle/oracle.cpp", '"harness/conform/judges/judges.h"'),
    ("harness/conform/judges/rows.cpp", '"harness/conform/suite.h"'),
    ("harness/worker/rank/group.cpp", '"harness/worker/steps/step_timer.h"'),
    ("harness/worker/steps/step_timer.cpp", '"harness/worker/measure/timing.h"'),
    ("harness/worker/measure/timing.cpp", '"harness/worker/check/dump.h"'),
    ("harness/worker/check/dump.cpp", '"harness/worker/train/train.h"'),
    ("harness/worker/train/train.cpp", '"harness/worker/serve.h"'),
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
    ("workloads/convnet.cpp", "<benchmark/benchmark.h>"),
    ("strategies/schedule/verify.cpp", "<torch/torch.h>"),
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
)


def check(path, header):
    return check_text(path, f"#pragma once\n#include {header}\n")


def check_text(path, text):
    with tempfile.TemporaryDirectory() as root:
        file = pathlib.Path(root, path)
        file.parent.mkdir(parents=True)
        file.write_text(text, encoding="utf-8")
        return subprocess.run([sys.executable, LAYERS, root], stdout=subprocess.PIPE, text=True, check=False)


class Layers(unittest.TestCase):
    def test_an_include_of_a_higher_layer_or_a_misplaced_header_is_a_fault(self):
        for path, header in UPWARD + INSIDE + OUT_OF_PLACE:
            with self.subTest(path=path, header=header):
                result = check(path, header)
                self.assertEqual(result.returncode, 1, result.stdout)
                self.assertIn(f"{path}: {header.strip('<>').strip(chr(34))}:", result.stdout)

    def test_includes_that_the_layers_allow_are_accepted(self):
        for path, header in RIGHT:
            with self.subTest(path=path, header=header):
                result = check(path, header)
                self.assertEqual(result.returncode, 0, result.stdout)

    def test_a_cpu_intrinsic_outside_its_designated_file_is_reported(self):
        text = "void wait() { __builtin_ia32_pause(); }\n"
        result = check_text("strategies/parts/replica_threads.cpp", text)
        self.assertEqual(result.returncode, 1)
        self.assertIn("strategies/parts/replica_threads.cpp: __builtin_ia32_pause: belongs only in strategies/comm/base/spin_pause.h", result.stdout)
        self.assertEqual(check_text("strategies/comm/base/spin_pause.h", text).returncode, 0)

    def test_a_tree_without_sources_is_an_error(self):
        with tempfile.TemporaryDirectory() as root:
            self.assertEqual(subprocess.run([sys.executable, LAYERS, root], stdout=subprocess.DEVNULL, check=False).returncode, 1)


if __name__ == "__main__":
    unittest.main()
