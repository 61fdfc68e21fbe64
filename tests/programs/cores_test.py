"""Tests the CPU affinity of a run's threads with the real worker: a rank's own threads use the cores assigned to the
rank, gloo's threads use the cores of all ranks.

usage: cores_test.py DPBENCH
"""
import glob
import os
import subprocess
import sys
import tempfile
import unittest

import leftovers

DPBENCH = os.path.abspath(sys.argv[1])
CORES = sorted(os.sched_getaffinity(0))
SLACK = 60


def affinities(pid):
    """Returns the CPU affinity of each thread of the process, the main thread first."""
    tasks = sorted(int(os.path.basename(path)) for path in glob.glob(f"/proc/{pid}/task/*"))
    return [frozenset(os.sched_getaffinity(task)) for task in tasks]


@unittest.skipIf(len(CORES) < 2, "needs two cores")
class Cores(unittest.TestCase):
    def threads_of(self, backend):
        """Starts a run and returns {rank: CPU affinities of its threads} in the middle of the run."""
        with tempfile.TemporaryDirectory(prefix="dpbench-cores-") as folder:
            mark = f"DPBENCH_CORES_TEST={folder}"
            command = [DPBENCH, "--strategy", "ddp", "--cpus", "2", "--threads", "1", "--backend", backend, "--workload", "random-linear", "--no-baseline",
                       "--check", "off", "-q", "-o", "none", "--out", folder, "--launches", "1", "--samples", "10", "--steps", "100000", "--max-time", "60"]
            with subprocess.Popen(command, env={**os.environ, **dict([mark.split("=")])}) as run:
                self.addCleanup(run.wait)
                try:
                    begun = lambda: len(leftovers.ranks_of(mark)) == 2 and all(
                        any(leftovers.read(leftovers.directory_of(pid) + "/progress")[:8]) for pid in leftovers.ranks_of(mark))
                    self.assertTrue(leftovers.wait_until(begun, SLACK), "the ranks never began")
                    return {int(leftovers.variables_of(pid)["RANK"]): affinities(pid) for pid in leftovers.ranks_of(mark)}
                finally:
                    run.kill()

    def test_ranks_get_disjoint_cores_and_gloos_threads_get_all_cores(self):
        ranks = self.threads_of("gloo")
        shares = [ranks[rank][0] for rank in (0, 1)]
        self.assertEqual([len(share) for share in shares], [len(CORES) // 2] * 2)
        self.assertFalse(shares[0] & shares[1])
        for rank, share in enumerate(shares):
            self.assertIn(frozenset(CORES), ranks[rank][1:])
            self.assertLessEqual(set(ranks[rank]), {share, frozenset(CORES)})

    def test_with_shm_all_threads_of_a_rank_stay_on_its_cores(self):
        for own in self.threads_of("shm").values():
            self.assertEqual(set(own), {own[0]})
            self.assertEqual(len(own[0]), len(CORES) // 2)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
