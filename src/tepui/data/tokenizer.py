"""Text as numbers, without a download.

Lower-case words and single punctuation marks are tokens. The most frequent ones of the
training text have a number each; every other word falls into one of a fixed number of
buckets by a hash of its letters, so that an unseen word still gets the same number in
both sentences of a pair.
"""

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self, final

import torch
from torch import Tensor

from tepui.core.checks import require
from tepui.core.storage import read_document, write_document
from tepui.core.types import check_fields

PAD, FIRST, SEPARATOR = 0, 1, 2
SPECIAL = 3
BUCKETS = 1024
KIND = "tokenizer"

_TOKEN = re.compile(r"\w+|[^\w\s]")


@final
@dataclass(frozen=True)
class Tokenizer:
    """Numbered words, and hash buckets for all others.

    Attributes:
        words: Words that have their own number, the most frequent first.
        buckets: How many numbers all other words share.

    Example:
        >>> tokenizer = Tokenizer.build(["The cat sat.", "A cat ran."], 8, buckets=2)
        >>> tokenizer.words, len(tokenizer)
        (('.', 'cat', 'a'), 8)
        >>> tokenizer.encode("A cat!")[:2] == [5, 4]
        True
    """

    words: tuple[str, ...]
    buckets: int

    def __post_init__(self) -> None:
        check_fields(self)
        require(self.buckets > 0, "buckets", "be positive", self.buckets)
        repeated = [word for word, n in Counter(self.words).items() if n > 1]
        require(not repeated, "words", "be distinct", repeated[:3])

    @classmethod
    def build(
        cls, texts: Iterable[str], size: int = 8192, *, buckets: int = BUCKETS
    ) -> Self:
        """Count the words of a training text.

        Args:
            texts: The text, divided in any way.
            size: The largest number of numbers, including special ones and buckets.
            buckets: How many of them unknown words share.

        Returns:
            A tokenizer of at most ``size`` numbers; words of equal frequency are taken
            in alphabetical order.

        Raises:
            ValueError: If no number is left for words.
        """
        room = size - SPECIAL - buckets
        require(room > 0, "size", f"be greater than {SPECIAL + buckets}", size)
        counts = Counter(word for text in texts for word in _words(text))
        ordered = sorted(counts, key=lambda word: (-counts[word], word))
        return cls(tuple(ordered[:room]), buckets)

    def __len__(self) -> int:
        return SPECIAL + len(self.words) + self.buckets

    def encode(self, text: str) -> list[int]:
        """Return the numbers of a text's words.

        Args:
            text: Any text.

        Returns:
            One number per token, without the special ones.
        """
        return [self._number(word) for word in _words(text)]

    def pairs(
        self, first: Sequence[str], second: Sequence[str], length: int = 128
    ) -> dict[str, Tensor]:
        """Return pairs of sentences as a text model expects them.

        Args:
            first: The first sentence of each pair.
            second: The second sentence of each pair.
            length: The largest number of tokens in one pair; a longer pair loses the
                last words of its longer sentence.

        Returns:
            ``input_ids``, ``attention_mask`` and ``token_type_ids``, int64, of shape
            ``(pairs, tokens)``, as wide as the longest pair.
        """
        require(length > SPECIAL, "length", f"be greater than {SPECIAL}", length)
        encoded = [
            _shortened(self.encode(one), self.encode(other), length - SPECIAL)
            for one, other in zip(first, second, strict=True)
        ]
        require(len(encoded) > 0, "first", "hold at least one sentence", 0)
        width = SPECIAL + max(len(one) + len(other) for one, other in encoded)
        rows = torch.full((3, len(encoded), width), PAD)
        for row, (one, other) in enumerate(encoded):
            ids = [FIRST, *one, SEPARATOR, *other, SEPARATOR]
            rows[0, row, : len(ids)] = torch.tensor(ids)
            rows[1, row, : len(ids)] = 1
            rows[2, row, len(one) + 2 : len(ids)] = 1
        names = ("input_ids", "attention_mask", "token_type_ids")
        return dict(zip(names, rows, strict=True))

    def batch(
        self, texts: Sequence[str] | Sequence[tuple[str, str]], length: int = 128
    ) -> dict[str, Tensor]:
        """Return texts, or pairs of texts, as a text model expects them.

        Args:
            texts: Single texts, or pairs of them.
            length: The largest number of tokens in one of them; a longer one is cut.

        Returns:
            For single texts ``input_ids`` and ``attention_mask``, int64, of shape
            ``(texts, tokens)``, as wide as the longest; for pairs as :meth:`pairs`.

        Raises:
            ValueError: If there are none, or texts and pairs are mixed.

        Example:
            >>> tokenizer = Tokenizer(("cat", "sat"), buckets=2)
            >>> tokenizer.batch(["cat sat", "cat"])["input_ids"]
            tensor([[1, 3, 4, 2],
                    [1, 3, 2, 0]])
        """
        require(len(texts) > 0, "texts", "hold at least one text", 0)
        kinds = {isinstance(text, str) for text in texts}
        require(len(kinds) == 1, "texts", "be all texts or all pairs", "both")
        if kinds == {False}:
            first, second = zip(*texts, strict=True)
            return self.pairs(first, second, length)
        require(length > 2, "length", "be greater than 2", length)
        encoded = [self.encode(str(text))[: length - 2] for text in texts]
        rows = torch.full((2, len(encoded), 2 + max(map(len, encoded))), PAD)
        for row, words in enumerate(encoded):
            ids = [FIRST, *words, SEPARATOR]
            rows[0, row, : len(ids)] = torch.tensor(ids)
            rows[1, row, : len(ids)] = 1
        return {"input_ids": rows[0], "attention_mask": rows[1]}

    def save(self, path: str | Path, overwrite: bool = False) -> None:
        """Write the tokenizer as JSON.

        Args:
            path: The file.
            overwrite: Replace an existing file.

        Raises:
            FileExistsError: If it exists and ``overwrite`` is false.
        """
        file = Path(path)
        if file.exists() and not overwrite:
            raise FileExistsError(f"{file} exists; pass overwrite=True to replace it")
        write_document(file, KIND, self.document())

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Read what :meth:`save` wrote.

        Args:
            path: The file.

        Returns:
            The tokenizer.

        Raises:
            ValueError: If the file holds something else.
        """
        document = read_document(Path(path), KIND)
        words: Any = document.get("words")
        buckets: Any = document.get("buckets")
        fits = isinstance(words, list) and all(isinstance(w, str) for w in words)
        require(fits, f"words in {path}", "be a list of words", type(words).__name__)
        require(isinstance(buckets, int), f"buckets in {path}", "be a number", buckets)
        return cls(tuple(words), buckets)

    def document(self) -> dict[str, Any]:
        """Return the tokenizer for JSON.

        Returns:
            Its words and buckets.
        """
        return asdict(self) | {"words": list(self.words)}

    @cached_property
    def _numbers(self) -> dict[str, int]:
        return {word: SPECIAL + place for place, word in enumerate(self.words)}

    def _number(self, word: str) -> int:
        if word in self._numbers:
            return self._numbers[word]
        return SPECIAL + len(self.words) + zlib.crc32(word.encode()) % self.buckets


def _words(text: str) -> list[str]:
    return _TOKEN.findall(text.lower())


def _shortened(one: list[int], other: list[int], room: int) -> tuple[list[int], ...]:
    """Drop the last words of the longer sentence until both fit."""
    shorter = min(len(one), len(other), room // 2)
    keep = room - shorter
    return (one[:keep], other[: room - min(len(one), keep)])
