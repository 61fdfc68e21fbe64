"""PyTorch's fully_shard (FSDP2), run over dpbench's process groups."""
import contextlib

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

import dpbench
from dpbench import gpt_modules
from dpbench.dtensors import DividedStrategy


@dpbench.strategy("py-fsdp2", buffers="local", collective_evaluation=True, axes=["dp", "shard"],
                  params=[("unit", "auto", "parameters that are gathered together: those of a layer, or of the whole "
                           "model; auto: of a layer if the model is one that gpt_modules.py builds",
                           "auto|layer|model"),
                          ("reshard", "on", "free the parameters after the forward pass", "on|off"),
                          ("gather", "as_stored", "dtype in which parameters are gathered and used", "as_stored|bf16"),
                          ("reduce", "as_gathered", "dtype in which gradients are reduced", "as_gathered|fp32")])
class Fsdp2(DividedStrategy):
    """PyTorch's fully_shard (FSDP2), by layer or the whole model as one unit"""

    def __init__(self, setup):
        super().__init__(setup)
        self.model, layers = self.make_model()
        for name, tensor in self.model.named_parameters():
            if tensor.dim() == 0 or tensor.numel() == 0 or not tensor.is_contiguous():
                raise dpbench.UsageError(f"fully_shard of torch {torch.__version__} cannot shard parameter {name}: it "
                                         "has no dimension, no element, or is not contiguous")
        for tensor in [*self.model.parameters(), *self.model.buffers()]:
            dist.broadcast(tensor.data, src=0, group=setup.group)
        policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16 if setup.params["gather"] == "bf16" else None,
                                      reduce_dtype=torch.float32 if setup.params["reduce"] == "fp32" else None)
        options = {"mesh": setup.device_mesh(), "mp_policy": policy}
        for layer in layers:
            fully_shard(layer, reshard_after_forward=setup.flag("reshard"), **options)
        # If each layer is a unit, the root unit stays gathered between forward and backward pass, as by default in
        # fully_shard and as in the strategy fsdp.
        fully_shard(self.model, reshard_after_forward=setup.flag("reshard") and not layers, **options)
        self.optimizer = setup.optimizer(self.model.parameters())

    def make_model(self):
        """Returns the model, and its layers if each is a unit."""
        unit = self.setup.params["unit"]
        if unit != "model":
            try:
                model = gpt_modules.Gpt(self.setup, *gpt_modules.read(self.setup))
                return model, list(model.model.layers.values())
            except dpbench.UsageError as error:
                if unit == "layer":
                    raise type(error)(f"py-fsdp2.unit=layer: {error}, or py-fsdp2.unit=model") from None
        return self.setup.model(replaceable=True), []

    def step(self, step, micro):
        self.optimizer.zero_grad()
        self.model.set_requires_gradient_sync(len(micro) == 1)
        result = self.passes(step, micro, quiet=self.unsynchronised)
        self.update(step)
        return result

    @contextlib.contextmanager
    def unsynchronised(self):
        self.model.set_requires_gradient_sync(False)
        yield
        self.model.set_requires_gradient_sync(True)

    def reshard(self):
        for module in self.model.modules():
            if isinstance(module, FSDPModule):
                module.reshard()

    def parameters(self):
        self.reshard()
        return super().parameters()

    def kept_tensors(self):
        self.reshard()
        return super().kept_tensors()

    def load(self, parameters, buffers, state):
        self.reshard()
        super().load(parameters, buffers, state)
