"""scripts/run-tests: a run in which nothing passed is an error."""
import pathlib
import subprocess
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parent.parent / "scripts/run-tests"
PASSES = 'add_test(passes "/bin/true")\n'
FAILS = 'add_test(fails "/bin/false")\n'
SKIPS = 'add_test(skips "/bin/false")\nset_tests_properties(skips PROPERTIES SKIP_RETURN_CODE 1)\n'


def run(tests, *arguments):
    with tempfile.TemporaryDirectory() as folder:
        pathlib.Path(folder, "CTestTestfile.cmake").write_text(tests, encoding="utf-8")
        return subprocess.run([SCRIPT, folder, *arguments], capture_output=True, text=True, check=False)


class RunTests(unittest.TestCase):
    def expect(self, result, ok, closing):
        self.assertEqual((result.returncode == 0, result.stdout.splitlines()[-1]), (ok, closing), result.stdout)

    def test_passed_tests_are_counted_apart_from_skipped_ones(self):
        self.expect(run(PASSES), True, "1 passed, 0 failed, 0 skipped")
        self.expect(run(PASSES + SKIPS), True, "1 passed, 0 failed, 1 skipped")

    def test_a_failure_fails(self):
        self.expect(run(PASSES + FAILS), False, "1 passed, 1 failed, 0 skipped")

    def test_a_run_without_a_test_is_an_error(self):
        self.expect(run(""), False, "0 passed, 0 failed, 0 skipped")
        self.expect(run(PASSES, "-R", "no-such-test"), False, "0 passed, 0 failed, 0 skipped")

    def test_a_run_that_skipped_everything_is_an_error(self):
        self.expect(run(SKIPS), False, "0 passed, 0 failed, 1 skipped")


if __name__ == "__main__":
    unittest.main()
