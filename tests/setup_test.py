"""scripts/setup where it may not install: the command to type is one that works on a fresh machine."""
import os
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parent.parent / "scripts/setup"
ABSENT = "dpbench-no-such-package"


class Setup(unittest.TestCase):
    def run_it(self, **programs):
        """With these programs in place of the real ones: what it ended with and said."""
        with tempfile.TemporaryDirectory() as folder:
            for name, line in programs.items():
                path = pathlib.Path(folder, name.replace("_", "-"))
                path.write_text(f"#!/bin/sh\n{line}\n", encoding="utf-8")
                path.chmod(0o755)
            done = subprocess.run([SCRIPT, ABSENT], capture_output=True, text=True, check=False,
                                  env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"})
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        return done.stderr

    def test_without_root_it_prints_a_command_that_asks_for_the_lists_first(self):
        said = self.run_it(id="echo 1000", sudo="exit 1", apt_get="exit 9")
        self.assertEqual(said, "dpbench: missing packages; type: sudo apt-get update && "
                               f"sudo apt-get install --no-install-recommends {ABSENT}\n")

    def test_with_root_it_asks_for_the_lists_and_installs(self):
        said = self.run_it(id="echo 0", apt_get='echo "$@" | grep -oE "update|install.*" >&2')
        self.assertEqual(said.splitlines()[1:], ["update", f"install -y --no-install-recommends {ABSENT}",
                                                 f"dpbench: still missing after apt-get: {ABSENT}"])


if __name__ == "__main__":
    unittest.main()
