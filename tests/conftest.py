"""What must be set before any test imports torch or Triton."""

import os

# Bits depend on the number of threads; processes that tests start inherit it.
os.environ["OMP_NUM_THREADS"] = "1"

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"
