"""stored_test.py DPBENCH GOLDEN FAKE_WORKER: tests the programs `dpbench compare`, `export` and `validate` on reports
derived from GOLDEN (a committed example report) and on reports of a run with the fake worker."""
import copy
import csv
import fcntl
import io
import json
import os
import pathlib
import pty
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest
import xml.etree.ElementTree as xml

from drawn_tests import load_tests  # noqa: F401, unittest calls it
from terminals import read_terminal
import reports  # noqa: F401, importing this module validates every report that dpbench writes

PROGRAM, GOLDEN, WORKER = (os.path.abspath(word) for word in sys.argv[1:4])
HERE = os.path.dirname(os.path.abspath(__file__))
LEVELS = (0.99, 1.0, 1.01, 1.0, 1.002)  # factor on the step time of each launch


def report(ddp_factor=1.0, run="20261121T063057Z-a1b2c3d-2xEPYC-5f3a"):
    """Returns a report: GOLDEN's cases with status ok, with five launches each. ddp_factor multiplies ddp's times."""
    with open(GOLDEN, encoding="utf-8") as file:
        made = json.load(file)
    made["id"], made["status"] = run, "complete"
    made["cases"] = [case for case in made["cases"] if case["status"] == "ok"]
    for case in made["cases"]:
        factor = ddp_factor if case["strategy"] == "ddp" else 1
        template = case["launches"][0]
        case["launches"] = []
        for index, level in enumerate(LEVELS):
            launch = copy.deepcopy(template)
            launch["index"] = index
            for rank in launch["ranks"]:
                rank["samples_ns"] = [round(1e6 * factor * level)] * 3
            case["launches"].append(launch)
    return made


