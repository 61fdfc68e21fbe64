"""collectives_command_test.py DPBENCH: tests that `dpbench collectives` passes its flags on to the dpbench-micro in the
worker's folder, and starts it on every rank of an outside launcher. A script stands in for dpbench-micro."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

PROGRAM = os.path.abspath(sys.argv.pop())
LAUNCHED = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "DPBENCH_STORE", "DPBENCH_SERVES")
MICRO = f"""#!/bin/sh
printf '%s\\n' "$@"
env | grep -E '^({"|".join(LAUNCHED)})=' | sort
exit 3
"""
ALL = "--collective=allreduce,reduce,reduce_scatter,allgather,broadcast,gather,scatter,alltoall,sendrecv,barrier"


class Collectives(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name).resolve()
        self.add_program("dpbench-worker", "#!/bin/sh\nexit 1\n")

    def add_program(self, name, text):
        (self.folder / name).write_text(text, encoding="utf-8")
        (self.folder / name).chmod(0o755)

    def run_it(self, *words, code, **variables):
        environment = {"PATH": os.environ["PATH"], "DPBENCH_WORKER": str(self.folder / "dpbench-worker"), **variables}
        done = subprocess.run([PROGRAM, "collectives", *words], text=True, capture_output=True, check=False,
                              env=environment)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def test_dpbench_collectives_passes_its_flags_to_dpbench_micro_and_returns_its_exit_code(self):
        self.add_program("dpbench-micro", MICRO)
        self.assertEqual(self.run_it(code=3).stdout.split(), [ALL])
        words = ("--collective=allreduce,barrier", "--dtype=f32,bf16", "--op=max", "--in-place", "--world=1,3",
                 "--backend=shm", "--device=cpu", "--min-bytes=1024", "--factor=16", "--output=json")
        given = [word for flag in words for word in flag.replace("1024", "1KiB").split("=")]
        self.assertEqual(sorted(self.run_it(*given, code=3).stdout.split()), sorted(words))
        self.assertEqual(self.run_it("--pairs", code=3).stdout.split(), ["--pairs"])

    def test_collectives_without_dpbench_micro_exits_2_and_names_what_to_install_and_build(self):
        said = self.run_it(code=2).stderr
        for part in (str(self.folder / "dpbench-micro"), "libbenchmark-dev", "target dpbench-micro"):
            self.assertIn(part, said)

    def test_dpbench_collectives_refuses_wrong_flags_before_it_starts_dpbench_micro(self):
        self.add_program("dpbench-micro", MICRO)
        for words, part in ((("--dtype", "f16"), "f32, f64, bf16, i32, i64"), (("--op", "avg"), "sum, max, min, product"),
                            (("--world", "65"), "65"), (("--collective", "gathr"), "'gather'"),
                            (("--pairs", "--dtype", "f64"), "--dtype"), (("--max-bytes", "1"), "--max-bytes"),
                            (("--benchmark_filter=x",), "--benchmark_filter"), (("allreduce",), "'allreduce'")):
            with self.subTest(words=words):
                done = self.run_it(*words, code=2)
                self.assertIn(part, done.stderr)
                self.assertEqual(done.stdout, "")

    def test_under_a_launcher_every_rank_starts_dpbench_micro_with_its_rank_and_rendezvous_store(self):
        self.add_program("dpbench-micro", MICRO)
        launch = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1",
                  "MASTER_PORT": "29400"}
        for rank in ("0", "1"):
            self.assertEqual(self.run_it("--pairs", code=3, RANK=rank, **launch).stdout.split(),
                             ["--pairs", f"DPBENCH_SERVES={1 - int(rank)}", "DPBENCH_STORE=127.0.0.1:29400",
                              "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1", f"RANK={rank}", "WORLD_SIZE=2"])


unittest.main(argv=sys.argv[:1])
