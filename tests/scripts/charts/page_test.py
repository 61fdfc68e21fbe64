"""Tests the report's HTML page without matplotlib: figures with known results, escaping, the display of each status."""
import base64
import hashlib
import html.parser
import json
import pathlib
import re
import sys
import tempfile
import types
import unittest

ROOT = pathlib.Path(__file__).parents[3]
CHARTS = ROOT / "scripts/charts"
sys.path[:0] = [str(CHARTS)]

import data
import markup
import models
import page
import palette
import sample_runs
import svg
import tables
import words


def page_of(*reports, charts=()):
    runs = [data.Run(data.cleaned(report)) for report in reports]
    for run in runs:
        data.label(run.cases)
    return page.page(runs, list(charts), "0.1.0")


def chart(**more):
    return types.SimpleNamespace(**{"kind": "Throughput", "subject": "toy", "setting": "CPU · weak",
                                    "caption": "n = 3.", "message": "ddp keeps 83 %", "marks": {"mark0": "ddp: 5"},
                                    "drawing": "<svg></svg>"} | more)


class Reader(html.parser.HTMLParser):
    """An HTML parser that collects elements and texts, and asserts that opening and closing tags match."""

    def __init__(self, source):
        super().__init__()
        self.open, self.elements, self.texts = [], [], []
        self.feed(source)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in markup.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"</{tag}>"

    def handle_data(self, text):
        if self.open[-1:] not in (["style"], ["script"]):
            self.texts.append(text)

    def all(self, tag, **wanted):
        return [given for name, given in self.elements if name == tag and all(given.get(k) == v for k, v in wanted.items())]


