"""train_layouts_test.py BUILD: tests that `dpbench train` gives the same losses under every layout as on one device,
even if a checkpoint is written under one layout and resumed under another."""
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from drawn_tests import load_tests  # noqa: F401, unittest calls it
import leftovers
import reports  # noqa: F401, importing this module validates every report that dpbench writes

DPBENCH = pathlib.Path(sys.argv.pop()).resolve() / "bin/dpbench"
STEPS = 280
# Tolerance like that of the check trajectory (harness/conform/judges/judge_course.cpp): 128 float32 roundoffs of the
# largest loss, plus 8 times the largest difference between the losses of one device in float32 and in float64.
PASS = 128 * 2**-24
FACTOR = 8


class TrainLayouts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.holder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.holder.cleanup)
        cls.folder = pathlib.Path(cls.holder.name)
        cls.runs = 0
        cls.exact, cls.limit = cls.on_one_device()

    @classmethod
    def on_one_device(cls, *flags):
        """Returns the losses of one device in float64 and the tolerance on losses in float32."""
        exact, rounded = (cls.losses("--strategy", "cpu", "--dtype", dtype, *flags) for dtype in ("f64", "f32"))
        return exact, PASS * max(exact) + FACTOR * max(abs(one - due) for one, due in zip(rounded, exact))

    @classmethod
    def words(cls, *flags, epochs=2):
        cls.runs += 1
        cls.out = cls.folder / f"results{cls.runs}"
        # Without padding every sample has equally many tokens, so the mean over replicas equals the mean over samples.
        model = () if "--model" in flags else ("--model", "tiny,padding=off")
        return [DPBENCH, "train", "--workload", "gpt", *model, "--scaling", "strong", "--batch", "32", "--epochs",
                str(epochs), "--threads", "1", "--timeout", "120", "--out", cls.out, *flags]

    @classmethod
    def training(cls, *flags, epochs=2):
        """Trains to the end. Returns the key `training` of the report's case."""
        done = subprocess.run(cls.words(*flags, epochs=epochs), capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stderr
        (case,) = json.loads(next(cls.out.glob("*/run.json")).read_text())["cases"]
        return case["training"]

    @classmethod
    def losses(cls, *flags, epochs=2):
        """Trains to the end. Returns the loss of each step; for a resumed run, this includes the steps before the
        checkpoint."""
        return cls.training(*flags, epochs=epochs)["loss_curve"]

    def assert_those_of_one_device(self, losses, one_device=None):
        exact, limit = one_device or (self.exact, self.limit)
        self.assertEqual(len(losses), STEPS)
        self.assertLess(losses[-1], losses[0] - 0.5, "the model learns")
        for step, (due, found) in enumerate(zip(exact, losses)):
            self.assertAlmostEqual(due, found, delta=limit, msg=f"step {step}")

    def test_the_tolerance_on_training_losses_is_below_one_percent_of_the_largest_change_between_steps(self):
        largest = max(abs(one - other) for one, other in zip(self.exact, self.exact[1:]))
        self.assertLess(self.limit, 0.01 * largest)

    def test_training_under_a_layout_has_the_losses_of_one_device(self):
        for mesh, *flags in (("pp=2,tp=2",), ("dp=2,pp=2", "--param", "layout.microbatches=2"),
                             ("shard=2,tp=2", "--recompute", "1"), ("dp=2,pp=2,tp=2",)):
            with self.subTest(mesh=mesh):
                self.assert_those_of_one_device(self.losses("--strategy", "layout", "--mesh", mesh, *flags))

    def test_a_model_with_experts_divided_over_ep_and_pp_has_the_losses_of_one_device_also_if_gradients_are_clipped(self):
        flags = ("--model", "tiny,padding=off,experts=4,top_k=2", "--clip-norm", "1")
        found = self.losses("--strategy", "layout", "--mesh", "ep=2,pp=2", *flags)
        self.assert_those_of_one_device(found, self.on_one_device(*flags))

    def test_training_resumes_under_another_layout_with_the_losses_of_one_device(self):
        file = self.folder / "checkpoint.safetensors"
        self.losses("--strategy", "layout", "--mesh", "pp=2,tp=2", "--checkpoint-every", "140", "--checkpoint", file,
                    epochs=1)
        for strategy, mesh in (("layout", "shard=2,pp=2"), ("tp", "tp=3"), ("fsdp", "dp=2")):
            with self.subTest(strategy=strategy, mesh=mesh):
                self.assert_those_of_one_device(
                    self.losses("--strategy", strategy, "--mesh", mesh, "--resume", file))

    def test_training_resumes_in_the_middle_of_an_epoch_under_another_layout(self):
        file, straight, resumed = (self.folder / name for name in ("midway", "straight", "resumed"))
        layout = ("--strategy", "layout", "--mesh")
        self.losses(*layout, "dp=2,pp=2", "--save", straight)
        killed = subprocess.Popen(self.words(*layout, "dp=2,pp=2", "--checkpoint-every", "50", "--checkpoint", file),
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(killed.kill)
        self.assertTrue(leftovers.wait_until(file.exists, 120), "no checkpoint was written")
        killed.kill()
        killed.wait()
        for mesh in ("pp=2,dp=2", "shard=2,tp=2"):
            with self.subTest(mesh=mesh):
                training = self.training(*layout, mesh, "--resume", file, "--save", resumed)
                self.assertNotEqual(training["resumed_at"] % (STEPS // 2), 0, "in the middle of an epoch")
                self.assert_those_of_one_device(training["loss_curve"])
            if mesh == "pp=2,dp=2":  # sums gradients in the same order as dp=2,pp=2
                self.assertEqual(resumed.read_bytes(), straight.read_bytes())

    def test_ranks_save_checkpoint_shards_that_other_layouts_can_resume(self):
        folder = self.folder / "parts"
        self.losses("--strategy", "layout", "--mesh", "shard=2,tp=2", "--checkpoint-every", "70", "--checkpoint",
                    f"{folder}/", epochs=1)
        files = sorted(path.name.split("-", 1)[1] for path in folder.glob("*.safetensors"))
        self.assertEqual(files, [f"0000{rank}-of-00004.safetensors" for rank in (1, 2, 3, 4)], "those of one save")
        largest = max(path.stat().st_size for path in folder.glob("*.safetensors"))
        self.assertLess(largest, 0.35 * sum(path.stat().st_size for path in folder.glob("*.safetensors")))
        for strategy, mesh in (("layout", "cp=2,tp=2"), ("ddp", "dp=2")):
            with self.subTest(strategy=strategy, mesh=mesh):
                self.assert_those_of_one_device(
                    self.losses("--strategy", strategy, "--mesh", mesh, "--resume", folder))

    def test_resuming_rejects_a_checkpoint_directory_with_a_missing_shard(self):
        folder = self.folder / "torn"
        flags = ("--strategy", "fsdp", "--cpus", "2", "--checkpoint-every", "70", "--checkpoint", f"{folder}/")
        self.losses(*flags, epochs=1)
        lost = sorted(folder.glob("*.safetensors"))[1]
        lost.unlink()
        done = subprocess.run(self.words("--strategy", "ddp", "--cpus", "2", "--resume", folder), capture_output=True,
                              text=True, timeout=120)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn(lost.name, done.stderr)


if __name__ == "__main__":
    unittest.main()
