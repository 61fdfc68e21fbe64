"""schedule_command_test.py DPBENCH: tests the program `dpbench schedule`: the picture, figures and exit codes, files of
the user's own, and one-line refusals of bad input."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

import sample_runs

PROGRAM = os.path.abspath(sys.argv.pop(1))
NAMES = ("gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zbv", "dualpipe")
# A recorded step of 1f1b: rank, action, begin and end in ms. The action 0SEND_F1 sends the output of stage 0 for
# micro-batch 1. A forward pass (F) takes 10 ms on stage 0 and 20 ms on stage 1, a backward pass (B) 30 and 40 ms. An
# activation arrives 5 ms after its send begins, a gradient after 6 ms.
RAN = ((0, "0F0", 100, 110), (0, "0SEND_F0", 110, 111), (0, "0F1", 112, 122), (0, "0SEND_F1", 122, 123),
       (0, "0RECV_B0", 123, 182), (0, "0B0", 182, 212), (0, "0RECV_B1", 212, 244), (0, "0B1", 244, 274),
       (1, "1RECV_F0", 90, 115), (1, "1F0", 115, 135), (1, "1RECV_F1", 135, 178), (1, "1B0", 136, 176),
       (1, "1SEND_B0", 176, 177), (1, "1F1", 178, 198), (1, "1B1", 198, 238), (1, "1SEND_B1", 238, 239))
DEADLOCK = "0F0,0B0,0F1,0B1\n1F0,1F1,1B0,1B1\n"


class ScheduleCommand(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="dpbench-schedule-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def put(self, name, text):
        with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
            file.write(text)

    def schedule(self, *words, code=0, columns=""):
        done = subprocess.run([PROGRAM, "schedule", *words], cwd=self.folder, text=True, capture_output=True,
                              check=False, env={**os.environ, "COLUMNS": columns})
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def refused(self, *words):
        done = self.schedule(*words, code=2)
        self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1), done.stderr)
        return done.stderr

    def document(self, *words, code=0):
        return json.loads(self.schedule(*words, "-o", "json", code=code).stdout)

    def test_every_built_in_schedule_is_valid_and_its_bubble_formula_equals_the_simulation(self):
        for name in NAMES:
            text = self.schedule(name, "--stages", "4", "--microbatches", "8").stdout
            self.assertIn("15 rules", text)
            self.assertEqual(len(re.findall(r"^rank \d", text, re.MULTILINE)), 4)
            found = re.search(r"= (\S+), simulated (\S+)", text)
            self.assertEqual(found[1], found[2], text)

    def test_all_ranks_of_all_schedules_are_busy_equally_long_if_the_costs_are_equal(self):
        for name in NAMES:
            document = self.document(name, "--costs", "f=2,b=2,w=2")
            self.assertEqual({rank["busy"] for rank in document["per_rank"]}, {48}, name)

    def test_a_bubble_formula_that_does_not_apply_is_printed_with_its_conditions(self):
        text = self.schedule("zb-h1", "--costs", "send=1").stdout
        self.assertRegex(text, r"\(P-1\)\(F\+B-W\), .* M >= P, W <= F\b.* \d+\n$")

    def test_dpbench_schedule_compares_several_schedules_with_a_line_for_each(self):
        text = self.schedule(*NAMES).stdout
        for name in NAMES:
            self.assertRegex(text, rf"(?m)^{name} .* right$")

    def test_the_json_of_a_schedule_has_the_actions_of_each_rank_with_transfers_and_times(self):
        document = self.document("1f1b", "--stages", "2", "--microbatches", "2")
        self.assertEqual((document["makespan"], document["bubble"], document["formula"]["value"]), (9, 3, 3))
        self.assertEqual(document["per_rank"][1]["order"][:4], ["1RECV_F0", "1RECV_F1", "1F0", "1B0"])
        self.assertEqual(document["per_rank"][1]["computations"][1], {"action": "1B0", "start": 2, "end": 4})

    def test_dpbench_schedule_reads_back_its_own_csv_with_and_without_transfers(self):
        for words in ([], ["--transfers"]):
            text = self.schedule("zbv", *words, "-o", "csv").stdout
            self.put("mine.csv", text)
            self.assertEqual(self.schedule("mine.csv", *words, "-o", "csv").stdout, text)
            self.assertRegex(self.schedule("mine.csv").stdout, r"\nmakespan [\d.]+\n$")
        self.assertIn("0SEND_F0", text)

    def test_dpbench_schedule_adds_sends_to_a_file_whose_only_other_actions_are_unshards_and_reductions(self):
        self.put("mine.csv", "0F0,0F1,0I0,0F2,0I1,0W0,0I2,0W1,0W2\n"
                             "1UNSHARD,1F0,1I0,1F1,1I1,1W0,1F2,1I2,1W1,1W2,1REDUCE_GRAD\n")
        self.assertEqual(self.document("mine.csv")["per_rank"][1]["order"][0], "1RECV_F0")

    def test_the_svg_picture_of_a_schedule_is_well_formed_xml(self):
        xml.dom.minidom.parseString(self.schedule("dualpipe", "-o", "svg").stdout)

    def test_the_picture_of_a_schedule_in_the_documentation_equals_the_programs_drawing(self):
        picture = pathlib.Path(__file__).parents[2] / "strategies/schedule/zb-h1.svg"
        self.assertEqual(self.schedule("zb-h1", "-o", "svg").stdout, picture.read_text(encoding="utf-8"))

    def test_an_invalid_schedule_exits_1_and_names_the_broken_rule_in_every_output_format(self):
        self.put("mine.csv", DEADLOCK)
        self.assertIn("deadlock: rank 0, action 1, 0B0 ", self.schedule("mine.csv", code=1).stdout)
        (fault,) = self.document("mine.csv", code=1)["faults"]
        self.assertEqual((fault["rule"], fault["rank"], fault["stage"], fault["microbatch"]), ("deadlock", 0, 0, 0))
        done = self.schedule("mine.csv", "-o", "svg", code=1)
        self.assertEqual(done.stdout, "")
        self.assertIn("deadlock", done.stderr)
        self.assertRegex(self.schedule("1f1b", "mine.csv", code=1).stdout, r"(?m)^mine.csv .* deadlock$")

    def test_a_schedule_that_breaks_a_given_limit_or_has_other_sizes_than_given_exits_1_with_the_broken_rule(self):
        self.assertIn("live-activations", self.schedule("gpipe", "--live", "4", code=1).stdout)
        self.assertIn("receive-slot", self.schedule("interleaved", "--slots", "1", code=1).stdout)
        self.put("mine.csv", self.schedule("1f1b", "-o", "csv").stdout)
        self.assertIn("missing-work", self.schedule("mine.csv", "--microbatches", "9", code=1).stdout)
        self.assertIn("missing-work", self.schedule("mine.csv", "--chunks", "2", code=1).stdout)
        self.assertIn("unknown-work", self.schedule("mine.csv", "--microbatches", "7", code=1).stdout)

    def test_a_schedule_reduces_the_gradients_of_tied_stages_once_at_the_end(self):
        text = self.schedule("1f1b", "--tie", "0,3", "--transfers", "-o", "csv").stdout
        self.assertEqual([line.split(",")[-1] for line in text.splitlines()][::3], ["0REDUCE_TIED", "3REDUCE_TIED"])

    def test_schedule_list_shows_the_bubble_formulas_and_the_rules_of_the_verifier(self):
        text = self.schedule("--list").stdout
        for word in (*NAMES, "(P-1)(F+B-W)", "gradient-order", "deadlock-unbuffered"):
            self.assertIn(word, text)

    def test_every_output_of_dpbench_schedule_wraps_at_80_columns(self):
        self.put("deadlock.csv", DEADLOCK)
        self.put_trace("hand.trace.json")
        for words, code in ((["--list"], 0), (["zb-h1", "--costs", "send=1,bytes=5,rate=2"], 0), (NAMES, 0),
                            (["deadlock.csv"], 1), (["1f1b", "deadlock.csv"], 1), (["--measured", "hand.trace.json"], 0)):
            with self.subTest(words=words):
                text = self.schedule(*words, code=code, columns="80").stdout
                self.assertLessEqual(max(map(len, text.splitlines())), 80, text)

    def put_trace(self, name, pipelines=1, left_out=None):
        """Writes a trace with two steps of each pipeline. In the second step, the action 0B1 (backward pass of stage 0
        on micro-batch 1) takes 4 ms longer. left_out: action that the trace lacks."""
        events = [{"ph": "X", "cat": "pipeline", "name": action, "pid": 1000 * (2 * pipeline + rank), "tid": 1,
                   "ts": 1000 * begin + 1e6 * step,
                   "dur": 1000 * (end - begin + (4 if step and action == "0B1" else 0)),
                   "args": {"pipeline": pipeline, "place": rank, "step": step}}
                  for pipeline in range(pipelines) for step in (0, 1)
                  for rank, action, begin, end in RAN if action != left_out]
        self.put(name, json.dumps({"traceEvents": events}))

    def test_a_measured_schedule_is_shown_beside_its_plan_and_its_formula(self):
        self.put_trace("hand.trace.json")
        text = self.schedule("--measured", "hand.trace.json").stdout
        self.assertRegex(text, r"1f1b: 2 ranks .*\b1 stage .*\b2 micro-batches\b.*\b2 traced steps\b.*\bms\n")
        self.assertRegex(text, r"STAGE +RANK +F +B\n +0 +0 +10\.000 +30\.000\n +1 +1 +20\.000 +40\.000\n")
        self.assertRegex(text, r"\b0 to 1 5\.000\b.*\b1 to 0 6\.000\n")
        picture = r"rank 0 F0-+ +F1-+ +B0-+ +B1-+\nrank 1 +F0-+ +B0-+ +F1-+ +B1-+\n"
        self.assertRegex(text, rf":\n{picture}.*:\n{picture}")
        self.assertRegex(text, r"\n +0 +80\.000 +50\.000 +91\.000 +53\.2 % +94\.000 +54\.0 %\n")
        self.assertRegex(text, r"\n +1 +120\.000 +50\.000 +51\.000 +29\.8 % +54\.000 +31\.0 %\n")
        self.assertRegex(text, r"\n.*\b150\.000 .*\b171\.000 .*\b174\.000 .*\b1\.8 % .*\n$")

    def test_the_picture_of_a_measured_schedule_draws_plan_and_run_on_one_scale(self):
        self.put_trace("hand.trace.json")
        picture = xml.dom.minidom.parseString(self.schedule("--measured", "hand.trace.json", "-o", "svg").stdout)
        boxes = [group for group in picture.getElementsByTagName("g")
                 if group.getElementsByTagName("title")[0].firstChild.data.startswith("0B1")]
        ends = [float(box.getAttribute("x")) + float(box.getAttribute("width"))
                for box in (group.getElementsByTagName("rect")[0] for group in boxes)]
        self.assertEqual(len(ends), 2)
        # The lanes of the picture begin at x = 64.
        self.assertAlmostEqual((ends[0] - 64) / (ends[1] - 64), 171 / 174, places=4)

    def test_schedule_measured_shows_each_pipeline_of_a_trace_and_each_trace_of_a_run(self):
        os.makedirs(os.path.join(self.folder, "mine", "traces"))
        self.put(os.path.join("mine", "run.json"), json.dumps(sample_runs.report([sample_runs.case("ddp", world=2, step_ns=162.5e6)])))
        ran = "ddp_mnist-mlp_cpu_2_shm_weak_b64_f32_fast"
        self.put_trace(os.path.join("mine", "traces", "a.trace.json"), pipelines=2)
        self.put_trace(os.path.join("mine", "traces", ran + ".trace.json"))
        self.put(os.path.join("mine", "traces", "z.trace.json"), '{"traceEvents": []}')
        text = self.schedule("--measured", "mine").stdout
        self.assertEqual(re.findall(r"(?m)^(\S+)\.trace\.json$", text), ["a", "a", ran])
        self.assertRegex(text, r"\n +2 +80\.000 .*\n +3 +120\.000 ")  # ranks 2 and 3 form the second pipeline
        self.assertEqual(re.findall(r"(?m)^step without the profiler, .* (\S+), the run's median$", text), ["162.500"])
        self.assertTrue(text.endswith("the run's median\n"))

    def test_schedule_measured_refuses_incomplete_traces_and_arguments_that_do_not_apply(self):
        self.put_trace("hand.trace.json")
        self.put_trace("broken.trace.json", left_out="1B1")
        self.put_trace("two.trace.json", pipelines=2)
        self.put("empty.trace.json", '{"traceEvents": []}')
        for words, part in ((["none.trace.json"], "'none.trace.json'"),
                            (["empty.trace.json"], " --trace"),
                            (["broken.trace.json"], "missing-work: rank 1"),
                            (["hand.trace.json", "1f1b"], "leave out '1f1b'"),
                            (["hand.trace.json", "-o", "json"], "-o json"),
                            (["two.trace.json", "-o", "svg"], "two.trace.json has 2"),
                            (["hand.trace.json", "--stages", "2"], "--stages")):
            self.assertIn(part, self.refused("--measured", *words), words)

    def test_dpbench_schedule_refuses_bad_input_in_one_line_that_names_the_mistake(self):
        self.put("bad.csv", "0F0,0B0\n1F0,1X0\n")
        for words, part in ((["1f1c"], "mean '1f1b'"),
                            ([], "dpbench schedule 1f1b"),
                            (["."], "directory"),
                            (["bad.csv"], "bad.csv, line 2, cell 2: '1X0'"),
                            (["bad.csv", "--stages", "3"], "bad.csv"),
                            (["zbv", "--chunks", "3"], "2 chunks"),
                            (["dualpipe", "--microbatches", "7"], "of micro-batches"),
                            (["1f1b", "--stages", "0"], "--stages"),
                            (["1f1b", "--stages", "256", "--microbatches", "4096"], "256 stages"),
                            (["1f1b", "--costs", "f=1,x=2"], "'x=2'"),
                            (["1f1b", "--costs", "f=0"], "'0'"),
                            (["1f1b", "--costs", "f=1,f=2"], "twice"),
                            (["1f1b", "--costs", "f=nan"], "'nan'"),
                            (["1f1b", "--costs", "bytes=5"], " rate"),
                            (["1f1b", "--tie", "0,9"], "'9'"),
                            (["1f1b", "--tie", "0"], "--tie '0'"),
                            (["1f1b", "gpipe", "-o", "svg"], "-o svg"),
                            (["1f1b", "--transfers"], "--transfers"),
                            (["dualpipe", "-o", "csv"], "-o json"),
                            (["--list", "1f1b"], "leave out '1f1b'")):
            self.assertIn(part, self.refused(*words), words)


if __name__ == "__main__":
    unittest.main()
