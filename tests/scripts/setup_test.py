"""Tests scripts/setup (installs packages) for a user without root or sudo: it prints the command that installs them."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts/setup"
ABSENT = "dpbench-no-such-package"


class Setup(unittest.TestCase):
    def run_it(self, packages=(ABSENT,), torch="", bare=False, **programs):
        """Runs scripts/setup with stand-in programs and expects exit code 2. Returns stderr. With `bare`, PATH has only
        the stand-ins and four basic programs."""
        with tempfile.TemporaryDirectory() as folder:
            for name, line in programs.items():
                path = pathlib.Path(folder, name.replace("_", "-"))
                path.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
                path.chmod(0o755)
            for name in ("sh", "cat", "grep", "dpkg-query") if bare else ():
                pathlib.Path(folder, name).symlink_to(shutil.which(name))
            path = folder if bare else f"{folder}:{os.environ['PATH']}"
            done = subprocess.run([SCRIPT, *packages], capture_output=True, text=True, check=False,
                                  env={**os.environ, "PATH": path, "DPBENCH_TORCH": torch})
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        return done.stderr

    def test_setup_without_root_prints_an_apt_command_that_updates_and_installs(self):
        said = self.run_it(id="echo 1000", sudo="exit 1", apt_get="exit 9")
        self.assertRegex(said, rf"\Adpbench: .*: sudo apt-get update && sudo apt-get install --no-install-recommends {ABSENT}\n\Z")

    def test_setup_without_sudo_prints_a_command_that_uses_su(self):
        self.assertRegex(self.run_it(id="echo 1000", apt_get="exit 9", bare=True),
                         rf"\Adpbench: .*: su -c 'apt-get update && apt-get install --no-install-recommends {ABSENT}'\n\Z")

    def test_setup_asks_for_pip_only_if_no_python_has_it_and_libtorch_must_be_downloaded(self):
        of_the_system = subprocess.run(["/usr/bin/python3", "-c", "import pip"], stderr=subprocess.DEVNULL, check=False).returncode == 0
        for torch, wanted in (("", not of_the_system), ("/some/torch", False)):
            said = self.run_it((), torch, id="echo 1000", apt_get="exit 9", python3="exit 1", bare=True)
            self.assertIn("ninja-build", said.split())
            self.assertEqual("python3-pip" in said.split(), wanted, said)

    def test_setup_as_root_runs_apt_get_update_and_install_and_names_packages_still_missing(self):
        said = self.run_it(id="echo 0", apt_get='echo "$@" | grep -oE "update|install.*" >&2')
        update, install, missing = said.splitlines()[1:]
        self.assertEqual((update, install), ("update", f"install -y --no-install-recommends {ABSENT}"))
        self.assertRegex(missing, rf"^dpbench: .*\bmissing\b.*: {ABSENT}$")


if __name__ == "__main__":
    unittest.main()
