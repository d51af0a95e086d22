"""Tokenizers of Hugging Face (the extra ``text``), by name or from a saved ensemble.

What a fast tokenizer does is data: a JSON text, without code. An ensemble that learned
from its numbers keeps this text.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self, final

from torch import Tensor

from tepui.core.checks import require
from tepui.core.extras import extra, known_by_name
from tepui.core.types import check_types

# What is not in the text itself, and decides what a batch looks like.
_SETTINGS = ("model_input_names", "padding_side", "truncation_side")


@final
class HuggingFaceTokenizer:
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

    def pairs(
        self, first: Sequence[str], second: Sequence[str], length: int = 128
    ) -> dict[str, Tensor]:
        """Return pairs of sentences as a text model expects them.

        Args:
            first: The first sentence of each pair.
            second: The second sentence of each pair.
            length: The largest number of tokens in one pair; longer pairs are cut.

        Returns:
            The tokenizer's tensors by name, as wide as the longest pair.
        """
        return self._encoded(list(first), list(second), length=length)

    def batch(
        self, texts: Sequence[str] | Sequence[tuple[str, str]], length: int = 128
    ) -> dict[str, Tensor]:
        """Return texts, or pairs of texts, as a text model expects them.

        Args:
            texts: Single texts, or pairs of them.
            length: The largest number of tokens in one of them; a longer one is cut.

        Returns:
            The tokenizer's tensors by name, as wide as the longest.

        Raises:
            ValueError: If there are none, or texts and pairs are mixed.
        """
        require(len(texts) > 0, "texts", "hold at least one text", 0)
        kinds = {isinstance(text, str) for text in texts}
        require(len(kinds) == 1, "texts", "be all texts or all pairs", "both")
        if kinds == {True}:
            return self._encoded(list(texts), length=length)
        first, second = zip(*texts, strict=True)
        return self.pairs(first, second, length)

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

    def _encoded(self, *texts: Any, length: int) -> dict[str, Tensor]:
        encoded = self.tokenizer(
            *texts,
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
