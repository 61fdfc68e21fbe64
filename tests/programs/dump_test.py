"""Tests that `dpbench check --dump` is complete and right: the gradients of random-linear are recomputed in plain
Python from the dumped weights and samples.

usage: dump_test.py DPBENCH
"""
import json
import math
import os
import struct
import subprocess
import sys
import tempfile
import unittest

import reports  # noqa: F401, importing this module validates every report that dpbench writes

DPBENCH = os.path.abspath(sys.argv.pop(1))
FORMATS = {"F64": "d", "F32": "f", "I64": "q"}


def dump(directory, *flags):
    return subprocess.run([DPBENCH, "check", "--strategy", "ddp", "--workload", "random-linear", "--cpus", "3", "--backend", "shm",
                           "--dump", directory, "-q", "-o", "none", *flags], capture_output=True, text=True, timeout=120)


def tensors_of(path):
    """Returns {name: flat list of numbers} of a safetensors file, parsed here without dpbench's code."""
    with open(path, "rb") as file:
        data = file.read()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + length])
    found = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        found[name] = list(struct.unpack(f"<{(end - begin) // struct.calcsize(FORMATS[entry['dtype']])}{FORMATS[entry['dtype']]}",
                                         data[8 + length + begin:8 + length + end]))
    return found


def mean_gradients(seen):
    """Returns the gradients of the mean squared error of Linear(5, 2) over one rank's samples: those of the weight,
    then those of the bias."""
    weight, bias = seen["parameters.fc.weight"], seen["parameters.fc.bias"]
    rows, by_weight, by_bias = len(seen["batch.0.ids"]), [0.0] * 10, [0.0] * 2
    for row in range(rows):
        x, y = seen["batch.0.input"][5 * row:5 * row + 5], seen["batch.0.target"][2 * row:2 * row + 2]
        for out in range(2):
            slope = 2 * (sum(weight[5 * out + i] * x[i] for i in range(5)) + bias[out] - y[out]) / (2 * rows)
            by_bias[out] += slope
            for i in range(5):
                by_weight[5 * out + i] += slope * x[i]
    return by_weight + by_bias


class Dump(unittest.TestCase):
    def test_dumped_gradients_match_a_computation_in_plain_python(self):
        with tempfile.TemporaryDirectory() as scratch:
            target = os.path.join(scratch, "dump")
            done = dump(target, "--filter", "^(gradient-meaning|gradient-uneven|clip)$")
            self.assertEqual(done.returncode, 0, done.stderr)
            with open(os.path.join(target, "index.json"), encoding="utf-8") as file:
                entries = json.load(file)["files"]
            on_disk = {os.path.relpath(os.path.join(folder, name), target) for folder, _, names in os.walk(target)
                       for name in names if name.endswith(".safetensors")}
            self.assertEqual({entry["file"] for entry in entries}, on_disk)
            steps = {}
            for entry in entries:
                if entry["dtype"] == "f64":
                    steps.setdefault((entry["scenario"], entry["step"]), []).append(entry)
            self.assertEqual(set(steps), {(scenario, step) for scenario in ("even", "uneven", "clip") for step in range(3)} | {("clip-unreached", 0)})
            reached = set()
            for (scenario, step), ranks in steps.items():
                self.assertEqual([entry["rank"] for entry in ranks], [0, 1, 2])
                seen = [tensors_of(os.path.join(target, entry["file"])) for entry in ranks]
                expected = [sum(parts) / 3 for parts in zip(*map(mean_gradients, seen))]
                limit, norm = ranks[0]["clip_norm"], math.sqrt(sum(one * one for one in expected))
                self.assertEqual(limit is None, ranks[0]["clipped"] == 0, scenario)
                if step == 0 and limit is not None:
                    self.assertAlmostEqual(limit, ranks[0]["clipped"] * norm, delta=1e-12)
                if limit is not None and limit < norm:  # clips as torch's clip_grad_norm_ does
                    expected = [one * limit / (norm + 1e-6) for one in expected]
                    reached.add((scenario, step))
                for one in seen:
                    for found, wanted in zip(one["gradients.fc.weight"] + one["gradients.fc.bias"], expected):
                        self.assertAlmostEqual(found, wanted, delta=1e-12)
            self.assertIn(("clip", 0), reached)
            self.assertNotIn(("clip-unreached", 0), reached)

    def test_the_flag_dump_refuses_a_file_and_a_directory_that_is_not_empty(self):
        with tempfile.TemporaryDirectory() as scratch:
            with open(os.path.join(scratch, "mine"), "w", encoding="utf-8") as file:
                file.write("x")
            for directory in (scratch, os.path.join(scratch, "mine")):
                done = dump(directory)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn("--dump '" + directory, done.stderr)
            self.assertEqual(os.listdir(scratch), ["mine"])

    def test_the_flag_dump_leaves_no_files_if_no_check_is_selected(self):
        with tempfile.TemporaryDirectory() as scratch:
            done = dump(os.path.join(scratch, "a/b"), "--filter", "nothing-like-it")
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertEqual(os.listdir(scratch), [])


if __name__ == "__main__":
    unittest.main()
