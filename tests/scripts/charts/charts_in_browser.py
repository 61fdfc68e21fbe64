"""charts_in_browser.py DPBENCH: tests the report page of every kind of report in a real browser, at two widths, in
light and dark mode, and printed."""
import json
import math
import os
import pathlib
import re
import struct
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree as xml

sys.path[:0] = [str(pathlib.Path(__file__).parents[3] / "scripts/charts")]

import environment
import palette
import sample_runs
from browser import Browser

PROGRAM = os.path.abspath(sys.argv.pop(1))
# Print: the area inside the margins of an A4 or Letter page, landscape (as the page's CSS asks) or portrait.
LOOKS = [("desk", 1366, 900, False, "screen"), ("desk", 1366, 900, True, "screen"),
         ("phone", 390, 844, False, "screen"), ("phone", 390, 844, True, "screen"),
         ("landscape", 980, 718, False, "print"), ("portrait", 718, 980, True, "print")]
REPORTS = {"usual": [sample_runs.proven(sample_runs.usual())], "troubled": [sample_runs.troubled()],
           "hostile": [sample_runs.hostile()],
           "one": [sample_runs.report([sample_runs.case("cpu")])], "many": [sample_runs.many(500)], "settings": [sample_runs.settings()],
           "everything": [*sample_runs.history(), sample_runs.conformance()], "training": [sample_runs.trained()],
           "duel": [sample_runs.duel()], "comparison": [sample_runs.comparison()], "tuned": [sample_runs.tuned()], "wide": [sample_runs.scaled((1, 8, 64))],
           "empty": [sample_runs.report([], status="interrupted")]}
CHARTS = {"usual": 7, "troubled": 10, "hostile": 16, "one": 4, "many": 14, "settings": 84, "everything": 13,
          "duel": 1, "comparison": 2, "training": 9, "tuned": 21, "wide": 6, "empty": 0}
OPENS_WITHIN_S = 2

# JavaScript that returns text that does not fit: clipped by its box, outside the window or its picture, or overlapping
# other text of a picture. Scrolling boxes are allowed on a screen.
MISFITS = r"""(() => {
  const found = [], say = (node) => (node.textContent || node.tagName).trim().slice(0, 40);
  const printed = matchMedia("print").matches;
  if (document.documentElement.scrollWidth > innerWidth) found.push("the page is wider than its window");
  for (const node of document.querySelectorAll("body *:not(svg *)")) {
    const style = getComputedStyle(node);
    if (node.checkVisibility && !node.checkVisibility()) continue;
    const hides = ["hidden", "clip", ...(printed ? ["auto", "scroll"] : [])].includes(style.overflowX);
    if (printed && hides && node.scrollHeight > node.clientHeight + 1) found.push("cut off below: " + say(node));
    if (hides && node.scrollWidth > node.clientWidth + 1) found.push("cut off: " + say(node));
    const box = node.getBoundingClientRect();
    const scrolls = !printed && node.closest(".scroll,.plot");
    if (box.right > innerWidth + 1 && !scrolls && box.width) found.push("beyond the window: " + say(node));
  }
  for (const svg of document.querySelectorAll("svg")) {
    const frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].map((node) => [node, node.getBoundingClientRect()]);
    for (const [node, box] of texts)
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1)
        found.push("beyond its picture: " + say(node));
    texts.forEach(([a, one], i) => texts.slice(i + 1).forEach(([b, two]) => {
      if (Math.min(one.right, two.right) - Math.max(one.left, two.left) > 1 && Math.min(one.bottom, two.bottom) - Math.max(one.top, two.top) > 3)
        found.push("on each other: " + say(a) + " | " + say(b));
    }));
  }
  return found;
})()"""