class Stored(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="dpbench-stored-")
        self.addCleanup(self.folder.cleanup)

    def put(self, name, content):
        path = os.path.join(self.folder.name, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))
        return path

    def dpbench(self, *words, code=0, **variables):
        environment = {k: v for k, v in os.environ.items() if k != "GITHUB_ACTIONS"} | variables
        done = subprocess.run([PROGRAM, *words], cwd=self.folder.name, env=environment, text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        if code == 2:
            self.assertEqual(done.stdout, "")
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done

    def runs(self, factor):
        self.put("results/20261121T063057Z-a-m/run.json", report())
        self.put("results/20261121T073057Z-b-m/run.json", report(factor))

    def test_compare_passes_an_equally_fast_run(self):
        self.runs(1.001)
        message = self.dpbench("compare", "latest~1", "latest")
        self.assertRegex(message.stdout, "2 same.*passed")

    def test_advise_ranks_the_strategies_of_a_stored_run_in_every_output_format(self):
        golden = pathlib.Path(GOLDEN).with_name("run-1.7.json").read_text(encoding="utf-8")
        name = json.loads(golden)["id"]
        self.put(f"results/{name}/run.json", golden)
        text = self.dpbench("advise").stdout
        self.assertRegex(text, r"\bddp .*\b0\.64x \(0\.49 to 0\.79\)")
        self.assertEqual(self.dpbench("advise", "latest").stdout, text)
        answer = json.loads(self.dpbench("advise", "latest", "-o", "json").stdout)
        self.assertEqual((answer["schema"], answer["id"]), ("dpbench.answer", name))
        for group in answer["answer"]["groups"]:
            for sentence in group["sentences"]:
                self.assertIn(sentence["text"], text)
        self.assertRegex(self.dpbench("advise", "latest", "-o", "markdown").stdout, r"\*\*.*world 1\*\*\n\n- ")
        folded = self.dpbench("advise", COLUMNS="80").stdout
        self.assertLessEqual(max(map(len, folded.splitlines())), 80, folded)
        self.assertEqual(folded.split(), text.split())
        self.dpbench("advise", "latest", "latest", code=2)
        self.dpbench("advise", "absent", code=2)

    def test_advise_exits_4_if_nothing_can_be_compared(self):
        alone = report()
        alone["cases"] = alone["cases"][:1]
        self.dpbench("advise", self.put("alone.json", alone), code=4)

    def test_compare_fails_a_run_beyond_an_absolute_limit_on_its_step_time(self):
        self.runs(1.0)
        self.assertRegex(self.dpbench("compare", "latest~1", "latest", "--fail-on", "median:<1s").stdout, "within.*passed".replace(".*", r"[\s\S]*"))
        self.assertIn("BEYOND", self.dpbench("compare", "latest~1", "latest", "--fail-on", "median:<1us", code=1).stdout)
        self.assertIn("us, ms", self.dpbench("compare", "latest~1", "latest", "--fail-on", "median:<1MiB", code=2).stderr)

    def test_compare_judges_absolute_limits_even_if_the_baseline_was_never_saved(self):
        self.runs(1.0)
        gate = ("compare", "main", "latest", "--fail-on")
        done = self.dpbench(*gate, "median:<1us,p99:5%", code=1)
        self.assertEqual(done.stdout.count("BEYOND"), 2, done.stdout)
        self.assertNotIn("p99", done.stdout)
        self.assertIn("no baseline 'main'", done.stderr)
        document = reports.expect_valid(self.dpbench(*gate, "median:<1s", "-o", "json").stdout)
        self.assertEqual((document["base"], document["gate"], document["added"]), ("main", "passed", []))
        self.assertEqual({(row["base"], row["verdict"]) for row in document["judged"]}, {(None, "within")})
        self.dpbench(*gate, "median:<1us", "--require-baseline", code=2)

    def test_export_chooses_columns_and_sorts_rows(self):
        path = self.put("run.json", report(2.0))
        rows = list(csv.reader(io.StringIO(self.dpbench("export", path, "--to", "csv", "--columns", "strategy,step", "--sort", "step:desc").stdout)))
        self.assertEqual(rows[0], ["strategy", "step_time_ns"])
        times = [float(row[1]) for row in rows[1:]]
        self.assertEqual(times, sorted(times, reverse=True))
        self.assertIn("STEP ms", self.dpbench("export", path, "--to", "table").stdout)
        self.assertIn("'stpe'", self.dpbench("export", path, "--to", "csv", "--sort", "stpe", code=2).stderr)
        self.dpbench("export", path, "--to", "junit", "--sort", "step", code=2)

    def test_compare_fails_a_slower_run(self):
        self.runs(1.1)
        message = self.dpbench("compare", "latest~1", "latest", code=1)
        self.assertRegex(message.stdout, r"ddp/.*\+10\.0 % .*SLOWER")
        self.assertRegex(message.stdout, "1 worse, 1 same.*FAILED")
        self.dpbench("compare", "latest~1", "latest", "--fail-on", "median:20%")
        self.dpbench("compare", "latest~1", "latest", "--fail-on", "ratio-to-baseline:5%", code=1)

    def test_compare_exits_4_for_an_unclear_run_only_with_strict(self):
        self.runs(1.045)
        self.assertIn("inconclusive", self.dpbench("compare", "latest~1", "latest").stdout)
        self.dpbench("compare", "latest~1", "latest", "--strict", code=4)

    def test_compare_prints_one_json_or_markdown_document(self):
        self.runs(1.1)
        message = self.dpbench("compare", "latest~1", "latest", "--fail-on", "median:5%,efficiency:3", "-o", "json", code=1)
        document = reports.expect_valid(message.stdout)
        self.assertEqual(document["gate"], "failed")
        self.assertEqual({row["metric"]: row["change_points"] is None for row in document["judged"]}, {"median": True, "efficiency": False})
        message = self.dpbench("compare", "latest~1", "latest", "-o", "markdown", code=1)
        self.assertTrue(message.stdout.startswith("| CASE |"), message.stdout)

    def test_compare_writes_github_annotations_to_stderr_on_github_or_on_request(self):
        self.runs(1.1)
        gate = ("compare", "latest~1", "latest")
        self.assertIn("::error title=dpbench SLOWER::ddp", self.dpbench(*gate, code=1, GITHUB_ACTIONS="true").stderr)
        self.assertNotIn("::error", self.dpbench(*gate, code=1).stderr)
        self.assertIn("::error", self.dpbench(*gate, "--annotations", "github", code=1).stderr)
        self.assertNotIn("::error", self.dpbench(*gate, "--annotations", "none", code=1, GITHUB_ACTIONS="true").stderr)

    def test_a_gate_file_sets_the_limits_of_compare_per_case(self):
        self.runs(1.1)
        gate = self.put("gate.json", {"fail_on": ["median:5%"], "cases": [{"match": "ddp/*", "fail_on": ["median:20%"]}]})
        self.dpbench("compare", "latest~1", "latest", "--gate", gate)
        self.dpbench("compare", "latest~1", "latest", "--gate", gate, "--fail-on", "median:5%", code=2)
        self.dpbench("compare", "latest~1", "latest", "--gate", self.put("bad.json", "{"), code=2)
        typo = self.put("typo.json", {"fail_on": ["median:5%"], "cases": [{"match": "dpp/*", "fail_on": ["median:20%"]}]})
        self.assertIn('"dpp/*"', self.dpbench("compare", "latest~1", "latest", "--gate", typo, code=2).stderr)

    def test_compare_fails_for_a_missing_baseline_only_if_it_is_required(self):
        self.runs(1)
        self.assertIn("--save-baseline main", self.dpbench("compare", "main", "latest").stderr)
        self.dpbench("compare", "main", "latest", "--require-baseline", code=2)
        self.dpbench("compare", "./main", "latest", code=2)
        self.dpbench("compare", "main", "nothing", code=2)
        self.put("results/baselines/main.json", report(0.8))
        self.dpbench("compare", "main", "latest", code=1)

    def test_compare_rejects_runs_of_different_machines_naming_the_field(self):
        other = report()
        other["env"]["cpu"]["model"] = "Other CPU"
        base, new = self.put("base.json", report()), self.put("new.json", other)
        self.assertRegex(self.dpbench("compare", base, new, code=2).stderr, r"cpu\.model.*AMD EPYC.*Other CPU")
        self.dpbench("compare", base, new, "--allow-env-diff")
        self.dpbench("compare", base, new, "--fail-on", "ratio-to-baseline:5%")

    def test_invalid_reports_give_one_error_line_and_exit_2(self):
        good = json.dumps(report())
        bad = {"empty": "", "truncated": good[: len(good) // 2], "deep": "[" * 1000000, "nan": good.replace('"batch": 64', '"batch": NaN', 1),
               "other": '{"context": {}, "benchmarks": []}', "newer": good.replace('"major": 1', '"major": 2'),
               "twice": good.replace("{", '{"id": "x", "id": "y", ', 1), "spaces": " \n" * 1000, "list": "[]", "number": "1",
               "schema": good.replace('"dpbench.run"', '"dpbench.duel"', 1), "no-cases": good.replace('"cases"', '"case"'),
               "infinite": good.replace('"batch": 64', '"batch": 1e999', 1), "text-time": good.replace("1000000,", '"1000000",', 1),
               "below-zero": good.replace("1000000,", "-1000000,", 1), "two": good + good, "deep-object": '{"a":' * 100000,
               "keys": json.dumps(report() | {"config": {str(i): 0 for i in range(200000)}}), "values": "[" + "1," * 40000000 + "1]"}
        base = self.put("base.json", good)
        for name, text in bad.items():
            with self.subTest(name):
                self.assertNotEqual(text, good)
                file = self.put(name + ".json", text)
                for words in (("compare", base, file), ("compare", file, base), ("export", file, "--to", "csv"), ("validate", file)):
                    self.assertIn(name + ".json", self.dpbench(*words, code=2).stderr)
        with open(self.put("bytes.json", ""), "wb") as file:
            file.write(good.replace("AMD", "A\xff").encode("latin-1"))
        for words in (("compare", base, "bytes.json"), ("export", "bytes.json", "--to", "csv"), ("validate", "bytes.json")):
            self.dpbench(*words, code=2)
        for words in (("compare", base), ("compare",), ("compare", base, base, base), ("compare", base, base, "--fail-on", "x"),
                      ("export", base), ("export", base, "--to", "pdf"), ("validate",), ("validate", "absent.json")):
            self.dpbench(*words, code=2)

    def test_a_report_above_512_mib_is_rejected_at_once(self):
        base, huge = self.put("base.json", report()), self.put("huge.json", "")
        os.truncate(huge, (512 << 20) + 1)
        for words in (("compare", base, huge), ("export", huge, "--to", "csv"), ("validate", huge)):
            began = time.monotonic()
            self.assertRegex(self.dpbench(*words, code=2).stderr, r"huge\.json.*512 MiB")
            self.assertLess(time.monotonic() - began, 5)

    def test_reading_hostile_reports_of_512_mib_takes_at_most_3_gib(self):
        size = 512 << 20
        base, file = self.put("base.json", report()), os.path.join(self.folder.name, "hostile.json")
        # Of all JSON documents, a list of empty strings takes the most memory per byte.
        for name, text, message in (("texts", b"[" + b'"",' * (size // 3 - 1) + b"1]", "1024 MiB"),
                                 ("deep", b"[" * size, "64"), ("text", b'["' + b"x" * (size - 4) + b'"]', "object")):
            with self.subTest(name):
                with open(file, "wb") as out:
                    out.write(text)
                for words in (("validate", file),) + ((("compare", base, file),) if name == "deep" else ()):
                    done = subprocess.run(["sh", "-c", 'ulimit -v 3145728; exec "$@"', "sh", PROGRAM, *words], text=True, capture_output=True,
                                          check=False)
                    self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
                    self.assertRegex(done.stderr, r"^dpbench: .*hostile.json: .*\n$")
                    self.assertIn(message, done.stderr)

    # The report holds as many empty strings as the memory limit accepts: dpbench counts each string as 72 bytes.
    # dpbench reads the second report after it has reduced the first to its figures.
    def test_reading_one_or_two_documents_of_the_largest_accepted_size_takes_at_most_3_gib(self):
        file = self.put("large.json", json.dumps(report() | {"config": {"x": 0}}).replace('"x": 0', '"x": [' + '"",' * 14_500_000 + "1]"))
        for words in (("compare", file, file), ("validate", file)):
            process = subprocess.Popen([PROGRAM, *words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            self.assertIn(process.returncode, (0, 1), "the document is read")
            self.assertLess(usage.ru_maxrss, 3 << 20)
            self.assertGreater(usage.ru_maxrss, 1 << 20)

    def test_too_little_memory_for_a_report_gives_one_error_line(self):
        big = report() | {"config": {"x": [list(range(1000))] * 10000}}
        file = self.put("big.json", big)
        done = subprocess.run(["sh", "-c", 'ulimit -v 150000; exec "$@"', "sh", PROGRAM, "validate", file], text=True, capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
        self.assertRegex(done.stderr, r"big\.json.*memory")

    def test_control_characters_and_markup_of_a_report_are_not_printed(self):
        hostile = report()
        hostile["cases"][1]["id"] = "ddp/\x1b[31m|<b>\u202e\n::error::"
        file, base = self.put("hostile.json", hostile), self.put("base.json", report())
        for words, code in ((("compare", base, file, "-o", "markdown"), 0), (("compare", base, file, "--annotations", "github"), 0),
                            (("export", file, "--to", "markdown"), 0), (("validate", file), 1)):
            done = self.dpbench(*words, code=code)
            for bad in ("\x1b", "\u202e", "\n::error::"):
                self.assertNotIn(bad, done.stdout + done.stderr, words)

    def test_comparing_reports_without_a_common_case_is_an_error(self):
        other = report()
        for case in other["cases"]:
            case["id"] += "/x=1"
        self.dpbench("compare", self.put("a.json", report()), self.put("b.json", other), code=2)

    def test_exported_files_parse_as_their_formats(self):
        file = self.put("run.json", report())
        self.assertEqual(len(json.loads(self.dpbench("export", file, "--to", "gbench").stdout)["benchmarks"]), 10)
        self.assertEqual(xml.fromstring(self.dpbench("export", GOLDEN, "--to", "junit").stdout).get("failures"), "1")
        rows = list(csv.DictReader(io.StringIO(self.dpbench("export", GOLDEN, "--to", "csv").stdout)))
        self.assertEqual([row["status"] for row in rows], ["ok", "ok", "wrong", "failed", "skipped", "interrupted"])
        self.assertIn("| STRATEGY |", self.dpbench("export", file, "--to", "markdown").stdout)

    def on_a_terminal(self, columns, *words):
        """Runs dpbench with a terminal of this width as stdout. Returns what it printed."""
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
        with subprocess.Popen([PROGRAM, *words], stdout=theirs, env={**os.environ, "COLUMNS": ""}) as run:
            os.close(theirs)
            printed = read_terminal(ours)
        self.assertEqual(run.returncode, 0)
        return printed.decode()

    def test_exported_tables_wrap_at_the_width_of_the_terminal_or_variable_columns_and_lose_no_word(self):
        export = ("export", GOLDEN, "--to", "table")
        whole = self.on_a_terminal(250, *export)
        self.assertGreater(max(map(len, whole.splitlines())), 120)
        piped = self.dpbench(*export, COLUMNS="").stdout.splitlines()
        self.assertEqual(len(piped), len(whole.splitlines()))
        for line, shown in zip(piped, whole.splitlines()):  # notes are cut on a terminal only
            self.assertTrue(line.startswith(shown.removesuffix("…")), (line, shown))
        for folded in (self.on_a_terminal(80, *export), self.dpbench(*export, COLUMNS="80").stdout):
            self.assertLessEqual(max(map(len, folded.splitlines())), 80, folded)
            self.assertEqual(sorted(folded.split()), sorted(whole.split()))

    def test_a_report_that_contradicts_its_checks_or_has_a_case_twice_is_not_compared(self):
        with open(GOLDEN, encoding="utf-8") as file:
            golden = json.load(file)
        good = self.put("good.json", golden)
        for forge, words in ((lambda cases: next(case for case in cases if case["status"] == "ok")["checks"].append(
                                 {"name": "x", "status": "failed", "compared": "", "error": None, "bound": None, "detail": "", "likely": ""}),
                              "wrong"),
                             (lambda cases: cases.append(cases[0]), "twice")):
            forged = json.loads(json.dumps(golden))
            forge(forged["cases"])
            file = self.put("forged.json", forged)
            for words_of in ((good, file), (file, good)):
                self.assertIn(words, self.dpbench("compare", *words_of, code=2).stderr)

    def test_export_accepts_a_report_whose_environment_has_wrong_types(self):
        with open(GOLDEN, encoding="utf-8") as file:
            hostile = json.load(file)
        hostile["env"]["cpu"].update({"usable": "x", "max_mhz": {}})
        self.assertIn('"num_cpus": 1', self.dpbench("export", self.put("hostile.json", hostile), "--to", "gbench").stdout)

    def test_validate_recomputes_figures_and_names_one_that_differs(self):
        self.assertRegex(self.dpbench("validate", GOLDEN).stdout, "valid.*6 cases")
        with open(GOLDEN, encoding="utf-8") as file:
            forged = json.load(file)
        forged["cases"][1]["derived"]["speedup"] *= 2
        message = self.dpbench("validate", self.put("forged.json", forged), GOLDEN, code=1)
        self.assertIn("derived.speedup", message.stderr)
        self.assertIn("valid", message.stdout)
        for case in forged["cases"]:
            for value in (case["stats"]["step_time_ns"], case["derived"]):
                for name in value or {}:
                    value[name] = 1.2345e-3 if isinstance(value[name], float) else value[name]
        message = self.dpbench("validate", self.put("forged.json", forged), code=1).stderr.splitlines()
        self.assertEqual(len(message), 11, message)
        self.assertRegex(message[-1], r"forged\.json: .*\d+ more")

    def test_a_run_matches_its_schema_and_can_be_saved_as_a_baseline(self):
        run = ("--cpus", "1,2", "--workload", "toy", "--launches", "4", "--samples", "3", "--warmup", "0", "-o", "none", "-q")
        self.dpbench(*run, "--save-baseline", "main", DPBENCH_WORKER=WORKER)
        self.dpbench(*run, DPBENCH_WORKER=WORKER)
        results = os.path.join(self.folder.name, "results")
        files = [os.path.join(results, "baselines", "main.json"), os.path.join(results, sorted(os.listdir(results))[0], "run.json")]
        self.dpbench("validate", *files)
        schema = os.path.join(HERE, "..", "..", "results", "schema", "run-1.schema.json")
        for python in ("python3", "/usr/bin/python3"):
            done = subprocess.run([python, os.path.join(HERE, "..", "support", "check_schema.py"), "--closed", schema, *files],
                                  text=True, capture_output=True, check=False)
            if done.returncode != 3:
                break
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr or "apt-get install python3-jsonschema")
        self.assertIn("Gate:", self.dpbench("compare", "main", "latest", "--fail-on", "median:99%").stdout)
        self.dpbench(*run, "--save-baseline", "../main", code=2, DPBENCH_WORKER=WORKER)

    def test_a_run_with_a_wrong_or_failed_case_does_not_replace_the_baseline(self):
        run = ("--strategy", "ddp", "--cpus", "2", "--workload", "toy", "--launches", "4", "--samples", "3", "--warmup", "0", "-o", "none", "-q",
               "--save-baseline", "main")
        self.dpbench(*run, DPBENCH_WORKER=WORKER)
        (kept,) = pathlib.Path(self.folder.name, "results/baselines").iterdir()
        before = kept.read_bytes()
        for fault, code, word in (("wrong", 1, "wrong"), ("exit7", 3, "failed")):
            message = self.dpbench(*run, "--param", f"ddp.fault=none,{fault}", code=code, DPBENCH_WORKER=WORKER).stderr
            self.assertRegex(message, rf"(?m)^dpbench: .*'main'.*ddp/toy\S+fault={fault} .*{word}.*--filter")
            self.assertEqual(message.count("'main'"), 1)
        self.assertEqual(kept.read_bytes(), before)

    def test_export_exits_5_if_stdout_is_full(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            done = subprocess.run([PROGRAM, "export", GOLDEN, "--to", "csv"], stdout=full, stderr=subprocess.PIPE, check=False)
        self.assertEqual(done.returncode, 5)


unittest.main(argv=sys.argv[:1])
