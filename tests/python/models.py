"""A model with named inputs and outputs, for transformer.py."""
from torch import nn


class Encoder(nn.Module):
    """Takes words, a mask and a scale by name, and returns two outputs by name. Two layers share a weight, a bias is
    frozen, and one layer is not used."""

    def __init__(self):
        super().__init__()
        self.embed, self.kind, self.place = nn.Embedding(20, 8), nn.Linear(8, 3), nn.Linear(8, 2)
        self.first, self.second, self.spare = (nn.Linear(8, 8) for _ in range(3))
        self.second.weight = self.first.weight
        self.second.bias.requires_grad_(False)

    def forward(self, words, mask, scale):
        pooled = (self.embed(words) * mask.unsqueeze(-1) * scale.view(-1, 1, 1)).sum(1) / mask.sum(1, keepdim=True)
        pooled = self.second(nn.functional.gelu(self.first(pooled)))
        return {"kind": self.kind(pooled), "place": self.place(pooled)}
