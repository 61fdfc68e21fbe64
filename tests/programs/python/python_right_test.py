"""Strategies and models in Python that are right: they pass their checks, train and compute the same bits as in C++, or
are refused with the remedy. scripts/parts/pytorch-strategies checks every option of PyTorch's own strategies.

usage: python_right_test.py DPBENCH
"""
import json
import pathlib
import subprocess
import tempfile
import unittest

from drawn_tests import load_tests  # noqa: F401, unittest calls it
from python_runs import BRIEF, DPBENCH, EXAMPLE, ROOT, call, checked, interpreter

MODELS = ROOT / "tests/python/transformer.py"
# With this seed, ranks, micro-batches and the sample that replaces another have different lengths.
PADDED = ("--cpus", "2", "--backend", "shm", "--seed", "1008")
NEW_GROUPS = ROOT / "tests/python/new_groups.py"


class Right(unittest.TestCase):
    def assert_no_failure(self, code, report, at_least):
        failed = [(case["id"], row) for case in report["cases"] for row in case["checks"] if row["status"] == "failed"]
        failed += [(case["id"], case["status"], case["seed"], case["reason"]) for case in report["cases"] if case["status"] not in ("ok", "unproven")]
        self.assertEqual((code, failed), (0, []), failed)
        self.assertGreaterEqual(sum(row["status"] == "passed" for case in report["cases"] for row in case["checks"]), at_least)

    def test_the_example_strategy_and_pytorchs_own_strategies_pass_their_checks(self):
        strategies = ["plain-average", "py-ddp", "py-zero1", "py-fsdp2"]
        code, report = checked(EXAMPLE, ",".join(strategies), "--workload", "probe-batch-norm", "--cpus", "2",
                               "--backend", "gloo,shm", numpy=False)
        self.assert_no_failure(code, report, 250)
        self.assertEqual(sorted((case["strategy"], case["backend"]) for case in report["cases"]),
                         sorted((strategy, backend) for strategy in strategies for backend in ("gloo", "shm")))

    def test_pytorchs_tensor_parallelism_ring_attention_and_pipelines_pass_their_checks_without_numpy(self):
        gpt2 = "layers=1,hidden=12,heads=2,mlp=16,vocab=128,seq=5,padding=on,dropout=0.2"
        llama = "style=llama,layers=4,hidden=16,heads=4,kv_heads=2,mlp=22,vocab=131,seq=6,padding=on,tied=off"
        schedules = "py-pp.schedule=1f1b,looped-bfs,interleaved-zb,zbv"
        for strategy, model, cases, params in (
                ("py-tp", gpt2, 1, ()),
                ("py-cp", gpt2 + ",seq=8", 1, ()),
                ("py-cp", llama, 1, ("--param", "balance=off", "--param", "rotate=alltoall")),
                # some other seeds draw a last batch of one sample, which 1f1b refuses
                ("py-pp", llama, 4, ("--param", schedules, "--seed", "2001"))):
            with self.subTest(strategy, model=model):
                code, report = checked(None, strategy, "--workload", "gpt", "--model", model, "--cpus", "2",
                                       "--backend", "shm", *params, numpy=False)
                self.assertEqual(len(report["cases"]), cases)
                self.assert_no_failure(code, report, 30 * cases)

    def test_pytorchs_dualpipev_is_checked_in_part_because_it_refuses_small_batches(self):
        # This seed draws seven samples. dualpipev needs four micro-batches, and refuses the short last batch of an epoch.
        model = "style=llama,layers=4,hidden=16,heads=4,kv_heads=2,mlp=22,vocab=131,seq=6,padding=on,tied=off"
        code, report = checked(None, "py-pp", "--workload", "gpt", "--model", model, "--cpus", "2", "--backend", "shm",
                               "--param", "py-pp.schedule=dualpipev", "--seed", "6")
        (case,) = report["cases"]
        self.assertEqual((code, case["status"]), (4, "ok"), case)
        self.assertGreaterEqual(sum(row["status"] == "passed" for row in case["checks"]), 30)
        self.assertTrue(any(row["name"] == "trajectory" and "dualpipev cannot cut" in row["detail"] for row in case["checks"]), case)

    def test_gpt_passes_its_checks_under_plain_average_zero1_and_fsdp2_by_layer_or_as_one_unit(self):
        code, report = checked(EXAMPLE, "plain-average,py-zero1,py-fsdp2", "--workload", "gpt", "--model", "tiny", "--cpus", "2", "--backend", "shm",
                               "--param", "py-fsdp2.unit=layer,model")
        self.assert_no_failure(code, report, 100)
        self.assertEqual({(case["strategy"], case["params"].get("unit")) for case in report["cases"]},
                         {("plain-average", None), ("py-zero1", None), ("py-fsdp2", "layer"), ("py-fsdp2", "model")})

    def test_a_strategy_that_sums_in_groups_of_new_group_or_init_device_mesh_passes_its_checks(self):
        code, report = checked(NEW_GROUPS, "in-new-groups,in-a-new-mesh", "--workload", "random-linear", "--cpus", "3", "--backend", "shm,gloo")
        self.assertEqual([case["status"] for case in report["cases"]], ["ok"] * 4)
        self.assert_no_failure(code, report, 80)

    def test_collectives_in_groups_of_new_group_are_counted_under_their_ranks(self):
        code, report, errors = call("run", "--plugin", NEW_GROUPS, "--strategy", "in-new-groups", "--workload", "random-linear", "--cpus", "3",
                                    "--backend", "shm,gloo", *BRIEF)
        self.assertEqual(code, 0, errors)
        for case in report["cases"]:
            with self.subTest(case["backend"]):
                ranks = case["launches"][0]["ranks"]
                names = [{entry["axis"] for entry in rank["profile"]["ledger"]} for rank in ranks]
                self.assertEqual(names, [{"ranks 0,1"}, {"ranks 0,1", "ranks 1,2"}, {"ranks 1,2"}])

    def test_strategies_in_cpp_and_python_train_models_in_python(self):
        code, report = checked(MODELS, "cpu,dp,ddp,zero1,fsdp,py-ddp", "--workload", "py-transformer,py-squares,py-named", "--cpus", "2",
                               "--backend", "shm")
        self.assert_no_failure(code, report, 300)
        self.assertEqual({case["strategy"] for case in report["cases"]}, {"cpu", "dp", "ddp", "zero1", "fsdp", "py-ddp"})
        judged = {(case["workload"], row["name"]) for case in report["cases"] for row in case["checks"] if row["status"] == "passed"}
        self.assertLessEqual({("py-named", "frozen-parameters"), ("py-named", "unused-parameters")}, judged)

    def test_pp_and_fsdp_divide_an_nn_sequential_into_blocks_and_pass_their_checks(self):
        code, report = checked(MODELS, "pp,fsdp", "--workload", "py-squares,py-normed", "--cpus", "2", "--backend", "shm")
        self.assert_no_failure(code, report, 60)
        self.assertEqual({(case["strategy"], case["workload"]) for case in report["cases"]},
                         {(strategy, workload) for strategy in ("pp", "fsdp") for workload in ("py-squares", "py-normed")})
        code, report = checked(MODELS, "ddp,pp", "--workload", "py-squares", "--recompute", "1", "--cpus", "2", "--backend", "shm")
        self.assert_no_failure(code, report, 30)

    def test_models_pass_whose_batches_are_padded_to_their_longest_sample(self):
        code, report = checked(MODELS, "pp,ddp", "--workload", "py-lengths", *PADDED)
        self.assert_no_failure(code, report, 60)
        code, report = checked(MODELS, "cpu,ddp,fsdp,py-ddp", "--workload", "py-words", *PADDED)
        self.assert_no_failure(code, report, 120)

    def test_micro_batches_and_ranks_count_by_the_terms_of_their_loss(self):
        code, report = checked(MODELS, "pp,ddp", "--workload", "py-words,py-first-words", *PADDED,
                               "--param", "pp.microbatches=2", "--param", "ddp.global_mean=on")
        self.assert_no_failure(code, report, 120)

    def test_weights_that_a_pass_uses_twice_pass_in_bfloat16(self):
        code, report = checked(None, "py-ddp", "--workload", "probe-tied", "--dtype", "bf16", "--cpus", "1,2",
                               "--backend", "shm")
        self.assert_no_failure(code, report, 60)

    def test_a_plugin_in_the_current_folder_is_found_by_its_name_alone(self):
        code, _, errors = call("check", "--plugin", EXAMPLE.name, "--strategy", "plain-average", "--workload",
                               "random-linear", "--cpus", "1", cwd=EXAMPLE.parent)
        self.assertEqual(code, 0, errors)

    def test_dp_refuses_samples_that_its_replicas_would_pad_to_different_lengths(self):
        code, report = checked(MODELS, "dp", "--workload", "py-normed-lengths", *PADDED)
        (case,) = report["cases"]
        self.assertEqual((code, case["status"]), (4, "ok"), case)
        (row,) = [row for row in case["checks"] if row["name"] == "gradient-meaning"]
        self.assertEqual(row["status"], "skipped")
        self.assertIn("Pad all samples to one shape", row["detail"])

    def test_training_counts_right_words_only_with_the_classes_in_the_last_dimension(self):
        for workload, expected in (("py-words", 0), ("py-classes-first", 2)):
            with self.subTest(workload):
                code, report, errors = call("train", "--plugin", MODELS, "--strategy", "ddp", "--workload", workload,
                                            "--cpus", "2", "--epochs", "2", "--eval")
                self.assertEqual(code, expected, errors)

    def test_fsdp_gives_a_notice_if_a_whole_python_model_is_one_unit(self):
        flags = ("--strategy", "fsdp", "--workload", "py-transformer,py-squares", "--cpus", "2", "--backend", "shm")
        code, report, errors = call("run", "--plugin", MODELS, *flags, *BRIEF)
        self.assertEqual(code, 0, errors)
        noted = {case["workload"]: any("one unit" in text for text in case["notices"]) for case in report["cases"]}
        self.assertEqual(noted, {"py-transformer": True, "py-squares": False})

    def test_checks_avoid_or_skip_batches_of_one_sample_if_the_model_raises_an_error_for_them(self):
        code, report = checked(MODELS, "dp,ddp,py-ddp", "--workload", "py-normed", "--cpus", "3", "--backend", "shm",
                               "--seed", "9")  # this seed draws two samples per rank
        self.assert_no_failure(code, report, 60)
        rows = {(case["strategy"], row["name"]): row for case in report["cases"] for row in case["checks"]}
        self.assertEqual({rows[strategy, "trajectory"]["status"] for strategy in ("dp", "ddp", "py-ddp")}, {"passed"})
        self.assertIn("ValueError: Expected more than 1 value per channel", rows["dp", "empty-shard"]["detail"])

    def test_a_model_that_refuses_float64_is_called_unproven_with_its_error(self):
        flags = ("--plugin", MODELS, "--strategy", "ddp,py-ddp", "--workload", "py-float32", "--cpus", "2", "--backend", "shm")
        for expected, words in ((77, ("check",)), (4, ("run", *BRIEF[:BRIEF.index("--check")])), (4, ("run", *BRIEF[:BRIEF.index("--audit")]))):
            with self.subTest(words):
                code, report, errors = call(*words, *flags)
                self.assertEqual(code, expected, errors)
                self.assertEqual([case["status"] for case in report["cases"]], ["unproven"] * 2)
                for case in report["cases"]:
                    self.assertRegex(case["reason"], r"float64.*RuntimeError: .*dtype.* \(transformer\.py:")

    def test_a_model_whose_loss_depends_on_random_numbers_of_its_own_is_called_unproven_with_the_remedy(self):
        draw = ["py-dropout2d", "py-functional-dropout", "py-attention-dropout"]
        flags = ("--plugin", MODELS, "--strategy", "ddp", "--workload", ",".join([*draw, "py-drawn-in-vain"]), "--cpus", "2",
                 "--backend", "shm")
        for words in (("check",), ("run", *BRIEF[:BRIEF.index("--audit")])):
            with self.subTest(words):
                code, report, errors = call(*words, *flags)
                self.assertEqual(code, 4, errors)
                self.assertEqual({case["workload"]: case["status"] for case in report["cases"]},
                                 {**dict.fromkeys(draw, "unproven"), "py-drawn-in-vain": "ok"})
                for case in report["cases"]:
                    if case["workload"] in draw:
                        self.assertRegex(case["reason"], r"random numbers of its own .*\bset .*\bnn\.Dropout\b")

    def test_checks_replay_the_steps_of_a_models_own_optimizer_one_by_one(self):
        code, report = checked(MODELS, "py-ddp,py-fsdp2", "--workload", "py-adagrad,py-rmsprop", "--cpus", "1,2",
                               "--backend", "shm")
        self.assert_no_failure(code, report, 150)
        for case in report["cases"]:
            with self.subTest(case["id"]):
                rows = {row["name"]: row for row in case["checks"]}
                self.assertEqual(rows["optimizer-replay"]["status"], "passed")
                self.assertEqual(rows["trajectory"]["status"], "skipped")
                self.assertIn("own optimizer", rows["trajectory"]["detail"])

    def test_a_python_strategy_learns_from_a_dataset_written_in_python(self):
        code, report, errors = call("train", "--plugin", MODELS, "--strategy", "py-ddp", "--workload", "py-squares", "--cpus", "2", "--epochs", "20")
        self.assertEqual(code, 0, errors)
        losses = report["cases"][0]["training"]["epoch_losses"]
        self.assertLess(losses[-1], 0.5 * losses[0])

    def test_pytorchs_sharded_strategies_report_the_memory_of_the_parts_that_a_rank_stores(self):
        flags = ("--workload", "gpt", "--model", "layers=2,hidden=128,heads=4,seq=64,vocab=512,optimizer=momentum", "--cpus", "2",
                 "--backend", "shm")
        code, report, errors = call("run", "--strategy", "cpu,py-zero1,py-fsdp2", *flags, *BRIEF)
        self.assertEqual(code, 0, errors)
        parts = {case["strategy"]: case["launches"][0]["ranks"][0]["profile"]["memory"] for case in report["cases"]}
        whole = parts["cpu"]["parameters"]
        self.assertGreater(whole, 1 << 20)
        for strategy, part, share, delta in (("py-zero1", "parameters", 1, 0.05), ("py-zero1", "state", 0.5, 0.25),
                                             ("py-fsdp2", "parameters", 0.5, 0.05), ("py-fsdp2", "state", 0.5, 0.05)):
            self.assertAlmostEqual(parts[strategy][part] / whole, share, delta=delta, msg=(strategy, part))

    def test_ddp_of_pytorch_and_of_dpbench_compute_the_same_bits(self):
        code, report, errors = call("run", "--strategy", "ddp,py-ddp", "--workload", "mnist-mlp", "--cpus", "2", "--backend", "gloo,shm", *BRIEF)
        self.assertEqual(code, 0, errors)
        hashes = {rank["parameters_hash"] for case in report["cases"] for launch in case["launches"] for rank in launch["ranks"]}
        self.assertEqual((len(report["cases"]), len(hashes)), (4, 1))


