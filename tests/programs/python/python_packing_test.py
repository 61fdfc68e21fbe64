"""Tests strategies/python/dpbench/packing.py, which packs tuples and dictionaries of tensors into one tensor. Runs in the
environment of scripts/peers/python, with PyTorch, and needs no dpbench."""
import os
import pathlib
import sys
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
try:
    import torch
except ImportError:
    os.execv(ROOT / "scripts/peers/python", ["python", "-B", *sys.argv])

sys.path.insert(0, str(ROOT / "strategies/python"))
from dpbench import packing  # noqa: E402


def pair(source, target, samples=2):
    """Returns token ids of two lengths, and a weight for each sample."""
    return {"ids": (torch.arange(samples * source).view(samples, source), torch.arange(samples * target).view(samples, target) + 7),
            "weight": torch.linspace(0, 1, samples)}


class Packing(unittest.TestCase):
    def assert_same(self, found, expected):
        self.assertEqual(list(found), list(expected))
        for one, other in zip(packing.leaves_of(found)[0], packing.leaves_of(expected)[0]):
            self.assertEqual(one.dtype, other.dtype)
            torch.testing.assert_close(one, other, rtol=0, atol=0)

    def test_a_batch_is_unpacked_after_batches_of_other_shapes_were_packed(self):
        data, values = packing.Data(), [pair(3, 4), pair(5, 2), pair(4, 3), pair(3, 4, samples=6), pair(9, 9)]
        packed = [data.pack(value) for value in values]  # the first four have equally many bytes per sample
        for value, one in zip(values, packed):
            self.assert_same(data.unpack(one, torch.float32), value)
        self.assertEqual(packed[0].shape[1], packed[3].shape[1], "one form has one width")

    def test_a_slice_of_rows_of_a_packed_batch_can_be_unpacked(self):
        data, value = packing.Data(), pair(3, 4, samples=6)
        packed = data.pack(value)
        data.pack(pair(4, 3))
        self.assert_same(data.unpack(packed[2:4], torch.float32),
                         {"ids": tuple(part[2:4] for part in value["ids"]), "weight": value["weight"][2:4]})

    def test_outputs_are_unpacked_after_outputs_of_other_shapes_were_packed(self):
        output, values = packing.Output(), [(torch.rand(2, 3), torch.rand(2, 2, 2)), (torch.rand(2, 5), torch.rand(2, 4, 2))]
        packed = [output.pack(value) for value in values]
        for value, one in zip(values, packed):
            for found, expected in zip(output.unpack(one), value):
                torch.testing.assert_close(found, expected, rtol=0, atol=0)
        with self.assertRaisesRegex(TypeError, "cannot tell them apart"):
            output.pack((torch.rand(2, 4), torch.rand(2, 3)))

    def test_packing_and_unpacking_return_a_single_tensor_unchanged(self):
        single = torch.rand(2, 3)
        for packer in (packing.Data(), packing.Output()):
            self.assertIs(packer.pack(single), single)
        self.assertIs(packing.Data().unpack(single, torch.float64), single)
        self.assertIs(packing.Output().unpack(single), single)


if __name__ == "__main__":
    unittest.main()
