r"""Model soups: one model whose weights are the mean of several members'.

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
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import Dataset

from tepui import metrics
from tepui.core.checks import require
from tepui.core.storage import same_bits
from tepui.core.types import check_types
from tepui.ensembles.ensemble import Ensemble
from tepui.evaluation.dataset_logits import dataset_logits
from tepui.modules.features import features_of
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
    if ensemble.extractor is None:
        return _greedy(ensemble, held_out, statistics, batch_size)
    features = features_of(ensemble.extractor, held_out)
    if statistics is not None:
        statistics = features_of(ensemble.extractor, statistics)
    soup = _greedy(ensemble.heads, features, statistics, batch_size)
    head = soup.ensemble
    whole = Ensemble(head.members, head.seeds, ensemble.extractor, ensemble.task)
    whole.preparation = ensemble.preparation
    return replace(soup, ensemble=whole)


def _greedy(
    ensemble: Ensemble,
    held_out: Dataset[Any],
    statistics: Dataset[Any] | None,
    batch_size: int,
) -> GreedySoup:
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
        alike = _architecture(other) == _architecture(first)
        rule = f"have the architecture of member 0 ({type(first).__name__})"
        require(alike, f"member {index}", rule, type(other).__name__)


def _architecture(module: nn.Module) -> tuple[object, ...]:
    state = tensor_state(module)
    shapes = {name: (tensor.shape, tensor.dtype) for name, tensor in state.items()}
    return type(module), repr(module), shapes
