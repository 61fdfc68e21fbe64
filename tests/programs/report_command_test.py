"""report_command_test.py DPBENCH: tests the program `dpbench report` up to the drawing: rejected input, the arguments
of the drawing script, and messages if nothing can be drawn. A stub replaces the Python that draws."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

import sample_runs

PROGRAM = os.path.abspath(sys.argv.pop(1))


class ReportCommand(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dpbench-report-")
        self.addCleanup(folder.cleanup)
        self.folder = os.path.realpath(folder.name)
        self.python = self.put("python", '#!/bin/sh\nprintf "%s\\n" "$@"\n')
        os.chmod(self.python, 0o755)
        self.run_file = self.put("results/20261121T063057Z-a-m/run.json", sample_runs.usual())

    def put(self, name, content):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(content if isinstance(content, str) else json.dumps(content))
        return path

    def dpbench(self, *words, code=0, **variables):
        environment = dict(os.environ, DPBENCH_PYTHON=self.python) | variables
        done = subprocess.run([PROGRAM, "report", *words], cwd=self.folder, env=environment, text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        if code:
            self.assertEqual(done.stdout, "")
            self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
            self.assertTrue(done.stderr.startswith("dpbench: "), done.stderr)
        return done

    def arguments_of_script(self, *words):
        """Returns the arguments that dpbench passes to the drawing script, without the interpreter's flags and the
        script's path."""
        flags, script, *rest = self.dpbench(*words).stdout.splitlines()
        self.assertEqual(flags, "-EsB")
        self.assertTrue(os.path.isfile(script) and script.endswith("/share/dpbench/charts/report.py"), script)
        self.assertEqual((rest[0], *rest[2:4]), ("--version", "--program", os.path.realpath(PROGRAM)))
        return rest[4:]

    def test_report_passes_the_latest_run_and_absolute_paths_to_the_drawing_script(self):
        self.assertEqual(self.arguments_of_script("--html", "x.html"), ["--html", f"{self.folder}/x.html", self.run_file])
        again = self.put("again.json", sample_runs.usual())
        self.assertEqual(self.arguments_of_script("latest", "again.json", "--html", "x.html", "--charts", "a/b"),
                         ["--html", f"{self.folder}/x.html", "--charts", f"{self.folder}/a/b", self.run_file, again])
        self.assertTrue(os.path.isdir(os.path.join(self.folder, "a/b")))

    def test_report_passes_the_answers_of_runs_older_than_version_1_7_to_the_drawing_script(self):
        old = self.put("old.json", sample_runs.proven(sample_runs.usual()))
        newer = sample_runs.proven(sample_runs.usual())
        newer["schema_version"]["minor"] = 7
        self.put("newer.json", newer)
        reader = self.put("reader", '#!/bin/sh\nwhile [ "$1" != --answers ]; do shift; done\ncat "$2"\n')
        os.chmod(reader, 0o755)
        done = self.dpbench("latest", "old.json", "newer.json", "--html", "x.html", DPBENCH_PYTHON=reader)
        answers = json.loads(done.stdout)  # the cases of `latest` are not checked, so none is ranked
        self.assertEqual(list(answers), [old])
        group = max(answers[old]["groups"], key=lambda group: group["world"])
        self.assertRegex(group["sentences"][0]["text"], r"^dp is fastest\b")

    def test_report_accepts_every_sample_report_of_the_html_page_tests(self):
        for made in (sample_runs.usual(), sample_runs.troubled(), sample_runs.hostile(), sample_runs.many(3), sample_runs.settings(),
                     *sample_runs.history(), sample_runs.conformance(), sample_runs.trained(), sample_runs.report([], status="interrupted")):
            self.arguments_of_script("--html", "x.html", self.put("made.json", made))

    def test_report_passes_a_collectives_file_to_the_drawing_script(self):
        file = self.put("micro.json", sample_runs.collectives())
        self.assertEqual(self.arguments_of_script("--html", "x.html", "--collectives", "micro.json")[2:], ["--collectives", file, self.run_file])

    def test_report_passes_projection_and_plan_files_to_the_drawing_script(self):
        files = [self.put("micro.json", sample_runs.collectives()), self.put("projection.json", {"series": []})]
        self.assertEqual(self.arguments_of_script("--html", "x.html", "--projection", "projection.json", "--collectives", "micro.json")[2:],
                         ["--collectives", files[0], "--projection", files[1], self.run_file])
        plan = self.put("plan.json", {"layouts": []})
        self.assertEqual(self.arguments_of_script("--html", "x.html", "--plan", "plan.json")[2:], ["--plan", plan, self.run_file])

    def test_report_calls_the_script_of_the_html_page_with_the_flag_verdict_for_a_duel_or_comparison(self):
        for made in (sample_runs.duel(), sample_runs.comparison()):
            file = self.put("verdict.json", made)
            self.assertEqual(self.arguments_of_script("verdict.json", "--html", "x.html")[2:], ["--verdict", file])

    def test_report_refuses_a_duel_or_comparison_that_is_damaged_or_beside_other_files(self):
        duel, comparison = sample_runs.duel(), sample_runs.comparison()
        whole = json.dumps(duel)
        bad = {"torn.json": whole[:len(whole) // 2], "foreign.json": {"schema": "other"}, "number.json": {"schema": 3},
               "untrue.json": duel | {"gate": "passed"}, "short.json": comparison | {"judged": [{"case": "a"}]},
               "word.json": comparison | {"gate": "fine"}, "newer.json": comparison | {"schema_version": {"major": 2}},
               "bare.json": {key: value for key, value in comparison.items() if key != "gone"}}
        for name, content in bad.items():
            with self.subTest(name=name):
                file = self.put(name, content)
                self.assertIn(f"{file}: ", self.dpbench(name, "--html", "x.html", code=2).stderr)
        self.put("duel.json", duel)
        self.put("comparison.json", comparison)
        self.put("plan.json", {"layouts": []})
        for words, why in ((("latest", "duel.json"), "duel.json"), (("duel.json", "latest"), "duel.json"),
                           (("comparison.json", "duel.json"), "comparison.json"),
                           (("duel.json", "--plan", "plan.json"), "--plan"),
                           (("duel.json",), "--html")):
            with self.subTest(words=words):
                page = "x.html" if len(words) > 1 else "duel.json"
                self.assertIn(why, self.dpbench("--html", page, *words, code=2).stderr)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "x.html")))

    def test_report_answers_wrong_arguments_with_one_error_line_and_exit_2(self):
        broken, newer = self.put("broken.json", "{"), sample_runs.usual()
        newer["schema_version"]["major"] = 2
        self.put("newer.json", newer)
        self.put("list.json", "[]")
        os.symlink("loop", os.path.join(self.folder, "loop"))
        for words, message in (((), "--html FILE"), (("latest",), "--html FILE"), (("absent", "--html", "x.html"), "absent"),
                            (("broken.json", "--html", "x.html"), broken), (("newer.json", "--html", "x.html"), "newer.json"),
                            (("--html", "no/where/x.html"), "no/where"), (("--html", "results"), "results"),
                            (("--html", "/dev/null"), "/dev/null"), (("--charts", "broken.json"), "broken.json"),
                            (("--charts", "/proc/none"), "/proc/none"), (("--charts", "loop/x"), "loop/x"), (("--html", self.run_file), "run.json"),
                            (("--html", "x.html", "--collectives", "absent.json"), "absent.json"),
                            (("--html", "x.html", "--collectives", "list.json"), "list.json"),
                            (("--html", "x.html", "--collectives", "broken.json"), "broken.json"),
                            (("--html", "x.html", "--projection", "list.json"), "project -o json"),
                            (("--html", "x.html", "--plan", "list.json"), "plan -o json"),
                            (("latest~7", "--html", "x.html"), "is latest~0"), (("--htm", "x.html"), "--html")):
            with self.subTest(words=words):
                self.assertIn(message, self.dpbench(*words, code=2).stderr)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "x.html")))

    def test_report_in_a_deleted_working_directory_refuses_a_relative_html_path_naming_the_flag(self):
        script = f'mkdir gone && cd gone && rmdir ../gone && exec "{PROGRAM}" report "{self.run_file}" --html x'
        done = subprocess.run(["sh", "-c", script], cwd=self.folder, text=True, capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
        self.assertIn("--html 'x': ", done.stderr)

    def test_report_refuses_an_html_path_equal_to_that_of_its_collectives_file(self):
        self.put("micro.json", sample_runs.collectives())
        self.assertIn("micro.json", self.dpbench("--html", "micro.json", "--collectives", "micro.json", code=2).stderr)

    def test_report_without_python_gives_one_error_line_naming_the_variable_dpbench_python_or_python3(self):
        self.assertIn("DPBENCH_PYTHON", self.dpbench("--html", "x.html", code=2, DPBENCH_PYTHON="/absent/python").stderr)
        self.assertIn("python3", self.dpbench("--html", "x.html", code=2, DPBENCH_PYTHON="", PATH="/absent").stderr)

    def test_report_names_the_variable_dpbench_python_in_one_error_line_if_its_interpreter_lacks_matplotlib(self):
        # The flag -S hides site-packages, and so matplotlib.
        bare = self.put("bare", f'#!/bin/sh\nexec "{sys.executable}" -S "$@"\n')
        os.chmod(bare, 0o755)
        self.assertIn("DPBENCH_PYTHON", self.dpbench("--html", "x.html", code=2, DPBENCH_PYTHON=bare).stderr)

    def error_installing_matplotlib(self, **variables):
        """Runs `dpbench report` with an environment in which installing matplotlib fails. Returns the last line of
        stderr."""
        environment = {key: value for key, value in os.environ.items() if key != "DPBENCH_PYTHON" and not key.startswith("PIP_")}
        done = subprocess.run([PROGRAM, "report", "--html", "x.html"], cwd=self.folder, text=True, capture_output=True, check=False,
                              env=environment | variables)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertFalse(os.path.exists(os.path.join(self.folder, "x.html")))
        return done.stderr.splitlines()[-1]

    def test_installing_matplotlib_without_network_fails_and_leaves_nothing(self):
        cache = os.path.join(self.folder, "cache")
        message = self.error_installing_matplotlib(XDG_CACHE_HOME=cache, PIP_NO_INDEX="1", PIP_CONFIG_FILE="/dev/null")
        self.assertRegex(message, "^dpbench: .*matplotlib.*DPBENCH_PYTHON")
        self.assertEqual([name for name in os.listdir(os.path.join(cache, "dpbench")) if not name.endswith(".lock")], [])

    @unittest.skipUnless(os.path.exists("/usr/bin/python3") and not subprocess.run(["/usr/bin/python3", "-m", "pip", "--version"], check=False,
                                                                                   capture_output=True).returncode, "the system's python3 has no pip")
    def test_report_tries_the_systems_pip_for_matplotlib_if_python_has_no_pip(self):
        venv = os.path.join(self.folder, "venv")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", venv], check=True)
        message = self.error_installing_matplotlib(XDG_CACHE_HOME=os.path.join(self.folder, "cache"), PIP_NO_INDEX="1", PIP_CONFIG_FILE="/dev/null",
                                            PATH=f"{venv}/bin:{os.environ['PATH']}")
        self.assertRegex(message, "^dpbench: .*matplotlib")

    def test_the_error_for_an_unwritable_cache_folder_names_the_variable_xdg_cache_home(self):
        self.assertIn("XDG_CACHE_HOME", self.error_installing_matplotlib(XDG_CACHE_HOME="/proc/none"))


if __name__ == "__main__":
    unittest.main()
