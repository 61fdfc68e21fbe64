"""sharded_checkpoint.py FILE DIR: compares a checkpoint in one FILE with the same checkpoint in DIR, where each rank of
`dpbench train` has written its part. Fails unless PyTorch's distributed checkpoint reads the same tensors from DIR."""
import sys

import torch
import torch.distributed.checkpoint as checkpoint
from safetensors.torch import load_file

file, folder = sys.argv[1:]
whole = load_file(file)
read = {name: torch.zeros_like(tensor) for name, tensor in whole.items()}
checkpoint.load(read, storage_reader=checkpoint.HuggingFaceStorageReader(folder))
unlike = [name for name, tensor in whole.items() if not torch.equal(tensor, read[name])]
print(f"{len(whole)} tensors, {len(unlike)} differ {unlike[:5]}")
sys.exit(bool(unlike) or not whole)