class Data(unittest.TestCase):
    def case(self, **more):
        return data.Case(data.Run(sample_runs.report([])), sample_runs.case(**more))

    def test_the_step_time_of_a_timed_block_is_that_of_its_slowest_rank(self):
        case = self.case(strategy="ddp", world=2, launches=1, samples=2)
        first, second = case.raw["launches"][0]["ranks"]
        first["samples_ns"], second["samples_ns"] = [100, 400], [300, 200]
        self.assertEqual(case.launches, [[30, 40]])

    def test_the_throughput_interval_is_the_inverse_of_the_step_time_interval(self):
        span = self.case(world=2, step_ns=1e6, noise=0.05).rows_per_s  # 5 % of noise: 0.9 to 1.1 ms per step
        self.assertAlmostEqual(span.middle, 128e3)
        self.assertAlmostEqual(span.low, 128e3 / 1.1)
        self.assertAlmostEqual(span.high, 128e3 / 0.9)

    def test_relative_errors_add_in_quadrature_in_the_ratio_of_two_figures(self):
        ratio = data.Interval(10, 10 / 1.03, 10 * 1.03).over(data.Interval(5, 5 / 1.04, 5 * 1.04))
        self.assertAlmostEqual(ratio.middle, 2)
        # Independent errors of 3 % and 4 % give a ratio an error of sqrt(3^2 + 4^2) = 5 %, on the scale of logarithms.
        self.assertAlmostEqual(ratio.high / 2, 1.0506, places=3)
        self.assertAlmostEqual(2 / ratio.low, 1.0506, places=3)

    def test_a_step_time_interval_always_includes_the_median(self):
        case = self.case()
        case.summary |= {"median": 100.0, "ci95_low": 101.0, "ci95_high": 103.0}
        self.assertEqual(case.step_ns, data.Interval(100, 100, 103))
        case.summary |= {"ci95_low": None, "ci95_high": None}
        self.assertEqual(case.step_ns, data.Interval(100, 100, 100))

    def test_memory_of_tensors_is_unknown_if_all_parts_are_0(self):
        case = self.case(launches=1)
        (rank,) = case.raw["launches"][0]["ranks"]
        self.assertEqual(case.memory_parts["state"], 6 << 20)
        rank["profile"]["memory"] = dict.fromkeys(rank["profile"]["memory"], 0)
        self.assertEqual(case.memory_parts, {})

    def test_a_run_that_stores_no_answer_gets_the_answer_that_dpbench_report_computed(self):
        with tempfile.TemporaryDirectory() as folder:
            paths = [f"{folder}/{name}.json" for name in ("old", "new", "none", "answers")]
            computed = {path: {"groups": [], "sentences": ["computed"]} for path in paths[:2]}
            stored = {"groups": [], "sentences": ["stored"]}
            for path, content in zip(paths, (sample_runs.usual(), sample_runs.usual() | {"answer": stored}, sample_runs.usual(), computed)):
                pathlib.Path(path).write_text(json.dumps(content), encoding="utf-8")
            answers = [run.report["answer"] for run in data.read_runs(paths[:3], paths[3])]
        self.assertEqual(answers, [computed[paths[0]], stored, None])

    def test_the_newest_successful_measurement_of_a_case_is_charted(self):
        old, new, broken = sample_runs.usual(), sample_runs.usual(), sample_runs.usual()
        for name, report in (("20261101T000000Z-a", old), ("20261102T000000Z-b", new), ("20261103T000000Z-c", broken)):
            report["id"] = name
        for case in broken["cases"]:
            case |= {"status": "failed", "stats": {"step_time_ns": None}}
        chosen = data.newest([data.Run(report) for report in (broken, new, old)])
        self.assertEqual({case.run.id for case in chosen}, {"20261102T000000Z-b"})
        self.assertEqual(len(chosen), len(new["cases"]))
        self.assertTrue(all(case.outdated for case in chosen))
        checked = broken | {"id": ""}  # `dpbench check` measures nothing, so it leaves no figure outdated
        self.assertFalse(any(case.outdated for case in data.newest([data.Run(new), data.Run(old), data.Run(checked)])))

    def test_a_chart_caption_names_disturbed_cases_and_figures_of_older_runs(self):
        old, new = sample_runs.usual(), sample_runs.usual()
        old["id"], new["id"] = "20261101T000000Z-a", "20261102T000000Z-b"
        old["cases"] = old["cases"][:1] + old["cases"][6:]  # leave out dp and one case of dp-upstream
        for case in new["cases"][1:7]:
            case |= {"status": "disturbed", "stats": {"step_time_ns": None}}
        cases = data.newest([data.Run(old), data.Run(new)])
        data.label(cases)
        words.note_absences(cases)
        (absences,) = {case.absences for case in cases}
        self.assertRegex(absences, r"\b5 disturbed\b[^.]*: dp × 1, dp × 2, dp × 4 and 2 more\.")
        self.assertRegex(absences, r"\bolder\b[^.]*: dp-upstream × 4\.")

    def test_series_names_in_charts_have_backend_and_parameters_only_if_they_differ(self):
        run = data.Run(sample_runs.report([sample_runs.case("ddp", world=2), sample_runs.case("ddp", world=2, backend="gloo"),
                                           sample_runs.case("dp", params={"x": "1"}), sample_runs.case("dp", params={"x": "2"}),
                                           sample_runs.case("cpu")]))
        data.label(run.cases)
        self.assertEqual([case.series for case in run.cases], ["ddp shm", "ddp gloo", "dp x=1", "dp x=2", "cpu"])

    def test_a_setting_named_only_in_the_case_id_is_shown_and_gives_the_case_its_own_chart(self):
        usual, scaled, added = (sample_runs.case(params={"bucket_mb": "1"}) for _ in range(3))
        scaled |= {"id": scaled["id"].replace("/bucket", "/mesh=dp=2,tp=2/scale=2/bucket"), "scale": 2}
        added["id"] = added["id"].replace("/bucket", "/denormals=flushed/bucket")
        cases = data.Run(sample_runs.report([usual, scaled, added])).cases
        self.assertEqual([case.named_settings for case in cases], [(), (("scale", "2"),), (("denormals", "flushed"),)])
        self.assertEqual(len(data.groups(cases)), 3)
        self.assertEqual(cases[1].setting.count("scale 2"), 1)
        self.assertIn(" · denormals flushed · ", cases[2].setting)

    def test_cases_share_a_chart_only_if_their_settings_are_equal(self):
        made = [sample_runs.case("ddp", world=2), sample_runs.case("dp"), sample_runs.case("ddp", scaling="strong"),
                sample_runs.case("ddp", dtype="f64"), sample_runs.case("ddp", batch=128), sample_runs.case("ddp", threads=2),
                sample_runs.case("ddp", runtime="torch")]
        cases = data.Run(sample_runs.report(made)).cases
        self.assertEqual([len(group) for group in data.groups(cases)], [2, 1, 1, 1, 1, 1])
        self.assertIn(" · fast runtime · ", cases[0].setting)
        self.assertIn(" · torch runtime · ", cases[-1].setting)

    def test_the_report_page_describes_a_run_by_its_gpus_cores_and_utc_start_time(self):
        report = sample_runs.usual()
        report["env"]["gpus"] = [{"name": "H200"}, {"name": "H200"}]
        self.assertRegex(data.Run(report).machine, r"\A2 × H200\b.*\b2 cores\b.*\bAMD EPYC\Z")
        self.assertEqual(data.Run(report).time, "2026-11-21 06:30 UTC")

    def test_charts_group_cases_by_the_settings_that_comparable_cases_must_share(self):
        source = (ROOT / "harness/report/record/case.cpp").read_text(encoding="utf-8")
        common = re.search(r"bool same_setting\(.*? common = .*?std::tie\((.*?)\)", source, re.DOTALL).group(1)
        compared = set(re.findall(r"\bs\.(\w+)", common))
        settings = source[source.index("auto settings_of("):source.index("std::string named_settings(")]
        settings = set(re.findall(r'\{"(\w+)", ', settings))
        self.assertTrue("threads" in compared and "accumulate" in settings, "this test no longer finds the C++ table")

        schema = json.loads((ROOT / "results/schema/projection-1.schema.json").read_text(encoding="utf-8"))
        usual, grouped = self.case(), set()
        for key in schema["$defs"]["case"]["properties"]:  # the fields of CaseSpec
            named = f"/{key}=other" * (key in settings)
            value = {"x": "1"} if key == "params" else "other"
            other = data.Case(usual.run, usual.raw | {"id": usual.raw["id"] + named, key: value})
            if other.group != usual.group:
                grouped.add(key)
        # Cases with another batch size, another scaling or ranks that share devices also get a chart of their own.
        self.assertEqual(grouped, compared | settings | {"batch", "scaling", "oversubscribe"})

    def test_collective_times_are_grouped_by_size_and_backend_with_one_time_per_repetition_of_the_benchmark(self):
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump(sample_runs.collectives(), file)
            file.flush()
            sizes, _ = data.read_collectives(file.name)
        self.assertEqual(sorted(sizes), [4, 4096, 407080, 4 << 20, 100_000_000])
        self.assertEqual(set(sizes[4]), {"gloo", "shm", "memcpy"})
        self.assertEqual(len(sizes[4]["gloo"]), 3)  # one value per repetition; aggregates are ignored

    def test_collective_times_are_kept_apart_by_type_and_reduction_and_wrong_ones_left_out(self):
        base = {"run_type": "iteration", "bytes": 64.0}
        name = "allreduce/backend:shm/world:2{}/bytes:64/iterations:200/manual_time"
        entries = [base | {"name": name.format(choices), "time_us": 5.0, "wrong": wrong}
                   for choices, wrong in (("", 0), ("/dtype:bf16/op:max", 0), ("", 3))]
        with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
            json.dump({"benchmarks": entries}, file)
            file.flush()
            sizes, _ = data.read_collectives(file.name)
        self.assertEqual(sizes, {64: {"shm, world 2": [5.0], "shm, world 2, dtype bf16, op max": [5.0]}})