# JavaScript that returns text whose contrast with its background is below 4.5 (WCAG's minimum), by the browser's
# computed colours.
FAINT = r"""(() => {
  const parts = (text) => text.match(/[\d.]+/g).map(Number);
  const light = (colour) => colour.slice(0, 3).map((v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = (node) => {
    for (; node; node = node.parentElement) {
      const colour = parts(getComputedStyle(node).backgroundColor);
      if (colour.length < 4 || colour[3] > 0.99) return colour;
    }
    return [255, 255, 255];
  };
  const found = [], walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  let seen = 0;
  for (let text; (text = walker.nextNode());) {
    const node = text.parentElement;
    if (!text.data.trim() || node.closest("script,style,[hidden]")) continue;
    const style = getComputedStyle(node);
    const ink = light(parts(node.closest("svg") ? style.fill : style.color)), ground = light(behind(node));
    const contrast = (Math.max(ink, ground) + 0.05) / (Math.min(ink, ground) + 0.05);
    seen++;
    if (contrast < 4.5) found.push(contrast.toFixed(2) + ": " + text.data.trim().slice(0, 40));
  }
  return seen ? found : ["no text at all"];
})()"""

# JavaScript that returns, for each point of the charts over worlds, its horizontal distance from its world's tick.
OFF_THEIR_WORLDS = r"""[...document.querySelectorAll("figure svg")].slice(0, 2).flatMap((svg) => {
  const middle = (node) => { const box = node.getBoundingClientRect(); return {x: box.x + box.width / 2, y: box.y}; };
  const tick = (world) => [...svg.querySelectorAll("text")].filter((node) => node.textContent === world)
    .map(middle).sort((a, b) => b.y - a.y)[0];  // the lowest one: the x axis is below
  return [...svg.querySelectorAll(".tip")].map((mark) => {
    const world = mark.dataset.tip.match(/, world (\d+):/)[1];
    return {tip: mark.dataset.tip, world: Number(world), off: Math.abs(middle(mark).x - tick(world).x)};
  });
})"""

# JavaScript that returns, for each axis with three or more numbers: whether the numbers are unequally spaced, and the
# axis' label.
AXES = r"""[...document.querySelectorAll("figure svg")].flatMap((svg) => {
  const units = {B: 1, kB: 1e3, MB: 1e6, GB: 1e9, ms: 1e-3, s: 1};
  const texts = [...svg.querySelectorAll("text")].map((node) => ({node, box: node.getBoundingClientRect()}));
  const numbers = texts.flatMap(({node, box}) => {
    const found = node.textContent.replace("−", "-").match(/^(-?[\d,.]+)( [a-zA-Z]+)?$/);
    return found ? [{box, value: Number(found[1].replaceAll(",", "")) * (units[(found[2] || "").trim()] || 1)}] : [];
  });
  const lowest = texts.reduce((a, b) => a.box.bottom > b.box.bottom ? a : b);
  const upright = texts.find(({box}) => box.height > 2 * box.width);
  const axes = [["top", "left", lowest], ["right", "top", upright]].map(([shared, along, label]) => {
    const rows = Map.groupBy(numbers, ({box}) => Math.round(box[shared]));
    const ticks = [...rows.values()].reduce((a, b) => a.length >= b.length ? a : b, []);
    const middle = (box) => along === "left" ? box.x + box.width / 2 : -box.y - box.height / 2;
    const sorted = ticks.map(({box, value}) => [value, middle(box)]).sort((a, b) => a[0] - b[0]);
    const slopes = sorted.slice(1).map(([value, at], i) => (at - sorted[i][1]) / (value - sorted[i][0]));
    return {ticks: sorted.length, log: Math.max(...slopes) > 1.2 * Math.min(...slopes),
            label: label && label.node.textContent};
  });
  return axes.filter((axis) => axis.ticks > 2);
})"""

# JavaScript that returns [strategy, role of its colour] for each mark in the colour of a series.
COLOURS = r"""[...document.querySelectorAll("figure .tip")].flatMap((mark) => {
  const strategy = mark.dataset.tip.match(/^[^ ,:]+/)[0], role = mark.outerHTML.match(/var\(--(s\d+)\)/);
  return role ? [[strategy, role[1]]] : [];
})"""

