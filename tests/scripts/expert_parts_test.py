"""Tests that scripts/studies/expert-parts divides a traced step into its parts, on a trace with known spans."""
import importlib.machinery
import importlib.util
import pathlib
import unittest

SCRIPT = pathlib.Path(__file__).resolve().parents[2] / "scripts/studies/expert-parts"
loader = importlib.machinery.SourceFileLoader("expert_parts", str(SCRIPT))
expert_parts = importlib.util.module_from_spec(importlib.util.spec_from_loader("expert_parts", loader))
loader.exec_module(expert_parts)


def span(rank, name, begin, end, category="cpu_op"):
    return {"ph": "X", "pid": 1000 * rank, "cat": category, "name": name, "ts": begin, "dur": end - begin}


def collective(name, *spans):
    return [span(rank, name, *ends, "collective") for rank, ends in enumerate(spans)]


PHASES = (("data", 0, 10), ("forward", 10, 50), ("backward", 50, 80), ("communication", 80, 90), ("optimizer", 90, 100))
# One step of two ranks, of 100 microseconds.
STEP = [{"ph": "M", "pid": 0, "name": "process_name", "args": {"name": "rank 0"}},
        *(span(rank, f"dpbench: {name}", *ends, "user_annotation") for rank in (0, 1) for name, *ends in PHASES),
        *collective("allgather", (12, 20), (16, 20)),
        *collective("alltoall", (20, 30), (22, 30)),
        *collective("allreduce", (80, 90), (80, 90))]


class Parts(unittest.TestCase):
    def percents(self, *more):
        parts, step_ms = expert_parts.parts_of([*STEP, *more])
        self.assertAlmostEqual(sum(parts.values()), 1)
        self.assertAlmostEqual(step_ms, 0.1)
        return {part: round(100 * share, 6) for part, share in parts.items()}

    def test_the_waiting_time_of_a_collective_ends_when_the_last_rank_calls_it(self):
        self.assertEqual(self.percents(),
                         {"tokens": 8, "counts": 4, "gradients": 10, "waiting": 3, "routing": 0, "rest": 75})

    def test_nested_operators_of_expert_routing_count_once_in_the_forward_and_the_backward_pass(self):
        found = self.percents(span(0, "aten::index_select", 30, 40), span(0, "aten::index_select", 31, 39),
                              span(1, "IndexSelectBackward0", 60, 70), span(1, "aten::mm", 70, 80))
        self.assertEqual((found["routing"], found["rest"]), (10, 65))

    def test_embedding_and_preparation_of_samples_do_not_count_as_routing_of_tokens_to_experts(self):
        found = self.percents(span(0, "aten::index_select", 2, 6), span(0, "aten::embedding", 10, 12),
                              span(0, "aten::index_select", 10, 12))
        self.assertEqual(found["routing"], 0)

    def test_expert_parts_refuses_a_trace_whose_ranks_called_different_numbers_of_collectives(self):
        with self.assertRaises(ValueError):
            self.percents(span(0, "alltoall", 60, 70, "collective"))


if __name__ == "__main__":
    unittest.main()