class Words(unittest.TestCase):
    def test_the_report_page_rounds_numbers_to_three_digits_and_writes_units_and_plurals(self):
        self.assertEqual([words.significant(value) for value in (0, 1234.5, 0.012345, 99.96, 1e-9)], ["0", "1,230", "0.0123", "100", "1e-09"])
        self.assertEqual([words.from_to(values) for values in ([4, 64], [4.01, 4.02], [99.6])], ["4 to 64", "4", "100"])
        self.assertEqual([words.listed(names) for names in (["a"], ["a", "b"], ["a", "b", "c"])],
                         ["a", "a and b", "a, b and c"])
        self.assertEqual([words.size(number) for number in (4, 4096, 1e8)], ["4 B", "4.096 kB", "100 MB"])
        self.assertEqual([words.duration(ns) for ns in (5, 1500, 2.5e6, 3e9)], ["5 ns", "1.5 µs", "2.5 ms", "3 s"])
        self.assertEqual([data.count(1, "launch"), data.count(2, "launch"), data.count(1200, "case")], ["1 launch", "2 launches", "1,200 cases"])


class Markup(unittest.TestCase):
    def test_text_inside_html_elements_is_escaped_and_nested_elements_are_not(self):
        self.assertEqual(markup.el("p", "<b>", markup.el("i", "&"), title='"x"'), '<p title="&quot;x&quot;">&lt;b&gt;<i>&amp;</i></p>')

    def test_control_and_text_direction_characters_are_removed_from_the_report_page(self):
        self.assertEqual(markup.text("a\u202eb\x1b[31m\x00\u2028c\nd\ud800"), "ab[31mc d")


