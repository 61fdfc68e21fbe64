"""PyTorch's own data parallelism (DDP, ZeroRedundancyOptimizer), run over dpbench's process groups."""
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import dpbench

SWITCH = "on|off"
DDP_PARAMS = [("find_unused", "off", "look for parameters that a step does not use", SWITCH),
              ("skip_unused", "off", "with find_unused, reduce no bucket that no rank uses; all ranks must use "
               "the same parameters", SWITCH),
              ("bucket_mb", "25", "size of a bucket of gradients, in MiB", "number above 0"),
              ("gradient_as_bucket_view", "off", "gradients are views of the buckets", SWITCH),
              ("static_graph", "off", "every step uses the same parameters", SWITCH),
              ("broadcast_buffers", "on", "rank 0's buffers are broadcast before each forward pass", SWITCH),
              ("hook", "none", "communication hook: gradients are sent in 16 bits", "none|fp16|bf16")]


def ddp_promises(params):
    on = {name for name, value in params.items() if value in ("on", "true", "1")}
    if "skip_unused" in on and "find_unused" not in on:
        raise dpbench.UsageError("--param skip_unused=on needs --param find_unused=on")
    hook = {"fp16": "float16", "bf16": "bfloat16"}.get(params["hook"])
    return {"allows_unused": "find_unused" in on,
            "same_graph": bool(on & {"static_graph", "skip_unused"}),
            "buffers": "rank0" if "broadcast_buffers" in on else "local",
            **({"reduced_in": hook} if hook else {})}


@dpbench.strategy("py-ddp", params=DDP_PARAMS, promise=ddp_promises,
                  settings={"revealing": {"bucket_mb": 0.0001}, "allow_unused": {"find_unused": True}})
class Ddp(dpbench.Strategy):
    """PyTorch's DistributedDataParallel"""

    def __init__(self, setup):
        super().__init__(setup)
        self.model = setup.model()
        self.ddp = DistributedDataParallel(
            self.model, process_group=setup.group, find_unused_parameters=setup.flag("find_unused"),
            skip_all_reduce_unused_params=setup.flag("skip_unused"), static_graph=setup.flag("static_graph"),
            bucket_cap_mb=float(setup.params["bucket_mb"]), broadcast_buffers=setup.flag("broadcast_buffers"),
            gradient_as_bucket_view=setup.flag("gradient_as_bucket_view"))
        if setup.params["hook"] != "none":
            from torch.distributed.algorithms.ddp_comm_hooks import default_hooks
            self.ddp.register_comm_hook(setup.group, getattr(default_hooks, setup.params["hook"] + "_compress_hook"))
        self.optimizer = self.make_optimizer()

    def make_optimizer(self):
        return self.setup.optimizer(self.model.parameters())

    def step(self, step, micro):
        self.optimizer.zero_grad()
        result = self.passes(step, micro, self.ddp, quiet=self.ddp.no_sync)
        self.update(step)
        return result


@dpbench.strategy("py-zero1", params=DDP_PARAMS, promise=ddp_promises,
                  settings={"revealing": {"bucket_mb": 0.0001}, "allow_unused": {"find_unused": True}})
class Zero1(Ddp):
    """PyTorch's DistributedDataParallel with ZeroRedundancyOptimizer"""

    def make_optimizer(self):
        # Imported here, because the import takes a second and py-ddp does not need it.
        from torch.distributed.optim import ZeroRedundancyOptimizer
        setup = self.setup
        trained = [tensor for tensor in self.model.parameters() if tensor.requires_grad]
        if setup.optimizer_kind == "sgd":
            options = {"optimizer_class": torch.optim.SGD, "momentum": setup.momentum}
        elif setup.optimizer_kind == "own":
            raise dpbench.UsageError("py-zero1 does not divide the state of the workload's own optimizer: "
                                     "use py-ddp or py-fsdp2")
        else:
            trained = setup.decay_groups(trained)
            options = {"optimizer_class": torch.optim.AdamW, "betas": setup.betas, "eps": setup.epsilon, "fused": True}
        return ZeroRedundancyOptimizer(trained, process_group=setup.group, lr=setup.learning_rate, **options)

    def state(self):
        """Collects each parameter's state from the rank that owns it."""
        own, whole = self.optimizer.optim.state, {}
        named = {tensor: name for name, tensor in self.model.named_parameters() if tensor.requires_grad}
        owners = self.optimizer._param_to_rank
        for tensor, name in named.items():
            for slot, key in self.slots().items():
                entry = own.get(tensor, {}).get(key)
                if entry is None:
                    entry = torch.zeros(()) if slot == "step" else torch.zeros_like(tensor.detach())
                entry = entry.clone()
                dist.broadcast(entry, src=owners[tensor], group=self.setup.group)
                whole[f"{name}.{slot}"] = entry
        return whole

    def kept_tensors(self):
        own, slots = self.optimizer.optim.state, self.slots()
        state = {f"{name}.{slot}": own[tensor][key] for name, tensor in self.model.named_parameters() if tensor in own
                 for slot, key in slots.items()}
        return self.parameters(), self.buffers(), self.gradients(), state

    def load(self, parameters, buffers, state):
        super().load(parameters, buffers, {})
        own = {name: tensor for name, tensor in self.model.named_parameters()}
        for name, tensor in state.items():
            parameter, slot = name.rsplit(".", 1)
            if self.optimizer._param_to_rank[own[parameter]] == self.setup.rank:
                self.optimizer.optim.state[own[parameter]][self.slots()[slot]] = tensor.clone()
