"""Tests that timed runs of strategies are audited: outside of tests and documents, `--audit off` occurs only in the
files of WITHOUT_AUDIT."""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).parents[2]
FOLDERS = (".ci", "harness", "results", "scripts", "strategies", "workloads")
PAGES = {".md", ".json", ".html"}
OFF = re.compile(r"--audit[^a-z]+off\b")
# {file: why it leaves out audits}
WITHOUT_AUDIT = {
    "scripts/gpu/parts.py": "the oracle, on the CPU, takes minutes for a step of the large gpt",
    "scripts/studies/sequence-lengths": "the oracle takes minutes for a step with thousands of tokens",
    "scripts/studies/python-overhead": "the bare program, with which it compares, has no audits",
}


class AuditsOn(unittest.TestCase):
    def test_the_flag_audit_off_occurs_only_in_files_that_give_a_reason(self):
        files = (file for folder in FOLDERS for file in (ROOT / folder).rglob("*") if file.is_file() and file.suffix not in PAGES)
        found = {str(file.relative_to(ROOT)) for file in files if OFF.search(file.read_text(encoding="utf-8", errors="replace"))}
        self.assertEqual(found, set(WITHOUT_AUDIT), "give the reason in WITHOUT_AUDIT, or leave out --audit off")


if __name__ == "__main__":
    unittest.main()
