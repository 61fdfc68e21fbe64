"""micro_test.py DPBENCH-MICRO: tests the collectives benchmark: its table and JSON, equal results on all ranks, and
rejected flags."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv.pop(1))
sys.path[:0] = [str(pathlib.Path(__file__).parents[2] / "scripts/charts")]
SHARES = {"allreduce": lambda n: 2 * (n - 1) / n, "reduce_scatter": lambda n: (n - 1) / n, "allgather": lambda n: (n - 1) / n,
          "broadcast": lambda n: 1}
COLLECTIVES = "--benchmark_filter=^(allreduce|reduce_scatter|allgather|broadcast)/"


class Micro(unittest.TestCase):
    def micro(self, *words, code=0):
        done = subprocess.run([PROGRAM, *words], text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def test_bandwidths_are_computed_like_those_of_nccl_tests(self):
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "micro.json")
            table = self.micro("--world", "1,3", "--max-bytes", "1KiB", "--factor", "16", COLLECTIVES, f"--benchmark_out={file}").stdout
            with open(file, encoding="utf-8") as text:
                document = json.load(text)
            import data
            sizes, _ = data.read_collectives(file)
        seen = set()
        for entry in document["benchmarks"]:
            name, backend, world = entry["name"].split("/")[:3]
            world = int(world.split(":")[1])
            seen.add((name, backend, world))
            self.assertEqual(entry["wrong"], 0)
            self.assertAlmostEqual(entry["algbw_gb_s"], entry["bytes"] / entry["time_us"] * 1e-3, places=9)
            self.assertAlmostEqual(entry["busbw_gb_s"], entry["algbw_gb_s"] * SHARES[name](world), places=9)
        self.assertEqual(seen, {(name, f"backend:{backend}", world) for name in SHARES for backend in ("shm", "gloo") for world in (1, 3)})
        self.assertEqual(set(sizes[1024]), {f"{backend}, world {world}" for backend in ("shm", "gloo") for world in (1, 3)})
        self.assertIn("# allreduce/backend:shm/world:3\n", table)
        self.assertRegex(table, r"\n +1024 +256 +float +sum +-1 +[0-9.]+ +[0-9.]+ +[0-9.]+ +0\n")
        self.assertRegex(table, r"\n +64 +16 +float +none +0 +[0-9.]+ +[0-9.]+ +[0-9.]+ +0\n")
        # As in nccl-tests, the count column has the elements of one rank's part: 85 x 3 ranks x 4 B = 1020 B.
        for name, redop in (("allgather", "none"), ("reduce_scatter", "sum")):
            block = table.split(f"# {name}/backend:shm/world:3\n")[1].split("\n\n")[0]
            self.assertRegex(block, rf"\n +1020 +85 +float +{redop} +-1 ")
        self.assertIn("# Avg bus bandwidth", table)

    def test_collectives_are_timed_up_to_256_mib_with_iterations_set_by_size(self):
        names = self.micro("--world", "2,3", "--benchmark_list_tests=true", COLLECTIVES).stdout.split()
        sizes = {}
        for name in names:
            collective, backend, world, size, iterations = name.split("/")[:5]
            size, iterations = int(size.removeprefix("bytes:")), int(iterations.removeprefix("iterations:"))
            sizes.setdefault((collective, backend, world), []).append(size)
            self.assertEqual(iterations, min(max((64 << 20) // size, 5), 200), "depends on the size only")
        self.assertEqual(len(sizes), 4 * 2 * 2)
        for (collective, _, _), found in sizes.items():
            least = 4 if collective in ("allreduce", "broadcast") else 16  # each rank needs at least one 4-byte element
            self.assertEqual(found, [size for size in (4 << 2 * k for k in range(14)) if size >= least])
            self.assertEqual(found[-1], 256 << 20)

    def test_the_eight_benchmarks_that_are_not_collectives_run(self):
        found = json.loads(self.micro("--benchmark_filter=^(scatter|gather|replicate|sampler|batching|protocol|report_writing)/",
                                      "--benchmark_format=json").stdout)["benchmarks"]
        self.assertEqual([entry["name"].split("/")[0] for entry in found],
                         ["scatter", "gather", "replicate", "sampler", "batching", "protocol", "report_writing", "report_writing"])

    def test_dpbench_micro_names_a_wrong_argument_and_exits_2(self):
        for words, said in ((("--backend", "foo"), "shm, gloo"), (("--worlds", "2"), "--worlds"), (("--world", "0"), "--world"),
                            (("--min-bytes", "8", "--max-bytes", "4"), "--min-bytes"), (("--benchmark_nonsense",), "--benchmark_nonsense"),
                            (("--benchmark_out=/proc/nope/x",), "'/proc/nope/x'"),
                            (("--benchmark_filter=nothing/at/all",), "--benchmark_filter"),
                            (("--benchmark_enable_random_interleaving=true",), "--benchmark_enable_random_interleaving")):
            with self.subTest(words=words):
                self.assertIn(said, self.micro(*words, code=2).stderr)


if __name__ == "__main__":
    unittest.main()
