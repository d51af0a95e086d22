"""Your own texts, or pairs of texts, with a target each."""

from collections.abc import Sequence
from typing import final

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.core.types import check_types
from tepui.data.hugging_face_tokenizer import HuggingFaceTokenizer
from tepui.data.made_arrays import MadeArrays
from tepui.data.tokenizer import BUCKETS, SPECIAL, Tokenizer


@final
class Texts(MadeArrays):
    """Texts as numbers, with the tokenizer that made them.

    An ensemble that learned from them remembers the tokenizer, so that
    ``ensemble.predict(["a new text"])`` works. Inputs are a dict of ``input_ids`` and
    ``attention_mask`` of shape ``(texts, tokens)``, and for pairs ``token_type_ids``: a
    model takes these names.

    Args:
        texts: Single texts, or pairs of them.
        targets: One target per text.
        tokenizer: What turns words into numbers; by default one is made of these texts.
            Give a test set that of its training set, and the members of a text model of
            Hugging Face its own, ``HuggingFaceTokenizer(name)``.
        vocabulary: The largest number of different tokens of a new tokenizer.
        length: The largest number of tokens in a text.
        classes: Names of the classes, where they have names.

    Attributes:
        tokenizer: What turned the texts into numbers.
        length: The largest number of tokens in a text.

    Raises:
        ValueError: If there are no texts, or not as many targets.

    Example:
        >>> train = Texts(["a good day", "a bad day"], [1, 0], vocabulary=2048)
        >>> test = Texts(["good"], [1], tokenizer=train.tokenizer)
        >>> sorted(test.inputs), test.inputs["input_ids"].shape
        (['attention_mask', 'input_ids'], torch.Size([1, 3]))
    """

    tokenizer: Tokenizer | HuggingFaceTokenizer
    length: int

    def __init__(
        self,
        texts: Sequence[str] | Sequence[tuple[str, str]],
        targets: Sequence[int] | Sequence[float] | Tensor,
        *,
        tokenizer: Tokenizer | HuggingFaceTokenizer | None = None,
        vocabulary: int = 8192,
        length: int = 128,
        classes: tuple[str, ...] = (),
    ) -> None:
        check_types(Texts.__init__, {"vocabulary": vocabulary, "length": length})
        require(len(texts) > 0, "texts", "hold at least one text", 0)
        rule = f"hold one for each of {len(texts)} texts"
        require(len(targets) == len(texts), "targets", rule, len(targets))
        if tokenizer is None:
            least = SPECIAL + BUCKETS
            rule = f"be greater than {least}"
            require(vocabulary > least, "vocabulary", rule, vocabulary)
            parts = [[text] if isinstance(text, str) else text for text in texts]
            words = (word for part in parts for word in part)
            tokenizer = Tokenizer.build(words, vocabulary)
        inputs = tokenizer.batch(texts, length)
        super().__init__(inputs, torch.as_tensor(targets), classes=classes)
        object.__setattr__(self, "tokenizer", tokenizer)
        object.__setattr__(self, "length", length)
