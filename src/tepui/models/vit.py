"""Vision transformers, tiny and small, for any size of image and patch.

``(n, c, h, w)`` is cut into square patches, each mapped linearly to one token; a class
token is put before them and positions are added. Each block adds attention and then a
two-layer perceptron, four times as wide, to its input, both after a LayerNorm. The
class token, normalized, is the feature. The last perceptron sees the class token alone,
since nothing reads the others after it; so a cut between the two halves of the last
block leaves one vector per image.

References:
    Dosovitskiy et al. (2021), An Image is Worth 16×16 Words, ICLR. Touvron et al.
    (2021), Training Data-Efficient Image Transformers, ICML (the two sizes). Vaswani
    et al. (2017), Attention Is All You Need, NeurIPS.
"""

from typing import ClassVar, final

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tepui.core.checks import require
from tepui.models.base import Model


class VisionTransformer(Model):
    """What all sizes share; layers are the embedding, half-blocks and the LayerNorm.

    Args:
        num_classes: Number of logits.
        in_channels: Channels of the images.
        image_size: Their height and width.
        patch_size: Height and width of a patch.
        depth: Number of blocks.
    """

    width: ClassVar[int]
    heads: ClassVar[int]

    def __init__(
        self,
        num_classes: int = 10,
        in_channels: int = 3,
        image_size: int = 32,
        patch_size: int = 4,
        depth: int = 12,
    ) -> None:
        super().__init__(
            num_classes=num_classes,
            in_channels=in_channels,
            image_size=image_size,
            patch_size=patch_size,
            depth=depth,
        )
        width = self.width
        rule = f"divide image_size ({image_size})"
        require(image_size % patch_size == 0, "patch_size", rule, patch_size)
        patches = (image_size // patch_size) ** 2
        halves: list[nn.Module] = []
        for _ in range(depth):
            halves.append(_Residual(width, SelfAttention(width, self.heads)))
            halves.append(_Residual(width, _perceptron(width)))
        self.layers = nn.Sequential(
            _Tokens(in_channels, patches, patch_size, width),
            *halves[:-1],
            _ClassToken(),
            halves[-1],
            _norm(width),
        )
        self.classifier = nn.Linear(width, num_classes)
        self.apply(_draw)


@final
class ViTTiny(VisionTransformer):
    """A vision transformer of width 192 with three heads.

    Takes ``num_classes``, ``in_channels``, ``image_size``, ``patch_size``, which must
    divide it, and ``depth``, the number of blocks.

    Example:
        >>> ViTTiny(num_classes=100, depth=2)(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 100])
    """

    width, heads = 192, 3


@final
class ViTSmall(VisionTransformer):
    """A vision transformer of width 384 with six heads.

    Takes ``num_classes``, ``in_channels``, ``image_size``, ``patch_size``, which must
    divide it, and ``depth``, the number of blocks.

    Example:
        >>> ViTSmall(num_classes=100, depth=1)(torch.zeros(2, 3, 32, 32)).shape
        torch.Size([2, 100])
    """

    width, heads = 384, 6


class _Tokens(nn.Module):
    """Patches as tokens after a class token, with positions added.

    Class token and positions are embeddings, not bare parameters, and are looked up for
    every sample: so one pass yields their share of each sample's Fisher trace.
    """

    def __init__(self, channels: int, patches: int, size: int, width: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(channels, width, size, size)
        self.first = nn.Embedding(1, width)
        self.positions = nn.Embedding(1 + patches, width)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.patches(x).flatten(2).transpose(1, 2)
        patches = self.positions.num_embeddings - 1
        rule = f"hold images of {patches} patches"
        require(tokens.shape[1] == patches, "x", rule, tuple(x.shape))
        places = torch.arange(patches + 1, device=x.device).expand(x.shape[0], -1)
        tokens = torch.cat([self.first(torch.zeros_like(places[:, :1])), tokens], 1)
        placed: Tensor = tokens + self.positions(places)
        return placed


class _Residual(nn.Module):
    """Half a block: what a branch makes of the normalized input, added to it."""

    def __init__(self, width: int, branch: nn.Module) -> None:
        super().__init__()
        self.norm = _norm(width)
        self.branch = branch

    def forward(self, x: Tensor) -> Tensor:
        total: Tensor = x + self.branch(self.norm(x))
        return total


class _ClassToken(nn.Module):
    def forward(self, tokens: Tensor) -> Tensor:
        return tokens[:, 0]


def _norm(width: int) -> nn.LayerNorm:
    return nn.LayerNorm(width, eps=1e-6)


def _perceptron(width: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
    )


def _draw(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.trunc_normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)


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
