"""The tests that results/reliability.md and the promises of harness/README.md name are there."""
import glob
import os
import re
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def text_of(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def tests_named_in(text):
    """Of our tests in Python, of GoogleTest (Suite.* too)."""
    return [name for name in re.findall(r"`([^`\n]+)`", text) if re.fullmatch(r"test_\w+|[A-Z]\w+\.(\w+|\*)", name)]


class Reliability(unittest.TestCase):
    def setUp(self):
        self.table = text_of("results/reliability.md")
        self.promises = text_of("harness/README.md").partition("## What it promises")[2].partition("\n## ")[0]

    def test_every_named_test_exists(self):
        scripts = "".join(text_of(path) for path in glob.glob(ROOT + "/tests/*.py"))
        programs = "".join(text_of(path) for path in glob.glob(ROOT + "/tests/*.cpp"))
        suites = re.findall(r"TEST(?:_F|_P)?\((\w+), (\w+)\)", programs)
        known = set(re.findall(r"def (test_\w+)", scripts)) | {f"{suite}.{name}" for suite, name in suites} | {f"{suite}.*" for suite, _ in suites}
        tests = tests_named_in(self.table + self.promises)
        self.assertGreater(len(tests), 40)
        self.assertEqual([name for name in tests if name not in known], [])

    def test_every_promise_names_the_test_or_the_script_that_holds_it(self):
        promises = self.promises.split("\n- ")[1:]
        self.assertGreater(len(promises), 5)
        for promise in promises:
            scripts = re.findall(r"`(scripts/\w+)`", promise)
            self.assertTrue(tests_named_in(promise) or scripts, promise)
            self.assertEqual([script for script in scripts if not os.path.exists(os.path.join(ROOT, script))], [])

    def test_every_fault_has_a_row(self):
        rows = set(re.findall(r"^\| ([FS]\d+) ", self.table, re.M))
        self.assertEqual(rows, {f"F{i}" for i in range(1, 23)} | {f"S{i}" for i in range(1, 8)})
        for row in re.findall(r"^\| [FS]\d+.*$", self.table, re.M):
            words = row.split(" | ")[-1]
            self.assertTrue(tests_named_in(words) or re.search(r"`scripts/\w+`|the check `|places, all", words), row)


if __name__ == "__main__":
    unittest.main()
