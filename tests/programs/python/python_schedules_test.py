"""Exchanges pipeline schedules with torch.distributed.pipelining as CSV files: PyTorch reads those of `dpbench schedule`,
and `dpbench schedule` those of PyTorch. Runs in the environment of scripts/peers/python, with PyTorch.

usage: python_schedules_test.py DPBENCH
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
try:
    from torch.distributed.pipelining import schedules
except ImportError:
    os.execv(ROOT / "scripts/peers/python", ["python", "-B", *sys.argv])

DPBENCH = os.path.abspath(sys.argv.pop(1))
RANKS, MICROBATCHES = 3, 6


def stages(count, numbers):
    """Returns the stages of rank 0, without modules: PyTorch makes and reads schedules without calling them."""
    return [types.SimpleNamespace(num_stages=count, group_size=RANKS, group_rank=0, stage_index=number, is_first=number == 0,
                                  is_last=number == count - 1, has_backward=True, submod=None) for number in numbers]


def actions(lists):
    return [[str(action) for action in lists[rank] if action is not None] for rank in sorted(lists)]


class Schedules(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dpbench-schedules-")
        self.addCleanup(folder.cleanup)
        self.file = os.path.join(folder.name, "schedule.csv")

    def dpbench(self, *words, code=0):
        done = subprocess.run([DPBENCH, "schedule", *words], text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done.stdout

    def of_pytorch(self, name):
        """Returns PyTorch's schedule of this name, with two stages on each rank. Rank 0 has the first stage, and in ZBV and
        DualPipeV the last, in other schedules the stage RANKS."""
        second = 2 * RANKS - 1 if name in ("ScheduleZBVZeroBubble", "ScheduleDualPipeV") else RANKS
        return getattr(schedules, name)(stages(2 * RANKS, [0, second]), MICROBATCHES, loss_fn=lambda output, target: None)

    def test_pytorch_reads_schedules_that_dpbench_writes(self):
        for name in ("gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zbv"):
            words = (name, "--stages", str(RANKS), "--microbatches", str(MICROBATCHES))
            document = json.loads(self.dpbench(*words, "-o", "json"))
            for form, flags in (("compute_only", ()), ("compute_comms", ("--transfers",))):
                with self.subTest(name, form=form):
                    text = self.dpbench(*words, "-o", "csv", *flags)
                    pathlib.Path(self.file).write_text(text, encoding="utf-8")
                    written = [line.split(",") for line in text.splitlines()]
                    owners = {schedules._Action.from_str(action).stage_index: rank
                              for rank, line in enumerate(written) for action in line}
                    read = schedules._PipelineScheduleRuntime(stages(len(owners), [0]), MICROBATCHES)
                    read._load_csv(self.file, form)
                    self.assertEqual(read.stage_index_to_group_rank, owners)
                    if flags:
                        self.assertEqual(actions(read.pipeline_order_with_comms), written)
                        self.assertEqual(written, [rank["order"] for rank in document["per_rank"]])
                        read._simulate()  # throws ValueError if the schedule deadlocks
                    else:
                        self.assertEqual(actions(read.pipeline_order), written)

    def test_dpbench_reads_schedules_that_pytorch_writes(self):
        for name in ("ScheduleInterleaved1F1B", "ScheduleInterleavedZeroBubble", "ScheduleZBVZeroBubble", "ScheduleDualPipeV"):
            schedule = self.of_pytorch(name)
            for form, lists, flags in (("compute_only", schedule.pipeline_order, ()),
                                       ("compute_comms", schedule.pipeline_order_with_comms, ("--transfers",))):
                with self.subTest(name, form=form):
                    schedule._dump_csv(self.file, form)
                    written = [line.split(",") for line in self.dpbench(self.file, "-o", "csv", *flags).splitlines()]
                    self.assertEqual(written, actions(lists))

    def test_dpbench_refuses_pytorchs_looped_bfs_which_adds_weight_gradients_in_descending_order(self):
        self.of_pytorch("ScheduleLoopedBFS")._dump_csv(self.file, "compute_only")
        self.assertRegex(self.dpbench(self.file, code=1), r"\bgradient-order: rank 0, ")


if __name__ == "__main__":
    unittest.main()
