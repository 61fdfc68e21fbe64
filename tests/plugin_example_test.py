"""plugin_example_test.py BUILD: a stranger's strategies against the installed package; the right one passes, the wrong one fails."""
import json
import pathlib
import shutil
import subprocess
import sys
import unittest

BUILD = pathlib.Path(sys.argv.pop()).resolve()
SOURCE = pathlib.Path(__file__).parent / "plugin_example"


def run(*command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)


class PluginExample(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        root = BUILD / "plugin_example"
        shutil.rmtree(root, ignore_errors=True)
        for command in (
            ("cmake", "--install", BUILD, "--prefix", root / "installed"),
            ("cmake", "-S", SOURCE, "-B", root / "build", "-G", "Ninja", f"-DCMAKE_PREFIX_PATH={root / 'installed'}"),
            ("cmake", "--build", root / "build"),
        ):
            result = run(*command)
            if result.returncode:
                raise AssertionError(f"{command}: exit code {result.returncode}\n{result.stdout}{result.stderr}")
        cls.program = root / "installed/bin/dpbench"
        cls.plugin = root / "build/libplugin_example.so"

    def check(self, strategy):
        return run(self.program, "check", "--plugin", self.plugin, "--strategy", strategy, "--workload", "random-linear",
                   "--cpus", "1,3", "-o", "json")

    def test_the_right_strategy_passes(self):
        result = self.check("plain-average")
        self.assertEqual(result.returncode, 0, result.stderr + result.stdout)
        rows = [row for case in json.loads(result.stdout)["cases"] for row in case["checks"]]
        self.assertGreater(sum(row["status"] == "passed" for row in rows), 20)

    def test_the_wrong_strategy_is_named_with_its_mistake(self):
        result = self.check("plain-sum")
        self.assertEqual(result.returncode, 1, result.stderr + result.stdout)
        self.assertIn("summed over 3", result.stdout)


if __name__ == "__main__":
    unittest.main()
