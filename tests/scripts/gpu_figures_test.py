"""Tests the figures, target verdicts and result page of scripts/gpu-check on inputs with known results."""
import json
import pathlib
import sys
import types
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts/gpu"))
import figures  # noqa: E402
import overlap  # noqa: E402
import page  # noqa: E402
import targets  # noqa: E402

CASE = """{"workload": "%s", "strategy": "%s", "params": %s, "status": "ok", "stats": {"step_time_ns": {"median": %d}}, "dtype": "bf16",
           "scale": %d, "batch": %d, "derived": {"flop_per_step": %s, "peak_flop_per_s": 1e12, "samples_per_s": 6400, "flop_share": 0.25}}"""


def case(workload, us, strategy="gpu", params=None, flop="null", scale=1, batch=64):
    return json.loads(CASE % (workload, strategy, json.dumps(params or {}), us * 1000, scale, batch, flop))


class Targets(unittest.TestCase):
    def judged(self, said, records=(), rehearse=False):
        return {one["name"]: one for one in targets.judge(said, records, types.SimpleNamespace(rehearse=rehearse))}

    def test_the_speedup_over_python_is_pythons_median_step_time_divided_by_that_of_dpbenchs_cuda_graph(self):
        said = {"measure-graphs": {"a": {"cases": [case("mnist-mlp", 10, params={"graph": "off"}),
                                                   case("mnist-mlp", 20, params={"graph": "on"})]}},
                "peers": {"eager": {"step_us": {"mnist-mlp": [90, 100, 400]}}, "reduce-overhead": {"step_us": {"mnist-mlp": [38, 39, 39]}}}}
        judged = self.judged(said)
        self.assertEqual((judged["mnist-mlp against Python, eager"]["value"], judged["mnist-mlp against Python, eager"]["verdict"]), (5, "met"))
        self.assertEqual(judged["mnist-mlp against Python, reduce-overhead"]["verdict"], "missed")
        self.assertEqual(judged["convnet against Python, eager"]["verdict"], "not measured")
        del said["measure-graphs"]["a"]["cases"][1]
        lacking = self.judged(said)["mnist-mlp against Python, eager"]
        self.assertEqual((lacking["value"], lacking["verdict"]), (None, "not measured"))
        self.assertRegex(lacking["measured"], r"\bours\b")
        self.assertNotIn("Python", lacking["measured"])

    def test_ddps_overhead_is_judged_only_for_steps_of_at_least_2_ms(self):
        said = {"measure-ddp-1": {label: {"cases": [case("mnist-mlp", alone), case("mnist-mlp", ddp, "ddp")]}
                                  for label, alone, ddp in (("short", 100, 120), ("good", 2000, 2060), ("bad", 3000, 3100))}}
        judged = self.judged(said)
        self.assertEqual([judged[f"ddp at world 1 over gpu, {label}"]["verdict"] for label in ("short", "good", "bad")], ["shown", "met", "missed"])
        self.assertEqual(judged["ddp at world 1 over gpu, short"]["measured"], "+20.0 us on 100.0 us")

    def test_ddp_as_a_cuda_graph_is_compared_with_eager_ddp_and_left_out_of_ddps_overhead(self):
        said = {"measure-ddp-1": {"short": {"cases": [case("mnist-mlp", 100), case("mnist-mlp", 120, "ddp", {"graph": "off"}),
                                                      case("mnist-mlp", 40, "ddp", {"graph": "on"})]},
                                  "long": {"cases": [case("mnist-mlp", 2000), case("mnist-mlp", 2040, "ddp")]}}}
        judged = self.judged(said)
        self.assertEqual(judged["ddp at world 1 over gpu, short"]["measured"], "+20.0 us on 100.0 us")
        self.assertEqual(judged["ddp at world 1 as a CUDA graph against eager, short"]["measured"], "3.00 times: 40.0 and 120.0 us")
        self.assertNotIn("ddp at world 1 as a CUDA graph against eager, long", judged)

    def test_dp_as_cuda_graphs_is_compared_with_eager_by_workload_and_world(self):
        def rows(*us):
            return {"cases": [case(workload, one, "dp", {"graph": graph}) for workload, one, graph in us]}
        judged = self.judged({"measure-dp": {"1": rows(("mnist-mlp", 90, "off"), ("convnet", 400, "off"), ("mnist-mlp", 60, "on"), ("convnet", 500, "on")),
                                             "2": rows(("mnist-mlp", 200, "off"), ("mnist-mlp", 100, "on"), ("convnet", 800, "off")), "4": None}})
        shown = {name: (one["measured"], one["verdict"]) for name, one in judged.items() if name.startswith("dp ")}
        self.assertEqual(shown, {"dp at world 1 as CUDA graphs against eager, mnist-mlp": ("1.50 times: 60.0 and 90.0 us", "shown"),
                                 "dp at world 1 as CUDA graphs against eager, convnet": ("0.80 times: 500.0 and 400.0 us", "shown"),
                                 "dp at world 2 as CUDA graphs against eager, mnist-mlp": ("2.00 times: 100.0 and 200.0 us", "shown")})

    def test_the_share_of_the_gpus_peak_rate_uses_the_flop_count_of_the_eager_step(self):
        rows = [case("mnist-mlp", 200, params={"graph": "off"}, flop="80000000"), case("mnist-mlp", 100, params={"graph": "on"})]
        name = "share of the measured matrix-product rate, a scaled mnist-mlp in bf16"
        self.assertEqual(self.judged({"measure-scales": {"4": {"cases": rows}}})[name]["verdict"], "met")
        self.assertEqual(self.judged({"measure-scales": {"4": {"cases": rows[:1]}}})[name]["verdict"], "missed")

    def test_a_conformance_target_is_judged_only_if_its_checks_ran_to_the_end(self):
        records = [{"name": name, "what": name, "status": status, "commands": [{}]} for name, status in zip(targets.CONFORMING, ("passed", "timeout"))]
        judged = self.judged({}, records)
        self.assertEqual([judged[f"{name}: gradients conform"]["verdict"] for name in targets.CONFORMING], ["met", "not measured"])
        started_nothing = [record | {"status": "failed", "commands": []} for record in records]
        self.assertEqual({one["verdict"] for one in self.judged({}, started_nothing).values()}, {"not measured"})

    def test_a_rehearsal_of_gpu_check_without_gpu_gives_no_verdict_on_targets(self):
        said = {"measure-ddp-1": {"a": {"cases": [case("mnist-mlp", 3000, "cpu"), case("mnist-mlp", 4000, "ddp")]}}}
        self.assertEqual({one["verdict"] for one in self.judged(said, rehearse=True).values()}, {"not measured", "rehearsed"})


