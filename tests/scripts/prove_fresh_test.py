"""Tests scripts/studies/prove-fresh (runs the README's commands on a bare Debian) with stand-ins for debootstrap,
namespaces and the two commands: the calls it makes and the page it writes."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts/studies/prove-fresh"
# The stand-in for unshare runs its last argument, the command, in the folder that the script would chroot to.
STAND_INS = {"python3": "mkdir -p torch/bin && ln -s /bin/true torch/bin/pip",
             "id": "echo 0", "sleep": ":", "chroot": ":", "unshare": 'for last; do :; done; cd "$root/root/dpbench" && eval "$last"',
             "debootstrap": 'mkdir -p "$4/etc" "$4/root" "$4/usr/local/share/ca-certificates" && echo 12.15 >"$4/etc/debian_version"'}
TOY = """#!/bin/sh
[ "$1" != report ] || { [ ! -e mark ] || exit 9; touch "$4"; echo x >"$4"; exit; }
echo a table
echo 'dpbench: Saved results/a/run.json' >&2
echo 'dpbench: Charts: scripts/dpbench report results/a --html report.html' >&2
"""


class ProveFresh(unittest.TestCase):
    def run_it(self, toy=TOY):
        with tempfile.TemporaryDirectory() as folder:
            root, programs = pathlib.Path(folder, "tree"), pathlib.Path(folder, "programs")
            files = {root / "scripts/setup": "#!/bin/sh\n", root / "scripts/dpbench": toy,
                     root / "scripts/test": "#!/bin/sh\n[ ! -e report.html ] || exit 7\ntouch mark\necho '3 passed, 0 failed, 0 skipped'\n",
                     **{programs / name: f"#!/bin/sh\n{line}\n" for name, line in STAND_INS.items()}}
            for path, text in files.items():
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
                path.chmod(0o755)
            (root / "scripts/studies").mkdir()
            shutil.copy(SCRIPT, root / "scripts/studies")
            for words in (["init", "-q"], ["add", "."], ["-c", "user.name=n", "-c", "user.email=e", "commit", "-q", "-m", "m"]):
                subprocess.run(["git", *words], cwd=root, check=True)
            done = subprocess.run([root / "scripts/studies/prove-fresh", "bookworm"], capture_output=True, text=True, check=False,
                                  env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "TMPDIR": folder})
            if done.returncode == 2 and "mirror" in done.stderr:
                self.skipTest("apt has no Debian mirror on this machine")
            self.assertEqual(sorted(path.name for path in pathlib.Path(folder).iterdir()), ["programs", "tree"], "temporary files were not removed")
            return done, (root / "results/fresh/bookworm.md").read_text(encoding="utf-8")

    def test_prove_fresh_runs_the_readme_commands_and_records_the_cpu_load(self):
        done, page = self.run_it()
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = re.findall(r"^\| `(.*)` \| (\d+) \| 0 min \d\d s \| \d+\.\d \|$", page, re.M)
        self.assertEqual([code for _, code in rows], ["0"] * 5)
        self.assertEqual([command for command, _ in rows if "torch" not in command],
                         ["scripts/dpbench", "scripts/dpbench report results/a --html report.html", "scripts/test"])
        self.assertRegex(rows[3][0], r"^scripts/dpbench check --python torch/bin/python .*plain_average\.py")
        self.assertRegex(page, r"(?m)^.*\b\d+\.\d of .*\bcores\b.*\b10 s\b")
        self.assertIn(f"$ scripts/dpbench\na table\n$ {rows[3][0]}\na table\n$ scripts/test\n3 passed, 0 failed, 0 skipped\n", page)

    def test_prove_fresh_fails_if_dpbench_prints_no_chart_command_or_that_command_draws_no_chart(self):
        for toy in (TOY.replace("touch", "exit 4; touch"), TOY.replace('echo x >"$4"', ":"), TOY.replace("Charts:", "None:")):
            with self.subTest(toy=toy):
                done, page = self.run_it(toy)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("charts", done.stderr)
                self.assertIn("| `scripts/test` | 0 |", page)


if __name__ == "__main__":
    unittest.main()
