r"""One prediction from several members: soups, and all ways beside each other.

Members' predictions can be combined, their weights averaged, or one of them chosen.
Choosing by the test labels is a bound and not a method, so its results are called
oracles. A model soup is one model whose weights are the mean of several members'.

.. math:: \theta = \frac{1}{|S|} \sum_{m \in S} \theta_m

The uniform soup takes all members. The greedy soup starts from the member that is best
on held-out data and goes through the others from best to worst; one joins if that
makes the mean of the weights strictly more accurate there.

A soup costs as much to run as one member. It is meaningful only where members started
from the same weights, such as copies of a pretrained head: the hidden units of networks
from independent starts do not correspond to each other.

Counters and other integers are copied from the first member. BatchNorm's statistics
are not averaged but estimated anew on training data.

References:
    Wortsman et al. (2022), Model soups: averaging weights of multiple fine-tuned models
    improves accuracy without increasing inference time, ICML. The greedy soup there
    also takes a member that leaves the accuracy as it is.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, get_args

import torch
from torch import Tensor
from torch.utils.data import Dataset

from tepui import metrics
from tepui.core.checks import require
from tepui.core.storage import same_bits
from tepui.core.types import check_types
from tepui.data.labels import class_names, same_classes
from tepui.ensembles.ensemble import Ensemble
from tepui.ensembles.outputs import dataset_logits
from tepui.metrics import Rule
from tepui.modules.running import reestimate_batchnorm, trained_batchnorms
from tepui.modules.state import tensor_state
from tepui.tasks.base import require_classes


def mean_state(states: Sequence[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    """Return the mean of several state dicts, added up in 64 bits.

    Example:
        >>> first = {"w": torch.tensor([1.0, 2.0]), "steps": torch.tensor(3)}
        >>> second = {"w": torch.tensor([3.0, 2.0]), "steps": torch.tensor(9)}
        >>> mean_state([first, second])
        {'w': tensor([2., 2.]), 'steps': tensor(3)}
    """
    require(len(states) > 0, "states", "hold at least one", 0)
    return {name: _mean(name, [state[name] for state in states]) for name in states[0]}


def _mean(name: str, tensors: list[Tensor]) -> Tensor:
    first = tensors[0]
    if first.dtype == torch.bool:
        alike = all(torch.equal(first, other) for other in tensors)
        require(alike, f"mask {name!r}", "be the same in all members", "another")
    if not first.is_floating_point():
        return first.clone()
    total = torch.zeros_like(first, dtype=torch.float64)
    for tensor in tensors:
        total += tensor
    return (total / len(tensors)).to(first.dtype)


def uniform_soup(
    ensemble: Ensemble, *, statistics: Dataset[Any] | None = None
) -> Ensemble:
    """Return the mean of all members, as an ensemble of one.

    Args:
        ensemble: Members of one architecture; left as they were. Heads on a shared
            extractor are averaged, the extractor stays shared.
        statistics: Training data, not augmented, on which BatchNorm's statistics are
            estimated anew; needed only where members train such layers.

    Returns:
        An ensemble whose one member is the soup, where the members lie.

    Raises:
        ValueError: If members differ in architecture, or ``statistics`` is missing.

    Example:
        >>> from torch import nn
        >>> ensemble = Ensemble.build(lambda: nn.Linear(4, 3), members=5)
        >>> x = torch.randn(2, 4)
        >>> soup = uniform_soup(ensemble)  # of linear models: the mean of their logits
        >>> torch.allclose(soup.logits(x)[0], ensemble.logits(x).mean(0), atol=1e-6)
        True
    """
    check_types(uniform_soup, locals())
    _check_alike(ensemble)
    return _soup(ensemble, range(len(ensemble)), statistics)


@dataclass(frozen=True, eq=False)
class GreedySoup:
    """A greedy soup and what went into it.

    Attributes:
        ensemble: An ensemble whose one member is the soup.
        ingredients: The members that were taken, in that order.
        accuracies: Held-out accuracy after each of them; strictly rising.
    """

    ensemble: Ensemble
    ingredients: tuple[int, ...]
    accuracies: tuple[float, ...]


def greedy_soup(
    ensemble: Ensemble,
    held_out: Dataset[Any],
    *,
    statistics: Dataset[Any] | None = None,
    batch_size: int = 1024,
) -> GreedySoup:
    """Average members as long as that raises the accuracy on held-out data.

    Heads on a shared extractor are quicker averaged as ``ensemble.heads`` on its cached
    features.

    Args:
        ensemble: Members of one architecture; left as they were.
        held_out: Data that neither trained the members nor will judge the soup.
        statistics: As for :func:`uniform_soup`.
        batch_size: Samples that go through a member at once.

    Returns:
        The soup; of equally accurate members the first comes first.

    Raises:
        ValueError: If members differ in architecture or do not choose between classes,
            or ``statistics`` is missing.

    Example:
        >>> from torch import nn
        >>> from tepui.data import Arrays
        >>> ensemble = Ensemble.build(lambda: nn.Linear(4, 3), members=5)
        >>> data = Arrays(torch.randn(30, 4), torch.arange(30) % 3)
        >>> soup = greedy_soup(ensemble, data)
        >>> 1 <= len(soup.ingredients) <= 5
        True
    """
    check_types(greedy_soup, locals())
    require_classes(ensemble.task, "the accuracy that a greedy soup raises")
    _check_alike(ensemble)
    alone = metrics.individual_accuracy(*dataset_logits(ensemble, held_out, batch_size))
    first, *rest = alone.argsort(descending=True, stable=True).tolist()
    taken, accuracies = [first], [float(alone[first])]
    soup = _soup(ensemble, taken, statistics)
    for member in rest:
        candidate = _soup(ensemble, [*taken, member], statistics)
        logits, labels = dataset_logits(candidate, held_out, batch_size)
        accuracy = float(metrics.accuracy(logits, labels))
        if accuracy > accuracies[-1]:
            soup = candidate
            taken.append(member)
            accuracies.append(accuracy)
    return GreedySoup(soup, tuple(taken), tuple(accuracies))


def _soup(
    ensemble: Ensemble, chosen: Sequence[int], statistics: Dataset[Any] | None
) -> Ensemble:
    heads = ensemble.heads.members
    states = [tensor_state(heads[index]) for index in chosen]
    mean = mean_state(states)
    module = deepcopy(heads[chosen[0]])
    module.load_state_dict(mean)
    soup = Ensemble([module], [ensemble.seeds[chosen[0]]], ensemble.extractor)
    soup.task, soup.preparation = ensemble.task, ensemble.preparation
    norms = trained_batchnorms(module)
    # The mean of equal members is that member, whose statistics are right.
    if norms and not same_bits(mean, states[0]):
        if statistics is None:
            raise ValueError(
                "statistics must be training data, since the mean of the weights has "
                f"{len(norms)} BatchNorm layer(s) to estimate anew, got None"
            )
        reestimate_batchnorm(soup, statistics)
    return soup


def _check_alike(ensemble: Ensemble) -> None:
    """Raise unless the members' weights correspond to each other."""
    first, *others = ensemble.heads.members
    for index, other in enumerate(others, start=1):
        alike = (type(other), repr(other)) == (type(first), repr(first))
        rule = f"have the architecture of member 0 ({type(first).__name__})"
        require(alike, f"member {index}", rule, type(other).__name__)


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


