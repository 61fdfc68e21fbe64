"""train_programs_test.py BUILD: tests the program `dpbench train`: its output and files, kill and resume, and bad
input."""
import json
import os
import pathlib
import pty
import random
import re
import shlex
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from drawn_tests import load_tests  # noqa: F401, unittest calls it
import leftovers
from mounts import own_mounts
from terminals import read_terminal
import reports  # noqa: F401, importing this module validates every report that dpbench writes

DPBENCH = pathlib.Path(sys.argv.pop()).resolve() / "bin/dpbench"
TRAIN_ROWS, TEST_ROWS = 640, 200


def write_images(folder):
    """Writes four small IDX files (the MNIST format). Each image is noise with a bright bar; the label determines the
    bar's height."""
    dice = random.Random(5)
    for prefix, rows in (("train", TRAIN_ROWS), ("t10k", TEST_ROWS)):
        labels = bytes(dice.randrange(10) for _ in range(rows))
        images = bytearray()
        for label in labels:
            pixels = bytearray(dice.randrange(60) for _ in range(784))
            for row in range(2 * label + 3, 2 * label + 6):
                pixels[28 * row + 4:28 * row + 24] = bytes([250]) * 20
            images += pixels
        (folder / f"{prefix}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 2051, rows, 28, 28) + bytes(images))
        (folder / f"{prefix}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, rows) + labels)


def parts_of(file):
    """Returns the header of a safetensors file, the offset of its data and its raw bytes."""
    raw = file.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    return json.loads(raw[8:8 + length]), 8 + length, raw


class Training(unittest.TestCase):
    def setUp(self):
        holder = tempfile.TemporaryDirectory()
        self.addCleanup(holder.cleanup)
        self.folder = pathlib.Path(holder.name)
        self.runs = 0
        write_images(self.folder)

    def words(self, workload, strategy, *more):
        self.runs += 1
        self.out = self.folder / f"results{self.runs}"
        data = () if workload in ("random-linear", "gpt") else ("--data", self.folder)
        return [DPBENCH, "train", "--workload", workload, "--strategy", strategy, "--out", self.out, *data, *more]

    def train(self, workload, strategy, *more, code=0):
        done = subprocess.run(self.words(workload, strategy, *more), capture_output=True, text=True, timeout=280, check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return done

    def report(self):
        """Returns the only case in the last run's report."""
        (file,) = self.out.glob("*/run.json")
        (case,) = json.loads(file.read_text())["cases"]
        return case

    def curve(self, *arguments):
        self.train(*arguments)
        return self.report()["training"]["loss_curve"]

    def refused(self, *arguments, words, code=2):
        done = self.train(*arguments, code=code)
        line = done.stderr.strip().splitlines()[0]
        for word in words:
            self.assertIn(word, line)
        if code == 2:
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
            self.assertEqual(list(self.out.glob("*")), [], "no files are left")
        return done

    # Tests of the program's output.

    def test_printed_tensor_shapes_match_pytorchs_data_parallel_tutorial(self):
        # Batch sizes per replica: those of the DataParallel tutorial for 1, 2, 3, 4 and 8 devices, and torch.chunk's
        # for 7.
        for world, whole, last in ((1, [30], [10]), (2, [15] * 2, [5] * 2), (3, [10] * 3, [4, 4, 2]), (4, [8, 8, 8, 6], [3, 3, 3, 1]),
                                   (7, [5] * 6, [2] * 5), (8, [4] * 7 + [2], [2] * 5)):
            for strategy in ("dp", "dp-upstream") if world != 1 else ("dp", "cpu"):
                lines = [] if world == 1 else [f"Let's use {world} devices!"]
                for pieces in (whole, whole, whole, last):
                    lines += [f"In Model: input size [{rows}, 5] output size [{rows}, 2]" for rows in pieces]
                    lines += [f"Outside: input size [{sum(pieces)}, 5] output_size [{sum(pieces)}, 2]"]
                done = self.train("random-linear", strategy, "--cpus", str(world), "--show-shapes")
                self.assertEqual(done.stdout.splitlines(), lines, (strategy, world))
                self.assertRegex(done.stderr, r"\d s\b")
                self.assertNotIn("tokens/s", done.stderr)

    def test_tensor_shapes_of_all_ranks_are_printed_in_rank_order(self):
        lines = self.train("random-linear", "ddp", "--cpus", "2", "--show-shapes").stdout.splitlines()
        self.assertEqual(lines[:4], ["Let's use 2 devices!"] + ["In Model: input size [15, 5] output size [15, 2]"] * 2 +
                         ["Outside: input size [30, 5] output_size [30, 2]"])
        self.assertEqual(len(lines), 13)

    def test_training_mnist_mlp_prints_the_loss_of_each_epoch_summed_over_steps_and_ranks(self):
        done = self.train("mnist-mlp", "ddp", "--cpus", "2", "--epochs", "3")
        lines = done.stdout.splitlines()
        case = self.report()
        for epoch, line in enumerate(lines):
            self.assertRegex(line, rf"^  {epoch}: \d+\.\d{{4}}$")
            steps = case["training"]["loss_curve"][5 * epoch:5 * epoch + 5]  # each loss is the mean over two ranks
            self.assertAlmostEqual(float(line.split(": ")[1]), 2 * sum(steps), places=3)
        self.assertEqual(len(lines), 3)
        self.assertEqual(case["status"], "ok")
        self.assertLess(case["training"]["data_fraction"], 0.5)
        self.assertEqual([rank["rank"] for rank in case["launches"][0]["ranks"]], [0, 1])

    def test_convnet_prints_the_mean_loss_of_each_epoch(self):
        done = self.train("convnet", "ddp", "--cpus", "2")
        lines, training = done.stdout.splitlines(), self.report()["training"]
        self.assertEqual(lines[:2], ["Running on 2 devices", f"x_train shape: ({TRAIN_ROWS}, 28, 28, 1)"])
        losses = training["epoch_losses"]
        self.assertEqual(lines[2:], [f"Epoch {epoch + 1}/2, Loss: {losses[epoch]}" for epoch in range(2)])
        self.assertAlmostEqual(losses[0], sum(training["loss_curve"][:5]) / 5, places=9)

    def test_gpt_counts_correct_predictions_and_generates_text(self):
        done = self.train("gpt", "ddp", "--cpus", "2", "--model", "tiny,padding=off", "--batch", "256", "--epochs", "1", "--eval",
                          "--generate", "30")
        right, all_tokens = re.search(r"^Accuracy: .* \((\d+) of (\d+)\)$", done.stdout, re.MULTILINE).groups()
        self.assertEqual(int(all_tokens), 11 * 496)  # test set: the last tenth of 4962 samples of 11 tokens
        self.assertGreater(int(right), 0.1 * int(all_tokens))  # always guessing a space would be right for 16 %
        text = "".join(done.stdout.split(")\n", 1)[1:]).removesuffix("\n")
        self.assertEqual(len(text), (11 + 1) // 2 + 30, text)

    def test_the_loss_of_gpt_falls_far_below_that_of_guessing_in_two_epochs(self):
        done = self.train("gpt", "ddp", "--cpus", "2", "--epochs", "2")
        samples, tokens = map(int, re.search(r"\((\d+) samples/s, (\d+) tokens/s, ", done.stderr).groups())
        self.assertAlmostEqual(tokens / samples, 128, delta=128 / samples)  # the model `small` has samples of 128 tokens
        lines = done.stdout.splitlines()
        losses = self.report()["training"]["epoch_losses"]
        self.assertEqual(lines, [f"Epoch {epoch + 1}/2, Loss: {losses[epoch]}" for epoch in range(2)])
        self.assertGreater(losses[0], 3)
        self.assertLess(losses[1], 3.3)  # a uniform guess has the loss log(256) = 5.5

    def test_the_flag_generate_is_refused_for_a_workload_without_text(self):
        self.refused("mnist-mlp", "cpu", "--generate", "30", words=["--generate", "mnist-mlp"])

    def test_training_shows_progress_on_a_terminal(self):
        own, theirs = pty.openpty()
        with subprocess.Popen(self.words("mnist-mlp", "dp", "--cpus", "2", "--epochs", "3"), stdout=subprocess.PIPE, stderr=theirs,
                              env=dict(os.environ, TERM="xterm")) as process:
            lines = process.stdout.read().decode()
        os.close(theirs)
        self.assertRegex(read_terminal(own).decode(), r"\[[#.]+\] 1/3 · \d/5 · loss \d\.\d+ · \d+ samples/s · \d+ s left")
        self.assertEqual(len(lines.splitlines()), 3)

    def test_an_interrupted_training_exits_130_and_saves_that_it_was_interrupted(self):
        with subprocess.Popen(self.words("mnist-mlp", "ddp", "--cpus", "2", "--epochs", "100000"), stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL) as process:
            process.stdout.readline()
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertEqual(self.report()["status"], "interrupted")

    # Tests of training results.

    def test_loss_curves_of_strategies_agree_at_the_same_global_batch(self):
        common = ("--epochs", "4", "--threads", "1")
        cpu = self.curve("mnist-mlp", "cpu", "--batch", "128", *common)
        self.assertEqual(len(cpu), 20)
        self.assertLess(cpu[-1], cpu[0])
        for strategy in ("dp", "ddp"):
            other = self.curve("mnist-mlp", strategy, "--cpus", "2", "--batch", "64", *common)
            for step, (a, b) in enumerate(zip(cpu, other, strict=True)):
                self.assertLess(abs(a - b), 1e-6 * a, (strategy, step))
        self.assertNotEqual(cpu, self.curve("mnist-mlp", "cpu", "--batch", "128", "--seed", "2", *common))

    @unittest.skipIf(len(os.sched_getaffinity(0)) < 2, "needs two cores")
    def test_training_with_steps_below_a_millisecond_takes_one_thread_unless_told_otherwise(self):
        for workload, flags, several in (("random-linear", (), False), ("convnet", (), True), ("random-linear", ("--threads", "2"), True)):
            with self.subTest(workload=workload, flags=flags):
                self.train(workload, "cpu", "--cpus", "1", "--epochs", "1", *flags)
                self.assertEqual(self.report()["threads"] > 1, several)

    def test_training_with_a_world_of_one_gives_the_same_bits_as_one_device(self):
        for workload in ("mnist-mlp", "convnet"):
            for strategy in ("cpu", "dp", "ddp"):
                self.train(workload, strategy, "--cpus", "1", "--save", self.folder / strategy, "--epochs", "2")
            cpu = (self.folder / "cpu").read_bytes()
            self.assertEqual((self.folder / "dp").read_bytes(), cpu, workload)
            self.assertEqual((self.folder / "ddp").read_bytes(), cpu, workload)

    def test_the_saved_model_has_the_documented_parameter_names(self):
        self.train("mnist-mlp", "ddp", "--cpus", "2", "--epochs", "1", "--save", self.folder / "m.safetensors")
        header, begin, raw = parts_of(self.folder / "m.safetensors")
        self.assertEqual(header.pop("__metadata__"), {"format": "pt"})
        self.assertEqual({name: entry["shape"] for name, entry in header.items()},
                         {"n.1.weight": [128, 784], "n.1.bias": [128], "n.3.weight": [10, 128], "n.3.bias": [10]})
        self.assertEqual(len(raw), begin + 4 * 101770)

    def test_the_test_accuracy_counts_each_sample_once_on_one_device_and_under_ddp(self):
        said = []
        for strategy, world, batch in (("cpu", 1, 192), ("ddp", 3, 64)):
            done = self.train("mnist-mlp", strategy, "--cpus", str(world), "--batch", str(batch), "--eval", "--epochs", "2")
            said.append([line for line in done.stdout.splitlines() if line.startswith("Accuracy")])
            share = self.report()["training"]["accuracy"]
            self.assertEqual(said[-1], [f"Accuracy: {100 * a:.2f} % ({round(a * TEST_ROWS)} of {TEST_ROWS})" for a in share])
        self.assertEqual(said[0], said[1])

    def test_training_stops_at_the_target_accuracy_and_exits_1_if_it_is_not_reached(self):
        self.train("mnist-mlp", "cpu", "--epochs", "40", "--target-accuracy", "0.2")
        training = self.report()["training"]
        self.assertGreaterEqual(training["accuracy"][-1], 0.2)
        self.assertLess(max(training["accuracy"][:-1], default=0), 0.2)
        self.assertEqual(training["steps"], 10 * len(training["accuracy"]))
        self.assertLess(len(training["accuracy"]), 40)
        self.assertEqual(training["time_to_accuracy_s"], training["seconds"])
        done = self.train("mnist-mlp", "cpu", "--epochs", "1", "--target-accuracy", "0.99", code=1)
        self.assertIn("target-accuracy", done.stderr)
        self.assertIsNone(self.report()["training"]["time_to_accuracy_s"])

    def test_drop_last_drops_a_step_and_accumulation_keeps_the_loss_curve(self):
        self.assertEqual(len(self.curve("mnist-mlp", "ddp", "--cpus", "2", "--batch", "60", "--epochs", "1")), 6)
        self.assertEqual(len(self.curve("mnist-mlp", "ddp", "--cpus", "2", "--batch", "60", "--epochs", "1", "--drop-last")), 5)
        whole = self.curve("mnist-mlp", "cpu", "--epochs", "1", "--threads", "1")
        cut = self.curve("mnist-mlp", "cpu", "--epochs", "1", "--threads", "1", "--accumulate", "4")
        for a, b in zip(whole, cut, strict=True):
            self.assertLess(abs(a - b), 1e-6 * a)

    # Tests of killing and resuming a training.

    def kill_at_first_checkpoint(self, *arguments):
        file = self.folder / "kept"
        file.unlink(missing_ok=True)
        with subprocess.Popen(self.words(*arguments, "--checkpoint", file), stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL) as process:
            deadline = time.monotonic() + 120
            while not file.exists() and time.monotonic() < deadline:
                time.sleep(0.002)
            process.send_signal(signal.SIGKILL)
        self.assertTrue(file.exists())
        return file

    def test_a_killed_and_resumed_training_has_the_bits_of_an_uninterrupted_one(self):
        for workload, strategy, world, epochs, backend in (("mnist-mlp", "dp", 2, 60, "auto"), ("convnet", "ddp", 2, 4, "shm"),
                                                           ("mnist-mlp", "ddp", 3, 60, "shm"), ("mnist-mlp", "ddp", 3, 60, "gloo")):
            # --checkpoint-every 3 writes the first checkpoint in the middle of an epoch.
            arguments = (workload, strategy, "--cpus", str(world), "--backend", backend, "--threads", "1", "--epochs", str(epochs),
                         "--checkpoint-every", "3")
            self.train(*arguments[:-2], "--save", self.folder / "straight")
            straight = self.report()["training"]
            kept = self.kill_at_first_checkpoint(*arguments)
            self.train(*arguments[:-2], "--resume", kept, "--save", self.folder / "resumed")
            resumed = self.report()["training"]
            self.assertGreater(resumed["resumed_at"], 0)
            self.assertLess(resumed["resumed_at"], resumed["steps"])
            self.assertEqual((self.folder / "resumed").read_bytes(), (self.folder / "straight").read_bytes(), arguments)
            for key in ("loss_curve", "epoch_losses", "steps"):
                self.assertEqual(resumed[key], straight[key], key)

    @staticmethod
    def unfinished(directory):
        """Returns the shard files in a checkpoint directory that belong to another save than index.json does. Includes
        temporary files."""
        save = json.loads((directory / "index.json").read_text())["save"]
        return [path.name for path in directory.glob("*.safetensors*") if not path.name.startswith(save)]

    def kill_rank_1_in_a_save(self, directory, *arguments):
        """Trains with a save after every step. Pauses rank 1 again and again until a pause falls into a save, then
        kills rank 1, so that this save stays unfinished."""
        mark = f"TRAIN_PROGRAMS={self.folder}"
        words = self.words(*arguments, "--epochs", "100000", "--checkpoint-every", "1", "--checkpoint", f"{directory}/")
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                   env=dict(os.environ, TRAIN_PROGRAMS=str(self.folder)))
        self.addCleanup(process.kill)
        self.assertTrue(leftovers.wait_until((directory / "index.json").exists, 120), "no save has ended")
        (rank,) = [pid for pid in leftovers.ranks_of(mark) if leftovers.variables_of(pid)["RANK"] == "1"]

        def stopped_in_a_save():
            os.kill(rank, signal.SIGSTOP)
            time.sleep(0.05)  # rank 0 continues until it waits for rank 1
            names = self.unfinished(directory)
            # Without the file of rank 1, rank 0 cannot write the index.
            if names and not any(name.endswith("-00002-of-00002.safetensors") for name in names):
                return True
            os.kill(rank, signal.SIGCONT)
            return False

        self.assertTrue(leftovers.wait_until(stopped_in_a_save, 120), "rank 1 was in no save")
        os.kill(rank, signal.SIGKILL)
        self.assertEqual(process.wait(60), 3)
        self.assertNotEqual(self.unfinished(directory), [])

    def test_a_rank_killed_while_saving_leaves_the_previous_checkpoint(self):
        directory = self.folder / "parts"
        arguments = ("mnist-mlp", "fsdp", "--cpus", "2", "--scale", "4", "--threads", "1")
        self.kill_rank_1_in_a_save(directory, *arguments)
        progress = json.loads((directory / "index.json").read_text())["metadata"]
        epochs = ("--epochs", str(int(progress["epoch"]) + 1))
        self.train(*arguments, *epochs, "--save", self.folder / "straight")
        self.train(*arguments, *epochs, "--save", self.folder / "resumed", "--resume", directory,
                   "--checkpoint-every", "1000000", "--checkpoint", f"{directory}/")
        self.assertEqual(self.report()["training"]["resumed_at"], 5 * int(progress["epoch"]) + int(progress["step"]))
        self.assertEqual((self.folder / "resumed").read_bytes(), (self.folder / "straight").read_bytes())
        self.assertEqual(self.unfinished(directory), [], "the next save deletes what the killed one left")
        self.assertEqual(len(list(directory.iterdir())), 3, "the index and a file of each rank")

    def checkpoint(self, workload="mnist-mlp", strategy="cpu", *more):
        file = self.folder / "checkpoint"
        self.train(workload, strategy, "--epochs", "1", "--checkpoint-every", "7", "--checkpoint", file, *more)
        return file

    def test_resumed_training_may_use_another_strategy(self):
        kept = self.checkpoint("mnist-mlp", "cpu", "--batch", "128")
        straight = self.curve("mnist-mlp", "cpu", "--epochs", "2", "--batch", "128")
        other = self.curve("mnist-mlp", "ddp", "--cpus", "2", "--epochs", "2", "--resume", kept)
        self.assertEqual(other[:5], straight[:5])
        for a, b in zip(straight, other, strict=True):
            self.assertLess(abs(a - b), 1e-6 * a)

    # Tests of rejected input.

    def test_resuming_rejects_a_checkpoint_of_another_training(self):
        kept = self.checkpoint()
        resume = ("--epochs", "2", "--resume", kept)
        self.refused("convnet", "cpu", *resume, words=["--resume", str(kept), "workload mnist-mlp", "workload convnet"])
        self.refused("mnist-mlp", "cpu", *resume, "--batch", "32", words=["global_batch 64", "global_batch 32"])
        self.refused("mnist-mlp", "cpu", *resume, "--scale", "2", words=["scale 1", "scale 2"])
        self.refused("mnist-mlp", "cpu", *resume, "--seed", "9", words=["seed 1", "seed 9"])
        self.refused("mnist-mlp", "ddp", "--cpus", "3", *resume, words=["global_batch 64", "global_batch 192"])
        self.refused("mnist-mlp", "cpu", "--epochs", "1", "--resume", kept, words=["--epochs"])
        self.train("mnist-mlp", "cpu", "--epochs", "1", "--save", self.folder / "model")
        self.refused("mnist-mlp", "cpu", "--resume", self.folder / "model", words=["--resume", "model"])
        self.refused("mnist-mlp", "cpu", "--resume", self.folder / "absent", words=["absent", "No such file"])

    def test_resuming_rejects_a_damaged_checkpoint(self):
        header, begin, raw = parts_of(self.checkpoint())
        bad = self.folder / "bad"

        def refuse(data, words):
            bad.write_bytes(data)
            self.refused("mnist-mlp", "cpu", "--epochs", "2", "--resume", bad, words=["--resume", *words])

        def altered(change):
            copy = json.loads(json.dumps(header))
            change(copy)
            text = json.dumps(copy).encode()
            return struct.pack("<Q", len(text)) + text + raw[begin:]

        refuse(raw[:-1], ["truncated"])
        refuse(raw[:100], ["truncated"])
        refuse(struct.pack("<Q", 2**62) + raw[8:], ["100 MiB"])
        refuse(raw[:8] + raw[8:begin].replace(b'"n.3.bias"', b'"n.1.bias"').replace(b"parameter:n.3.bias", b"parameter:n.1.bias") +
               raw[begin:], ["twice"])

        def other_shape(copy):
            entry = copy["parameter:n.3.weight"]
            entry["shape"] = entry["shape"][::-1]

        refuse(altered(other_shape), ["parameter 'n.3.weight'", "[10, 128]", "[128, 10]"])

        def overlap(copy):
            copy["parameter:n.1.bias"]["data_offsets"] = copy["parameter:n.3.bias"]["data_offsets"]

        refuse(altered(overlap), ["parameter:n."])
        refuse(altered(lambda copy: copy["__metadata__"].update(step="999")), ["step 999"])
        refuse(altered(lambda copy: copy["__metadata__"].update(step="-1")), ["'-1'"])
        refuse(altered(lambda copy: copy["__metadata__"].pop("seed")), ["seed"])

    def test_a_nan_loss_stops_training_and_its_step_and_rank_are_named(self):
        for world, strategy in ((1, "cpu"), (2, "ddp")):
            header, begin, raw = parts_of(self.checkpoint("mnist-mlp", strategy, "--cpus", str(world)))
            place = begin + header["parameter:n.3.bias"]["data_offsets"][0]
            bad = self.folder / "nan"
            bad.write_bytes(raw[:place] + struct.pack("<f", float("nan")) + raw[place + 4:])
            step = 10 // world
            done = self.train("mnist-mlp", strategy, "--cpus", str(world), "--epochs", "2", "--resume", bad, code=3)
            self.assertRegex(done.stderr, rf"step {step} \(.*\bepoch 1\).* -?nan")
            self.assertRegex(done.stderr, r"rank [01] " if world > 1 else r"the worker ")
            self.assertEqual(self.report()["status"], "failed")

    def test_unwritable_paths_are_rejected_before_training(self):
        for flags in (["--save", "/nowhere/m.safetensors"], ["--save", str(self.folder)],
                      ["--checkpoint-every", "1", "--checkpoint", "/nowhere/c"]):
            done = self.refused("mnist-mlp", "ddp", "--cpus", "2", *flags, words=[flags[-2], flags[-1]])
            self.assertEqual(done.stdout, "")

    def test_training_exits_5_if_the_disk_is_too_small_for_the_model(self):
        disk = self.folder / "disk"
        disk.mkdir()
        if not own_mounts():
            self.skipTest("no mount namespaces here (unshare --mount)")
        words = shlex.join(map(str, self.words("mnist-mlp", "cpu", "--epochs", "1", "--save", disk / "model.safetensors")))
        done = subprocess.run([*own_mounts(), "sh", "-c", f'mount -t tmpfs -o size=200k tmpfs "{disk}" && {words}; echo "rc=$? left=$(ls "{disk}")"'],
                              capture_output=True, text=True, timeout=280, check=False)
        self.assertIn("rc=5 left=\n", done.stdout, done.stderr)
        self.assertRegex(done.stderr, "model.safetensors.*No space left on device")

    def test_train_rejects_invalid_or_conflicting_flags(self):
        self.refused("mnist-mlp", "cpu,dp", words=["--strategy", "--workload"])
        self.refused("mnist-mlp", "dp", "--cpus", "1,2", words=["train", "2"])
        self.refused("random-linear", "cpu", "--eval", words=["--eval", "random-linear"])
        self.refused("mnist-mlp", "cpu", "--drop-last", "--batch", "641", words=["--drop-last", "640"])
        self.refused("mnist-mlp", "cpu", "--checkpoint", "x", words=["--checkpoint-every"])
        self.refused("mnist-mlp", "cpu", "--target-accuracy", "90", words=["--target-accuracy", "'90'"])
        self.refused("mnist-mlp", "cpu", "--epochs", "0", words=["--epochs", "'0'"])


if __name__ == "__main__":
    os.environ["TERM"] = "dumb"
    unittest.main()