class Svg(unittest.TestCase):
    SOURCE = ('<?xml version="1.0"?><svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink" width="9pt" '
              'viewBox="0 0 9 9"><title>t</title><metadata>x</metadata><defs><path id="m1" style="stroke: #1f2328"/></defs><g id="figure_1"><g id="mark0">'
              '<use xlink:href="#m1" style="fill: #0a62c9; stroke: #123456"/></g><g clip-path="url(#m1)"/></g></svg>')

    def test_a_chart_on_the_report_page_has_unique_ids_css_colours_and_tooltips(self):
        made = svg.for_page(self.SOURCE, "c7", {"mark0": {"data-tip": "ddp <b> & 5", "data-series": "2"}},
                            "a \"chart\"")
        self.assertIn('<path style="stroke: var(--ink)" id="c7-m1"', made)
        self.assertIn('style="fill: var(--s1); stroke: #123456" href="#c7-m1"', made)
        self.assertIn('clip-path="url(#c7-m1)"', made)
        self.assertIn('<g data-tip="ddp &lt;b&gt; &amp; 5" data-series="2">', made)
        self.assertNotIn("figure_1", made)
        self.assertNotIn("metadata", made)
        self.assertNotIn("title", made)
        self.assertNotIn("width=", made)
        self.assertIn("role=\"img\"", made)


