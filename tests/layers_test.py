"""The layers check goes red on every kind of wrong include, and stays green on the right ones."""
import pathlib
import subprocess
import sys
import tempfile
import unittest

LAYERS = pathlib.Path(__file__).parent.parent / "scripts/layers.py"

UPWARD = (
    ("workloads/convnet.cpp", '"strategies/strategy.h"'),
    ("workloads/data/idx.cpp", '"harness/report/case.h"'),
    ("strategies/ddp.cpp", '"harness/report/case.h"'),
    ("strategies/comm/gloo.cpp", '"workloads/workload.h"'),
    ("strategies/comm/gloo.cpp", '"strategies/ddp.h"'),
    ("strategies/comm/backend.h", '"strategies/plugin_abi.h"'),
    ("harness/front/plan.cpp", '"workloads/plugin_abi.h"'),
    ("harness/report/stats.cpp", '"harness/front/text.h"'),
    ("harness/front/plan.cpp", '"harness/worker/group.h"'),
    ("harness/front/plan.cpp", '"strategies/strategy.h"'),
    ("harness/front/plan.cpp", '"workloads/data/sampler.h"'),
    ("harness/conform/oracle.cpp", '"harness/worker/group.h"'),
    ("harness/conform/oracle.cpp", '"workloads/convnet.h"'),
    ("harness/conform/judging.h", '"strategies/comm/work_queue.h"'),
    ("harness/worker/serve.cpp", '"strategies/ddp.h"'),
    ("harness/shared.h", '"harness/report/case.h"'),
    ("strategies/ddp.cpp", '"replica.h"'),
)
OUT_OF_PLACE = (
    ("harness/front/plan.cpp", "<torch/torch.h>"),
    ("harness/report/stats.h", "<ATen/ATen.h>"),
    ("workloads/convnet.cpp", "<torch/csrc/distributed/c10d/Store.hpp>"),
    ("strategies/ddp.cpp", "<nccl.h>"),
    ("strategies/ddp.cpp", "<torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>"),
    ("harness/worker/timing.cpp", "<c10/cuda/CUDAFunctions.h>"),
    ("harness/front/cli.cpp", "<nlohmann/json.hpp>"),
    ("harness/worker/main.cpp", "<CLI/CLI.hpp>"),
    ("workloads/convnet.cpp", "<benchmark/benchmark.h>"),
)
RIGHT = (
    ("workloads/convnet.cpp", '"workloads/layers/conv.h"'),
    ("workloads/convnet.cpp", "<torch/torch.h>"),
    ("strategies/ddp.cpp", '"workloads/workload.h"'),
    ("strategies/comm/nccl.cpp", "<nccl.h>"),
    ("strategies/comm/nccl.cpp", '"workloads/error.h"'),
    ("strategies/comm/backend.h", '"workloads/plugin_abi.h"'),
    ("harness/front/plan.cpp", '"harness/report/case.h"'),
    ("harness/front/plan.cpp", '"workloads/error.h"'),
    ("harness/front/plan.cpp", '"workloads/data/mnist_files.h"'),
    ("harness/report/protocol.h", "<nlohmann/json.hpp>"),
    ("harness/conform/judging.h", '"workloads/work_queue.h"'),
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
    def test_an_upward_include_or_a_header_out_of_place_is_a_fault(self):
        for path, header in UPWARD + OUT_OF_PLACE:
            with self.subTest(path=path, header=header):
                result = check(path, header)
                self.assertEqual(result.returncode, 1, result.stdout)
                self.assertIn(f"{path}: {header.strip('<>').strip(chr(34))}:", result.stdout)

    def test_the_right_includes_are_none(self):
        for path, header in RIGHT:
            with self.subTest(path=path, header=header):
                result = check(path, header)
                self.assertEqual(result.returncode, 0, result.stdout)

    def test_an_instruction_that_not_every_cpu_has_is_a_fault_outside_its_place(self):
        text = "void wait() { __builtin_ia32_pause(); }\n"
        result = check_text("strategies/replica_threads.cpp", text)
        self.assertEqual(result.returncode, 1)
        self.assertIn("strategies/replica_threads.cpp: __builtin_ia32_pause: belongs only in strategies/comm/pause.h", result.stdout)
        self.assertEqual(check_text("strategies/comm/pause.h", text).returncode, 0)

    def test_a_tree_without_sources_is_an_error(self):
        with tempfile.TemporaryDirectory() as root:
            self.assertEqual(subprocess.run([sys.executable, LAYERS, root], stdout=subprocess.DEVNULL, check=False).returncode, 1)


if __name__ == "__main__":
    unittest.main()