class Refused(unittest.TestCase):
    def refusals(self, strategies, *flags):
        """Checks strategies that refuse the model. Returns {strategy and workload: reason}."""
        _, report = checked(None, strategies, "--cpus", "2", "--backend", "shm", *flags)
        return {(case["strategy"], case["workload"]): case["reason"] + "".join(row["detail"] for row in case["checks"]) for case in report["cases"]}

    def test_a_model_that_pytorchs_layouts_cannot_divide_is_refused_with_the_remedy(self):
        for model, expected in (("layers=1,heads=3,hidden=18,tied=off", {"py-tp": "kv_heads=3: ", "py-pp": r"--model .*layers=2\b"}),
                                ("layers=2,heads=2,hidden=18,mlp=35", {"py-tp": "mlp=35: ", "py-pp": r"--model .*tied=off\b"})):
            said = self.refusals("py-tp,py-pp", "--workload", "gpt", "--model", model)
            for strategy, words in expected.items():
                with self.subTest(strategy, model=model):
                    self.assertRegex(said[strategy, "gpt"], words)

    def test_a_sequence_that_pytorchs_ring_attention_cannot_cut_is_refused_with_the_remedy(self):
        for seq, balance, words in ((6, "on", r"seq=6 .*--model with seq=8\b"), (5, "off", r"seq=5 .*--model with seq=6\b")):
            with self.subTest(seq):
                said = self.refusals("py-cp", "--workload", "gpt", "--model", f"tiny,seq={seq}", "--param", f"balance={balance}")
                self.assertRegex(said["py-cp", "gpt"], words)

    def test_a_batch_that_a_pipeline_schedule_cannot_cut_is_refused_with_the_remedy(self):
        said = self.refusals("py-pp", "--workload", "gpt", "--model", "tiny-llama,layers=4", "--param", "schedule=dualpipev",
                             "--seed", "9")  # this seed draws two samples
        self.assertRegex(said["py-pp", "gpt"], r"schedule=dualpipev cannot cut .*--batch .*multiple of 4\b.*microbatches=4\b")

    def test_py_ddps_parameter_skip_unused_is_refused_without_its_parameter_find_unused(self):
        code, report, errors = call("check", "--strategy", "py-ddp", "--workload", "random-linear", "--cpus", "2",
                                    "--param", "py-ddp.skip_unused=on", "--dry-run")
        self.assertEqual((code, report), (2, None), errors)
        self.assertIn("needs --param find_unused=on", errors)

    def test_a_model_with_too_few_blocks_for_a_pipeline_is_refused_with_the_remedy(self):
        for workload, world, words in (("py-transformer", 2, r"model\(\) .*nn\.Sequential"),
                                       ("py-squares", 3, r"\b2 blocks\b.*\b3 ranks\b.*\bpp: rank 2\b")):
            with self.subTest(workload):
                _, report = checked(MODELS, "pp", "--workload", workload, "--cpus", world, "--backend", "shm")
                self.assertRegex("".join(row["detail"] for case in report["cases"] for row in case["checks"]), words)

    def test_check_skips_a_refused_model_if_another_passes_and_calls_a_refused_optimizer_unproven(self):
        _, report = checked(MODELS, "pp,py-zero1", "--workload", "py-transformer,py-squares,py-adagrad", "--cpus", "2", "--backend", "shm")
        status = {(case["strategy"], case["workload"]): case["status"] for case in report["cases"]}
        self.assertEqual([status["pp", "py-transformer"], status["py-zero1", "py-adagrad"]], ["skipped", "unproven"])

    def test_workloads_without_modules_that_pytorch_can_divide_are_refused_with_the_remedy(self):
        said = self.refusals("py-tp,py-fsdp2", "--workload", "mnist-mlp,probe-experts", "--param", "py-fsdp2.unit=layer")
        self.assertRegex(said["py-tp", "mnist-mlp"], r"py-tp .*--workload gpt\b")
        self.assertRegex(said["py-tp", "probe-experts"], r"py-tp .*--model .*\bexperts=0\b")
        self.assertIn("py-fsdp2.unit=layer: ", said["py-fsdp2", "mnist-mlp"])
        self.assertIn("py-fsdp2.unit=model", said["py-fsdp2", "mnist-mlp"])

    def test_strategies_that_cannot_step_a_models_own_optimizer_refuse_it_with_the_remedy(self):
        _, report = checked(MODELS, "ddp,py-zero1", "--workload", "py-adagrad", "--cpus", "2", "--backend", "shm")
        said = {case["strategy"]: case["reason"] + "".join(row["detail"] for row in case["checks"])
                for case in report["cases"]}
        self.assertRegex(said["ddp"], r"optimizer.*\bpy-ddp\b")
        self.assertRegex(said["py-zero1"], r"\bpy-ddp\b.*\bpy-fsdp2\b")

    def test_a_run_of_a_strategy_that_refuses_all_its_cases_exits_2_with_the_remedy(self):
        code, _, errors = call("run", "--strategy", "py-tp", "--workload", "gpt", "--model", "tiny", "--recompute", "1", "--cpus", "2", *BRIEF)
        self.assertEqual(code, 2, errors)
        self.assertRegex(errors, r"py-tp .*--recompute\b")


