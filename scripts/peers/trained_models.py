"""trained_models.py FOLDER: checks that the original PyTorch models, loaded with dpbench's trained weights, give dpbench's logits.

FOLDER/WORKLOAD is the output of --save; FOLDER/WORKLOAD.logits holds inputs and dpbench's logits for them.
"""
import pathlib
import sys

import torch
from safetensors.torch import load_file, save
from torch import nn


class Perceptron(nn.Module):
    """The model of mnist-mlp, with the parameter names of the original PyTorch program."""

    def __init__(self):
        super().__init__()
        self.n = nn.Sequential(nn.Flatten(), nn.Linear(28 * 28, 128), nn.ReLU(), nn.Linear(128, 10))

    def forward(self, x):
        return self.n(x)


class Line(nn.Module):
    """The model of the DataParallel tutorial (random-linear)."""

    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(5, 2)

    def forward(self, x):
        return self.fc(x)


class BatchNormNoScale(nn.Module):
    """PyTorch equivalent of Keras' BatchNormalization(scale=False) in evaluation mode."""

    def __init__(self, features):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(features))
        self.register_buffer("running_mean", torch.zeros(features))
        self.register_buffer("running_var", torch.ones(features))

    def forward(self, x):
        return nn.functional.batch_norm(x, self.running_mean, self.running_var, None, self.bias, training=False, eps=1e-3)


class Guide(nn.Module):
    """The network of the Keras guide (convnet) in PyTorch."""

    def __init__(self):
        super().__init__()
        self.conv1, self.norm1 = nn.Conv2d(1, 12, 3, padding=1, bias=False), BatchNormNoScale(12)
        self.conv2, self.norm2 = nn.Conv2d(12, 24, 6, stride=2, bias=False), BatchNormNoScale(24)
        self.large_k, self.norm3 = nn.Conv2d(24, 32, 6, stride=2, padding=2), BatchNormNoScale(32)
        self.dense1, self.dense2 = nn.Linear(32, 256), nn.Linear(256, 10)

    def forward(self, x):
        x = x / 255
        for conv, norm in ((self.conv1, self.norm1), (self.conv2, self.norm2), (self.large_k, self.norm3)):
            x = torch.relu(norm(conv(x)))
        return self.dense2(torch.relu(self.dense1(x.mean((2, 3)))))


def compare(folder, name, model):
    state = load_file(folder / name)
    model.load_state_dict(state)  # load_state_dict is strict: names and shapes must match
    model.eval()
    stored = load_file(folder / f"{name}.logits")
    with torch.no_grad():
        found = model(stored["input"])
    error = (found - stored["output"]).abs().max().item() / stored["output"].abs().max().item()
    same_file = save(state, {"format": "pt"}) == (folder / name).read_bytes()
    print(f"{name}: {len(state)} tensors, logits of 64 samples differ by {error:.1e} at most, "
          f"save() gives {'the same' if same_file else 'a DIFFERENT'} file")
    return error < 1e-6 and same_file


def main():
    folder = pathlib.Path(sys.argv[1])
    torch.set_num_threads(1)
    models = {"mnist-mlp": Perceptron(), "convnet": Guide(), "random-linear": Line()}
    return 0 if all([compare(folder, name, model) for name, model in models.items()]) else 1


if __name__ == "__main__":
    sys.exit(main())
