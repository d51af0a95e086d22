"""A transformer for pairs of sentences whose layers share their weights.

Word, position and sentence embeddings are added, normalized and mapped to the width of
the layers. One layer (attention and a two-layer perceptron, each added to its input and
then normalized) is applied ``depth`` times. The first token, mapped linearly and
through tanh, is the feature.

References:
    Lan et al. (2020), ALBERT: A Lite BERT for Self-Supervised Learning of Language
    Representations, ICLR.
"""

from typing import final

import torch
from torch import Tensor, nn

from tepui.core.checks import require
from tepui.models.base import Model
from tepui.models.vit import SelfAttention


@final
class Albert(Model):
    """A classifier of sentence pairs; everything before the classifier is one layer.

    It takes ``input_ids`` of shape ``(samples, positions)``, and optionally
    ``attention_mask``, nonzero where there is a token, and ``token_type_ids``, 0 in
    the first sentence and 1 in the second. The default is small enough to train from
    scratch on a CPU.

    Args:
        num_classes: Number of logits.
        vocabulary: Number of different tokens.
        embedding: Width of a token's embedding.
        width: Width of the shared layer.
        depth: How often the layer is applied.
        heads: Number of its attention heads.
        length: The largest number of tokens in one pair.
        dropout: Fraction of the features set to zero in training.

    Raises:
        ValueError: If a size is not positive, or ``heads`` does not divide ``width``.

    Example:
        >>> model = Albert(num_classes=2, vocabulary=100)
        >>> ids = torch.tensor([[1, 5, 2, 7, 2, 0]])
        >>> model(input_ids=ids, attention_mask=(ids > 0).long()).shape
        torch.Size([1, 2])
    """

    def __init__(
        self,
        num_classes: int = 2,
        vocabulary: int = 8192,
        embedding: int = 64,
        width: int = 128,
        depth: int = 4,
        heads: int = 4,
        length: int = 128,
        dropout: float = 0.1,
    ) -> None:
        super().__init__(
            num_classes=num_classes,
            vocabulary=vocabulary,
            embedding=embedding,
            width=width,
            depth=depth,
            heads=heads,
            length=length,
            dropout=dropout,
        )
        require(0 <= dropout < 1, "dropout", "lie in [0, 1)", dropout)
        self.layers = nn.Sequential(
            _Body(vocabulary, embedding, width, depth, heads, length, dropout)
        )
        self.classifier = nn.Linear(width, num_classes)
        self.apply(_draw)


class _Body(nn.Module):
    def __init__(
        self,
        vocabulary: int,
        embedding: int,
        width: int,
        depth: int,
        heads: int,
        length: int,
        dropout: float,
    ) -> None:
        super().__init__()
        self.depth = depth
        self.words = nn.Embedding(vocabulary, embedding)
        self.positions = nn.Embedding(length, embedding)
        self.sentences = nn.Embedding(2, embedding)
        self.norm = nn.LayerNorm(embedding, eps=1e-12)
        self.widen = nn.Linear(embedding, width)
        self.shared = _Layer(width, heads)
        self.pooler = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> Tensor:
        length = input_ids.shape[1]
        longest = self.positions.num_embeddings
        require(length <= longest, "input_ids", f"be at most {longest} long", length)
        # One row per sample: the Fisher trace follows a layer sample by sample.
        places = torch.arange(length, device=input_ids.device).expand_as(input_ids)
        sentences = 0 * input_ids if token_type_ids is None else token_type_ids
        x = self.words(input_ids) + self.positions(places) + self.sentences(sentences)
        x = self.widen(self.norm(x))
        mask = None if attention_mask is None else attention_mask.bool()
        for _ in range(self.depth):
            x = self.shared(x, mask)
        pooled: Tensor = self.dropout(torch.tanh(self.pooler(x[:, 0])))
        return pooled

    def extra_repr(self) -> str:
        return f"depth={self.depth}"


class _Layer(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.attention = SelfAttention(width, heads)
        self.norm1 = nn.LayerNorm(width, eps=1e-12)
        self.wide = nn.Linear(width, 4 * width)
        self.activation = nn.GELU(approximate="tanh")
        self.narrow = nn.Linear(4 * width, width)
        self.norm2 = nn.LayerNorm(width, eps=1e-12)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        x = self.norm1(x + self.attention(x, mask))
        added: Tensor = self.norm2(x + self.narrow(self.activation(self.wide(x))))
        return added


def _draw(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear):
        nn.init.zeros_(module.bias)