class Page(unittest.TestCase):
    def test_the_report_page_begins_with_the_ranking_of_strategies_in_the_largest_world(self):
        choices = [{"case": "a"}, {"case": "b"}]
        groups = [{"setting": f"toy {world}", "world": world, "choices": choices[:number], "sentences": [{"rule": "fastest", "text": text}]}
                  for world, number, text in ((1, 2, "cpu is fastest."), (2, 2, "ddp <b> is fastest."), (4, 1, "dp has nothing to be compared with."))]
        sentences = [{"rule": "busy", "text": "other programs took 1.0 of 2 cores"}, {"rule": "skipped", "text": "gpu was skipped."}]
        report = sample_runs.usual() | {"answer": {"groups": groups, "not_ranked": [], "sentences": sentences}}
        written = page_of(report)
        texts = "\n".join(Reader(written).texts)
        places = [texts.index(word) for word in ("ddp <b> is fastest.", "cpu is fastest.", "gpu was skipped.")]
        self.assertEqual(places, sorted(places))
        self.assertNotIn("nothing to be compared", texts)
        self.assertNotIn("1.0 of 2 cores", texts)  # only the page's head says it, if the run has a `disturbance`
        self.assertLess(written.index("The answer</h2>"), written.index("Runs</h2>"))
        self.assertNotIn("The answer", page_of(sample_runs.usual()))

    def test_the_report_page_is_self_contained(self):
        made = page_of(sample_runs.usual(), charts=[chart()])
        reader = Reader(made)
        self.assertEqual(reader.all("link") + reader.all("img") + reader.all("iframe"), [])
        self.assertNotIn("http://", made.replace("http://www.w3.org", ""))
        self.assertNotIn("https://", made)
        self.assertIn("default-src 'none'", made)

    def test_a_chart_on_the_report_page_is_headed_by_its_title_and_its_caption_begins_with_the_name_of_its_figure(self):
        made = page_of(sample_runs.usual(), charts=[chart()])
        drawing = '<div class="plot"><svg></svg></div>'
        self.assertIn(f"><h3>ddp keeps 83 %</h3>{drawing}<figcaption><strong>Throughput</strong> · n = 3.</figcaption>", made)

    def test_links_on_the_report_page_have_targets_and_its_ids_are_unique(self):
        reader = Reader(page_of(sample_runs.troubled(), sample_runs.conformance(), charts=[chart(), chart(kind="Peak memory"), chart(setting="GPU · strong")]))
        ids = [given["id"] for _, given in reader.elements if "id" in given]
        self.assertEqual(len(ids), len(set(ids)))
        for given in reader.all("a"):
            self.assertIn(given["href"][1:], ids)
        for given in reader.all("button"):
            self.assertIn(given.get("aria-controls", ids[0]), ids)

    def test_markup_in_names_is_escaped_on_the_report_page(self):
        made = page_of(sample_runs.hostile(), charts=[chart(kind="<script>", subject="<script>", caption="</style>", marks={"m": "<img>"})])
        reader = Reader(made)
        # There is only the page's own script: the <script> in the report's names is escaped.
        self.assertEqual(len(reader.all("script")), 1)
        self.assertEqual(reader.all("img") + reader.all("h1")[1:], [])
        self.assertIn("<script>document.title='run'</script>", "".join(reader.texts))
        self.assertNotIn("\u202e", made)
        self.assertNotIn("\x1b", made)
        self.assertIn("@@MAIN@@", "".join(reader.texts))  # a template placeholder in a name stays text

    def test_only_the_report_pages_own_script_may_run(self):
        made = page_of(sample_runs.usual())
        (script,) = re.findall("<script>(.*)</script>", made, re.DOTALL)
        self.assertIn(base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(), made)

    def test_the_report_page_counts_every_case_status_and_gives_the_reasons(self):
        texts = " ".join(Reader(page_of(sample_runs.troubled())).texts)
        for said in ("SIGKILL", "no GPU here", "Ctrl-C", "expected 1, found 2", "sum instead of mean", "outliers"):
            self.assertIn(said, texts)
        self.assertRegex(page_of(sample_runs.troubled()), r'>Problems</h2><p class="lead">[^<]*\binterrupted\b')
        tiles = re.findall(r'<li class="tile (\w+)"><b>(\d+)</b>', page_of(sample_runs.troubled()))
        self.assertEqual(tiles, [("ok", "3"), ("wrong", "1"), ("failed", "1"), ("disturbed", "1"), ("skipped", "1"), ("interrupted", "1"), ("passed", "1"), ("failed", "1")])

    def test_the_report_page_begins_with_a_warning_of_load_by_other_programs_and_marks_disturbed_cases(self):
        made = page_of(sample_runs.troubled())
        head = '<p class="amber">1 of 8 cases disturbed: their replicas did not have their cores; other programs took 0.6 of 2 cores'
        self.assertIn(head, made[:made.index("<main")])
        self.assertRegex(made, r"<summary>1 case disturbed\b")
        self.assertEqual([row for row in re.findall("<tr data-status.*?</tr>", made) if "! busy" in row],
                         re.findall('<tr data-status="ok"><th scope="row" title="ddp/.*?</tr>', made))
        self.assertNotIn('class="amber"', page_of(sample_runs.usual()))
        self.assertNotIn(" ! busy", page_of(sample_runs.usual()))

    def test_cases_whose_gradient_is_not_the_batch_mean_stand_apart_in_the_table_of_cases(self):
        made = page_of(sample_runs.troubled())
        table = made[made.index("<tbody", made.index('id="cases-table"')):]
        alike, heading, apart = re.findall("<tbody.*?</tbody>", table[:table.index("</table>")])
        self.assertIn("Other mathematics", heading)
        self.assertEqual([body.count("data-status") for body in (alike, apart)], [7, 1])
        self.assertIn("local steps", apart)
        self.assertNotIn("Other mathematics", page_of(sample_runs.usual()))

    def test_the_report_page_marks_efficiencies_above_100_percent_and_shows_none_of_replicas_on_shared_cores(self):
        def efficiency(world, **derived):
            made = sample_runs.case("ddp", world=world, threads=1)
            made["derived"] |= derived
            # The report's machine has 2 cores.
            (row,) = re.findall('<tr data-status.*?</tr>', page_of(sample_runs.report([made])))
            return re.findall(">([^<]*)</td>", row)[8]
        self.assertEqual(efficiency(2, efficiency=0.83, efficiency_low=0.8, efficiency_high=0.86), "83±3 %")
        self.assertEqual(efficiency(2, efficiency=1.35, efficiency_low=1.25, efficiency_high=1.45), "135±10 % !")
        self.assertEqual(efficiency(2, efficiency=0.83), "83 %")
        self.assertEqual(efficiency(3, efficiency=0.6, efficiency_low=0.5, efficiency_high=0.7), "-")

    def test_the_table_of_cases_shows_tokens_per_second_where_samples_have_tokens(self):
        def throughput(**derived):
            made = sample_runs.case("ddp")
            made["derived"] |= {"samples_per_s": 1234.0} | derived
            (row,) = re.findall('<tr data-status.*?</tr>', page_of(sample_runs.report([made])))
            return re.findall(">([^<]*)</td>", row)[6]
        self.assertEqual(throughput(tokens_per_s=158016.0), "1,234 (158,000 tokens/s)")
        self.assertEqual([throughput(), throughput(tokens_per_s=None)], ["1,234"] * 2)

    def test_the_report_page_names_each_device_and_status_of_the_report_schema(self):
        schema = json.loads((ROOT / "results/schema/run-1.schema.json").read_text(encoding="utf-8"))
        fields = schema["$defs"]["case"]["properties"]
        self.assertEqual(sorted(tables.STATUSES), sorted(fields["status"]["enum"]))
        self.assertEqual(sorted(data.DEVICES), sorted(fields["device"]["enum"]))

    def test_the_row_of_a_wrong_case_in_the_report_pages_table_has_no_figures(self):
        made = page_of(sample_runs.troubled())
        (row,) = re.findall('<tr data-status="wrong">.*?</tr>', made)
        self.assertEqual(re.findall('data-v="([^"]*)"', row), ["2.0"] + [""] * 9)

    def test_the_report_pages_table_has_one_row_per_case_with_sortable_numbers(self):
        reader = Reader(page_of(sample_runs.many(500)))
        self.assertEqual(len(reader.all("tr", **{"data-status": "ok"})), 500)
        made = page_of(sample_runs.report([sample_runs.case("cpu", step_ns=1.25e6)]))
        self.assertIn('data-v="1250000.0">1.25 ms<', made)

    def test_cases_that_were_only_checked_appear_only_in_the_conformance_matrix(self):
        made = page_of(sample_runs.conformance())
        reader = Reader(made)
        self.assertEqual(reader.all("table", id="cases-table"), [])
        self.assertEqual(len(reader.all("table", **{"class": "matrix"})), 2)
        self.assertIn("238 passed", made)

    def test_a_failed_check_in_the_conformance_matrix_has_a_hidden_row_with_its_evidence(self):
        reader = Reader(page_of(sample_runs.conformance()))
        (button,) = [given for given in reader.all("button") if "aria-controls" in given]
        self.assertEqual(button["aria-expanded"], "false")
        (row,) = reader.all("tr", id=button["aria-controls"])
        self.assertIn("hidden", row)
        texts = " ".join(reader.texts)
        self.assertIn("n.1.weight[3], rank 1, step 2: expected 1, found 2", texts)
        self.assertIn("sum instead of mean", texts)
        self.assertIn("✗ 2/2", texts)

    def test_the_collectives_table_has_counted_bytes_formula_bytes_and_their_ratio(self):
        case = sample_runs.case("ddp", world=2)
        entries = [("allreduce", 2, 3000, 2000, 1), ("broadcast", 1, 40, 0, 0), ("allgather", 1, 8, None, None)]
        case["launches"][0]["ranks"][0]["profile"] = {"ledger": [
            {"axis": "dp", "op": op, "calls": calls, "bytes": bytes_, "phase_bytes": {}, "formula_bytes": formula,
             "formula_calls": formula_calls} for op, calls, bytes_, formula, formula_calls in entries]}
        made = page_of(sample_runs.report([case]))
        table = made[made.index("<table", made.index('aria-label="Collectives"')):]
        rows = re.findall("<tr><th.*?</tr>", table[:table.index("</table>")])[1:]
        cells = [re.findall(">([^<]*)</td>", row)[2:] for row in rows]  # leave out the cells with workload and world
        self.assertEqual(cells, [["dp", "allreduce", "2", "1", "3,000", "2,000", "1.500"], ["dp", "broadcast", "1", "0", "40", "0", "-"],
                                 ["dp", "allgather", "1", "-", "8", "-", "-"]])

    def test_the_memory_table_has_each_part_beside_its_formula(self):
        case = sample_runs.case("ddp", world=2)
        case["launches"][0]["ranks"][0]["profile"]["memory"] = {
            "parameters": 4000, "gradients": 4000, "state": 8000, "activations": 10 << 20, "buffers": 0, "temporary": 10 << 20}
        case["memory_formula"] = {"parameters": 2000, "gradients": 4000, "state": 8000, "activations": 10 << 20, "buffers": 0}
        made = page_of(sample_runs.report([case]))
        table = made[made.index("<table", made.index('aria-label="Memory"')):]
        cells = [re.findall(">([^<]*)</td>", row)[2:] for row in re.findall("<tr><th.*?</tr>", table[:table.index("</table>")])[1:]]
        self.assertEqual(cells[0], ["parameters", "4,000", "2,000", "2.000"])
        self.assertEqual(cells[3], ["activations", "20,971,520", "10,485,760", "2.000"])
        self.assertEqual(cells[4], ["buffers", "0", "0", "-"])
        self.assertEqual([row[0] for row in cells[5:]], ["total"])

    def models_of(self, *cases, code=0, stderr=""):
        """Returns the page's section on the models of these cases, and the arguments of each call of a stand-in for the
        program dpbench, which lists one tied parameter."""
        listed = [{"name": "embed.weight", "sizes": [257, 18], "blocks": ["embed", "head"], "unit": "root", "tp": "cut in dimension 0", "ep": None}]
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "dpbench")
            program.write_text(f'#!/bin/sh\necho "$*" >> "{folder}/calls"\ncat <<END\n{json.dumps(listed)}\nEND\necho "{stderr}" >&2\nexit {code}\n',
                               encoding="utf-8")
            program.chmod(0o755)
            run = data.Run(data.cleaned(sample_runs.report(list(cases))))
            made = page.page([run], [], "0.1.0", models=models.models([run], str(program)))
            calls = pathlib.Path(folder, "calls")
            called = calls.read_text(encoding="utf-8").splitlines() if calls.exists() else []
        Reader(made)
        part = made[made.rindex(">Parameters of the models<"):]
        return part[:part.index("</section>")], called

    def test_the_report_page_has_a_folded_table_of_the_parameters_of_each_trained_model(self):
        part, called = self.models_of(sample_runs.case("cpu"), sample_runs.case("ddp", world=2), sample_runs.case("tp", workload="gpt", model="tiny"),
                                      sample_runs.case("ddp", workload="convnet", status="failed"))
        self.assertEqual(called, ["list gpt --parameters --model=tiny -o json", "list mnist-mlp --parameters -o json"])
        self.assertEqual(re.findall("<summary>(.*?)</summary>", part), ["gpt tiny: 1 parameter", "mnist-mlp: 1 parameter"])
        row = part[part.index("<tbody>"):part.index("</tbody>")]
        self.assertEqual(re.findall(">([^<]+)</t[hd]>", row), ["embed.weight", "257 x 18", "embed, head", "root", "cut in dimension 0", "-"])

    def test_the_report_page_has_the_reason_why_the_parameters_of_a_model_are_not_listed(self):
        part, called = self.models_of(sample_runs.case(workload="mine"), code=2, stderr="dpbench: known: <gpt>")
        self.assertEqual(called, ["list mine --parameters -o json"])
        self.assertIn("<code>mine</code>: known: &lt;gpt&gt;</p>", part)
        big = sample_runs.case(workload="gpt", model="llama-1b")
        big["launches"][0]["ranks"][0]["model_bytes"] = 5 << 30
        # A report must not make dpbench import a Python module or load a plug-in.
        for case, reason in ((big, "5.0 GiB"), (sample_runs.case(workload="gpt", scale=2), "--scale 2"),
                             (sample_runs.case(workload="gpt", model="os:system"), "own workloads"),
                             (sample_runs.case(workload="--plugin=./x.so"), "own workloads"), (sample_runs.case(workload="gpt --model"), "own workloads")):
            part, called = self.models_of(case)
            self.assertEqual(called, [], reason)
            self.assertIn(reason, part)

    def test_the_report_page_omits_empty_sections(self):
        made = page_of(sample_runs.usual())
        self.assertNotIn(">Parameters of the models<", made)
        self.assertNotIn('aria-label="Collectives"', made)
        self.assertNotIn('aria-label="Memory"', made)
        self.assertNotIn(">Conformance<", made)
        self.assertNotIn(">Problems<", made)


