"""Small models of the library transformers with random weights, for --model hub_models:Gpt2 and hub_models:Bert."""
import torch
from torch import nn
from transformers import BertConfig, BertForSequenceClassification, GPT2Config, GPT2LMHeadModel

WORDS, TOKENS = 32, 12
samples = 64


def words_of(ids):
    return (ids.view(-1, 1) * 7 + torch.arange(TOKENS) * (1 + ids.view(-1, 1) % 3)) % WORDS


class Gpt2(GPT2LMHeadModel):
    """GPT-2 with two layers, tied embeddings and dropout, on inputs by name"""

    def __init__(self):
        super().__init__(GPT2Config(vocab_size=WORDS, n_positions=TOKENS, n_embd=16, n_layer=2, n_head=2, attn_pdrop=0.0,
                                    use_cache=False))

    @staticmethod
    def batch(ids):
        words = words_of(ids)
        return {"input_ids": words, "attention_mask": torch.ones_like(words)}, words.roll(-1, 1)

    @staticmethod
    def loss(output, target):
        return nn.functional.cross_entropy(output.flatten(0, 1), target.flatten())


class Bert(BertForSequenceClassification):
    """BERT with two layers, which ignores the words behind a mask"""
    workload = {"optimizer": "adam", "weight_decay": 0.01}

    def __init__(self):
        super().__init__(BertConfig(vocab_size=WORDS, max_position_embeddings=TOKENS, hidden_size=16, intermediate_size=32,
                                    num_hidden_layers=2, num_attention_heads=2, attention_probs_dropout_prob=0.0, num_labels=3))

    @staticmethod
    def batch(ids):
        mask = torch.arange(TOKENS) < (ids % 6 + 4).view(-1, 1)
        return {"input_ids": words_of(ids), "attention_mask": mask.long()}, ids % 3

    @staticmethod
    def loss(output, target):
        return nn.functional.cross_entropy(output, target)
