"""Which samples members disagree on, for a reader to look at."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self, final

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui.core.checks import class_indices, require
from tepui.core.text import ShownInNotebooks, listed
from tepui.data.labels import class_names
from tepui.data.loading import at_rows
from tepui.tasks import Prediction


@final
@dataclass(frozen=True, eq=False, repr=False)
class Disagreements(ShownInNotebooks):
    """The samples that members disagree on most, the most disputed first.

    It prints a line for each, and notebooks show them if they are images.

    Attributes:
        data: The samples that were looked at.
        rows: The places of those disputed most, ``(samples,)``.
        labels: Their true classes, -1 if they are not known, ``(samples,)``.
        chosen: The classes that the ensemble names, ``(samples,)``.
        answers: Those that each member names, ``(members, samples)``.
        probs: Each member's probability of its answer, ``(members, samples)``.
        by_class: How many samples there are of each class, and on how many of these any
            two members differ, ``(2, classes)``. Of samples without a label the class
            is what the ensemble names.
        names: Names of the classes, or their numbers.
        texts: What the samples say, as far as their tokens tell; empty if they are no
            texts.

    Example:
        >>> import tepui
        >>> data = tepui.data.Arrays(torch.eye(2), torch.arange(2))
        >>> model = lambda: torch.nn.Linear(2, 2, bias=False)
        >>> ensemble = tepui.Ensemble.build(model, members=2)
        >>> for member, sign in zip(ensemble.members, (1, -1), strict=True):
        ...     _ = member.load_state_dict({"weight": sign * torch.eye(2)})
        >>> print(ensemble.disagreements(data))
        members differ on 2 of 2 samples (0: 1 of 1, 1: 1 of 1)
          0, a 0: 0 (0 0.73, 1 0.73)
          1, a 1: 0 (1 0.73, 0 0.73)
    """

    data: Dataset[Any]
    rows: Tensor
    labels: Tensor
    chosen: Tensor
    answers: Tensor
    probs: Tensor
    by_class: Tensor
    names: Sequence[str]
    texts: Sequence[str]

    @classmethod
    def of(
        cls, data: Dataset[Any], predicted: Prediction, labels: Tensor, count: int
    ) -> Self:
        """Return what is disputed most of some data, whose prediction is known.

        Args:
            data: The samples.
            predicted: What members say of all of them.
            labels: Their classes, negative without one.
            count: How many samples at most.
        """
        found: Any = predicted
        classes = found.task.choices(tuple(found.outputs.shape))
        require(count > 0, "count", "be positive", count)
        require(found.members > 1, "ensemble", "have two members or more", 1)
        rule = "choose one class for each sample"
        require(classes is not None, "ensemble", rule, str(found.task))
        probs, answers = found.outputs.softmax(-1).max(-1)
        differ = (answers != answers[0]).any(0)
        disputed = found.epistemic.where(differ, -1)
        rows = disputed.topk(min(count, int(differ.sum()))).indices
        of_class = labels.long().where(labels >= 0, found.labels)
        class_indices(of_class, classes, "labels of data")
        both = of_class, of_class[differ]
        counts = torch.stack([of.bincount(minlength=classes) for of in both])
        known = labels[rows].long().clamp(min=-1)
        shown = found.labels[rows], answers[:, rows], probs[:, rows], counts
        named = class_names(data)
        names = named if len(named) == classes else [*map(str, range(classes))]
        tokenizer, texts = getattr(data, "tokenizer", None), []
        if tokenizer is not None:
            read: Any = next(at_rows(data, [rows], device=torch.device("cpu"))).inputs
            texts = [tokenizer.decode(ids) for ids in read["input_ids"].tolist()]
        return cls(data, rows, known, *shown, names, texts)

    def __repr__(self) -> str:
        (every, own), (count, differ) = self.by_class.tolist(), self.by_class.sum(1)
        order = self.by_class[1].argsort(descending=True, stable=True)[:10].tolist()
        of = [f"{self.names[c]}: {own[c]} of {every[c]}" for c in order if own[c]]
        first = f"members differ on {differ} of {count} samples"
        rows = [f"{n}, a {c}: {it} ({', '.join(by)})" for n, c, it, *by in self.table]
        return f"{first} ({', '.join(of)}){listed(rows)}" if of else first

    @property
    def table(self) -> list[list[str]]:
        """A row for each sample: its place, label, answer, members' answers, text."""
        named, rows = [*self.names, "?"], []  # -1 is the last
        for at, row in enumerate(self.rows.tolist()):
            pair = named[int(self.labels[at])], named[int(self.chosen[at])]
            answers, probs = self.answers.T[at].tolist(), self.probs.T[at].tolist()
            said = zip(answers, probs, strict=True)
            members = [f"{named[answer]} {prob:.2f}" for answer, prob in said]
            rows.append([str(row), *pair, *members, *self.texts[at : at + 1]])
        return rows
