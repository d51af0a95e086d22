"""Multi-head self-attention, for the vision and the text transformer.

References:
    Vaswani et al. (2017), Attention Is All You Need, NeurIPS.
"""

import torch.nn.functional as F
from torch import Tensor, nn

from tepui.core.checks import require


class SelfAttention(nn.Module):
    """Every position attends to every other."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        require(width % heads == 0, "heads", f"divide the width ({width})", heads)
        self.heads = heads
        self.projection = nn.Linear(width, 3 * width)
        self.output = nn.Linear(width, width)

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        """Return one new vector per position."""
        divided = self.projection(x).unflatten(2, (3, self.heads, -1))
        query, key, value = divided.permute(2, 0, 3, 1, 4).unbind(0)
        seen = None if mask is None else mask[:, None, None]
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=seen)
        result: Tensor = self.output(mixed.transpose(1, 2).flatten(2))
        return result

    def extra_repr(self) -> str:
        """Show what the weights do not."""
        return f"heads={self.heads}"
