"""Texts, or pairs of texts, as numbers, with a target each.

Without a download, lower-case words and single punctuation marks are tokens. The most
frequent ones of the training text have a number each; every other word falls into one
of a fixed number of buckets by a hash of its letters, so that an unseen word still gets
the same number in both sentences of a pair. A fast tokenizer of Hugging Face (the extra
``text``) is a JSON text without code, which an ensemble keeps.
"""

import re
import zlib
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Self, final

import torch
import torch.nn.functional as F
from torch import Tensor

from tepui.core.checks import require
from tepui.core.extras import extra, known_by_name
from tepui.core.types import check_fields, check_types
from tepui.data.arrays import MadeArrays

PAD, FIRST, SEPARATOR = 0, 1, 2
SPECIAL = 3
BUCKETS = 1024

_TOKEN = re.compile(r"\w+|[^\w\s]")


class _Encoder(ABC):
    """Turns texts into the tensors that a text model expects."""

    def batch(
        self, texts: Sequence[str] | Sequence[tuple[str, str]], length: int = 128
    ) -> dict[str, Tensor]:
        """Return texts, or pairs of texts, as a text model expects them.

        Args:
            texts: Single texts, or pairs of them.
            length: The largest number of tokens in one of them; a longer text is cut,
                and a longer pair loses the last words of its longer sentence.

        Returns:
            ``input_ids``, ``attention_mask``, and of pairs ``token_type_ids``, int64,
            of shape ``(texts, tokens)``, as wide as the longest; or a library's tensors
            by name.

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
        parts = [texts] if kinds == {True} else zip(*texts, strict=True)
        return self._encoded(*map(list, parts), length=length)

    @abstractmethod
    def _encoded(self, *parts: list[str], length: int) -> dict[str, Tensor]:
        """Return single texts, or the two sentences of pairs, as tensors by name."""


@final
@dataclass(frozen=True)
class Tokenizer(_Encoder):
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

    def decode(self, numbers: Sequence[int]) -> str:
        """Return the words of a text's numbers, ``?`` for those that share a number.

        Args:
            numbers: A row of ``input_ids``.

        Example:
            >>> tokenizer = Tokenizer(("cat", "sat"), buckets=2)
            >>> tokenizer.decode([1, 3, 4, 6, 2, 0])
            'cat sat ?'
        """
        known = {number: word for word, number in self._numbers.items()}
        return " ".join(known.get(n, "?") for n in numbers if n >= SPECIAL)

    def document(self) -> dict[str, Any]:
        """Return the tokenizer for JSON.

        Returns:
            Its words and buckets.
        """
        return asdict(self) | {"words": list(self.words)}

    def _encoded(self, *parts: list[str], length: int) -> dict[str, Tensor]:
        least = len(parts) + 1  # the numbers that begin and end sentences
        require(length > least, "length", f"be greater than {least}", length)
        rows, room = [], length - least
        for sentences in zip(*parts, strict=True):
            words = [self.encode(sentence) for sentence in sentences]
            other = words[1] if len(words) == 2 else []
            cut = _shortened(words[0], other, room)[: len(words)]
            ids, kinds = [FIRST], [0]
            for kind, part in enumerate(cut):
                ids += [*part, SEPARATOR]
                kinds += [kind] * (len(part) + 1)
            rows.append(torch.tensor([ids, [1] * len(ids), kinds]))
        width = max(row.shape[1] for row in rows)
        filled = [F.pad(row, (0, width - row.shape[1]), value=PAD) for row in rows]
        names = ("input_ids", "attention_mask", "token_type_ids")[:least]
        return dict(zip(names, torch.stack(filled, dim=1), strict=False))

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


# What is not in the text itself, and decides what a batch looks like.
_SETTINGS = ("model_input_names", "padding_side", "truncation_side")


@final
class HuggingFaceTokenizer(_Encoder):
    """A tokenizer of transformers, from the extra ``text``.

    Args:
        name: Its name on the hub, such as ``"albert-base-v2"``, or a folder.

    Raises:
        ImportError: If transformers is not installed.
        ValueError: If there is no such tokenizer, it cannot be reached or brings code.
    """

    _stored: dict[str, Any] | None

    def __init__(self, name: str | Path) -> None:
        check_types(type(self).__init__, locals())
        library = extra("transformers", "text")
        rule = "be a tokenizer on Hugging Face's hub, or its folder"
        # Unless told not to, the library asks whether to run code.
        closed = {"trust_remote_code": False}
        with known_by_name("name", rule, str(name), OSError, ValueError):
            self.tokenizer = library.AutoTokenizer.from_pretrained(name, **closed)
        self._stored = _described(self.tokenizer)

    def __len__(self) -> int:
        return len(self.tokenizer)

    def __deepcopy__(self, memo: object) -> Self:
        return self  # nothing changes it

    def document(self) -> dict[str, Any] | None:
        """Return the tokenizer for JSON.

        Returns:
            What :meth:`of` reads; None for a tokenizer written in Python, which is no
            data.
        """
        return self._stored

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Read what :meth:`document` returned; nothing is downloaded.

        Args:
            document: The value, from a file.

        Returns:
            The tokenizer.

        Raises:
            ValueError: If it describes none.
        """
        made = cls.__new__(cls)
        made._stored = dict(document)
        fits = made._stored.keys() == {"hugging_face", "special", *_SETTINGS}
        fits = fits and isinstance(document["special"], Mapping)
        require(fits, "tokenizer", "be one of Hugging Face", sorted(document))
        return made

    @cached_property
    def tokenizer(self) -> Any:
        """The library's own; one from a file is built when it is first used."""
        assert self._stored is not None
        return _built(self._stored)

    def decode(self, numbers: Sequence[int]) -> str:
        """Return the words of a text's numbers, in the library's words.

        Args:
            numbers: A row of ``input_ids``.
        """
        return str(self.tokenizer.decode(numbers, skip_special_tokens=True))

    def _encoded(self, *parts: list[str], length: int) -> dict[str, Tensor]:
        encoded = self.tokenizer(
            *parts,
            padding=True,
            truncation=True,
            max_length=length,
            return_tensors="pt",
        )
        return dict(encoded)


def _described(tokenizer: Any) -> dict[str, Any] | None:
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        return None
    special = {name: str(t) for name, t in tokenizer.special_tokens_map.items()}
    settings = {name: getattr(tokenizer, name) for name in _SETTINGS}
    return {"hugging_face": backend.to_str(), "special": special, **settings}


def _built(stored: Mapping[str, Any]) -> Any:
    library, inner = extra("transformers", "text"), extra("tokenizers", "text")
    try:
        backend = inner.Tokenizer.from_str(stored["hugging_face"])
    except Exception as error:  # of a kind that the library does not export
        raise ValueError(f"tokenizer must be one of Hugging Face: {error}") from error
    return library.PreTrainedTokenizerFast(
        tokenizer_object=backend,
        **{str(name): str(token) for name, token in stored["special"].items()},
        **{name: stored[name] for name in _SETTINGS},
    )


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
        if tokenizer is None:
            parts = [[text] if isinstance(text, str) else text for text in texts]
            words = (word for part in parts for word in part)
            tokenizer = Tokenizer.build(words, vocabulary)
        inputs = tokenizer.batch(texts, length)
        super().__init__(inputs, torch.as_tensor(targets), classes=classes)
        object.__setattr__(self, "tokenizer", tokenizer)
        object.__setattr__(self, "length", length)