class Palette(unittest.TestCase):
    def test_text_and_marks_of_the_report_page_contrast_with_its_light_and_dark_background(self):
        def luminance(colour):
            parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
            return sum(weight * (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4)
                       for weight, part in zip((0.2126, 0.7152, 0.0722), parts))
        for role, both in palette.ROLES.items():
            for colour, ground in zip(both, palette.GROUND):
                high, low = sorted((luminance(colour), luminance(ground)), reverse=True)
                contrast = (high + 0.05) / (low + 0.05)
                least = {"ground": 1, "grid": 1, "ink": 4.5, "muted": 4.5, "bad": 4.5}.get(role, 3)
                self.assertGreaterEqual(contrast, least, f"{role} {colour} on {ground}")

    def test_the_colours_of_series_are_distinct_on_a_light_and_on_a_dark_report_page(self):
        for mode in (0, 1):
            colours = [palette.ROLES[role][mode] for role in (palette.BASELINE, *palette.SERIES)]
            self.assertEqual(len(set(colours)), 23)
        self.assertEqual(len(set(palette.LIGHT.values())), len(palette.LIGHT))

    def test_a_strategy_has_the_same_colour_in_every_chart(self):
        self.assertEqual([palette.role_of(name) for name in ("cpu", "ddp", "dp", "fsdp")], ["s0", "s1", "s2", "s3"])
        self.assertEqual(palette.role_of("mine", is_baseline=True), "s0")
        own = [role for name, role in palette.STRATEGIES.items() if name not in ("cpu", "gpu")]
        self.assertEqual(len(set(own)), len(own))
        self.assertEqual([palette.role_of(name) for name in ("py-ddp", "mine")], ["s17", "s16"])

    def test_every_strategy_of_dpbenchs_python_package_has_its_own_colour(self):
        files = (ROOT / "strategies/python/dpbench").glob("pytorch*.py")
        names = {name for file in files
                 for name in re.findall(r'dpbench\.strategy\("([\w-]+)"', file.read_text(encoding="utf-8"))}
        self.assertIn("py-ddp", names)
        self.assertEqual(names - {*palette.STRATEGIES}, set())

    def test_series_of_one_chart_have_different_colours_in_any_order_of_appearance(self):
        wanted = {"ddp x=2": "s1", "py-zero1": "s13", "ddp x=1": "s1", "dp": "s2", "mine": "s13"}
        # Of the series that want the same colour, the first by name gets it. The others get colours that no built-in
        # strategy has.
        chosen = {"ddp x=1": ("s1", 0), "ddp x=2": ("s14", 0), "dp": ("s2", 0), "mine": ("s13", 0),
                  "py-zero1": ("s15", 0)}
        self.assertEqual(palette.assigned(wanted), chosen)
        self.assertEqual(palette.assigned(dict(reversed(wanted.items()))), chosen)

    def test_a_chart_repeats_a_series_colour_only_after_all_others_are_used(self):
        found = palette.assigned({f"ddp x={index:02}": "s1" for index in range(26)})
        self.assertEqual(len(set(found.values())), 26)
        self.assertEqual([place for place in found.values() if place[1]],
                         [("s13", 1), ("s14", 1), ("s15", 1), ("s16", 1)])

    def test_a_projection_in_a_chart_has_the_colour_of_its_measured_series(self):
        run = data.Run(sample_runs.report([sample_runs.case("ddp", world=2),
                                           sample_runs.case("ddp", world=64) | {"projected": True}]))
        data.label(run.cases)
        self.assertEqual([(case.series, case.drawn_as) for case in run.cases],
                         [("ddp", "ddp"), ("ddp (projection)", "ddp")])


if __name__ == "__main__":
    unittest.main()
