"""places_test.py DPBENCH GOLDEN FAKE_WORKER: results where nothing can be written: a read-only directory, a full disk (a tiny tmpfs in a
mount namespace of its own). One clear line, exit 2 before anything ran or 5 while writing, and nothing lost of what was there."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

from mounts import own_mounts
import reports  # holds every report against its schema

PROGRAM, GOLDEN, WORKER = (os.path.abspath(word) for word in sys.argv[1:4])
RUN = ("--workload", "toy", "--cpus", "1,2", "--quick", "-q")
NOBODY = 65534


class Places(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory(prefix="dpbench-places-")
        self.addCleanup(holder.cleanup)
        self.folder = holder.name
        # Copies that another user may run too.
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
        """Root may write anywhere: another user then."""
        user = {"user": NOBODY, "group": NOBODY, "extra_groups": []} if os.getuid() == 0 else {}
        return subprocess.run([self.program, *words], cwd=self.folder, env=self.variables, text=True, capture_output=True, check=False, **user)

    def test_a_read_only_results_directory_is_found_before_anything_runs(self):
        os.chmod(self.results, 0o555)
        duel = ("duel", "--base", self.folder + "/fake_worker", "--workload", "toy", "-q")
        os.symlink("fake_worker", self.folder + "/dpbench-worker")
        self.one_line(self.as_nobody(*RUN), 2, "--out")
        self.one_line(self.as_nobody(*duel), 2, "--out")
        self.assertEqual(os.listdir(self.results), [])

    def test_a_baseline_that_cannot_be_kept_is_found_before_anything_runs(self):
        baselines = os.path.join(self.results, "baselines")
        run = (*RUN, "--save-baseline", "main")
        with open(baselines, "w", encoding="utf-8"):
            pass
        self.one_line(self.as_root(*run), 2, "baselines is a file")
        os.remove(baselines)
        os.makedirs(os.path.join(baselines, "main.json"))
        self.one_line(self.as_root(*run), 2, "main.json is a directory")
        os.rmdir(os.path.join(baselines, "main.json"))
        os.chmod(self.results, 0o777)
        os.chmod(baselines, 0o555)
        self.one_line(self.as_nobody(*run), 2, "baselines cannot be written (Permission denied)")
        self.assertEqual(os.listdir(self.results), ["baselines"])

    def test_a_report_that_may_not_be_read_is_named(self):
        secret = os.path.join(self.folder, "secret.json")
        shutil.copy(GOLDEN, secret)
        os.chmod(secret, 0 if os.getuid() else 0o600)
        for words in (("validate", secret), ("compare", secret, self.golden), ("export", secret, "--to", "csv")):
            self.one_line(self.as_nobody(*words), 2, "secret.json")

    def in_a_folder_that_is_gone(self, *words):
        script = 'mkdir gone && cd gone && rmdir ../gone && exec "$0" "$@"'
        return subprocess.run(["sh", "-c", script, self.program, *words], cwd=self.folder, env=self.variables, text=True, capture_output=True, check=False)

    def test_data_that_cannot_be_looked_at_is_found_before_anything_runs(self):
        hidden = os.path.join(self.folder, "hidden")
        os.mkdir(hidden, 0)
        self.addCleanup(os.chmod, hidden, 0o700)
        os.symlink("loop", os.path.join(self.folder, "loop"))
        for command in (("--quick",), ("check",), ("train", "--workload", "strong-toy", "--strategy", "ddp", "--cpus", "2")):
            for path, why in ((hidden + "/d", "Permission denied"), ("loop", "Too many levels of symbolic links"),
                              ("loop/x", "Too many levels of symbolic links"), ("x" * 5000, "File name too long"),
                              ("absent", "no such directory"), (self.golden, "not a directory")):
                done = self.as_nobody(*command, "--data", path)
                self.one_line(done, 2, why)
                self.assertIn("--data ", done.stderr)
        self.assertEqual(os.listdir(self.results), [])

    def test_a_build_that_cannot_be_looked_at_is_named(self):
        os.symlink("loop", os.path.join(self.folder, "loop"))
        for path, why in (("loop/x", "Too many levels of symbolic links"), ("absent", "No such file or directory")):
            self.one_line(self.as_nobody("duel", "--base", path, "--workload", "toy"), 2, f"--base: '{path}': {why}")

    def test_a_working_directory_that_is_gone_is_said(self):
        for words in (("--data", "x"), ("check", "--data", "x"), ("check", "--junit", "x"), ("check", "--dump", "x")):
            self.one_line(self.in_a_folder_that_is_gone(*words), 2, f"{words[-2]} 'x': the working directory is gone")
        self.one_line(self.in_a_folder_that_is_gone("duel", "--base", "x"), 2, "--base: 'x': No such file or directory")

    def test_doctor_needs_no_directory_of_its_own(self):
        self.variables["TMPDIR"] = "/nonexistent"
        done = self.as_root("doctor")
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        self.assertIn("2.11.0", done.stdout)

    def test_a_folder_for_a_dump_that_cannot_be_looked_at_is_named(self):
        hidden = os.path.join(self.folder, "hidden")
        os.mkdir(hidden, 0)
        self.addCleanup(os.chmod, hidden, 0o700)
        self.one_line(self.as_nobody("check", "--workload", "toy", "--strategy", "cpu", "--dump", hidden), 2, f"--dump '{hidden}': Permission denied")

    def test_a_plugin_of_roots_or_of_ones_own_is_taken_and_another_users_is_not(self):
        path = os.path.join(self.folder, "x.so")
        with open(path, "w", encoding="utf-8"):
            os.chmod(path, 0o644)
        plan = ("--plugin", path, "--workload", "toy", "--dry-run", "-o", "none")
        self.assertEqual(self.as_nobody(*plan).returncode, 0, "root's")
        if os.getuid() != 0:
            self.skipTest("only root can give files away")
        os.chown(path, NOBODY, NOBODY)
        self.assertEqual(self.as_nobody(*plan).returncode, 0, "one's own")
        self.one_line(self.as_root(*plan), 2, "belongs to user")
        os.chown(path, 12345, 12345)
        self.one_line(self.as_nobody(*plan), 2, "belongs to user 12345")

    def on_small_disk(self, size, script):
        """The script on a tmpfs of that size (mount's options) at results, in a mount namespace of its own; what it printed."""
        if not own_mounts():
            self.skipTest("no mount namespaces here (unshare --mount)")
        text = f'mount -t tmpfs -o {size} tmpfs "{self.results}"\nd() {{ "{self.program}" "$@"; }}\n{script}'
        return subprocess.run([*own_mounts(), "sh", "-c", text], cwd=self.folder, env=self.variables,
                              text=True, capture_output=True, check=False)

    def test_a_disk_without_room_for_a_report_is_exit_5(self):
        done = self.on_small_disk("size=8k", f"d {' '.join(RUN)} -o json; echo rc=$?; ls results/*")
        self.assertIn("rc=5", done.stdout, done.stderr)
        self.assertIn('"status": "complete"', done.stdout, "the figures still reach stdout")
        self.assertIn("No space left on device", done.stderr)
        self.assertIn("NOT saved", done.stderr)
        self.assertNotIn(".part", done.stdout)

    def test_a_file_system_without_inodes_is_exit_2_or_5_by_when_it_is_found(self):
        # The root takes one, a run's directory another, its report a third.
        done = self.on_small_disk("nr_inodes=1", f"d {' '.join(RUN)} -o none; echo rc=$?; ls -A results")
        self.assertEqual(done.stdout, "rc=2\n", done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn("No space left on device", done.stderr)
        for inodes in range(2, 6):  # for a run's directory, a report, the logs of a group, a log
            done = self.on_small_disk(f"nr_inodes={inodes}", f"d {' '.join(RUN)} -o json; echo rc=$?; ls -A results/*")
            self.assertRegex(done.stdout, "(?m)^rc=5$" if inodes < 4 else "(?m)^rc=[05]$", done.stderr)
            self.assertIn('"status": "complete"', done.stdout, "the figures still reach stdout")
            self.assertNotIn(".part", done.stdout)
            self.assertEqual("No space left on device" in done.stderr, "rc=5" in done.stdout, done.stderr)

    def test_a_duel_on_a_full_disk_is_exit_5(self):
        os.symlink("fake_worker", self.folder + "/dpbench-worker")
        done = self.on_small_disk("size=8k", "d duel --base . --workload toy --strategy cpu --cpus 1 -q; echo rc=$?")
        self.assertIn("rc=5", done.stdout, done.stderr)
        self.assertIn("NOT saved", done.stderr)

    def test_a_full_disk_loses_nothing_of_what_was_there(self):
        done = self.on_small_disk("size=120k", f"""
            d {' '.join(RUN)} -o none --save-baseline main || exit 9
            sha256sum results/*/run.json results/baselines/main.json > before
            head -c 100000000 /dev/zero > results/filler 2>/dev/null
            d {' '.join(RUN)} -o none --save-baseline main; echo rc=$?
            sha256sum -c --quiet before && echo whole
            d validate main > /dev/null && echo valid
            rm results/filler
            d {' '.join(RUN)} -o none --save-baseline main && echo again""")
        self.assertIn("rc=5", done.stdout, done.stdout + done.stderr)
        for word in ("whole", "valid", "again"):
            self.assertIn(word, done.stdout.split(), done.stdout + done.stderr)


unittest.main(argv=sys.argv[:1])
