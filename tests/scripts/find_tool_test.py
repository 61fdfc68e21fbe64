"""Tests scripts/find-tool (finds or installs clang-format, clang-tidy and ruff) with a stand-in for pip: downloads are
cached, and a failed download leaves no files."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parents[2] / "scripts/find-tool"
PYTHON = """#!/bin/sh
[ "$1" != -c ] || exit 0
echo "$*" >>"$CALLS"
[ -z "$OFFLINE" ] || exit 1
while [ "$1" != --target ]; do shift; done
mkdir -p "$2/clang_tidy/data/bin"
printf '#!/bin/sh\\necho tidy\\n' >"$2/clang_tidy/data/bin/clang-tidy"
chmod +x "$2/clang_tidy/data/bin/clang-tidy"
"""


class FindTool(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, self.root)
        python = self.root / "bin/python3"
        python.parent.mkdir()
        python.write_text(PYTHON, encoding="utf-8")
        python.chmod(0o755)
        self.cache = self.root / "cache/dpbench"

    def find(self, *words, offline=""):
        return subprocess.run([SCRIPT, *words], capture_output=True, text=True, check=False, env={
            **os.environ, "PATH": f"{self.root}/bin:{os.environ['PATH']}", "XDG_CACHE_HOME": str(self.root / "cache"),
            "CALLS": str(self.root / "calls"), "OFFLINE": offline})

    def test_find_tool_downloads_the_pinned_version_of_a_program_once(self):
        paths = {self.find("clang-tidy").stdout.strip() for _ in range(2)}
        (path,) = paths
        self.assertEqual(subprocess.check_output([path], text=True), "tidy\n")
        (call,) = (self.root / "calls").read_text(encoding="utf-8").splitlines()
        self.assertRegex(call, r"^-m pip install .* clang-tidy==\d+\.\d+\.\d+$")
        self.assertEqual(len(list(self.cache.iterdir())), 1)

    def test_find_tool_exits_2_and_leaves_no_files_if_a_download_fails(self):
        done = self.find("clang-tidy", offline="1")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("clang-tidy", done.stderr)
        self.assertEqual(list(self.cache.iterdir()), [])

    def test_find_tool_refuses_an_unknown_program(self):
        self.assertEqual(self.find("clang-query").returncode, 2)


if __name__ == "__main__":
    unittest.main()
