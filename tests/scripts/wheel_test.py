"""Tests scripts/wheel/backend.py, which builds the wheel for the torch of the environment, with a stand-in for
scikit-build-core."""
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

WHEEL = pathlib.Path(__file__).parents[2] / "scripts/wheel"
STAND_IN = """
import os
__all__ = ["build_sdist", "build_wheel"]
def build_wheel(*arguments):
    print(os.environ["DPBENCH_TORCH"], *arguments)
def build_sdist(*arguments):
    print("sdist", *arguments)
"""


class Backend(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "scikit_build_core").mkdir()
        (self.folder / "scikit_build_core/__init__.py").touch()
        (self.folder / "scikit_build_core/build.py").write_text(STAND_IN, encoding="utf-8")

    def call(self, hook, torch=""):
        """Calls a hook of the build backend as pip does, in an environment that has its packages in self.folder."""
        program = f"import sysconfig\nsysconfig.get_path = {{'platlib': {str(self.folder)!r}}}.get\nimport backend\nbackend.{hook}('out', None, None)\n"
        return subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True, check=False,
                              env={**os.environ, "DPBENCH_TORCH": torch, "PYTHONPATH": f"{self.folder}:{WHEEL}"})

    def test_the_wheel_is_built_for_the_torch_of_the_environment_or_of_dpbench_torch(self):
        (self.folder / "torch").mkdir()
        for torch, expected in (("", self.folder / "torch"), ("/other/torch", "/other/torch")):
            done = self.call("build_wheel", torch)
            self.assertEqual((done.returncode, done.stdout), (0, f"{expected} out None None\n"), done.stderr)
        self.assertEqual(self.call("build_sdist").stdout, "sdist out None None\n")

    def test_the_wheel_is_not_built_in_an_environment_without_torch(self):
        done = self.call("build_wheel")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertRegex(done.stderr, r"^dpbench: no torch in .*DPBENCH_TORCH")


if __name__ == "__main__":
    unittest.main()
