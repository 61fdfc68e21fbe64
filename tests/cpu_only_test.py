"""cpu_only_test.py BUILD: what is compiled for every machine reads no header of CUDA's, which most machines lack."""
import os
import re
import subprocess
import sys
import unittest

BUILD = sys.argv.pop(1)
CUDA = re.compile(r"/(cuda_runtime|cuda_runtime_api|nccl|cublas|driver_types)[^/]*\.h$")


def headers_by_object():
    listing = subprocess.run(["ninja", "-C", BUILD, "-t", "deps"], capture_output=True, text=True, check=True).stdout
    objects, current = {}, None
    for line in listing.splitlines():
        if line and not line.startswith((" ", "ninja:")):
            current = objects.setdefault(line.split(": #deps")[0], [])
        elif line.startswith(" "):
            current.append(line.strip())
    return objects


class CpuOnly(unittest.TestCase):
    def test_only_the_cuda_library_reads_headers_of_cuda(self):
        objects = headers_by_object()
        core = [name for name in objects if "dpbench_core.dir" in name]
        self.assertGreater(len(core), 5, "no objects of dpbench_core are known to ninja")
        for name, headers in objects.items():
            if "dpbench_cuda.dir" in name or not os.path.exists(os.path.join(BUILD, name)):
                continue
            self.assertEqual([path for path in headers if CUDA.search(path)], [], name)


if __name__ == "__main__":
    unittest.main()
