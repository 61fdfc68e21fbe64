"""places_test.py DPBENCH GOLDEN FAKE_WORKER: tests places that dpbench cannot write to: a read-only directory, a full
disk (a tiny tmpfs in its own mount namespace). Each gives one error line and exit code 2 before a run, or 5 while
writing; existing files stay intact."""
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import unittest

from mounts import own_mounts
import reports  # noqa: F401, importing this module validates every report that dpbench writes

PROGRAM, GOLDEN, WORKER = (os.path.abspath(word) for word in sys.argv[1:4])
RUN = ("--workload", "toy", "--cpus", "1,2", "--quick", "-q")
SAVED = (*RUN, "--launches", "4", "--save-baseline", "main")
NOBODY = 65534


class Places(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="dpbench-places-")
        self.addCleanup(holder.cleanup)
        self.folder = holder.name
        # Copy the programs to a place where another user may run them.
        os.chmod(self.folder, 0o755)
        fake = os.path.dirname(WORKER)
        for source in (PROGRAM, WORKER, GOLDEN, os.path.join(fake, "catalogue.json")):
            shutil.copy(source, self.folder)
        self.program = os.path.join(self.folder, "dpbench")
        self.golden = os.path.join(self.folder, os.path.basename(GOLDEN))
        self.variables = {**os.environ, "DPBENCH_WORKER": os.path.join(self.folder, "fake_worker")}
        self.results = os.path.join(self.folder, "results")
        os.makedirs(self.results)

    def one_line(self, done, code, said):
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(said, done.stderr)

    def as_root(self, *words):
        return subprocess.run([self.program, *words], cwd=self.folder, env=self.variables, text=True, capture_output=True, check=False)

    def as_nobody(self, *words):
        """Runs dpbench as user nobody if the test runs as root, because root may write anywhere."""
        user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
        return subprocess.run([self.program, *words], cwd=self.folder, env=self.variables, text=True, capture_output=True, check=False, **user)

    def test_a_read_only_results_directory_is_rejected_before_anything_runs(self):
        os.chmod(self.results, 0o555)
        duel = ("duel", "--base", self.folder + "/fake_worker", "--workload", "toy", "-q")
        os.symlink("fake_worker", self.folder + "/dpbench-worker")
        self.one_line(self.as_nobody(*RUN), 2, "--out")
        self.one_line(self.as_nobody(*duel), 2, "--out")
        self.assertEqual(os.listdir(self.results), [])

    def test_an_unwritable_baseline_is_rejected_before_anything_runs(self):
        baselines = os.path.join(self.results, "baselines")
        with open(baselines, "w", encoding="utf-8"):
            pass
        self.one_line(self.as_root(*SAVED), 2, "baselines")
        os.remove(baselines)
        os.makedirs(os.path.join(baselines, "main.json"))
        self.one_line(self.as_root(*SAVED), 2, "main.json")
        os.rmdir(os.path.join(baselines, "main.json"))
        os.chmod(self.results, 0o777)
        os.chmod(baselines, 0o555)
        self.one_line(self.as_nobody(*SAVED), 2, "Permission denied")
        self.assertEqual(os.listdir(self.results), ["baselines"])

    def test_the_error_names_a_report_that_cannot_be_read(self):
        secret = os.path.join(self.folder, "secret.json")
        shutil.copy(GOLDEN, secret)
        os.chmod(secret, 0 if os.getuid() else 0o600)
        for words in (("validate", secret), ("compare", secret, self.golden), ("export", secret, "--to", "csv")):
            self.one_line(self.as_nobody(*words), 2, "secret.json")

    def in_a_folder_that_is_gone(self, *words):
        script = 'mkdir gone && cd gone && rmdir ../gone && exec "$0" "$@"'
        return subprocess.run(["sh", "-c", script, self.program, *words], cwd=self.folder, env=self.variables, text=True, capture_output=True, check=False)

    def test_inaccessible_data_is_rejected_before_anything_runs(self):
        hidden = os.path.join(self.folder, "hidden")
        os.mkdir(hidden, 0)
        self.addCleanup(os.chmod, hidden, 0o700)
        os.symlink("loop", os.path.join(self.folder, "loop"))
        for command in (("--quick",), ("check",), ("train", "--workload", "strong-toy", "--strategy", "ddp", "--cpus", "2")):
            for path, why in ((hidden + "/d", "Permission denied"), ("loop", "Too many levels of symbolic links"),
                              ("loop/x", "Too many levels of symbolic links"), ("x" * 5000, "File name too long"),
                              ("absent", "absent"), (self.golden, self.golden)):
                if path == self.golden and "strong-toy" in command:
                    continue  # allowed: a plug-in's workload may read its data from a file
                done = self.as_nobody(*command, "--data", path)
                self.one_line(done, 2, why)
                self.assertIn("--data ", done.stderr)
        self.assertEqual(os.listdir(self.results), [])

    def test_duel_names_a_build_that_it_cannot_access(self):
        os.symlink("loop", os.path.join(self.folder, "loop"))
        for path, why in (("loop/x", "Too many levels of symbolic links"), ("absent", "No such file or directory")):
            done = self.as_nobody("duel", "--base", path, "--workload", "toy")
            self.one_line(done, 2, why)
            self.assertIn(f"--base: '{path}'", done.stderr)

    def test_in_a_deleted_working_directory_a_relative_path_is_refused_naming_its_flag(self):
        for words in (("--data", "x"), ("check", "--data", "x"), ("check", "--junit", "x"), ("check", "--dump", "x")):
            self.one_line(self.in_a_folder_that_is_gone(*words), 2, f"{words[-2]} 'x': ")
        self.one_line(self.in_a_folder_that_is_gone("duel", "--base", "x"), 2, "--base: 'x': ")

    def test_doctor_needs_no_temporary_directory(self):
        self.variables["TMPDIR"] = "/nonexistent"
        done = self.as_root("doctor")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertIn("2.11.0", done.stdout)

    def test_check_rejects_a_dump_folder_that_it_cannot_access(self):
        hidden = os.path.join(self.folder, "hidden")
        os.mkdir(hidden, 0)
        self.addCleanup(os.chmod, hidden, 0o700)
        self.one_line(self.as_nobody("check", "--workload", "toy", "--strategy", "cpu", "--dump", hidden), 2, "Permission denied")

    def test_a_plugin_of_root_or_ones_own_is_accepted_and_another_users_is_not(self):
        path = os.path.join(self.folder, "x.so")
        with open(path, "w", encoding="utf-8"):
            os.chmod(path, 0o644)
        plan = ("--plugin", path, "--workload", "toy", "--dry-run", "-o", "none")
        self.assertEqual(self.as_nobody(*plan).returncode, 0, "root's")
        if os.getuid() != 0:
            self.skipTest("only root can change a file's owner")
        os.chown(path, NOBODY, NOBODY)
        self.assertEqual(self.as_nobody(*plan).returncode, 0, "one's own")
        self.one_line(self.as_root(*plan), 2, pwd.getpwuid(NOBODY).pw_name)
        os.chown(path, 12345, 12345)
        self.one_line(self.as_nobody(*plan), 2, "12345")

    def on_small_disk(self, size, script):
        """Runs the script in its own mount namespace, with a tmpfs of the given size (options of mount) at results/."""
        if not own_mounts():
            self.skipTest("no mount namespaces here (unshare --mount)")
        text = f'mount -t tmpfs -o {size} tmpfs "{self.results}"\nd() {{ "{self.program}" "$@"; }}\n{script}'
        return subprocess.run([*own_mounts(), "sh", "-c", text], cwd=self.folder, env=self.variables,
                              text=True, capture_output=True, check=False)

    def test_a_run_exits_5_if_the_disk_is_too_small_for_its_report(self):
        done = self.on_small_disk("size=8k", f"d {' '.join(RUN)} -o json; echo rc=$?; ls results/*")
        self.assertIn("rc=5", done.stdout, done.stderr)
        self.assertIn('"status": "complete"', done.stdout, "the figures still reach stdout")
        self.assertIn("No space left on device", done.stderr)
        self.assertRegex(done.stderr, "(?i)not saved")
        self.assertNotIn(".part", done.stdout)

    def test_a_run_exits_2_or_5_on_a_file_system_out_of_inodes(self):
        # On the tmpfs the root directory takes one inode, a run's directory another, and its report a third.
        done = self.on_small_disk("nr_inodes=1", f"d {' '.join(RUN)} -o none; echo rc=$?; ls -A results")
        self.assertEqual(done.stdout, "rc=2\n", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn("No space left on device", done.stderr)
        for inodes in range(2, 6):  # needed: one each for the run's directory, report, log directory and log
            done = self.on_small_disk(f"nr_inodes={inodes}", f"d {' '.join(RUN)} -o json; echo rc=$?; ls -A results/*")
            self.assertRegex(done.stdout, "(?m)^rc=5$" if inodes < 4 else "(?m)^rc=[05]$", done.stderr)
            self.assertIn('"status": "complete"', done.stdout, "the figures still reach stdout")
            self.assertNotIn(".part", done.stdout)
            self.assertEqual("No space left on device" in done.stderr, "rc=5" in done.stdout, done.stderr)

    def test_a_duel_on_a_full_disk_exits_5(self):
        os.symlink("fake_worker", self.folder + "/dpbench-worker")
        done = self.on_small_disk("size=8k", "d duel --base . --workload toy --strategy cpu --cpus 1 -q; echo rc=$?")
        self.assertIn("rc=5", done.stdout, done.stderr)
        self.assertRegex(done.stderr, "(?i)not saved")

    def test_a_full_disk_keeps_existing_files_intact(self):
        done = self.on_small_disk("size=240k", f"""
            d {' '.join(SAVED)} -o none || exit 9
            sha256sum results/*/run.json results/baselines/main.json > before
            head -c 100000000 /dev/zero > results/filler 2>/dev/null
            d {' '.join(SAVED)} -o none; echo rc=$?
            sha256sum -c --quiet before && echo whole
            d validate main > /dev/null && echo valid
            rm results/filler
            d {' '.join(SAVED)} -o none && echo again""")
        self.assertIn("rc=5", done.stdout, done.stdout + done.stderr)
        for word in ("whole", "valid", "again"):
            self.assertIn(word, done.stdout.split(), done.stdout + done.stderr)


unittest.main(argv=sys.argv[:1])