MODULE = """
import torch
from torch import nn

samples = 64

class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.head = nn.Embedding(16, 8), nn.Linear(8, 16)

    def forward(self, words):
        return self.head(self.embed(words)).flatten(0, 1)

def loss(output, target):
    return nn.functional.cross_entropy(output, target.flatten())

def batch(ids):
    words = (ids.view(-1, 1) + torch.arange(5)) % 16
    return words[:, :-1], words[:, 1:]
"""


class Models(unittest.TestCase):
    """Models of importable modules, by --model MODULE:CLASS."""

    def test_a_model_class_of_a_python_package_is_measured_without_a_plugin_file(self):
        with tempfile.TemporaryDirectory() as folder:
            package = pathlib.Path(folder, "mypkg")
            package.mkdir()
            package.joinpath("mymodel.py").write_text(MODULE, encoding="utf-8")
            flags = ("--cpus", "2", "--backend", "shm", "--batch", "8", *BRIEF)
            code, report, errors = call("run", "--model", "mypkg.mymodel:GPT", "--strategy", "ddp,py-ddp", *flags, cwd=folder)
            self.assertEqual(code, 0, errors)
            self.assertEqual([(case["workload"], case["batch"], case["status"]) for case in report["cases"]], [("GPT", 8, "ok")] * 2)
            done = subprocess.run([DPBENCH, "list", "--parameters", "--model", "mypkg.mymodel:GPT", "--python", interpreter(), "-o", "json"], cwd=folder,
                                  capture_output=True, text=True, timeout=120, check=True)
            self.assertIn([16, 8], [row["sizes"] for row in json.loads(done.stdout)])
            for model, words in {"mypkg.mymodel:Gone": "mypkg.mymodel:Gone: ",
                                 "mypkg.gone:GPT": "'mypkg.gone'"}.items():
                with self.subTest(model):
                    code, _, errors = call("run", "--model", model, "--strategy", "ddp", *flags, cwd=folder)
                    self.assertEqual(code, 2, errors)
                    self.assertIn(words, errors)

    def test_models_of_transformers_pass_their_checks(self):
        if subprocess.run([interpreter(), "-c", "import transformers"], capture_output=True).returncode:
            self.skipTest("the library transformers is not installed; scripts/parts/transformers installs it")
        for model in ("Gpt2", "Bert"):
            with self.subTest(model):
                code, report, errors = call("check", "--model", "hub_models:" + model, "--strategy", "ddp,fsdp,py-ddp", "--cpus", "2",
                                            "--backend", "shm", cwd=ROOT / "tests/python")
                failed = [(case["id"], row) for case in (report or {"cases": ()})["cases"] for row in case["checks"] if row["status"] == "failed"]
                self.assertEqual((code, failed), (0, []), errors)
                self.assertEqual([case["status"] for case in report["cases"]], ["ok"] * 3)


if __name__ == "__main__":
    unittest.main()
