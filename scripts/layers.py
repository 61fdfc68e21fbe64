#!/usr/bin/env python3
"""layers.py [ROOT]: fails if a source file or test includes a header of a higher layer, or uses a third-party header or
an x86 builtin outside the places allowed for it, if the sources compare with too many string literals, or if a folder
has too many files."""
import collections
import pathlib
import re
import sys

BASE = ("workloads/base/",)  # headers that every file may include
APIS = ("workloads/api/", "strategies/api/", "workloads/data/")
TOPS = ("workloads/", "strategies/", "harness/")
INSTALLED = ("workloads/api/", "strategies/api/")
# Headers that the tests of several folders may include.
SHARED = ("tests/support/", "tests/ranks/")
STRATEGY_TESTS = ("workloads/", "strategies/", "harness/conform/", *SHARED)
MUTANT = ("tests/conformance/wrong_strategies/mutant.h", "tests/conformance/wrong_strategies/of_both_references.h")
# {component: the other components or headers it may include}. A component is a folder or file of the source tree.
ALLOWED = {
    "workloads/": (),
    "strategies/": ("workloads/",),
    "strategies/comm/": ("strategies/api/",),
    "strategies/schedule/": (),
    "harness/report/": (),
    # Predictions need the gpt model's formulas. The headers with these formulas do not include torch.
    "harness/forecast/": ("harness/report/", "strategies/schedule/", "workloads/gpt/footprint.h", "workloads/gpt/shape.h"),
    # The front (the dpbench process) may include these because they do not include torch.
    "harness/front/": ("harness/report/", "harness/forecast/", "workloads/gpt/shape.h", "workloads/data/mnist_files.h", "strategies/schedule/"),
    # The conformance suite's test models (probes) are built from these layers and blocks.
    "harness/conform/": (*APIS, "workloads/layers/", "workloads/blocks/", "strategies/parts/compat.h",
                         "harness/report/"),
    "harness/worker/": (*APIS, "strategies/parts/flop_count.h", "strategies/parts/parameter_table.h", "harness/report/",
                        "harness/conform/"),
    # The micro-benchmarks parse the flags of `dpbench collectives` and wrap its tables to the width of the terminal.
    # They measure the network between the addresses that Gloo uses.
    "harness/micro/": (*APIS, "strategies/comm/base/route.h", "workloads/layers/", "strategies/parts/",
                       "harness/report/",
                       "harness/worker/", "harness/front/cli/", "harness/front/text/"),
    "harness/main.cpp": ("harness/front/", "harness/report/text/shell.h"),
    # Each folder of tests may include the code it tests and the shared headers, but no other folder's header.
    "tests/support/": TOPS,
    "tests/ranks/": (*TOPS, "tests/support/"),
    "tests/fakes/": (*APIS, "harness/report/", "harness/conform/", "tests/support/"),
    "tests/fakes/consumer/": INSTALLED,
    "tests/fakes/plugin_parts/": INSTALLED,
    "tests/plugin_example/": INSTALLED,
    "tests/unit/schedule/": ("strategies/schedule/", "tests/support/"),
    "tests/unit/report/": ("harness/report/", "harness/conform/filter.h", "tests/support/"),
    "tests/unit/forecast/": ("harness/forecast/", "harness/report/", "tests/support/"),
    "tests/unit/front/": ("harness/front/", "harness/report/", "tests/support/"),
    "tests/unit/workloads/": ("workloads/", "strategies/api/", "strategies/parts/", "harness/conform/",
                              "tests/support/"),
    "tests/unit/comm/": ("strategies/", *SHARED),
    "tests/unit/strategies/": STRATEGY_TESTS,
    "tests/unit/strategies/data_parallel/": STRATEGY_TESTS,
    "tests/unit/strategies/sharded/": STRATEGY_TESTS,
    "tests/unit/worker/": (*APIS, "workloads/layers/", "strategies/parts/flop_count.h", "harness/conform/",
                           "harness/worker/", *SHARED),
    "tests/conformance/": (*APIS, "harness/conform/", *SHARED),
    "tests/conformance/wrong_strategies/": STRATEGY_TESTS,
    "tests/conformance/wrong_strategies/parallel/": (*STRATEGY_TESTS, *MUTANT),
    "tests/conformance/wrong_strategies/sharded/": (*STRATEGY_TESTS, *MUTANT),
    "tests/programs/": (*APIS, "tests/support/"),
    "tests/fuzz/": ("workloads/data/", "harness/front/", "harness/report/"),
}
# {component: its layers, lowest first}. A layer may include itself and lower layers; files outside any layer may
# include all.
LAYERS = {
    "workloads/": ("base", "api", "layers", "blocks", "data"),
    "strategies/": ("schedule", "api", "comm", "graphs/step_graph.h", "parts/compat.h", "parts/same_lines.h",
                    "parts/shares.h", "parts/flop_count.h", "api/parts",
                    "parts", "graphs", "ddp", "dp", "fsdp", "pipeline", "tensor", "context", "experts", "layout"),
    "strategies/comm/": ("base", "shm", "hosts"),
    "harness/report/": ("base", "text", "stats", "record", "machine", "figures", "judge", "answer", "export", "validate"),
    "harness/forecast/": ("exposed_communication.h", "network.h", "output.h", "project", "plan"),
    "harness/front/": ("text", "cli", "plan", "process", "launch", "launch/outside", "run", "commands"),
    "harness/conform/": ("probes", "evidence", "scenario", "oracle", "judges"),
    "harness/worker/": ("rank", "steps", "measure", "check", "train"),
}
TORCH_TESTS = (*SHARED, "tests/fakes/", "tests/plugin_example/", "tests/unit/workloads/", "tests/unit/comm/",
               "tests/unit/strategies/", "tests/unit/worker/", "tests/conformance/", "tests/programs/train/")
