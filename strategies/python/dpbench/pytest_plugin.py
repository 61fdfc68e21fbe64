"""Runs each check of a strategy as a pytest test. In a conftest.py: pytest_plugins = ["dpbench.pytest_plugin"]; in a
test file:

    checks_of_mine = dpbench.Checks("mine.py", "mine", workload="mnist-mlp", cpus=3)

dpbench runs once, when the file is collected. Each check of each case is then a test, skipped if it does not apply."""
import pathlib

import pytest

from dpbench.checking import Checks, words_of


def pytest_pycollect_makeitem(collector, name, obj):
    if isinstance(obj, Checks):
        return CheckCollector.from_parent(collector, name=name, checks=obj)
    return None


class CheckCollector(pytest.Collector):
    def __init__(self, *, checks, **others):
        super().__init__(**others)
        self.checks = checks

    def collect(self):
        folder = pathlib.Path(self.path).parent
        for case in self.checks.report(folder)["cases"]:
            if not case["checks"]:
                yield CheckItem.from_parent(self, name=case["id"], case=case, row={"status": "skipped", "detail": case.get("reason", "")})
            for row in case["checks"]:
                yield CheckItem.from_parent(self, name=f"{case['id']}:{row['name']}", case=case, row=row)


class CheckItem(pytest.Item):
    def __init__(self, *, case, row, **others):
        super().__init__(**others)
        self.case, self.row = case, row

    def runtest(self):
        if self.row["status"] == "skipped":
            pytest.skip(self.row.get("detail") or "does not apply")
        if self.row["status"] != "passed":
            pytest.fail(words_of(self.case, self.row), pytrace=False)

    def reportinfo(self):
        return self.path, None, self.name
