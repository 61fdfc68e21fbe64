"""Long test programs import load_tests from here: unless tests are named on the command line, only a quarter of them run.
The seed DPBENCH_CASES (default 1) draws them; "all" runs all."""
import os
import random
import unittest


def cases_in(suite):
    for test in suite:
        yield from cases_in(test) if isinstance(test, unittest.TestSuite) else (test,)


def load_tests(loader, tests, pattern):
    cases, seed = list(cases_in(tests)), os.environ.get("DPBENCH_CASES", "1")
    if seed == "all":
        return tests
    drawn = set(random.Random(seed).sample(range(len(cases)), (len(cases) + 3) // 4))
    return unittest.TestSuite(test for i, test in enumerate(cases) if i in drawn)
