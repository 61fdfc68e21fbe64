"""Workloads in Python for strategies in C++ and Python: self-attention over random sequences; a regression, with
variants that use BatchNorm1d, refuse float64, draw random numbers or choose an optimizer of torch.optim; a regression on
sequences of different lengths; a class for each word of sentences; and a model with named inputs and outputs."""
import functools

import torch
from torch import nn

import dpbench


class Transformer(nn.Module):
    def __init__(self, width=32, layers=2, words=16, dropout=0.0):
        super().__init__()
        self.embed = nn.Embedding(words, width)
        layer = nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=dropout, batch_first=True, activation=nn.functional.gelu)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(width, words)

    def forward(self, words):
        return self.out(self.encoder(self.embed(words)).mean(1))


@dpbench.workload("py-transformer", batch=16, optimizer="adam", weight_decay=0.01)
class Sequences:
    """two layers of self-attention on sequences of 12 words"""
    samples = 256

    def __init__(self):
        self.words = torch.randint(0, 16, (self.samples, 12), generator=torch.Generator().manual_seed(1))

    def model(self):
        return Transformer()

    def loss(self, output, target):
        return nn.functional.cross_entropy(output, target)

    def batch(self, ids):
        words = self.words[ids]
        return words, words.sum(1) % 16


@dpbench.workload("py-attention-dropout", batch=16)
class AttentionDropout(Sequences):
    """the same with dropout, some of it inside nn.MultiheadAttention"""

    def model(self):
        return Transformer(dropout=0.2)


class Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        x = torch.tensor([i / 64, 1 - i / 64, 0.5])
        return x, (x ** 2).sum().reshape(1)


@dpbench.workload("py-squares", batch=8, learning_rate=0.1)
class Regression:
    """regression from three inputs, with one hidden layer and dropout; samples from a Dataset"""

    def model(self):
        return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(0.25), nn.Linear(8, 1))

    def loss(self, output, target):
        return nn.functional.mse_loss(output, target)

    def data(self):
        return Squares()


@dpbench.workload("py-normed", batch=8, learning_rate=0.1)
class NormedRegression(Regression):
    """the regression with BatchNorm1d, which refuses to train on a batch of one sample"""

    def model(self):
        return nn.Sequential(nn.Linear(3, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1))


class Sum(nn.Module):
    def forward(self, x):
        return x.sum(1)


@dpbench.workload("py-lengths", batch=8, samples=64, learning_rate=0.05)
class Lengths(Regression):
    """a regression on sequences of different lengths, which batch() pads with zeros to the longest of the batch"""

    def model(self):
        # without biases, so that padding stays zero
        return nn.Sequential(nn.Linear(2, 8, bias=False), nn.Tanh(), nn.Linear(8, 8, bias=False), nn.Tanh(), Sum(), nn.Linear(8, 1))

    def batch(self, ids):
        lengths = 2 + ids.view(-1, 1) % 3
        place = torch.arange(int(lengths.max()))
        x = torch.stack([ids.view(-1, 1) / 64 + place / 8, 1 - place / 4 * torch.ones(len(ids), 1)], 2)
        return x * (place < lengths).unsqueeze(-1), lengths / 4


class NormedLengths(nn.Module):
    def __init__(self):
        super().__init__()
        self.into, self.norm, self.out = nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Linear(4, 1)

    def forward(self, x):
        return self.out(self.norm(self.into(x).transpose(1, 2)).mean(2))


@dpbench.workload("py-normed-lengths", batch=8, samples=64, learning_rate=0.05)
class NormedSequences(Lengths):
    """the regression on sequences of different lengths, with BatchNorm over samples and padding"""

    def model(self):
        return NormedLengths()