class Sweeps(unittest.TestCase):
    def sweep(self, *steps):
        """Returns measurements of several batch sizes, given as (batch, us per step). Every step has 1e8 operations and
        the peak is 1e12 per second, so a step of 100 us reaches 100 % of the peak."""
        return {"measure-batches": {"mnist-mlp": {"cases": [case("mnist-mlp", us, flop="100000000", batch=batch) for batch, us in steps]}}}

    def test_a_gpu_counts_as_busy_from_the_smallest_batch_that_nearly_reaches_the_best_flop_rate(self):
        shares = figures.peak_shares(self.sweep((4096, 125), (64, 1000), (1024, 130), (256, 400)), "measure-batches", "batch")
        self.assertEqual({place: round(share, 3) for (_, place), share in shares.items()}, {64: 0.1, 256: 0.25, 1024: 0.769, 4096: 0.8})
        self.assertEqual(figures.busy_from(shares), {"mnist-mlp": (1024, 4096, False)})

    def test_a_batch_sweep_that_ends_before_the_gpu_is_busy_is_reported(self):
        # With one batch size it is unknown whether a larger one is faster, so the page reports nothing.
        self.assertEqual(list(page.busy(self.sweep((64, 1000)))), [])
        said = self.sweep((64, 1000), (256, 400))
        (line,) = page.busy(said)
        self.assertRegex(line, r"\bmnist-mlp by rows: .*\b256 \(64: 10 %, 256: 25 %\)")


