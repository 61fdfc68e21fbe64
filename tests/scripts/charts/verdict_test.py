"""Tests the page of a duel and of a comparison without matplotlib: the verdict at the top and the rows of the table."""
import html.parser
import pathlib
import re
import sys
import unittest

sys.path[:0] = [str(pathlib.Path(__file__).parents[3] / "scripts/charts")]

import data
import messages
import sample_runs
import verdict


def slower_duel():
    """Returns a duel in which one case is slower, one is the same, one failed and one is only in the new build."""
    made = sample_runs.duel()
    same, slower, failed = made["cases"]
    same |= {"verdict": "same", "reason": None}
    slower |= {"verdict": "SLOWER", "reason": None}
    slower["look"] |= {"change_percent": 20.0, "ci95_low_percent": 18.0, "ci95_high_percent": 21.5}
    slower["steps_per_block"] = 2
    for launch in slower["launches"]:
        launch["pairs"] = [{"first": "base", "base_ns": 2_000_000, "new_ns": 9_000_000}]
    failed |= {"verdict": None, "look": None, "launches": [], "status": "failed", "reason": "rank 1 <b>died</b>"}
    return made | {"gate": "failed", "added": ["dp/toy/cpu:2"]}


def shown(document):
    return verdict.Verdict(data.cleaned(document))


def text_of(page):
    """Returns the texts of the page's body."""
    reader = html.parser.HTMLParser()
    texts = []
    reader.handle_data = texts.append
    reader.feed(page[page.index("<body>"):page.index("<script>")])
    return [text.strip() for text in texts if text.strip()]


class Verdicts(unittest.TestCase):
    def test_the_verdict_of_a_duel_stands_on_top_before_the_table(self):
        page = verdict.html(shown(slower_duel()), [], "0.1.0")
        texts = text_of(page)
        self.assertIn('<p class="verdict failed">', page)
        self.assertLess(texts.index("1 slower, 1 failed, 1 same, 1 new. Gate: FAILED"), texts.index("case"))

    def test_a_row_of_a_duel_has_the_step_time_of_each_build_and_their_difference_in_percent(self):
        texts = text_of(verdict.html(shown(slower_duel()), [], "0.1.0"))
        place = texts.index(sample_runs.duel()["cases"][1]["id"])
        self.assertEqual(texts[place + 1:place + 8],
                         ["1 ms", "1.2 ms", "+20.0 %", "+18.0 to +21.5", "20", "9.4 %", "SLOWER"])

    def test_markup_in_the_reason_of_a_failure_is_escaped_on_the_page_of_a_duel(self):
        page = verdict.html(shown(slower_duel()), [], "0.1.0")
        self.assertIn("rank 1 <b>died</b>", text_of(page))
        self.assertNotIn("<b>died", page)

    def test_the_page_of_a_run_comparison_has_each_cases_row_gate_rules_and_changed_library_versions(self):
        page = verdict.html(shown(sample_runs.comparison()), [], "0.1.0")
        texts = text_of(page)
        self.assertIn("1 slower, 1 failed, 1 same, 1 unclear, 1 new, 1 gone. Gate: FAILED", texts)
        self.assertIn("torch: 2.10.0 → 2.11.0", texts)
        self.assertEqual(len(re.findall('<th scope="row"', page)), 6)
        place = texts.index("efficiency:5%")
        self.assertEqual(texts[place + 1:place + 7], ["0.5 ms", "0.48 ms", "-4.0 points", "-", "5 / 5", "unclear"])

    def test_the_page_of_a_duel_or_comparison_leaves_out_columns_without_values(self):
        texts = text_of(verdict.html(shown(sample_runs.comparison()), [], "0.1.0"))
        self.assertIn("launches", texts)
        self.assertNotIn("noise", texts)
        self.assertNotIn("rule", text_of(verdict.html(shown(sample_runs.duel()), [], "0.1.0")))

    def test_a_case_is_labelled_by_the_parts_of_its_id_that_differ_from_other_cases(self):
        self.assertEqual(verdict.parts_of(["ddp/toy/cpu:2/b64", "ddp/toy/cpu:4/b64", "dp/toy/cpu:4/b64"]),
                         (["ddp/cpu:2", "ddp/cpu:4", "dp/cpu:4"], "toy · b64"))
        self.assertEqual(verdict.parts_of(["ddp/toy/cpu:2"]), (["ddp"], "ddp · toy · cpu:2"))

    def test_the_chart_title_of_a_comparison_names_the_failing_cases_or_if_none_fails_the_unclear_ones(self):
        rows = shown(sample_runs.comparison()).rows[:3]
        slow, same, unclear = rows
        labels = ["dp", "ddp", "fsdp"]
        self.assertRegex(messages.changes(rows, labels), r"\bdp\b.*\bslower\b.*\+9\.0 %")
        self.assertRegex(messages.changes([slow, same, slow], labels), r"\b2 of 3\b.*\bslower\b")
        self.assertRegex(messages.changes([same, unclear], labels[1:]), r"\bfsdp\b.*\bunclear\b.*-4\.0 points")
        self.assertNotRegex(messages.changes([same], ["ddp"]), r"\bddp\b|slower|unclear|^$")

    def test_the_page_of_a_duel_tells_in_words_and_colour_if_its_gate_passed_failed_or_was_inconclusive(self):
        for gate, words, style in (("failed", "FAILED", "failed"), ("inconclusive", "inconclusive", "disturbed"),
                                   ("passed", "passed", "passed")):
            page = verdict.html(shown(sample_runs.duel() | {"gate": gate}), [], "0.1.0")
            self.assertRegex(page, f'<p class="verdict {style}">3 unclear. Gate: {words}</p>')


if __name__ == "__main__":
    unittest.main()
