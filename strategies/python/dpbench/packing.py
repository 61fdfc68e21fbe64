"""Packs several tensors into one: dpbench passes a single input, target and output, but models in Python may have
tuples and dictionaries of tensors. The first dimension of each tensor is the samples."""
import torch


def leaves_of(value):
    """Returns the tensors in a nested value, and the value with each tensor replaced by its index."""
    if isinstance(value, torch.Tensor):
        return [value], 0
    if isinstance(value, dict):
        named = {name: part for name, part in value.items() if isinstance(part, (torch.Tensor, dict, tuple, list))}
        return collected(named.values(), lambda places: dict(zip(named, places)))
    if isinstance(value, (tuple, list)):
        return collected(value, tuple)
    raise TypeError(f"expected a tensor, or a tuple or dictionary of tensors, not {type(value).__name__}")


def collected(parts, build):
    leaves, places = [], []
    for part in parts:
        inner, place = leaves_of(part)
        places.append(shifted(place, len(leaves)))
        leaves += inner
    return leaves, build(places)


def shifted(place, by):
    if isinstance(place, dict):
        return {name: shifted(part, by) for name, part in place.items()}
    if isinstance(place, tuple):
        return tuple(shifted(part, by) for part in place)
    return place + by


def filled(place, leaves):
    if isinstance(place, dict):
        return {name: filled(part, leaves) for name, part in place.items()}
    if isinstance(place, tuple):
        return tuple(filled(part, leaves) for part in place)
    return leaves[place]


class Data:
    """Packs inputs or targets into one tensor of bytes, [samples, bytes]. A single tensor stays as it is."""

    def __init__(self):
        # {width of the packed tensor: form}. A form is the nested value of indices, and each tensor's dtype and shape.
        self.forms = {}

    def pack(self, value):
        if isinstance(value, torch.Tensor):
            return value
        leaves, place = leaves_of(value)
        parts = [leaf.reshape(len(leaf), -1).contiguous().view(torch.uint8) for leaf in leaves]
        form = place, [(leaf.dtype, leaf.shape[1:]) for leaf in leaves]
        size = width = sum(part.shape[1] for part in parts)
        # unpack() finds the form by the width, so different forms must have different widths. Padding is added if
        # needed.
        while self.forms.setdefault(width, form) != form:
            width += 1
        return torch.cat([*parts, parts[0].new_zeros(len(parts[0]), width - size)], 1)

    def unpack(self, packed, dtype):
        """Returns the value that pack() was given, with its floating-point tensors in this dtype."""
        if not self.forms:
            return packed
        place, tensors = self.forms[packed.shape[1]]
        leaves, begin = [], 0
        for own_dtype, shape in tensors:
            size = shape.numel() * own_dtype.itemsize
            own_bytes = packed[:, begin:begin + size].clone(memory_format=torch.contiguous_format)
            leaf = own_bytes.view(own_dtype).view(-1, *shape)
            leaves.append(leaf.to(dtype) if leaf.is_floating_point() else leaf)
            begin += size
        return filled(place, leaves)


class Output:
    """Packs a model's outputs into one tensor, [samples, numbers], with autograd. A single tensor stays as it is.
    Outputs of the same width must have the same shapes."""

    def __init__(self):
        self.forms = {}  # {width of the packed tensor: (nested value of indices, each tensor's shape)}

    def pack(self, value):
        if not isinstance(value, torch.Tensor) and hasattr(value, "logits"):  # an output of the library transformers
            value = value.logits
        if isinstance(value, torch.Tensor):
            return value
        leaves, place = leaves_of(value)
        if not all(leaf.is_floating_point() for leaf in leaves):
            raise TypeError("the outputs of a model must be floating-point tensors")
        packed = torch.cat([leaf.reshape(len(leaf), -1) for leaf in leaves], 1)
        form = place, [leaf.shape[1:] for leaf in leaves]
        if self.forms.setdefault(packed.shape[1], form) != form:
            raise TypeError("a model returned outputs of other shapes, but as many numbers for each sample: dpbench cannot "
                            "tell them apart")
        return packed

    def unpack(self, packed):
        if not self.forms:
            return packed
        place, shapes = self.forms[packed.shape[1]]
        parts = packed.split([shape.numel() for shape in shapes], 1)
        return filled(place, [part.reshape(-1, *shape) for part, shape in zip(parts, shapes)])