class Page(unittest.TestCase):
    def test_the_result_page_of_gpu_check_has_the_medians_of_steps_and_allreduces(self):
        entry = {"run_type": "iteration", "time_us": 12.34, "bytes": 4096.0}
        said = {"measure-scales": {"convnet-4": {"cases": [case("convnet", 210, params={"graph": "on"}, scale=4, batch=1024)]}},
                "measure-dp": {"2": {"cases": [case("mnist-mlp", 90, "dp", params={"graph": "on"}) | {"world": 2}]}},
                "peers": {"eager": {"step_us": {"convnet": [30, 40, 50]}}},
                "measure-allreduce": {"nccl": {"benchmarks": [entry | {"name": "allreduce/backend:nccl/world:1/bytes:4096/iterations:5/manual_time"}]},
                                      "shared": {"benchmarks": [entry | {"name": "allreduce/backend:shm/world:2/bytes:4096/x", "time_us": 5},
                                                                entry | {"name": "allreduce/backend:gloo/world:2/bytes:16/x", "bytes": 16.0},
                                                                {"run_type": "iteration", "name": "allreduce/backend:gloo/world:2/bytes:4096", "error_occurred": True},
                                                                entry | {"name": "allreduce/backend:gloo/world:2/bytes:4096", "wrong": 1.0}]}},
                "measure-gpus-2": {"dp": {"cases": [case("mnist-mlp", 80, "dp", params={"link": "plain"}) | {"world": 2}]}},
                "collectives-gpus-2": {"two": {"benchmarks": [entry | {"name": "allreduce/backend:nccl/world:2/bytes:4096/x", "time_us": 9},
                                                            entry | {"name": "broadcast/backend:nccl/world:2/bytes:4096/x", "time_us": 7}]}}}
        text = page.page({"rehearsal": False, "gpu": "H200", "command": ["x"], "seconds": 1, "parts": [], "targets": []}, said)
        for line in ("| scales | convnet | gpu, graph | 4 | bf16 | 1024 | 210.0 | 6,400 | 25.0 % |  |  |  |", "| eager | convnet | 40.0 |",
                     "| dp | mnist-mlp | dp, 2 replicas, graph | 1 | bf16 | 64 | 90.0 | 6,400 | 25.0 % |  |  |  |",
                     "| gpus-2 | mnist-mlp | dp, 2 replicas, plain link | 1 | bf16 | 64 | 80.0 | 6,400 | 25.0 % |  |  |  |",
                     "| bytes | gloo, world 2 | nccl, world 1 | nccl, world 2 | shm, world 2 |", "| 16 | 12.3 |  |  |  |", "| 4,096 |  | 12.3 | 9.0 | 5.0 |"):
            self.assertIn(line + "\n", text)

    def test_parts_of_gpu_check_whose_commands_printed_nothing_have_no_figures(self):
        text = page.page({"rehearsal": True, "gpu": None, "command": ["x"], "seconds": 1, "parts": [], "targets": []},
                         {"measure-scales": {"a": None}, "peers": {"eager": None}, "measure-allreduce": {"nccl": None}})
        for section in text.split("\n## ")[-4:]:
            self.assertNotIn("\n|", section)
            self.assertRegex(section, r"\n\n\w.*\.\n*\Z", "a sentence stands in place of the table")


class GptTargets(unittest.TestCase):
    def test_each_size_of_gpt_is_compared_with_the_same_size_in_python(self):
        cases = [case("gpt", 10, params={"graph": "on"}) | {"model": "small"}, case("gpt", 100, params={"graph": "on"}) | {"model": "gpt2-124m"}]
        said = {"measure-gpt": {"all": {"cases": cases}},
                "peers-gpt": {"eager-small": {"step_us": {"gpt": [60]}}, "compile-gpt2-124m": {"step_us": {"gpt2-124m": [90]}}}}
        judged = {one["name"]: one for one in targets.judge(said, [], types.SimpleNamespace(rehearse=False))}
        small, large = judged["gpt small against Python, eager"], judged["gpt gpt2-124m against Python, compile"]
        self.assertEqual((small["value"], small["verdict"], large["value"], large["verdict"]), (6, "met", 0.9, "missed"))


class Overlap(unittest.TestCase):
    def test_overlapping_kernels_count_once_in_the_share_of_copy_time_they_hide(self):
        def event(category, begin, end, name="Memcpy HtoD (Pinned -> Device)"):
            return {"cat": category, "name": name, "ts": begin, "dur": end - begin}

        kernels = [event("kernel", 0, 10), event("kernel", 5, 12), event("kernel", 30, 40)]
        copies = [event("gpu_memcpy", 8, 20), event("gpu_memcpy", 38, 42), event("gpu_memcpy", 0, 9, "Memcpy DtoH")]
        self.assertEqual(overlap.overlap([*kernels, *copies, {"ph": "M"}]), {"copies_us": 16, "under_kernels": 0.375, "copies": 2, "kernels": 3})
        self.assertEqual(overlap.overlap(kernels)["under_kernels"], 0)


if __name__ == "__main__":
    unittest.main()