@dpbench.workload("py-words", batch=8, samples=64, test_samples=16, learning_rate=0.05)
class Words:
    """a class for each word of sentences of different lengths, which batch() pads to the longest of the batch"""

    def model(self):
        return nn.Sequential(nn.Embedding(12, 8), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 5))

    def loss(self, output, target):
        return nn.functional.cross_entropy(output.flatten(0, 1), target.flatten())

    def test_batch(self, ids):
        return self.batch(ids)

    def batch(self, ids):
        lengths = 2 + ids.view(-1, 1) % 3
        place = torch.arange(int(lengths.max()))
        words = (ids.view(-1, 1) * 7 + place * 3) % 11 + 1
        return words * (place < lengths), torch.where(place < lengths, words % 5, -100)


@dpbench.workload("py-first-words", batch=8, samples=64, learning_rate=0.05)
class FirstWords(Words):
    """the same with a loss over the first two words of each sentence"""

    def loss(self, output, target):
        return super().loss(output[:, :2], target[:, :2])

    def loss_terms(self, target):
        return target[:, :2].numel()


class ClassesFirst(nn.Sequential):
    def forward(self, words):
        return super().forward(words).transpose(1, 2)


@dpbench.workload("py-classes-first", batch=8, samples=64, test_samples=16, learning_rate=0.05)
class WordsWithClassesFirst(Words):
    """the same with the classes in the second dimension of the output, as torch's cross_entropy takes them"""

    def model(self):
        return ClassesFirst(*super().model())

    def loss(self, output, target):
        return nn.functional.cross_entropy(output, target)


class InFloat32(nn.Linear):
    def forward(self, x):
        return super().forward(x.float())


@dpbench.workload("py-float32", batch=8)
class RegressionInFloat32(Regression):
    """a linear regression by a module that refuses float64"""

    def model(self):
        return InFloat32(3, 1)


@dpbench.workload("py-dropout2d", batch=8)
class ChannelDropout(Regression):
    """the regression with dropout of whole channels"""

    def model(self):
        return nn.Sequential(nn.Linear(3, 8), nn.Unflatten(1, (4, 2, 1)), nn.Dropout2d(0.25), nn.Flatten(), nn.Linear(8, 1))


class Dropping(nn.Linear):
    def forward(self, x):
        return super().forward(nn.functional.dropout(x, 0.25, self.training))


@dpbench.workload("py-functional-dropout", batch=8)
class FunctionalDropout(Regression):
    """a linear regression that calls torch.nn.functional.dropout"""

    def model(self):
        return Dropping(3, 1)


class DrawingInVain(nn.Linear):
    def forward(self, x):
        torch.rand([])  # as some models of the library transformers do even if their layerdrop is 0
        return super().forward(x)


@dpbench.workload("py-drawn-in-vain", batch=8)
class DrawnInVain(Regression):
    """a linear regression that draws a random number without effect"""

    def model(self):
        return DrawingInVain(3, 1)


@dpbench.workload("py-adagrad", batch=8, learning_rate=0.05, warmup_steps=3,
                  optimizer=functools.partial(torch.optim.Adagrad, initial_accumulator_value=0.1))
class WithAdagrad(Regression):
    """the regression with Adagrad, whose state exists before the first step"""


@dpbench.workload("py-rmsprop", batch=8, learning_rate=0.002,
                  optimizer=functools.partial(torch.optim.RMSprop, alpha=0.9, momentum=0.5, weight_decay=0.1))
class WithRmsprop(Regression):
    """the regression with RMSprop, which creates its state in the first step"""


@dpbench.workload("py-named", batch=8, optimizer="adam", samples=64)
class Named:
    """a model whose input is a dictionary of three tensors and whose output is a dictionary of two"""

    def model(self):
        from models import Encoder  # dpbench's own module models must not hide the one beside this file
        return Encoder()

    def batch(self, ids):
        words = (ids.view(-1, 1) * 7 + torch.arange(5)) % 20
        mask = torch.arange(5).expand(len(ids), 5) < (ids % 4 + 2).view(-1, 1)
        return {"words": words, "mask": mask, "scale": 1 + ids / 64}, (ids % 3, torch.stack([ids / 64, 1 - ids / 64], 1))

    def loss(self, output, target):
        kind, place = target
        return nn.functional.cross_entropy(output["kind"], kind) + nn.functional.mse_loss(output["place"], place)
