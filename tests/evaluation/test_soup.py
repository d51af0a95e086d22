"""Soups: means of weights, against a loop over tensors and members."""

from copy import deepcopy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import tepui
from strategies import modest
from tepui import Ensemble, metrics
from tepui.core.storage import same_bits
from tepui.ensembles.outputs import dataset_logits
from tepui.evaluation.combining import greedy_soup, mean_state, uniform_soup
from tepui.methods import DeepEnsemble
from tepui.modules.running import reestimate_batchnorm
from training.cases import (
    CLASSES,
    assert_same_bits,
    images,
    noisy_net,
    numbers,
    one_thread,
)

single = pytest.fixture(autouse=True)(one_thread)


def mlp():
    return nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, CLASSES))


def copies(module, members):
    return Ensemble([deepcopy(module) for _ in range(members)])


def from_one_start(members=4, factory=mlp, data=None):
    """Members that start from the same weights and part ways in training."""
    torch.manual_seed(0)
    ensemble = copies(factory(), members)
    data = numbers() if data is None else data
    tepui.fit(
        ensemble,
        data,
        method=DeepEnsemble(),
        epochs=2,
        batch_size=4,
        device="cpu",
        progress="none",
    )
    return ensemble


@modest
@given(st.integers(1, 6), st.sampled_from([torch.float32, torch.float64]))
def test_the_mean_is_that_of_a_loop(members, dtype):
    torch.manual_seed(members)
    states = [{"w": torch.randn(3, 2, dtype=dtype)} for _ in range(members)]
    total = torch.zeros(3, 2, dtype=torch.float64)
    for state in states:
        total = total + state["w"] / members
    actual = mean_state(states)["w"]
    assert actual.dtype == dtype
    torch.testing.assert_close(actual.double(), total, rtol=0, atol=1e-7)


def test_integers_are_copied_and_masks_must_agree():
    first = {"steps": torch.tensor(3), "w_mask": torch.tensor([True, False])}
    second = {"steps": torch.tensor(8), "w_mask": torch.tensor([True, False])}
    assert same_bits(mean_state([first, second]), first)
    second["w_mask"] = torch.tensor([True, True])
    with pytest.raises(ValueError, match=r"mask 'w_mask' must be the same in all"):
        mean_state([first, second])
    with pytest.raises(ValueError, match=r"states must hold at least one, got 0"):
        mean_state([])


@pytest.mark.parametrize("factory", [mlp, noisy_net])
@pytest.mark.parametrize("members", [1, 3])
def test_identical_members_give_the_member(factory, members):
    torch.manual_seed(0)
    module = factory()
    data = images() if factory is noisy_net else numbers()
    module(data.inputs)  # moves BatchNorm's statistics
    ensemble = copies(module, members)
    for soup in (uniform_soup(ensemble), greedy_soup(ensemble, data).ensemble):
        assert len(soup) == 1
        assert_same_bits(soup.members[0], module)
        assert soup.members[0] is not ensemble.members[0]
    assert greedy_soup(ensemble, data).ingredients == (0,)


def greedy_naive(ensemble, data):
    """From the definition, with a plain mean of parameters."""

    def averaged(chosen):
        module = mlp()
        states = [ensemble.members[index].state_dict() for index in chosen]
        module.load_state_dict(
            {n: torch.stack([s[n] for s in states]).mean(0) for n in states[0]}
        )
        return module

    def accuracy_of(module):
        return int((module(data.inputs).argmax(-1) == data.targets).sum())

    scores = [accuracy_of(member) for member in ensemble.members]
    order = sorted(range(len(scores)), key=lambda index: -scores[index])
    taken, best = [order[0]], scores[order[0]]
    for member in order[1:]:
        actual = accuracy_of(averaged([*taken, member]))
        if actual > best:
            taken, best = [*taken, member], actual
    return tuple(taken), best / len(data)


def test_a_greedy_soup_is_that_of_the_definition():
    lengths = set()
    for seed in range(12):
        torch.manual_seed(seed)
        start = mlp()
        ensemble = copies(start, 5)
        for member in ensemble.members:
            for parameter in member.parameters():
                parameter.data += 0.6 * torch.randn_like(parameter)
        data = numbers(60, seed=seed)
        soup = greedy_soup(ensemble, data)
        taken, best = greedy_naive(ensemble, data)
        assert soup.ingredients == taken
        assert soup.accuracies[-1] == pytest.approx(best)
        rising = zip(soup.accuracies, soup.accuracies[1:], strict=False)
        assert all(low < high for low, high in rising)
        logits, labels = dataset_logits(soup.ensemble, data)
        assert float(metrics.accuracy(logits, labels)) == pytest.approx(best)
        lengths.add(len(taken))
    assert len(lengths) > 1  # some members joined, some did not


def test_batchnorm_is_estimated_anew():
    ensemble = from_one_start(factory=noisy_net, data=images())
    with pytest.raises(ValueError, match=r"statistics must be training data.* 1 Bat"):
        uniform_soup(ensemble)
    with pytest.raises(ValueError, match=r"statistics must be training data"):
        greedy_soup(ensemble, images(seed=1))
    soup = uniform_soup(ensemble, statistics=images()).members[0]
    expected = deepcopy(soup)
    expected[2].running_mean.zero_()
    reestimate_batchnorm(expected, images())
    assert_same_bits(expected, soup)
    mean = torch.stack([m[2].running_mean for m in ensemble.members]).mean(0)
    assert not torch.allclose(soup[2].running_mean, mean, atol=1e-3)
    seen = soup[:2](images().inputs)
    torch.testing.assert_close(soup[2].running_mean, seen.mean(0))
    weight = torch.stack([m[1].weight for m in ensemble.members]).mean(0)
    torch.testing.assert_close(soup[1].weight, weight)


@pytest.mark.parametrize(
    "other",
    [
        nn.Sequential(nn.Linear(4, 7), nn.ReLU(), nn.Linear(7, CLASSES)),
        nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, CLASSES)),
        nn.Linear(4, CLASSES),
    ],
    ids=["width", "activation", "kind"],
)
def test_other_architectures_are_refused(other):
    ensemble = Ensemble([mlp(), mlp(), other])
    message = r"member 2 must have the architecture of member 0 \(Sequential\)"
    with pytest.raises(ValueError, match=message):
        uniform_soup(ensemble)
    with pytest.raises(ValueError, match=message):
        greedy_soup(ensemble, numbers())


@pytest.mark.parametrize("normalized", [False, True])
def test_heads_are_averaged_and_the_extractor_stays_shared(normalized):
    torch.manual_seed(0)
    extractor = nn.Sequential(nn.Linear(4, 6), nn.ReLU())
    norm = [nn.BatchNorm1d(6)] if normalized else []
    make = lambda: nn.Sequential(*deepcopy(norm), nn.Linear(6, CLASSES))  # noqa: E731
    ensemble = Ensemble.on_features(extractor, make, members=4)
    ensemble(numbers().inputs)
    data, train = numbers(60, seed=1), numbers() if normalized else None
    soup = uniform_soup(ensemble, statistics=train)
    assert soup.extractor is ensemble.extractor
    if not normalized:
        expected = ensemble.logits(data.inputs).mean(0)
        torch.testing.assert_close(soup.logits(data.inputs)[0], expected)
    greedy = greedy_soup(ensemble, data, statistics=train)
    assert greedy.ensemble.extractor is ensemble.extractor
    logits, labels = dataset_logits(greedy.ensemble, data)
    assert float(metrics.accuracy(logits, labels)) == greedy.accuracies[-1]
