"""Runs dpbench under the real torchrun, mpirun and srun: the ranks form one run, a failing rank is named, and nothing
outlives the launcher.

usage: launchers_live.py DPBENCH PLUGIN      (with a Python that has torch; Slurm's daemons want root)
"""
import glob
import json
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

import leftovers
import reports  # noqa: F401, importing this module validates every report that dpbench writes

DPBENCH, PLUGIN = (os.path.abspath(path) for path in sys.argv[1:3])
SLACK = 60
CASE = ["--strategy", "ddp", "--workload", "random-linear", "--quick", "--check", "off", "--backend", "shm"]
FAULTY = ["--plugin", PLUGIN, "--strategy", "faulty-ddp", *CASE[2:]]
MESH = ["--strategy", "layout", "--mesh", "dp=2,tp=2", "--workload", "gpt", "--model", "tiny", "--backend", "shm", "--quick", "--no-baseline"]
LONG = [*[flag for flag in CASE if flag != "--quick"], "--launches", "200", "--no-baseline"]


def wait_for(condition, seconds, what):
    if not leftovers.wait_until(condition, seconds):
        raise AssertionError(what)


class Slurm:
    """A Slurm cluster of two nodes simulated on this host. Its daemons listen on loopback only."""

    def __init__(self, folder):
        self.folder, self.daemons = folder, []
        host = socket.gethostname().split(".")[0]
        for name in ("state", "spool-n1", "spool-n2", "log", "run"):
            os.makedirs(f"{folder}/{name}", mode=0o755)
        os.chmod(folder, 0o755)
        with open(f"{folder}/munge.key", "wb") as key:
            key.write(secrets.token_bytes(128))
        os.chmod(f"{folder}/munge.key", 0o400)
        base = 16000 + os.getpid() % 400 * 100
        nodes = [f"NodeName=n{i} NodeHostname={host} NodeAddr=127.0.0.1 Port={base + 20 + i} CPUs=4 State=UNKNOWN" for i in (1, 2)]
        self.conf = f"{folder}/slurm.conf"
        with open(self.conf, "w", encoding="utf-8") as conf:
            conf.write("\n".join([
                "ClusterName=test", f"SlurmctldHost={host}(127.0.0.1)", "AuthType=auth/munge", f"AuthInfo=socket={folder}/run/munge.socket",
                "CredType=cred/munge", "SlurmUser=root", "SlurmdUser=root", f"SlurmctldPort={base}", f"SrunPortRange={base + 50}-{base + 99}",
                "CommunicationParameters=NoCtldInAddrAny,NoInAddrAny", f"StateSaveLocation={folder}/state", f"SlurmdSpoolDir={folder}/spool-%n",
                f"SlurmctldPidFile={folder}/run/ctld.pid", f"SlurmdPidFile={folder}/run/d-%n.pid", f"SlurmctldLogFile={folder}/log/ctld",
                f"SlurmdLogFile={folder}/log/d-%n", "ProctrackType=proctrack/linuxproc", "TaskPlugin=task/none",
                "JobAcctGatherType=jobacct_gather/none", "AccountingStorageType=accounting_storage/none", "MpiDefault=none",
                "SwitchType=switch/none", "SchedulerType=sched/builtin", "SelectType=select/cons_tres", "SelectTypeParameters=CR_CPU",
                "SlurmdParameters=config_overrides", "ReturnToService=2", "KillWait=5", *nodes,
                "PartitionName=main Nodes=n1,n2 Default=YES MaxTime=INFINITE State=UP OverSubscribe=FORCE:8", ""]))
        self.env = {**os.environ, "SLURM_CONF": self.conf}
        self.daemon("munged", "--force", "--foreground", f"--key-file={folder}/munge.key", f"--socket={folder}/run/munge.socket",
                    f"--pid-file={folder}/run/munged.pid", f"--log-file={folder}/log/munged", f"--seed-file={folder}/run/seed")
        wait_for(lambda: os.path.exists(f"{folder}/run/munge.socket"), SLACK, "munged did not start")
        self.daemon("slurmctld", "-D", "-c")
        for node in ("n1", "n2"):
            self.daemon("slurmd", "-D", "-N", node, "-c")
        wait_for(self.idle, SLACK, "the nodes did not come up")

    def daemon(self, *command):
        with open(f"{self.folder}/log/{command[0]}.out", "ab") as out:
            self.daemons.append(subprocess.Popen(command, stdout=out, stderr=out, env=self.env))

    def idle(self):
        asked = subprocess.run(["sinfo", "-h", "-N", "-o", "%T"], capture_output=True, text=True, env=self.env, timeout=30, check=False)
        return asked.stdout.split() == ["idle", "idle"]

    def stop(self):
        for daemon in (*self.daemons[1:], self.daemons[0]):  # stop the controller first and munged last
            daemon.terminate()
            try:
                daemon.wait(15)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


