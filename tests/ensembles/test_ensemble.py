"""Building ensembles, running them, and what they say together."""

import subprocess
import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import tepui
from strategies import RULES, modest
from tepui import Ensemble, metrics
from tepui.core.storage import same_bits

OF_HEIGHT = ["energy", "max_logit"]
SCORES = ["max_mean_probability", "pds", "entropy", "mutual_information"]
SCORES += [*OF_HEIGHT, "predictive_variance"]


def linear():
    return nn.Linear(4, 3)


def deep():
    return nn.Sequential(
        nn.Linear(4, 5), nn.BatchNorm1d(5), nn.Dropout(), nn.Linear(5, 3)
    )


def weights(module):
    return {name: value.clone() for name, value in module.state_dict().items()}


@modest
@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 2**40))
def test_adding_members_changes_no_other(members, more, seed):
    small = Ensemble.build(linear, members, seed)
    large = Ensemble.build(linear, members + more, seed)
    for one, other in zip(small.members, large.members, strict=False):
        assert same_bits(weights(one), weights(other))
    assert large.seeds[:members] == small.seeds


def test_building_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    Ensemble.build(deep, members=2)
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"factory": linear}, r"^members must be given unless"),
        ({"factory": linear, "members": 0}, r"^members must be positive, got 0"),
        ({"factory": linear, "members": -1}, r"^members must be positive, got -1"),
        (
            {"factory": [linear, deep], "members": 3},
            r"^factory must be one or 3, got 2",
        ),
        ({"factory": []}, r"^modules must hold at least one member, got 0"),
        ({"factory": linear, "members": 2, "seed": [1]}, r"one seed per member \(2\)"),
        ({"factory": [linear, deep], "seed": [1, 2, 3]}, r"one seed per member \(2\)"),
        ({"factory": linear, "seed": [5, 5]}, "^seed must differ between members"),
        ({"factory": lambda: 3, "members": 1}, "return an nn.Module, got 'int'"),
        ({"factory": linear(), "members": 2}, "got 'a module of type Linear'"),
    ],
)
def test_what_cannot_be_built_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Ensemble.build(**arguments)


def test_a_factory_that_returns_one_object_twice_is_refused():
    module = linear()
    with pytest.raises(ValueError, match=r"different objects \(call the factory once"):
        Ensemble.build(lambda: module, members=2)
    with pytest.raises(ValueError, match="different objects"):
        Ensemble([module, module])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_identical_weights_are_reported(dtype):
    def pretrained():
        module = linear().to(dtype)
        with torch.no_grad():
            module.weight.copy_(torch.arange(12).view_as(module.weight))
            module.bias.copy_(torch.arange(3))
        return module

    message = r"members \[0, 2\] start from identical weights"
    with pytest.warns(UserWarning, match=message):
        Ensemble.build([pretrained, linear, pretrained])


X = torch.randn(7, 4, generator=torch.Generator().manual_seed(0)).double()


@modest
@given(st.integers(1, 9))
def test_logits_do_not_depend_on_the_batch_size(batch_size):
    ensemble = Ensemble.build(deep, members=2).double()
    logits = ensemble.logits(X, batch_size=batch_size)
    expected = torch.stack([member.eval()(X) for member in ensemble.members])
    assert logits.shape == (2, 7, 3)
    torch.testing.assert_close(logits, expected.detach(), rtol=1e-12, atol=1e-12)


@modest
@given(st.lists(st.booleans(), min_size=12, max_size=12))
def test_logits_are_of_eval_mode_and_leave_every_part_as_it_was(modes):
    ensemble = Ensemble.build([deep, deep], seed=0).double()
    parts = list(ensemble.modules())
    expected = ensemble.eval().logits(X)
    for part, training in zip(parts, modes, strict=True):
        part.training = training
    buffers = {name: value.clone() for name, value in ensemble.named_buffers()}
    assert torch.equal(ensemble.logits(X), expected)
    assert [part.training for part in parts] == modes
    assert same_bits(buffers, dict(ensemble.named_buffers()))


def test_logits_carry_no_gradient_and_forward_does():
    ensemble = Ensemble.build(linear, members=2).double()
    inputs = X.clone().requires_grad_()
    assert not ensemble.logits(inputs).requires_grad
    ensemble(inputs).sum().backward()
    assert all(p.grad is not None for p in ensemble.parameters())


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_logits_have_the_type_of_the_members(dtype):
    ensemble = Ensemble.build(linear, members=2).to(dtype)
    logits = ensemble.logits(X.to(dtype))
    assert logits.dtype is dtype
    assert logits.device == X.device
    assert ensemble.predict(X.to(dtype)).probs.dtype is (
        torch.float64 if dtype is torch.float64 else torch.float32
    )


def test_bad_calls_are_refused():
    ensemble = Ensemble.build(linear, members=2).double()
    with pytest.raises(ValueError, match=r"^batch_size must be positive, got 0"):
        ensemble.logits(X, batch_size=0)
    with pytest.raises(ValueError, match=r"one of probability, logit, vote, got 'med'"):
        ensemble.predict(X, rule="med")
    with pytest.raises(ValueError, match="at least one sample"):
        ensemble.predict(X[:0])
    with pytest.raises(ValueError, match=r"^outputs must not be NaN"):
        ensemble.predict(X * torch.nan)


def test_predict_runs_the_members_once_and_keeps_the_rule():
    ensemble = Ensemble.build(linear, members=3).double()
    for rule in RULES:
        out = ensemble.predict(X, rule=rule, batch_size=2)
        torch.testing.assert_close(out.logits, ensemble.logits(X))
        assert torch.equal(out.probs, metrics.ensemble_probs(out.logits, rule=rule))


def test_importing_tepui_brings_in_no_heavy_library():
    script = (
        "import sys, torch; before = set(sys.modules); import tepui\n"
        "print(*{name.partition('.')[0] for name in set(sys.modules) - before})"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    new = set(done.stdout.split())
    heavy = {"torchvision", "matplotlib", "sklearn", "scipy", "jsonargparse", "pooch"}
    assert tepui.__name__ in new
    assert new & (heavy | {"safetensors"}) == set()