def aggregations(
    ensemble: Ensemble,
    dataset: Dataset[Any],
    *,
    soups: bool = True,
    held_out: Dataset[Any] | None = None,
    statistics: Dataset[Any] | None = None,
    batch_size: int = 1024,
) -> tuple[Aggregated, ...]:
    """Compare all ways to combine the members of an ensemble on test data.

    Args:
        ensemble: The members, on the device they are on; left unchanged.
        dataset: Labeled test data.
        soups: Whether to average weights too; members must be of one architecture.
        held_out: Data on which the greedy soup chooses; None leaves that soup out.
        statistics: Training data for BatchNorm's statistics, where a soup needs them.
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
    if held_out is not None:
        names = class_names(held_out), class_names(dataset)
        same_classes("held_out", *names, "dataset")
    logits, labels = dataset_logits(ensemble, dataset, batch_size)
    alone = metrics.individual_accuracy(logits, labels)
    rows = [Aggregated("mean of the members", float(alone.mean()))]
    for rule in get_args(Rule):
        accuracy = metrics.accuracy(logits, labels, rule=rule)
        rows.append(Aggregated(f"ensemble, {rule}", float(accuracy)))
    soup_of: dict[str, Ensemble] = {}
    if soups:
        soup_of["uniform soup"] = uniform_soup(ensemble, statistics=statistics)
    if soups and held_out is not None:
        how: Any = {"statistics": statistics, "batch_size": batch_size}
        soup_of["greedy soup"] = greedy_soup(ensemble, held_out, **how).ensemble
    for way, soup in soup_of.items():
        accuracy = metrics.accuracy(*dataset_logits(soup, dataset, batch_size))
        rows.append(Aggregated(way, float(accuracy)))
    best = oracle_selection(logits, labels)
    return (*rows, Aggregated("best member", best.accuracy, oracle=True))
