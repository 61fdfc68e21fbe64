"""Long test programs import load_tests from here: unless tests are named on the command line, only a quarter of them run.
DPBENCH_CASES (default 1), usually the day of the year, chooses the quarter; "all" runs all."""
import os
import unittest


def cases_in(suite):
    for test in suite:
        yield from cases_in(test) if isinstance(test, unittest.TestSuite) else (test,)


def share(values, parts):
    """Returns one in `parts` of the values, as drawn() in draw.h does: another share each day, and all in `parts` days."""
    day = os.environ.get("DPBENCH_CASES", "1")
    if day == "all":
        return values
    count = max(1, min(len(values), parts))
    return values[(int(day) + int(day) // count) % count::count]


def load_tests(loader, tests, pattern):
    return unittest.TestSuite(share(list(cases_in(tests)), 4))