# {pattern of third-party headers: the only places that may include them}
PLACES = {
    r"(torch|ATen|c10)/": ("workloads/", "strategies/", "harness/conform/", "harness/worker/", "harness/micro/",
                           *TORCH_TESTS),
    r"torch/csrc/distributed/": ("strategies/", "harness/conform/", "harness/worker/", "harness/micro/",
                                 *TORCH_TESTS),
    r"nccl\.h|cuda_runtime|c10/cuda/|ATen/cuda/|.*ProcessGroupNCCL": ("strategies/comm/", "strategies/graphs/cuda_graph.cpp"),
    r"gloo/|.*ProcessGroupGloo": ("strategies/comm/",),
    r"nlohmann/": ("harness/report/", "workloads/data/safetensors"),
    r"CLI/": ("harness/front/", "harness/micro/"),
    r"re2/": ("harness/report/text/pattern.cpp",),
    r"toml\+\+/": ("harness/front/cli/config_file.cpp",),
    r"benchmark/": ("harness/micro/",),
    r"(gtest|gmock)/": ("tests/unit/", "tests/conformance/", *SHARED),
}
# Folders that must not include any third-party header, although PLACES allows it for the folder above.
BARE = ("strategies/schedule/",)
# Pattern of GCC's x86 builtins, and the only file that may use them: it has a portable fallback. The pattern does not
# match the intrinsics of headers, such as _mm_sfence.
INTRINSIC, INTRINSIC_PLACE = re.compile(r"__builtin_ia32_\w+"), "strategies/comm/base/spin_pause.h"
# Most comparisons (== or !=) with string literals in all sources, without the tests. Names belong in enums and tables.
MOST_COMPARISONS = 39
MOST_FILES = 25  # in one folder
TEXT = re.compile(r"""//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])'""", re.DOTALL)
COMPARISON = re.compile(r'[=!]=\s*""|""s?v?\s*[=!]=')
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)


def component_of(path):
    return max((component for component in ALLOWED if path.startswith(component)), key=len, default=path)


def layer_of(component, path):
    """Returns the index of the file's layer within its component. Files outside any layer rank above all layers."""
    layers = LAYERS.get(component, ())
    inside = [layer for layer in layers if path.startswith((component + layer + "/", component + layer)) and
              (path == component + layer or path.startswith(component + layer + "/"))]
    return layers.index(max(inside, key=len)) if inside else len(layers)


def fault(path, quote, header):
    """Returns the reason why the file at `path` may not include this header, or None if it may."""
    component = component_of(path)
    if quote == '"' and not header.startswith((component, *BASE, *ALLOWED.get(component, ()))):
        return f"{component} may not include it (include paths start at the top folder)"
    if quote == '"' and header.startswith(component) and layer_of(component, header) > layer_of(component, path):
        return "it belongs to a higher layer"
    for pattern, places in PLACES.items():
        if re.match(pattern, header) and path.startswith(BARE):
            return "this folder uses the standard library alone"
        if re.match(pattern, header) and not path.startswith(places):
            return "belongs only in " + " ".join(places)
    return None


def comparisons_in(source):
    """Returns the number of comparisons with string literals. Comments and the literals' own text do not count."""
    return len(COMPARISON.findall(TEXT.sub(lambda text: '""' if text[0][0] in 'R"' else " ", source)))


def comparison_faults(sources):
    """Returns a list with one fault if the sources {path: text} compare with too many string literals, otherwise []."""
    counts = {path: comparisons_in(text) for path, text in sources.items() if path.startswith(TOPS)}
    number = sum(counts.values())
    if number <= MOST_COMPARISONS:
        return []
    worst = sorted(counts, key=counts.get, reverse=True)[:5]
    where = ", ".join(f"{path} ({counts[path]})" for path in worst if counts[path])
    return [f"{worst[0]}: {number} comparisons with string literals (== or !=) in all sources: at most {MOST_COMPARISONS}"
            f" are allowed. Make the names an enum or a table. Most are in {where}"]


def crowded(paths):
    """Returns a fault for each folder that has too many files."""
    counts = collections.Counter(path.rpartition("/")[0] for path in paths)
    return [f"{folder}: {count} files: at most {MOST_FILES} are allowed"
            for folder, count in counts.items() if count > MOST_FILES]


def main():
    root = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parent.parent)
    tops = (*TOPS, "tests/", "scripts/")
    all_files = [file for top in tops for file in sorted((root / top).rglob("*")) if file.is_file()]
    files = [file for file in all_files if file.suffix in (".h", ".cpp", ".inc", ".hpp", ".cu")]
    sources = {str(file.relative_to(root)): file.read_text(encoding="utf-8") for file in files}
    faults = [f"{path}: {header}: {why}" for path, text in sources.items()
              for quote, header in INCLUDE.findall(text) if (why := fault(path, quote, header))]
    faults += [f"{path}: {name}: belongs only in {INTRINSIC_PLACE}" for path, text in sources.items()
               if path != INTRINSIC_PLACE for name in INTRINSIC.findall(text)]
    faults += comparison_faults(sources)
    faults += crowded(str(file.relative_to(root)) for file in all_files if file.suffix != ".pyc")
    print(*faults, f"{len(files)} files, {len(faults)} faults", sep="\n")
    return 1 if faults or not files else 0


if __name__ == "__main__":
    sys.exit(main())
