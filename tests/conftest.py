"""What must be set before any test imports Triton."""

import os

import torch

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"

# Recipes that made recorded files; they need packages of their own.
collect_ignore = ["data/fixtures"]