class Launcher(unittest.TestCase):
    """Tests that every launcher must pass. Subclasses provide the launcher's command line."""
    rank_variable = interrupts = None

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.out = folder.name
        self.mark = f"LAUNCHERS_LIVE={self.out}"

    def command(self, ranks):
        raise NotImplementedError

    def environment(self):
        return os.environ

    def start(self, ranks, flags, program=DPBENCH):
        name, value = self.mark.split("=")
        one = subprocess.Popen([*self.command(ranks), program, *flags, "--out", self.out + "/results", "-q"], stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True, env={**self.environment(), name: value}, start_new_session=True)
        self.addCleanup(self.clean, one)
        return one

    def clean(self, one):
        if one.poll() is None:
            one.kill()
            one.communicate()
        for pid in leftovers.processes_of(self.mark):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass

    def run_it(self, ranks, flags, **how):
        one = self.start(ranks, flags, **how)
        out, err = one.communicate(timeout=3 * SLACK)
        return one.returncode, out, err

    def report(self):
        (path,) = glob.glob(self.out + "/results/*/run.json")
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    def nothing_left(self):
        wait_for(lambda: not leftovers.processes_of(self.mark), SLACK, f"left behind: {leftovers.processes_of(self.mark)}")

    def test_a_launcher_can_start_one_two_or_three_ranks(self):
        for ranks in (1, 2, 3):
            with self.subTest(ranks=ranks):
                code, out, err = self.run_it(ranks, [*CASE, "-o", "json"])
                self.assertEqual(code, 0, err)
                case = json.loads(out)["cases"][1]
                self.assertEqual((case["strategy"], case["world"], case["status"]), ("ddp", ranks, "ok"))
        self.nothing_left()

    def launcher_exit_code(self, code):
        return code

    def test_a_world_size_that_differs_from_the_launchers_is_rejected(self):
        code, _, err = self.run_it(2, [*CASE, "--cpus", "3"])
        self.assertEqual(code, self.launcher_exit_code(2))
        self.assertRegex(err, r"--cpus 3\b.* 2 ranks")
        self.assertFalse(os.path.exists(self.out + "/results"))

    def test_the_ranks_of_a_launcher_form_a_mesh(self):
        code, out, err = self.run_it(4, [*MESH, "-o", "json"])
        self.assertEqual(code, 0, err)
        (case,) = json.loads(out)["cases"]
        self.assertEqual((case["mesh"], case["world"], case["status"]), ("dp=2,tp=2", 4, "ok"))
        self.assertIn("passed", [row["status"] for row in case["checks"]])
        self.nothing_left()

    def test_a_mesh_of_another_number_of_ranks_than_the_launchers_is_rejected(self):
        code, _, err = self.run_it(2, MESH)
        self.assertEqual(code, self.launcher_exit_code(2), err)
        self.assertRegex(err, r"4 ranks\b.* started 2")

    def fails(self, fault, words):
        code, _, err = self.run_it(3, [*FAULTY, "--param", f"fault={fault}", "--timeout", "5"])
        self.assertEqual(code, self.launcher_exit_code(3), err)
        cases = {case["strategy"]: case for case in self.report()["cases"]}
        self.assertRegex(cases["faulty-ddp"]["reason"], words)
        self.assertEqual(cases["cpu"]["status"], "ok", "the other case still runs")
        self.nothing_left()

    def test_a_rank_that_exits_with_code_7_is_named(self):
        self.fails("exit-7", "rank 1 .*exit code 7")

    def test_a_killed_rank_is_named(self):
        self.fails("kill", "rank 1 .*signal 9")

    def test_a_rank_that_never_starts_is_named_as_missing(self):
        lazy = self.out + "/lazy"
        with open(lazy, "w", encoding="utf-8") as file:
            file.write(f'#!/bin/sh\n[ "${self.rank_variable}" = 1 ] && exec sleep 40\nexec {DPBENCH} "$@"\n')
        os.chmod(lazy, 0o755)
        code, _, err = self.run_it(3, [*CASE, "--timeout", "5"], program=lazy)
        # srun returns the highest exit code, here that of the sleeping rank.
        self.assertIn(code, (self.launcher_exit_code(3), 128 + signal.SIGTERM), err)
        self.assertRegex(err, "2 of 3 ranks.* 5 s.*missing 1")
        self.nothing_left()

    def running(self):
        one = self.start(2, LONG)
        wait_for(lambda: glob.glob(self.out + "/results/*/run.json"), SLACK, "it never began")
        time.sleep(2)
        return one

    def test_an_interrupt_to_the_launcher_ends_the_run_and_saves_its_report(self):
        one = self.running()
        for _ in range(self.interrupts):
            one.send_signal(signal.SIGINT)
            time.sleep(0.2)
        one.communicate(timeout=SLACK)
        self.assertNotEqual(one.returncode, 0)
        self.nothing_left()
        self.assertEqual(self.report()["status"], "interrupted")

    def test_no_process_outlives_a_killed_launcher(self):
        one = self.running()
        one.kill()
        self.nothing_left()
        one.communicate()
        self.assertEqual(self.report()["status"], "interrupted")


