"""micro_test.py DPBENCH-MICRO PLUGIN: tests the collectives benchmark: its table and JSON, right and wrong results,
pairs of ranks, ranks of an outside launcher, and rejected flags. PLUGIN is the library wrong_sums."""
import collections
import json
import os
import pathlib
import re
import socket
import subprocess
import sys
import tempfile
import unittest

from drawn_tests import load_tests  # noqa: F401, unittest calls it

PROGRAM, PLUGIN = map(os.path.abspath, (sys.argv.pop(1), sys.argv.pop(1)))
sys.path[:0] = [str(pathlib.Path(__file__).parents[2] / "scripts/charts")]
SHARES = {"allreduce": lambda n: 2 * (n - 1) / n, "reduce_scatter": lambda n: (n - 1) / n, "allgather": lambda n: (n - 1) / n,
          "broadcast": lambda n: 1}
ALL = ("allreduce", "reduce", "reduce_scatter", "allgather", "broadcast", "gather", "scatter", "alltoall", "sendrecv",
       "barrier")
# OWN_HOST_NAME: command prefix that runs a command in a namespace with a host name of its own; None if the system
# forbids it. RENAMED: program that sets this host name to its first argument and executes the other arguments.
OWN_HOST_NAME = next((words for words in (["unshare", "--user", "--map-root-user", "--uts"], ["unshare", "--uts"])
                      if subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0), None)
RENAMED = "import os, socket, sys; socket.sethostname(sys.argv[1]); os.execv(sys.argv[2], sys.argv[2:])"
COLLECTIVES = "--benchmark_filter=^(allreduce|reduce_scatter|allgather|broadcast)/"


