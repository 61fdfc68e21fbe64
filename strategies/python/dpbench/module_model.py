"""Registers the model of --model MODULE:CLASS as a workload. The class or MODULE has loss(output, target), and either
data() or both samples and batch(ids). A dictionary `workload` in one of them may hold fields of dpbench.workload, such
as the optimizer."""
import importlib
import os
import sys

import dpbench

sys.path.insert(0, os.getcwd())
module_name, _, name = os.environ["DPBENCH_MODEL"].partition(":")
module = importlib.import_module(module_name)
if not hasattr(module, name):
    raise dpbench.UsageError(f"--model {module_name}:{name}: the module has no {name}")
model = getattr(module, name)
parts = {"model": lambda self: model(), "__doc__": model.__doc__ or f"{name} of {module_name}"}
for part in ("loss", "loss_terms", "data", "samples", "batch", "test_samples", "test_batch"):
    owner = next((owner for owner in (model, module) if hasattr(owner, part)), None)
    if owner is not None:
        found = getattr(owner, part)
        parts[part] = staticmethod(found) if callable(found) else found
if "loss" not in parts or not ("data" in parts or {"samples", "batch"} <= set(parts)):
    raise dpbench.UsageError(f"--model {module_name}:{name}: the class or its module needs loss(output, target), and data() or samples "
                             "and batch(ids)")
dpbench.workload(name, **getattr(model, "workload", getattr(module, "workload", {})))(type(name, (), parts))
