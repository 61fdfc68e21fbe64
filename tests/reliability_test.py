"""The tests that results/reliability.md and the README's promises name are there."""
import glob
import os
import re
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def text_of(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


class Reliability(unittest.TestCase):
    def setUp(self):
        self.named = re.findall(r"`([^`\n]+)`", text_of("results/reliability.md") + text_of("README.md").partition("## What it promises")[2].partition("\n## ")[0])

    def test_every_named_test_exists(self):
        scripts = "".join(text_of(path) for path in glob.glob(ROOT + "/tests/*.py"))
        programs = "".join(text_of(path) for path in glob.glob(ROOT + "/tests/*.cpp"))
        suites = re.findall(r"TEST(?:_F|_P)?\((\w+), (\w+)\)", programs)
        known = set(re.findall(r"def (test_\w+)", scripts)) | {f"{suite}.{name}" for suite, name in suites} | {f"{suite}.*" for suite, _ in suites}
        tests = [name for name in self.named if re.fullmatch(r"test_\w+|[A-Z]\w+\.(\w+|\*)", name)]
        self.assertGreater(len(tests), 40)
        self.assertEqual([name for name in tests if name not in known], [])

    def test_every_fault_has_a_row(self):
        rows = set(re.findall(r"^\| ([FS]\d+) ", text_of("results/reliability.md"), re.M))
        self.assertEqual(rows, {f"F{i}" for i in range(1, 23)} | {f"S{i}" for i in range(1, 8)})


if __name__ == "__main__":
    unittest.main()
