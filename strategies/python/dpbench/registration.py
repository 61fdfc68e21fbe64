"""The decorators that register strategies and workloads. Nothing here needs torch."""
from dpbench.errors import UsageError

strategies, workloads = {}, {}  # registered classes by number, in the order of registration


class Entry:
    """A registered class, its fields as text, and the parameters that --param can set."""

    def __init__(self, cls, fields, params=(), promise=None, optimizer=None):
        self.cls, self.fields, self.params, self.promise, self.optimizer = cls, fields, params, promise, optimizer


def text_of(value):
    """Returns the text that dpbench reads for a value of a registration: of a promise or of a parameter's default."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, dict):
        return ",".join(f"{name}={text_of(item)}" for name, item in value.items())
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value))
    return str(value).removeprefix("torch.")


def fields_of(cls, name, summary, promises):
    doc = (cls.__doc__ or "").strip().splitlines()
    return {"name": name, "summary": summary or (doc[0] if doc else name),
            **{field: text_of(value) for field, value in promises.items() if value is not None}}


def strategy(name, summary="", *, params=(), settings=None, promise=None, **promises):
    """Registers a class as a strategy. params: (name, default, summary[, allowed values]) of each parameter that
    --param can set; allowed values are words such as "none|fp16|bf16", "integer from 1" or "number above 0". promises:
    the fields of strategies/demands.md, such as gradient="mean_of_means", buffers="rank0". promise: a function that
    takes the parameter values and returns the fields that depend on them, or raises UsageError for values that contradict
    each other. settings: parameter values with which the checks reach non-default behaviour, such as {"revealing":
    {"bucket_mb": 0.0001}}."""
    promises.update({"settings." + kind: values for kind, values in (settings or {}).items()})

    def register(cls):
        strategies[len(strategies) + 1] = Entry(cls, fields_of(cls, name, summary, promises),
                                                [param_of(name, param) for param in params], promise)
        return cls
    return register


def param_of(owner, param):
    if not 3 <= len(param) <= 4:
        raise UsageError(f"strategy '{owner}': a parameter is (name, default, summary) or (name, default, summary, values)")
    name, default, summary, *values = map(text_of, param)
    return [name, default, summary, *(values or [""])]


def workload(name, summary="", *, batch=32, samples=None, test_samples=None, scaling="weak", optimizer="sgd", learning_rate=1e-3,
             **fields):
    """Registers a class as a workload. The class has model(), which returns a new nn.Module, and loss(output, target),
    which returns the mean over the samples. It also has batch(ids), which returns the input and target of these
    samples, or data(), which returns a Dataset of pairs. samples may be an attribute of the class. fields: beta1,
    beta2, epsilon, weight_decay (AdamW), momentum, warmup_steps, decay_steps, final_fraction.

    optimizer: "sgd", "adam", or the workload's own, a function of (parameters, lr) that returns a
    torch.optim.Optimizer, such as torch.optim.Adagrad or functools.partial(torch.optim.RMSprop, alpha=0.9). The check
    optimizer-replay gives it one parameter at a time."""
    own = optimizer if callable(optimizer) else None
    settings = sorted({"beta1", "beta2", "epsilon", "weight_decay", "momentum"} & set(fields))
    if own and settings:
        raise UsageError(f"workload '{name}': {', '.join(settings)}: give its own optimizer these by functools.partial")

    def register(cls):
        workloads[len(workloads) + 1] = Entry(cls, fields_of(cls, name, summary, {
            "batch": batch, "samples": samples, "test_samples": test_samples, "scaling": scaling,
            "optimizer": None if own else optimizer, "own_optimizer": True if own else None,
            "learning_rate": learning_rate, **fields}), optimizer=own)
        return cls
    return register