# JavaScript that returns four facts on the warning in the page's header: its text, whether it is visible, its
# background colour, and whether the background is printed ("exact").
AMBER = """(() => {
  const node = document.querySelector("header .amber"), style = getComputedStyle(node);
  return [node.innerText, node.checkVisibility(), style.backgroundColor, style.getPropertyValue("-webkit-print-color-adjust")];
})()"""

COLUMN = """(column) => [...document.querySelectorAll("#cases-table tr[data-status]")].filter((row) => !row.hidden)
  .map((row) => row.cells[column].dataset.v ?? row.cells[column].textContent)"""


class Charts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory(prefix="dpbench-page-")
        cls.folder = pathlib.Path(cls.holder.name)
        (cls.folder / "micro.json").write_text(json.dumps(sample_runs.collectives()), encoding="utf-8")
        words = [PROGRAM, "plan", "--model", "llama-1b", "--gpus", "64", "--memory", "40GB", "--rate", "400TF", "--link",
                 "intra=450GB/s:2us,inter=50GB/s:10us", "-o", "json"]
        (cls.folder / "plan.json").write_bytes(subprocess.run(words, check=True, capture_output=True).stdout)
        for name, reports in REPORTS.items():
            files = []
            for index, report in enumerate(reports):
                files.append(cls.folder / f"{name}-{index}.json")
                files[-1].write_text(json.dumps(report), encoding="utf-8")
            more = ["--charts", "charts", "--collectives", "micro.json", "--plan", "plan.json"] if name == "everything" else []
            done = subprocess.run([PROGRAM, "report", *files, "--html", f"{name}.html", *more], cwd=cls.folder, text=True,
                                  capture_output=True, check=False)
            assert done.returncode == 0, done.stderr
        cls.browser = Browser()

    @classmethod
    def tearDownClass(cls):
        cls.browser.close()
        cls.holder.cleanup()

    def open(self, name, width=1366, height=900, dark=False, media="screen"):
        return self.browser.page(self.folder / f"{name}.html", width, height, dark, media)

    def test_every_page_opens_quickly_without_errors_and_all_text_fits_and_is_readable(self):
        for name in REPORTS:
            for look, width, height, dark, media in LOOKS:
                with self.subTest(report=name, look=look, dark=dark), self.open(name, width, height, dark,
                                                                                media) as page:
                    self.look_at(page, name)
                    self.keep(page, f"{name}-{look}-{'dark' if dark else 'light'}.png")

    def look_at(self, page, name):
        # On a machine with more load than cores, the page may take longer in proportion.
        self.assertLess(page.seconds, OPENS_WITHIN_S * max(1, os.getloadavg()[0] / os.cpu_count()))
        self.assertEqual(page.run("document.querySelectorAll('figure svg').length"), CHARTS[name])
        page.run("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        page.run("document.querySelectorAll('.evidence').forEach((each) => { each.hidden = false; })")
        self.assertEqual(page.run(MISFITS), [])
        self.assertEqual(page.run(FAINT), [])
        self.assertEqual(page.errors(), [])

    @staticmethod
    def keep(page, name):
        folder = os.environ.get("DPBENCH_SCREENSHOTS")
        if folder:
            os.makedirs(folder, exist_ok=True)
            page.run("document.querySelectorAll('figure details').forEach((each) => { each.open = false; })")
            page.picture(f"{folder}/{name}")

    def test_the_page_says_how_many_settings_have_charts_and_its_table_has_all_cases(self):
        with self.open("settings") as page:
            self.assertIn("12 of 100", page.run("document.querySelector('header').innerText"))
            self.assertEqual(page.run("document.querySelectorAll('#cases-table tbody tr').length"), 500)

    def test_chart_colours_follow_the_light_or_dark_mode_of_the_page(self):
        inks = set()
        for dark in (False, True):
            with self.open("usual", dark=dark) as page:
                inks.add(page.run("getComputedStyle(document.querySelector('figure svg text')).fill"))
                page.click("#theme")
                inks.add(page.run("getComputedStyle(document.querySelector('figure svg text')).fill"))
        self.assertEqual(inks, {"rgb(87, 96, 106)", "rgb(154, 164, 175)"})

    def test_a_printed_page_is_light_and_shows_folded_tables_and_evidence_but_no_controls(self):
        with self.open("everything", 980, 718, dark=True, media="print") as page:
            page.run("document.documentElement.dataset.theme = 'dark'")
            inks = page.run("['h1', 'figure svg text'].map((each) => getComputedStyle(document.querySelector(each)))"
                            ".map((style, place) => place ? style.fill : style.color)")
            self.assertEqual(inks, ["rgb(31, 35, 40)", "rgb(87, 96, 106)"])
            seen = "[...document.querySelectorAll(%s)].filter((node) => node.checkVisibility()).length"
            self.assertEqual(page.run(seen % "'nav,input,#theme,.card details,button:not(table *)'"), 0)
            self.assertEqual(page.run(seen % "'.matrix td.failed, tr.evidence'"), 2)
            self.assertGreater(page.run(seen % "'#cases-table td'"), 0)

    def test_the_table_of_cases_needs_no_horizontal_scrolling_on_a_desktop(self):
        for name in ("usual", "training"):
            with self.open(name) as page:
                self.assertLessEqual(page.run("(({scrollWidth, clientWidth}) => scrollWidth - clientWidth)(document.querySelector('#cases-table').closest('.scroll'))"), 0)

    def test_the_table_sorts_numerically_and_cases_without_a_value_come_last(self):
        with self.open("troubled") as page:
            head = "#cases-table th:nth-child(6)"
            page.click(f"{head} button")
            rising = page.run(f"({COLUMN})(5)")
            page.click(f"{head} button")
            falling = page.run(f"({COLUMN})(5)")
            self.assertEqual(page.run(f"document.querySelector('{head}').ariaSort"), "descending")
        # Cases without a value come last in both directions. The last row, local-sgd, stays below the heading "Other
        # mathematics".
        self.assertEqual([place for place, value in enumerate(rising) if value == ""], [2, 3, 4, 5, 6])
        self.assertEqual([place for place, value in enumerate(falling) if value == ""], [2, 3, 4, 5, 6])
        with self.open("many") as page:
            page.click(f"{head} button")
            rising = [float(value) for value in page.run(f"({COLUMN})(5)")]
            self.assertEqual(rising, sorted(rising))
            self.assertEqual(len(rising), 500)
            self.assertEqual(page.errors(), [])

    def test_the_table_filters_by_words_and_by_status(self):
        with self.open("troubled") as page:
            page.click("#filter")
            page.type("ddp cpu:2")
            self.assertEqual(page.run(f"({COLUMN})(0)"), ["ddp"])
            self.assertEqual(page.run("document.querySelector('#shown').textContent"), "1 of 8 cases")
            page.run("document.querySelector('#filter').value = ''; document.querySelector('#filter').dispatchEvent(new Event('input'))")
            page.click(".choices input[value=ok]")
            self.assertEqual(sorted(page.run(f"({COLUMN})(4)")), ["disturbed", "failed", "interrupted", "skipped", "wrong"])
            self.assertEqual(page.run("document.querySelector('#cases-table .heading').checkVisibility()"), False)

    def test_captions_name_disturbed_cases_and_the_header_says_how_many_cores_other_programs_took(self):
        with self.open("troubled") as page:
            self.assertIn("other programs took 0.6 of 2 cores", page.run("document.querySelector('header .amber').innerText"))
            captions = page.run("[...document.querySelectorAll('figcaption')].map((node) => node.textContent)")
            self.assertEqual(len([text for text in captions if re.search(r"\b1 disturbed\b[^.]*: dp × 1\.", text)]), 6)

    def test_the_header_says_in_amber_how_many_cases_are_disturbed_on_a_desktop_a_phone_and_paper(self):
        for look, width, height, dark, media in LOOKS:
            with self.subTest(look=look, dark=dark), self.open("troubled", width, height, dark, media) as page:
                text, visible, back, kept = page.run(AMBER)
                self.assertRegex(text, r"\A1 of 8 cases disturbed\b")
                self.assertEqual((visible, back, kept), (True, "rgb(46, 42, 31)" if dark and media == "screen" else "rgb(255, 248, 197)", "exact"))

    def test_only_the_throughput_and_efficiency_charts_draw_a_ceiling_of_the_cores_if_replicas_share_cores(self):
        with self.open("usual") as page:
            drawn = page.run("[...document.querySelectorAll('figure svg')].map((svg) => svg.textContent)")
            self.assertEqual(["ceiling" in text for text in drawn], [True] * 2 + [False] * 5)
            captions = page.run("[...document.querySelectorAll('figcaption')].map((node) => node.textContent)")
            self.assertEqual(["linear scaling of cpu at world 1, up to the ceiling of the cores" in text for text in captions], [True] + [False] * 6)

    def test_clicking_a_failed_check_in_the_matrix_shows_or_hides_its_evidence(self):
        with self.open("everything") as page:
            state = "[document.querySelector('tr.evidence').hidden, document.querySelector('button[aria-controls]').ariaExpanded]"
            self.assertEqual(page.run(state), [True, "false"])
            page.click("button[aria-controls]")
            self.assertEqual(page.run(state), [False, "true"])
            self.assertIn("expected 1, found 2", page.run("document.querySelector('tr.evidence').innerText"))
            self.assertIn("sum instead of mean", page.run("document.querySelector('tr.evidence').innerText"))
            page.click("button[aria-controls]")
            self.assertEqual(page.run(state), [True, "false"])

    def test_pointing_at_a_mark_in_a_chart_shows_its_value(self):
        with self.open("usual") as page:
            page.click("figure .tip")
            self.assertRegex(page.run("document.querySelector('#tip').innerText"), r"^\S+, world \d: .* samples/s$")
            page.click("h1")
            self.assertTrue(page.run("document.querySelector('#tip').hidden"))

    def test_points_stand_at_the_tick_of_their_world_and_history_charts_have_a_column_for_each_run(self):
        # The page "usual" has charts with a linear axis. The page "training" has charts with a logarithmic axis.
        for name, worlds in (("usual", {1, 2, 4}), ("training", {1, 2, 4, 8, 64})):
            with self.open(name) as page:
                places = page.run(OFF_THEIR_WORLDS)
            self.assertEqual({place["world"] for place in places}, worlds)
            self.assertEqual([place for place in places if place["off"] > 1], [])
        with self.open("everything") as page:
            columns = page.run("""[...document.querySelectorAll("figure svg")].map((svg) =>
              new Set([...svg.querySelectorAll(".tip[data-tip*=', commit ']")]
                .map((mark) => mark.getBoundingClientRect()).map((box) => Math.round(box.x + box.width / 2))).size)""")
        self.assertEqual(set(columns), {0, 5})  # a chart of history has a column for each of the five runs

    def test_only_a_logarithmic_axis_is_labelled_as_logarithmic(self):
        logarithmic = set()
        for name in ("wide", "troubled", "everything"):
            with self.open(name) as page:
                for axis in page.run(AXES):
                    self.assertEqual(axis["log"], bool(re.search(r"\blog", axis["label"])), axis)
                    logarithmic |= {axis["label"]} if axis["log"] else set()
        self.assertEqual(len(logarithmic), 8, logarithmic)
        for name in ("world", "samples/s", "tensor", "µs", "GB/s", "memory", "step", "%"):
            self.assertTrue(any(name in label for label in logarithmic), name)

    def test_every_bar_starts_at_zero_or_at_the_end_of_another_bar_on_a_linear_axis_from_zero(self):
        script = pathlib.Path(__file__).with_name("bars.py")
        drawn = subprocess.run([environment.python(), "-EsB", script], check=True, capture_output=True)
        # The boxes of the charts "samples" are ranges around a median, not bars.
        bars = [bar for bar in json.loads(drawn.stdout) if not bar["chart"].startswith("samples-")]
        kinds = {re.match("memory-parts|[a-z]+", bar["chart"])[0] for bar in bars}
        self.assertEqual(kinds, {"strategies", "parts", "memory", "memory-parts", "tune"})
        for bar in bars:
            with self.subTest(bar["chart"]):
                self.assertEqual((bar["low"], bar["scale"]), (0, "linear"))
                self.assertTrue(any(math.isclose(bar["start"], end) for end in (0, *bar["ends"])), bar)

    def test_a_strategy_has_one_colour_in_all_charts(self):
        colours = {}
        for name in ("training", "everything", "tuned"):
            with self.open(name) as page:
                for strategy, role in page.run(COLOURS):
                    colours.setdefault(strategy, set()).add(role)
        self.assertEqual({strategy: colours[strategy] for strategy in ("cpu", "dp", "ddp", "dp-upstream")},
                         {"cpu": {"s0"}, "dp": {"s2"}, "ddp": {"s1"}, "dp-upstream": {"s5"}})

    def test_every_built_in_strategy_has_its_own_colour(self):
        listed = json.loads(subprocess.run([PROGRAM, "list", "-o", "json"], check=True, capture_output=True).stdout)
        self.assertEqual({each["name"] for each in listed["strategies"]} - {*palette.STRATEGIES}, set())

    def test_each_chart_is_headed_by_its_title(self):
        with self.open("usual") as page:
            heads = page.run("[...document.querySelectorAll('figure h3')].map((each) => each.textContent)")
        messages = (r"^dp\b.*\bfastest\b.*\bworld 4\b.*\b158,000 samples/s",
                    r"^dp and ddp\b.*\b67 to 84 %.*\bworld 2\b",
                    r"^dp, dp-upstream and ddp\b.*\bfaster\b.*\bcpu\b.*\bworld 4\b",
                    r"\bcommunication\b.*\b10 %.*\bworld 4\b",
                    r"\b5 %", r"^ddp needs 2\d\d MiB of memory at world 4$", "^ddp needs 20 MiB of tensor memory at world 4$")
        for head, message in zip(heads, messages, strict=True):
            self.assertRegex(head, message)
        signed = (self.folder / "charts/plan.svg").read_text(encoding="utf-8")
        self.assertRegex(signed, r"fastest\b.*\bllama-1b, 64 GPUs<")

    def test_the_legends_entry_of_a_series_hides_it_by_mouse_and_by_keyboard(self):
        entry = "figure [data-key='1'][role=button]"  # the legend's entry of dp in the throughput chart
        seen = """[...new Set([...document.querySelector("figure").querySelectorAll(".tip")]
          .filter((mark) => getComputedStyle(mark).visibility === "visible")
          .map((mark) => mark.dataset.tip.split(",")[0]))]"""
        state = f"document.querySelector({json.dumps(entry)}).getAttribute('aria-pressed')"
        with self.open("usual") as page:
            self.assertEqual((page.run(seen), page.run(state)), (["cpu", "dp", "dp-upstream", "ddp"], "true"))
            page.click(entry)
            self.assertEqual((page.run(seen), page.run(state)), (["cpu", "dp-upstream", "ddp"], "false"))
            for key, shown in (("Enter", 4), (" ", 3)):
                page.run(f"document.querySelector({json.dumps(entry)}).focus()")
                page.call("Input.dispatchKeyEvent", type="keyDown", key=key, text="\r" if key == "Enter" else key)
                self.assertEqual(len(page.run(seen)), shown)
            self.assertEqual(page.errors(), [])

    def test_every_series_has_a_legend_entry_that_hides_all_its_marks(self):
        charts = []
        for name in ("training", "everything"):
            with self.open(name) as page:
                charts += page.run("""[...document.querySelectorAll("figure")].map((figure) => {
                  const all = (selector) => [...figure.querySelectorAll(selector)];
                  const numbers = (name) =>
                    [...new Set(all(`[data-${name}]`).map((node) => node.dataset[name]))].sort();
                  const loose = all(".tip:not([data-series])").length;
                  return {keys: numbers("key"), series: numbers("series"), loose: numbers("key").length ? loose : 0};
                })""")
        switched = [chart for chart in charts if chart["series"]]
        # Charts with a legend. "training": throughput, efficiency, strategies, loss, accuracy. "everything":
        # throughput, efficiency, strategies, history (3), allreduce (2).
        self.assertEqual(len(switched), 3 + 2 + 3 + 3 + 2)
        for chart in switched:
            self.assertEqual((chart["keys"], chart["loose"]), (chart["series"], 0))

    def test_a_chart_zooms_inside_its_box_and_its_marks_come_apart_but_keep_their_size(self):
        measure = """(() => {
          const plot = document.querySelector(".plot");
          const marks = [...plot.querySelectorAll(".tip use")].map((mark) => mark.getBoundingClientRect());
          return {apart: marks[1].x - marks[0].x + marks[0].y - marks[1].y, size: marks[1].width,
                  height: plot.clientHeight,
                  pans: plot.scrollWidth > plot.clientWidth + 1, by_keyboard: plot.tabIndex === 0,
                  buttons: [...document.querySelectorAll(".zoom")][0].innerText.split("\\n").filter(Boolean)};
        })()"""
        for width, height in ((1366, 900), (390, 844)):
            with self.subTest(width=width), self.open("wide", width, height) as page:
                before = page.run(measure)
                self.assertEqual((before["pans"], before["by_keyboard"], before["buttons"]), (False, False, ["+"]))
                page.click(".zoom button:last-child")
                page.click(".zoom button:last-child")
                after = page.run(measure)
                self.assertAlmostEqual(after["apart"], 4 * before["apart"], delta=4)
                self.assertAlmostEqual(after["size"], before["size"], delta=1)
                self.assertEqual((after["height"], after["pans"], after["by_keyboard"]), (before["height"], True, True))
                self.assertEqual(after["buttons"], ["Reset", "−", "+"])
                self.assertEqual(page.run(MISFITS), [])
                page.call("Emulation.setEmulatedMedia", media="print")
                self.assertFalse(page.run(measure)["pans"])
                page.call("Emulation.setEmulatedMedia", media="screen")
                page.click(".zoom button")
                self.assertEqual(page.run(measure), before)
                self.assertEqual(page.errors(), [])

    def test_training_charts_show_loss_by_step_and_accuracy_by_time(self):
        with self.open("training") as page:
            shown = page.run("[...document.querySelectorAll('figure')].map((each) => each.outerHTML).join()")
        for said in (r"\bdp × 2: loss 2\.5\b[^<]*\b0\.2823\b[^<]*\b1,000 steps\b",
                     r"\bddp × 2: loss 2\.5\b[^<]*\b0\.2823\b[^<]*\b1,000 steps\b",
                     r"\baccuracy 0\.7\b[^<]*\b0\.9\b[^<]*\b12 s\b",
                     r"\bdp × 2: 0\.88 not\b", r"\bddp × 2: 0\.88\b[^.]*\b12 s\b",
                     r"\bn = 1 training\b", r"\bcommit a1b2c3d\b", r"\bddp \(projection\), world 64\b",
                     r"\bprojection\b[^<]*\bworlds 1, 2 and 4\b"):
            self.assertTrue(re.search(said, shown), said)

    def test_a_case_named_like_a_script_is_shown_and_not_run(self):
        with self.open("hostile") as page:
            self.assertTrue(page.run("document.title").startswith("dpbench"))
            self.assertIn("<script>document.title='run'</script>", page.run("document.querySelector('#cases-table').innerText"))
            self.assertEqual(page.run("document.querySelectorAll('script').length"), 1)
            self.assertIn("a$b$=", page.run("document.querySelector('#cases-table').innerText"))

    def test_an_injected_script_does_not_run(self):
        with self.open("usual") as page:
            page.run("document.body.insertAdjacentHTML('beforeend', '<img src=x onerror=\"document.title = 1\">'); new Promise(d => setTimeout(d, 100))")
            self.assertTrue(page.run("document.title").startswith("dpbench"))

    def test_the_page_works_by_keyboard_and_has_labels_for_screen_readers(self):
        with self.open("everything") as page:
            nameless = page.run("""[...document.querySelectorAll('button,input,a,[role=region],svg,summary')].filter((node) =>
              !(node.ariaLabel || (node.tagName !== "svg" && node.textContent.trim()) || (node.labels && node.labels.length))).length""")
            self.assertEqual(nameless, 0)
            self.assertTrue(page.run("[...document.querySelectorAll('.scroll')].every((node) => node.tabIndex === 0)"))
            page.run("document.querySelector('#cases-table button').focus()")
            page.call("Input.dispatchKeyEvent", type="keyDown", key="Enter", code="Enter", windowsVirtualKeyCode=13, text="\r")
            self.assertEqual(page.run("document.querySelector('#cases-table th').ariaSort"), "ascending")

    def test_report_exits_5_and_keeps_the_old_page_if_it_cannot_write(self):
        folder = self.folder / "full"
        folder.mkdir()
        (folder / "x.html").write_text("old", encoding="utf-8")
        done = subprocess.run(["prlimit", "--fsize=20000", PROGRAM, "report", self.folder / "usual-0.json", "--html", folder / "x.html"],
                              text=True, capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout), (5, ""))
        self.assertRegex(done.stderr, r"\Adpbench: not written: .*/x.html: File too large\n\Z")
        self.assertEqual([path.name for path in folder.iterdir()], ["x.html"])
        self.assertEqual((folder / "x.html").read_text(encoding="utf-8"), "old")

    def test_a_matplotlibrc_of_the_user_is_ignored(self):
        folder = self.folder / "styled"
        folder.mkdir()
        (folder / "matplotlibrc").write_text("xtick.major.size: 20\naxes.xmargin: 0.4\n", encoding="utf-8")
        for where in (self.folder, folder):
            subprocess.run([PROGRAM, "report", self.folder / "one-0.json", "--html", folder / f"{where.name}.html"], cwd=where, check=True,
                           capture_output=True)
        self.assertEqual((folder / "styled.html").read_bytes(), (folder / f"{self.folder.name}.html").read_bytes())

    def test_charts_are_written_as_svg_and_png_with_their_caption(self):
        names = {path.name for path in (self.folder / "charts").iterdir()}
        kinds = {re.match("[a-z]+", name)[0] for name in names}
        self.assertEqual(kinds, {"throughput", "efficiency", "strategies", "parts", "samples", "memory", "history", "allreduce", "plan"})
        self.assertEqual(len(names), 2 * CHARTS["everything"])
        for path in (self.folder / "charts").iterdir():
            if path.suffix == ".svg":
                said = " ".join(" ".join(xml.parse(path).getroot().itertext()).split())
                measured = (r"\bn = \d", r"\bcommits? \w{7}\b", r"\b2 cores\b.*\bAMD EPYC|2xEPYC")
                for word in ("Predicted", "400TF") if path.name == "plan.svg" else measured:
                    self.assertRegex(said, word, path.name)
                if path.name.startswith(("throughput", "efficiency", "strategies", "memory-mnist", "history")):
                    self.assertIn("LineCollection", path.read_text(encoding="utf-8"), f"{path.name}: no error bars")
            else:
                width, height = struct.unpack(">II", path.read_bytes()[16:24])
                self.assertEqual(width, 860)
                self.assertGreater(height, 400)


if __name__ == "__main__":
    unittest.main()