class Micro(unittest.TestCase):
    def micro(self, *words, code=0, **variables):
        done = subprocess.run([PROGRAM, *words], text=True, capture_output=True, check=False,
                              env={**os.environ, **variables})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def test_dpbench_micro_computes_bandwidths_as_nccl_tests_does(self):
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
            self.assertAlmostEqual(entry["of_copy"], entry["busbw_gb_s"] / entry["copy_gb_s"], places=9)
        self.assertEqual(seen, {(name, f"backend:{backend}", world) for name in SHARES for backend in ("shm", "gloo") for world in (1, 3)})
        self.assertEqual(set(sizes[1024]), {f"{backend}, world {world}" for backend in ("shm", "gloo") for world in (1, 3)})
        self.assertIn("# allreduce/backend:shm/world:3\n", table)
        self.assertRegex(table, r"\n +1024 +256 +float +sum +-1 +[0-9.]+ +[0-9.]+ +[0-9.]+ +\d+ % +0\n")
        self.assertRegex(table, r"\n +64 +16 +float +none +0 +[0-9.]+ +[0-9.]+ +[0-9.]+ +\d+ % +0\n")
        # As in nccl-tests, the count column has the elements of one rank's part: 85 x 3 ranks x 4 B = 1020 B.
        for name, redop in (("allgather", "none"), ("reduce_scatter", "sum")):
            block = table.split(f"# {name}/backend:shm/world:3\n")[1].split("\n\n")[0]
            self.assertRegex(block, rf"\n +1020 +85 +float +{redop} +-1 ")
        self.assertIn("# Avg bus bandwidth", table)

    def test_tables_of_collectives_and_rank_pairs_wrap_at_the_width_in_the_variable_columns(self):
        for words, columns in ((("--collective", "allreduce,barrier", "--world", "3"), 80),
                               (("--pairs", "--world", "5"), 40)):
            with self.subTest(words):
                table = self.micro(*words, "--backend", "shm", "--max-bytes", "4", COLUMNS=str(columns)).stdout
                self.assertLessEqual(max(map(len, table.splitlines())), columns, table)
                self.assertIn("wrong", table)
        self.assertRegex(table, r"\n# rank +host[ \d]*\n[ \d]*4\n +0 ")  # the last columns are on a line below

    def test_collectives_are_timed_up_to_256_mib_with_fewer_iterations_for_larger_sizes(self):
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

    def test_dpbench_micro_finds_collectives_correct_in_every_dtype_and_reduction_also_in_place(self):
        for backend, dtypes, ops in (("shm", "f32,f64,bf16,i32,i64", "sum,max,min,product"),
                                     ("gloo", "f32,bf16", "sum,max")):
            with self.subTest(backend=backend):
                entries = json.loads(self.micro(
                    "--collective", ",".join(ALL), "--world", "3", "--backend", backend, "--dtype", dtypes, "--op", ops,
                    "--in-place", "--min-bytes", "1MiB", "--max-bytes", "1MiB", "-o", "json").stdout)["benchmarks"]
                self.assertEqual({entry.get("wrong", 0) for entry in entries}, {0})
                types, reduced = len(dtypes.split(",")), len(dtypes.split(",")) * len(ops.split(","))
                self.assertEqual(collections.Counter(entry["name"].split("/")[0] for entry in entries),
                                 dict(zip(ALL, (reduced, reduced, 2 * reduced, 2 * types, types, types, types, types, types, 1))))
                self.assertIn(f"reduce_scatter/backend:{backend}/world:3/dtype:bf16/op:max/in-place/bytes:1048576",
                              {entry["name"].split("/iterations")[0] for entry in entries})

    def test_dpbench_micro_exits_1_and_counts_the_wrong_elements_of_a_collective_beside_its_time(self):
        words = ("--backend", "wrong-sums", "--min-bytes", "1KiB", "--max-bytes", "1KiB", "--collective")
        done = self.micro(*words, "allreduce", code=1, LD_PRELOAD=PLUGIN)
        self.assertRegex(done.stdout, r"\n +1024 +256 +float +sum +-1 +[0-9.]+ +[0-9.]+ +[0-9.]+ +\d+ % +1\n")

    def test_collectives_that_a_backend_lacks_are_skipped_and_exit_77_if_it_lacks_all(self):
        words = ("--min-bytes", "1KiB", "--max-bytes", "1KiB", "--collective")
        lacking = self.micro("--backend", "wrong-sums", *words, "reduce,scatter", code=77, LD_PRELOAD=PLUGIN).stdout
        for name in ("reduce", "scatter"):
            self.assertRegex(lacking, rf"\n# {name}/backend:wrong-sums/world:2/bytes:1024/.* skipped: .*\b{name}\b")
        self.assertIn("skipped: ", self.micro("--backend", "wrong-sums,shm", *words, "reduce", LD_PRELOAD=PLUGIN).stdout)
        narrow = self.micro("--backend", "wrong-sums", *words, "reduce", code=77, LD_PRELOAD=PLUGIN, COLUMNS="80").stdout
        self.assertLessEqual(max(map(len, narrow.splitlines())), 80, narrow)

    def test_the_flag_pairs_of_dpbench_micro_prints_each_ranks_host_and_each_pairs_bandwidth_and_latency(self):
        words = ("--pairs", "--world", "3", "--backend", "shm", "--max-bytes", "64KiB")
        table, host = self.micro(*words).stdout, re.escape(socket.gethostname())
        for figure in (r"bandwidth \(GB/s\)", r"bandwidth \(%", r"latency \(us\)"):
            self.assertRegex(table, rf"\n# pairs/backend:shm/world:3: {figure}.*\n# rank  host.* 0 +1 +2\n"
                                    rf" +0  {host} +- +[0-9.]+ +[0-9.]+\n +1  {host} +[0-9.]+ +- +[0-9.]+\n")
        entries = json.loads(self.micro(*words, "-o", "json").stdout)["benchmarks"]
        self.assertEqual([entry["name"].split("/")[3:6] for entry in entries],
                         [[f"from:{a}", f"to:{b}", "bytes:65536"] for a in range(3) for b in range(3) if a != b])
        for entry in entries:
            self.assertEqual(entry["wrong"], 0)
            self.assertGreater(entry["latency_us"], 0)
            self.assertAlmostEqual(entry["bandwidth_gb_s"], entry["bytes"] / entry["real_time"] * 1e-3, places=6)

    def launched(self, each, *words, prefix=lambda rank: ()):
        """Starts the ranks of `dpbench collectives` as a launcher on two hosts with `each` ranks per host would.
        Returns rank 0's output."""
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        launch = {**os.environ, "WORLD_SIZE": str(2 * each), "LOCAL_WORLD_SIZE": str(each),
                  "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
        words = [os.path.join(os.path.dirname(PROGRAM), "dpbench"), "collectives", *words]
        ranks = [subprocess.Popen([*prefix(rank), *words], text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env={**launch, "RANK": str(rank), "LOCAL_RANK": str(rank % each)})
                 for rank in range(2 * each)]
        said = [rank.communicate(timeout=120) for rank in ranks]
        self.assertEqual([rank.returncode for rank in ranks], [0] * len(ranks), said)
        self.assertEqual({out for out, _ in said[1:]}, {""})
        return said[0][0]

    def test_pairs_of_ranks_on_two_hosts_are_also_printed_by_host(self):
        if not OWN_HOST_NAME:
            self.skipTest("no namespaces with a host name of their own here (unshare --uts)")
        table = self.launched(2, "--pairs", "--backend", "gloo", "--max-bytes", "64KiB", prefix=lambda rank: [
            *OWN_HOST_NAME, sys.executable, "-c", RENAMED, f"host-{rank // 2}"])

        def rows_of(title):
            found = re.search(rf"\n# pairs/backend:gloo/world:4: {title}.*\n.*\n(( *\d| *host-).*\n)+", table)
            return [row.split() for row in found[0].splitlines()[3:]]

        for figure, worst in ((r"bandwidth \(GB/s\)", min), (r"latency \(us\), half a round trip of 4 B", max)):
            ranks = [[float(cell) for cell in cells if cell != "-"]
                     for _, _, *cells in rows_of(figure + ", from the rank")]
            hosts = {host: [float(cell) for cell in cells] for host, *cells in rows_of(figure + ", worst pair")}
            self.assertEqual(list(hosts), ["host-0", "host-1"])
            self.assertEqual(hosts["host-0"], [worst(ranks[0][0], ranks[1][0]), worst(ranks[0][1:] + ranks[1][1:])])
        of_copy, of_link = ([[cell != "-" for cell in cells] for _, _, *cells in rows_of(figure)]
                            for figure in (r"bandwidth \(% of a copy.*from the rank", r"bandwidth \(% of a plain TCP.*from the rank"))
        self.assertEqual(of_copy, [[a != b and a // 2 == b // 2 for b in range(4)] for a in range(4)], "only on one host")
        self.assertEqual(of_link, [[a // 2 != b // 2 for b in range(4)] for a in range(4)], "only between hosts")

    def test_the_bandwidth_of_collectives_on_two_hosts_is_printed_as_a_share_of_the_rate_of_the_slowest_link(self):
        words = ("--collective", "allreduce,broadcast", "--backend", "gloo,shm", "--min-bytes", "1MiB", "--max-bytes",
                 "1MiB")
        entries = json.loads(self.launched(1, *words, "-o", "json"))["benchmarks"]
        self.assertEqual(len(entries), 4)
        self.assertEqual(len({entry["link_gb_s"] for entry in entries}), 1, "measured once, without the backend")
        for entry in entries:
            self.assertGreater(entry["link_gb_s"], 0)
            self.assertAlmostEqual(entry["of_link"], entry["busbw_gb_s"] / entry["link_gb_s"], places=9)
        self.assertRegex(self.launched(1, *words), r"busbw +of link +#wrong\n.*\n +1048576 .* \d+ % +0\n")
        self.assertRegex(self.micro("--world", "2", *words).stdout, r"busbw +of copy +#wrong\n")

    def test_ranks_that_a_launcher_starts_on_two_hosts_measure_collectives_together(self):
        table = self.launched(1, "--collective", "allreduce,barrier", "--max-bytes", "16")
        for block in ("allreduce/backend:gloo", "barrier/backend:gloo", "allreduce/backend:shm"):
            self.assertIn(f"# {block}/world:2\n", table)

    def test_dpbench_micro_runs_its_eight_benchmarks_that_are_not_collectives(self):
        found = json.loads(self.micro("--benchmark_filter=^(scatter_batch|gather_outputs|replicate|sampler|batching|protocol|report_writing)/",
                                      "--benchmark_format=json").stdout)["benchmarks"]
        self.assertEqual([entry["name"].split("/")[0] for entry in found],
                         ["scatter_batch", "gather_outputs", "replicate", "sampler", "batching", "protocol", "report_writing", "report_writing"])

    def test_dpbench_micro_names_a_wrong_argument_and_exits_2(self):
        for words, said in ((("--backend", "foo"), "shm, gloo"), (("--worlds", "2"), "--worlds"), (("--world", "0"), "--world"),
                            (("--min-bytes", "8", "--max-bytes", "4"), "--min-bytes"), (("--benchmark_nonsense",), "--benchmark_nonsense"),
                            (("--pairs", "--world", "1"), "--pairs"),
                            (("--benchmark_out=/proc/nope/x",), "'/proc/nope/x'"),
                            (("--benchmark_filter=nothing/at/all",), "--benchmark_filter"),
                            (("--benchmark_enable_random_interleaving=true",), "--benchmark_enable_random_interleaving")):
            with self.subTest(words=words):
                self.assertIn(said, self.micro(*words, code=2).stderr)


if __name__ == "__main__":
    unittest.main()