class Torchrun(Launcher):
    rank_variable, interrupts = "RANK", 1

    def launcher_exit_code(self, code):
        return 1  # torchrun exits with 1 whatever the worker's exit code

    torchrun = [sys.executable, "-m", "torch.distributed.run", "--no-python"]

    @staticmethod
    def free_port():
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            return one.getsockname()[1]

    def command(self, ranks):
        return [*self.torchrun, "--nproc-per-node", str(ranks), "--master-addr", "127.0.0.1", "--master-port", str(self.free_port())]

    def test_two_torchrun_agents_form_one_run(self):
        rendezvous = ["--nnodes", "2", "--nproc-per-node", "1", "--rdzv-backend", "c10d", "--rdzv-id", "two", "--rdzv-endpoint",
                   f"127.0.0.1:{self.free_port()}"]
        agents = [subprocess.Popen([*self.torchrun, *rendezvous, DPBENCH, *CASE, "--out", self.out + "/results", "-q", "-o", "json"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(2)]
        ends = [one.communicate(timeout=3 * SLACK) for one in agents]
        self.assertEqual([one.returncode for one in agents], [0, 0], ends)
        (printed,) = [out for out, _ in ends if out]
        self.assertEqual([case["world"] for case in json.loads(printed)["cases"] if case["strategy"] == "ddp"], [2])

    def test_training_under_torchrun_equals_training_without_a_launcher(self):
        for ranks, case in ((2, ["--workload", "mnist-mlp", "--strategy", "ddp", "--cpus", "2"]),
                            (4, ["--workload", "gpt", "--model", "tiny", "--batch", "64", "--strategy", "layout", "--mesh", "dp=2,tp=2"])):
            with self.subTest(ranks=ranks):
                train = ["train", *case, "--epochs", "1", "--backend", "shm", "--threads", "1"]
                code, out, err = self.run_it(ranks, [*train, "--save", self.out + "/theirs"])
                self.assertEqual(code, 0, err)
                ours = subprocess.run([DPBENCH, *train, "--save", self.out + "/ours", "--out", self.out + "/results", "-q"], capture_output=True,
                                      text=True, timeout=3 * SLACK, check=True)
                self.assertRegex(out, r"\d\.\d{4}")
                self.assertEqual(out, ours.stdout)
                with open(self.out + "/theirs", "rb") as theirs, open(self.out + "/ours", "rb") as other:
                    self.assertEqual(theirs.read(), other.read())

    def test_torchrun_learns_which_rank_failed(self):
        _, _, err = self.run_it(2, [*FAULTY, "--param", "fault=exit-7"])
        self.assertRegex(err, "Root Cause[^=]*rank +: 1[^=]*exit code 7")


class Mpirun(Launcher):
    rank_variable, interrupts = "OMPI_COMM_WORLD_RANK", 1

    def command(self, ranks):
        return ["mpirun", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", str(ranks)]


@unittest.skipUnless(os.geteuid() == 0, "Slurm's daemons want root")
class Srun(Launcher):
    rank_variable, interrupts = "SLURM_PROCID", 2

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.mkdtemp()
        cls.slurm = Slurm(cls.folder)

    @classmethod
    def tearDownClass(cls):
        cls.slurm.stop()
        shutil.rmtree(cls.folder)

    def command(self, ranks):
        return ["srun", "--overcommit", "-K1", "-N", "1", "-n", str(ranks)]

    def environment(self):
        return self.slurm.env

    def run_on_two_nodes(self, ranks, flags, distribution="block"):
        """Runs dpbench on two nodes, at most two ranks on each."""
        return subprocess.run(["srun", "--overcommit", "-N", "2", "-n", str(ranks), "--ntasks-per-node=2", "--distribution=" + distribution,
                               DPBENCH, *flags, "--out", self.out + "/results", "-q", "-o", "json"],
                              capture_output=True, text=True, timeout=3 * SLACK, check=False,
                              # Both nodes are this host, so their ranks share its cores.
                              env={**self.slurm.env, "MASTER_ADDR": "127.0.0.1", "DPBENCH_KEEP_DISTURBED": "1"})

    def on_two_nodes(self, ranks, flags):
        """Returns the report of a successful run on two nodes."""
        one = self.run_on_two_nodes(ranks, flags)
        self.assertEqual(one.returncode, 0, one.stderr)
        return json.loads(one.stdout)

    def test_ranks_dealt_cyclically_to_two_slurm_nodes_are_refused(self):
        one = self.run_on_two_nodes(4, CASE, distribution="cyclic")
        self.assertEqual(one.returncode, 2, one.stderr)
        self.assertRegex(one.stderr, r"host \S+ has the ranks 0, 2, as its local ranks 0, 1\. The ranks of a host must be consecutive")

    def test_a_run_on_two_slurm_nodes_succeeds(self):
        hosts = self.on_two_nodes(3, CASE)["env"]["hosts"]
        self.assertEqual(sorted(rank for host in hosts for rank in host["ranks"]), [0, 1, 2])
        self.assertEqual(len(hosts), 2)

    def test_a_mesh_on_two_slurm_nodes_reports_which_axes_are_between_hosts(self):
        report = self.on_two_nodes(4, MESH)
        self.assertEqual([host["ranks"] for host in report["env"]["hosts"]], [[0, 1], [2, 3]])
        self.assertIn("dp between hosts, tp within a host", report["cases"][0]["warnings"])

    def test_the_slurm_job_script_of_the_repository_succeeds(self):
        with open(os.path.join(os.path.dirname(__file__), "../../scripts/slurm/two-nodes.sbatch"), encoding="utf-8") as file:
            job = file.read()
        for gpus, here in (("--gpus 16", "--cpus 2"), ("--ntasks-per-node=8", "--ntasks-per-node=1"), ("#SBATCH --gpus-per-node=8\n", ""),
                           ("--cpus-per-task=8", "--cpus-per-task=1"), ("mnist-mlp,convnet", "random-linear"), ("--scale 16", "--scale 2 --quick")):
            self.assertIn(gpus, job)
            job = job.replace(gpus, here)
        with open(self.out + "/job", "w", encoding="utf-8") as file:
            file.write(job)
        one = subprocess.run(["sbatch", "--wait", "--chdir", self.out, "--output", self.out + "/job.out", self.out + "/job", DPBENCH],
                             capture_output=True, text=True, env={**self.slurm.env, "MASTER_ADDR": "127.0.0.1"}, timeout=5 * SLACK, check=False)
        with open(self.out + "/job.out", encoding="utf-8") as file:
            text = file.read()
        self.assertEqual(one.returncode, 0, text + one.stderr)
        self.assertEqual(text.count("== "), 3)
        self.assertEqual(len(glob.glob(self.out + "/results/*/run.json")), 2)

    def test_outside_a_slurm_job_step_dpbench_starts_its_own_ranks(self):
        env = {**os.environ, "SLURM_JOB_ID": "1", "SLURM_PROCID": "0", "SLURM_NTASKS": "4"}
        one = subprocess.run([DPBENCH, *CASE, "--cpus", "2", "--out", self.out + "/results", "-q"], capture_output=True, text=True, env=env,
                             timeout=3 * SLACK, check=False)
        self.assertEqual(one.returncode, 0, one.stderr)


def load_tests(loader, _, __):
    return unittest.TestSuite(loader.loadTestsFromTestCase(launcher) for launcher in (Torchrun, Mpirun, Srun))


if __name__ == "__main__":
    sys.argv[1:3] = []
    unittest.main(verbosity=2)
