"""One prediction from several members: all ways to combine them, side by side.

Members' predictions can be combined, their weights averaged
(:mod:`tepui.evaluation.soup`), or one of them chosen. Choosing by the test labels is a
bound and not a method, so its results are called oracles.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, get_args

from torch import Tensor
from torch.utils.data import Dataset

from tepui import metrics
from tepui.core.types import check_types
from tepui.data.labels import class_names, same_classes
from tepui.ensembles.ensemble import Ensemble
from tepui.evaluation.dataset_logits import dataset_logits
from tepui.evaluation.soup import greedy_soup, uniform_soup
from tepui.metrics import Rule
from tepui.tasks.base import require_classes


@dataclass(frozen=True)
class OracleSelection:
    """The member that is best on the labels it is judged by.

    An upper bound on choosing a single member, not a method: nobody has these labels
    when choosing.

    Attributes:
        member: Which member; the first of equally accurate ones.
        accuracy: Its accuracy on those labels.
    """

    member: int
    accuracy: float


def oracle_selection(logits: Tensor, labels: Tensor) -> OracleSelection:
    """Choose the member that is best on the test labels themselves.

    Args:
        logits: Logits of shape ``(members, samples, classes)``.
        labels: Class indices of shape ``(samples,)``.

    Returns:
        The member and its accuracy, marked as an oracle by their type.

    Example:
        >>> import torch
        >>> logits = torch.tensor([[[1.0, 0.0]], [[0.0, 1.0]]])
        >>> oracle_selection(logits, torch.tensor([1]))
        OracleSelection(member=1, accuracy=1.0)
    """
    check_types(oracle_selection, locals())
    accuracies = metrics.individual_accuracy(logits, labels)
    best = int(accuracies.argmax())
    return OracleSelection(best, float(accuracies[best]))


@dataclass(frozen=True)
class Aggregated:
    """How accurate one way of combining members is.

    Attributes:
        way: Its name.
        accuracy: Accuracy on the test data.
        oracle: Whether it uses the test labels, which no method may.
    """

    way: str
    accuracy: float
    oracle: bool = False

    @property
    def label(self) -> str:
        """The name as tables show it, which marks an oracle."""
        return f"{self.way} (oracle: sees test labels)" if self.oracle else self.way

    def document(self) -> dict[str, Any]:
        """Return the row for JSON."""
        return asdict(self)


def aggregations(
    ensemble: Ensemble,
    dataset: Dataset[Any],
    *,
    soups: bool = True,
    held_out: Dataset[Any] | None = None,
    statistics: Dataset[Any] | None = None,
    mask: Tensor | None = None,
    batch_size: int = 1024,
) -> tuple[Aggregated, ...]:
    """Compare all ways to combine the members of an ensemble on test data.

    Args:
        ensemble: The members, on the device they are on; left unchanged.
        dataset: Labeled test data.
        soups: Whether to average weights too; members must be of one architecture.
        held_out: Data on which the greedy soup chooses; None leaves that soup out.
        statistics: Training data for BatchNorm's statistics, where a soup needs them.
        mask: Which of the classes the data hold. Logits are then restricted to these,
            which is the usual protocol, and the released :func:`subset_vote
            <tepui.metrics.subset_vote>` gets a row of its own.
        batch_size: Samples that go through a member at once.

    Returns:
        The members' mean accuracy, then one row for each way.

    Raises:
        ValueError: If members do not choose between classes.

    Example:
        >>> import torch
        >>> from tepui.data import Arrays
        >>> ensemble = Ensemble.build(lambda: torch.nn.Linear(4, 3), members=2)
        >>> data = Arrays(torch.randn(30, 4), torch.arange(30) % 3)
        >>> for row in aggregations(ensemble, data):
        ...     print(row.label)
        mean of the members
        ensemble, probability
        ensemble, logit
        ensemble, vote
        uniform soup
        best member (oracle: sees test labels)
    """
    check_types(aggregations, locals())
    require_classes(ensemble.task, "the accuracy of ways to combine members")
    if held_out is not None:
        names = class_names(held_out), class_names(dataset)
        same_classes("held_out", *names, "dataset")
    soup_of: dict[str, Ensemble] = {}
    if soups:
        soup_of["uniform soup"] = uniform_soup(ensemble, statistics=statistics)
    if soups and held_out is not None:
        greedy = greedy_soup(
            ensemble, held_out, statistics=statistics, batch_size=batch_size
        )
        soup_of["greedy soup"] = greedy.ensemble
    rows = list(_of_logits(*dataset_logits(ensemble, dataset, batch_size), mask))
    for way, soup in soup_of.items():
        logits, labels = _inside(*dataset_logits(soup, dataset, batch_size), mask)
        rows.insert(-1, Aggregated(way, float(metrics.accuracy(logits, labels))))
    return tuple(rows)


def _of_logits(
    logits: Tensor, labels: Tensor, mask: Tensor | None
) -> Iterator[Aggregated]:
    inside, numbered = _inside(logits, labels, mask)
    mean = metrics.individual_accuracy(inside, numbered).mean()
    yield Aggregated("mean of the members", float(mean))
    for rule in get_args(Rule):
        accuracy = metrics.accuracy(inside, numbered, rule=rule)
        yield Aggregated(f"ensemble, {rule}", float(accuracy))
    if mask is not None:
        accuracy = metrics.subset_accuracy(
            logits, labels, mask.to(logits.device), protocol="subset_vote"
        )
        yield Aggregated("ensemble, subset vote", float(accuracy))
    best = oracle_selection(inside, numbered)
    yield Aggregated("best member", best.accuracy, oracle=True)


def _inside(
    logits: Tensor, labels: Tensor, mask: Tensor | None
) -> tuple[Tensor, Tensor]:
    if mask is None:
        return logits, labels
    return metrics.restrict_classes(logits, labels, mask.to(logits.device))
