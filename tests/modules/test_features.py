"""Features on disk: equal to those computed anew, and never those of another."""

from dataclasses import replace

import pytest
import torch
from torch import nn

import tepui
from models.cases import built, data
from tepui import cached_features
from tepui.core.seeding import generator
from tepui.data import Arrays, HorizontalFlip, Normalize, RandomCrop
from tepui.data.augment import augment
from tepui.models import split_last_layers
from tepui.modules.features import Reading, features_key
from training.cases import (
    assert_same_bits,
    images,
    one_thread,
)

single = pytest.fixture(autouse=True)(one_thread)


class Hidden(nn.Module):
    """Computes what neither its text nor its weights show."""

    def __init__(self, power):
        super().__init__()
        self.power = power
        self.layer = nn.Linear(4, 3)

    def forward(self, x):
        return self.layer(x) ** self.power


def counted(extractor):
    calls = []
    extractor.register_forward_hook(lambda *_: calls.append(1))
    return calls


@pytest.mark.filterwarnings("ignore:members .* start from identical weights")
@pytest.mark.filterwarnings("ignore:member 0 may not have learned")
@pytest.mark.parametrize("name", ["ConvNet", "ViTTiny", "Albert", "WideResNet40x2"])
def test_cached_and_uncached_logits_are_equal(tmp_path, name):
    torch.manual_seed(0)
    split, samples = split_last_layers(built(name)), data(name, samples=10)
    ensemble = tepui.Ensemble.build(lambda: split.tail(fresh=True), members=2, seed=3)
    features = cached_features(split.extractor, samples, tmp_path)
    how = {"epochs": 2, "batch_size": 5, "device": "cpu", "progress": "none"}
    tepui.fit(ensemble, features, method=tepui.methods.SAM(), **how)
    again = cached_features(split.extractor, samples, tmp_path)
    logits = ensemble.logits(again.inputs)
    whole = tepui.Ensemble.build([split.whole] * 2, seed=[1, 2])
    for member, tail in zip(whole.members, ensemble.members, strict=True):
        member.classifier.load_state_dict(tail.classifier.state_dict())
    assert torch.equal(whole.logits(samples.inputs), logits)
    assert torch.equal(again.targets, samples.targets)


@pytest.mark.filterwarnings("ignore:members .* start from identical weights")
def test_training_on_a_cache_is_training_on_the_inputs(tmp_path):
    torch.manual_seed(0)
    split, samples = split_last_layers(built("MLP")), data("MLP", samples=8)
    how = {
        "method": tepui.methods.DeepEnsemble(),
        "epochs": 3,
        "batch_size": 8,
        "device": "cpu",
        "progress": "none",
    }
    whole = tepui.Ensemble.build(split.whole, members=2, seed=3)
    tails = tepui.Ensemble.build(split.tail, members=2, seed=3)
    tepui.fit(whole, samples, **how)
    tepui.fit(tails, cached_features(split.extractor, samples, tmp_path), **how)
    for member, tail in zip(whole.members, tails.members, strict=True):
        assert_same_bits(member.classifier, tail.classifier)


def test_a_cache_is_read_and_not_computed_again(tmp_path):
    extractor, samples = nn.Linear(4, 3), Arrays(torch.randn(9, 4), torch.arange(9))
    first = cached_features(extractor, samples, tmp_path, batch_size=2)
    calls = counted(extractor)
    again = cached_features(extractor, samples, tmp_path, batch_size=2)
    assert len(calls) == 1  # two samples, to see that the cache is this extractor's
    assert torch.equal(first.inputs, again.inputs)
    assert len(list(tmp_path.iterdir())) == 1


def other(**changed):
    values = {
        "inputs": images().inputs,
        "targets": images().targets,
        "normalize": Normalize((0.5,), (1.0,)),
        "classes": ("a", "b", "c"),
    }
    return Arrays(**{**values, **changed})


@pytest.mark.parametrize(
    "changed",
    [
        {"inputs": images(seed=1).inputs},
        {"inputs": images().inputs.double()},
        {"targets": images().targets.flip(0)},
        {"normalize": Normalize((0.4,), (1.0,))},
        {"normalize": None},
    ],
    ids=["images", "type", "targets", "normalization", "none"],
)
def test_other_data_have_another_key(changed):
    extractor = nn.Flatten()
    assert features_key(extractor, other()) != features_key(extractor, other(**changed))


def test_another_extractor_has_another_key():
    torch.manual_seed(0)
    samples = Arrays(torch.randn(3, 2, 8, 8), torch.arange(3))
    base = nn.Conv2d(2, 2, 3)
    keys = {features_key(base, samples)}
    stride = nn.Conv2d(2, 2, 3, stride=2)
    stride.load_state_dict(base.state_dict())
    keys.add(features_key(stride, samples))
    with torch.no_grad():
        base.weight[0, 0, 0, 0] += 1e-6
    keys.add(features_key(base, samples))
    assert len(keys) == 3


def test_what_a_key_cannot_see_is_found_on_reading(tmp_path):
    torch.manual_seed(0)
    samples = Arrays(torch.randn(5, 4), torch.arange(5))
    one, two = Hidden(1), Hidden(2)
    two.load_state_dict(one.state_dict())
    assert features_key(one, samples) == features_key(two, samples)
    cached_features(one, samples, tmp_path)
    with pytest.raises(ValueError, match=r"must hold the extractor's features"):
        cached_features(two, samples, tmp_path)


STEPS = (RandomCrop(padding=1), HorizontalFlip())


def test_augmented_passes_are_so_many_times_more_rows(tmp_path):
    samples = other()
    torch.manual_seed(0)
    extractor = nn.Sequential(nn.Flatten(), nn.Linear(16, 5))
    how = {"passes": 3, "augment": STEPS, "seed": 7}
    actual = cached_features(extractor, samples, tmp_path, batch_size=7, **how)
    assert actual.inputs.shape == (3 * 24, 5)
    assert torch.equal(actual.targets, samples.targets.repeat(3))
    assert actual.classes == samples.classes
    for number in range(3):
        stream = generator(7, "features", number)
        uniform = torch.rand(24, 3, generator=stream)
        expected = extractor(samples.prepare(augment(samples.inputs, STEPS, uniform)))
        rows = actual.inputs[24 * number : 24 * (number + 1)]
        torch.testing.assert_close(rows, expected)
    first, second, _ = actual.inputs.split(24)
    assert not torch.allclose(first, second)
    calls = counted(extractor)
    again = cached_features(extractor, samples, tmp_path, batch_size=5, **how)
    assert torch.equal(again.inputs, actual.inputs)
    assert len(calls) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"passes": 3},
        {"seed": 1},
        {"augmentations": STEPS[:1]},
        {"augmentations": (RandomCrop(padding=2), STEPS[1])},
        {"augmentations": STEPS[::-1]},
        {"passes": 1, "augmentations": ()},
    ],
    ids=["passes", "seed", "fewer", "option", "order", "none"],
)
def test_other_draws_have_another_key(changed):
    how = Reading(passes=2, augmentations=tuple(STEPS), seed=0)
    one = features_key(nn.Flatten(), other(), how)
    assert one != features_key(nn.Flatten(), other(), replace(how, **changed))
