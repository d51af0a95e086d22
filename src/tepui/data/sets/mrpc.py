"""The Microsoft Research Paraphrase Corpus: do two sentences mean the same?

A file of tab-separated text, 4076 training pairs from the news. Of these, 408 are held
out, on which papers report: those whose ids were published (two per line in GLUE's
``dev_ids.tsv``) if they lie beside the pairs, otherwise a fixed random choice.

References:
    Dolan and Brockett (2005), Automatically Constructing a Corpus of Sentential
    Paraphrases, IWP.
"""

from pathlib import Path
from typing import ClassVar, NamedTuple, final

import torch

from tepui.core.checks import require
from tepui.core.seeding import generator
from tepui.core.storage import read_text
from tepui.data.published import Origin, located, require_file
from tepui.data.texts import HuggingFaceTokenizer, Texts, Tokenizer

FILE = "msr_paraphrase_train.txt"
PAIRS, VALIDATION = 4076, 408
IDS = "dev_ids.tsv"
_COLUMNS = ["Quality", "#1 ID", "#2 ID", "#1 String", "#2 String"]


class _Pair(NamedTuple):
    label: int
    ids: tuple[int, int]
    first: str
    second: str


@final
class MRPC(Texts):
    """MRPC, 4076 pairs of sentences, paraphrases or not.

    Inputs are a dict of ``input_ids``, ``attention_mask`` and ``token_type_ids`` of
    shape ``(pairs, tokens)``; the label is 1 for a paraphrase. The vocabulary comes
    from the 3668 training pairs, whichever part is asked for.

    Args:
        root: The data folder, or the set's own; see :mod:`tepui.data.published`.
        train: The 3668 training pairs if true, else the 408 validation pairs.
        download: Has no effect: the set must be placed by hand, since nobody publishes
            a hash.
        vocabulary: The largest number of different tokens.
        length: The largest number of tokens in a pair.
        tokenizer: Name or folder of a Hugging Face tokenizer to use instead of tepui's.

    Attributes:
        tokenizer: What turned the sentences into numbers; it encodes new ones too.
        length: The largest number of tokens in a pair.

    Raises:
        FileNotFoundError: If a file is missing; the message says how to get it.
        ValueError: If a file is truncated or foreign.
    """

    origin: ClassVar[Origin] = Origin(
        folders=("mrpc", "MRPC"),
        by_hand=f"Place {FILE} of the Microsoft Research Paraphrase Corpus in a folder "
        "mrpc.",
    )

    def __init__(
        self,
        root: str | Path | None = None,
        train: bool = True,
        download: bool = False,
        vocabulary: int = 8192,
        length: int = 128,
        tokenizer: str | None = None,
    ) -> None:
        folder = located("MRPC", self.origin, root, download)
        kept, held_out = _divided(_read(folder / FILE), folder / IDS)
        if tokenizer is None:
            texts = (text for pair in kept for text in (pair.first, pair.second))
            words: Tokenizer | HuggingFaceTokenizer = Tokenizer.build(texts, vocabulary)
        else:
            words = HuggingFaceTokenizer(tokenizer)
        pairs = kept if train else held_out
        super().__init__(
            [(pair.first, pair.second) for pair in pairs],
            [pair.label for pair in pairs],
            tokenizer=words,
            length=length,
            classes=("different", "paraphrase"),
        )


def _read(path: Path) -> list[_Pair]:
    require_file(path)
    header, *lines = read_text(path).splitlines() or [""]
    columns = header.split("\t")
    require(columns == _COLUMNS, f"first line of {path}", f"be {_COLUMNS}", columns)
    numbered = enumerate(lines, start=2)
    pairs = [_pair(line, f"line {number} of {path}") for number, line in numbered]
    require(len(pairs) == PAIRS, str(path), f"hold {PAIRS} pairs", len(pairs))
    return pairs


def _pair(line: str, place: str) -> _Pair:
    fields = line.split("\t")
    fits = len(fields) == 5 and fields[0] in ("0", "1")
    fits = fits and fields[1].isdecimal() and fields[2].isdecimal()
    rule = "hold a label 0 or 1, two ids and two sentences, separated by tabs"
    require(fits, place, rule, line[:60])
    label, first_id, second_id = map(int, fields[:3])
    return _Pair(label, (first_id, second_id), fields[3].strip(), fields[4].strip())


def _divided(pairs: list[_Pair], path: Path) -> tuple[list[_Pair], list[_Pair]]:
    """Return the training and the validation pairs, each in the order of the file."""
    if path.exists():
        rows = _published(pairs, path)
    else:
        stream = generator(0, "mrpc", "validation")
        rows = set(torch.randperm(len(pairs), generator=stream)[:VALIDATION].tolist())
    kept = [pair for row, pair in enumerate(pairs) if row not in rows]
    return kept, [pair for row, pair in enumerate(pairs) if row in rows]


def _published(pairs: list[_Pair], path: Path) -> set[int]:
    require_file(path)
    row_of: dict[tuple[int, ...], int] = {p.ids: row for row, p in enumerate(pairs)}
    rows = set()
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        ids = tuple(int(part) for part in line.split() if part.isdecimal())
        place = f"line {number} of {path}"
        require(ids in row_of, place, "hold the two ids of a training pair", line[:60])
        rows.add(row_of[ids])
    require(len(rows) == VALIDATION, str(path), f"name {VALIDATION} pairs", len(rows))
    return rows
